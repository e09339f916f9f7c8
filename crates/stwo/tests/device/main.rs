//! The backend against Stwo's own, on every device there is.

mod first;

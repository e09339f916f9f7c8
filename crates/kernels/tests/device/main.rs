//! Every operation against upstream's own function, on every available device: always emulated, and on CUDA if there is
//! a GPU. The tests are in modules named like those of the crate.

mod commit;
mod domain;
mod fri;
mod gkr;
mod hashes;
mod layout;
mod number;
mod open;
mod oracle;
mod support;
mod transform;
mod vector;

//! Every operation against upstream's own function, on every device there is: emulated always, CUDA too. The tests are in
//! rooms named as those of the crate.

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

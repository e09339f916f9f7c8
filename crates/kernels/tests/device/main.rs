//! Every operation against upstream's own function, on every device there is: emulated always, CUDA too.

mod elementwise;
mod fold;
mod grind;
mod hashes;
mod inverse;
mod merkle;
mod ntt;
mod opening;
mod oracle;
mod permute;
mod powers;
mod reduce;
mod rows;
mod scan;
mod selectors;
mod support;

//! Every operation against upstream's own function, on every device there is: emulated always, CUDA too.

mod circle;
mod circle_domain;
mod circle_fold;
mod circle_opening;
mod circle_order;
mod circle_quotients;
mod elementwise;
mod fold;
mod gather;
mod grind;
mod hashes;
mod inverse;
mod matmul;
mod merkle;
mod multilinear;
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

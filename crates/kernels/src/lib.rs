//! Operations for STARK provers on the device.
//!
//! Each operation is one pair of files: the kernels in `cuda/`, written over a field type, and their typed launcher
//! here. Matrices are column-major; an extension column is as many neighbouring base columns as its degree.
//!
//! ```
//! use rigel_gpu::{Device, Selector};
//! use rigel_kernels::field::{Field, KoalaBear};
//! use rigel_kernels::hash::KeccakSponge;
//! use rigel_kernels::merkle::MerkleTree;
//! use rigel_kernels::ntt::{self, Order};
//! use rigel_kernels::{Columns, Matrix};
//!
//! # fn main() -> rigel_gpu::Result<()> {
//! let device = Device::open(Selector::Emulated(0))?; // or Device::from_env()
//! let stream = device.compute()?;
//!
//! // A trace of 16 rows and 3 columns, column after column.
//! let trace: Vec<KoalaBear> = (0..48).map(KoalaBear::from_u64).collect();
//! let trace = Matrix::upload(&stream, &trace, 16)?;
//!
//! // Its low-degree extension to twice the rows on a coset, and a Merkle tree over the rows.
//! let extended = ntt::extend(&stream, &trace, 1, KoalaBear::GENERATOR, Order::Natural, Order::BitReversed)?;
//! let tree = MerkleTree::<KeccakSponge>::new(&stream, &[Columns::from(&extended)])?;
//! assert_eq!(tree.cap(&stream, 2)?.len(), 4);
//! # Ok(())
//! # }
//! ```
//!
//! | what | where |
//! |---|---|
//! | fields and their extensions | [`field`], [`element`] |
//! | transforms and low-degree extension | [`ntt`] |
//! | circle transforms over Mersenne-31 | [`circle`] |
//! | hashes, rows, trees | [`hash`], [`rows`], [`merkle`] |
//! | transposition, bit reversal, gathering rows | [`permute`] |
//! | arithmetic, powers, inverses | [`elementwise`], [`powers`], [`mod@inverse`] |
//! | matrix products over any type | [`matmul`] |
//! | sums, dot products, prefix sums and products | [`reduce`], [`scan`] |
//! | selectors of a trace's rows | [`selectors`] |
//! | single values from many buffers | [`gather`] |
//! | multilinear polynomials, layers and sums of GKR | [`multilinear`] |
//! | openings outside the domain, FRI's folding, proof of work | [`opening`], [`mod@fold`], [`grind`] |
//! | circle domains: points, twiddles, order of values | [`circle_domain`], [`circle_order`] |
//! | openings, quotients and FRI's folding on them | [`circle_opening`], [`circle_quotients`], [`circle_fold`] |
//! | kernels of one's own over these fields | [`mod@source`] |

pub mod circle;
pub mod circle_domain;
pub mod circle_fold;
pub mod circle_opening;
pub mod circle_order;
pub mod circle_quotients;
mod columns;
pub mod element;
pub mod elementwise;
pub mod field;
pub mod fold;
pub mod gather;
mod grid;
pub mod grind;
pub mod hash;
pub mod inverse;
pub mod matmul;
mod matrix;
pub mod merkle;
pub mod multilinear;
pub mod ntt;
pub mod opening;
pub mod permute;
pub mod powers;
pub mod reduce;
mod roots;
pub mod rows;
pub mod scan;
pub mod selectors;
pub mod source;
mod warm;

pub use columns::Columns;
pub use matrix::Matrix;
pub use warm::warm;

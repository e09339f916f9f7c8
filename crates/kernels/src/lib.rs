//! Operations for STARK provers on the device.
//!
//! An operation is a pair of files in a module named after its subject: `fold.cu` holds the kernels, written over a
//! field type, and `fold.rs` beside it checks shapes and launches them. Matrices are column-major. A column of elements
//! of an extension of degree D is a *slab*: D adjacent columns over the base field, one per coefficient (see
//! [`layout::slab`]).
//!
//! ```
//! use rigel_gpu::{Device, Selector};
//! use rigel_kernels::field::{Field, KoalaBear};
//! use rigel_kernels::hash::KeccakSponge;
//! use rigel_kernels::commit::merkle::MerkleTree;
//! use rigel_kernels::transform::ntt::{self, Order};
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
//! let tree = MerkleTree::<KeccakSponge>::new(&stream, &[Columns::from(&extended)], 0)?;
//! assert_eq!(tree.cap(&stream, 2)?.len(), 4);
//! # Ok(())
//! # }
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`field`] | fields and their extensions, on the host and on the device |
//! | [`code`] | kernel source, the launch parameters that it shares with Rust, compiled kernels |
//! | [`layout`] | matrices and columns in memory; transposition, bit reversal, gathering |
//! | [`hash`] | Keccak, Poseidon2, Blake2s |
//! | [`vector`] | arithmetic, powers, inverses, sums and scans of columns |
//! | [`number`] | arithmetic and matrix products over all array element types |
//! | [`domain`] | points, twiddles and selectors of cosets and circle domains |
//! | [`transform`] | number-theoretic and circle transforms, low-degree extension |
//! | [`commit`] | digests of rows, Merkle trees |
//! | [`open`] | openings outside the domain and their quotients |
//! | [`fri`] | folding, proof of work |
//! | [`gkr`] | multilinear polynomials, GKR layers and sumcheck sums |
//!
//! A module imports only from modules above it in this table. [`registry`], which comes last, lists every operation.

pub mod code;
pub mod commit;
pub mod domain;
pub mod field;
pub mod fri;
pub mod gkr;
pub mod hash;
pub mod layout;
pub mod number;
pub mod open;
pub mod registry;
pub mod transform;
pub mod vector;

pub use layout::columns::Columns;
pub use layout::matrix::Matrix;
pub use registry::warm;

//! N-dimensional arrays of numbers and of finite-field elements, on the CPU and on GPUs.
//!
//! They follow NumPy: shapes broadcast, slices and transposes share memory, types are promoted. An array is on one
//! [`Device`], and its operations run there. It moves only when asked to ([`Array::to`]), and an operation can't
//! combine arrays of different devices. The API and the results are the same on every device.
//!
//! ```
//! use rigel_array::{Array, Device, Type};
//!
//! # fn main() -> rigel_array::Result<()> {
//! let device = Device::Cpu; // or Device::open("cuda:0")?, or "emulated"
//!
//! // Floats, as in NumPy.
//! let x = Array::linspace(0.0, 1.0, 5, &device)?;
//! let y = x.mul(&x)?.add(1.0)?.sqrt()?;
//! assert_eq!(y.index(&[0.into()])?.to_vec::<f64>()?, [1.0]);
//!
//! // A whole expression in one pass over memory; on a GPU, in one kernel.
//! let z = (x.lazy() * &y - 0.5).eval()?;
//! assert_eq!(z.shape(), [5]);
//!
//! // Field elements: a Reed-Solomon code word is the extension of its message.
//! let message = Array::arange(0, 8, 1, &device)?.astype(Type::Goldilocks)?;
//! let code = message.intt()?.ntt()?;
//! assert_eq!(code.eq(&message)?.to_bools()?, [true; 8]);
//! assert_eq!(message.lde(2, None)?.shape(), [32]);
//! # Ok(())
//! # }
//! ```
//!
//! | what | where |
//! |---|---|
//! | creating, indexing and joining arrays | [`Array`], [`Index`] |
//! | selecting by index arrays and masks, sorting, running sums | [`Array::pick`], [`Array::sort`], [`Array::cumsum`] |
//! | element-wise operations, eager or fused | [`Array`], [`Lazy`], [`Scalar`] |
//! | sums, products, minima, maxima, means | [`Axes`] |
//! | matrix products, and sums of products in general | [`Array::matmul`], [`matmul_engine`], [`Array::einsum`] |
//! | field inverses, transforms, extensions | [`Array::inverse`], [`Array::ntt`], [`Array::circle_ntt`], [`Array::lde`] |
//! | commitments and openings | [`MerkleTree`], [`Opening`], [`enum@Hash`], [`Array::merkle_root`] |
//! | matrices and polynomials over fields | [`Array::solve`], [`Array::det`], [`Array::poly_multiply`], [`Array::poly_interpolate`] |
//! | devices, synchronous and asynchronous copies | [`Device`], [`Array::to`], [`Array::send`], [`Pending`] |
//! | user kernels | [`Kernel`], [`Grid`], [`Argument`] |
//! | element types | [`Type`], [`Number`], [`Half`], [`Complex`], [`Complex64`], [`promote`] |

mod accumulate;
mod array;
mod circle;
mod cpu;
mod create;
mod device;
mod einsum;
mod error;
mod evaluate;
mod field;
mod format;
mod kernel;
mod layout;
mod lazy;
mod matmul;
mod matrix;
mod memory;
mod merkle;
mod operations;
mod pick;
mod polynomial;
mod reduce;
mod scalar;
mod transfer;
mod views;

pub use array::Array;
pub use device::Device;
pub use error::{Error, Result};
pub use kernel::{Argument, Grid, Kernel, OnCpu};
pub use layout::Index;
pub use lazy::Lazy;
pub use matmul::{MatmulEngine, matmul_engine};
pub use merkle::{Digest32, Hash, MerkleTree, Opening};
pub use pick::Pick;
pub use reduce::Axes;
pub use rigel_codegen::map::{Binary, Complex, Complex64, Half, Number, NumberKind, Reduction, Type, Unary};
pub use scalar::{Scalar, name, promote, type_named};
pub use transfer::Pending;

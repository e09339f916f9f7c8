//! Element-wise expressions over arrays of numbers and field elements, and reductions of them, each as one kernel.
//!
//! An [`Expression`] says what one element of the result is: inputs at the element's place, scalars, and operations on
//! them. It has a [`Type`] for every value and knows no shapes. Where an input's element lies for a place of the
//! result is a matter of strides, given at the launch: so slices, transposes and broadcasts are read in place.
//!
//! [`evaluate`] computes an expression at every place of a shape, [`reduce`] joins its values along some axes.

mod expression;
mod layout;
mod operation;
mod print;
mod print_reduction;
mod program;
mod reduce;
mod types;

pub use expression::{Expression, Id, Node};
pub use operation::{Binary, Reduction, Unary};
pub use program::{Operand, Scalar, Target, evaluate};
pub use reduce::reduce;
pub use types::{Complex, Complex64, Half, Number, NumberKind, Type};

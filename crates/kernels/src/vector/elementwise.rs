//! Element-wise arithmetic, out of place and in place.
//!
//! - [`add`], [`sub`], [`neg`]: `x + y`, `x - y`, `-x`; over an extension these act coefficient by coefficient, so they
//!   are defined on the base field only
//! - [`mul`]: `x y`
//! - [`scale`]: `a x`, for one element a
//! - [`combine`]: `a x + b y`, for two elements a and b
//!
//! Matrices have equal rows and columns; over an extension, columns are slabs (see [`crate::layout::slab`]). Each
//! operation is one launch that reads each operand and writes the result once, 16 bytes at a time if the number of rows
//! allows, and is therefore memory-bound: 12 bytes for a sum of 31-bit values, 8 for a negation.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::{Element, Field};
use crate::layout::grid::column_batches;
use crate::layout::matrix::Matrix;
use crate::layout::slab::element_columns;

/// `x + y`.
pub fn add<F: Field + Element<Base = F>>(stream: &Stream, x: &Matrix<F>, y: &Matrix<F>) -> Result<Matrix<F>> {
    Call::<F>::new("elementwise::add", Function::Add).out_of_place(stream, x, Some(y))
}

/// `x = x + y`.
pub fn add_assign<F: Field + Element<Base = F>>(stream: &Stream, x: &mut Matrix<F>, y: &Matrix<F>) -> Result<()> {
    Call::<F>::new("elementwise::add_assign", Function::Add).in_place(stream, x, Some(y))
}

/// `x - y`.
pub fn sub<F: Field + Element<Base = F>>(stream: &Stream, x: &Matrix<F>, y: &Matrix<F>) -> Result<Matrix<F>> {
    Call::<F>::new("elementwise::sub", Function::Sub).out_of_place(stream, x, Some(y))
}

/// `x = x - y`.
pub fn sub_assign<F: Field + Element<Base = F>>(stream: &Stream, x: &mut Matrix<F>, y: &Matrix<F>) -> Result<()> {
    Call::<F>::new("elementwise::sub_assign", Function::Sub).in_place(stream, x, Some(y))
}

/// `-x`.
pub fn neg<F: Field + Element<Base = F>>(stream: &Stream, x: &Matrix<F>) -> Result<Matrix<F>> {
    Call::<F>::new("elementwise::neg", Function::Neg).out_of_place(stream, x, None)
}

/// `x = -x`.
pub fn neg_assign<F: Field + Element<Base = F>>(stream: &Stream, x: &mut Matrix<F>) -> Result<()> {
    Call::<F>::new("elementwise::neg_assign", Function::Neg).in_place(stream, x, None)
}

/// `x y`, element by element.
pub fn mul<E: Element>(stream: &Stream, x: &Matrix<E::Base>, y: &Matrix<E::Base>) -> Result<Matrix<E::Base>> {
    Call::<E>::new("elementwise::mul", Function::Mul).out_of_place(stream, x, Some(y))
}

/// `x = x y`, element by element.
pub fn mul_assign<E: Element>(stream: &Stream, x: &mut Matrix<E::Base>, y: &Matrix<E::Base>) -> Result<()> {
    Call::<E>::new("elementwise::mul_assign", Function::Mul).in_place(stream, x, Some(y))
}

/// `a x`.
pub fn scale<E: Element>(stream: &Stream, x: &Matrix<E::Base>, a: E) -> Result<Matrix<E::Base>> {
    Call { a, ..Call::new("elementwise::scale", Function::Scale) }.out_of_place(stream, x, None)
}

/// `x = a x`.
pub fn scale_assign<E: Element>(stream: &Stream, x: &mut Matrix<E::Base>, a: E) -> Result<()> {
    Call { a, ..Call::new("elementwise::scale_assign", Function::Scale) }.in_place(stream, x, None)
}

/// `a x + b y`.
pub fn combine<E: Element>(
    stream: &Stream,
    a: E,
    x: &Matrix<E::Base>,
    b: E,
    y: &Matrix<E::Base>,
) -> Result<Matrix<E::Base>> {
    Call { a, b, ..Call::new("elementwise::combine", Function::Combine) }.out_of_place(stream, x, Some(y))
}

/// `x = a x + b y`.
pub fn combine_assign<E: Element>(
    stream: &Stream,
    a: E,
    x: &mut Matrix<E::Base>,
    b: E,
    y: &Matrix<E::Base>,
) -> Result<()> {
    Call { a, b, ..Call::new("elementwise::combine_assign", Function::Combine) }.in_place(stream, x, Some(y))
}

/// The operation, named as its type in `elementwise.cu`.
#[derive(Clone, Copy, Debug)]
enum Function {
    Mul,
    Scale,
    Combine,
    Add,
    Sub,
    Neg,
}

use Function::{Add, Combine, Mul, Neg, Scale, Sub};

impl Function {
    /// The operations that are compiled for elements of this degree.
    fn of_degree(degree: usize) -> &'static [Self] {
        if degree == 1 { &[Mul, Scale, Combine, Add, Sub, Neg] } else { &[Mul, Scale, Combine] }
    }
}

/// Threads per block.
const THREADS: u32 = 256;

/// An operation with its scalars.
struct Call<E> {
    name: &'static str,
    function: Function,
    a: E,
    b: E,
}

impl<E: Element> Call<E> {
    fn new(name: &'static str, function: Function) -> Self {
        Self { name, function, a: E::ZERO, b: E::ZERO }
    }

    fn out_of_place(
        &self,
        stream: &Stream,
        x: &Matrix<E::Base>,
        y: Option<&Matrix<E::Base>>,
    ) -> Result<Matrix<E::Base>> {
        self.check(x, y)?;
        let mut out = Matrix::alloc(stream, x.rows(), x.columns())?;
        self.launch(stream, &mut out, Some(x), y)?;
        Ok(out)
    }

    fn in_place(&self, stream: &Stream, x: &mut Matrix<E::Base>, y: Option<&Matrix<E::Base>>) -> Result<()> {
        self.check(x, y)?;
        self.launch(stream, x, None, y)
    }

    fn check(&self, x: &Matrix<E::Base>, y: Option<&Matrix<E::Base>>) -> Result<()> {
        element_columns::<E>(self.name, x)?;
        match y {
            Some(y) if (y.rows(), y.columns()) != (x.rows(), x.columns()) => Err(Error::shape(
                self.name,
                format!(
                    "matrices of {} x {} and {} x {}; they must have the same shape",
                    x.rows(),
                    x.columns(),
                    y.rows(),
                    y.columns()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Launches the kernel. Without an x, `out` is its own first operand.
    fn launch(
        &self,
        stream: &Stream,
        out: &mut Matrix<E::Base>,
        x: Option<&Matrix<E::Base>>,
        y: Option<&Matrix<E::Base>>,
    ) -> Result<()> {
        let kernel = &Elementwise::<E>::kernels(stream.device(), ())?[self.function as usize];
        let (rows, columns) = (out.rows(), out.columns());
        // Over a base field all columns are treated as one.
        let slab = if E::DEGREE == 1 { rows * columns } else { rows * E::DEGREE };
        let n = slab / E::DEGREE;
        let shape = Shape::cover(n.div_ceil(16 / size_of::<E::Base>()), THREADS)?;
        for batch in column_batches(rows * columns / slab) {
            let part = batch.start * slab..batch.end * slab;
            let x = x.map(|x| x.values().range(part.clone())).transpose()?;
            let y = y.map(|y| y.values().range(part.clone())).transpose()?;
            let out = out.values_mut().range_mut(part)?;
            kernel.launch(stream, shape.rows(batch.len() as u32), (out, x, y, n as u64, self.a, self.b))?;
        }
        Ok(())
    }
}

/// All operations for one element type.
pub(crate) struct Elementwise<E>(PhantomData<E>);

impl<E: Element> Operation for Elementwise<E> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "vector/elementwise.cu",
        text: include_str!("elementwise.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        let functions = Function::of_degree(E::DEGREE).iter();
        Instances::new(functions.map(|function| format!("elementwise<{}, {function:?}>", E::NAME)))
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}

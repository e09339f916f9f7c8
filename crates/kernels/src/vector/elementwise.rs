//! Element-wise arithmetic, out of place and in place.
//!
//! - [`add`], [`sub`], [`neg`]: `x + y`, `x - y`, `-x`; for an extension these work coefficient by coefficient, so
//!   they are functions of the base field alone
//! - [`mul`]: `x y`
//! - [`scale`]: `a x`, for one element a
//! - [`combine`]: `a x + b y`, for two elements a and b
//!
//! Matrices have equal rows and columns; over an extension, columns are slabs (see [`crate::field::element`]). Each
//! operation is one launch that reads each operand and writes the result once, 16 bytes at a time where the number
//! of rows allows, and so is limited by memory: 12 bytes for a sum of 31-bit values, 8 for its negation.

use std::marker::PhantomData;
use std::sync::Arc;

use rigel_gpu::{Device, Error, Kernel, Result, Shape, Stream};

use crate::code::source;
use crate::field::{Element, Field};
use crate::layout::grid::column_batches;
use crate::layout::matrix::Matrix;
use crate::layout::slab::element_columns;

/// `x + y`.
pub fn add<F: Field + Element<Base = F>>(stream: &Stream, x: &Matrix<F>, y: &Matrix<F>) -> Result<Matrix<F>> {
    Job::<F>::new("elementwise::add", Operation::Add).out_of_place(stream, x, Some(y))
}

/// `x = x + y`.
pub fn add_assign<F: Field + Element<Base = F>>(stream: &Stream, x: &mut Matrix<F>, y: &Matrix<F>) -> Result<()> {
    Job::<F>::new("elementwise::add_assign", Operation::Add).in_place(stream, x, Some(y))
}

/// `x - y`.
pub fn sub<F: Field + Element<Base = F>>(stream: &Stream, x: &Matrix<F>, y: &Matrix<F>) -> Result<Matrix<F>> {
    Job::<F>::new("elementwise::sub", Operation::Sub).out_of_place(stream, x, Some(y))
}

/// `x = x - y`.
pub fn sub_assign<F: Field + Element<Base = F>>(stream: &Stream, x: &mut Matrix<F>, y: &Matrix<F>) -> Result<()> {
    Job::<F>::new("elementwise::sub_assign", Operation::Sub).in_place(stream, x, Some(y))
}

/// `-x`.
pub fn neg<F: Field + Element<Base = F>>(stream: &Stream, x: &Matrix<F>) -> Result<Matrix<F>> {
    Job::<F>::new("elementwise::neg", Operation::Neg).out_of_place(stream, x, None)
}

/// `x = -x`.
pub fn neg_assign<F: Field + Element<Base = F>>(stream: &Stream, x: &mut Matrix<F>) -> Result<()> {
    Job::<F>::new("elementwise::neg_assign", Operation::Neg).in_place(stream, x, None)
}

/// `x y`, element by element.
pub fn mul<E: Element>(stream: &Stream, x: &Matrix<E::Base>, y: &Matrix<E::Base>) -> Result<Matrix<E::Base>> {
    Job::<E>::new("elementwise::mul", Operation::Mul).out_of_place(stream, x, Some(y))
}

/// `x = x y`, element by element.
pub fn mul_assign<E: Element>(stream: &Stream, x: &mut Matrix<E::Base>, y: &Matrix<E::Base>) -> Result<()> {
    Job::<E>::new("elementwise::mul_assign", Operation::Mul).in_place(stream, x, Some(y))
}

/// `a x`.
pub fn scale<E: Element>(stream: &Stream, x: &Matrix<E::Base>, a: E) -> Result<Matrix<E::Base>> {
    Job { a, ..Job::new("elementwise::scale", Operation::Scale) }.out_of_place(stream, x, None)
}

/// `x = a x`.
pub fn scale_assign<E: Element>(stream: &Stream, x: &mut Matrix<E::Base>, a: E) -> Result<()> {
    Job { a, ..Job::new("elementwise::scale_assign", Operation::Scale) }.in_place(stream, x, None)
}

/// `a x + b y`.
pub fn combine<E: Element>(
    stream: &Stream,
    a: E,
    x: &Matrix<E::Base>,
    b: E,
    y: &Matrix<E::Base>,
) -> Result<Matrix<E::Base>> {
    Job { a, b, ..Job::new("elementwise::combine", Operation::Combine) }.out_of_place(stream, x, Some(y))
}

/// `x = a x + b y`.
pub fn combine_assign<E: Element>(
    stream: &Stream,
    a: E,
    x: &mut Matrix<E::Base>,
    b: E,
    y: &Matrix<E::Base>,
) -> Result<()> {
    Job { a, b, ..Job::new("elementwise::combine_assign", Operation::Combine) }.in_place(stream, x, Some(y))
}

/// The operations, named as their types in `elementwise.cu`.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Mul,
    Scale,
    Combine,
    Add,
    Sub,
    Neg,
}

use Operation::{Add, Combine, Mul, Neg, Scale, Sub};

impl Operation {
    /// What is compiled for elements of this degree.
    fn of_degree(degree: usize) -> &'static [Self] {
        if degree == 1 { &[Mul, Scale, Combine, Add, Sub, Neg] } else { &[Mul, Scale, Combine] }
    }
}

/// Threads of a block, as in `elementwise.cu`.
const THREADS: u32 = 256;

/// One operation with its scalars.
struct Job<E> {
    name: &'static str,
    operation: Operation,
    a: E,
    b: E,
}

impl<E: Element> Job<E> {
    fn new(name: &'static str, operation: Operation) -> Self {
        Self { name, operation, a: E::ZERO, b: E::ZERO }
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
                    "a matrix of {} x {} with one of {} x {}; they must be alike",
                    x.rows(),
                    x.columns(),
                    y.rows(),
                    y.columns()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Without an x, `out` is its own first operand; a second one that the operation does not read is the first.
    fn launch(
        &self,
        stream: &Stream,
        out: &mut Matrix<E::Base>,
        x: Option<&Matrix<E::Base>>,
        y: Option<&Matrix<E::Base>>,
    ) -> Result<()> {
        let kernel = &Program::<E>::of(stream.device())?.kernels[self.operation as usize];
        let (rows, columns) = (out.rows(), out.columns());
        // Over a base field all columns are one.
        let slab = if E::DEGREE == 1 { rows * columns } else { rows * E::DEGREE };
        let n = slab / E::DEGREE;
        let out = out.values().view();
        let x = x.map_or(out, |x| x.values().view());
        let y = y.map_or(x, |y| y.values().view());
        let shape = Shape::cover(n.div_ceil(16 / size_of::<E::Base>()), THREADS)?;
        for batch in column_batches(rows * columns / slab) {
            let part = batch.start * slab..batch.end * slab;
            let (out, x, y) = (out.range(part.clone())?, x.range(part.clone())?, y.range(part)?);
            kernel.launch(stream, shape.rows(batch.len() as u32), (out, x, y, n as u64, self.a, self.b))?;
        }
        Ok(())
    }
}

/// Compiles what the operation needs for elements of this type.
pub(crate) fn warm<E: Element>(device: &Device) -> Result<()> {
    Program::<E>::of(device).map(|_| ())
}

/// The kernels for one type of element.
struct Program<E> {
    kernels: Vec<Kernel>,
    of: PhantomData<E>,
}

impl<E: Element> Program<E> {
    fn of(device: &Device) -> Result<Arc<Self>> {
        device.program(|device| {
            let names: Vec<String> = Operation::of_degree(E::DEGREE)
                .iter()
                .map(|operation| format!("elementwise<{}, {operation:?}>", E::NAME))
                .collect();
            let text = source("elementwise.cu", include_str!("elementwise.cu"));
            let module = device.compile(&names.iter().fold(text, |text, name| text.kernel(name)))?;
            let kernels = names.iter().map(|name| module.kernel(name)).collect::<Result<_>>()?;
            Ok(Self { kernels, of: PhantomData })
        })
    }
}

//! Expressions on a device, with arrays from the host.

use rigel_codegen::map::{Expression, Operand, Reduction, Scalar, Target, evaluate, reduce};
use rigel_gpu::{Result, Stream};

use super::value::{Value, to_bytes};

/// An array on the host: values in memory, and where they are for a place.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) values: Vec<Value>,
    pub(super) offset: usize,
    pub(super) strides: Vec<isize>,
}

impl Array {
    pub(super) fn flat(values: Vec<Value>) -> Self {
        Self { values, offset: 0, strides: vec![1] }
    }

    /// Row-major order from the first value on.
    pub(super) fn row_major(values: Vec<Value>, shape: &[usize]) -> Self {
        Self { values, offset: 0, strides: row_major(shape) }
    }

    /// The index of the element at a place.
    pub(super) fn at(&self, place: &[usize]) -> usize {
        let distance: isize = place.iter().zip(&self.strides).map(|(&i, &stride)| i as isize * stride).sum();
        (self.offset as isize + distance) as usize
    }
}

pub(super) fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

/// The places of a shape in row-major order.
pub(super) fn places(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    let count: usize = shape.iter().product();
    (0..count).map(move |mut n| {
        let mut place = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            place[axis] = n % shape[axis];
            n /= shape[axis];
        }
        place
    })
}

/// The bytes of a scalar.
pub(super) fn scalar(value: Value) -> Scalar {
    let mut words = [0; 3];
    for (i, byte) in value.bytes().into_iter().enumerate() {
        words[i / 8] |= u64::from(byte) << (8 * (i % 8));
    }
    words
}

fn upload(stream: &Stream, arrays: &[Array]) -> Result<Vec<rigel_gpu::Buffer<u8>>> {
    arrays.iter().map(|array| stream.upload(&to_bytes(&array.values))).collect()
}

/// `out` with the expression's values written to it.
pub(super) fn evaluated(
    stream: &Stream,
    expression: &Expression,
    shape: &[usize],
    inputs: &[Array],
    scalars: &[Scalar],
    out: &Array,
) -> Result<Vec<Value>> {
    let buffers = upload(stream, inputs)?;
    let operands: Vec<Operand<'_>> = buffers
        .iter()
        .zip(inputs)
        .map(|(buffer, array)| Operand { memory: buffer.view(), offset: array.offset, strides: &array.strides })
        .collect();
    let mut memory = stream.upload(&to_bytes(&out.values))?;
    let target = Target { memory: memory.view_mut(), offset: out.offset, strides: &out.strides };
    evaluate(stream, expression, shape, &operands, scalars, target)?;
    let of = expression.type_of(expression.result());
    Ok(memory.to_vec(stream)?.chunks(of.bytes()).map(|bytes| Value::from_bytes(of, bytes)).collect())
}

/// The outputs of a reduction.
pub(super) fn reduced(
    stream: &Stream,
    expression: &Expression,
    reduction: Reduction,
    (shape, axes): (&[usize], usize),
    inputs: &[Array],
    scalars: &[Scalar],
) -> Result<Vec<Value>> {
    let buffers = upload(stream, inputs)?;
    let operands: Vec<Operand<'_>> = buffers
        .iter()
        .zip(inputs)
        .map(|(buffer, array)| Operand { memory: buffer.view(), offset: array.offset, strides: &array.strides })
        .collect();
    let of = expression.type_of(expression.result());
    let outputs: usize = shape[..shape.len() - axes].iter().product();
    let mut out = stream.alloc::<u8>(outputs * of.bytes())?;
    reduce(stream, expression, reduction, shape, axes, &operands, scalars, out.view_mut())?;
    Ok(out.to_vec(stream)?.chunks(of.bytes()).map(|bytes| Value::from_bytes(of, bytes)).collect())
}

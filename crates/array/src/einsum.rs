//! Sums of products over named axes, in Einstein's notation.
//!
//! Operands are contracted from left to right. A pair is one matrix product where it has axes to sum over and each side
//! an axis of its own; otherwise it is multiplied, and summed in the same pass.

use std::collections::BTreeMap;

use rigel_codegen::map::Type;

use crate::array::Array;
use crate::device::same_device;
use crate::error::{Error, Result};
use crate::layout::{Layout, text};
use crate::matrix::lengths;
use crate::reduce::Axes;
use crate::scalar::promote;

/// The name of an axis: a letter, or an axis of the ellipsis by its distance from the ellipsis' end, which broadcasts
/// align.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Letter(char),
    Ellipsis(usize),
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Letter(letter) => write!(f, "{letter:?}"),
            Self::Ellipsis(_) => f.write_str("an axis of '...'"),
        }
    }
}

/// An array with a label for each axis, all different.
struct Term {
    array: Array,
    labels: Vec<Label>,
}

impl Array {
    /// The sum over products of elements that subscripts describe, as NumPy's `einsum`: a letter for each axis of each
    /// operand, operands separated by commas, then `->` and the axes of the result. Axes with the same letter have the
    /// same index, and axes that the result does not have are summed over. Without `->`, the result has the letters
    /// that occur once, in alphabetic order. `...` stands for the remaining axes of an operand, which are broadcast and
    /// come first without `->`.
    ///
    /// The result has the operands' common type; it may share the memory of an only operand.
    ///
    /// ```
    /// # use rigel_array::{Array, Device};
    /// let a = Array::arange(0, 6, 1, &Device::Cpu)?.reshape(&[2, 3])?;
    /// assert_eq!(Array::einsum("ij,kj->ik", &[a.clone(), a.clone()])?.to_vec::<i64>()?, [5, 14, 14, 50]);
    /// assert_eq!(Array::einsum("ij->j", &[a])?.to_vec::<i64>()?, [3, 5, 7]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn einsum(subscripts: &str, operands: &[Self]) -> Result<Self> {
        let (labels, output) = parse(subscripts, operands)?;
        let Some(first) = operands.first() else { return Err(Error::shape("einsum needs at least one operand")) };
        let mut dtype = first.dtype;
        for operand in operands {
            same_device("einsum", &first.device(), &operand.device())?;
            dtype = promote(dtype, operand.dtype)?;
        }
        if dtype == Type::Bool {
            return Err(Error::of_type("einsum is not defined for bool; convert with astype"));
        }
        if dtype.is_narrow() && operands.len() > 1 {
            let wide = operands.iter().map(|operand| operand.astype(dtype.wide())).collect::<Result<Vec<_>>>()?;
            return Self::einsum(subscripts, &wide)?.astype(dtype);
        }
        let sizes = sizes(subscripts, &labels, operands)?;
        let mut terms = Vec::with_capacity(operands.len());
        for (operand, labels) in operands.iter().zip(&labels) {
            terms.push(Term::diagonal(&operand.astype(dtype)?, labels));
        }
        // Labels that the result or a later term needs must stay.
        let mut terms = terms.into_iter();
        let Some(mut result) = terms.next() else { unreachable!("there is an operand") };
        let mut rest: Vec<Term> = terms.collect();
        while !rest.is_empty() {
            let next = rest.remove(0);
            let needed =
                |label: &Label| output.contains(label) || rest.iter().any(|term| term.labels.contains(label));
            result = result.contract(next, &sizes, needed)?;
        }
        result.summed(|label| output.contains(label))?.ordered(&output, &sizes)
    }
}

impl Term {
    /// Axes with equal labels become one, along which all their indices are equal.
    fn diagonal(array: &Array, labels: &[Label]) -> Self {
        let mut layout = Layout { shape: Default::default(), strides: Default::default(), ..array.layout.clone() };
        let mut kept: Vec<Label> = Vec::new();
        for (axis, &label) in labels.iter().enumerate() {
            match kept.iter().position(|&known| known == label) {
                Some(at) => layout.strides[at] += array.strides()[axis],
                None => {
                    kept.push(label);
                    layout.shape.push(array.shape()[axis]);
                    layout.strides.push(array.strides()[axis]);
                }
            }
        }
        Self { array: Array::new(array.memory.clone(), layout, array.dtype), labels: kept }
    }

    /// Sums over the labels that are not kept.
    fn summed(self, kept: impl Fn(&Label) -> bool) -> Result<Self> {
        let gone: Vec<isize> =
            (0..self.labels.len()).filter(|&axis| !kept(&self.labels[axis])).map(|axis| axis as isize).collect();
        if gone.is_empty() {
            return Ok(self);
        }
        // Sums of small integers are wider; the result is not.
        let array = self.array.sum(Axes::These(gone))?.astype(self.array.dtype)?;
        Ok(Self { array, labels: self.labels.into_iter().filter(kept).collect() })
    }

    /// The array with these axes in this order: labels that it does not have, and those along which it has length 1,
    /// are broadcast.
    fn ordered(&self, labels: &[Label], sizes: &BTreeMap<Label, usize>) -> Result<Array> {
        let own: Vec<usize> =
            labels.iter().filter_map(|label| self.labels.iter().position(|own| own == label)).collect();
        let mut array = self.array.permute(&lengths(&own))?;
        for (at, label) in labels.iter().enumerate() {
            if !self.labels.contains(label) {
                array = array.expand(at as isize)?;
            }
        }
        let shape: Vec<usize> = labels.iter().map(|label| sizes[label]).collect();
        array.broadcast_to(&shape)
    }

    /// The product of two terms, summed over all labels that are not needed.
    fn contract(
        self,
        other: Self,
        sizes: &BTreeMap<Label, usize>,
        needed: impl Fn(&Label) -> bool,
    ) -> Result<Self> {
        // An axis of length 1 that is broadcast beside the other's can't be summed first.
        let a = self.summed(|label| needed(label) || other.labels.contains(label))?;
        let b = other.summed(|label| needed(label) || a.labels.contains(label))?;
        let (both, left): (Vec<Label>, Vec<Label>) = a.labels.iter().partition(|label| b.labels.contains(label));
        let (batch, inner): (Vec<Label>, Vec<Label>) = both.into_iter().partition(&needed);
        let right: Vec<Label> = b.labels.iter().filter(|label| !a.labels.contains(label)).copied().collect();
        let count = |labels: &[Label]| labels.iter().map(|label| sizes[label]).product::<usize>();
        let labels = [&batch[..], &left, &right].concat();
        let is_flat = |labels: &[Label]| count(labels) == 1;
        let by_matrix = !is_flat(&left) && !is_flat(&right)
            || is_flat(&batch) && !inner.is_empty() && !(is_flat(&left) && is_flat(&right));
        let is_empty = [&batch, &inner, &left, &right].iter().any(|labels| count(labels) == 0);
        if inner.is_empty() || is_empty || !by_matrix {
            let all = [&labels[..], &inner].concat();
            let product = a.ordered(&all, sizes)?.lazy() * &b.ordered(&all, sizes)?;
            let axes: Vec<isize> = (labels.len() as isize..all.len() as isize).collect();
            let dtype = a.array.dtype;
            let array = if axes.is_empty() { product.eval()? } else { product.sum(axes)?.astype(dtype)? };
            return Ok(Self { array, labels });
        }
        let stack = |term: &Self, rows: &[Label], columns: &[Label]| {
            let whole = term.ordered(&[&batch[..], rows, columns].concat(), sizes)?;
            whole.reshape(&lengths(&[count(&batch), count(rows), count(columns)]))
        };
        let product = stack(&a, &left, &inner)?.matmul(&stack(&b, &inner, &right)?)?;
        let shape: Vec<usize> = labels.iter().map(|label| sizes[label]).collect();
        Ok(Self { array: product.reshape(&lengths(&shape))?, labels })
    }
}

/// The length of each label's axes; axes of length 1 are broadcast.
fn sizes(subscripts: &str, labels: &[Vec<Label>], operands: &[Array]) -> Result<BTreeMap<Label, usize>> {
    let mut sizes = BTreeMap::new();
    for (number, (labels, operand)) in labels.iter().zip(operands).enumerate() {
        let mut own = BTreeMap::new();
        for (&label, &length) in labels.iter().zip(operand.shape()) {
            let refused = |other: usize| {
                Err(Error::shape(format!(
                    "einsum {subscripts:?}: {label} has length {length} in operand {number}, of shape {}, and {other} \
                     elsewhere",
                    text(operand.shape())
                )))
            };
            match own.insert(label, length) {
                Some(before) if before != length => return refused(before),
                _ => {}
            }
            let known = sizes.entry(label).or_insert(length);
            match (*known, length) {
                (known, length) if known == length => {}
                (1, length) => *known = length,
                (_, 1) => {}
                (known, _) => return refused(known),
            }
        }
    }
    Ok(sizes)
}

/// The labels of each operand's axes, and of the result's.
fn parse(subscripts: &str, operands: &[Array]) -> Result<(Vec<Vec<Label>>, Vec<Label>)> {
    let refuse = |detail: String| Err(Error::shape(format!("einsum {subscripts:?}: {detail}")));
    let plain: String = subscripts.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match plain.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (&plain[..], None),
    };
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != operands.len() {
        return refuse(format!("subscripts of {} operands, but {} are given", terms.len(), operands.len()));
    }
    let mut labels = Vec::with_capacity(operands.len());
    for (number, (term, operand)) in terms.iter().zip(operands).enumerate() {
        let (before, after) = match split_ellipsis(term) {
            Ok(parts) => parts,
            Err(detail) => return refuse(detail),
        };
        let letters = before.len() + after.as_ref().map_or(0, Vec::len);
        let fits = if after.is_some() { letters <= operand.axes() } else { letters == operand.axes() };
        if !fits {
            return refuse(format!(
                "{term:?} names {letters} axes of operand {number}, which has {}: its shape is {}",
                operand.axes(),
                text(operand.shape())
            ));
        }
        let more = operand.axes() - letters;
        let ellipsis = (0..more).rev().map(Label::Ellipsis);
        labels.push(before.into_iter().chain(ellipsis).chain(after.into_iter().flatten()).collect::<Vec<_>>());
    }
    let all = || labels.iter().flatten();
    let broadcast = all().filter_map(|label| if let Label::Ellipsis(at) = label { Some(at + 1) } else { None });
    let broadcast = broadcast.max().unwrap_or(0);
    let ellipsis = || (0..broadcast).rev().map(Label::Ellipsis);
    let Some(output) = output else {
        let mut once: Vec<Label> = all()
            .filter(|&label| {
                matches!(label, Label::Letter(_)) && all().filter(|&other| other == label).count() == 1
            })
            .copied()
            .collect();
        once.sort_unstable();
        return Ok((labels, ellipsis().chain(once).collect()));
    };
    let (before, after) = match split_ellipsis(output) {
        Ok(parts) => parts,
        Err(detail) => return refuse(detail),
    };
    if after.is_none() && broadcast > 0 {
        return refuse(format!(
            "the result has no '...' for the {broadcast} axes that it stands for in the operands"
        ));
    }
    let wanted: Vec<Label> = before.into_iter().chain(ellipsis()).chain(after.into_iter().flatten()).collect();
    for (at, label) in wanted.iter().enumerate() {
        if wanted[..at].contains(label) {
            return refuse(format!("{label} occurs twice in the result"));
        }
        if !all().any(|known| known == label) {
            return refuse(format!("{label} of the result is in no operand"));
        }
    }
    Ok((labels, wanted))
}

/// The letters before and after the ellipsis, if there is one.
fn split_ellipsis(term: &str) -> Result<(Vec<Label>, Option<Vec<Label>>), String> {
    let letters = |part: &str| {
        let letter = |c: char| match c {
            'a'..='z' | 'A'..='Z' => Ok(Label::Letter(c)),
            '.' => Err(format!("{term:?} has dots that are not one '...'")),
            _ => Err(format!("{c:?} is not a letter")),
        };
        part.chars().map(letter).collect::<Result<Vec<_>, _>>()
    };
    match term.split_once("...") {
        Some((before, after)) => Ok((letters(before)?, Some(letters(after)?))),
        None => Ok((letters(term)?, None)),
    }
}

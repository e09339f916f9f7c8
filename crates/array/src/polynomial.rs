//! Polynomials over a field: the last axis has their coefficients, lowest first.
//!
//! Products and quotients use transforms. Mersenne-31 has no roots of unity of large order: its elements are multiplied
//! as integers of 16 bits, by transforms over Goldilocks, in which sums of their products do not wrap around.

use rigel_codegen::map::Type;

use crate::array::Array;
use crate::device::same_device;
use crate::error::{Error, Result};
use crate::layout::{Index, broadcast, text};
use crate::lazy::Lazy;
use crate::matrix::lengths;
use crate::scalar::{Scalar, name, promote};

impl Array {
    /// The values of polynomials at points: with coefficients of shape (.., n) and points of shape (m,), values of
    /// shape (.., m).
    ///
    /// With b = sqrt(n): the matrix of coefficients, in rows of b, times the powers below b of each point, and a sum
    /// over the powers of its b-th power. That is n m products and a few launches.
    pub fn poly_evaluate(&self, points: &Self) -> Result<Self> {
        self.must_be_field("poly_evaluate")?;
        same_device("poly_evaluate", &self.device(), &points.device())?;
        let dtype = promote(self.dtype, points.dtype)?;
        let (n, outer) = self.polynomials("poly_evaluate")?;
        if points.axes() != 1 {
            return Err(Error::shape(format!(
                "poly_evaluate: points of shape {}, not (m,)",
                text(points.shape())
            )));
        }
        let shape = [outer, points.shape()].concat();
        if n == 0 || self.is_empty() || points.is_empty() {
            return Self::zeros(&shape, dtype, &self.device());
        }
        let points = points.astype(dtype)?;
        let short = (n as f64).sqrt().ceil() as usize;
        let long = n.div_ceil(short);
        let padded = self.astype(dtype)?.padded(short * long)?;
        let rows = padded.reshape(&[-1, long as isize, short as isize])?;
        let numbers = |count: usize| crate::array::along(count, 0, 2, &self.device());
        let powers = points.lazy().pow(numbers(short)?.lazy().astype(Type::U64)).eval()?;
        let parts = rows.matmul(&powers)?;
        let steps = points.pow(short as u64)?;
        let values = parts.lazy() * steps.lazy().pow(numbers(long)?.lazy().astype(Type::U64));
        values.sum(1)?.reshape(&lengths(&shape))
    }

    /// The products of polynomials; the axes before the last are broadcast. Of n and m coefficients, n + m - 1.
    pub fn poly_multiply(&self, other: &Self) -> Result<Self> {
        self.must_be_field("poly_multiply")?;
        same_device("poly_multiply", &self.device(), &other.device())?;
        let dtype = promote(self.dtype, other.dtype)?;
        let (n, left) = self.polynomials("poly_multiply")?;
        let (m, right) = other.polynomials("poly_multiply")?;
        let outer = broadcast("poly_multiply", left, right)?;
        let count = if n == 0 || m == 0 { 0 } else { n + m - 1 };
        let shape = [&outer[..], &[count]].concat();
        if shape.contains(&0) {
            return Self::zeros(&shape, dtype, &self.device());
        }
        let (a, b) = (self.astype(dtype)?, other.astype(dtype)?);
        if dtype.base() == Type::Mersenne31 {
            return a.multiply_as_integers(&b, n.min(m), count);
        }
        let size = count.next_power_of_two();
        let (a, b) = (a.padded(size)?.ntt()?, b.padded(size)?.ntt()?);
        a.mul(&b)?.intt()?.first(count)
    }

    /// Products over Mersenne-31 and its extensions, of at most `terms` products a coefficient.
    ///
    /// With `a = a0 + 2^16 a1`, a coefficient of a0 b0 or a1 b1 is a sum of `terms` products below 2^32, and one of
    /// a0 b1 + a1 b0 of twice as many below 2^31. For an extension with the basis e_0, e_1, .., the product is the sum
    /// over i <= j of `(a_i b_j + a_j b_i) e_i e_j`, of one of the two if i = j. So no sum reaches `terms 2^33`, and
    /// transforms over Goldilocks give it exactly.
    fn multiply_as_integers(&self, other: &Self, terms: usize, count: usize) -> Result<Self> {
        const MOST_TERMS: usize = 1 << 30;
        let (dtype, degree) = (self.dtype, self.dtype.degree());
        if terms > MOST_TERMS {
            return Err(Error::shape(format!(
                "poly_multiply: both polynomials over {} have more than 2^30 coefficients ({terms}); split one of them",
                name(dtype)
            )));
        }
        let size = count.next_power_of_two();
        let (a, b) = (self.halves(size)?, other.halves(size)?);
        let basis = match degree {
            1 => Self::ones(&[1], dtype, &self.device())?,
            _ => Self::eye(degree, Type::Mersenne31, &self.device())?.from_coefficients(dtype)?,
        };
        let mut total: Option<Self> = None;
        for i in 0..degree {
            for j in i..degree {
                // The integers that the products of the given halves of a and b add up to.
                let sums = |pairs: &[(usize, usize)]| {
                    let mut sum: Option<Lazy> = None;
                    let swapped = (i != j).then_some((j, i));
                    for (i, j) in [(i, j)].into_iter().chain(swapped) {
                        for &(left, right) in pairs {
                            let product = a[i][left].lazy() * &b[j][right];
                            sum = Some(sum.map_or(product.clone(), |sum| sum + product));
                        }
                    }
                    let sum = sum.expect("at least one pair").eval()?.intt()?.first(count)?;
                    Ok::<_, Error>(sum.lazy().astype(Type::U64).astype(Type::Mersenne31))
                };
                let (low, middle, high) = (sums(&[(0, 0)])?, sums(&[(0, 1), (1, 0)])?, sums(&[(1, 1)])?);
                // Modulo 2^31 - 1, 2^32 is 2.
                let product = low + middle * (1 << 16) + high * 2;
                let factor =
                    basis.index(&[Index::At(i as isize)])?.mul(&basis.index(&[Index::At(j as isize)])?)?;
                let term = product.astype(dtype) * &factor;
                total = Some(match total {
                    Some(total) => (term + &total).eval()?,
                    None => term.eval()?,
                });
            }
        }
        Ok(total.expect("a degree of at least 1"))
    }

    /// The transforms over Goldilocks of the lower 16 bits and of the upper bits of each coefficient over Mersenne-31.
    fn halves(&self, size: usize) -> Result<Vec<[Self; 2]>> {
        let parts = if self.dtype.degree() == 1 { self.expand(-1)? } else { self.coefficients()? };
        let part = |at: usize| {
            let numbers = parts.index(&[Index::Ellipsis, Index::At(at as isize)])?.lazy().astype(Type::U64);
            let transformed = |half: Lazy| half.astype(Type::Goldilocks).eval()?.padded(size)?.ntt();
            let low = transformed(numbers.clone().bitwise_and(0xffffu64))?;
            Ok([low, transformed(numbers.right_shift(16u64))?])
        };
        (0..self.dtype.degree()).map(part).collect()
    }

    /// Quotients and remainders of polynomials: `self = quotient divisor + remainder`, with a remainder of m - 1
    /// coefficients for a divisor of m, of shape (m,), whose highest coefficient must not be zero.
    ///
    /// Newton's iteration inverts the reversed divisor as a power series, in log n products.
    pub fn poly_divide(&self, divisor: &Self) -> Result<(Self, Self)> {
        self.must_be_field("poly_divide")?;
        same_device("poly_divide", &self.device(), &divisor.device())?;
        let dtype = promote(self.dtype, divisor.dtype)?;
        let (n, outer) = self.polynomials("poly_divide")?;
        let &[m] = divisor.shape() else {
            return Err(Error::shape(format!(
                "poly_divide: a divisor of shape {}, not (m,)",
                text(divisor.shape())
            )));
        };
        if m == 0 {
            return Err(Error::shape("poly_divide: the divisor has no coefficients"));
        }
        let (a, b) = (self.astype(dtype)?, divisor.astype(dtype)?);
        // The inversion reports a highest coefficient of zero.
        let mut inverse = b.index(&[Index::from(m as isize - 1..m as isize)])?.inverse()?;
        if n < m {
            let rest = Self::zeros(&[outer, &[m - 1]].concat(), dtype, &self.device())?;
            rest.index(&[Index::Ellipsis, (0..n as isize).into()])?.assign(&a)?;
            return Ok((Self::zeros(&[outer, &[0]].concat(), dtype, &self.device())?, rest));
        }
        let terms = n - m + 1;
        let reversed = b.flip(0)?;
        while inverse.len() < terms {
            // With i the inverse of r modulo x^k, i (2 - r i) is its inverse modulo x^(2 k).
            let size = (2 * inverse.len()).min(terms);
            let error = reversed.first(size.min(m))?.poly_multiply(&inverse)?.padded(size.max(1))?.first(size)?;
            let step = inverse.poly_multiply(&error)?.padded(size)?.first(size)?;
            inverse = inverse.padded(size)?.mul(2)?.sub(&step)?;
        }
        let top = a.flip(-1)?.first(terms)?;
        let quotient = top.poly_multiply(&inverse.first(terms)?)?.first(terms)?.flip(-1)?.contiguous()?;
        let product = quotient.poly_multiply(&b)?;
        let rest = a.sub(&product)?.first(m - 1)?;
        Ok((quotient, rest.contiguous()?))
    }

    /// The polynomials of less than n coefficients with the values `self`, of shape (.., n), at n points, of shape
    /// (n,), all different.
    ///
    /// With the weights `w_i = y_i / product over j != i of (x_i - x_j)`, the polynomial is the numerator of
    /// `sum of w_i / (x - x_i)`. Fractions are added in pairs, then the sums, and so on: n^2 products for the weights
    /// and n log^2 n for the sums, in memory linear in n.
    pub fn poly_interpolate(&self, points: &Self) -> Result<Self> {
        self.must_be_field("poly_interpolate")?;
        same_device("poly_interpolate", &self.device(), &points.device())?;
        let dtype = promote(self.dtype, points.dtype)?;
        let (n, _) = self.polynomials("poly_interpolate")?;
        if points.shape() != [n] {
            return Err(Error::shape(format!(
                "poly_interpolate: points of shape {} for {n} values",
                text(points.shape())
            )));
        }
        let (values, points) = (self.astype(dtype)?, points.astype(dtype)?);
        if self.is_empty() {
            return Ok(values);
        }
        let numbers = crate::array::along(n, 1, 2, &self.device())?;
        let other = crate::array::along(n, 0, 2, &self.device())?;
        let differences =
            (points.expand(1)?.lazy() - &points.expand(0)?).select(numbers.lazy().ne(&other), 1).prod(1)?;
        let equal = differences.lazy().eq(0).sum(..)?;
        if equal.item()? != Scalar::Int(0) {
            return Err(Error::shape("poly_interpolate: two points are equal"));
        }
        let size = n.next_power_of_two();
        let mut numerators = values.mul(&differences.inverse()?)?.padded(size)?.expand(-1)?;
        // Where there are no points, fractions of 0 / 1.
        let mut denominators = Self::zeros(&[size, 2], dtype, &self.device())?;
        denominators.index(&[(0..n as isize).into(), Index::At(0)])?.assign(-points.lazy())?;
        denominators.index(&[(0..n as isize).into(), Index::At(1)])?.assign(1)?;
        denominators.index(&[(n as isize..size as isize).into(), Index::At(0)])?.assign(1)?;
        while denominators.shape()[0] > 1 {
            let half = denominators.shape()[0] as isize / 2;
            let rows = |of: &Self, range| of.index(&[Index::Ellipsis, Index::from(range), Index::from(..)]);
            let [a, c] = [rows(&numerators, 0..half)?, rows(&numerators, half..2 * half)?];
            let [b, d] = [rows(&denominators, 0..half)?, rows(&denominators, half..2 * half)?];
            // a / b + c / d.
            numerators = a.poly_multiply(&d)?.add(&c.poly_multiply(&b)?)?;
            denominators = b.poly_multiply(&d)?;
        }
        numerators.reshape(&[&lengths(&self.shape()[..self.axes() - 1])[..], &[size as isize]].concat())?.first(n)
    }

    /// The number of coefficients, and the axes before.
    fn polynomials(&self, operation: &str) -> Result<(usize, &[usize])> {
        match self.shape().split_last() {
            Some((&n, outer)) => Ok((n, outer)),
            None => {
                Err(Error::shape(format!("{operation} needs coefficients of {} in an axis", name(self.dtype))))
            }
        }
    }

    /// The last axis extended with zeros.
    fn padded(&self, length: usize) -> Result<Self> {
        let (n, outer) = self.polynomials("padded")?;
        if n >= length {
            return Ok(self.clone());
        }
        let whole = Self::zeros(&[outer, &[length]].concat(), self.dtype, &self.device())?;
        whole.index(&[Index::Ellipsis, (0..n as isize).into()])?.assign(self)?;
        Ok(whole)
    }

    /// The first elements of the last axis.
    fn first(&self, count: usize) -> Result<Self> {
        self.index(&[Index::Ellipsis, (0..count as isize).into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    fn all_equal(a: &Array, b: &Array) -> bool {
        a.shape() == b.shape() && a.eq(b).unwrap().to_bools().unwrap().iter().all(|&same| same)
    }

    #[test]
    fn products_over_mersenne31_are_exact() {
        let device = Device::Cpu;
        for of in [Type::Mersenne31, Type::CM31, Type::QM31] {
            // The largest elements, where sums are largest, and random ones, beside a direct product.
            let minus_one = Array::ones(&[40, of.degree()], Type::Mersenne31, &device).unwrap().neg().unwrap();
            let largest = match of {
                Type::Mersenne31 => minus_one.reshape(&[40]).unwrap(),
                _ => minus_one.from_coefficients(of).unwrap(),
            };
            let random = |shape: &[usize], seed| Array::random(shape, of, seed, &device).unwrap();
            for (a, b) in [
                (largest.clone(), largest),
                (random(&[1], 1), random(&[3, 1], 2)),
                (random(&[2, 1, 7], 3), random(&[3, 12], 4)),
            ] {
                let (n, m) = (a.shape()[a.axes() - 1], b.shape()[b.axes() - 1]);
                let product = a.poly_multiply(&b).unwrap();
                let expected = Array::zeros(product.shape(), of, &device).unwrap();
                for i in 0..n as isize {
                    let at = expected.index(&[Index::Ellipsis, (i..i + m as isize).into()]).unwrap();
                    let coefficient = a.index(&[Index::Ellipsis, (i..i + 1).into()]).unwrap();
                    at.assign(at.lazy() + coefficient.lazy() * &b).unwrap();
                }
                assert!(all_equal(&product, &expected), "{of:?}, {n} and {m} coefficients");
            }
        }
    }

    /// Products of so many coefficients use transforms: a product by a matrix would not fit in memory.
    #[test]
    fn long_products_over_mersenne31() {
        let device = Device::Cpu;
        let random = |n: usize, seed| Array::random(&[n], Type::Mersenne31, seed, &device).unwrap();
        let (a, b) = (random(1 << 18, 1), random((1 << 18) - 5, 2));
        let product = a.poly_multiply(&b).unwrap();
        assert_eq!(product.shape(), [(1 << 19) - 6]);
        let points = random(3, 3);
        let [a, b, product] = [a, b, product].map(|f| f.poly_evaluate(&points).unwrap());
        assert!(all_equal(&product, &a.mul(&b).unwrap()));
    }

    #[test]
    fn interpolations_are_found_again() {
        for (of, at) in [
            (Type::Mersenne31, Type::Mersenne31),
            (Type::QM31, Type::Mersenne31),
            (Type::CM31, Type::CM31),
            (Type::KoalaBear, Type::KoalaBear),
            (Type::Goldilocks2, Type::Goldilocks2),
        ] {
            for shape in [&[1][..], &[2], &[2, 21], &[3, 1, 32], &[33]] {
                let n = shape[shape.len() - 1];
                let coefficients = Array::random(shape, of, 1, &Device::Cpu).unwrap();
                let points = Array::random(&[n], at, 2, &Device::Cpu).unwrap();
                let values = coefficients.poly_evaluate(&points).unwrap();
                assert!(all_equal(&values.poly_interpolate(&points).unwrap(), &coefficients), "{of:?}, {shape:?}");
            }
        }
    }

    /// A system of so many equations takes 2.7 10^10 products; checked by evaluation.
    #[test]
    fn long_interpolations_over_mersenne31() {
        let values = Array::random(&[2, 3000], Type::Mersenne31, 1, &Device::Cpu).unwrap();
        let points = Array::random(&[3000], Type::Mersenne31, 2, &Device::Cpu).unwrap();
        let found = values.poly_interpolate(&points).unwrap();
        assert_eq!(found.shape(), [2, 3000]);
        assert!(all_equal(&found.poly_evaluate(&points).unwrap(), &values));
    }
}

//! Transforms over the circle: the same as [`rigel_kernels::transform::circle`], whose formulas they follow.

use rayon::prelude::*;
use rigel_codegen::map::Type;
use rigel_gpu::{bytes_of, bytes_of_mut};
use rigel_kernels::domain::circle_domain::Coset;
use rigel_kernels::field::{CM31, Field, Mersenne31, Ring};

use super::invert;
use super::slices::{elements, with_elements_mut};
use crate::field::Transform;

/// The number of points that one thread combines at a time.
const PART: usize = 1 << 12;

/// The points of the domain with this half coset, in bit-reversed order: each point of the half is followed by its
/// conjugate.
pub(crate) fn circle_points(half: Coset) -> Vec<[Mersenne31; 2]> {
    half_points(half).into_iter().flat_map(|[x, y]| [[x, y], [x, -y]]).collect()
}

/// The points of a coset in bit-reversed order: the point with bit k of its reversed index set is the one without it,
/// moved by the step doubled `log_size - 1 - k` times.
fn half_points(coset: Coset) -> Vec<[Mersenne31; 2]> {
    let mut steps = vec![CM31(coset.step)];
    for k in 1..coset.log_size as usize {
        steps.push(steps[k - 1] * steps[k - 1]);
    }
    let mut points = vec![CM31(coset.initial)];
    for step in steps.into_iter().take(coset.log_size as usize).rev() {
        // The bit that is added next is the highest of the reversed index.
        points = points
            .par_iter()
            .with_min_len(PART)
            .copied()
            .chain(points.par_iter().with_min_len(PART).map(|&point| point * step))
            .collect();
    }
    points.into_par_iter().with_min_len(PART).map(|CM31(point)| point).collect()
}

/// The twiddles of the layers: y of every point of the half coset, x of every second, then `2 x^2 - 1` of every second
/// of the layer before.
fn layers(half: Coset) -> Vec<Vec<Mersenne31>> {
    let points = half_points(half);
    let mut layers: Vec<Vec<Mersenne31>> = vec![points.iter().map(|point| point[1]).collect()];
    if half.log_size > 0 {
        layers.push(points.iter().step_by(2).map(|point| point[0]).collect());
    }
    for _ in 1..half.log_size {
        let before = &layers[layers.len() - 1];
        let doubled = |&x: &Mersenne31| {
            let square = x * x;
            square + square - Mersenne31::ONE
        };
        layers.push(before.iter().step_by(2).map(doubled).collect());
    }
    layers
}

/// Transforms rows over the domain with the half coset `smaller`; an extension ends on that with the half coset
/// `larger`, and all others have both the same.
///
/// # Panics
/// If the lengths of `from` and `to` do not match.
pub(crate) fn circle_transform(transform: Transform, smaller: Coset, larger: Coset, from: &[u8], to: &mut [u8]) {
    let (short, long) = (2 << smaller.log_size, 2 << larger.log_size);
    let forward = matches!(transform, Transform::Forward | Transform::Extend { .. }).then(|| layers(larger));
    let inverse = matches!(transform, Transform::Inverse | Transform::Extend { .. }).then(|| {
        let inverted = |layer: Vec<Mersenne31>| {
            let mut inverses = vec![Mersenne31::ZERO; layer.len()];
            let all = invert(Type::Mersenne31, bytes_of(&layer), bytes_of_mut(&mut inverses));
            assert!(all, "no point of a half coset is on an axis");
            inverses
        };
        layers(smaller).into_iter().map(inverted).collect::<Vec<_>>()
    });
    let scale = Mersenne31::from_u64(short as u64).inverse().expect("a power of two is not zero");
    // SAFETY: the bytes are stored elements.
    let from = unsafe { elements::<Mersenne31>(from) };
    let rows = |to: &mut [Mersenne31]| {
        assert_eq!(from.len() / short * long, to.len(), "a place for each value");
        from.par_chunks(short).zip(to.par_chunks_mut(long)).for_each(|(from, to)| {
            let (head, rest) = to.split_at_mut(short);
            head.copy_from_slice(from);
            rest.fill(Mersenne31::ZERO);
            if let Some(inverses) = &inverse {
                for (i, twiddles) in inverses.iter().enumerate() {
                    layer(head, i, twiddles, |a, b, t| (a + b, (a - b) * t));
                }
                head.par_iter_mut().with_min_len(PART).for_each(|value| *value *= scale);
            }
            if let Some(twiddles) = &forward {
                for (i, twiddles) in twiddles.iter().enumerate().rev() {
                    layer(to, i, twiddles, |a, b, t| (a + t * b, a - t * b));
                }
            }
        });
    };
    // SAFETY: as above; an element has no padding.
    unsafe { with_elements_mut(to, rows) }
}

/// Combines the values whose index differs in bit `i`, with the twiddle of their block.
fn layer(
    values: &mut [Mersenne31],
    i: usize,
    twiddles: &[Mersenne31],
    combine: impl Fn(Mersenne31, Mersenne31, Mersenne31) -> (Mersenne31, Mersenne31) + Sync,
) {
    let half = 1 << i;
    let pairs = |a: &mut [Mersenne31], b: &mut [Mersenne31], t: Mersenne31| {
        a.iter_mut().zip(b).for_each(|(a, b)| (*a, *b) = combine(*a, *b, t));
    };
    if half >= PART {
        for (block, &t) in values.chunks_mut(2 * half).zip(twiddles) {
            let (a, b) = block.split_at_mut(half);
            a.par_chunks_mut(PART).zip(b.par_chunks_mut(PART)).for_each(|(a, b)| pairs(a, b, t));
        }
    } else {
        let together = (PART / (2 * half)).max(1);
        values.par_chunks_mut(2 * half * together).zip(twiddles.par_chunks(together)).for_each(
            |(blocks, twiddles)| {
                for (block, &t) in blocks.chunks_mut(2 * half).zip(twiddles) {
                    let (a, b) = block.split_at_mut(half);
                    pairs(a, b, t);
                }
            },
        );
    }
}

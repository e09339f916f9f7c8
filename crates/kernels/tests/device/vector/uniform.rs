//! Uniform elements against `rand`'s standard generator, as Plonky3 draws from it.

use rand::distr::{Distribution, StandardUniform};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use rigel_gpu::Stream;
use rigel_kernels::field::*;
use rigel_kernels::vector::uniform::fill;

use crate::oracle::{Oracle, assert_says};
use crate::support::on_each_device;

fn check<F: Field + Oracle>(stream: &Stream, skipped: u64, n: usize)
where
    StandardUniform: Distribution<F::Theirs>,
{
    let seed: [u8; 32] = std::array::from_fn(|i| (i * 37 + n) as u8);
    let mut theirs = StdRng::from_seed(seed);
    for _ in 0..skipped {
        theirs.next_u32();
    }
    let key = std::array::from_fn(|i| u32::from_le_bytes(seed[4 * i..4 * i + 4].try_into().unwrap()));
    let mut position = skipped;
    // Two draws: the second begins where the first ended.
    for n in [n, n / 2 + 1] {
        let expected: Vec<F> = (0..n).map(|_| F::ours(theirs.random())).collect();
        let mut found = stream.alloc::<F>(n).unwrap();
        position = fill(stream, found.view_mut(), key, position).unwrap();
        assert_eq!(found.to_vec(stream).unwrap(), expected, "{n} of {} after {skipped} words", F::NAME);
    }
}

#[test]
fn elements_equal_rand() {
    on_each_device(|stream| {
        for (skipped, n) in [(0, 1), (0, 16), (8, 255), (2, 5_001), (34, 20_000)] {
            check::<BabyBear>(stream, skipped, n);
            check::<KoalaBear>(stream, skipped + 1, n);
            check::<Goldilocks>(stream, skipped, n);
        }
        let mut out = stream.alloc::<Goldilocks>(1).unwrap();
        assert_says(fill(stream, out.view_mut(), [0; 8], 3), &["position 3", "2 words"]);
    });
}

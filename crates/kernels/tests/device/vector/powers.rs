//! Powers against upstream's.

use rigel_gpu::Stream;
use rigel_kernels::field::*;
use rigel_kernels::vector::powers::powers;

use crate::oracle::{Oracle, assert_says, download, random_elements};
use crate::support::{on_each_device, rng};

fn check<E: Oracle>(stream: &Stream, n: usize) {
    let [start, x] = random_elements::<E>(&mut rng(n as u64), 2)[..] else { unreachable!() };
    let found = powers(stream, start, x, n).unwrap();
    assert_eq!((found.rows(), found.columns()), (n, E::DEGREE));
    let expected: Vec<E> = E::powers(start.theirs(), x.theirs(), n).into_iter().map(E::ours).collect();
    assert_eq!(download::<E>(stream, &found), [expected], "{} to the power of {n}", E::NAME);
}

/// One element, fewer than a vector, odd, whole vectors, and several blocks.
const SIZES: [usize; 6] = [1, 3, 4, 255, 1_024, 5_001];

#[test]
fn powers_equal_plonky3() {
    on_each_device(|stream| {
        for n in SIZES {
            check::<BabyBear>(stream, n);
            check::<KoalaBear>(stream, n);
            check::<Goldilocks>(stream, n);
        }
    });
}

#[test]
fn powers_of_extensions_equal_plonky3() {
    on_each_device(|stream| {
        for n in SIZES {
            check::<BabyBear4>(stream, n);
            check::<KoalaBear4>(stream, n);
            check::<Goldilocks2>(stream, n);
            check::<Goldilocks3>(stream, n);
        }
    });
}

#[test]
fn powers_equal_stwo() {
    on_each_device(|stream| {
        for n in SIZES {
            check::<Mersenne31>(stream, n);
            check::<CM31>(stream, n);
            check::<QM31>(stream, n);
        }
    });
}

/// Powers of more elements than the grid computes in one iteration, on a device with few multiprocessors; whole
/// vectors and odd.
#[test]
fn threads_loop_more_than_once() {
    on_each_device(|stream| {
        check::<KoalaBear>(stream, 1 << 17);
        check::<Goldilocks>(stream, (1 << 16) + 1);
    });
}

#[test]
fn zero_to_the_power_of_zero_is_one() {
    on_each_device(|stream| {
        let found = powers(stream, KoalaBear::new(5), KoalaBear::ZERO, 3).unwrap();
        assert_eq!(found.to_vec(stream).unwrap(), [5, 0, 0].map(KoalaBear::new));
    });
}

#[test]
fn no_powers_are_refused() {
    on_each_device(|stream| {
        assert_says(powers(stream, QM31::ONE, QM31::ONE, 0), &["powers", "at least 1"]);
        check::<QM31>(stream, 1);
    });
}

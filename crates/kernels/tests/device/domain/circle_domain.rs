//! Circle domains against Stwo's.

use rigel_gpu::Stream;
use rigel_kernels::domain::circle_domain::*;
use rigel_kernels::field::{Mersenne31, QM31};
use stwo::core::circle::{CirclePoint, CirclePointIndex, Coset as TheirCoset, SECURE_FIELD_CIRCLE_GEN};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::{CanonicCoset, CircleDomain};
use stwo::core::utils::bit_reverse_index;
use stwo::prover::backend::CpuBackend;
use stwo::prover::backend::cpu::circle::slow_precompute_twiddles;
use stwo::prover::poly::circle::PolyOps;

use crate::oracle::{Oracle, assert_says};
use crate::support::on_each_device;

/// Upstream's values as ours.
pub(crate) fn ours<E: Oracle>(theirs: &[E::Theirs]) -> Vec<E> {
    theirs.iter().map(|&value| E::ours(value)).collect()
}

/// Converts our values to upstream's.
pub(crate) fn theirs<E: Oracle>(ours: &[E]) -> Vec<E::Theirs> {
    ours.iter().map(|&value| value.theirs()).collect()
}

fn our_point(point: CirclePoint<BaseField>) -> [Mersenne31; 2] {
    [point.x, point.y].map(Mersenne31::ours)
}

pub(crate) fn our_coset(coset: TheirCoset) -> Coset {
    Coset { initial: our_point(coset.initial), step: our_point(coset.step), log_size: coset.log_size }
}

pub(crate) fn our_domain(domain: CircleDomain) -> Domain {
    Domain { half: our_coset(domain.half_coset) }
}

/// A point of the circle over the secure field, upstream's and ours.
pub(crate) fn secure_point(seed: u128) -> (CirclePoint<SecureField>, [QM31; 2]) {
    let point = SECURE_FIELD_CIRCLE_GEN.mul(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 5);
    (point, [point.x, point.y].map(QM31::ours))
}

/// Canonic cosets, one that is not canonic, and one with the opposite direction.
fn cosets(log_size: u32) -> [TheirCoset; 4] {
    let odd = CirclePointIndex(0x1234_5677);
    let other = TheirCoset::new(odd, log_size);
    [TheirCoset::half_odds(log_size), TheirCoset::odds(log_size), other, other.conjugate()]
}

#[test]
fn points_equal_stwo() {
    on_each_device(|stream| {
        for log_size in [0, 1, 2, 5, 6, 7, 10, 13] {
            for half in cosets(log_size) {
                let domain = CircleDomain::new(half);
                let expected: Vec<_> =
                    (0..domain.size()).map(|i| domain.at(bit_reverse_index(i, domain.log_size()))).collect();
                let expected: Vec<BaseField> =
                    expected.iter().map(|p| p.x).chain(expected.iter().map(|p| p.y)).collect();
                let found = points(stream, our_domain(domain)).unwrap();
                assert_eq!((found.rows(), found.columns()), (domain.size(), 2));
                assert_eq!(found.to_vec(stream).unwrap(), ours::<Mersenne31>(&expected), "{domain:?}");
            }
        }
    });
}

#[test]
fn canonic_domains_equal_stwo() {
    for log_size in 1..=30 {
        let expected = our_domain(CanonicCoset::new(log_size).circle_domain());
        assert_eq!(Domain::canonic(log_size).unwrap(), expected);
        assert_eq!(expected.log_size(), log_size);
    }
    assert_says(Domain::canonic(0), &["one point"]);
    assert_says(Domain::canonic(31), &["2^30 points", "at most 2^29"]);
}

fn check_twiddles(stream: &Stream, coset: TheirCoset) {
    let expected = CpuBackend::precompute_twiddles(coset);
    let (found, inverses) = twiddles_and_inverses(stream, our_coset(coset)).unwrap();
    assert_eq!(found.to_vec(stream).unwrap(), ours::<Mersenne31>(&expected.twiddles), "{coset:?}");
    assert_eq!(inverses.to_vec(stream).unwrap(), ours::<Mersenne31>(&expected.itwiddles), "{coset:?}");
}

/// One word; layers within a vector, within a warp, and larger; blocks that loop.
#[test]
fn twiddles_equal_stwo() {
    on_each_device(|stream| {
        for log_size in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16] {
            check_twiddles(stream, TheirCoset::half_odds(log_size));
        }
        // Upstream cannot invert the twiddles of `odds`: doubled to two points, it is on the y axis.
        for coset in cosets(10).into_iter().filter(|&coset| coset != TheirCoset::odds(10)) {
            check_twiddles(stream, coset);
        }
        let found = twiddles(stream, our_coset(TheirCoset::odds(10))).unwrap().to_vec(stream).unwrap();
        assert_eq!(found, ours::<Mersenne31>(&slow_precompute_twiddles(TheirCoset::odds(10))));
    });
}

#[test]
fn wrong_cosets_are_refused() {
    on_each_device(|stream| {
        let coset = Coset::half_odds(4).unwrap();
        let off = Coset { initial: [Mersenne31::new(2), Mersenne31::new(3)], ..coset };
        assert_says(twiddles(stream, off), &["circle_domain::twiddles", "not a point of the circle"]);
        let more = Coset { log_size: 5, ..coset };
        assert_says(twiddles(stream, more), &["does not have order 2^5"]);
        let fewer = Coset { log_size: 3, ..coset };
        let half = Domain { half: fewer };
        assert_says(points(stream, half), &["circle_domain::points", "does not have order 2^3"]);
        assert_says(twiddles(stream, Coset { log_size: 31, ..coset }), &["2^31 points", "at most 2^30"]);
    });
}

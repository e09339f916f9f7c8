//! FRI folding against upstream's, and against the formula of one halving.

use std::marker::PhantomData;

use p3_field::{ExtensionField, PrimeCharacteristicRing, TwoAdicField};
use p3_fri::{FriFoldingStrategy, TwoAdicFriFolding};
use p3_matrix::dense::RowMajorMatrix;
use p3_util::reverse_bits_len;
use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::field::*;
use rigel_kernels::fri::fold::fold;
use rigel_kernels::layout::slab::to_slab;

use crate::oracle::{Oracle, assert_says, download, random_elements, upload};
use crate::support::{on_each_device, rng};

/// Folds with and without a column that joins.
fn check<E: Oracle, U: TwoAdicField>(stream: &Stream, log_n: u32, log_arity: u32)
where
    E::Theirs: ExtensionField<U>,
{
    let mut rng = rng(u64::from(10 * log_n + log_arity));
    let values = random_elements::<E>(&mut rng, 1 << log_n);
    let joined = random_elements::<E>(&mut rng, 1 << (log_n - log_arity));
    let beta = random_elements::<E>(&mut rng, 1)[0];
    let what = format!("{} 2^{log_n} by 2^{log_arity}", E::NAME);

    let rows = RowMajorMatrix::new(values.iter().map(|x| x.theirs()).collect(), 1 << log_arity);
    let folding = TwoAdicFriFolding::<(), ()>(PhantomData);
    let folded =
        FriFoldingStrategy::<U, E::Theirs>::fold_matrix(&folding, beta.theirs(), log_arity as usize, rows);
    let ours = |folded: &[E::Theirs]| folded.iter().map(|&x| E::ours(x)).collect::<Vec<E>>();

    let on_device = upload(stream, &[values]);
    let found = fold::<E>(stream, on_device.values().view(), log_arity, beta, None).unwrap();
    assert_eq!((found.rows(), found.columns()), (1 << (log_n - log_arity), E::DEGREE));
    assert_eq!(download::<E>(stream, &found), [ours(&folded)], "{what}");

    let weight = beta.theirs().exp_power_of_2(log_arity as usize);
    let sum: Vec<_> = folded.iter().zip(&joined).map(|(&x, other)| x + weight * other.theirs()).collect();
    let joined = upload(stream, &[joined]);
    let found =
        fold::<E>(stream, on_device.values().view(), log_arity, beta, Some(joined.values().view())).unwrap();
    assert_eq!(download::<E>(stream, &found), [ours(&sum)], "{what}, joined");
}

fn check_sizes<E: Oracle, U: TwoAdicField>()
where
    E::Theirs: ExtensionField<U>,
{
    on_each_device(|stream| {
        for log_n in [1, 2, 3, 4, 5, 6, 9, 12] {
            for log_arity in 1..=log_n.min(5) {
                check::<E, U>(stream, log_n, log_arity);
            }
        }
        check::<E, U>(stream, 9, 9);
    });
}

#[test]
fn koala_bear_folds_equal_plonky3() {
    check_sizes::<KoalaBear4, p3_koala_bear::KoalaBear>();
}

#[test]
fn baby_bear_folds_equal_plonky3() {
    check_sizes::<BabyBear4, p3_baby_bear::BabyBear>();
}

#[test]
fn goldilocks_folds_equal_plonky3() {
    check_sizes::<Goldilocks2, p3_goldilocks::Goldilocks>();
    check_sizes::<Goldilocks3, p3_goldilocks::Goldilocks>();
}

#[test]
fn folds_over_base_fields_equal_plonky3() {
    check_sizes::<KoalaBear, p3_koala_bear::KoalaBear>();
    check_sizes::<Goldilocks, p3_goldilocks::Goldilocks>();
}

/// One halving by its formula, of a slab at an arbitrary offset in a buffer.
#[test]
fn a_halving_is_its_formula() {
    fn halve<E: Oracle, U: TwoAdicField>(stream: &Stream)
    where
        E::Theirs: ExtensionField<U>,
    {
        let (mut rng, log_n) = (rng(7), 6);
        let values = random_elements::<E>(&mut rng, 1 << log_n);
        let beta = random_elements::<E>(&mut rng, 1)[0];
        let g = U::two_adic_generator(log_n).inverse();
        let expected: Vec<E> = (0..1usize << (log_n - 1))
            .map(|i| {
                let (low, high) = (values[2 * i].theirs(), values[2 * i + 1].theirs());
                let twiddle = g.exp_u64(reverse_bits_len(i, log_n - 1) as u64);
                E::ours((low + high).halve() + (low - high) * beta.theirs() * twiddle.halve())
            })
            .collect();
        let mut buffer = vec![E::Base::ZERO; 3];
        buffer.extend(to_slab(&values));
        let buffer = stream.upload(&buffer).unwrap();
        let found = fold::<E>(stream, buffer.range(3..).unwrap(), 1, beta, None).unwrap();
        assert_eq!(download::<E>(stream, &found), [expected], "{}", E::NAME);
    }
    on_each_device(|stream| {
        halve::<KoalaBear4, p3_koala_bear::KoalaBear>(stream);
        halve::<Goldilocks3, p3_goldilocks::Goldilocks>(stream);
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let slab = |n| Matrix::<KoalaBear>::zeros(stream, n, 4).unwrap();
        let try_fold = |n: usize, log_arity, joined: Option<&Matrix<KoalaBear>>| {
            let joined = joined.map(|joined| joined.values().view());
            fold::<KoalaBear4>(stream, slab(n).values().view(), log_arity, KoalaBear4::ONE, joined)
        };
        assert_says(try_fold(0, 1, None), &["fold", "0 values"]);
        assert_says(try_fold(6, 1, None), &["6 rows", "power of two"]);
        assert_says(try_fold(8, 0, None), &["8 elements folded by 2^0"]);
        assert_says(try_fold(8, 4, None), &["8 elements folded by 2^4"]);
        assert_says(try_fold(8, 1, Some(&slab(8))), &["32 values join a result of 16"]);
        let three = stream.zeros::<KoalaBear>(6).unwrap();
        assert_says(
            fold::<KoalaBear4>(stream, three.view(), 1, KoalaBear4::ONE, None),
            &["6 values", "multiple of 4"],
        );
        let none = stream.zeros::<Mersenne31>(16).unwrap();
        assert_says(fold::<QM31>(stream, none.view(), 1, QM31::ONE, None), &["2^2 points", "at most 2^1"]);
    });
}

//! Columns.

use rigel_stwo::{BaseColumn, HashColumn, SecureColumn, upload};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::bit_reverse;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::prover::backend::{Column, ColumnOps};
use stwo::prover::poly::circle::CircleEvaluation;

use crate::random::{Cuda, bases, on_devices, rng, secures};

const LENGTHS: [usize; 8] = [1, 2, 4, 16, 64, 128, 1024, 4096];

/// Compares the operations of a column with those of a vector.
fn check<T, C>(values: Vec<T>, other: T)
where
    T: Copy + PartialEq + std::fmt::Debug,
    C: Column<T>,
    Cuda: ColumnOps<T, Column = C>,
{
    let n = values.len();
    let mut column: C = values.iter().copied().collect();
    assert_eq!((column.len(), column.is_empty()), (n, n == 0));
    assert_eq!(column.to_cpu(), values);
    for i in [0, n / 3, n - 1] {
        assert_eq!(column.at(i), values[i], "element {i} of {n}");
    }
    let copy = column.clone();
    column.set(n / 2, other);
    let mut changed = values.clone();
    changed[n / 2] = other;
    assert_eq!((column.at(n / 2), column.to_cpu()), (other, changed.clone()));
    assert_eq!((copy.at(n / 2), copy.to_cpu()), (values[n / 2], values));
    if n.is_power_of_two() {
        Cuda::bit_reverse_column(&mut column);
        bit_reverse(&mut changed);
        assert_eq!((column.at(n / 3), column.to_cpu()), (changed[n / 3], changed.clone()), "{n} bit-reversed");
    }
    let (head, tail) = column.split_at_mid();
    assert_eq!([head.to_cpu(), tail.to_cpu()].concat(), changed, "halves of {n}");
}

#[test]
fn base_columns() {
    on_devices(|_| {
        for n in LENGTHS {
            check::<BaseField, BaseColumn>(bases(&mut rng(n as u64), n), BaseField::from_u32_unchecked(5));
        }
        check::<BaseField, BaseColumn>(bases(&mut rng(3), 77), BaseField::from_u32_unchecked(6));
    });
}

#[test]
fn secure_columns() {
    on_devices(|_| {
        for n in LENGTHS {
            check::<SecureField, SecureColumn>(
                secures(&mut rng(n as u64), n),
                SecureField::from_u32_unchecked(1, 2, 3, 4),
            );
        }
    });
}

#[test]
fn columns_of_digests() {
    on_devices(|_| {
        for n in LENGTHS {
            let values = (0..n).map(|i| Blake2sHash(std::array::from_fn(|b| (i * 7 + b) as u8))).collect();
            check::<Blake2sHash, HashColumn>(values, Blake2sHash([9; 32]));
        }
    });
}

#[test]
fn columns_of_zeros() {
    on_devices(|stream| {
        let before = stream.device().memory_stats().in_use;
        let mut zeros = BaseColumn::zeros(1 << 12);
        let room = SecureColumn::zeros(1 << 12);
        // No memory is allocated before it is written.
        assert_eq!(stream.device().memory_stats().in_use, before);
        assert_eq!((zeros.len(), room.at(77)), (1 << 12, SecureField::default()));
        assert!(zeros.clone().to_cpu().iter().all(|&value| value == BaseField::default()));
        zeros.set(5, BaseField::from_u32_unchecked(9));
        let expected: Vec<u32> = (0..1 << 12).map(|i| if i == 5 { 9 } else { 0 }).collect();
        assert_eq!(zeros.to_cpu().iter().map(|value| value.0).collect::<Vec<_>>(), expected);
        let (head, tail) = BaseColumn::zeros(8).split_at_mid();
        assert_eq!((head.len(), tail.to_cpu()), (4, vec![BaseField::default(); 4]));
    });
}

#[test]
fn a_kernels_memory_is_a_column() {
    on_devices(|stream| {
        let words = (0..40u32).map(rigel_kernels::field::Mersenne31::new).collect::<Vec<_>>();
        let column = BaseColumn::from_buffer(stream.upload(&words).unwrap()).unwrap();
        assert_eq!(column.at(39), BaseField::from_u32_unchecked(39));
        let slab = SecureColumn::from_buffer(column.into_buffer()).unwrap();
        assert_eq!((slab.len(), slab.at(1)), (10, SecureField::from_u32_unchecked(1, 11, 21, 31)));
        let odd = stream.upload(&words[..7]).unwrap();
        let error = SecureColumn::from_buffer(odd).unwrap_err().to_string();
        assert!(error.contains("7 words") && error.contains("4 words"), "{error}");
    });
}

#[test]
fn an_element_beyond_the_end_is_refused() {
    on_devices(|_| {
        let column: BaseColumn = bases(&mut rng(1), 100).into_iter().collect();
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| column.at(100))).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("element 100 of a column of 100"), "{message}");
    });
}

#[test]
fn a_clone_takes_no_memory_until_one_of_the_two_is_written_to() {
    on_devices(|stream| {
        let in_use = || stream.device().memory_stats().in_use;
        let values = bases(&mut rng(8), 1 << 12);
        let column: BaseColumn = values.iter().copied().collect();
        let before = in_use();
        let mut clone = column.clone();
        assert_eq!((in_use(), clone.to_cpu()), (before, values.clone()));
        let other = BaseField::from_u32_unchecked(9);
        clone.set(3, other);
        assert!(in_use() > before);
        assert_eq!((column.to_cpu(), clone.at(3)), (values.clone(), other));

        let kept = column.clone();
        let mut taken = BaseColumn::from_buffer(column.into_buffer()).unwrap();
        taken.set(4, other);
        assert_eq!((kept.to_cpu(), taken.at(4)), (values, other));
    });
}

#[test]
fn a_column_is_written_to_in_the_memory_that_it_shares_with_others() {
    on_devices(|stream| {
        let in_use = || stream.device().memory_stats().in_use;
        let domain = CanonicCoset::new(8).circle_domain();
        let values: Vec<Vec<BaseField>> = (0..3).map(|i| bases(&mut rng(i), domain.size())).collect();
        let host = values.iter().map(|column| CircleEvaluation::new(domain, column.iter().copied().collect()));
        let columns = upload(&host.collect::<Vec<_>>()).unwrap();
        let [first, mut second, third]: [BaseColumn; 3] =
            columns.into_iter().map(|column| column.values).collect::<Vec<_>>().try_into().unwrap();
        let before = in_use();
        let other = BaseField::from_u32_unchecked(9);
        second.set(0, other);
        second.set(domain.size() - 1, other);
        assert_eq!(in_use(), before);
        assert_eq!([second.at(0), second.at(1), second.at(domain.size() - 1)], [other, values[1][1], other]);
        assert_eq!([first.to_cpu(), third.to_cpu()], [values[0].clone(), values[2].clone()]);

        // A clone of one of them keeps what it has.
        let mut clone = third.clone();
        drop((first, second));
        clone.set(5, other);
        assert!(in_use() > before);
        assert_eq!((third.to_cpu(), clone.at(5)), (values[2].clone(), other));
    });
}

//! Orders on circle domains against Stwo's.

use rigel_gpu::DeviceKind;
use rigel_kernels::Matrix;
use rigel_kernels::domain::circle_order::*;
use rigel_kernels::field::{Mersenne31, QM31};
use stwo::core::fields::m31::BaseField;
use stwo::prover::backend::CpuBackend;
use stwo::prover::backend::simd::column::BaseColumn;
use stwo::prover::backend::simd::prefix_sum::inclusive_prefix_sum;
use stwo::prover::vcs_lifted::ops::PackLeavesOps;

use crate::domain::circle_domain::{ours, theirs};
use crate::oracle::{assert_says, download, random_columns, random_elements, upload};
use crate::support::{on_each_device, rng};

#[test]
fn prefix_sums_equal_stwo() {
    on_each_device(|stream| {
        let mut shapes = vec![(1, 1), (2, 3), (3, 2), (6, 4), (8, 1), (14, 2)];
        // More columns than a grid has in its y dimension: 50 million threads, a minute of the emulated device.
        if stream.device().kind() == DeviceKind::Cuda {
            shapes.push((1, 65_537));
        }
        for (log_rows, columns) in shapes {
            let rows = 1 << log_rows;
            let values = random_columns::<Mersenne31>(&mut rng(log_rows), rows, columns);
            let total = |column: &Vec<_>| theirs(column).into_iter().reduce(|sum, x| sum + x).unwrap();
            let expected = |column: &Vec<_>| {
                let mean = total(column) / BaseField::from_u32_unchecked(rows as u32);
                let centred: BaseColumn = theirs(column).into_iter().map(|value| value - mean).collect();
                ours(&inclusive_prefix_sum(centred).into_cpu_vec())
            };
            let expected: Vec<Vec<Mersenne31>> = values.iter().map(expected).collect();
            let totals: Vec<BaseField> = values.iter().map(total).collect();
            let mut matrix = upload(stream, &values);
            let found = centred_prefix_sums(stream, matrix.values_mut().view_mut(), rows).unwrap();
            assert_eq!(download::<Mersenne31>(stream, &matrix), expected, "{columns} of 2^{log_rows}");
            assert_eq!(found.to_vec(stream).unwrap(), ours(&totals), "{columns} of 2^{log_rows}");
        }
    });
}

#[test]
fn packed_leaves_equal_stwo() {
    on_each_device(|stream| {
        for n in [4, 8, 64, 2_052] {
            let values = random_elements::<QM31>(&mut rng(n as u64), n);
            let slab = upload(stream, &[values]);
            let columns = download::<Mersenne31>(stream, &slab);
            let columns: Vec<_> = columns.iter().map(|column| theirs(column)).collect();
            let expected = CpuBackend::pack_leaves_input(&std::array::from_fn(|d| &columns[d]));
            let expected: Vec<Vec<Mersenne31>> = expected.iter().map(|column| ours(column)).collect();
            let found = pack_leaves(stream, slab.values().view()).unwrap();
            assert_eq!(download::<Mersenne31>(stream, &found), expected, "{n}");
        }
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let mut matrix = Matrix::<Mersenne31>::zeros(stream, 6, 4).unwrap();
        let mut sums = |rows| centred_prefix_sums(stream, matrix.values_mut().view_mut(), rows);
        assert_says(sums(6), &["6 rows", "power of two"]);
        assert_says(sums(1), &["circle_order::centred_prefix_sums", "24 columns of 1 rows"]);
        assert_says(sums(16), &["24 values", "16 rows"]);
        let values = matrix.values().view();
        assert_says(pack_leaves(stream, values), &["circle_order::pack_leaves", "6 values", "multiple of 4"]);
    });
}

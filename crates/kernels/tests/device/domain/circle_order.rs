//! Orders on circle domains against Stwo's.

use rigel_gpu::DeviceKind;
use rigel_kernels::Matrix;
use rigel_kernels::domain::circle_order::*;
use rigel_kernels::field::{Mersenne31, QM31};
use stwo::core::fields::m31::BaseField;
use stwo::core::utils::{bit_reverse_index, offset_bit_reversed_circle_domain_index};
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

/// Each block of a domain's rows gets its neighbours from the blocks that have them.
#[test]
fn neighbours_of_blocks_equal_stwo() {
    on_each_device(|stream| {
        for (log_rows, log_trace, log_blocks) in [(5, 4, 1), (6, 5, 2), (7, 5, 3), (8, 4, 3), (10, 9, 1)] {
            let (blocks, rows) = (1usize << log_blocks, 1usize << (log_rows - log_blocks));
            let columns = random_columns::<Mersenne31>(&mut rng(u64::from(log_rows)), 1 << log_rows, 3);
            let block = |k: usize| -> Vec<Mersenne31> {
                columns.iter().flat_map(|column| &column[k * rows..(k + 1) * rows]).copied().collect()
            };
            for (k, offset) in (0..blocks).flat_map(|k| [-5, -1, 1, 2].map(|offset| (k, offset))) {
                let (low, step) = (bit_reverse_index(k, log_blocks) as i64, offset << (log_rows - log_trace - 1));
                let sides = [low + step, low - step].map(|to| {
                    let low = to.rem_euclid(blocks as i64) as usize;
                    (bit_reverse_index(low, log_blocks), to.div_euclid(blocks as i64))
                });
                let [even, odd] = sides.map(|(block_there, _)| stream.upload(&block(block_there)).unwrap());
                let mut found = stream.alloc(3 * rows).unwrap();
                let steps = sides.map(|(_, points)| points);
                neighbours_into(stream, found.view_mut(), even.view(), odd.view(), rows, steps).unwrap();
                let place = |row: usize| {
                    offset_bit_reversed_circle_domain_index(row, log_trace, log_rows, offset as isize)
                };
                let expected: Vec<Mersenne31> = columns
                    .iter()
                    .flat_map(|column| (k * rows..(k + 1) * rows).map(|row| column[place(row)]))
                    .collect();
                assert_eq!(found.to_vec(stream).unwrap(), expected, "2^{log_rows}, block {k}, offset {offset}");
            }
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
        let mut to = stream.zeros(8).unwrap();
        let few = stream.zeros(4).unwrap();
        let refused = neighbours_into(stream, to.view_mut(), few.view(), few.view(), 4, [0, 0]);
        assert_says(refused, &["circle_order::neighbours_into", "4 and 4 values to 8"]);
        let values = matrix.values().view();
        assert_says(pack_leaves(stream, values), &["circle_order::pack_leaves", "6 values", "multiple of 4"]);
    });
}

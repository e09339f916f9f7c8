//! Masks against loops.

use rigel_kernels::Matrix;
use rigel_kernels::commit::mask::{add_multiple, interleave};
use rigel_kernels::field::*;

use crate::oracle::assert_says;
use crate::support::{on_each_device, random, rng};

#[test]
fn rows_alternate_with_random_ones() {
    on_each_device(|stream| {
        let mut rng = rng(1);
        for (rows, width, codewords) in [(1, 1, 1), (2, 3, 0), (8, 5, 4), (512, 3, 2)] {
            let trace = random::<KoalaBear>(&mut rng, rows * width);
            let masks = random::<KoalaBear>(&mut rng, rows * (width + 2 * codewords));
            let expected = |row: usize, column: usize| match (row % 2, column < width) {
                (0, true) => trace[column * rows + row / 2],
                (0, false) => masks[(column - width) * rows + row / 2],
                _ => masks[(codewords + column) * rows + row / 2],
            };
            let device = |values| Matrix::upload(stream, values, rows).unwrap();
            let (ours, random) = (device(&trace), device(&masks));
            for columns in [0..width + codewords, 1..width] {
                let found =
                    interleave(stream, (&ours).into(), (&random).into(), codewords, columns.clone()).unwrap();
                let expected: Vec<_> = columns
                    .flat_map(|c| (0..2 * rows).map(move |r| (r, c)))
                    .map(|(r, c)| expected(r, c))
                    .collect();
                assert_eq!(found.to_vec(stream).unwrap(), expected, "{rows} x {width} + {codewords}");
            }
            let wrong = interleave(stream, (&ours).into(), (&random).into(), codewords + 1, 0..1);
            assert_says(wrong, &["random"]);
        }
    });
}

#[test]
fn multiples_are_added_by_blocks() {
    on_each_device(|stream| {
        let mut rng = rng(2);
        for (rows, columns, blocks) in [(1, 1, 1), (8, 3, 4), (1024, 2, 8)] {
            let [values, mask] = [(); 2].map(|()| random::<Goldilocks>(&mut rng, rows * columns));
            let factors = random::<Goldilocks>(&mut rng, blocks);
            let factor = |i: usize| factors[i % rows / (rows / blocks)];
            let expected: Vec<_> = (0..rows * columns).map(|i| values[i] + factor(i) * mask[i]).collect();
            let mut found = Matrix::upload(stream, &values, rows).unwrap();
            let mask = Matrix::upload(stream, &mask, rows).unwrap();
            let factors = stream.upload(&factors).unwrap();
            add_multiple(stream, &mut found, &mask, factors.view()).unwrap();
            assert_eq!(found.to_vec(stream).unwrap(), expected, "{rows} x {columns}, {blocks} blocks");
        }
    });
}

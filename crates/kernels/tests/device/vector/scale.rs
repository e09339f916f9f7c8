//! Rows times factors against a loop.

use rigel_kernels::field::*;
use rigel_kernels::vector::scale::scale_rows;

use crate::oracle::assert_says;
use crate::support::{on_each_device, random, rng};

#[test]
fn rows_are_scaled() {
    on_each_device(|stream| {
        let mut rng = rng(1);
        for (rows, columns) in [(1, 1), (3, 2), (4, 5), (1_021, 3), (2_048, 2)] {
            let values = random::<BabyBear>(&mut rng, rows * columns);
            let factors = random::<BabyBear>(&mut rng, rows);
            let expected: Vec<_> = values.iter().enumerate().map(|(i, &x)| x * factors[i % rows]).collect();
            let (mut scaled, factors) = (stream.upload(&values).unwrap(), stream.upload(&factors).unwrap());
            scale_rows(stream, scaled.view_mut(), factors.view()).unwrap();
            assert_eq!(scaled.to_vec(stream).unwrap(), expected, "{rows} x {columns}");
        }
        let (mut values, factors) = (stream.zeros::<BabyBear>(10).unwrap(), stream.zeros::<BabyBear>(3).unwrap());
        assert_says(scale_rows(stream, values.view_mut(), factors.view()), &["10 values", "3 rows"]);
    });
}

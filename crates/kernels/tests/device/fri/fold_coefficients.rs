//! Folding by 16 in coefficient form against the formula.

use rigel_kernels::field::*;
use rigel_kernels::fri::fold_coefficients::fold_into;

use crate::oracle::{assert_says, random_elements};
use crate::support::{on_each_device, rng};
use rigel_kernels::layout::slab::{from_slab, to_slab};

#[test]
fn folds_equal_the_formula() {
    on_each_device(|stream| {
        for n in [1, 3, 16, 300] {
            let mut rng = rng(n as u64);
            let coefficients = random_elements::<RiscZero4>(&mut rng, 16 * n);
            let beta = random_elements::<RiscZero4>(&mut rng, 1)[0];
            let fold = |run: &[RiscZero4]| run.iter().rev().fold(RiscZero4::ZERO, |sum, &c| sum * beta + c);
            let expected: Vec<_> = coefficients.chunks(16).map(fold).collect();
            let slab = stream.upload(&to_slab(&coefficients)).unwrap();
            let mut out = stream.alloc::<BabyBear>(4 * n).unwrap();
            fold_into(stream, out.view_mut(), slab.view(), beta).unwrap();
            assert_eq!(from_slab::<RiscZero4>(&out.to_vec(stream).unwrap()).unwrap(), expected, "{n}");
        }
        let (slab, mut out) = (stream.zeros::<BabyBear>(64).unwrap(), stream.zeros::<BabyBear>(8).unwrap());
        let folded = fold_into(stream, out.view_mut(), slab.view(), RiscZero4::ONE);
        assert_says(folded, &["64 values", "into 8"]);
    });
}

//! Sums of bits weighted by powers of two: each step doubles, and what it doubles is used twice.

use rigel_codegen::{Bindings, CompiledGraph, ExpressionGraph, Folded, Output, Rows, Split};
use rigel_gpu::testing::on_each_device;
use rigel_kernels::Matrix;
use rigel_kernels::field::{Element, Field, Goldilocks2, KoalaBear4, Ring};
use rigel_kernels::layout::slab::{from_slab, to_slab};

/// Horner's rule with doublings, 32 columns at a time: compiled in seconds, and right.
fn check<E: Element>() {
    const COLUMNS: usize = 96;
    on_each_device(|stream| {
        let mut graph = ExpressionGraph::<E>::new();
        let mut outputs = Vec::new();
        for first in (0..COLUMNS).step_by(32) {
            let mut value = graph.column(0, first, 0);
            for column in first + 1..first + 32 {
                let bit = graph.column(0, column, 0);
                let double = graph.add(value, value);
                value = graph.add(bit, double);
            }
            outputs.push(Output::Fold { value, weight: first / 32 });
        }
        let program =
            CompiledGraph::compile(stream.device(), "doubling", &graph, &outputs, Split::default()).unwrap();
        let rows = 8;
        let bits: Vec<E::Base> =
            (0..rows * COLUMNS).map(|i| E::Base::from_u64((i as u64).wrapping_mul(0x9e37_79b9) >> 7)).collect();
        let input = Matrix::upload(stream, &bits, rows).unwrap();
        let weights: Vec<E> = (0..3).map(|i| E::ONE + E::from_parts(&weight::<E>(i)).unwrap()).collect();
        let weights_on_device = stream.upload(&weights).unwrap();
        let scale = stream.upload(&[E::Base::ONE]).unwrap();
        let mut sums = stream.alloc::<E::Base>(rows * E::DEGREE).unwrap();
        let folded =
            Folded { values: sums.view_mut(), scale: scale.view(), log_scale: 3, log_block: 3, accumulate: false };
        let mut bindings = Bindings::<E>::new().input(&input).weights(&weights_on_device).folded(folded);
        program.run(stream, Rows::Natural { rows }, &mut bindings).unwrap();
        let found = from_slab::<E>(&sums.to_vec(stream).unwrap()).unwrap();
        for (row, found) in found.into_iter().enumerate() {
            let mut expected = E::ZERO;
            for (block, &weight) in weights.iter().enumerate() {
                let mut value = E::Base::ZERO;
                for column in 32 * block..32 * block + 32 {
                    value = value + value + bits[column * rows + row];
                }
                expected += weight * E::from_parts(&lifted::<E>(value)).unwrap();
            }
            assert_eq!(to_slab(&[found]).len(), E::DEGREE);
            assert_eq!(found, expected, "row {row} of {}", E::NAME);
        }
    });
}

fn weight<E: Element>(i: u64) -> Vec<E::Base> {
    (0..E::DEGREE as u64).map(|d| E::Base::from_u64(i * 1_000 + d)).collect()
}

fn lifted<E: Element>(value: E::Base) -> Vec<E::Base> {
    (0..E::DEGREE).map(|d| if d == 0 { value } else { E::Base::ZERO }).collect()
}

#[test]
fn chains_of_doublings() {
    check::<KoalaBear4>();
    check::<Goldilocks2>();
}

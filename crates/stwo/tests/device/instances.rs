//! Components with templates: the same results as without, and no kernels compiled for another instance.

use rigel_stwo::{BaseColumn, Instance, Template, interaction_trace};
use stwo::core::fields::m31::BaseField;
use stwo::core::pcs::TreeVec;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::{Backend, Column};
use stwo::prover::poly::circle::CircleCoefficients;
use stwo::prover::{ComponentProver, ComponentProvers, Poly, Trace};
use stwo_constraint_framework::{
    EvalAtRow, FrameworkComponent, FrameworkEval, RelationEntry, TraceLocationAllocator, relation,
};

use crate::random::{Cpu, Cuda, bases, column, on_devices, rng, secure};

relation!(Pairs, 2);

/// b = a + start, and lookups of both halves of a table of 2^`log_rows` rows.
#[derive(Clone)]
struct Shifted {
    log_rows: u32,
    start: u32,
    pairs: Pairs,
}

impl Shifted {
    fn template(&self) -> Template<Self> {
        const PLACEHOLDER: u32 = 1_234_567_890;
        const LOG_ROWS: u32 = 29;
        Template {
            eval: Self { start: PLACEHOLDER, log_rows: LOG_ROWS, ..self.clone() },
            constants: vec![
                (PLACEHOLDER.into(), self.start.into()),
                ((1 << LOG_ROWS).into(), (1 << self.log_rows).into()),
            ],
        }
    }
}

impl FrameworkEval for Shifted {
    fn log_size(&self) -> u32 {
        self.log_rows
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_rows + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let (a, b) = (eval.next_trace_mask(), eval.next_trace_mask());
        let start = E::F::from(BaseField::from(self.start));
        eval.add_constraint((b.clone() - a.clone() - start.clone()) * BaseField::from(3));
        let second = a.clone() + E::F::from(BaseField::from(1 << self.log_rows));
        eval.add_to_relation(RelationEntry::new(&self.pairs, E::EF::from(b), &[a + start.clone(), start]));
        eval.add_to_relation(RelationEntry::new(
            &self.pairs,
            E::EF::from(second.clone()),
            &[second.clone(), second],
        ));
        eval.finalize_logup();
        eval
    }
}

fn component(log_rows: u32, start: u32) -> FrameworkComponent<Shifted> {
    let eval = Shifted { log_rows, start, pairs: Pairs::dummy() };
    FrameworkComponent::new(&mut TraceLocationAllocator::default(), eval, secure(&mut rng(8)))
}

/// The coefficients of the composition polynomial of one prover on random columns.
fn composition<B: Backend>(prover: &dyn ComponentProver<B>, log_rows: u32) -> [Vec<BaseField>; 4] {
    let polynomial = |seed: u64| {
        let coefficients = CircleCoefficients::<B>::new(column::<B, _>(&bases(&mut rng(seed), 1 << log_rows)));
        let evaluation = coefficients.evaluate(CanonicCoset::new(log_rows + 1).circle_domain());
        Poly::new(None, evaluation)
    };
    let trees: Vec<Vec<Poly<B>>> =
        [0, 2, 8].iter().map(|&columns| (0..columns).map(|i| polynomial(10 * columns + i)).collect()).collect();
    let trace = Trace { polys: TreeVec(trees.iter().map(|tree| tree.iter().collect()).collect()) };
    let provers = ComponentProvers { components: vec![prover], n_preprocessed_columns: 0 };
    let twiddles = B::precompute_twiddles(CanonicCoset::new(log_rows + 2).half_coset());
    let composition = provers.compute_composition_polynomial(secure(&mut rng(4)), &trace, &twiddles, 1);
    composition.0.map(|coordinate| coordinate.coeffs.to_cpu())
}

#[test]
fn instances_share_kernels() {
    on_devices(|stream| {
        let device = stream.device();
        let modules = || device.cache().stats().compiled + device.cache().stats().hits;
        for (i, (log_rows, start)) in [(5, 77), (6, 0), (4, 1), (7, 3)].into_iter().enumerate() {
            let component = component(log_rows, start);
            let instance = Instance::new(&component, Some(component.template()));
            let before = modules();
            assert!(instance.compile(device, &[]).unwrap() > 1);
            assert_eq!(modules() > before, i == 0, "only the first instance, and not {i}, needs new kernels");

            let found = composition::<Cuda>(&instance, log_rows);
            assert_eq!(found, composition::<Cpu>(&component, log_rows), "2^{log_rows} rows from {start}");
            let columns = [1, 2].map(|seed| column::<Cuda, _>(&bases(&mut rng(seed), 1 << log_rows)));
            let trace: Vec<&BaseColumn> = columns.iter().collect();
            let (lookups, sum) = instance.start_interaction_trace(&[], &trace).unwrap().finish().unwrap();
            let (expected, expected_sum) = interaction_trace(&*component, &[], &trace).unwrap();
            assert_eq!(sum, expected_sum);
            for (column, expected) in lookups.iter().zip(&expected) {
                assert_eq!(column.values.to_cpu(), expected.values.to_cpu());
            }
        }
    });
}

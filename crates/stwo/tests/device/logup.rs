//! LogUp columns, compared with upstream's generator.

use num_traits::One;
use rigel_stwo::{
    BaseColumn, LogupTraceGenerator, Numerators, SecureColumn, check_denominators, interaction_trace,
    start_interaction_trace,
};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::Column;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::simd::qm31::PackedSecureField;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, RelationEntry, relation};

use crate::random::{bases, evaluation, on_devices, over_each, rng, secures};

/// LogUp columns and the claimed sum, as upstream computes them from fractions.
fn upstream(
    log_size: u32,
    fractions: &[(Vec<SecureField>, Vec<SecureField>)],
) -> (Vec<Vec<BaseField>>, SecureField) {
    let mut generator = stwo_constraint_framework::LogupTraceGenerator::new(log_size);
    for (numerators, denominators) in fractions {
        let packed = |values: &[SecureField], i: usize| {
            PackedSecureField::from_array(std::array::from_fn(|lane| values[16 * i + lane]))
        };
        let rows = (0..1usize << (log_size - 4)).map(|i| (packed(numerators, i), packed(denominators, i)));
        generator.col_from_iter(rows);
    }
    let (columns, sum) = generator.finalize_last();
    (columns.iter().map(|column| column.values.to_cpu()).collect(), sum)
}

fn columns(found: &rigel_stwo::Interaction) -> Vec<Vec<BaseField>> {
    found.0.iter().map(|column| column.values.to_cpu()).collect()
}

#[test]
fn from_columns_of_fractions() {
    on_devices(|_| {
        for log_size in [4, 5, 9] {
            let mut rng = rng(log_size.into());
            let n = 1 << log_size;
            let [a, b, c, d] = std::array::from_fn(|_| secures(&mut rng, n));
            let multiplicities = bases(&mut rng, n);
            let constant = SecureField::from_u32_unchecked(1, 2, 0, 5);
            let mut generator = LogupTraceGenerator::new(log_size).unwrap();
            let column = |values: &[SecureField]| values.iter().copied().collect::<SecureColumn>();
            generator.new_col().write_fracs(Numerators::Secure(&column(&a)), &column(&b)).unwrap();
            let base: BaseColumn = multiplicities.iter().copied().collect();
            generator.new_col().write_fracs(Numerators::Base(&base), &column(&c)).unwrap();
            generator.new_col().write_fracs(Numerators::Constant(constant), &column(&d)).unwrap();
            let found = generator.finalize_last().unwrap();
            let multiplicities = multiplicities.into_iter().map(SecureField::from).collect();
            let expected = upstream(log_size, &[(a, b), (multiplicities, c), (vec![constant; n], d)]);
            assert_eq!((columns(&found), found.1), expected, "2^{log_size}");
        }
    });
}

/// The generator takes uploaded columns, of which each device has a share, and denominators of another device.
#[test]
fn fractions_of_several_devices() {
    let (log_size, mut rng) = (5, rng(11));
    let n = 1usize << log_size;
    let [multiplicities, b] = std::array::from_fn(|_| bases(&mut rng, n));
    let [c, d, e] = std::array::from_fn(|_| secures(&mut rng, n));
    let secure = |values: &[BaseField]| values.iter().copied().map(SecureField::from).collect::<Vec<_>>();
    let fractions = [(secure(&b), c.clone()), (secure(&multiplicities), c.clone()), (d.clone(), e.clone())];
    let expected = upstream(log_size, &fractions);
    let domain = CanonicCoset::new(log_size).circle_domain();
    let trace = [&b, &multiplicities].map(|values| evaluation::<SimdBackend>(domain, values));
    over_each(2, |devices| {
        let uploaded = rigel_stwo::upload(&trace).unwrap();
        assert!(uploaded[1].values.device().is(&devices[1]), "each device has a share");
        let column = |values: &[SecureField]| values.iter().copied().collect::<SecureColumn>();
        let [d, e] = rigel_stwo::on(&devices[1], || [&d, &e].map(|values| column(values)));
        let mut generator = LogupTraceGenerator::new(log_size).unwrap();
        for multiplicities in &uploaded {
            let numerators = Numerators::Base(&multiplicities.values);
            generator.new_col().write_fracs(numerators, &column(&c)).unwrap();
        }
        generator.new_col().write_fracs(Numerators::Secure(&d), &e).unwrap();
        let found = generator.finalize_last().unwrap();
        assert_eq!((columns(&found), found.1), expected);
    });
}

#[test]
fn wrong_fractions_are_refused() {
    on_devices(|_| {
        let column: SecureColumn = secures(&mut rng(1), 16).into_iter().collect();
        let mut generator = LogupTraceGenerator::new(5).unwrap();
        let refused =
            generator.new_col().write_fracs(Numerators::Secure(&column), &column).unwrap_err().to_string();
        assert!(refused.contains("16 numerators") && refused.contains("32 rows"), "{refused}");
        let empty = generator.finalize_last().unwrap_err().to_string();
        assert!(empty.contains("no columns"), "{empty}");
    });
}

#[test]
fn denominators_of_zero_are_an_error_on_request() {
    on_devices(|_| {
        let mut values = secures(&mut rng(3), 32);
        values[21] = SecureField::default();
        let column: SecureColumn = values.into_iter().collect();
        let made = || {
            let mut generator = LogupTraceGenerator::new(5).unwrap();
            generator.new_col().write_fracs(Numerators::Constant(SecureField::one()), &column)
        };
        made().unwrap();
        let refused = check_denominators(made).unwrap_err().to_string();
        assert!(refused.contains("row 21") && refused.contains("batch 0"), "{refused}");
        made().unwrap();
    });
}

relation!(Pairs, 2);
relation!(Singles, 1);

/// Three lookups in two batches, one with a preprocessed column and one with the next row.
struct Lookups {
    log_size: u32,
    pairs: Pairs,
    singles: Singles,
}

impl FrameworkEval for Lookups {
    fn log_size(&self) -> u32 {
        self.log_size
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_size + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let fixed = eval.get_preprocessed_column(PreProcessedColumnId { id: "fixed".into() });
        let [a, next] = eval.next_interaction_mask(1, [0, 1]);
        let b = eval.next_trace_mask();
        eval.add_to_relation(RelationEntry::new(&self.pairs, E::EF::from(b.clone()), &[a.clone(), fixed]));
        eval.add_to_relation(RelationEntry::new(&self.singles, -E::EF::from(a.clone()), &[next]));
        eval.add_to_relation(RelationEntry::new(&self.pairs, E::EF::one(), &[b, a]));
        eval.finalize_logup_in_pairs();
        eval
    }
}

#[test]
fn from_the_component_itself() {
    use stwo::core::utils::{
        bit_reverse_index, circle_domain_index_to_coset_index, coset_index_to_circle_domain_index,
    };
    on_devices(|_| {
        for log_size in [4, 8] {
            let n = 1usize << log_size;
            let mut rng = rng(3);
            let [fixed, a, b] = std::array::from_fn(|_| bases(&mut rng, n));
            let lookups = Lookups { log_size, pairs: Pairs::dummy(), singles: Singles::dummy() };
            let there = [&fixed, &a, &b].map(|values| values.iter().copied().collect::<BaseColumn>());
            let found = interaction_trace(&lookups, &[&there[0]], &[&there[1], &there[2]]).unwrap();

            let next = |row: usize| {
                let place = circle_domain_index_to_coset_index(bit_reverse_index(row, log_size), log_size);
                bit_reverse_index(coset_index_to_circle_domain_index((place + 1) % n, log_size), log_size)
            };
            let combine = |relation: &dyn Fn(&[BaseField]) -> SecureField, values: &[BaseField]| relation(values);
            let pairs =
                |values: &[BaseField]| stwo_constraint_framework::Relation::combine(&lookups.pairs, values);
            let singles =
                |values: &[BaseField]| stwo_constraint_framework::Relation::combine(&lookups.singles, values);
            let mut fractions = [(vec![], vec![]), (vec![], vec![])];
            for row in 0..n {
                let first: SecureField = combine(&pairs, &[a[row], fixed[row]]);
                let second: SecureField = combine(&singles, &[a[next(row)]]);
                let numerator = second * b[row] - first * a[row];
                fractions[0].0.push(numerator);
                fractions[0].1.push(first * second);
                fractions[1].0.push(BaseField::from(1).into());
                fractions[1].1.push(combine(&pairs, &[b[row], a[row]]));
            }
            assert_eq!((columns(&found), found.1), upstream(log_size, &fractions), "2^{log_size}");
        }
        // Several in flight, finished in another order.
        let columns_of = |seed| [(); 3].map(|()| bases(&mut rng(seed), 64).into_iter().collect::<BaseColumn>());
        let lookups = Lookups { log_size: 6, pairs: Pairs::dummy(), singles: Singles::dummy() };
        let (first, second) = (columns_of(5), columns_of(6));
        let alone = |[fixed, a, b]: &[BaseColumn; 3]| interaction_trace(&lookups, &[fixed], &[a, b]).unwrap();
        let start =
            |[fixed, a, b]: &[BaseColumn; 3]| start_interaction_trace(&lookups, &[fixed], &[a, b]).unwrap();
        let expected = [alone(&first), alone(&second)];
        let pending = [start(&first), start(&second)];
        for (pending, expected) in pending.into_iter().zip(&expected).rev() {
            let found = pending.finish().unwrap();
            assert_eq!((columns(&found), found.1), (columns(expected), expected.1));
        }
        assert_ne!(expected[0].1, expected[1].1);

        let short: BaseColumn = bases(&mut rng(1), 8).into_iter().collect();
        let lookups = Lookups { log_size: 4, pairs: Pairs::dummy(), singles: Singles::dummy() };
        let error = interaction_trace(&lookups, &[&short], &[&short, &short]).unwrap_err().to_string();
        assert!(error.contains("8 rows") && error.contains("2^4"), "{error}");
    });
}

/// Fractions that read neighbouring rows are computed on the first device, which the report says.
#[test]
fn neighbours_over_several_devices() {
    let found = || {
        let [fixed, a, b] = [1, 2, 3].map(|seed| bases(&mut rng(seed), 64).into_iter().collect::<BaseColumn>());
        let lookups = Lookups { log_size: 6, pairs: Pairs::dummy(), singles: Singles::dummy() };
        let found = interaction_trace(&lookups, &[&fixed], &[&a, &b]).unwrap();
        (columns(&found), found.1)
    };
    over_each(2, |devices| {
        let (together, report) = rigel_stwo::measure(found).unwrap();
        assert!(together == rigel_stwo::on(&devices[0], found));
        let parts: Vec<&str> = report.fallbacks.iter().map(|fallback| fallback.part).collect();
        assert_eq!(parts, ["lookups"], "{report}");
    });
}

//! Constraints on random columns, against upstream's CPU backend.

use std::collections::BTreeSet;

use num_traits::One;
use stwo::core::fields::FieldExpOps;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::TreeVec;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::{Backend, Column};
use stwo::prover::poly::circle::CircleCoefficients;
use stwo::prover::{ComponentProver, ComponentProvers, Poly, Trace};
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{
    EvalAtRow, FrameworkComponent, FrameworkEval, RelationEntry, TraceLocationAllocator, relation,
};

use crate::random::{Cpu, Cuda, bases, column, on_devices, over_each, rng, secure};

relation!(Triples, 3);

/// Constraints of every kind: masks at offsets, preprocessed columns, constants of both fields, coordinates of one
/// extension value, lookups in batches.
struct Mixed {
    log_size: u32,
    /// The constraints' degree is at most 2^`log_degree` + 1.
    log_degree: u32,
    triples: Triples,
    constant: SecureField,
    /// A constant of the base field, and the offset of a mask.
    number: u32,
    offset: isize,
    lookups: bool,
    /// The number of further columns that have to be the same in all rows.
    constant_columns: usize,
}

impl Mixed {
    fn new(log_size: u32, log_degree: u32, lookups: bool) -> Self {
        let constant = secure(&mut rng(u64::from(log_size) + 1));
        Self {
            log_size,
            log_degree,
            triples: Triples::dummy(),
            constant,
            number: 5,
            offset: 2,
            lookups,
            constant_columns: 0,
        }
    }
}

impl FrameworkEval for Mixed {
    fn log_size(&self) -> u32 {
        self.log_size
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_size + self.log_degree
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let [first, _, last] = preprocessed(self.log_size);
        let last = eval.get_preprocessed_column(last);
        let first = eval.get_preprocessed_column(first);
        let [a, before, after] = eval.next_interaction_mask(1, [0, -1, self.offset]);
        let b = eval.next_trace_mask();
        let c = eval.next_trace_mask();
        let [element, next] = eval.next_extension_interaction_mask(1, [0, 1]);
        for _ in 0..self.constant_columns {
            let [here, next] = eval.next_interaction_mask(1, [0, 1]);
            eval.add_constraint(here - next);
        }
        eval.add_constraint(a.clone() + before.clone() - after.clone() + first.clone());
        eval.add_constraint(element.clone() - next + E::EF::from(self.constant));
        eval.add_constraint(c.clone() - a.square() * b.clone());
        eval.add_constraint(
            element * a.clone() * self.constant - E::EF::from(b.clone()) + BaseField::from(self.number),
        );
        eval.add_constraint(E::combine_ef([b.clone(), c.clone(), last.clone(), a.clone()]) * last.clone());
        eval.add_constraint((before - after * BaseField::from(2).inverse()) * first.pow(2));
        if self.lookups {
            for (i, values) in
                [[a.clone(), b.clone(), c.clone()], [b, first, last], [c.clone(), a.clone(), c]].iter().enumerate()
            {
                let multiplicity = if i == 1 { E::EF::one() } else { -E::EF::from(a.clone()) };
                eval.add_to_relation(RelationEntry::new(&self.triples, multiplicity, values));
            }
            if self.log_degree > 1 {
                eval.finalize_logup_batched(&vec![0, 1, 1]);
            } else {
                eval.finalize_logup();
            }
        }
        eval
    }
}

type Component = FrameworkComponent<Mixed>;

/// The preprocessed columns of components of a length.
fn preprocessed(log_size: u32) -> [PreProcessedColumnId; 3] {
    ["first", "other", "last"].map(|id| PreProcessedColumnId { id: format!("{id} of 2^{log_size}") })
}

/// The lengths, each once.
fn distinct(log_sizes: impl Iterator<Item = u32>) -> Vec<u32> {
    log_sizes.collect::<BTreeSet<u32>>().into_iter().collect()
}

/// The components, each with its own columns in each tree.
fn components(evals: Vec<Mixed>) -> Vec<Component> {
    let log_sizes = distinct(evals.iter().map(|eval| eval.log_size));
    let ids: Vec<PreProcessedColumnId> = log_sizes.into_iter().flat_map(preprocessed).collect();
    let mut allocator = TraceLocationAllocator::new_with_preprocessed_columns(&ids);
    let sum = secure(&mut rng(8));
    evals.into_iter().map(|eval| FrameworkComponent::new(&mut allocator, eval, sum)).collect()
}

/// The coefficients of the composition polynomial on random columns.
fn composition<B: Backend>(components: &[Component], log_blowup: u32, store: bool) -> [Vec<BaseField>; 4]
where
    Component: ComponentProver<B>,
{
    composition_in::<B>(components, log_blowup, store, &|make| make())
}

/// Makes a polynomial within the scope of some devices.
type Scope<'a, B> = &'a dyn Fn(&dyn Fn() -> Poly<B>) -> Poly<B>;

/// The result of [`composition`], with each preprocessed column made within a scope.
fn composition_in<B: Backend>(
    components: &[Component],
    log_blowup: u32,
    store: bool,
    scope: Scope<'_, B>,
) -> [Vec<BaseField>; 4]
where
    Component: ComponentProver<B>,
{
    let log_sizes: Vec<u32> = components.iter().map(|component| component.log_size()).collect();
    let largest = *log_sizes.iter().max().unwrap();
    let polynomial = |seed: u64, log_size: u32| {
        let coefficients = CircleCoefficients::<B>::new(column::<B, _>(&bases(&mut rng(seed), 1 << log_size)));
        let evaluation = coefficients.evaluate(CanonicCoset::new(log_size + log_blowup).circle_domain());
        Poly::new(store.then_some(coefficients), evaluation)
    };
    let fixed = |log_size: u32| (0..3).map(move |i| (i, log_size));
    let fixed = distinct(log_sizes.iter().copied()).into_iter().flat_map(fixed);
    let mut trees = vec![fixed.map(|(i, log_size)| scope(&|| polynomial(i, log_size))).collect::<Vec<_>>()];
    for tree in 1..3 {
        let mut columns = Vec::new();
        for (component, &log_size) in components.iter().zip(&log_sizes) {
            let bounds = stwo::core::air::Component::trace_log_degree_bounds(component);
            let count = bounds.get(tree).map_or(0, Vec::len);
            columns.extend((0..count).map(|i| polynomial((100 * tree + i) as u64, log_size)));
        }
        trees.push(columns);
    }
    let trace = Trace { polys: TreeVec(trees.iter().map(|tree| tree.iter().collect()).collect()) };
    let provers = ComponentProvers {
        components: components.iter().map(|component| component as &dyn ComponentProver<B>).collect(),
        n_preprocessed_columns: trees[0].len(),
    };
    let twiddles = B::precompute_twiddles(CanonicCoset::new(largest + 1 + log_blowup).half_coset());
    let composition = provers.compute_composition_polynomial(secure(&mut rng(4)), &trace, &twiddles, log_blowup);
    composition.0.map(|coordinate| coordinate.coeffs.to_cpu())
}

fn check(make: impl Fn() -> Vec<Component>, log_blowup: u32, store: bool) {
    let (here, there) = (make(), make());
    assert_eq!(composition::<Cuda>(&there, log_blowup, store), composition::<Cpu>(&here, log_blowup, store));
}

#[test]
fn on_the_committed_domain() {
    on_devices(|_| {
        for log_size in [2, 4, 9] {
            check(|| components(vec![Mixed::new(log_size, 1, true)]), 1, false);
        }
    });
}

#[test]
fn on_a_part_of_the_committed_domain() {
    on_devices(|_| {
        check(|| components(vec![Mixed::new(5, 1, true)]), 2, false);
        check(|| components(vec![Mixed::new(6, 1, false)]), 3, true);
    });
}

#[test]
fn on_a_domain_of_their_own() {
    on_devices(|_| {
        // Components of different degrees have no common evaluation domain.
        check(|| components(vec![Mixed::new(5, 1, false), Mixed::new(5, 2, true)]), 2, true);
        // The degree is too high for the committed domain.
        check(|| components(vec![Mixed::new(6, 2, true)]), 1, true);
    });
}

/// Each device evaluates the rows that it has, with neighbours from the others.
#[test]
fn over_several_devices() {
    for count in [2, 4, 8] {
        let over = |log_degree, log_blowup, store| {
            let make = || components(vec![Mixed::new(7, log_degree, true), Mixed::new(7, log_degree, false)]);
            over_each(count, |_| check(make, log_blowup, store));
        };
        // On the committed domain, on a part of it, and on a domain of their own.
        over(1, 1, false);
        over(1, 2, false);
        over(2, 1, true);
    }
}

/// Preprocessed columns that were committed to on one device, or over fewer devices.
#[test]
fn columns_of_several_scopes() {
    let make = || components(vec![Mixed::new(6, 1, true)]);
    let expected = composition::<Cpu>(&make(), 1, false);
    over_each(4, |devices| {
        for count in [1, 2] {
            let scope = |make: &dyn Fn() -> Poly<Cuda>| rigel_stwo::over(&devices[..count], make).unwrap();
            assert_eq!(composition_in::<Cuda>(&make(), 1, false, &scope), expected, "over {count} devices");
        }
    });
}

/// A component that reads more neighbours than are made at once.
#[test]
fn many_neighbours_over_several_devices() {
    let make = || components(vec![Mixed { constant_columns: 18, ..Mixed::new(6, 1, false) }]);
    over_each(4, |_| check(make, 1, false));
}

/// Components whose columns are in blocks and components whose columns are too short for that add to the same sums, in
/// both orders.
#[test]
fn short_components_over_several_devices() {
    for (count, log_size) in [(2, 4), (8, 6)] {
        for [first, second] in [[0, 1], [1, 0]] {
            // Of 2^log_size rows and twice the degree, and of half the rows and four times the degree.
            let component = |less: u32| Mixed::new(log_size - less, 1 + less, true);
            let make = || components(vec![component(first), component(second)]);
            over_each(count, |_| check(make, 1, true));
        }
    }
}

/// Components of different lengths, whose sums are lifted, some of them too short to be in blocks.
#[test]
fn lengths_over_several_devices() {
    for count in [2, 4] {
        let make = || components([6, 3, 5].map(|log_size| Mixed::new(log_size, 1, log_size != 5)).into());
        over_each(count, |_| check(make, 1, false));
    }
}

#[test]
fn without_stored_coefficients_there_is_no_other_domain() {
    on_devices(|_| {
        let two = components(vec![Mixed::new(4, 1, false), Mixed::new(4, 2, true)]);
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| composition::<Cuda>(&two, 2, false)));
        let panic = panic.unwrap_err();
        let message = panic.downcast_ref::<&str>().copied().map(String::from);
        let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap();
        assert!(message.contains("coefficients are not stored"), "{message}");
    });
}

#[test]
fn several_components_add_up() {
    on_devices(|_| {
        check(|| components((0..3).map(|i| Mixed::new(6, 1, i != 1)).collect()), 1, false);
    });
}

#[test]
fn kernels_do_not_depend_on_what_is_drawn() {
    on_devices(|stream| {
        let compiled = || stream.device().cache().stats().compiled + stream.device().cache().stats().hits;
        composition::<Cuda>(&components(vec![Mixed::new(5, 1, true)]), 1, false);
        let before = compiled();
        // Change a constant, the lookup elements and the claimed sum.
        let mut other = Mixed::new(5, 1, true);
        other.constant = secure(&mut rng(99));
        other.triples = Triples::draw(&mut stwo::core::channel::Blake2sChannel::default());
        composition::<Cuda>(&components(vec![other]), 1, false);
        assert_eq!(compiled(), before, "no kernel was compiled or looked for");
    });
}

/// A component is recorded once, and not taken for another one of its type.
#[test]
fn recordings_are_kept_and_told_apart() {
    on_devices(|stream| {
        let drawn = || Triples::draw(&mut stwo::core::channel::Blake2sChannel::default());
        let of_relation = SecureField::from_u32_unchecked(4, 3, 2, 1);
        let variants: [&dyn Fn(&mut Mixed); 6] = [
            &|_| {},
            &|mixed| mixed.triples = drawn(),
            &|mixed| mixed.number = 6,
            &|mixed| mixed.offset = 3,
            // The same as a power of the relation, so that there is one parameter fewer, and in the base field.
            &|mixed| mixed.constant = of_relation,
            &|mixed| mixed.constant = SecureField::from(7),
        ];
        let kept = || stream.device().keep_stats().values;
        let mut after = Vec::new();
        for round in 0..2 {
            for vary in variants {
                let make = || {
                    let mut mixed = Mixed::new(3 + round, 1, true);
                    vary(&mut mixed);
                    components(vec![mixed])
                };
                check(make, 1, false);
                after.push(kept());
            }
        }
        // Other lookup elements, and another number of rows, do not change the recording.
        assert_eq!(after[0], after[1], "drawn elements are parameters: {after:?}");
        assert!(
            after[1] < after[2] && after[2] < after[3] && after[3] < after[4] && after[4] < after[5],
            "{after:?}"
        );
        let of_rows = after[6] - after[5];
        assert_eq!(after[11], after[5] + of_rows, "tables for more rows, and nothing else: {after:?}");
    });
}

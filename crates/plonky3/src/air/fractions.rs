//! The fractions of a table's lookups as expression graphs: denominators, and what is summed over inverted ones.

use std::collections::{BTreeSet, HashSet};
use std::sync::OnceLock;

use p3_air::symbolic::{BaseEntry, BaseLeaf, SymbolicExpr, SymbolicExpression};
use p3_lookup::Lookup;
use rigel_codegen::{ColumnsRead, ExpressionGraph, Output, Value};
use rigel_gpu::Device;
use rigel_kernels::field::Element;

use crate::air::constraints::{Lowering, Program, input, parameter, placed, values_of};
use crate::upstream::config::{DeviceConfig, Ext};

/// The inverted denominators use the input slot of the permutation columns.
const INVERSES: usize = input::PERMUTATION;

/// Whether a lookup reads a periodic column. Upstream's prover panics if one does.
pub(crate) fn reads_periodic<V>(lookups: &[Lookup<V>]) -> bool
where
    V: p3_field::Field,
{
    let mut seen = HashSet::new();
    let expressions = |lookup| {
        let Lookup { elements, multiplicities, flags, .. }: &Lookup<V> = lookup;
        elements.iter().flatten().chain(multiplicities).chain(flags.iter().flatten())
    };
    lookups.iter().flat_map(expressions).any(|expression| has_periodic(expression, &mut seen))
}

fn has_periodic<V>(expression: &SymbolicExpression<V>, seen: &mut HashSet<*const SymbolicExpression<V>>) -> bool {
    if !seen.insert(expression) {
        return false;
    }
    match expression {
        SymbolicExpr::Leaf(BaseLeaf::Variable(variable)) => matches!(variable.entry, BaseEntry::Periodic),
        SymbolicExpr::Leaf(_) => false,
        SymbolicExpr::Add { x, y, .. } | SymbolicExpr::Sub { x, y, .. } | SymbolicExpr::Mul { x, y, .. } => {
            has_periodic(x, seen) || has_periodic(y, seen)
        }
        SymbolicExpr::Neg { x, .. } => has_periodic(x, seen),
    }
}

/// The graphs of a table's denominators and fractions.
pub(crate) struct Fractions<SC: DeviceConfig> {
    denominators: ExpressionGraph<Ext<SC>>,
    denominator_outputs: Vec<Output>,
    fractions: ExpressionGraph<Ext<SC>>,
    fraction_outputs: Vec<Output>,
    /// The number of denominators per row.
    pub(crate) terms: usize,
    /// The columns of the trace that both read, and the same fractions with a matrix of just these.
    narrow: OnceLock<Box<(Vec<usize>, Self)>>,
    /// The kernels of both, if they were compiled ahead of their use, and the device that they are for.
    programs: Option<(Device, [Program<SC>; 2])>,
}

impl<SC: DeviceConfig> Fractions<SC> {
    pub(crate) fn new(lookups: &[Lookup<SC::Value>]) -> Self {
        let degree = Ext::<SC>::DEGREE;
        let mut below = Lowering::<SC>::new();
        let mut above = Lowering::<SC>::new();
        let (mut denominator_outputs, mut fraction_outputs) = (Vec::new(), Vec::new());
        let mut terms = 0;
        let mut sum = above.graph.constant(Default::default());
        for lookup in lookups {
            let mut fraction = above.graph.constant(Default::default());
            for (denominator, numerator) in
                denominators(&mut below, lookup).into_iter().zip(numerators(&mut above, lookup))
            {
                denominator_outputs.push(Output::StoreExtension {
                    value: denominator,
                    output: 0,
                    column: terms * degree,
                });
                let inverse = above.graph.extension_column(INVERSES, terms * degree, 0);
                let term = above.graph.mul(inverse, numerator);
                fraction = above.graph.add(fraction, term);
                terms += 1;
            }
            fraction_outputs.push(Output::StoreExtension {
                value: fraction,
                output: 0,
                column: (lookup.column + 1) * degree,
            });
            sum = above.graph.add(sum, fraction);
        }
        fraction_outputs.push(Output::StoreExtension { value: sum, output: 1, column: 0 });
        Self {
            denominators: below.graph,
            denominator_outputs,
            fractions: above.graph,
            fraction_outputs,
            terms,
            narrow: OnceLock::new(),
            programs: None,
        }
    }

    /// The columns of the trace that the lookups read, in order, and the same fractions of a matrix of just these.
    pub(crate) fn narrow(&self) -> &(Vec<usize>, Self) {
        self.narrow.get_or_init(|| {
            let graphs =
                [(&self.denominators, &self.denominator_outputs), (&self.fractions, &self.fraction_outputs)];
            let mut read = BTreeSet::new();
            for (graph, outputs) in graphs {
                let mut columns = ColumnsRead::new([input::MAIN]);
                for output in outputs {
                    let [columns] = columns.of(graph, output.value());
                    read.extend(columns);
                }
            }
            if read.is_empty() {
                // A matrix has at least one column.
                read.insert(0);
            }
            let read: Vec<usize> = read.into_iter().collect();
            let [(denominators, denominator_outputs), (fractions, fraction_outputs)] =
                graphs.map(|(graph, outputs)| {
                    let (graph, values) = graph.with_columns(&values_of(outputs), input::MAIN, &read);
                    (graph, placed(outputs, &values))
                });
            let narrow = Self {
                denominators,
                denominator_outputs,
                fractions,
                fraction_outputs,
                terms: self.terms,
                narrow: OnceLock::new(),
                programs: None,
            };
            Box::new((read, narrow))
        })
    }

    /// The number of columns over the extension: the running sum and one per lookup.
    pub(crate) fn columns(&self) -> usize {
        // The outputs are one per lookup, and their sum.
        self.fraction_outputs.len()
    }

    /// Compiles the kernels, or finds them in a cache, ahead of their use.
    pub(crate) fn compile(&mut self, device: &Device) {
        self.programs = Some((device.clone(), [self.denominators(device), self.fractions(device)]));
    }

    /// Whether [`Self::compile`] has compiled all kernels.
    pub(crate) fn is_compiled(&self) -> bool {
        matches!(self.programs, Some((_, [Ok(_), Ok(_)])))
    }

    /// The kernels that write the denominators.
    pub(crate) fn denominators(&self, device: &Device) -> Program<SC> {
        match &self.programs {
            Some((compiled_for, [denominators, _])) if compiled_for.is(device) => denominators.clone(),
            _ => rigel_codegen::program(device, "denominators", &self.denominators, &self.denominator_outputs),
        }
    }

    /// The kernels that write the fractions and their sums from the inverted denominators.
    pub(crate) fn fractions(&self, device: &Device) -> Program<SC> {
        match &self.programs {
            Some((compiled_for, [_, fractions])) if compiled_for.is(device) => fractions.clone(),
            _ => rigel_codegen::program(device, "fractions", &self.fractions, &self.fraction_outputs),
        }
    }
}

/// `alpha - e_j` for each tuple; `sum_k flag_k (alpha - e_k) + 1 - sum_k flag_k` for exclusive branches.
fn denominators<SC: DeviceConfig>(lowering: &mut Lowering<SC>, lookup: &Lookup<SC::Value>) -> Vec<Value> {
    let alpha = lowering.graph.extension_parameter(parameter::challenge(2 * lookup.column));
    let beta = lowering.graph.extension_parameter(parameter::challenge(2 * lookup.column + 1));
    let mut terms = Vec::with_capacity(lookup.elements.len());
    for tuple in &lookup.elements {
        let mut combined = lowering.graph.constant(Default::default());
        for element in tuple {
            let element = lowering.base(element);
            let scaled = lowering.graph.mul(combined, beta);
            combined = lowering.graph.add(scaled, element);
        }
        terms.push(lowering.graph.sub(alpha, combined));
    }
    let Some(flags) = &lookup.flags else { return terms };
    let mut selected = lowering.graph.constant(rigel_kernels::field::Ring::ONE);
    for (flag, term) in flags.iter().zip(terms) {
        let flag = lowering.base(flag);
        let branch = lowering.graph.mul(flag, term);
        let with = lowering.graph.add(selected, branch);
        selected = lowering.graph.sub(with, flag);
    }
    vec![selected]
}

/// The multiplicity of each tuple; `sum_k flag_k m_k` for exclusive branches.
fn numerators<SC: DeviceConfig>(lowering: &mut Lowering<SC>, lookup: &Lookup<SC::Value>) -> Vec<Value> {
    let multiplicities: Vec<Value> = lookup.multiplicities.iter().map(|m| lowering.base(m)).collect();
    let Some(flags) = &lookup.flags else { return multiplicities };
    let mut selected = lowering.graph.constant(Default::default());
    for (flag, multiplicity) in flags.iter().zip(multiplicities) {
        let flag = lowering.base(flag);
        let branch = lowering.graph.mul(flag, multiplicity);
        selected = lowering.graph.add(selected, branch);
    }
    vec![selected]
}

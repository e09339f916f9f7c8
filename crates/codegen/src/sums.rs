//! Sums of products, which are reduced once.
//!
//! An argument of a lookup is `sum_i gamma_i x_i`, with challenges of the extension and values of the base field. As a
//! chain of products and additions each step is reduced; as one sum, only the result.

use std::collections::{HashMap, HashSet};

use rigel_kernels::field::Element;

use crate::graph::{ExpressionGraph, FieldKind, Node, Value};
use crate::output::Output;
use crate::split::Step;

/// The fewest products of a sum.
const FEWEST: usize = 2;

/// The role of a value in a sum of products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// An addition whose result only the sum needs.
    Link,
    /// A product of the extension with its base that only the sum needs.
    Product { sum: Value, factor: Value, scalar: Value },
    /// The sum, of products and of these values.
    Sum { others: Vec<Value> },
    /// A product of the extension with its base that is folded and not needed otherwise, as a constraint times its
    /// condition: the factor is multiplied by its weight first, so that the scalar's product is part of the row's sum.
    Folded { factor: Value, scalar: Value },
}

/// The roles of the values that a kernel computes. Values without one are computed as they are.
pub(crate) fn roles<E: Element>(
    graph: &ExpressionGraph<E>,
    outputs: &[Output],
    steps: &[Step],
) -> HashMap<Value, Role> {
    let mut uses: HashMap<Value, usize> = HashMap::new();
    let mut computed = HashSet::new();
    for step in steps {
        match *step {
            Step::Compute(value) => {
                computed.insert(value);
                graph.node(value).operands().for_each(|operand| *uses.entry(operand).or_default() += 1);
            }
            // What is kept is needed twice: by its column, and by whoever uses it here.
            Step::Keep(value, _) => *uses.entry(value).or_default() += 2,
            Step::Emit(index) => *uses.entry(outputs[index].value()).or_default() += 2,
            Step::Recall(..) => {}
        }
    }
    let mut roles = HashMap::new();
    let is_extension = |value: Value| graph.kind(value) == FieldKind::Extension;
    let is_inner = |value: Value| computed.contains(&value) && uses.get(&value) == Some(&1);
    for step in steps {
        let Step::Emit(index) = *step else { continue };
        let Output::Fold { value, .. } = outputs[index] else { continue };
        if let Node::Mul(a, b) = graph.node(value)
            && is_extension(a) != is_extension(b)
            && computed.contains(&value)
            && uses.get(&value) == Some(&2)
        {
            let (factor, scalar) = if is_extension(a) { (a, b) } else { (b, a) };
            roles.insert(value, Role::Folded { factor, scalar });
        }
    }
    // Sums before what they are made of, so that a chain is taken as a whole.
    for step in steps.iter().rev() {
        let Step::Compute(sum) = *step else { continue };
        let Node::Add(a, b) = graph.node(sum) else { continue };
        if !is_extension(sum) || roles.contains_key(&sum) {
            continue;
        }
        let (mut links, mut products, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut open = vec![a, b];
        while let Some(value) = open.pop() {
            match graph.node(value) {
                Node::Add(a, b) if is_inner(value) && is_extension(value) => {
                    links.push(value);
                    open.extend([a, b]);
                }
                Node::Mul(a, b) if is_inner(value) && is_extension(a) != is_extension(b) => {
                    let (factor, scalar) = if is_extension(a) { (a, b) } else { (b, a) };
                    products.push((value, Role::Product { sum, factor, scalar }));
                }
                _ => others.push(value),
            }
        }
        if products.len() >= FEWEST {
            roles.insert(sum, Role::Sum { others });
            roles.extend(links.into_iter().map(|link| (link, Role::Link)));
            roles.extend(products);
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::in_order;
    use rigel_kernels::field::{Field, KoalaBear, KoalaBear4};

    /// A chain of products is one sum; what somebody else needs too is computed as it is.
    #[test]
    fn chains_become_sums() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let x: Vec<Value> = (0..3).map(|i| g.column(0, i, 0)).collect();
        let gamma: Vec<Value> = (0..3).map(|i| g.extension_parameter(i)).collect();
        let products: Vec<Value> = x.iter().zip(&gamma).map(|(&x, &gamma)| g.mul(x, gamma)).collect();
        let inner = g.add(products[0], products[1]);
        let outer = g.add(inner, products[2]);
        let seven = g.constant(KoalaBear::from_u64(7));
        let sum = g.add(outer, seven);
        let outputs = [Output::Fold { value: sum, weight: 0 }];
        let found = roles(&g, &outputs, &in_order(&g, &outputs, [0]));
        assert_eq!(found.get(&sum), Some(&Role::Sum { others: vec![seven] }));
        assert_eq!((found.get(&inner), found.get(&outer)), (Some(&Role::Link), Some(&Role::Link)));
        assert_eq!(found.get(&products[1]), Some(&Role::Product { sum, factor: gamma[1], scalar: x[1] }));

        let both = [outputs[0], Output::Fold { value: inner, weight: 1 }];
        let found = roles(&g, &both, &in_order(&g, &both, [0, 1]));
        assert_eq!(found.get(&inner), Some(&Role::Sum { others: vec![] }));
        assert_eq!(found.get(&sum), None);
    }

    /// A condition's product is part of the row's sum, unless somebody else needs it.
    #[test]
    fn conditions_are_folded() {
        let mut g = ExpressionGraph::<KoalaBear4>::new();
        let (scalar, factor) = (g.column(0, 0, 0), g.extension_column(0, 1, 0));
        let value = g.mul(factor, scalar);
        let other = g.mul(value, factor);
        let outputs = [Output::Fold { value, weight: 0 }, Output::Fold { value: other, weight: 1 }];
        let found = roles(&g, &outputs, &in_order(&g, &outputs, [0]));
        assert_eq!(found.get(&value), Some(&Role::Folded { factor, scalar }));
        assert!(roles(&g, &outputs, &in_order(&g, &outputs, [0, 1])).is_empty());
    }
}

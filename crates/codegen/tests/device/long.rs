//! Expressions that are too long for one kernel, and the text of kernels.

use rigel_codegen::{CompiledGraph, ExpressionGraph, Output, Rows, Split, texts};
use rigel_gpu::testing::on_each_device;
use rigel_kernels::field::{Element, Goldilocks2, KoalaBear4};

use crate::mirror::{Data, Mirror, Table, random_elements, rng};

const COLUMNS: usize = 40;

/// A chain with a part in the base field and one in the extension, that meets values of its beginning again.
fn chain<E: Element>(links: usize) -> Mirror<E> {
    let mut mirror = Mirror::new();
    let gamma = mirror.extension_parameter(0);
    let first = mirror.column(0, 0, 0);
    let start = mirror.mul(first, first);
    let mut value = start;
    for link in 0..links {
        let column = mirror.column(0, link % COLUMNS, (link / COLUMNS % 2) as i32);
        value = match link % 3 {
            0 => mirror.add(value, column),
            1 => mirror.mul(value, column),
            _ => mirror.sub(column, value),
        };
        if link == links * 9 / 10 {
            assert!(mirror.is_base(value));
            value = mirror.mul(value, gamma);
        }
    }
    let end = mirror.mul(value, start);
    mirror.fold(end, 0);
    mirror.fold(first, 1);
    mirror.store_extension(end, 0, 0);
    mirror
}

fn data<E: Element>(rows: Rows) -> Data<E> {
    let mut rng = rng(1);
    Data {
        rows,
        inputs: vec![Table::random(&mut rng, rows.count(), COLUMNS)],
        parameters: Vec::new(),
        extension_parameters: random_elements(&mut rng, 1),
        weights: random_elements(&mut rng, 2),
        log_block: 6,
        log_scale: 6,
        output_columns: vec![E::DEGREE],
    }
}

#[test]
fn a_long_chain_goes_through_scratch_columns() {
    on_each_device(|stream| {
        let mirror = chain::<KoalaBear4>(5_000);
        let rows = Rows::BitReversed { log_rows: 7, log_step: 2 };
        let program = data(rows).check(stream, &mirror, "chain", Split { nodes: 900 });
        assert!(program.kernels() >= 6 && program.scratch_columns() >= 2, "{program:?}");
    });
}

#[test]
fn kernels_name_the_columns_they_read() {
    on_each_device(|stream| {
        let mirror = chain::<Goldilocks2>(100);
        let program = data(Rows::Natural { rows: 77 }).check(stream, &mirror, "columns", Split { nodes: 40 });
        let all: std::collections::BTreeSet<usize> =
            (0..program.kernels()).flat_map(|kernel| program.inputs_of(kernel).unwrap()[&0].clone()).collect();
        assert!(all.into_iter().eq(0..COLUMNS));
        assert!(program.inputs_of(program.kernels()).is_none());
    });
}

/// Equal constructions give equal text, whatever else the graph holds.
#[test]
fn text_is_determined() {
    let print = |mirror: &Mirror<KoalaBear4>, nodes| {
        texts("chain", &mirror.graph, &mirror.outputs, Split { nodes }).unwrap()
    };
    for nodes in [3, 100, 10_000] {
        assert_eq!(print(&chain(300), nodes), print(&chain(300), nodes));
    }
    let build = |graph: &mut ExpressionGraph<KoalaBear4>| {
        let (a, b) = (graph.column(0, 0, 0), graph.column(0, 1, 1));
        let value = graph.mul(a, b);
        texts("product", graph, &[Output::Store { value, output: 0, column: 0 }], Split::default()).unwrap()
    };
    let mut other = ExpressionGraph::new();
    other.extension_column(3, 1, 4);
    assert_eq!(build(&mut ExpressionGraph::new()), build(&mut other));
}

#[test]
fn programs_go_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<CompiledGraph<KoalaBear4>>();
    check::<ExpressionGraph<KoalaBear4>>();
}

//! Tests that arguments that do not fit are refused with an error that explains why.

use rigel_codegen::{
    Bindings, CompiledGraph, ExpressionGraph, Folded, Input, Output, RowMap, Rows, Split, Target,
    compile_interpreter,
};
use rigel_gpu::testing::on_each_device;
use rigel_gpu::{Error, Kernel, Result, Stream};
use rigel_kernels::Matrix;
use rigel_kernels::field::{KoalaBear, KoalaBear4, Ring};

fn assert_says<T>(result: Result<T>, words: &[&str]) {
    let error = result.err().expect("an error").to_string();
    for word in words {
        assert!(error.contains(word), "{error:?} does not say {word:?}");
    }
}

#[test]
fn what_can_not_be_compiled_is_refused() {
    on_each_device(|stream| {
        let mut graph = ExpressionGraph::<KoalaBear4>::new();
        let value = graph.column(8, 0, 0);
        let store = |value, output| [Output::Store { value, output, column: 0 }];
        let compile = |name, graph: &ExpressionGraph<KoalaBear4>, outputs: &[Output]| {
            CompiledGraph::compile(stream.device(), name, graph, outputs, Split::default())
        };
        assert_says(compile("k", &graph, &store(value, 0)), &["input 8", "can be 8"]);
        let value = graph.column(7, 0, 0);
        assert_says(compile("k", &graph, &store(value, 8)), &["output 8", "can be 8"]);
        assert_says(compile("a b", &graph, &store(value, 0)), &["a b", "no name"]);
        assert_says(compile("k", &ExpressionGraph::new(), &store(value, 0)), &["no value of this graph"]);
        let nothing = compile("k", &graph, &[]).unwrap();
        assert_eq!(nothing.kernels(), 0);
        nothing.run(stream, Rows::Natural { rows: 5 }, &mut Bindings::new()).unwrap();
    });
}

/// A kernel that trusts its numbers is in the device's cache, under a key that only its own module can make.
#[test]
fn the_interpreter_is_launched_by_nobody_else() {
    on_each_device(|stream| {
        let device = stream.device();
        compile_interpreter::<KoalaBear4>(device).unwrap();
        let key = (std::any::TypeId::of::<KoalaBear4>(), "interpret");
        let known = device.kept(&key, |_| -> Result<(Kernel, usize)> { Err(Error::Cancelled) });
        assert!(matches!(known, Err(Error::Cancelled)), "{known:?}");
    });
}

/// The arguments of a run, of which the tests spoil one thing each.
struct Case {
    rows: Rows,
    stride: usize,
    map: RowMap,
    inputs: usize,
    parameters: usize,
    weights: usize,
    sums: usize,
    scales: usize,
    log_block: u32,
    folds: bool,
    output_rows: usize,
}

const GOOD: Case = Case {
    rows: Rows::BitReversed { log_rows: 3, log_step: 1 },
    stride: 8,
    map: RowMap::Same,
    inputs: 2,
    parameters: 2,
    weights: 3,
    sums: 32,
    scales: 4,
    log_block: 1,
    folds: true,
    output_rows: 8,
};

fn run(stream: &Stream, case: Case) -> Result<()> {
    let mut graph = ExpressionGraph::<KoalaBear4>::new();
    let (x, next, table) = (graph.column(0, 1, 0), graph.column(0, 1, 1), graph.column(1, 1, 0));
    let (a, b) = (graph.parameter(1), graph.extension_parameter(1));
    let mut value = graph.mul(x, next);
    for other in [table, a, b] {
        value = graph.add(value, other);
    }
    let outputs = [Output::Fold { value, weight: 2 }, Output::Store { value, output: 0, column: 0 }];
    let program = CompiledGraph::compile(stream.device(), "refused", &graph, &outputs, Split::default())?;

    let input = stream.zeros::<KoalaBear>(16)?;
    let table = Matrix::<KoalaBear>::zeros(stream, 4, 2)?;
    let mut output = stream.zeros::<KoalaBear>(case.output_rows * 4)?;
    let parameters = stream.zeros::<KoalaBear>(case.parameters)?;
    let extension_parameters = stream.zeros::<KoalaBear4>(case.parameters)?;
    let weights = stream.zeros::<KoalaBear4>(case.weights)?;
    let mut sums = stream.zeros::<KoalaBear>(case.sums)?;
    let scale = stream.upload(&vec![KoalaBear::ONE; case.scales])?;
    let mut bindings = Bindings::new()
        .input(Input { values: input.view(), stride: case.stride, map: case.map })
        .output(Target { values: output.view_mut(), stride: case.output_rows })
        .parameters(&parameters)
        .extension_parameters(&extension_parameters)
        .weights(&weights);
    if case.inputs > 1 {
        bindings = bindings.input(Input::from(&table).repeating(2));
    }
    if case.folds {
        let (values, scale, log_block) = (sums.view_mut(), scale.view(), case.log_block);
        bindings = bindings.folded(Folded { values, scale, log_scale: log_block, log_block, accumulate: false });
    }
    program.run(stream, case.rows, &mut bindings)
}

#[test]
fn what_does_not_fit_is_refused() {
    on_each_device(|stream| {
        let repeating = |log_period| RowMap::Repeating { log_period };
        let reversed = |log_rows, log_step| Rows::BitReversed { log_rows, log_step };
        run(stream, GOOD).unwrap();
        run(stream, Case { rows: Rows::Natural { rows: 7 }, sums: 31, ..GOOD }).unwrap();
        run(stream, Case { rows: Rows::Natural { rows: 0 }, sums: 0, scales: 0, ..GOOD }).unwrap();
        for (case, words) in [
            (Case { rows: reversed(4, 0), ..GOOD }, ["columns of 8 rows", "16 are used"]),
            (Case { rows: reversed(3, 4), ..GOOD }, ["2^3 rows", "2^4 rows apart"]),
            (Case { rows: reversed(32, 0), ..GOOD }, ["2^31 rows", "at most"]),
            (Case { rows: reversed(99, 0), ..GOOD }, ["2^31 rows", "at most"]),
            (Case { rows: reversed(1, 0), ..GOOD }, ["input 1 repeats every 2^2 rows", "more than all"]),
            (Case { stride: 9, ..GOOD }, ["column 1", "input 0"]),
            (Case { stride: usize::MAX, ..GOOD }, ["column 1", "input 0"]),
            (Case { map: repeating(1), ..GOOD }, ["input 0 repeats", "offset"]),
            (Case { map: repeating(40), ..GOOD }, ["input 0 repeats", "2^40"]),
            (Case { inputs: 1, ..GOOD }, ["input 1", "not given"]),
            (Case { parameters: 1, ..GOOD }, ["2 parameters", "1 are given"]),
            (Case { weights: 2, ..GOOD }, ["3 weights", "2 are given"]),
            (Case { sums: 31, ..GOOD }, ["32 values", "room for 31"]),
            (Case { scales: 3, ..GOOD }, ["4 factors", "there are 3"]),
            (Case { log_block: 32, ..GOOD }, ["2^32 rows", "too large"]),
            (Case { folds: false, ..GOOD }, ["folded", "no place"]),
            (Case { output_rows: 7, ..GOOD }, ["output 0", "8 are used"]),
        ] {
            assert_says(run(stream, case), &words);
        }
    });
}

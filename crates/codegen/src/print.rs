//! Kernels as CUDA C++ text.
//!
//! A kernel is straight-line code, one constant a value, and one thread a row. Its parameters are [`LaunchNumbers`]
//! and pointers to what it uses and nothing else. Values are numbered as they are printed, so that a kernel's text
//! depends on what it computes only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use rigel_kernels::code::parameters::{Parameters, parameters};
use rigel_kernels::field::{Element, Field};

use crate::graph::{ExpressionGraph, FieldKind, Node, Value};
use crate::output::Output;
use crate::split::Step;
use crate::sums::{Role, roles};

/// The most matrices that a program reads, and that it writes.
pub const MATRICES: usize = 8;

/// Threads of a block.
pub(crate) const THREADS: u32 = 256;

parameters! {
    /// The numbers of a launch: the order of rows, and where matrices and sums lie.
    #[derive(Default)]
    pub(crate) struct LaunchNumbers = "LaunchNumbers" => {
        pub(crate) rows: u32,
        pub(crate) log_rows: u32,
        pub(crate) order: u32,
        pub(crate) log_step: u32,
        pub(crate) log_block: u32,
        pub(crate) log_scale: u32,
        pub(crate) accumulate: u32,
        pub(crate) padding: u32,
        pub(crate) stride: [u32; MATRICES],
        pub(crate) shift: [u32; MATRICES],
        pub(crate) mask: [u32; MATRICES],
        pub(crate) output_stride: [u32; MATRICES],
    }
}

const PRELUDE: &str = r#"
struct LaunchNumbers {
    u32 rows, log_rows, order, log_step, log_block, log_scale, accumulate, padding;
    u32 stride[MATRICES], shift[MATRICES], mask[MATRICES], output_stride[MATRICES];
};

enum { NATURAL, BIT_REVERSED, CIRCLE, CIRCLE_TRACE };

// The storage row that lies `offset` rows further than `row`.
__device__ __forceinline__ u32 row_at(const LaunchNumbers& shape, u32 row, i32 offset) {
    const u32 last = shape.rows - 1;
    if (shape.order == BIT_REVERSED) {
        const u32 x = reverse_bits(row, shape.log_rows) + ((u32)offset << shape.log_step);
        return reverse_bits(x & last, shape.log_rows);
    }
    if (shape.order == CIRCLE) {
        // The lowest bit of the storage row tells the half coset from its mirror image, which runs the other way.
        const u32 half = reverse_bits(row >> 1, shape.log_rows - 1), step = (u32)offset << shape.log_step;
        const u32 x = (row & 1 ? half - step : half + step) & (last >> 1);
        return (reverse_bits(x, shape.log_rows - 1) << 1) + (row & 1);
    }
    if (shape.order == CIRCLE_TRACE) {
        // Place 2 c of the coset is point c of the half coset, place 2 c + 1 its mirror image from the end.
        const u32 c = reverse_bits(row, shape.log_rows);
        const u32 place = ((c <= last >> 1 ? 2 * c : 2 * (last - c) + 1) + (u32)offset) & last;
        return reverse_bits(place & 1 ? last - (place >> 1) : place >> 1, shape.log_rows);
    }
    i64 x = (i64)row + offset;
    if (x < 0) x += shape.rows;
    if (x >= shape.rows) x -= shape.rows;
    if (x < 0 || x >= shape.rows) x = (x % shape.rows + shape.rows) % shape.rows;
    return (u32)x;
}

// The row of an input that goes with a storage row: its own, or that of a table that repeats.
__device__ __forceinline__ const F* at_row(const LaunchNumbers& shape, const F* values, int input, u32 row) {
    return values + ((row >> shape.shift[input]) & shape.mask[input]);
}

// The least number of blocks per multiprocessor. With 32-bit words a kernel of 500 values needs about 128 registers
// a thread; with a few more than that only one block would fit, and nothing would hide its waiting.
constexpr int BLOCKS = sizeof(F) == 4 ? 2 : 1;

// What a value takes. A host compiler needs several times as long for the same code inlined.
#ifdef RIGEL_EMULATED
#define STEP static __noinline__
#else
#define STEP __device__ __forceinline__
#endif

template <class A, class B>
STEP auto add(A a, B b) { return a + b; }
template <class A, class B>
STEP auto sub(A a, B b) { return a - b; }
template <class A, class B>
STEP auto mul(A a, B b) { return a * b; }
template <class A>
STEP A neg(A a) { return -a; }

// Sums of products of the extension with its base, each coefficient reduced once at the end: a product takes two
// instructions a coefficient in place of seven.
STEP void add_product(E::Sum& sum, E a, F b) { sum.mul_add(a, b); }
template <class A>
STEP void add_value(E::Sum& sum, A a) {
    if constexpr (A::DEGREE == E::DEGREE) sum.add(a);
    else sum.add(E::from_base(a));
}

// A place `column` columns further. The product of a 32-bit stride and a constant is one instruction.
template <class T>
__device__ __forceinline__ T* at(T* values, u32 stride, u64 column) {
    return (T*)((char*)values + stride * (column * sizeof(T)));
}
STEP F load(const F* values, u32 stride, u64 column) { return *at(values, stride, column); }
STEP E load_extension(const F* values, u32 stride, u64 column) {
    E x;
    for (int d = 0; d < E::DEGREE; ++d) coefficient(x, d) = *at(values, stride, column + d);
    return x;
}
STEP void store(F* values, u32 stride, u64 column, F x) { *at(values, stride, column) = x; }
STEP void store_extension(F* values, u32 stride, u64 column, E x) {
    for (int d = 0; d < E::DEGREE; ++d) *at(values, stride, column + d) = coefficient(x, d);
}

// An element whose coefficients are neighbours in memory, in one access where it has 16 bytes.
STEP E element_at(const E* values, u32 index) {
    if constexpr (sizeof(E) == 16 && E::DEGREE > 1) {
        const Vector<F> words = Vector<F>::read((const F*)(values + index));
        E x;
        for (int d = 0; d < E::DEGREE; ++d) coefficient(x, d) = words.x[d];
        return x;
    } else {
        return values[index];
    }
}

// Adds weight times value to a row's sum.
STEP void add_weighted(E::Sum& sum, const E* weights, u32 weight, F x) {
    sum.mul_add(element_at(weights, weight), x);
}
STEP void add_weighted_extension(E& sum, const E* weights, u32 weight, E x) {
    sum += element_at(weights, weight) * x;
}

STEP void add_weighted_product(E::Sum& sum, const E* weights, u32 weight, E x, F scalar) {
    sum.mul_add(element_at(weights, weight) * x, scalar);
}

// Adds a row's sum, times its scale, to the folded column: coefficient d of row p lies at
// ((p >> log_block) DEGREE + d) 2^log_block + (p mod 2^log_block).
STEP void fold(const LaunchNumbers& shape, F* folded, const F* scale, u32 row, const E& sum) {
    const u32 block = row >> shape.log_block;
    const E x = sum * scale[row >> shape.log_scale];
    F* place = folded + (((u64)block * E::DEGREE) << shape.log_block) + (row & ((1u << shape.log_block) - 1));
    for (int d = 0; d < E::DEGREE; ++d) {
        F* const to = place + ((u64)d << shape.log_block);
        *to = shape.accumulate ? *to + coefficient(x, d) : coefficient(x, d);
    }
}
"#;

/// The inputs, outputs and parameters that a kernel, or all of a program, reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The columns read of each input.
    pub(crate) inputs: BTreeMap<usize, BTreeSet<usize>>,
    /// Inputs that are read at other rows than the thread's own.
    pub(crate) offset_inputs: BTreeSet<usize>,
    /// The number of columns that each output must have.
    pub(crate) outputs: BTreeMap<usize, usize>,
    /// The numbers of parameters and weights that there must be.
    pub(crate) parameters: usize,
    pub(crate) extension_parameters: usize,
    pub(crate) weights: usize,
    pub(crate) folds: bool,
    pub(crate) scratch: bool,
}

impl Needs {
    /// Adds columns of an input at an offset.
    pub(crate) fn reads(&mut self, input: usize, column: usize, columns: usize, offset: i32) {
        self.inputs.entry(input).or_default().extend(column..column.saturating_add(columns));
        if offset != 0 {
            self.offset_inputs.insert(input);
        }
    }

    /// Adds columns of an output.
    pub(crate) fn writes(&mut self, output: usize, column: usize, columns: usize) {
        let known = self.outputs.entry(output).or_default();
        *known = column.saturating_add(columns).max(*known);
    }

    /// Adds a base parameter.
    pub(crate) fn reads_parameter(&mut self, index: usize) {
        self.parameters = self.parameters.max(index.saturating_add(1));
    }

    /// Adds an extension parameter.
    pub(crate) fn reads_extension_parameter(&mut self, index: usize) {
        self.extension_parameters = self.extension_parameters.max(index.saturating_add(1));
    }

    /// Adds a folded value with this weight.
    pub(crate) fn folds_with(&mut self, weight: usize) {
        self.folds = true;
        self.weights = self.weights.max(weight.saturating_add(1));
    }

    /// Adds the needs of another kernel.
    pub(crate) fn join(&mut self, other: &Self) {
        for (&input, columns) in &other.inputs {
            self.inputs.entry(input).or_default().extend(columns);
        }
        self.offset_inputs.extend(&other.offset_inputs);
        for (&output, &columns) in &other.outputs {
            let known = self.outputs.entry(output).or_default();
            *known = columns.max(*known);
        }
        self.parameters = self.parameters.max(other.parameters);
        self.extension_parameters = self.extension_parameters.max(other.extension_parameters);
        self.weights = self.weights.max(other.weights);
        self.folds |= other.folds;
        self.scratch |= other.scratch;
    }
}

/// The text of the kernel `name`, and what it needs.
pub(crate) fn print<E: Element>(
    name: &str,
    graph: &ExpressionGraph<E>,
    outputs: &[Output],
    steps: &[Step],
) -> (String, Needs) {
    let mut printer = Printer {
        graph,
        names: HashMap::new(),
        places: BTreeSet::new(),
        body: String::new(),
        needs: Needs::default(),
        sums: BTreeSet::new(),
        roles: roles(graph, outputs, steps),
        delayed: HashMap::new(),
    };
    for step in steps {
        match *step {
            Step::Compute(value) => printer.compute(value),
            Step::Recall(value, column) => printer.recall(value, column),
            Step::Keep(value, column) => printer.keep(value, column),
            Step::Emit(index) => printer.emit(outputs[index]),
        }
    }
    printer.finish(name)
}

struct Printer<'a, E: Element> {
    graph: &'a ExpressionGraph<E>,
    names: HashMap<Value, usize>,
    /// Inputs and offsets that are read.
    places: BTreeSet<(usize, i32)>,
    body: String,
    needs: Needs,
    /// The kinds of values that are folded.
    sums: BTreeSet<FieldKind>,
    /// Values that are part of a sum of products.
    roles: HashMap<Value, Role>,
    /// The numbers of these sums, by the value that each becomes.
    delayed: HashMap<Value, usize>,
}

/// Writing to a string does not fail.
macro_rules! line {
    ($to:expr, $($format:tt)*) => {
        writeln!($to, $($format)*).expect("memory for text")
    };
}

impl<E: Element> Printer<'_, E> {
    fn compute(&mut self, value: Value) {
        if let Some(role) = self.roles.get(&value).cloned() {
            return self.compute_part(value, role);
        }
        let expression = match self.graph.node(value) {
            Node::Constant(_) => return,
            Node::Column { input, column, offset } => {
                self.reads(input, column, 1, offset);
                format!("load({}, shape.stride[{input}], {column})", pointer(input, offset))
            }
            Node::ExtensionColumn { input, first_column, offset } => {
                self.reads(input, first_column, E::DEGREE, offset);
                format!("load_extension({}, shape.stride[{input}], {first_column})", pointer(input, offset))
            }
            Node::Parameter(index) => {
                self.needs.reads_parameter(index);
                format!("parameters[{index}]")
            }
            Node::ExtensionParameter(index) => {
                self.needs.reads_extension_parameter(index);
                format!("element_at(extension_parameters, {index})")
            }
            Node::Add(a, b) => format!("add({}, {})", self.operand(a), self.operand(b)),
            Node::Sub(a, b) => format!("sub({}, {})", self.operand(a), self.operand(b)),
            Node::Mul(a, b) => format!("mul({}, {})", self.operand(a), self.operand(b)),
            Node::Neg(a) => format!("neg({})", self.operand(a)),
        };
        self.define(value, &expression);
    }

    /// Computes a value that is part of a sum of products, or the sum.
    fn compute_part(&mut self, value: Value, role: Role) {
        match role {
            Role::Link | Role::Folded { .. } => {}
            Role::Product { sum, factor, scalar } => {
                let next = self.delayed.len();
                let number = *self.delayed.entry(sum).or_insert(next);
                if number == next {
                    line!(self.body, "    E::Sum s{number} = E::Sum::zero();");
                }
                let (factor, scalar) = (self.operand(factor), self.operand(scalar));
                line!(self.body, "    add_product(s{number}, {factor}, {scalar});");
            }
            Role::Sum { others } => {
                let number = self.delayed[&value];
                for other in others {
                    line!(self.body, "    add_value(s{number}, {});", self.operand(other));
                }
                self.define(value, &format!("s{number}.reduce()"));
            }
        }
    }

    fn recall(&mut self, value: Value, column: usize) {
        self.needs.scratch = true;
        let expression = match self.graph.kind(value) {
            FieldKind::Base => format!("load(scratch + row, shape.rows, {column})"),
            FieldKind::Extension => format!("load_extension(scratch + row, shape.rows, {column})"),
        };
        self.define(value, &expression);
    }

    fn keep(&mut self, value: Value, column: usize) {
        self.needs.scratch = true;
        let store = store(self.graph.kind(value));
        line!(self.body, "    {store}(scratch + row, shape.rows, {column}, {});", self.operand(value));
    }

    fn emit(&mut self, output: Output) {
        if let (Output::Fold { weight, .. }, Some(Role::Folded { factor, scalar })) =
            (output, self.roles.get(&output.value()).cloned())
        {
            self.needs.folds_with(weight);
            self.sums.insert(FieldKind::Base);
            let (factor, scalar) = (self.operand(factor), self.operand(scalar));
            line!(self.body, "    add_weighted_product(sum, weights, {weight}, {factor}, {scalar});");
            return;
        }
        let value = self.operand(output.value());
        let kind = self.graph.kind(output.value());
        match output {
            Output::Fold { weight, .. } => {
                self.needs.folds_with(weight);
                self.sums.insert(kind);
                match kind {
                    FieldKind::Base => line!(self.body, "    add_weighted(sum, weights, {weight}, {value});"),
                    FieldKind::Extension => {
                        line!(self.body, "    add_weighted_extension(total, weights, {weight}, {value});")
                    }
                }
            }
            Output::Store { output, column, .. } => self.store(kind, output, column, &value),
            Output::StoreExtension { output, column, .. } => {
                let value = if kind == FieldKind::Base { format!("E::from_base({value})") } else { value };
                self.store(FieldKind::Extension, output, column, &value);
            }
        }
    }

    fn store(&mut self, kind: FieldKind, output: usize, column: usize, value: &str) {
        let columns = if kind == FieldKind::Base { 1 } else { E::DEGREE };
        self.needs.writes(output, column, columns);
        let store = store(kind);
        line!(self.body, "    {store}(output_{output} + row, shape.output_stride[{output}], {column}, {value});");
    }

    fn reads(&mut self, input: usize, column: usize, columns: usize, offset: i32) {
        self.needs.reads(input, column, columns, offset);
        self.places.insert((input, offset));
    }

    fn define(&mut self, value: Value, expression: &str) {
        let name = self.names.len();
        let kind = if self.graph.kind(value) == FieldKind::Base { "F" } else { "E" };
        line!(self.body, "    const {kind} v{name} = {expression};");
        self.names.insert(value, name);
    }

    /// A value's name, or a constant itself.
    fn operand(&self, value: Value) -> String {
        match self.graph.as_constant(value) {
            None => format!("v{}", self.names[&value]),
            Some(constant) if self.graph.kind(value) == FieldKind::Base => literal(constant.parts()[0]),
            Some(constant) => {
                let parts: Vec<String> = constant.parts().iter().map(|&part| literal(part)).collect();
                format!("element({})", parts.join(", "))
            }
        }
    }

    fn finish(self, name: &str) -> (String, Needs) {
        let needs = self.needs;
        let mut text = head::<E>();
        let mut parameters = vec!["const LaunchNumbers shape".to_owned()];
        parameters.extend(needs.inputs.keys().map(|input| format!("const F* __restrict__ input_{input}")));
        parameters.extend(needs.outputs.keys().map(|output| format!("F* __restrict__ output_{output}")));
        for (needed, parameter) in [
            (needs.parameters > 0, "const F* __restrict__ parameters"),
            (needs.extension_parameters > 0, "const E* __restrict__ extension_parameters"),
            (needs.folds, "const E* __restrict__ weights"),
            (needs.folds, "const F* __restrict__ scale"),
            (needs.folds, "F* __restrict__ folded"),
            (needs.scratch, "F* scratch"),
        ] {
            parameters.extend(needed.then(|| parameter.to_owned()));
        }
        // Kernels that store what they compute wait for memory, and spill more.
        let blocks = if needs.folds { ", BLOCKS" } else { "" };
        line!(text, "__global__ void __launch_bounds__({THREADS}{blocks}) {name}({}) {{", parameters.join(", "));
        line!(text, "    const u32 row = blockIdx.x * {THREADS} + threadIdx.x;");
        line!(text, "    if (row >= shape.rows) return;");
        let offsets: BTreeSet<i32> = self.places.iter().map(|&(_, offset)| offset).collect();
        for &offset in offsets.iter().filter(|&&offset| offset != 0) {
            line!(text, "    const u32 row_{} = row_at(shape, row, {offset});", suffix(offset));
        }
        for &(input, offset) in &self.places {
            let row = if offset == 0 { "row".to_owned() } else { format!("row_{}", suffix(offset)) };
            let pointer = pointer(input, offset);
            line!(text, "    const F* const {pointer} = at_row(shape, input_{input}, {input}, {row});");
        }
        if self.sums.contains(&FieldKind::Base) {
            line!(text, "    E::Sum sum = E::Sum::zero();");
        }
        if self.sums.contains(&FieldKind::Extension) {
            line!(text, "    E total = E::zero();");
        }
        text += &self.body;
        let total = match (self.sums.contains(&FieldKind::Base), self.sums.contains(&FieldKind::Extension)) {
            (true, true) => "sum.reduce() + total",
            (true, false) => "sum.reduce()",
            _ => "total",
        };
        if needs.folds {
            line!(text, "    fold(shape, folded, scale, row, {total});");
        }
        text += "}\n";
        (text, needs)
    }
}

/// The beginning of every kernel's text: the types and functions that it uses.
pub(crate) fn head<E: Element>() -> String {
    let mut text = format!(
        "#define RIGEL_OPAQUE\n#include \"layout/slab.cuh\"\n\ntypedef {} E;\ntypedef {} F;\n\
         constexpr u32 MATRICES = {MATRICES};\n{PRELUDE}\n{}\n",
        E::NAME,
        <E::Base as rigel_kernels::field::Ring>::NAME,
        LaunchNumbers::layout().assertions()
    );
    let list = |part: &dyn Fn(usize) -> String| (0..E::DEGREE).map(part).collect::<Vec<_>>().join(", ");
    line!(text, "STEP E element({}) {{", list(&|d| format!("F c{d}")));
    line!(text, "    E x;");
    (0..E::DEGREE).for_each(|d| line!(text, "    coefficient(x, {d}) = c{d};"));
    line!(text, "    return x;\n}}\n");
    text
}

/// The name of the pointer to an input's row at an offset.
fn pointer(input: usize, offset: i32) -> String {
    format!("input_{input}_{}", suffix(offset))
}

fn suffix(offset: i32) -> String {
    let sign = if offset < 0 { "minus" } else { "plus" };
    format!("{sign}_{}", offset.unsigned_abs())
}

fn store(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Base => "store",
        FieldKind::Extension => "store_extension",
    }
}

fn literal<F: Field>(constant: F) -> String {
    // The word of the canonical representative, so that equal constants give equal text.
    let word = F::from_u64(constant.to_u64()).word();
    format!("F::from_word({word:?}{})", if size_of::<F>() == 8 { "ull" } else { "u" })
}

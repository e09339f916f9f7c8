//! Expressions as CUDA C++.
//!
//! A kernel takes a pointer for each input, one for the result, and a structure of 64-bit words: counts, the lengths of
//! axes, strides and the values of scalars, in the order in which [`Form`] lists them. The text has an `element`
//! function for the expression and, around it, the loops of the form. `elements.cuh` has what does not depend on
//! either.

use std::fmt::Write;

use rigel_gpu::Source;
use rigel_kernels::code::source;

use super::expression::{Expression, Id, Node};
use super::layout::{Class, Classes};
use super::operation::{Binary, Reduction, Unary};
use super::types::{NumberKind, Type};

/// Threads of a block.
pub(super) const THREADS: usize = 256;
/// The side of a square that a block transposes.
pub(super) const SIDE: usize = 32;
/// The counts at the start of a reduction's words.
pub(super) const REDUCTION_COUNTS: usize = 6;

/// The shape of a kernel's loops. `wide` kernels count in 64 bits, others in 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// Every operand is contiguous or one element. Words: places; scalars.
    Flat,
    /// Words: places; lengths; the strides of each operand that has some; scalars.
    Strided { rank: u8, wide: bool },
    /// Squares of the plane of the innermost axis and `other`, which some input is contiguous along: what one row of a
    /// square reads of it, the next ones find in the cache. Words: squares along the innermost axis and the other; the
    /// length of each axis, and what it is divided by with; the strides of each operand that is more than an element;
    /// scalars.
    Tiled { rank: u8, other: u8, wide: bool },
    /// A copy that exchanges an axis with the innermost one, with `rest` further ones. Words: the length of the
    /// innermost axis and of the other, the squares along either, the input's stride of the former, the result's of
    /// the latter; the lengths of further axes; their strides in both.
    Transposed { rest: u8, wide: bool },
    /// Threads along the reduced axes. Words: outputs, values of each, parts of each, values of a part, the logarithm
    /// of the threads that share a part, 0; lengths of outer and of reduced axes; of each input, the outer strides
    /// and, if it has some, the reduced strides; scalars.
    Rows { reduction: Reduction, outer: u8, reduced: u8, wide: bool },
    /// Threads along the outer axes. Words: the same with the logarithm of the outputs that a block has, and the number
    /// of blocks that have all outputs.
    Columns { reduction: Reduction, outer: u8, reduced: u8, wide: bool },
}

impl Form {
    /// The kernel's name in the text.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Flat | Self::Strided { .. } | Self::Tiled { .. } => "evaluate",
            Self::Transposed { .. } => "transpose",
            Self::Rows { .. } | Self::Columns { .. } => "reduce",
        }
    }
}

/// The number of elements that a thread takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Neighbours, in one access where they fit 16 bytes.
    pub(super) width: usize,
    /// The number of such accesses before anything is computed.
    pub(super) turns: usize,
}

impl Share {
    /// Elements of a block.
    pub(super) fn tile(self) -> usize {
        THREADS * self.width * self.turns
    }

    /// Enough neighbours for 16 bytes of the smallest type and for whole accesses of 24-byte elements, and two turns
    /// where these are 16 bytes of the largest: more bytes under way hide more of the memory's latency. What takes
    /// long to compute is printed less often.
    pub(super) fn of(expression: &Expression) -> Self {
        let out = expression.type_of(expression.result());
        let types = || expression.inputs().iter().copied().chain([out]);
        let smallest = types().map(Type::bytes).min().unwrap_or(1);
        let largest = types().map(Type::bytes).max().unwrap_or(1);
        let least = if types().any(|of| of == Type::Goldilocks3) { 2 } else { 1 };
        let width = (16 / smallest).clamp(least, 4);
        let cost = cost(expression);
        if cost * width > 512 {
            return Self { width: 1, turns: 1 };
        }
        let turns = if cost * width > 64 { 1 } else { (32 / (width * largest)).clamp(1, 4) };
        Self { width, turns }
    }
}

/// The approximate number of instructions of an element.
pub(super) fn cost(expression: &Expression) -> usize {
    let nodes = expression.nodes().iter();
    nodes
        .map(|&(node, of)| {
            let operand = |id: Id| expression.type_of(id);
            let of = match node {
                Node::Unary(_, a) | Node::Binary(_, a, _) => operand(a),
                _ => of,
            };
            let scale = match of.kind() {
                NumberKind::Complex => 4,
                NumberKind::Field => of.degree(),
                _ => 1,
            };
            let own = match node {
                Node::Unary(Unary::Neg | Unary::Not | Unary::Conj | Unary::Real | Unary::Imag, _) => 1,
                Node::Unary(Unary::Exp | Unary::Log | Unary::Sqrt | Unary::Floor | Unary::Ceil, _)
                    if of == Type::F32 =>
                {
                    4
                }
                Node::Unary(_, _) => 24,
                Node::Binary(Binary::Mul, ..) if of.is_field() => 4 * of.degree(),
                Node::Binary(Binary::Pow, ..) => 48,
                Node::Binary(Binary::Div | Binary::FloorDiv | Binary::Remainder, ..) => 24,
                Node::Input(_) | Node::Scalar(_) | Node::Index => 0,
                _ => 1,
            };
            own * scale
        })
        .sum()
}

/// The kernel of an expression, with its headers.
pub(super) fn print(expression: &Expression, form: Form, classes: Classes) -> Source {
    let text = Text { expression, classes, share: Share::of(expression) }.kernel(form);
    // SAFETY: these kernels access elements at places of the shape only, which `evaluate` and `reduce` check
    // against the memory of each operand, and write only to the result.
    unsafe { source("map.cu", &text) }
        .header("elements.cuh", include_str!("elements.cuh"))
        // Memory is what bounds these kernels, so every operation can be rounded on its own: a fused expression
        // then has the bits of its parts one by one, and of the CPU.
        .option("--fmad=false")
        .kernel(form.name())
}

/// The nodes that the result is computed from.
fn reached(expression: &Expression) -> Vec<bool> {
    let mut reached = vec![false; expression.nodes().len()];
    reached[expression.result().index()] = true;
    for (i, &(node, _)) in expression.nodes().iter().enumerate().rev() {
        if !reached[i] {
            continue;
        }
        let mut reach = |id: Id| reached[id.index()] = true;
        match node {
            Node::Input(_) | Node::Scalar(_) | Node::Index => {}
            Node::Unary(_, a) | Node::Convert(a) => reach(a),
            Node::Binary(_, a, b) => [a, b].into_iter().for_each(reach),
            Node::Select(a, b, c) => [a, b, c].into_iter().for_each(reach),
        }
    }
    reached
}

pub(super) struct Text<'a> {
    pub(super) expression: &'a Expression,
    pub(super) classes: Classes,
    pub(super) share: Share,
}

impl Text<'_> {
    fn out(&self) -> &'static str {
        self.expression.type_of(self.expression.result()).cuda_name()
    }

    pub(super) fn inputs(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.expression.inputs().iter().enumerate().map(|(k, of)| (k, of.cuda_name()))
    }

    /// Joins the text of each input, with commas between.
    pub(super) fn list(&self, one: impl Fn(usize, &'static str) -> String) -> String {
        self.inputs().map(|(k, of)| one(k, of)).collect::<Vec<_>>().join(", ")
    }

    /// Joins the text of each input, with a comma after each.
    pub(super) fn leading(&self, one: impl Fn(usize, &'static str) -> String) -> String {
        self.inputs().map(|(k, of)| one(k, of) + ", ").collect()
    }

    fn kernel(&self, form: Form) -> String {
        match form {
            Form::Flat => self.flat(),
            Form::Strided { rank, wide } => self.strided(rank.into(), wide),
            Form::Tiled { rank, other, wide } => self.tiled(rank.into(), other.into(), wide),
            Form::Transposed { rest, wide } => self.transposed(rest.into(), wide),
            Form::Rows { reduction, outer, reduced, wide } => {
                let head = self.reduction(reduction, outer.into(), reduced.into(), wide);
                head + &self.rows()
            }
            Form::Columns { reduction, outer, reduced, wide } => {
                let head = self.reduction(reduction, outer.into(), reduced.into(), wide);
                head + &self.columns()
            }
        }
    }

    /// Headers, types, and the element function, with scalars from the word `scalars` on.
    pub(super) fn head(&self, wide: bool, scalars: usize) -> String {
        let types = self.expression.nodes().iter().map(|&(_, of)| of);
        let mut text = String::new();
        if types.clone().any(Type::is_field) {
            text += "#include \"number/field.cuh\"\n";
        }
        if types.clone().any(|of| of == Type::C128) {
            text += "#include \"number/complex.cuh\"\n";
        }
        if types.clone().any(|of| of == Type::C64) {
            text += "#include \"number/complex64.cuh\"\n";
        }
        if types.clone().any(|of| of.is_narrow() && of != Type::C64) {
            text += "#include \"number/narrow.cuh\"\n";
        }
        let (place, step) = if wide { ("u64", "i64") } else { ("u32", "i32") };
        let Share { width, turns } = self.share;
        let words = scalars + 3 * self.expression.scalars().len();
        let _ = write!(
            text,
            "#include \"number/number.cuh\"\n#include \"elements.cuh\"\n\
             typedef {place} Place;\ntypedef {step} Step;\ntypedef {} Out;\n\
             constexpr u32 WIDTH = {width}, TURNS = {turns}, TILE = THREADS * WIDTH * TURNS;\n\
             struct Parameters {{ u64 word[{}]; }};\n\n",
            self.out(),
            words.max(1),
        );
        text + &self.element(scalars)
    }

    /// The value at a place, of the inputs' elements there.
    fn element(&self, scalars: usize) -> String {
        let parameters = self.leading(|k, of| format!("{of} x{k}"));
        let mut text =
            format!("__device__ __forceinline__ Out element(u64 place, {parameters}const Parameters& p) {{\n");
        let reached = reached(self.expression);
        for (i, &(node, of)) in self.expression.nodes().iter().enumerate().filter(|&(i, _)| reached[i]) {
            let v = |id: Id| format!("v{}", id.index());
            let of = of.cuda_name();
            let value = match node {
                Node::Input(k) => format!("x{k}"),
                Node::Scalar(k) => {
                    let w = scalars + 3 * k as usize;
                    format!("scalar<{of}>(p.word[{w}], p.word[{}], p.word[{}])", w + 1, w + 2)
                }
                Node::Index => "place".into(),
                Node::Unary(operation, a) => format!("num::{}({})", operation.name(), v(a)),
                Node::Binary(operation, a, b) => format!("num::{}({}, {})", operation.name(), v(a), v(b)),
                Node::Select(a, b, c) => format!("{} ? {} : {}", v(a), v(b), v(c)),
                Node::Convert(a) => format!("num::convert<{of}>({})", v(a)),
            };
            let _ = writeln!(text, "    const {of} v{i} = {value};");
        }
        let _ = writeln!(text, "    return v{};\n}}\n", self.expression.result().index());
        text
    }

    fn flat(&self) -> String {
        let mut text = self.head(true, 1);
        let is_flat = |k| self.classes.of(k) == Class::Flat;
        let pointers = self.leading(|k, of| format!("const {of}* x{k}"));
        let (mut singles, mut fits, mut packs, mut loads) =
            (String::new(), String::new(), String::new(), String::new());
        for (k, of) in self.inputs() {
            if is_flat(k) {
                let _ = write!(fits, "Pack<{of}, WIDTH>::fits(x{k}) && ");
                let _ = writeln!(packs, "        Pack<{of}, WIDTH> a{k}[TURNS];");
                let _ = writeln!(loads, "            a{k}[t].load(x{k} + first + t * (THREADS * WIDTH));");
            } else {
                let _ = writeln!(singles, "    const {of} s{k} = *x{k};");
            }
        }
        let several = self.leading(|k, _| if is_flat(k) { format!("a{k}[t].x[v]") } else { format!("s{k}") });
        let one = self.leading(|k, _| if is_flat(k) { format!("x{k}[at]") } else { format!("s{k}") });
        let _ = write!(
            text,
            "__global__ void __launch_bounds__(THREADS) evaluate({pointers}Out* out, const Parameters p) {{
    const u64 n = p.word[0], tile = (u64)blockIdx.x * TILE;
{singles}    if ({fits}Pack<Out, WIDTH>::fits(out) && tile + TILE <= n) {{
        const u64 first = tile + threadIdx.x * WIDTH;
{packs}#pragma unroll
        for (u32 t = 0; t < TURNS; ++t) {{
{loads}        }}
#pragma unroll
        for (u32 t = 0; t < TURNS; ++t) {{
            const u64 at = first + t * (THREADS * WIDTH);
            Pack<Out, WIDTH> y;
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) y.x[v] = element(at + v, {several}p);
            y.store(out + at);
        }}
    }} else {{
        const u64 end = tile + TILE < n ? tile + TILE : n;
#pragma unroll 1
        for (u64 at = tile + threadIdx.x; at < end; at += THREADS) out[at] = element(at, {one}p);
    }}
}}
"
        );
        text
    }

    /// Splits `place` along axes whose lengths start at the word `first`, into `i0`, `i1`, ..
    pub(super) fn split(place: &str, rank: usize, first: usize) -> String {
        let mut text = format!("    Place rest = {place};\n");
        for axis in (1..rank).rev() {
            let word = first + 2 * (axis - 1);
            let _ = writeln!(
                text,
                "    const Place q{axis} = quotient(rest, p.word[{word}], p.word[{}]);\n    \
                 const Step i{axis} = (Step)(rest - q{axis} * (Place)p.word[{word}]);\n    rest = q{axis};",
                word + 1
            );
        }
        text + "    const Step i0 = (Step)rest;\n"
    }

    /// The distance of the element at `i0`, `i1`, .., with strides that start at the word `first`.
    pub(super) fn distance(rank: usize, first: usize) -> String {
        let terms: Vec<_> = (0..rank).map(|axis| format!("i{axis} * (Step)p.word[{}]", first + axis)).collect();
        if terms.is_empty() { "0".into() } else { terms.join(" + ") }
    }

    fn strided(&self, rank: usize, wide: bool) -> String {
        let out = self.expression.inputs().len();
        let lengths = 1;
        let mut word = lengths + 2 * rank.saturating_sub(1);
        let (mut members, mut distances) = (String::new(), String::new());
        for k in 0..=out {
            let name = if k == out { "out".into() } else { format!("x{k}") };
            let distance = match self.classes.of(k) {
                Class::Flat => "(Step)place".into(),
                Class::Single => "0".into(),
                Class::Strided => {
                    word += rank;
                    Self::distance(rank, word - rank)
                }
            };
            let _ = write!(members, " Step {name};");
            let _ = writeln!(distances, "    at.{name} = {distance};");
        }
        let split = Self::split("place", rank, lengths);
        let pointers = self.leading(|k, of| format!("const {of}* x{k}"));
        let values: String = self.inputs().map(|(k, of)| format!("    {of} a{k}[SHARE];\n")).collect();
        let loads: String = self.inputs().map(|(k, _)| format!("        a{k}[t] = x{k}[at[t].x{k}];\n")).collect();
        let arguments = self.leading(|k, _| format!("a{k}[t]"));
        // Four elements of up to 16 bytes under way; more would cost registers that hide latency as well.
        let share = if self.share.turns == 1 && self.share.width == 1 { 1 } else { STRIDED_SHARE };
        let mut text = self.head(wide, word);
        let _ = write!(
            text,
            "struct Distances {{{members} }};
__device__ __forceinline__ Distances distances(Place place, const Parameters& p) {{
{split}    Distances at;
{distances}    return at;
}}

constexpr u32 SHARE = {share};
__global__ void __launch_bounds__(THREADS) evaluate({pointers}Out* out, const Parameters p) {{
    const Place n = (Place)p.word[0], first = (Place)blockIdx.x * (THREADS * SHARE) + threadIdx.x;
{values}    Distances at[SHARE];
#pragma unroll
    for (u32 t = 0; t < SHARE; ++t) {{
        // Past the end, the last element once more: a load without a condition need not wait for one before it.
        const Place place = first + t * THREADS;
        at[t] = distances(place < n ? place : n - 1, p);
{loads}    }}
#pragma unroll
    for (u32 t = 0; t < SHARE; ++t) {{
        const Place place = first + t * THREADS;
        if (place < n) out[at[t].out] = element(place, {arguments}p);
    }}
}}
"
        );
        text
    }

    fn tiled(&self, rank: usize, other: usize, wide: bool) -> String {
        let (out, inner) = (self.expression.inputs().len(), rank - 1);
        let length = |axis: usize| 2 + 2 * axis;
        let mut word = length(rank);
        let (mut bases, mut members, mut moves) = (String::new(), String::new(), String::new());
        for k in 0..=out {
            let name = if k == out { "out".into() } else { format!("x{k}") };
            let _ = write!(members, " Step {name};");
            if self.classes.of(k) == Class::Single {
                let _ = writeln!(moves, "        at[t].{name} = 0;");
                continue;
            }
            let terms = (0..rank).filter(|&axis| axis != other);
            let base: Vec<_> = terms.map(|axis| format!("i{axis} * (Step)p.word[{}]", word + axis)).collect();
            let _ = writeln!(bases, "    const Step b{k} = {};", base.join(" + "));
            let _ = writeln!(moves, "        at[t].{name} = b{k} + i{other} * (Step)p.word[{}];", word + other);
            word += rank;
        }
        let mut split = String::new();
        for axis in (0..inner).rev().filter(|&axis| axis != other) {
            let w = length(axis);
            let _ = writeln!(
                split,
                "    const Place q{axis} = quotient(block, p.word[{w}], p.word[{}]);\n    \
                 const Step i{axis} = (Step)(block - q{axis} * (Place)p.word[{w}]);\n    block = q{axis};",
                w + 1
            );
        }
        let pointers = self.leading(|k, of| format!("const {of}* x{k}"));
        let values: String = self.inputs().map(|(k, of)| format!("    {of} a{k}[SHARE];\n")).collect();
        let loads: String = self.inputs().map(|(k, _)| format!("        a{k}[t] = x{k}[at[t].x{k}];\n")).collect();
        let arguments = self.leading(|k, _| format!("a{k}[t]"));
        let mut text = self.head(wide, word);
        let _ = write!(
            text,
            "struct Distances {{{members} }};
constexpr u32 SIDE = {SIDE}, ROWS = THREADS / SIDE, SHARE = SIDE / ROWS;
__global__ void __launch_bounds__(THREADS) evaluate({pointers}Out* out, const Parameters p) {{
    Place block = blockIdx.x, tile = block / (Place)p.word[0];
    const Place n = (Place)p.word[{}], m = (Place)p.word[{}];
    const Place column = (block - tile * (Place)p.word[0]) * SIDE + threadIdx.x % SIDE;
    block = tile / (Place)p.word[1];
    const Place row = (tile - block * (Place)p.word[1]) * SIDE + threadIdx.x / SIDE;
{split}    // Past the end, the last element once more: a load without a condition need not wait for one before it.
    const Step i{inner} = (Step)(column < n ? column : n - 1);
{bases}{values}    Distances at[SHARE];
#pragma unroll
    for (u32 t = 0; t < SHARE; ++t) {{
        const Step i{other} = (Step)(row + t * ROWS < m ? row + t * ROWS : m - 1);
{moves}{loads}    }}
#pragma unroll
    for (u32 t = 0; t < SHARE; ++t)
        if (column < n && row + t * ROWS < m) out[at[t].out] = element(0, {arguments}p);
}}
",
            length(inner),
            length(other),
        );
        text
    }

    /// A square of the plane of two axes a block, through shared memory, so that both sides are read and written along
    /// their unit stride.
    fn transposed(&self, rest: usize, wide: bool) -> String {
        let lengths = 6;
        let strides = lengths + 2 * rest.saturating_sub(1);
        let mut text = self.head(wide, strides + 2 * rest);
        let (split, from, to) = (
            Self::split("block", rest, lengths),
            Self::distance(rest, strides),
            Self::distance(rest, strides + rest),
        );
        let _ = write!(
            text,
            "constexpr u32 SIDE = {SIDE}, ROWS = THREADS / SIDE;
__global__ void __launch_bounds__(THREADS) transpose(const Out* x, Out* out, const Parameters p) {{
    __shared__ Out tile[SIDE][SIDE + 1];
    const Place inner = (Place)p.word[0], other = (Place)p.word[1];
    const Place inner_tiles = (Place)p.word[2], other_tiles = (Place)p.word[3];
    Place block = blockIdx.x;
    const Place a = block % inner_tiles * SIDE;
    block /= inner_tiles;
    const Place b = block % other_tiles * SIDE;
    block /= other_tiles;
{split}    x += {from};
    out += {to};
    const u32 lane = threadIdx.x % SIDE, row = threadIdx.x / SIDE;
#pragma unroll
    for (u32 t = 0; t < SIDE / ROWS; ++t) {{
        const u32 i = row + t * ROWS;
        if (a + i < inner && b + lane < other) tile[i][lane] = x[(Step)(a + i) * (Step)p.word[4] + (Step)(b + lane)];
    }}
    __syncthreads();
#pragma unroll
    for (u32 t = 0; t < SIDE / ROWS; ++t) {{
        const u32 i = row + t * ROWS;
        if (b + i < other && a + lane < inner)
            out[(Step)(b + i) * (Step)p.word[5] + (Step)(a + lane)] = tile[lane][i];
    }}
}}
"
        );
        text
    }
}

/// Elements of a thread of a strided kernel.
const STRIDED_SHARE: usize = 4;

/// Elements of a block of a strided kernel.
pub(super) fn strided_tile(expression: &Expression) -> usize {
    let share = Share::of(expression);
    if share.turns == 1 && share.width == 1 { THREADS } else { THREADS * STRIDED_SHARE }
}

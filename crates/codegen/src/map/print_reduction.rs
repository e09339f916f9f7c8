//! Reductions of expressions as CUDA C++.

use std::fmt::Write;

use super::layout::Class;
use super::operation::Reduction;
use super::print::{REDUCTION_COUNTS, Text, cost};

impl Text<'_> {
    /// Prints the part that both forms of a reduction share: where an output's values begin, a value, and how two
    /// are joined.
    pub(super) fn reduction(&self, reduction: Reduction, outer: usize, reduced: usize, wide: bool) -> String {
        let outer_lengths = REDUCTION_COUNTS;
        let reduced_lengths = outer_lengths + 2 * outer.saturating_sub(1);
        let mut word = reduced_lengths + 2 * reduced.saturating_sub(1);
        let (mut members, mut moves, mut reads) = (String::new(), String::new(), String::new());
        for (k, of) in self.inputs() {
            let _ = write!(members, " const {of}* x{k};");
            let _ = writeln!(moves, "    from.x{k} += {};", Self::distance(outer, word));
            word += outer;
            let distance = match self.classes.of(k) {
                Class::Flat => "r".into(),
                Class::Single => "0".into(),
                Class::Strided => {
                    word += reduced;
                    Self::distance(reduced, word - reduced)
                }
            };
            let _ = write!(reads, "from.x{k}[{distance}], ");
        }
        let split =
            if self.classes.any_strided() { Self::split("r", reduced, reduced_lengths) } else { String::new() };
        let start = match reduction {
            Reduction::Sum => "num::zero<Out>()",
            Reduction::Product => "num::one<Out>()",
            // One value more does not change which is the smallest.
            Reduction::Min | Reduction::Max => "value(from, o, first, p)",
        };
        let (ahead, singly) = self.ahead();
        let mut text = self.head(wide, word);
        let _ = write!(
            text,
            "constexpr u32 AHEAD = {ahead}, SINGLY = {singly};
struct Inputs {{{members} }};
__device__ __forceinline__ Inputs begin(Inputs from, Place o, const Parameters& p) {{
{}{moves}    return from;
}}
__device__ __forceinline__ Out value(const Inputs& from, Place o, Place r, const Parameters& p) {{
{split}    return element((u64)o * (Place)p.word[1] + r, {reads}p);
}}
__device__ __forceinline__ Out start(const Inputs& from, Place o, Place first, const Parameters& p) {{
    return {start};
}}
__device__ __forceinline__ Out join(Out a, Out b) {{ return num::{}(a, b); }}
// Joins the values from r on, a step apart. Several are read before any is joined: a loop that may end after each
// of them would wait for each.
__device__ __forceinline__ void add(Out& sum, const Inputs& from, Place o, Place r, Place last, Place step,
                                    const Parameters& p) {{
#pragma unroll 1
    for (; r + (SINGLY - 1) * step < last; r += SINGLY * step) {{
        Out x[SINGLY];
#pragma unroll
        for (u32 t = 0; t < SINGLY; ++t) x[t] = value(from, o, r + t * step, p);
#pragma unroll
        for (u32 t = 0; t < SINGLY; ++t) sum = join(sum, x[t]);
    }}
#pragma unroll 1
    for (; r < last; r += step) sum = join(sum, value(from, o, r, p));
}}

",
            Self::split("o", outer, outer_lengths),
            reduction.step().name(),
        );
        text
    }

    /// The number of reads of a thread before it joins: in packs, and element by element. About 64 and 32 bytes.
    fn ahead(&self) -> (usize, usize) {
        let expression = self.expression;
        let bytes = expression.inputs().iter().map(|of| of.bytes()).sum::<usize>().max(1);
        match cost(expression) * self.share.width {
            0..=64 => ((64 / (bytes * self.share.width)).clamp(2, 8), (32 / bytes).clamp(2, 8)),
            _ => (1, if cost(expression) > 64 { 1 } else { 2 }),
        }
    }

    pub(super) fn rows(&self) -> String {
        let pointers = self.leading(|k, of| format!("const {of}* x{k}"));
        let names = self.list(|k, _| format!("x{k}"));
        let mut wide = String::new();
        if self.share.width > 1 && !self.classes.any_strided() {
            let is_flat = |k| self.classes.of(k) == Class::Flat;
            let flat = || self.inputs().filter(|&(k, _)| is_flat(k));
            let fits: String =
                flat().map(|(k, of)| format!(" && Pack<{of}, WIDTH>::fits(from.x{k} + first)")).collect();
            let packs: String =
                flat().map(|(k, of)| format!("            Pack<{of}, WIDTH> a{k}[AHEAD];\n")).collect();
            let loads: String = flat()
                .map(|(k, _)| format!("                a{k}[t].load(from.x{k} + r + t * step);\n"))
                .collect();
            let values =
                self.leading(|k, _| if is_flat(k) { format!("a{k}[t].x[v]") } else { format!("*from.x{k}") });
            let last_packs = packs.replace("[AHEAD]", "[1]");
            let last_loads = loads.replace("                a", "            a");
            let _ = write!(
                wide,
                "    if (true{fits}) {{
        const Place whole = last - (last - first) % WIDTH;
        const Place step = group * WIDTH;
        r = first + lane * WIDTH;
#pragma unroll 1
        for (; r + (AHEAD - 1) * step < whole; r += AHEAD * step) {{
{packs}#pragma unroll
            for (u32 t = 0; t < AHEAD; ++t) {{
{loads}            }}
#pragma unroll
            for (u32 t = 0; t < AHEAD; ++t)
#pragma unroll
                for (u32 v = 0; v < WIDTH; ++v)
                    sum = join(sum, element((u64)o * (Place)p.word[1] + r + t * step + v, {values}p));
        }}
#pragma unroll 1
        for (; r < whole; r += step) {{
            constexpr u32 t = 0;
{last_packs}{last_loads}#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v)
                sum = join(sum, element((u64)o * (Place)p.word[1] + r + v, {values}p));
        }}
        r = whole + lane;
    }}
"
            );
        }
        format!(
            "__global__ void __launch_bounds__(THREADS) reduce({pointers}Out* out, const Parameters p) {{
    const Place outer = (Place)p.word[0], reduced = (Place)p.word[1], parts = (Place)p.word[2];
    const u32 log_group = (u32)p.word[4], group = 1u << log_group, lane = threadIdx.x & (group - 1);
    const u64 job = ((u64)blockIdx.x * THREADS + threadIdx.x) >> log_group;
    // Threads without a part of their own repeat the last: a warp joins its values together.
    const bool owns = job < (u64)outer * parts;
    const Place mine = owns ? (Place)job : outer * parts - 1, o = mine / parts;
    const Place first = (mine - o * parts) * (Place)p.word[3];
    const Place last = reduced - first < (Place)p.word[3] ? reduced : first + (Place)p.word[3];
    const Inputs from = begin(Inputs{{{names}}}, o, p);
    Out sum = start(from, o, first, p);
    Place r = first + lane;
{wide}    add(sum, from, o, r, last, group, p);
    for (u32 bits = (group < 32 ? group : 32) / 2; bits > 0; bits /= 2) sum = join(sum, shuffle(sum, bits));
    if (group == THREADS) {{
        __shared__ Out sums[THREADS / 32];
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = sums[0];
#pragma unroll
        for (u32 i = 1; i < THREADS / 32; ++i) sum = join(sum, sums[i]);
    }}
    if (owns && lane == 0) out[job] = sum;
}}
"
        )
    }

    pub(super) fn columns(&self) -> String {
        let pointers = self.leading(|k, of| format!("const {of}* x{k}"));
        let names = self.list(|k, _| format!("x{k}"));
        format!(
            "__global__ void __launch_bounds__(THREADS) reduce({pointers}Out* out, const Parameters p) {{
    __shared__ Out sums[THREADS];
    const Place outer = (Place)p.word[0], reduced = (Place)p.word[1], blocks = (Place)p.word[5];
    const u32 log_width = (u32)p.word[4], width = 1u << log_width;
    const u32 column = threadIdx.x & (width - 1), turn = threadIdx.x >> log_width, turns = THREADS >> log_width;
    const Place part = blockIdx.x / blocks, own = (blockIdx.x - part * blocks) * width + column;
    const bool owns = own < outer;
    const Place o = owns ? own : outer - 1, first = part * (Place)p.word[3];
    const Place last = reduced - first < (Place)p.word[3] ? reduced : first + (Place)p.word[3];
    const Inputs from = begin(Inputs{{{names}}}, o, p);
    Out sum = start(from, o, first, p);
    add(sum, from, o, first + turn, last, turns, p);
    if (turns > 1) {{
        sums[threadIdx.x] = sum;
        for (u32 half = turns / 2; half > 0; half /= 2) {{
            __syncthreads();
            if (turn < half) sums[threadIdx.x] = join(sums[threadIdx.x], sums[threadIdx.x + half * width]);
        }}
        sum = sums[threadIdx.x];
    }}
    if (owns && turn == 0) out[(u64)part * outer + o] = sum;
}}
"
        )
    }
}

//! Expression graphs over finite fields, compiled to GPU kernels.
//!
//! An [`ExpressionGraph`] holds expressions over a base field and its extension: columns of matrices at a row and its
//! neighbours, parameters, constants, and sums, differences and products of them. Equal values are one node. A
//! [`CompiledGraph`] computes some of them for every row: it splits the graph into kernels of a bounded size, prints
//! them as CUDA C++ and compiles them. A value is written to a column, or folded into one sum over all with a
//! weight each, as a STARK's constraints are with powers of a challenge.
//!
//! ```
//! use rigel_codegen::{Bindings, Folded, ExpressionGraph, Output, CompiledGraph, Rows, Split};
//! use rigel_gpu::{Device, Selector};
//! use rigel_kernels::Matrix;
//! use rigel_kernels::field::{Element, Field, KoalaBear, KoalaBear4, Ring};
//! use rigel_kernels::layout::slab::from_slab;
//!
//! # fn main() -> rigel_gpu::Result<()> {
//! let device = Device::open(Selector::Emulated(0))?; // or Device::from_env()
//! let stream = device.compute()?;
//!
//! // Fibonacci's constraints: a' - b and b' - (a + b), where ' is the next row.
//! let mut graph = ExpressionGraph::<KoalaBear4>::new();
//! let [a, b] = [0, 1].map(|column| graph.column(0, column, 0));
//! let [next_a, next_b] = [0, 1].map(|column| graph.column(0, column, 1));
//! let sum = graph.add(a, b);
//! let (first, second) = (graph.sub(next_a, b), graph.sub(next_b, sum));
//!
//! // Their combination with weights, and the sum a + b itself.
//! let outputs = [
//!     Output::Fold { value: first, weight: 0 },
//!     Output::Fold { value: second, weight: 1 },
//!     Output::Store { value: sum, output: 0, column: 0 },
//! ];
//! let program = CompiledGraph::compile(&device, "fibonacci", &graph, &outputs, Split::of(&device))?;
//! assert_eq!(program.kernels(), 1);
//!
//! let trace = [1u64, 1, 2, 3, 1, 2, 3, 5].map(KoalaBear::from_u64); // column after column
//! let trace = Matrix::upload(&stream, &trace, 4)?;
//! let alpha = KoalaBear4::from_parts(&[7, 8, 9, 10].map(KoalaBear::from_u64)).unwrap();
//! let weights = stream.upload(&[KoalaBear4::ONE, alpha])?;
//! let scale = stream.upload(&[KoalaBear::ONE])?;
//! let mut folded = stream.alloc::<KoalaBear>(4 * 4)?;
//! let mut sums = Matrix::alloc(&stream, 4, 1)?;
//!
//! let mut bindings = Bindings::new()
//!     .input(&trace)
//!     .output(&mut sums)
//!     .weights(&weights)
//!     .folded(Folded {
//!         values: folded.view_mut(),
//!         scale: scale.view(),
//!         log_scale: 2,
//!         log_block: 2,
//!         accumulate: false,
//!     });
//! program.run(&stream, Rows::Natural { rows: 4 }, &mut bindings)?;
//!
//! assert_eq!(sums.to_vec(&stream)?, [2u64, 3, 5, 8].map(KoalaBear::from_u64));
//! let folded: Vec<KoalaBear4> = from_slab(&folded.to_vec(&stream)?).unwrap();
//! assert_eq!(folded[..3], [KoalaBear4::ZERO; 3]); // the last row's next is the first: there they do not hold
//! assert_ne!(folded[3], KoalaBear4::ZERO);
//! # Ok(())
//! # }
//! ```
//!
//! | what | where |
//! |---|---|
//! | expressions | [`ExpressionGraph`], [`Value`], [`FieldKind`], [`ColumnsRead`] |
//! | what is done with them | [`Output`] |
//! | kernels | [`CompiledGraph`], [`Split`], [`texts`] |
//! | results before a compiler is done | [`GraphProgram`], [`Instructions`], [`InterpretedGraph`] |
//! | what they run on | [`Bindings`], [`Rows`], [`Input`], [`RowMap`], [`Target`], [`Folded`] |
//! | maps of tens of thousands of expressions | [`QuickMap`] |

mod bindings;
mod graph;
mod interpret;
pub mod map;
mod output;
mod print;
mod program;
mod quick;
mod split;
mod sums;
mod tiers;

pub use bindings::{Bindings, Folded, Input, RowMap, Rows, Target};
pub use graph::{ColumnsRead, ExpressionGraph, FieldKind, Value};
pub use interpret::{Instructions, InterpretedGraph, compile_interpreter};
pub use output::Output;
pub use print::MATRICES;
pub use program::{CompiledGraph, scratch_columns, texts};
pub use quick::{QuickHasher, QuickMap};
pub use split::Split;
pub use tiers::{GraphProgram, program};

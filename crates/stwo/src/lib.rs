//! Stwo's prover on the GPU: [`CudaBackend`] replaces `SimdBackend` and gives the same proof, byte for byte.
//!
//! Stwo's prover is generic over a backend, which is a set of traits. This crate implements `Backend` of Stwo
//! 2.3.0 and, for the Blake2s channels, `BackendForChannel`. Columns stay on the device, and all work on them runs
//! there. The constraints of any `FrameworkComponent` are recorded and compiled to kernels once; there is no GPU
//! code to write.
//!
//! ```
//! use rigel_gpu::{Device, Selector};
//! use rigel_stwo::CudaBackend;
//! use stwo::core::channel::Blake2sChannel;
//! use stwo::core::fields::FieldExpOps;
//! use stwo::core::fields::m31::BaseField;
//! use stwo::core::fields::qm31::SecureField;
//! use stwo::core::pcs::{CommitmentSchemeVerifier, PcsConfig};
//! use stwo::core::poly::circle::CanonicCoset;
//! use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
//! use stwo::core::verifier::verify;
//! use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
//! use stwo::prover::{CommitmentSchemeProver, prove};
//! use stwo_constraint_framework::{EvalAtRow, FrameworkComponent, FrameworkEval, TraceLocationAllocator};
//!
//! /// b = a^2, in 2^log_size rows.
//! struct Squares {
//!     log_size: u32,
//! }
//!
//! impl FrameworkEval for Squares {
//!     fn log_size(&self) -> u32 {
//!         self.log_size
//!     }
//!     fn max_constraint_log_degree_bound(&self) -> u32 {
//!         self.log_size + 1
//!     }
//!     fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
//!         let (a, b) = (eval.next_trace_mask(), eval.next_trace_mask());
//!         eval.add_constraint(b - a.square());
//!         eval
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The trace, generated on the host.
//! let log_size = 6;
//! let domain = CanonicCoset::new(log_size).circle_domain();
//! let a: Vec<BaseField> = (0..1 << log_size).map(BaseField::from_u32_unchecked).collect();
//! let b: Vec<BaseField> = a.iter().map(|a| a.square()).collect();
//! let trace = [a, b].map(|column| CircleEvaluation::new(domain, column.into_iter().collect()));
//!
//! let config = PcsConfig::default();
//! let component =
//!     FrameworkComponent::new(&mut TraceLocationAllocator::default(), Squares { log_size }, SecureField::default());
//! let device = Device::open(Selector::Emulated(0))?; // or Device::from_env()
//! let proof = rigel_stwo::on(&device, || {
//!     // As with SimdBackend, except that the columns are uploaded.
//!     let twiddles = CudaBackend::precompute_twiddles(CanonicCoset::new(log_size + 1).half_coset());
//!     let mut channel = Blake2sChannel::default();
//!     let mut scheme = CommitmentSchemeProver::<CudaBackend, Blake2sMerkleChannel>::new(config, &twiddles);
//!     scheme.tree_builder().commit(&mut channel); // no preprocessed columns
//!     let mut tree = scheme.tree_builder();
//!     tree.extend_evals(rigel_stwo::upload(&trace)?);
//!     tree.commit(&mut channel);
//!     Ok::<_, rigel_gpu::Error>(prove(&[&component], &mut channel, scheme))
//! })??;
//!
//! // Stwo's own verifier accepts it.
//! let mut channel = Blake2sChannel::default();
//! let mut scheme = CommitmentSchemeVerifier::<Blake2sMerkleChannel>::new(config);
//! scheme.commit(proof.commitments[0], &[], &mut channel);
//! scheme.commit(proof.commitments[1], &[log_size; 2], &mut channel);
//! verify(&[&component], &mut channel, &mut scheme, proof)?;
//! # Ok(())
//! # }
//! ```
//!
//! | what | where |
//! |---|---|
//! | select the device | [`on`], [`current`] |
//! | columns from the host, or from your own kernel | [`upload`], [`upload_polynomials`], [`BaseColumn::from_buffer`](DeviceColumn::from_buffer) |
//! | LogUp columns, from the component or from fractions | [`interaction_trace`], [`LogupTraceGenerator`] |
//! | LogUp columns of many components at once | [`start_interaction_trace`] |
//! | device memory ahead of a proof; proofs larger than it | [`plan`](plan()), [`Plan::run`], [`in_column_batches`] |
//! | time, transfers and memory of a proof | [`measure`], [`in_phase`] |
//! | errors, where upstream's signatures have none | [`catch`] |
//! | the CPU where there is no device or the device fails, and a report that says so | [`with_fallback`] |
//! | many proofs, on several devices | [`Queue`] |
//! | one proof over several devices | [`over`] |
//! | an error for a lookup whose denominator is zero | [`check_denominators`] |
//!
//! # Differences from `SimdBackend`
//!
//! - Consecutive columns of a tree with the same length are contiguous in memory; transforms, hashes and openings
//!   process them together. Other columns work too, with more launches.
//! - Upstream's prover reads openings one at a time. The backend prefetches all of them together: a proof makes a
//!   few dozen downloads, mostly of roots, for any number of columns and up to 1,024 queries.
//! - A `BaseColumnPool` is not needed: the device's arena reuses memory.
//! - Secure-field values in a component (lookup elements, claimed sums) are kernel parameters, so its kernels are
//!   compiled once and cached on disk. Base-field constants are part of the kernels: a component with other
//!   constants is compiled again, unless a [`Template`] says which of them belong to the instance.
//! - Coefficients are in the order that upstream documents. `SimdBackend` transposes long columns of coefficients.
//!
//! # How a proof runs
//!
//! Upstream's `prove` is the list of phases, and this crate has one file for each trait of a backend. Upstream's
//! loops ask for one column or one value at a time; the backend answers them from work on many.
//!
//! | upstream asks for | the backend |
//! |---|---|
//! | columns of a tree (`extend_evals`) | interpolates them in place, in a copy if columns have clones, a launch for each run of contiguous columns |
//! | a commitment | evaluates into one piece of memory, then builds the leaves and all layers of the tree at once |
//! | the constraints of a component | knows the component again, or records and compiles it, and folds all constraints over the rows in one program |
//! | the value of a column out of domain | evaluates all columns of its tree that are not longer, and copies all values back at once |
//! | quotients, a fold of FRI | computes all columns or coordinates at once, in a few launches |
//! | a proof of work | finds the nonce and, from a copy of the channel, the queries that will come |
//! | a queried element or node | fetches everything that the queries will read, in all trees, in two copies |
//!
//! A component is known again by the values of its constraints for random numbers in place of columns and of what was
//! drawn, which is less work than recording them.
//!
//! A column of evaluations records the number of coefficients of its polynomial until it is written to. Its value at
//! a point out of domain is then a sum over that many rows: the first block of a canonic domain is a domain itself,
//! and its values determine the polynomial.
//!
//! Where the columns do not fit on the device, the host keeps them, as coefficients once they are committed to.
//! Whatever reads columns brings a batch of them up, evaluates it and drops it: leaves absorb one batch after
//! another, constraints are split by the columns that they read, and sums over columns are added up.
//!
//! Over several devices, a column may be blocks of rows, one on each device, and a layer of a tree blocks of digests.
//! In the bit-reversed order of a circle domain, block k of K is the circle domain of the half coset that begins at
//! the point with the bit-reversed index of k and takes K steps at a time. So every kernel that takes a coset or its
//! twiddles runs on a block as it is: leaves, constraints, numerators of quotients and folds, until a block is small.
//! Values out of domain are partial sums, added on the host. The composition and the quotients are gathered by
//! coordinates and extended. What does not know of blocks reads a column gathered on the first device.

mod accumulation;
mod backend;
mod batch;
mod blocks;
mod column;
mod component;
mod copies;
mod deferred;
mod device;
mod domain;
mod failure;
mod fallback;
mod field;
mod fri;
mod grind;
mod held;
mod inputs;
mod instance;
mod joined;
mod logup;
mod lookups;
mod merkle;
mod plan;
mod poly;
mod queue;
mod quotients;
mod reading;
mod recorded;
mod recorder;
mod report;
mod twiddles;
mod upload;
mod words;

pub use backend::CudaBackend;
pub use column::{BaseColumn, DeviceColumn, SecureColumn, Value};
pub use component::compile;
pub use deferred::in_column_batches;
pub use device::{current, on, over};
pub use failure::{catch, or_fail};
pub use fallback::{Policy, with_fallback};
pub use instance::{Instance, Template};
pub use logup::{
    Interaction, LogupColGenerator, LogupTraceGenerator, Numerators, PendingInteraction, check_denominators,
    interaction_trace, start_interaction_trace,
};
pub use merkle::HashColumn;
pub use plan::{ComponentSize, Plan, PlannedPhase, ProofSize, plan};
pub use queue::{Each, Queue};
pub use report::{in_phase, measure};
pub use rigel_gpu::Report;
pub use twiddles::Twiddles;
pub use upload::{upload, upload_polynomials};

//! Plonky3 proofs on the GPU, byte for byte equal to upstream's.
//!
//! [`prove`] and [`prove_batch`] are `p3_uni_stark::prove` and `p3_batch_stark::prove_batch` on a device. They
//! take a Plonky3 AIR and a trace, and return the same proof that upstream makes with one thread. The phases run on
//! the device; the host keeps upstream's transcript and makes FRI's last small folds.
//!
//! A [`Prover`] is a configuration on a device. Upstream's PCS keeps its FRI parameters private, so pass them
//! again:
//!
//! ```
//! # use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
//! # use p3_challenger::{HashChallenger, SerializingChallenger32};
//! # use p3_commit::ExtensionMmcs;
//! # use p3_dft::Radix2DitParallel;
//! # use p3_field::PrimeCharacteristicRing;
//! # use p3_field::extension::BinomialExtensionField;
//! # use p3_fri::{FriParameters, TwoAdicFriPcs};
//! # use p3_keccak::{Keccak256Hash, KeccakF};
//! # use p3_koala_bear::KoalaBear;
//! # use p3_matrix::dense::RowMajorMatrix;
//! # use p3_merkle_tree::MerkleTreeMmcs;
//! # use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher};
//! # use p3_uni_stark::{StarkConfig, verify};
//! # type Value = KoalaBear;
//! # type Challenge = BinomialExtensionField<Value, 4>;
//! # type Sponge = PaddingFreeSponge<KeccakF, 25, 17, 4>;
//! # type Mmcs = MerkleTreeMmcs<
//! #     [Value; p3_keccak::VECTOR_LEN], [u64; p3_keccak::VECTOR_LEN],
//! #     SerializingHasher<Sponge>, CompressionFunctionFromHasher<Sponge, 2, 4>, 2, 4,
//! # >;
//! # type Pcs = TwoAdicFriPcs<Value, Radix2DitParallel<Value>, Mmcs, ExtensionMmcs<Value, Challenge, Mmcs>>;
//! # type Challenger = SerializingChallenger32<Value, HashChallenger<u8, Keccak256Hash, 32>>;
//! # type Config = StarkConfig<Pcs, Challenge, Challenger>;
//! # struct Counter;
//! # impl<F> BaseAir<F> for Counter {
//! #     fn width(&self) -> usize { 1 }
//! # }
//! # impl<AB: AirBuilder> Air<AB> for Counter {
//! #     fn eval(&self, builder: &mut AB) {
//! #         let main = builder.main();
//! #         let (x, next) = (main.current(0).unwrap(), main.next(0).unwrap());
//! #         builder.when_first_row().assert_zero(x);
//! #         builder.when_transition().assert_eq(next, x + AB::Expr::ONE);
//! #     }
//! # }
//! use rigel_gpu::{Device, Selector};
//! use rigel_plonky3::{Prover, prove};
//!
//! // As for upstream.
//! let cap_height = 3;
//! let sponge = Sponge::new(KeccakF {});
//! let mmcs = Mmcs::new(SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge), cap_height);
//! let fri = FriParameters::new_benchmark_high_arity(ExtensionMmcs::new(mmcs.clone()));
//! let pcs = Pcs::new(Radix2DitParallel::default(), mmcs, fri.clone());
//! let config = Config::new(pcs, Challenger::from_hasher(vec![], Keccak256Hash {}));
//!
//! // The emulated device; `Prover::open` uses the first GPU, or the CPU if there is none.
//! let device = Device::open(Selector::Emulated(0))?;
//! let prover = Prover::new(device, config.clone(), &fri, cap_height)?;
//!
//! let trace = RowMajorMatrix::new((0..8).map(Value::from_u32).collect(), 1);
//! let proven = prove(&prover, &Counter, trace, &[])?;
//! verify(&config, &Counter, &proven.proof, &[]).unwrap();
//! println!("{}", proven.report);
//! # Ok::<(), rigel_plonky3::Error>(())
//! ```
//!
//! | to | see |
//! |---|---|
//! | prove one table, with preprocessed columns | [`prove`], [`setup_preprocessed`], [`prove_with_preprocessed`] |
//! | prove several tables with lookups | [`setup_batch`], [`prove_batch`] |
//! | prove a trace that is already on the device | [`Trace`] |
//! | make many proofs, on one device or on several, within their memory | [`Queue`] |
//! | make one proof with several devices | [`Prover::over`] |
//! | end a proof early | [`Cancel`] |
//! | prove permutations of Keccak, Poseidon2 or Blake3 from their inputs alone | [`witness`] |
//! | know how much device memory a proof needs | [`plan()`], [`plan_batch`] |
//! | decide when to fall back to the CPU | [`Policy`] |
//! | compile an AIR's kernels ahead of its first proof | [`compile()`], [`compile_batch`] |
//! | see where the time went | [`Report`] |
//! | make proofs that hide the trace (zero-knowledge) | [`Prover::hiding`] |
//! | use Poseidon2 over Goldilocks with constants of your own | [`Prover::with_hash`] |
//! | add a field, an extension, a hash or a challenger | [`DeviceField`], [`DeviceExtension`], [`TreeHash`], [`DeviceChallenger`] |
//!
//! Supported configurations: KoalaBear and BabyBear with extensions of degree 4, Goldilocks with extensions of
//! degree 2 and 3; trees with the KeccakF sponge, Keccak-256 or Poseidon2, of widths 16, 24 and 32 (Goldilocks 8, 12
//! and 16) and with any round constants, or with a hash of your own; any FRI parameters that upstream accepts. Proofs
//! hide the trace with upstream's `HidingFriPcs` over `MerkleTreeHidingMmcs`. An unsupported configuration does not
//! compile. One limit is lower than upstream's: traces of more than 2^24 rows (2^23 if they are hidden) give
//! [`Error::TooManyRows`]. A [`Policy`] can prove them on the CPU.
//!
//! The first proof of an AIR compiles its constraints, which takes from a second to half a minute; the kernels are
//! cached on disk. Examples: `own_air`, `lookup`, `device_trace`, `own_hash`, `own_constants`, `little_memory`,
//! `serve`, `keccak_inputs`.
//!
//! # How a proof runs
//!
//! `door/prove.rs` is the list of phases for one table, and `door/batch.rs` the same list with lookups. What comes back
//! to the host is small (caps, the lookups' sums, opened values, witnesses of the proof of work, queried rows, the end
//! of FRI), but for columns that are kept there where the device's memory is short.
//!
//! 1. Read the AIR, on a thread beside the upload: upstream's symbolic expressions become a graph in which equal
//!    values are one node. The graph is split into kernels, which are compiled on all cores or found in the cache,
//!    and interpreted until they are there. Later proofs know the AIR again by how its constraints are written.
//! 2. Commit to the trace. It goes up on a stream of its own, one table in parts of columns and a batch table by
//!    table. Each part is transposed and extended, and those of one table are absorbed by the leaves, while the next
//!    travels. The tree's cap gives alpha; with lookups, their columns are made and committed to before that.
//! 3. Make the quotient. For a table of n rows and a quotient of q chunks, constraints are evaluated on the first n q
//!    rows of the extended trace: in bit-reversed order, a prefix is the smaller coset. Each kernel adds its
//!    constraints, weighted by powers of alpha and divided by the vanishing polynomial, to the chunks. These are
//!    extended and committed to as the trace was. Their cap gives zeta.
//! 4. Open all columns at zeta and, where the AIR reads the next row, at the point after it, by barycentric weights.
//!    The values give the next alpha, by which all columns of one height are reduced to one.
//! 5. Fold: a tree over the column, its cap, a challenge, a fold, and again. Columns of lower heights join on the
//!    way. The last folds have trees of few leaves, for which a round trip to the device takes longer than hashing
//!    them, so the host makes them where it can compute the hash. The final polynomial is the host's, too.
//! 6. Search the proof of work, and gather the queried rows and pruned paths, which come back in two copies.
//!
//! Many small tables go through each step together, because a launch takes longer than the work on one of them: one
//! launch extends all short matrices, one evaluates their columns at all points, one reduces their openings, and one
//! gathers all queried rows. Large matrices are processed one by one, by kernels that read each value as few times as
//! possible.
//!
//! Memory is planned before the proof. Where the extended trace does not fit, its columns are extended again, a batch
//! at a time, wherever they are read. Where not even the trace fits, some of its columns stay in pinned memory of the
//! host and come up again wherever they are read. If memory runs out in the middle all the same, the proof is made
//! again in narrower batches. After the first proof of a shape, the driver allocates no memory for buffers.
//!
//! Several devices share out the same phases by rows: device k of K has block k of the extended rows in bit-reversed
//! order, a coset of its own, so the functions of one device run on a block as they are. One host thread enqueues the
//! work of all devices, events order the copies between them, and the host waits only for what the transcript needs.
//! While some columns travel, those before them are hashed and those after them extended.
//!
//! A proof that hides the trace has the same phases with masks in place of a plain extension, random multiples of
//! vanishing polynomials in the quotient's chunks, one more commitment, and salts in the leaves.

mod air;
mod base;
mod columns;
mod door;
mod keys;
mod memory;
mod phases;
mod prover;
mod several;
mod upstream;
pub mod witness;

pub use air::provable::{CpuAir, CpuBatchAir};
pub use air::structure::{ExtensionTerm, StructureBuilder, Term};
pub use base::cancel::Cancel;
pub use base::error::{Error, Result};
pub use base::report::{DeviceShare, Fallback, Phase, Proven, Report};
pub use columns::trace::Trace;
pub use door::batch::prove_batch;
pub use door::compile::{compile, compile_batch};
pub use door::instance::Instance;
pub use door::prove::{prove, prove_with_preprocessed};
pub use door::queue::{Each, Queue};
pub use keys::batch_key::{BatchKey, setup_batch};
pub use keys::preprocessed::{Preprocessed, setup_preprocessed};
pub use memory::plan::{Plan, PlannedPhase, plan, plan_batch};
pub use prover::{Policy, Prover};
pub use rigel_gpu::{Move, Share, Ticket};
pub use rigel_kernels::hash::Poseidon2;
pub use upstream::challenger::{DeviceChallenger, FoundWitness};
pub use upstream::config::{Base, DeviceConfig, DeviceFriProof, Digest, Ext, Salts};
pub use upstream::field::{DeviceExtension, DeviceField};
pub use upstream::hash::{HostHash, TreeHash, TreePcs};
pub use upstream::hiding::{Hiding, Keystream};
pub use upstream::poseidon2::{DevicePermutation, round_constants};

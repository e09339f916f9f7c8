//! How provers are made: for one device, for several, for proofs that hide the trace, for the CPU.

use std::panic::resume_unwind;

use p3_fri::FriParameters;
use rigel_codegen::compile_interpreter;
use rigel_gpu::{Device, DeviceKind, Lock, check_team};
use rigel_kernels::hash::{Constants, Hash as _};
use rigel_kernels::registry::warm_two_adic;

use crate::air::readings::Readings;
use crate::base::error::{Error, Result};
use crate::door::agreement;
use crate::prover::{Policy, Prover};
use crate::upstream::challenger::DeviceChallenger;
use crate::upstream::config::{DeviceConfig, Ext};
use crate::upstream::hiding::Hiding;

impl<SC: DeviceConfig> Prover<SC> {
    /// A prover on `device`. `fri` and `cap_height` must be those of the configuration's PCS and trees.
    ///
    /// Poseidon2's round constants are those of the configuration: over KoalaBear and BabyBear any, over Goldilocks
    /// those of upstream's default instances; give others to [`Self::with_hash`].
    ///
    /// Commits to a small matrix on both sides, opens it on the device and verifies that with upstream. If the
    /// commitments differ or upstream does not accept, no proof would verify, and this is an error: the parameters or
    /// the constants are not the configuration's.
    ///
    /// On a GPU, this compiles the kernels that do not depend on the AIR, or loads them from the cache, on all cores.
    pub fn new<M>(device: Device, config: SC, fri: &FriParameters<M>, cap_height: usize) -> Result<Self> {
        agreement::check_ranges(&config, &numbers(fri))?;
        let hash = config.hash()?;
        Self::with_hash(device, config, fri, cap_height, hash)
    }

    /// [`Self::new`] for a configuration whose proofs hide the trace: `HidingFriPcs` over `MerkleTreeHidingMmcs`.
    ///
    /// Upstream keeps its generators of randomness private, too, so the prover has generators of its own. Seeded as
    /// the configuration's, and used in the same order, they give the proofs of upstream, byte for byte:
    ///
    /// ```
    /// # use p3_challenger::{HashChallenger, SerializingChallenger32};
    /// # use p3_commit::ExtensionMmcs;
    /// # use p3_dft::Radix2DitParallel;
    /// # use p3_field::extension::BinomialExtensionField;
    /// # use p3_fri::{FriParameters, HidingFriPcs};
    /// # use p3_keccak::{Keccak256Hash, KeccakF};
    /// # use p3_koala_bear::KoalaBear;
    /// # use p3_merkle_tree::MerkleTreeHidingMmcs;
    /// # use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher};
    /// # use p3_uni_stark::StarkConfig;
    /// # use rand::rngs::StdRng;
    /// # type Challenge = BinomialExtensionField<KoalaBear, 4>;
    /// # type Sponge = PaddingFreeSponge<KeccakF, 25, 17, 4>;
    /// # type Mmcs = MerkleTreeHidingMmcs<
    /// #     [KoalaBear; p3_keccak::VECTOR_LEN], [u64; p3_keccak::VECTOR_LEN],
    /// #     SerializingHasher<Sponge>, CompressionFunctionFromHasher<Sponge, 2, 4>, StdRng, 2, 4, 4,
    /// # >;
    /// # type Pcs = HidingFriPcs<
    /// #     KoalaBear, Radix2DitParallel<KoalaBear>, Mmcs, ExtensionMmcs<KoalaBear, Challenge, Mmcs>, StdRng,
    /// # >;
    /// # type Challenger = SerializingChallenger32<KoalaBear, HashChallenger<u8, Keccak256Hash, 32>>;
    /// # let sponge = Sponge::new(KeccakF {});
    /// # let (rows, nodes) = (SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge));
    /// # let challenger = Challenger::from_hasher(vec![], Keccak256Hash {});
    /// # let device = rigel_gpu::Device::open(rigel_gpu::Selector::Emulated(0))?;
    /// use rand::SeedableRng;
    /// use rigel_plonky3::{Hiding, Keystream, Prover};
    ///
    /// // As for upstream; use seeds that nobody can guess.
    /// let mmcs = Mmcs::new(rows, nodes, 0, StdRng::seed_from_u64(1));
    /// let fri = FriParameters::new_benchmark_high_arity(ExtensionMmcs::new(mmcs.clone()));
    /// let parameters = FriParameters::new_benchmark_high_arity(());
    /// let pcs = Pcs::new(Radix2DitParallel::default(), mmcs, fri, 4, StdRng::seed_from_u64(2));
    /// let config = StarkConfig::<Pcs, Challenge, Challenger>::new(pcs, challenger);
    ///
    /// // The same generators again. FRI has a clone of the trees, whose generator is a fork.
    /// let mut trees = Keystream::seed_from_u64(1);
    /// let fri_trees = trees.fork();
    /// let hiding = Hiding::new(4, Keystream::seed_from_u64(2), trees, fri_trees);
    /// let prover = Prover::hiding(device, config, &parameters, 0, hiding)?;
    /// # let _ = prover;
    /// # Ok::<(), rigel_plonky3::Error>(())
    /// ```
    ///
    /// Seeds that are secret serve one prover: never prove with upstream and the same configuration, too, for two
    /// proofs with the same masks hide nothing. So this prover makes no proof on the CPU, whatever its policy. A proof
    /// that begins again because memory ran out draws new randomness; from then on proofs are not upstream's byte for
    /// byte.
    pub fn hiding<M>(
        device: Device,
        config: SC,
        fri: &FriParameters<M>,
        cap_height: usize,
        hiding: Hiding,
    ) -> Result<Self> {
        agreement::check_ranges(&config, &numbers(fri))?;
        if SC::HIDING && SC::SALTS == 0 {
            return Err(Error::Unsupported(
                "the leaves of the hiding trees have 0 elements of salt and hide nothing; make MerkleTreeHidingMmcs \
                 with at least 1, so many that nobody can guess them"
                    .into(),
            ));
        }
        let hash = config.hash()?;
        Self::made(device, config, fri, cap_height, hash, Some(hiding))
    }

    /// [`Self::new`] with the kernels' hash given, for a Poseidon2 over Goldilocks whose constants are not those of
    /// upstream's default instances: upstream's Goldilocks permutations do not show them.
    ///
    /// ```
    /// # use p3_goldilocks::Goldilocks;
    /// # use p3_poseidon2::ExternalLayerConstants;
    /// # use rand::{RngExt, SeedableRng, rngs::SmallRng, distr::StandardUniform};
    /// use rigel_plonky3::{Poseidon2, round_constants};
    /// # use rigel_kernels::hash::poseidon2::GoldilocksWidth8;
    ///
    /// # let mut rng = SmallRng::seed_from_u64(1);
    /// // What upstream's `Poseidon2Goldilocks::<8>::new(external, internal)` takes; `new_from_rng_128` draws them so.
    /// let external = ExternalLayerConstants::<Goldilocks, 8>::new_from_rng(8, &mut rng);
    /// let internal: Vec<Goldilocks> = (&mut rng).sample_iter(StandardUniform).take(22).collect();
    ///
    /// let constants = round_constants(&external, &internal);
    /// let hash = Poseidon2::new(&constants, &constants)?;
    /// // Prover::with_hash(device, config, &fri, cap_height, hash)?
    /// # let _: Poseidon2<GoldilocksWidth8, GoldilocksWidth8> = hash;
    /// # Ok::<(), rigel_plonky3::Error>(())
    /// ```
    pub fn with_hash<M>(
        device: Device,
        config: SC,
        fri: &FriParameters<M>,
        cap_height: usize,
        hash: SC::Hash,
    ) -> Result<Self> {
        Self::made(device, config, fri, cap_height, hash, None)
    }

    fn made<M>(
        device: Device,
        config: SC,
        fri: &FriParameters<M>,
        cap_height: usize,
        hash: SC::Hash,
        hiding: Option<Hiding>,
    ) -> Result<Self> {
        if SC::HIDING != hiding.is_some() {
            let (is, call) =
                if SC::HIDING { ("hides", "Prover::hiding") } else { ("does not hide", "Prover::new") };
            return Err(Error::Unsupported(format!(
                "the configuration {is} the trace; make its prover by {call}"
            )));
        }
        agreement::check_ranges(&config, &numbers(fri))?;
        let mut search_constants = vec![config.initialise_challenger().constants()?];
        for constants in [hash.row_constants(), hash.node_constants()] {
            if constants != Constants::NONE && !search_constants.contains(&constants) {
                search_constants.push(constants);
            }
        }
        let mut prover = Self {
            device: Ok(device),
            others: Vec::new(),
            config,
            hash: Some(hash),
            search_constants,
            fri: numbers(fri),
            cap_height,
            policy: Policy::default(),
            readings: Readings::default(),
            uploading: Lock::default(),
            hiding: hiding.as_ref().map(Hiding::for_check),
        };
        prover.device().map_or(Ok(()), Self::load_kernels)?;
        agreement::check(&prover)?;
        prover.hiding = hiding;
        Ok(prover)
    }

    /// [`Self::new`] for proofs that several devices make together: a power of two of them, all of one kind.
    ///
    /// Each device has a block of the rows of all extended columns, so memory adds up: a proof that does not fit on one
    /// device may fit on all. Proofs are the same as those of one device. [`prove`](crate::prove),
    /// [`prove_with_preprocessed`](crate::prove_with_preprocessed) and [`prove_batch`](crate::prove_batch) share their
    /// work out. The trace, or the tallest one of a batch, must have at least as many rows as there are devices. Tables
    /// of a batch that have fewer extended rows than there are devices are on the first device.
    ///
    /// A configuration whose proofs hide the trace is refused.
    ///
    /// ```
    /// # use p3_challenger::{HashChallenger, SerializingChallenger32};
    /// # use p3_commit::ExtensionMmcs;
    /// # use p3_dft::Radix2DitParallel;
    /// # use p3_field::extension::BinomialExtensionField;
    /// # use p3_fri::{FriParameters, TwoAdicFriPcs};
    /// # use p3_keccak::{Keccak256Hash, KeccakF};
    /// # use p3_koala_bear::KoalaBear;
    /// # use p3_merkle_tree::MerkleTreeMmcs;
    /// # use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher};
    /// # use p3_uni_stark::StarkConfig;
    /// # type Challenge = BinomialExtensionField<KoalaBear, 4>;
    /// # type Sponge = PaddingFreeSponge<KeccakF, 25, 17, 4>;
    /// # type Mmcs = MerkleTreeMmcs<
    /// #     [KoalaBear; p3_keccak::VECTOR_LEN], [u64; p3_keccak::VECTOR_LEN],
    /// #     SerializingHasher<Sponge>, CompressionFunctionFromHasher<Sponge, 2, 4>, 2, 4,
    /// # >;
    /// # type Pcs = TwoAdicFriPcs<
    /// #     KoalaBear, Radix2DitParallel<KoalaBear>, Mmcs, ExtensionMmcs<KoalaBear, Challenge, Mmcs>,
    /// # >;
    /// # type Challenger = SerializingChallenger32<KoalaBear, HashChallenger<u8, Keccak256Hash, 32>>;
    /// # let sponge = Sponge::new(KeccakF {});
    /// # let mmcs = Mmcs::new(SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge), 0);
    /// # let fri = FriParameters::new_benchmark_high_arity(ExtensionMmcs::new(mmcs.clone()));
    /// # let pcs = Pcs::new(Radix2DitParallel::default(), mmcs, fri.clone());
    /// # let challenger = Challenger::from_hasher(vec![], Keccak256Hash {});
    /// # let config = StarkConfig::<Pcs, Challenge, Challenger>::new(pcs, challenger);
    /// use rigel_gpu::{Device, Emulation, Options};
    /// use rigel_plonky3::Prover;
    ///
    /// // Two emulated devices; `Device::all_cuda` opens all GPUs.
    /// let emulation = Emulation { devices: 2, ..Emulation::default() };
    /// let devices = Device::emulated(&emulation, &Options::from_env()?)?;
    /// let prover = Prover::over(&devices, config, &fri, 0)?;
    /// assert_eq!(prover.devices().count(), 2);
    /// # Ok::<(), rigel_plonky3::Error>(())
    /// ```
    pub fn over<M>(devices: &[Device], config: SC, fri: &FriParameters<M>, cap_height: usize) -> Result<Self> {
        check_team(devices).map_err(Error::Devices)?;
        let (first, others) = devices.split_first().expect("checked above");
        if SC::HIDING {
            let detail =
                "proofs that hide the trace are made by one device each; make the prover by Prover::hiding";
            return Err(Error::Devices(detail.into()));
        }
        let prover = Self::new(first.clone(), config, fri, cap_height)?;
        others.iter().try_for_each(|device| Self::load_kernels(device))?;
        let readings = if others.is_empty() { Readings::default() } else { Readings::without_kernels() };
        Ok(Self { others: others.to_vec(), readings, ..prover })
    }

    /// A prover on the device that `RIGEL_DEVICE` names, or on the first GPU. Without a GPU, and with
    /// `RIGEL_DEVICE=none`, upstream's prover makes the proofs on the CPU, and their reports say why. A configuration
    /// that hides the trace is refused: see [`Self::hiding`] and [`Self::cpu`].
    pub fn open<M>(config: SC, fri: &FriParameters<M>, cap_height: usize) -> Result<Self> {
        if SC::HIDING {
            let detail = "the configuration hides the trace; make its prover by Prover::hiding or Prover::cpu";
            return Err(Error::Unsupported(detail.into()));
        }
        match Device::from_env() {
            Ok(device) => Self::new(device, config, fri, cap_height),
            Err(reason @ (rigel_gpu::Error::Unavailable { .. } | rigel_gpu::Error::Disabled)) => {
                Ok(Self { device: Err(reason.to_string()), ..Self::cpu(config, fri, cap_height)? })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A prover that only uses the CPU, with upstream's prover. The parameters are checked as by [`Self::new`], unless
    /// the configuration hides the trace: a check would draw from its generators.
    pub fn cpu<M>(config: SC, fri: &FriParameters<M>, cap_height: usize) -> Result<Self> {
        agreement::check_ranges(&config, &numbers(fri))?;
        let device = Err("the prover was made for the CPU".into());
        let prover = Self {
            device,
            others: Vec::new(),
            config,
            hash: None,
            search_constants: Vec::new(),
            fri: numbers(fri),
            cap_height,
            policy: Policy::default(),
            readings: Readings::default(),
            uploading: Lock::default(),
            hiding: None,
        };
        agreement::check(&prover)?;
        Ok(prover)
    }

    /// Compiles or loads the kernels that most proofs need, and pins memory for uploads. On the emulated device, where
    /// compilers take longer than proofs, each operation does so when it is first used.
    fn load_kernels(device: &Device) -> Result<()> {
        if device.kind() == DeviceKind::Emulated {
            return Ok(());
        }
        std::thread::scope(|scope| {
            // A copy that needs the memory says so if it is not to be had.
            scope.spawn(|| device.prepare_copies().ok());
            let interpreter = scope.spawn(|| compile_interpreter::<Ext<SC>>(device));
            warm_two_adic::<Ext<SC>, SC::Hash>(device)?;
            Ok(interpreter.join().unwrap_or_else(|panic| resume_unwind(panic))?)
        })
    }
}

/// The FRI parameters without upstream's trees.
fn numbers<M>(fri: &FriParameters<M>) -> FriParameters<()> {
    FriParameters {
        log_blowup: fri.log_blowup,
        log_final_poly_len: fri.log_final_poly_len,
        max_log_arity: fri.max_log_arity,
        num_queries: fri.num_queries,
        batch_proof_of_work_bits: fri.batch_proof_of_work_bits,
        commit_proof_of_work_bits: fri.commit_proof_of_work_bits,
        query_proof_of_work_bits: fri.query_proof_of_work_bits,
        mmcs: (),
    }
}

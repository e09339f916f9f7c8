//! A hash of the user's own: trees of BLAKE3 on the device, with CUDA text that is not part of Rigel.
//!
//! `cargo run --release -p rigel-plonky3 --example own_hash`
//!
//! Upstream needs a type that hashes rows and one that compresses two digests. The kernels need the same as CUDA text
//! ([`Hash`]), and [`TreeHash`] ties the two together.

use std::fmt::Debug;

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_challenger::{HashChallenger, SerializingChallenger32};
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::extension::BinomialExtensionField;
use p3_field::{PrimeCharacteristicRing, RawDataSerializable};
use p3_fri::{FriParameters, TwoAdicFriPcs};
use p3_keccak::Keccak256Hash;
use p3_koala_bear::KoalaBear;
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{CryptographicHasher, PseudoCompressionFunction};
use p3_uni_stark::{StarkConfig, verify};
use rigel_gpu::Device;
use rigel_kernels::field;
use rigel_kernels::hash::{Hash, RowHash, Sponge};
use rigel_plonky3::{Prover, Result, TreeHash, TreePcs, prove};

/// Upstream's side: BLAKE3 of the bytes of a row, as a `SerializingHasher` would feed them.
#[derive(Clone, Copy, Debug)]
struct Blake3Rows;

impl CryptographicHasher<KoalaBear, [u8; 32]> for Blake3Rows {
    fn hash_iter<I: IntoIterator<Item = KoalaBear>>(&self, row: I) -> [u8; 32] {
        let bytes: Vec<u8> = KoalaBear::into_byte_stream(row).into_iter().collect();
        *blake3::hash(&bytes).as_bytes()
    }
}

/// BLAKE3 of two digests.
#[derive(Clone, Copy, Debug)]
struct Blake3Nodes;

impl PseudoCompressionFunction<[u8; 32], 2> for Blake3Nodes {
    fn compress(&self, digests: [[u8; 32]; 2]) -> [u8; 32] {
        *blake3::hash(digests.as_flattened()).as_bytes()
    }
}

/// The kernels' side.
#[derive(Clone, Copy, Debug)]
struct Blake3;

// SAFETY: `blake3.cuh` declares the two types, whose functions access no memory but their arguments'. Digests have 32
// bytes.
unsafe impl Hash for Blake3 {
    type Digest = [u8; 32];
    const ROWS: &'static str = "Blake3Rows";
    const NODES: &'static str = "Blake3Nodes";
    const HEADER: &'static str = "blake3.cuh";
    const TEXT: Option<&'static str> = Some(include_str!("blake3.cuh"));
}

impl RowHash<field::KoalaBear> for Blake3 {}

/// Rows of wide traces arrive in parts: whole chunks, and between them the state that `blake3.cuh` keeps.
impl Sponge for Blake3 {
    const BLOCK_BYTES: usize = 1024;
    const STATE_BYTES: usize = (2 + 8 * 12) * 4;
}

impl TreeHash<KoalaBear, Blake3Nodes, [u8; 32]> for Blake3Rows {
    type Kernel = Blake3;

    fn digest(digest: [u8; 32]) -> [u8; 32] {
        digest
    }

    fn kernel(_: &impl TreePcs<Self, Blake3Nodes>) -> Result<Blake3> {
        Ok(Blake3)
    }
}

// From here on, as with any other configuration.

type Challenge = BinomialExtensionField<KoalaBear, 4>;
type Mmcs = MerkleTreeMmcs<KoalaBear, u8, Blake3Rows, Blake3Nodes, 2, 32>;
type Pcs = TwoAdicFriPcs<KoalaBear, Radix2DitParallel<KoalaBear>, Mmcs, ExtensionMmcs<KoalaBear, Challenge, Mmcs>>;
type Challenger = SerializingChallenger32<KoalaBear, HashChallenger<u8, Keccak256Hash, 32>>;
type Config = StarkConfig<Pcs, Challenge, Challenger>;

fn prover(device: Device) -> Result<Prover<Config>> {
    let cap_height = 2;
    let mmcs = Mmcs::new(Blake3Rows, Blake3Nodes, cap_height);
    let fri = FriParameters::new_benchmark_high_arity(ExtensionMmcs::new(mmcs));
    let pcs = Pcs::new(Radix2DitParallel::default(), mmcs, fri.clone());
    let config = Config::new(pcs, Challenger::from_hasher(vec![], Keccak256Hash {}));
    Prover::new(device, config, &fri, cap_height)
}

/// An AIR of this many columns, each the square of the one before it.
struct Squares(usize);

impl<F> BaseAir<F> for Squares {
    fn width(&self) -> usize {
        self.0
    }
}

impl<AB: AirBuilder> Air<AB> for Squares {
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        for column in 1..self.0 {
            let before = main.current(column - 1).unwrap();
            builder.assert_eq(main.current(column).unwrap(), before * before);
        }
    }
}

impl Squares {
    fn trace(&self, rows: usize) -> RowMajorMatrix<KoalaBear> {
        let row = |row| std::iter::successors(Some(KoalaBear::from_usize(row)), |&x| Some(x * x)).take(self.0);
        RowMajorMatrix::new((0..rows).flat_map(row).collect(), self.0)
    }
}

fn main() -> Result<()> {
    let prover = prover(Device::from_env()?)?;
    let air = Squares(40);
    let proven = prove(&prover, &air, air.trace(1 << 12), &[])?;
    verify(prover.config(), &air, &proven.proof, &[]).expect("upstream accepts the proof");
    println!("{}", proven.report);
    Ok(())
}

#[cfg(test)]
mod tests {
    use rigel_gpu::testing::on_each_device;
    use rigel_kernels::commit::merkle::MerkleTree;
    use rigel_kernels::commit::rows::{self, RowsInParts};
    use rigel_kernels::{Columns, Matrix};
    use rigel_plonky3::DeviceField;

    use super::*;

    /// Lengths around blocks, chunks and complete subtrees.
    #[test]
    fn rows_equal_the_hash_of_their_bytes() {
        on_each_device(|stream| {
            for columns in [0, 1, 15, 16, 17, 255, 256, 257, 512, 513, 768, 1_100, 1_536] {
                let value = |row: usize, column: usize| KoalaBear::from_usize(7 + row * 1_000 + column);
                let values: Vec<_> =
                    (0..columns).flat_map(|column| [0, 1].map(|row| value(row, column))).collect();
                let uploaded = stream.upload(KoalaBear::as_device(&values)).unwrap();
                let matrix = Matrix::new(uploaded, 2, columns).unwrap();
                let digests =
                    rows::hash::<Blake3, _>(stream, &[(&matrix).into()]).unwrap().to_vec(stream).unwrap();
                for (row, digest) in digests.into_iter().enumerate() {
                    let expected = Blake3Rows.hash_iter((0..columns).map(|column| value(row, column)));
                    assert_eq!(digest, expected, "{columns} columns");
                }
                let mut parts = RowsInParts::<Blake3>::new(stream, 2).unwrap();
                if columns > 512 {
                    let part = |range: [usize; 2]| {
                        Columns::new(matrix.column_range(range[0], range[1]).unwrap(), 2).unwrap()
                    };
                    parts.absorb(stream, part([0, 256])).unwrap();
                    parts.absorb(stream, part([256, 512])).unwrap();
                    let tree = MerkleTree::from_parts(stream, parts, part([512, columns]), 0).unwrap();
                    let whole = MerkleTree::<Blake3>::new(stream, &[(&matrix).into()], 0).unwrap();
                    assert_eq!(tree.root(stream).unwrap(), whole.root(stream).unwrap());
                }
            }
        });
    }

    #[test]
    fn proofs_equal_upstreams() {
        on_each_device(|stream| {
            let prover = prover(stream.device().clone()).unwrap();
            let air = Squares(20);
            let trace = air.trace(16);
            let proof = prove(&prover, &air, &trace, &[]).unwrap().proof;
            let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
            let config = prover.config().clone();
            let expected = one_thread.install(|| p3_uni_stark::prove(&config, &air, trace, &[]).unwrap());
            assert!(postcard::to_allocvec(&proof).unwrap() == postcard::to_allocvec(&expected).unwrap());
            verify(&config, &air, &proof, &[]).unwrap();
        });
    }
}

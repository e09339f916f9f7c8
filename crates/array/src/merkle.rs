//! Merkle trees over the rows of an array, and openings of them.
//!
//! The layout is that of Plonky3's `MerkleTreeMmcs` over one matrix: leaf i is the hash of row i, a node is the
//! compression of its two children, and an opening has the siblings from the leaf up to the cap.

use std::str::FromStr;

use rigel_codegen::map::Type;
use rigel_gpu::bytes_of;
use rigel_kernels::Columns;
use rigel_kernels::commit::merkle::MerkleTree as Tree;
use rigel_kernels::field::{BabyBear, Field, Goldilocks, KoalaBear, Mersenne31};
use rigel_kernels::hash::{
    BabyBearPoseidon2Width16, Blake2s, GoldilocksPoseidon2Width8, Keccak256, KeccakSponge,
    KoalaBearPoseidon2Width16, RowHash,
};

use crate::array::Array;
use crate::cpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::evaluate::{device_memory, host_memory};
use crate::layout::{Index, text};
use crate::matrix::lengths;
use crate::scalar::name;

/// A digest of any of the hashes, as it lies in memory.
pub type Digest32 = [u8; 32];

/// The hash of a Merkle tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hash {
    /// Keccak-f as Plonky3's padding-free sponge; any field.
    Keccak,
    /// Keccak-256 of the elements' bytes, Plonky3's `Keccak256Hash`; any field.
    Keccak256,
    /// Poseidon2 with Plonky3's default constants, of width 16 (8 for Goldilocks); BabyBear, KoalaBear, Goldilocks.
    Poseidon2,
    /// Blake2s as in Stwo's Merkle trees; fields of 31 bits.
    Blake2s,
}

impl Hash {
    const ALL: [(&str, Self); 4] = [
        ("keccak", Self::Keccak),
        ("keccak256", Self::Keccak256),
        ("poseidon2", Self::Poseidon2),
        ("blake2s", Self::Blake2s),
    ];

    /// The hash's name, from which it is parsed.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|&(_, hash)| hash == self).map_or("", |(name, _)| name)
    }

    /// Whether it takes rows of this type: of a field, or of an extension, whose rows are rows of coefficients.
    pub fn takes(self, of: Type) -> bool {
        of.is_field()
            && match self {
                Self::Keccak | Self::Keccak256 => true,
                Self::Poseidon2 => of.base() != Type::Mersenne31,
                Self::Blake2s => of.base() != Type::Goldilocks,
            }
    }

    fn must_take(self, operation: &str, of: Type) -> Result<()> {
        if !of.is_field() {
            return Err(Error::of_type(format!("{operation} needs field elements, not {}", name(of))));
        }
        if !self.takes(of) {
            let others = Self::ALL.iter().filter(|(_, hash)| hash.takes(of)).map(|&(name, _)| name);
            return Err(Error::of_type(format!(
                "{operation}: {} does not take rows of {}; use {}",
                self.name(),
                name(of),
                others.collect::<Vec<_>>().join(" or ")
            )));
        }
        Ok(())
    }
}

impl FromStr for Hash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|&(name, _)| name == text).map(|(_, hash)| hash).ok_or_else(|| {
            let known = Self::ALL.map(|(name, _)| name);
            Error::of_type(format!("unknown hash {text:?}; supported hashes: {}", known.join(", ")))
        })
    }
}

/// A row of a committed array with what proves it.
#[derive(Clone)]
pub struct Opening {
    /// The index of the row.
    pub index: usize,
    /// The row, on the CPU: the array at that first index.
    pub row: Array,
    /// The siblings from the leaf up to, but not including, the cap.
    pub path: Vec<Digest32>,
}

/// A Merkle tree over the rows of an array: all elements with one first index, in row-major order, coefficient by
/// coefficient. It holds a copy of the rows and all digests, on the array's device.
///
/// The cap of height h consists of the 2^h digests of the layer that far below the root, as in Plonky3's
/// `MerkleTreeMmcs`; that of height 0 is the root. Commitments and openings equal upstream's; for Blake2s, commitments
/// equal those of Stwo's tree over columns.
///
/// ```
/// use rigel_array::{Array, Device, Hash, MerkleTree, Type};
///
/// let matrix = Array::arange(0, 32, 1, &Device::Cpu)?.reshape(&[8, 4])?.astype(Type::KoalaBear)?;
/// let tree = MerkleTree::new(&matrix, Hash::Poseidon2, 0)?;
/// for opening in tree.open(&[2, 5])? {
///     assert_eq!(opening.path.len(), 3);
///     assert!(tree.hash().verify(tree.cap(), Type::KoalaBear, &[8, 4], &opening)?);
/// }
/// # Ok::<(), rigel_array::Error>(())
/// ```
pub struct MerkleTree {
    hash: Hash,
    /// The type and shape of the array.
    dtype: Type,
    shape: Vec<usize>,
    /// The coefficients of the array's elements, one row of them for each leaf.
    matrix: Array,
    /// Layer after layer from the leaves to the root; four words each.
    digests: Array,
    cap: Vec<Digest32>,
}

impl MerkleTree {
    /// The tree over the rows of an array of field elements. The number of rows must be a power of two. Waits for the
    /// device.
    pub fn new(array: &Array, hash: Hash, cap_height: u32) -> Result<Self> {
        let matrix = array.rows_to_commit("MerkleTree", hash)?;
        let height = matrix.shape()[0];
        if cap_height > height.ilog2() {
            return Err(Error::shape(format!(
                "MerkleTree: a cap of height {cap_height} for a tree of {height} rows; it can be at most {}",
                height.ilog2()
            )));
        }
        // A copy, so that writing to the array does not change what openings show; in the order that the hash reads.
        let matrix = match array.device() {
            Device::Cpu => matrix.copy()?,
            Device::Gpu(_) => matrix.transpose().copy()?.transpose(),
        };
        let digests = digests(&matrix, hash)?;
        let mut tree =
            Self { hash, dtype: array.dtype, shape: array.shape().to_vec(), matrix, digests, cap: Vec::new() };
        let end = tree.start(height.ilog2() - cap_height);
        tree.cap = tree.gather((end..end + (1 << cap_height)).collect())?;
        Ok(tree)
    }

    /// The hash of the tree's rows and nodes.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The number of rows.
    pub fn height(&self) -> usize {
        self.shape[0]
    }

    /// The shape of the array, whose first length is the number of rows.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of the array.
    pub fn dtype(&self) -> Type {
        self.dtype
    }

    /// The device that holds it.
    pub fn device(&self) -> Device {
        self.matrix.device()
    }

    /// The commitment: the digests of the layer `cap_height` below the root.
    pub fn cap(&self) -> &[Digest32] {
        &self.cap
    }

    /// The root. Waits for the device.
    pub fn root(&self) -> Result<Digest32> {
        Ok(self.gather(vec![self.start(self.height().ilog2())])?[0])
    }

    /// The rows at these indices with their paths. Waits for the device; all digests come in one copy, as do all rows.
    pub fn open(&self, indices: &[usize]) -> Result<Vec<Opening>> {
        let height = self.height();
        if let Some(index) = indices.iter().find(|&&index| index >= height) {
            return Err(Error::index(format!("open: row {index} of a tree of {height} rows")));
        }
        if indices.is_empty() {
            return Ok(Vec::new());
        }
        let layers = (height / self.cap.len()).ilog2();
        let path = |&index: &usize| (0..layers).map(move |layer| self.start(layer) + ((index >> layer) ^ 1));
        let siblings = self.gather(indices.iter().flat_map(path).collect())?;

        let places: Vec<i64> = indices.iter().map(|&index| index as i64).collect();
        let places = Array::from_slice(&places, &[indices.len()], &self.device())?;
        let rows = self.matrix.take(&places, 0)?.to(&Device::Cpu)?;
        let shape = [&[indices.len()], &self.shape[1..], &[self.dtype.degree()]].concat();
        let rows = rows.reshape(&lengths(&shape))?.from_coefficients(self.dtype)?;
        let opened = indices.iter().enumerate().map(|(i, &index)| {
            let path = siblings[i * layers as usize..(i + 1) * layers as usize].to_vec();
            Ok(Opening { index, row: rows.index(&[Index::At(i as isize)])?, path })
        });
        opened.collect()
    }

    /// The place of a layer's first digest.
    fn start(&self, layer: u32) -> usize {
        2 * (self.height() - (self.height() >> layer))
    }

    /// The digests at these places. Waits for the device.
    fn gather(&self, places: Vec<usize>) -> Result<Vec<Digest32>> {
        let words: Vec<i64> =
            places.iter().flat_map(|place| (0..4).map(move |w| (4 * place + w) as i64)).collect();
        let words = Array::from_slice(&words, &[words.len()], &self.device())?;
        let words = self.digests.take_places(&words)?;
        let mut digests = vec![Digest32::default(); places.len()];
        words.read_into(digests.as_flattened_mut())?;
        Ok(digests.into_iter().map(|digest| canonical(self.hash, self.matrix.dtype, digest)).collect())
    }
}

impl Hash {
    /// Whether a row belongs to the tree with this cap over an array of this type and shape, as in Plonky3's
    /// `verify_batch`, which gets the dimensions. It is computed on the CPU.
    ///
    /// The cap, the type and the shape are what the verifier knows; the opening may come from anybody. A row of another
    /// type or shape is refused, because the hashes do not bind them: the sponges give a row and the same row with
    /// zeros after it one digest. Without the number of rows, a node could pass for a row of a smaller tree.
    ///
    /// # Errors
    /// If the hash does not take rows of that type, or the cap and the shape are not those of a tree. A wrong opening
    /// is no error.
    pub fn verify(self, cap: &[Digest32], dtype: Type, shape: &[usize], opening: &Opening) -> Result<bool> {
        let Opening { index, row, path } = opening;
        self.must_take("verify", dtype)?;
        let height = shape.first().copied().unwrap_or(0);
        if !cap.len().is_power_of_two() || !height.is_power_of_two() || cap.len() > height {
            return Err(Error::shape(format!(
                "verify: {} digests in the cap of a tree of {height} rows; both must be powers of two, and the cap \
                 the smaller",
                cap.len()
            )));
        }
        let base = dtype.base();
        let is_row = row.dtype == dtype && row.shape() == &shape[1..] && !row.is_empty();
        let is_place = *index < height && path.len() == (height / cap.len()).ilog2() as usize;
        if !is_row || !is_place || !path.iter().chain(cap).all(|digest| is_digest(self, base, digest)) {
            return Ok(false);
        }
        let row = row.coefficients()?.to(&Device::Cpu)?.contiguous()?;
        let mut bytes = vec![0; row.bytes()];
        row.read_into(&mut bytes)?;
        let mut digest = cpu::hash_row(self, base, &bytes);
        for (layer, &sibling) in path.iter().enumerate() {
            let is_right = (index >> layer) & 1 == 1;
            digest = cpu::compress(self, base, if is_right { [sibling, digest] } else { [digest, sibling] });
        }
        let expected = cap[index >> path.len()];
        Ok(canonical(self, base, digest) == canonical(self, base, expected))
    }
}

impl Array {
    /// The root of the [`MerkleTree`] over the rows.
    pub fn merkle_root(&self, hash: Hash) -> Result<[u8; 32]> {
        let matrix = self.rows_to_commit("merkle_root", hash)?;
        let digests = digests(&matrix, hash)?;
        let mut root = Digest32::default();
        digests.index(&[Index::At(-1)])?.read_into(&mut root)?;
        Ok(canonical(hash, matrix.dtype, root))
    }

    /// The coefficients of an array that is to be committed, as a matrix.
    fn rows_to_commit(&self, operation: &str, hash: Hash) -> Result<Self> {
        hash.must_take(operation, self.dtype)?;
        let rows = self.shape().first().copied().unwrap_or(0);
        if !rows.is_power_of_two() || self.is_empty() {
            return Err(Error::shape(format!(
                "{operation}: the array must not be empty, and its first length a power of two; the shape is {}",
                text(self.shape())
            )));
        }
        self.coefficients()?.reshape(&[rows as isize, -1])
    }
}

/// All digests of the tree over the rows of a matrix over a prime field, four words each, layer after layer from the
/// leaves to the root.
fn digests(matrix: &Array, hash: Hash) -> Result<Array> {
    match (matrix.device(), matrix.dtype, hash) {
        (Device::Cpu, base, _) => {
            let whole = matrix.contiguous()?;
            let (columns, range) = (whole.shape()[1], whole.byte_range());
            let all = host_memory(&whole).read(|bytes| cpu::merkle_digests(hash, base, columns, &bytes[range]));
            Array::from_bytes(all.as_flattened(), &[all.len(), 4], Type::U64, &Device::Cpu)
        }
        (_, Type::Mersenne31, Hash::Keccak) => digests_on::<KeccakSponge, Mersenne31>(matrix),
        (_, Type::BabyBear, Hash::Keccak) => digests_on::<KeccakSponge, BabyBear>(matrix),
        (_, Type::KoalaBear, Hash::Keccak) => digests_on::<KeccakSponge, KoalaBear>(matrix),
        (_, _, Hash::Keccak) => digests_on::<KeccakSponge, Goldilocks>(matrix),
        (_, Type::Mersenne31, Hash::Keccak256) => digests_on::<Keccak256, Mersenne31>(matrix),
        (_, Type::BabyBear, Hash::Keccak256) => digests_on::<Keccak256, BabyBear>(matrix),
        (_, Type::KoalaBear, Hash::Keccak256) => digests_on::<Keccak256, KoalaBear>(matrix),
        (_, _, Hash::Keccak256) => digests_on::<Keccak256, Goldilocks>(matrix),
        (_, Type::BabyBear, Hash::Poseidon2) => digests_on::<BabyBearPoseidon2Width16, BabyBear>(matrix),
        (_, Type::KoalaBear, Hash::Poseidon2) => digests_on::<KoalaBearPoseidon2Width16, KoalaBear>(matrix),
        (_, _, Hash::Poseidon2) => digests_on::<GoldilocksPoseidon2Width8, Goldilocks>(matrix),
        (_, Type::Mersenne31, Hash::Blake2s) => digests_on::<Blake2s, Mersenne31>(matrix),
        (_, Type::BabyBear, Hash::Blake2s) => digests_on::<Blake2s, BabyBear>(matrix),
        (_, _, Hash::Blake2s) => digests_on::<Blake2s, KoalaBear>(matrix),
    }
}

fn digests_on<H: RowHash<F>, F: Field>(matrix: &Array) -> Result<Array> {
    let Device::Gpu(device) = matrix.device() else { unreachable!("the CPU has its own") };
    let stream = device.compute()?;
    // The kernels read column-major.
    let columns = matrix.transpose().contiguous()?;
    let values = device_memory(&columns).view().range(columns.byte_range())?.cast::<F>()?;
    let tree = Tree::<H>::new(&stream, &[Columns::new(values, matrix.shape()[0])?], 0)?;
    let digests = tree.into_digests();
    let count = digests.len();
    Array::of_buffer(digests, &[count, 4], Type::U64)
}

/// Digests over Goldilocks with each word in `0..p`: kernels and upstream may leave others.
fn canonical(hash: Hash, base: Type, digest: Digest32) -> Digest32 {
    if (hash, base) != (Hash::Poseidon2, Type::Goldilocks) {
        return digest;
    }
    let mut words: [u64; 4] =
        std::array::from_fn(|w| u64::from_le_bytes(std::array::from_fn(|byte| digest[8 * w + byte])));
    words.iter_mut().for_each(|word| *word %= Goldilocks::ORDER);
    bytes_of(&words).try_into().expect("four words have 32 bytes")
}

/// Whether the words of a digest of field elements are such.
fn is_digest(hash: Hash, base: Type, digest: &Digest32) -> bool {
    let order = base.modulus().unwrap_or(0);
    hash != Hash::Poseidon2
        || base.bytes() == 8
        || digest.chunks(4).all(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap_or_default())) < order)
}

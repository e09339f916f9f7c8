//! Merkle commitments to the rows of an array.

use std::str::FromStr;

use rigel_codegen::map::Type;
use rigel_gpu::bytes_of;
use rigel_kernels::Columns;
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::field::{BabyBear, Field, Goldilocks, KoalaBear, Mersenne31};
use rigel_kernels::hash::{
    BabyBearPoseidon2Width16, Blake2s, GoldilocksPoseidon2Width8, KeccakSponge, KoalaBearPoseidon2Width16, RowHash,
};

use crate::array::Array;
use crate::cpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::evaluate::{device_memory, host_memory};
use crate::layout::text;
use crate::scalar::name;

/// The hash of a Merkle tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// Keccak-f as Plonky3's padding-free sponge; any field.
    Keccak,
    /// Poseidon2 with Plonky3's default constants, of width 16 (8 for Goldilocks); BabyBear, KoalaBear, Goldilocks.
    Poseidon2,
    /// Blake2s as in Stwo's Merkle trees; fields of 31 bits.
    Blake2s,
}

impl FromStr for Hash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "keccak" => Ok(Self::Keccak),
            "poseidon2" => Ok(Self::Poseidon2),
            "blake2s" => Ok(Self::Blake2s),
            _ => {
                Err(Error::of_type(format!("unknown hash {text:?}; supported hashes: keccak, poseidon2, blake2s")))
            }
        }
    }
}

impl Array {
    /// The root of the Merkle tree whose leaf i is the hash of row i: all elements with first index i, in
    /// row-major order, coefficient by coefficient. The number of rows must be a power of two.
    ///
    /// It equals the commitment of Plonky3's `MerkleTreeMmcs` to that matrix; for Blake2s, that of Stwo's tree
    /// over columns.
    pub fn merkle_root(&self, hash: Hash) -> Result<[u8; 32]> {
        if !self.dtype.is_field() {
            return Err(Error::of_type(format!("merkle_root needs field elements, not {}", name(self.dtype))));
        }
        let base = self.dtype.base();
        let fits = match hash {
            Hash::Keccak => true,
            Hash::Poseidon2 => base != Type::Mersenne31,
            Hash::Blake2s => base != Type::Goldilocks,
        };
        if !fits {
            return Err(Error::of_type(format!("merkle_root: {hash:?} does not take rows of {}", name(base))));
        }
        let rows = self.shape().first().copied().unwrap_or(0);
        if !rows.is_power_of_two() || self.is_empty() {
            return Err(Error::shape(format!(
                "merkle_root: the array must not be empty, and its first length a power of two; the shape is {}",
                text(self.shape())
            )));
        }
        let matrix = self.coefficients()?.reshape(&[rows as isize, -1])?;
        match (self.device(), base, hash) {
            (Device::Cpu, ..) => {
                let whole = matrix.contiguous()?;
                let range = whole.byte_range();
                host_memory(&whole)
                    .read(|bytes| cpu::merkle_root(hash, base, rows, whole.shape()[1], &bytes[range]))
            }
            (_, Type::Mersenne31, Hash::Keccak) => root_on::<KeccakSponge, Mersenne31>(&matrix),
            (_, Type::BabyBear, Hash::Keccak) => root_on::<KeccakSponge, BabyBear>(&matrix),
            (_, Type::KoalaBear, Hash::Keccak) => root_on::<KeccakSponge, KoalaBear>(&matrix),
            (_, _, Hash::Keccak) => root_on::<KeccakSponge, Goldilocks>(&matrix),
            (_, Type::BabyBear, Hash::Poseidon2) => root_on::<BabyBearPoseidon2Width16, BabyBear>(&matrix),
            (_, Type::KoalaBear, Hash::Poseidon2) => root_on::<KoalaBearPoseidon2Width16, KoalaBear>(&matrix),
            (_, _, Hash::Poseidon2) => root_on::<GoldilocksPoseidon2Width8, Goldilocks>(&matrix),
            (_, Type::Mersenne31, Hash::Blake2s) => root_on::<Blake2s, Mersenne31>(&matrix),
            (_, Type::BabyBear, Hash::Blake2s) => root_on::<Blake2s, BabyBear>(&matrix),
            (_, _, Hash::Blake2s) => root_on::<Blake2s, KoalaBear>(&matrix),
        }
    }
}

fn root_on<H: RowHash<F>, F: Field>(matrix: &Array) -> Result<[u8; 32]> {
    let Device::Gpu(device) = matrix.device() else { unreachable!("the CPU has its own") };
    let stream = device.compute()?;
    // The kernels read column-major.
    let columns = matrix.transpose().contiguous()?;
    let values = device_memory(&columns).view().range(columns.byte_range())?.cast::<F>()?;
    let tree = MerkleTree::<H>::new(&stream, &[Columns::new(values, matrix.shape()[0])?], 0)?;
    let root = tree.root(&stream)?;
    Ok(bytes_of(&[root]).try_into().expect("digests have 32 bytes"))
}

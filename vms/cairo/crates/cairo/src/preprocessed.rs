//! The preprocessed columns, kept on disk.
//!
//! They are the same for every program, and some are expensive: the points of Pedersen's hash take half a minute of
//! one core. A file per variant in Rigel's cache folder holds all columns. A file that is damaged, or of other
//! columns, is made again. Whoever can write to the cache can't change what is proven or verified: the hash of the
//! columns is part of this crate ([`fingerprint`]).
//!
//! The format, all numbers little-endian: [`MAGIC`]; the hash of the header; the header, which is the number of
//! columns and, for each, the logarithm of its length and the hash of its values; the values. Hashes are SHA-256.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::iter::{IntoParallelRefIterator, IntoParallelRefMutIterator, ParallelIterator};
use rigel_gpu::Cache;
use sha2::{Digest, Sha256};
use stwo::core::fields::m31::BaseField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::Column;
use stwo::prover::backend::simd::column::BaseColumn;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::{PreProcessedTrace, PreProcessedTraceVariant};
use stwo_cairo_prover::witness::preprocessed_trace::gen_trace;

use crate::columns::HostColumn;
use crate::error::{Error, Result};
use crate::parameters::variant_name;

/// The version of upstream's crates, whose columns these are.
const UPSTREAM: &str = "1.3.0";
const MAGIC: &[u8; 16] = b"rigel cairo pre1";

type Hash = [u8; 32];

/// The hash of the header of a variant's file, and with it of all columns: their number, lengths and values.
fn fingerprint(variant: PreProcessedTraceVariant) -> &'static str {
    match variant {
        PreProcessedTraceVariant::Canonical => "f5faaae385c6ff23cac9a0a024e76476be16ab90228f680c33f4f3215a2801c9",
        PreProcessedTraceVariant::CanonicalWithoutPedersen => {
            "1683ac0a4f1286209fce82d923a3908a51eefdd1fcbcdbfe6dc86a4af3c594c2"
        }
        PreProcessedTraceVariant::CanonicalSmall => {
            "f0f627b6ad5b9eeea63d4ef0ad18f14bb82f82248d37b0d28d0c3d9d860b52d8"
        }
    }
}

/// The columns of a variant: from disk, or made and written there.
///
/// # Errors
/// Columns that are not those of [`fingerprint`], because upstream has changed them.
pub(crate) fn columns(variant: PreProcessedTraceVariant) -> Result<(Arc<PreProcessedTrace>, Vec<HostColumn>)> {
    columns_in(Cache::default_folder().as_deref(), variant)
}

/// Finds or makes the columns as [`columns`] does, with the cache in this folder, if there is one.
fn columns_in(
    cache: Option<&Path>,
    variant: PreProcessedTraceVariant,
) -> Result<(Arc<PreProcessedTrace>, Vec<HostColumn>)> {
    let trace = Arc::new(variant.to_preprocessed_trace());
    let path = cache.map(|folder| file(folder, variant));
    if let Some(path) = &path
        && let Ok(columns) = read(path, &trace.log_sizes(), fingerprint(variant))
    {
        return Ok((trace, columns));
    }
    let columns = made(&trace);
    let header = header(&columns);
    let found = hex(&hash(&header));
    if found != fingerprint(variant) {
        return Err(Error::Preprocessed { variant, found, expected: fingerprint(variant) });
    }
    // Without the file the columns are made again next time, which is slow and not wrong.
    if let Some(path) = &path
        && let Err(error) = write(path, &header, &columns).and_then(|()| prune(path))
    {
        tracing::warn!("the preprocessed columns could not be kept in {}: {error}", path.display());
    }
    Ok((trace, columns))
}

/// The columns as upstream makes them. Its vectors may hold the modulus for zero, depending on the instructions of the
/// CPU that it was built for; here zero is zero.
fn made(trace: &Arc<PreProcessedTrace>) -> Vec<HostColumn> {
    let mut columns = gen_trace(trace.clone());
    columns.par_iter_mut().for_each(|column| {
        for value in column.values.as_mut_slice() {
            *value = BaseField::reduce(u64::from(value.0));
        }
    });
    columns
}

/// Removes files of other versions of upstream's crates.
fn prune(path: &Path) -> io::Result<()> {
    let folder = path.parent().expect("the file is in a folder");
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(".columns") && !text.ends_with(&format!("-{UPSTREAM}.columns")) {
            fs::remove_file(folder.join(&name))?;
        }
    }
    Ok(())
}

/// The file of a variant's columns.
fn file(cache: &Path, variant: PreProcessedTraceVariant) -> PathBuf {
    cache.join("cairo").join(format!("{}-{UPSTREAM}.columns", variant_name(variant)))
}

/// Reads the columns if the file is intact and holds columns of these sizes and with this hash.
fn read(path: &Path, log_sizes: &[u32], fingerprint: &str) -> io::Result<Vec<HostColumn>> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "damaged");
    let mut file = File::open(path)?;
    let mut start = [0; 48];
    file.read_exact(&mut start)?;
    let mut header = vec![0; 4 + log_sizes.len() * 36];
    file.read_exact(&mut header)?;
    let found = hash(&header);
    if start[..16] != *MAGIC || start[16..] != found || hex(&found) != fingerprint {
        return Err(damaged());
    }
    let mut columns = Vec::with_capacity(log_sizes.len());
    for (entry, &log_size) in header[4..].chunks_exact(36).zip(log_sizes) {
        if entry[..4] != log_size.to_le_bytes() {
            return Err(damaged());
        }
        let mut values = BaseColumn::zeros(1 << log_size);
        file.read_exact(bytemuck::cast_slice_mut(values.as_mut_slice()))?;
        columns.push((&entry[4..], HostColumn::new(CanonicCoset::new(log_size).circle_domain(), values)));
    }
    let intact = columns.par_iter().all(|(expected, column)| hash(bytes(column)) == **expected);
    let ends = file.read(&mut [0])? == 0;
    if !(intact && ends) {
        return Err(damaged());
    }
    Ok(columns.into_iter().map(|(_, column)| column).collect())
}

/// The header of a file with these columns.
fn header(columns: &[HostColumn]) -> Vec<u8> {
    let mut header = count(columns.len()).to_vec();
    let hashes: Vec<Hash> = columns.par_iter().map(|column| hash(bytes(column))).collect();
    for (column, hash) in columns.iter().zip(hashes) {
        header.extend(column.domain.log_size().to_le_bytes());
        header.extend(hash);
    }
    header
}

/// Writes the columns under a temporary name and renames the file, so that nobody reads half of it.
fn write(path: &Path, header: &[u8], columns: &[HostColumn]) -> io::Result<()> {
    let folder = path.parent().expect("the file is in a folder");
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    {
        let mut out = BufWriter::new(file.as_file_mut());
        out.write_all(MAGIC)?;
        out.write_all(&hash(header))?;
        out.write_all(header)?;
        columns.iter().try_for_each(|column| out.write_all(bytes(column)))?;
        out.flush()?;
    }
    file.persist(path)?;
    Ok(())
}

fn count(columns: usize) -> [u8; 4] {
    (columns as u32).to_le_bytes()
}

fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(column: &HostColumn) -> &[u8] {
    let values: &[BaseField] = column.values.as_slice();
    bytemuck::cast_slice(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_dependency() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("stwo-cairo-common = {{ version = \"={UPSTREAM}\"")));
    }

    #[test]
    fn columns_come_back_and_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.columns");
        let column = |log_size: u32, from: u32| {
            let values = (0..1 << log_size).map(|i| BaseField::from_u32_unchecked(from + i)).collect();
            HostColumn::new(CanonicCoset::new(log_size).circle_domain(), values)
        };
        let columns = [column(4, 7), column(5, 1000), column(5, 1 << 30)];
        let header = header(&columns);
        write(&path, &header, &columns).unwrap();
        let fingerprint = hex(&hash(&header));
        let read = |log_sizes: &[u32]| super::read(&path, log_sizes, &fingerprint);
        let again = read(&[4, 5, 5]).unwrap();
        for (a, b) in columns.iter().zip(&again) {
            assert_eq!(a.values.as_slice(), b.values.as_slice());
        }
        assert!(read(&[4, 5]).is_err() && read(&[4, 5, 6]).is_err());

        // A file of other columns that is intact in itself.
        let forged = [column(4, 8), column(5, 1000), column(5, 1 << 30)];
        write(&path, &super::header(&forged), &forged).unwrap();
        assert!(read(&[4, 5, 5]).is_err());
        write(&path, &header, &columns).unwrap();

        let whole = fs::read(&path).unwrap();
        for at in [0, 20, 50, 60, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert!(read(&[4, 5, 5]).is_err(), "byte {at}");
        }
        for len in [whole.len() - 1, 47, 0] {
            fs::write(&path, &whole[..len]).unwrap();
            assert!(read(&[4, 5, 5]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_damaged_file_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let variant = PreProcessedTraceVariant::CanonicalSmall;
        let path = file(folder.path(), variant);
        let old = path.with_file_name("canonical_small-1.2.0.columns");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&old, "of an older version").unwrap();
        let (_, made) = columns_in(Some(folder.path()), variant).unwrap();
        assert!(!old.exists());
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let (_, again) = columns_in(Some(folder.path()), variant).unwrap();
        assert!(fs::read(&path).unwrap() == whole);
        assert!(made.iter().zip(&again).all(|(a, b)| a.values.as_slice() == b.values.as_slice()));
    }

    #[test]
    #[ignore = "takes minutes and 10 GB; CanonicalSmall is checked wherever it is made"]
    fn all_columns_have_their_fingerprints() {
        use PreProcessedTraceVariant::{Canonical, CanonicalSmall, CanonicalWithoutPedersen};
        let variants = [CanonicalSmall, CanonicalWithoutPedersen, Canonical];
        let found = variants.map(|variant| {
            let columns = made(&Arc::new(variant.to_preprocessed_trace()));
            hex(&hash(&header(&columns)))
        });
        assert_eq!(found.each_ref().map(String::as_str), variants.map(fingerprint));
    }
}

//! The preprocessed columns, kept on disk.
//!
//! They are the same for every program, and some are expensive: the points of Pedersen's hash take half a minute of
//! one core. A file per variant in Rigel's cache folder holds all columns. A file that is damaged, or of other
//! columns, is made again.
//!
//! The format, all numbers little-endian: [`MAGIC`]; the hash of the header; the header, which is the number of
//! columns and, for each, the logarithm of its length and the hash of its values; the values. Hashes are SHA-256.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rigel_gpu::Cache;
use sha2::{Digest, Sha256};
use stwo::core::fields::m31::BaseField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::Column;
use stwo::prover::backend::simd::column::BaseColumn;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::{PreProcessedTrace, PreProcessedTraceVariant};
use stwo_cairo_prover::witness::preprocessed_trace::gen_trace;

use crate::columns::HostColumn;
use crate::parameters::variant_name;

/// The version of upstream's crates, whose columns these are.
const UPSTREAM: &str = "1.3.0";
const MAGIC: &[u8; 16] = b"rigel cairo pre1";

type Hash = [u8; 32];

/// The columns of a variant: from disk, or made and written there.
pub(crate) fn columns(variant: PreProcessedTraceVariant) -> (Arc<PreProcessedTrace>, Vec<HostColumn>) {
    columns_in(Cache::default_folder().as_deref(), variant)
}

/// As [`columns`], with the cache in this folder, if there is one.
pub(crate) fn columns_in(
    cache: Option<&Path>,
    variant: PreProcessedTraceVariant,
) -> (Arc<PreProcessedTrace>, Vec<HostColumn>) {
    let trace = Arc::new(variant.to_preprocessed_trace());
    let Some(path) = cache.map(|folder| file(folder, variant)) else {
        return (trace.clone(), gen_trace(trace));
    };
    if let Ok(columns) = read(&path, &trace.log_sizes()) {
        return (trace, columns);
    }
    let columns = gen_trace(trace.clone());
    // Without the file the columns are made again next time, which is slow and not wrong.
    if let Err(error) = write(&path, &columns) {
        tracing::warn!("the preprocessed columns could not be kept in {}: {error}", path.display());
    }
    (trace, columns)
}

/// The file of a variant's columns.
fn file(cache: &Path, variant: PreProcessedTraceVariant) -> PathBuf {
    cache.join("cairo").join(format!("{}-{UPSTREAM}.columns", variant_name(variant)))
}

/// Reads the columns if the file is intact and holds columns of these sizes.
fn read(path: &Path, log_sizes: &[u32]) -> io::Result<Vec<HostColumn>> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "damaged");
    let mut file = File::open(path)?;
    let mut start = [0; 48];
    file.read_exact(&mut start)?;
    let mut header = vec![0; 4 + log_sizes.len() * 36];
    file.read_exact(&mut header)?;
    if start[..16] != *MAGIC || start[16..] != hash(&header) || header[..4] != count(log_sizes.len()) {
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

/// Writes the columns under a temporary name and renames the file, so that nobody reads half of it.
fn write(path: &Path, columns: &[HostColumn]) -> io::Result<()> {
    let folder = path.parent().expect("the file is in a folder");
    fs::create_dir_all(folder)?;
    let mut header = count(columns.len()).to_vec();
    let hashes: Vec<Hash> = columns.par_iter().map(|column| hash(bytes(column))).collect();
    for (column, hash) in columns.iter().zip(hashes) {
        header.extend(column.domain.log_size().to_le_bytes());
        header.extend(hash);
    }
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    {
        let mut out = BufWriter::new(file.as_file_mut());
        out.write_all(MAGIC)?;
        out.write_all(&hash(&header))?;
        out.write_all(&header)?;
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
        write(&path, &columns).unwrap();
        let again = read(&path, &[4, 5, 5]).unwrap();
        for (a, b) in columns.iter().zip(&again) {
            assert_eq!(a.values.as_slice(), b.values.as_slice());
        }
        assert!(read(&path, &[4, 5]).is_err() && read(&path, &[4, 5, 6]).is_err());

        let whole = fs::read(&path).unwrap();
        for at in [0, 20, 50, 60, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert!(read(&path, &[4, 5, 5]).is_err(), "byte {at}");
        }
        for len in [whole.len() - 1, 47, 0] {
            fs::write(&path, &whole[..len]).unwrap();
            assert!(read(&path, &[4, 5, 5]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_damaged_file_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let variant = PreProcessedTraceVariant::CanonicalSmall;
        let (_, made) = columns_in(Some(folder.path()), variant);
        let path = file(folder.path(), variant);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let (_, again) = columns_in(Some(folder.path()), variant);
        assert!(fs::read(&path).unwrap() == whole);
        assert!(made.iter().zip(&again).all(|(a, b)| a.values.as_slice() == b.values.as_slice()));
    }
}

//! Proof files, whole and altered.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::command::{code, rigel, stderr};

/// A separate folder for the files of a test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Proves with these command-line arguments, into a file.
    pub(crate) fn prove(&self, name: &str, words: &str, more: &[&str]) -> PathBuf {
        let path = self.path(name);
        let words: Vec<&str> = ["prove"].into_iter().chain(words.split(' ')).collect();
        let output = rigel(&[&words[..], more, &["-o", text(&path)]].concat(), &[]);
        assert_eq!(code(&output), Some(0), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("proving on"), "{}", stderr(&output));
        path
    }

    /// The result of `verify` on these bytes.
    pub(crate) fn verify(&self, bytes: &[u8]) -> Output {
        let path = self.path("file");
        std::fs::write(&path, bytes).unwrap();
        verify(&path)
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The result of `verify` on a file.
pub(crate) fn verify(path: &Path) -> Output {
    rigel(&["verify", text(path)], &[])
}

/// The output, as JSON.
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The file with a different header, and a matching checksum.
pub(crate) fn with_header(file: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let header_len = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
    let (header, proof) = file[24..file.len() - 32].split_at(header_len);
    let mut header: Value = serde_json::from_slice(header).expect("JSON");
    change(&mut header);
    assembled(file, &serde_json::to_vec(&header).unwrap(), proof)
}

/// The file with a different proof, and a matching checksum.
#[cfg(feature = "stwo")]
pub(crate) fn with_proof(file: &[u8], proof: &[u8]) -> Vec<u8> {
    let header_len = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
    assembled(file, &file[24..24 + header_len], proof)
}

fn assembled(file: &[u8], header: &[u8], proof: &[u8]) -> Vec<u8> {
    let mut out = file[..12].to_vec();
    out.extend((header.len() as u32).to_le_bytes());
    out.extend((proof.len() as u64).to_le_bytes());
    out.extend(header);
    out.extend(proof);
    let checksum = Sha256::digest(&out);
    out.extend(checksum);
    out
}

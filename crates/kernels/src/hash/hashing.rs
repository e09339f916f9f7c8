//! Hashes whose constants are given at run time.

use std::fmt::{self, Debug};
use std::sync::Arc;

use rigel_gpu::{Argument, ArgumentList, Error, Plain, Result, Stream, bytes_of};

use super::Hash;
use crate::code::Instances;

/// The stream on which to hash, and the hash itself if it has constants of its own.
///
/// Operations that hash take `impl Into<Hashing<H>>`: a `&Stream` suffices for a hash without run-time constants,
/// `(&stream, &hash)` gives the constants too.
pub struct Hashing<'a, H> {
    stream: &'a Stream,
    hash: Option<&'a H>,
}

impl<'a, H: Hash> Hashing<'a, H> {
    /// A stream, and the hash if it has constants.
    pub fn new(stream: &'a Stream, hash: Option<&'a H>) -> Self {
        Self { stream, hash }
    }

    /// The stream.
    pub fn stream(&self) -> &'a Stream {
        self.stream
    }

    pub(crate) fn hash(&self) -> Option<&'a H> {
        self.hash
    }

    /// The constants that the kernels that hash rows take.
    pub(crate) fn row_constants(&self) -> Result<Constants> {
        match (self.hash, H::ROW_CONSTANTS) {
            (Some(hash), _) => Ok(hash.row_constants()),
            (None, None) => Ok(Constants::NONE),
            (None, Some(_)) => Err(missing(H::ROWS)),
        }
    }

    /// The constants that the kernels that compress nodes take.
    pub(crate) fn node_constants(&self) -> Result<Constants> {
        match (self.hash, H::NODE_CONSTANTS) {
            (Some(hash), _) => Ok(hash.node_constants()),
            (None, None) => Ok(Constants::NONE),
            (None, Some(_)) => Err(missing(H::NODES)),
        }
    }
}

fn missing(hash: &str) -> Error {
    Error::shape("hash", format!("{hash} has constants of its own; pass a stream and the hash that holds them"))
}

impl<H> Clone for Hashing<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<H> Copy for Hashing<'_, H> {}

impl<H> Debug for Hashing<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl<'a, H: Hash> From<&'a Stream> for Hashing<'a, H> {
    fn from(stream: &'a Stream) -> Self {
        Self { stream, hash: None }
    }
}

impl<'a, H: Hash> From<(&'a Stream, &'a H)> for Hashing<'a, H> {
    fn from((stream, hash): (&'a Stream, &'a H)) -> Self {
        Self { stream, hash: Some(hash) }
    }
}

/// The bytes of a struct that kernels take as their last parameter, or none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Constants {
    /// `None` where the kernels have no such parameter.
    words: Option<Arc<[u64]>>,
    bytes: usize,
}

impl Constants {
    /// An empty set of constants.
    pub const NONE: Self = Self { words: None, bytes: 0 };

    /// A struct whose fields are these values, one after the other.
    pub fn of<T: Plain>(values: &[T]) -> Self {
        let bytes = bytes_of(values);
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        };
        Self { words: Some(bytes.chunks(8).map(word).collect()), bytes: bytes.len() }
    }

    /// The size of the struct.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Debug for Constants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Constants({} bytes)", self.bytes)
    }
}

impl Argument for Constants {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        if let Some(words) = &self.words {
            list.bytes(words, self.bytes);
        }
    }
}

/// A further template argument: the type of the constants, if there are any.
pub(crate) fn also(constants: Option<&str>) -> String {
    constants.map(|constants| format!(", {constants}")).unwrap_or_default()
}

/// Declares a hash's types before the text of kernels: includes their header, or inserts the text of another crate.
pub(crate) fn declare<H: Hash>(instances: Instances) -> Instances {
    match H::TEXT {
        Some(text) => instances.with_text(H::HEADER, text),
        None => instances.with_header(H::HEADER),
    }
}

//! Frames: what travels between a worker and whoever started it.
//!
//! ```text
//!  4 bytes  kind, four letters
//!  8 bytes  number of the job, little-endian as all numbers; 0 in a greeting
//!  8 bytes  length of the payload
//!           payload
//! 32 bytes  SHA-256 of everything before
//! ```
//!
//! | kind | direction | payload |
//! |---|---|---|
//! | `HELO` | from the worker, first | JSON: `protocol`, `name`, `pid`, `most_bytes`, `most_waiting`, `at_once` |
//! | `JOB.` | to the worker | the job's input |
//! | `STOP` | to the worker | nothing: the job is not wanted any more |
//! | `PROG` | from the worker | JSON: `fraction`, `phase`, and `waits` if the job waits for others |
//! | `DONE` | from the worker | 4 bytes: length of the report; the report, JSON; the result |
//! | `FAIL` | from the worker | JSON: `kind` (`error`, `panic`, `elsewhere`, `stopped`, `refused`), `message`, `report` |
//!
//! A job has one answer, `DONE` or `FAIL`. The length is checked against a limit before anything is allocated.
//! `at_once` is the number of jobs that the worker works on at the same time; a greeting without it means 1. Jobs begin
//! in the order in which they came.

use std::io::{self, ErrorKind, Read, Write};

use sha2::{Digest, Sha256};

const HEADER: usize = 20;
const HASH: usize = 32;

/// Bytes that are hashed and written in one go. The other side reads and hashes them while the next are hashed here.
const PIECE: usize = 128 << 10;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The worker's greeting.
    Hello,
    /// A job for the worker.
    Job,
    /// A job is not wanted any more.
    Stop,
    /// A job's progress.
    Progress,
    /// A job's report and result.
    Done,
    /// The reason why a job has no result.
    Failed,
}

const KINDS: [(Kind, [u8; 4]); 6] = [
    (Kind::Hello, *b"HELO"),
    (Kind::Job, *b"JOB."),
    (Kind::Stop, *b"STOP"),
    (Kind::Progress, *b"PROG"),
    (Kind::Done, *b"DONE"),
    (Kind::Failed, *b"FAIL"),
];

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The frame's kind.
    pub kind: Kind,
    /// The job that it is about.
    pub job: u64,
    /// The frame's contents.
    pub payload: Vec<u8>,
}

/// The reason why a frame can't be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream failed.
    #[error("reading a frame failed: {0}")]
    Stream(#[from] io::Error),
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame, after {found} of {expected} bytes")]
    Cut {
        /// The bytes of the part that was being read.
        expected: usize,
        /// The bytes that came.
        found: usize,
    },
    /// The first bytes are not those of a frame.
    #[error(
        "{0:?} is not a frame's kind; the other side does not speak this protocol, or printed into the stream"
    )]
    Kind(String),
    /// The frame is too long.
    #[error("a frame of {asked} bytes; at most {most} are accepted")]
    TooLong {
        /// The length that the frame states.
        asked: u64,
        /// The limit.
        most: u64,
    },
    /// The hash is not that of the contents.
    #[error("a frame was altered on its way: its hash does not match")]
    Altered,
}

/// Writes a frame whose payload is made of parts, and flushes.
pub fn write(to: &mut impl Write, kind: Kind, job: u64, parts: &[&[u8]]) -> io::Result<()> {
    let mut header = [0; HEADER];
    let (_, letters) = KINDS.iter().find(|(known, _)| *known == kind).expect("every kind has its letters");
    header[..4].copy_from_slice(letters);
    header[4..12].copy_from_slice(&job.to_le_bytes());
    let length: usize = parts.iter().map(|part| part.len()).sum();
    header[12..].copy_from_slice(&(length as u64).to_le_bytes());
    let mut hash = Sha256::new();
    for piece in [&header[..]].iter().chain(parts).flat_map(|part| part.chunks(PIECE)) {
        hash.update(piece);
        to.write_all(piece)?;
    }
    to.write_all(&hash.finalize())?;
    to.flush()
}

/// The next frame, with a payload of at most `most` bytes; `None` at the end of the stream.
pub fn read(from: &mut impl Read, most: u64) -> Result<Option<Frame>, FrameError> {
    let mut header = [0; HEADER];
    match fill(from, &mut header)? {
        0 => return Ok(None),
        found if found < HEADER => return Err(FrameError::Cut { expected: HEADER, found }),
        _ => {}
    }
    let letters = &header[..4];
    let Some((kind, _)) = KINDS.iter().find(|(_, known)| known == letters) else {
        return Err(FrameError::Kind(String::from_utf8_lossy(letters).into_owned()));
    };
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let length = number(12);
    if length > most {
        return Err(FrameError::TooLong { asked: length, most });
    }
    let mut payload = Vec::new();
    // Memory is taken as bytes come, not as the other side promises.
    from.take(length).read_to_end(&mut payload)?;
    if (payload.len() as u64) < length {
        return Err(FrameError::Cut { expected: length as usize, found: payload.len() });
    }
    let mut hash = [0; HASH];
    let found = fill(from, &mut hash)?;
    if found < HASH {
        return Err(FrameError::Cut { expected: HASH, found });
    }
    let expected = Sha256::new().chain_update(header).chain_update(&payload).finalize();
    if hash[..] != expected[..] {
        return Err(FrameError::Altered);
    }
    Ok(Some(Frame { kind: *kind, job: number(4), payload }))
}

/// Reads until the buffer is full or the stream ends; returns the number of bytes.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The report and the result in the payload of [`Kind::Done`].
pub fn split_done(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = payload.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: Kind, job: u64, parts: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, kind, job, parts).unwrap();
        out
    }

    #[test]
    fn what_was_written_is_read() {
        let mut stream = Vec::new();
        for (number, (kind, _)) in KINDS.into_iter().enumerate() {
            stream.extend(bytes(kind, number as u64, &[b"one", b"", b"two"]));
        }
        let mut from = &stream[..];
        for (number, (kind, _)) in KINDS.into_iter().enumerate() {
            let frame = read(&mut from, 6).unwrap().unwrap();
            assert_eq!(frame, Frame { kind, job: number as u64, payload: b"onetwo".to_vec() });
        }
        assert_eq!(read(&mut from, 6).unwrap(), None);
    }

    #[test]
    fn every_cut_and_every_altered_byte_is_found() {
        let whole = bytes(Kind::Job, 7, &[b"payload"]);
        for length in 1..whole.len() {
            assert!(matches!(read(&mut &whole[..length], 100), Err(FrameError::Cut { .. })), "{length}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut altered = whole.clone();
                altered[at] ^= 1 << bit;
                assert!(read(&mut &altered[..], 100).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_before_it_is_read() {
        let mut header = b"JOB.".to_vec();
        header.extend([0; 8]);
        header.extend(u64::MAX.to_le_bytes());
        let refusal = read(&mut &header[..], 10).unwrap_err();
        assert_eq!(refusal.to_string(), "a frame of 18446744073709551615 bytes; at most 10 are accepted");
        // A promise that is not kept costs no memory.
        assert!(matches!(read(&mut &header[..], u64::MAX), Err(FrameError::Cut { .. })));
    }

    #[test]
    fn text_in_the_stream_is_named() {
        let refusal = read(&mut &b"warning: something else"[..], 10).unwrap_err();
        assert!(refusal.to_string().contains("\"warn\""), "{refusal}");
    }
}

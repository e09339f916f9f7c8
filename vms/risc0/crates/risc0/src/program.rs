//! Programs and their runs.

use risc0_binfmt::{ExitCode, MemoryImage, ProgramBinary};
use risc0_circuit_rv32im::TerminateState;
use risc0_circuit_rv32im::execute::{
    DEFAULT_SEGMENT_LIMIT_PO2, ExecutionError, ExecutionLimit, Executor, RV32IM_M3_CIRCUIT_VERSION, Segment,
    SegmentUpdate,
};
use risc0_zkos_v1compat::V1COMPAT_ELF;
use risc0_zkvm::sha::Digestible;
use risc0_zkvm::{Digest, SystemState};

use crate::error::{Error, Result};
use crate::host::Host;
use crate::{MAX_PO2, MIN_PO2};

/// A program for RISC Zero's virtual machine, with its kernel.
#[derive(Clone)]
pub struct Program {
    image: MemoryImage,
    id: Digest,
}

/// The options of a program's run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The standard input.
    pub stdin: Vec<u8>,
    /// The logarithm of the largest number of rows of a segment.
    pub segment_po2: u32,
    /// The largest number of cycles; none if it may run as long as it likes.
    pub max_cycles: Option<u64>,
    /// Whether what the program prints is dropped, in place of printed to the standard error.
    pub quiet: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        let segment_po2 = DEFAULT_SEGMENT_LIMIT_PO2 as u32;
        Self { stdin: Vec::new(), segment_po2, max_cycles: None, quiet: false }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The journal that the program has committed to.
    pub journal: Vec<u8>,
    /// The program's exit code.
    pub exit_code: ExitCode,
    /// The number of segments.
    pub segments: u64,
    /// The program's own cycles.
    pub user_cycles: u64,
    /// All cycles, with those of paging.
    pub total_cycles: u64,
}

impl Program {
    /// A program from a file's bytes: RISC Zero's own format, or an ELF file for its `v1compat` kernel.
    ///
    /// # Errors
    /// Bytes that are neither.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let binary = match bytes.starts_with(b"\x7fELF") {
            true => ProgramBinary::new(bytes, V1COMPAT_ELF),
            false => ProgramBinary::decode(bytes).map_err(|error| Error::Program(error.to_string()))?,
        };
        let mut image = binary.to_image().map_err(|error| Error::Program(error.to_string()))?;
        let id = SystemState { pc: 0, merkle_root: image.image_id() }.digest();
        Ok(Self { image, id })
    }

    /// The program's image id, which a receipt is verified against.
    pub fn image_id(&self) -> Digest {
        self.id
    }

    /// Runs the program, and gives each segment to a function as soon as it is complete.
    ///
    /// # Errors
    /// A program that fails or does not end in time, and what the function returns.
    pub fn run(&self, options: &RunOptions, mut each: impl FnMut(Segment) -> Result<()>) -> Result<Run> {
        let po2 = options.segment_po2;
        if !(MIN_PO2 + 1..=MAX_PO2).contains(&po2) {
            return Err(Error::SegmentSize { po2 });
        }
        let host = Host::new(options.stdin.clone(), options.quiet);
        let mut limit = ExecutionLimit::default().with_segment_po2(po2 as usize);
        if let Some(cycles) = options.max_cycles {
            limit = limit.with_hard_session_limit(cycles);
        }
        let mut image = self.image.clone();
        let mut failure = None;
        let executor =
            Executor::new(self.image.clone(), host.clone(), None, vec![], None, RV32IM_M3_CIRCUIT_VERSION);
        let result = executor.run(limit, |update: SegmentUpdate| {
            let segment = update.apply_into_segment(&mut image)?;
            image.update_digests();
            each(segment).map_err(|error| {
                let text = error.to_string();
                failure = Some(error);
                anyhow::anyhow!(text)
            })
        });
        let result = match (result, failure) {
            (_, Some(failure)) => return Err(failure),
            (Ok(result), None) => result,
            (Err(ExecutionError::CycleLimitExceeded { limit, .. }), None) => {
                return Err(Error::TooManyCycles { limit });
            }
            (Err(error), None) => return Err(Error::Run(error.to_string())),
        };
        Ok(Run {
            journal: host.journal(),
            exit_code: exit_code(result.terminate_state)?,
            segments: result.segments,
            user_cycles: result.user_cycles,
            total_cycles: result.total_cycles,
        })
    }

    /// All segments of a run.
    ///
    /// # Errors
    /// A program that fails or does not end in time.
    pub fn segments(&self, options: &RunOptions) -> Result<(Run, Vec<Segment>)> {
        let mut segments = Vec::new();
        let run = self.run(options, |segment| {
            segments.push(segment);
            Ok(())
        })?;
        Ok((run, segments))
    }
}

fn exit_code(state: Option<TerminateState>) -> Result<ExitCode> {
    let Some(state) = state else { return Ok(ExitCode::SystemSplit) };
    match (state.a0.1, u32::from(state.a0.0)) {
        (0, code) => Ok(ExitCode::Halted(code)),
        (1, code) => Ok(ExitCode::Paused(code)),
        (other, _) => Err(Error::Run(format!("the program halts in an unknown way, {other}"))),
    }
}

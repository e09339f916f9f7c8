//! `rigel risc0 dispatch`: runs a program whose segments are proven elsewhere, and makes the receipt of their seals.
//!
//! It talks to the program that started it in frames of `rigel_worker::frame`, over standard input and output:
//!
//! | kind | number | direction | payload |
//! |---|---|---|---|
//! | `HELO` | 0 | out, first | as a worker's greeting |
//! | `JOB.` | 0 | in | a line of JSON ([`Request`]), the program, its standard input |
//! | `JOB.` | of the segment, from 0 | out, as the program runs | the segment: a job for `rigel risc0 worker` |
//! | `PROG` | 0 | out, after the last segment | JSON: `fraction`, `phase` and the number of `segments` |
//! | `DONE` | of the segment | in, at any time, in any order | the worker's answer, with the seal |
//! | `DONE` | 0 | out, last | the report, and the receipt as upstream's programs write it (bincode) |
//! | `FAIL` | 0 | out, last, in place of it | JSON: `kind`, `message`, `report` |
//!
//! The program waits while nobody reads its segments, so whoever starts it decides how far it runs ahead.

use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rigel_risc0::{Error, Program, RunOptions, assemble};
use rigel_worker::PROTOCOL;
use rigel_worker::frame::{self, Frame, Kind};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Failure;
use crate::worker::from_bytes;

/// The most bytes of a program with its input.
const MOST_PROGRAM: u64 = 4 << 30;
/// The most bytes of a seal with its report. A seal has less than 1 MiB.
const MOST_SEAL: u64 = 64 << 20;

/// The line before the program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    program_bytes: usize,
    segment_po2: Option<u32>,
    max_cycles: Option<u64>,
}

/// A segment's number and seal, or why there are no more.
type Seal = Result<(u64, Vec<u32>), String>;

/// Runs one program.
pub fn run() -> Result<bool, Failure> {
    let (input, mut output) = rigel_worker::take_streams()?;
    let hello = json!({
        "protocol": PROTOCOL,
        "name": "risc0-dispatch",
        "pid": std::process::id(),
        "most_bytes": MOST_PROGRAM,
        "most_waiting": 0,
    });
    frame::write(&mut output, Kind::Hello, 0, &[hello.to_string().as_bytes()])?;
    match dispatch(BufReader::new(input), &mut output) {
        Ok((report, receipt)) => {
            let report = report.to_string();
            let length = (report.len() as u32).to_le_bytes();
            frame::write(&mut output, Kind::Done, 0, &[&length, report.as_bytes(), &receipt])?;
            Ok(true)
        }
        Err(error) => {
            let answer = json!({ "kind": "error", "message": error.to_string(), "report": {} });
            frame::write(&mut output, Kind::Failed, 0, &[answer.to_string().as_bytes()])?;
            Ok(false)
        }
    }
}

/// The report and the receipt.
fn dispatch(mut input: BufReader<File>, output: &mut File) -> Result<(Value, Vec<u8>), Failure> {
    let (program, options) = read_program(&mut input)?;
    let (to_receipt, seals) = channel();
    // It is not waited for: the process ends when the receipt is made, whatever may still come.
    thread::Builder::new().name("seals".into()).spawn(move || {
        loop {
            let seal = next_seal(&mut input);
            let ended = seal.is_err();
            if to_receipt.send(seal).is_err() || ended {
                return;
            }
        }
    })?;
    let began = Instant::now();
    let mut segments = 0;
    let run = program.run(&options, |segment| {
        let failed =
            |error: &dyn std::fmt::Display| Error::Run(format!("segment {segments} can't be sent: {error}"));
        let bytes = segment.encode().map_err(|error| failed(&error))?;
        frame::write(output, Kind::Job, segments, &[&bytes]).map_err(|error| failed(&error))?;
        segments += 1;
        Ok(())
    })?;
    let execute_ms = began.elapsed().as_secs_f64() * 1e3;
    let said = json!({ "fraction": 0.5, "phase": "executed", "segments": segments });
    frame::write(output, Kind::Progress, 0, &[said.to_string().as_bytes()])?;
    let seals = collect(&seals, segments)?;
    let image_id = program.image_id();
    let receipt = assemble(&seals, run.journal, image_id)?;
    let report = json!({
        "image_id": image_id.to_string(),
        "exit_code": format!("{:?}", run.exit_code),
        "journal": hex::encode(&receipt.journal.bytes),
        "user_cycles": run.user_cycles,
        "total_cycles": run.total_cycles,
        "segments": segments,
        "execute_ms": execute_ms,
        "total_ms": began.elapsed().as_secs_f64() * 1e3,
    });
    Ok((report, bincode::serialize(&receipt)?))
}

/// The program, and how to run it.
fn read_program(input: &mut impl Read) -> Result<(Program, RunOptions), Failure> {
    let Some(Frame { kind: Kind::Job, job: 0, payload }) = frame::read(input, MOST_PROGRAM)? else {
        return Err("the first frame is not a job with the number 0, the program".into());
    };
    let end =
        payload.iter().position(|byte| *byte == b'\n').ok_or("the job does not begin with a line of JSON")?;
    let (line, files) = (&payload[..end], &payload[end + 1..]);
    let Request { program_bytes, segment_po2, max_cycles } = serde_json::from_slice(line)
        .map_err(|error| format!("the job's line is not that of a program: {error}"))?;
    let (program, stdin) = files.split_at_checked(program_bytes).ok_or_else(|| {
        format!("the job states a program of {program_bytes} bytes, and {} bytes follow its line", files.len())
    })?;
    let options = RunOptions { stdin: stdin.to_vec(), max_cycles, ..RunOptions::default() };
    let segment_po2 = segment_po2.unwrap_or(options.segment_po2);
    Ok((Program::load(program)?, RunOptions { segment_po2, ..options }))
}

fn next_seal(input: &mut impl Read) -> Seal {
    let frame = match frame::read(input, MOST_SEAL) {
        Ok(Some(frame)) => frame,
        Ok(None) => return Err("no more seals come: the standard input has ended".into()),
        Err(error) => return Err(error.to_string()),
    };
    let (kind, number) = (frame.kind, frame.job);
    let seal = (kind == Kind::Done).then(|| frame::split_done(&frame.payload)).flatten();
    seal.and_then(|(_, seal)| from_bytes(seal))
        .map(|seal| (number, seal))
        .ok_or_else(|| format!("a frame {kind:?} of segment {number} is not an answer with a seal"))
}

/// All seals, in the order of their segments.
fn collect(from: &Receiver<Seal>, segments: u64) -> Result<Vec<Vec<u32>>, Failure> {
    let mut seals = vec![Vec::new(); segments as usize];
    for _ in 0..segments {
        let (number, seal) = from.recv().map_err(|_| "the thread that reads seals is gone")??;
        let known = usize::try_from(number).ok().and_then(|number| seals.get_mut(number));
        match known {
            Some(place) if place.is_empty() => *place = seal,
            Some(_) => return Err(format!("segment {number} has two seals").into()),
            None => return Err(format!("a seal of segment {number}; the run has {segments} segments").into()),
        }
    }
    Ok(seals)
}

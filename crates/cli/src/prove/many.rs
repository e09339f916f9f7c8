//! `rigel prove --count`: many proofs of one statement, shared out over the devices by a pool.

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use rigel_gpu::{Bytes, Share};
use rigel_statements::many::Many;
use rigel_statements::{Made, OnFailure};
use serde::Serialize;

use super::report::verification;
use super::{Arguments, finish_compiling, split, statement, write};
use crate::Failure;
use crate::choice::Choice;
use crate::proof_file::{self, Header};
use crate::terminal::{Align, Columns, Paint, Progress, number};

/// Makes `count` proofs and reports.
pub(super) fn run(arguments: &Arguments, choice: Choice, count: u64, json: bool) -> Result<bool, Failure> {
    let (devices, may_fall_back) = split::open(arguments)?;
    let on_failure = OnFailure::cpu_if(may_fall_back);
    let place = if devices.is_empty() { "the CPU".to_string() } else { split::names(&devices) };
    let progress = Progress::spoken();
    progress.say(&format!("preparing {choice} on {place} …"));
    let note = |text: String| eprintln!("note: {text}");
    let many = Many::prepare(|| statement(arguments, &choice), &devices, on_failure, choice.overlaps(), note)?;
    let publics = many.publics();

    progress.say(&format!("proving on {place}, {count} times …"));
    let began = Instant::now();
    let (mut done, mut first, mut retries, mut on_cpu) = (0, None, Vec::new(), Vec::new());
    let shares = many.prove(count, |made: Made| {
        done += 1;
        let rate = done as f64 / began.elapsed().as_secs_f64();
        progress.part(done, count, &format!("{done} of {count} proofs, {} a second", number(rate)));
        retries.extend(made.report.moves.iter().map(|lost| lost.from.clone()));
        let whole = made.report.fallbacks.iter().filter(|fallback| fallback.part == "the proof");
        on_cpu.extend(whole.map(|fallback| fallback.reason.clone()));
        first.get_or_insert((made, began.elapsed().as_secs_f64()));
        Ok(())
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let (first, first_seconds) = first.expect("at least one proof is made");
    drop(progress);

    let header = Header::new(choice, publics);
    if let Some(path) = &arguments.output {
        write(path, &proof_file::encode(&header, &first.proof))?;
    }
    let summary = Summary {
        header: &header,
        count,
        seconds,
        first_seconds,
        proofs_per_second: count as f64 / seconds,
        proof_bytes: first.proof.len(),
        retries: retries.len(),
        on_cpu: if devices.is_empty() { 0 } else { on_cpu.len() },
        file: arguments.output.as_deref(),
        devices: shares.into_iter().map(|share| OfDevice::new(share, &retries)).collect(),
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", summary.to_text());
        if let Some(reason) = on_cpu.first().filter(|_| summary.on_cpu > 0) {
            println!("  {}", Paint::Bad.on(&format!("{} proofs ran on the CPU: {reason}", summary.on_cpu)));
        }
    }
    finish_compiling();
    Ok(true)
}

/// The summary of many proofs.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    header: &'a Header,
    count: u64,
    /// The time from the start of the first proof to the end of the last.
    seconds: f64,
    /// The time to the first proof, which loads or compiles kernels.
    first_seconds: f64,
    proofs_per_second: f64,
    proof_bytes: usize,
    /// Attempts that began anew elsewhere because their device was lost.
    retries: usize,
    /// Proofs that the CPU made because the device could not.
    on_cpu: usize,
    /// The file of the first proof.
    file: Option<&'a Path>,
    devices: Vec<OfDevice>,
}

/// The proofs that one device made.
#[derive(Serialize)]
struct OfDevice {
    device: String,
    proofs: u64,
    /// The time in which it had at least one proof.
    busy_seconds: f64,
    proofs_per_second: f64,
    /// Attempts that it lost.
    retries: usize,
    /// The error by which the device was lost, if it was.
    lost: Option<String>,
}

impl OfDevice {
    fn new(share: Share, retries: &[String]) -> Self {
        let Share { device, jobs, busy_seconds, lost } = share;
        let proofs_per_second = if busy_seconds > 0.0 { jobs as f64 / busy_seconds } else { 0.0 };
        let retries = retries.iter().filter(|from| **from == device).count();
        Self { device, proofs: jobs, busy_seconds, proofs_per_second, retries, lost }
    }
}

impl Summary<'_> {
    fn to_text(&self) -> String {
        let mut out = format!("{}\n", Paint::Bold.on(&self.header.choice.to_string()));
        let _ = writeln!(
            out,
            "  {} proofs of {} in {} s, {} a second; the first after {} s\n",
            self.count,
            Bytes(self.proof_bytes),
            number(self.seconds),
            number(self.proofs_per_second),
            number(self.first_seconds)
        );
        let right = Align::Right;
        let mut columns = Columns::new(&[Align::Left, right, right, right, right, Align::Left]);
        columns.row(Paint::Dim, ["device", "proofs", "a second", "busy s", "retries", ""]);
        for device in &self.devices {
            let (paint, state) = match &device.lost {
                Some(reason) => (Paint::Bad, format!("lost: {reason}")),
                None => (Paint::Plain, String::new()),
            };
            columns.row(
                paint,
                [
                    device.device.clone(),
                    device.proofs.to_string(),
                    number(device.proofs_per_second),
                    number(device.busy_seconds),
                    device.retries.to_string(),
                    state,
                ],
            );
        }
        out.push_str(&columns.to_text("  "));
        if let Some(file) = self.file {
            let check = verification(file, self.header, self.proof_bytes);
            let _ = writeln!(out, "\nthe first was written to {}; check it with: {check}", file.display());
        }
        out
    }
}

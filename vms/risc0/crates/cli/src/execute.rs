//! `rigel risc0 execute`: runs a program without a proof.

use std::path::PathBuf;
use std::time::Instant;

use rigel_terminal::{Paint, number};
use serde::Serialize;

use crate::Failure;
use crate::options::{Source, write};
use crate::prove::shortened;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Write the journal to a file
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

#[derive(Serialize)]
struct Summary {
    image_id: String,
    exit_code: String,
    journal: String,
    user_cycles: u64,
    total_cycles: u64,
    /// The logarithm of the number of rows of each segment.
    segment_po2s: Vec<u32>,
    ms: f64,
}

/// Runs and reports.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let (program, options) = arguments.source.load()?;
    let began = Instant::now();
    let mut segment_po2s = Vec::new();
    let run = program.run(&options, |segment| {
        segment_po2s.push(segment.po2);
        Ok(())
    })?;
    let ms = began.elapsed().as_secs_f64() * 1e3;
    if let Some(path) = &arguments.journal {
        write(path, &run.journal)?;
    }
    let summary = Summary {
        image_id: program.image_id().to_string(),
        exit_code: format!("{:?}", run.exit_code),
        journal: hex::encode(&run.journal),
        user_cycles: run.user_cycles,
        total_cycles: run.total_cycles,
        segment_po2s,
        ms,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
        return Ok(true);
    }
    println!(
        "{}, {} cycles in {} segments ({} with paging), {}\n  image id {}\n  journal  {}\n  run in {} ms ({} MHz)",
        Paint::Bold.on(&arguments.source.name()),
        number(summary.user_cycles as f64),
        summary.segment_po2s.len(),
        number(summary.total_cycles as f64),
        summary.exit_code,
        summary.image_id,
        shortened(&summary.journal),
        number(ms),
        number(summary.user_cycles as f64 / ms / 1e3),
    );
    Ok(true)
}

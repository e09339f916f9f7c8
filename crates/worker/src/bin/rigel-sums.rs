//! A worker to try a cluster with: it sums the numbers of a job, and can do everything that a worker should survive.
//!
//! A job is JSON: `{"numbers": [1, 2, 3]}` gives `6`; with `"milliseconds": 50` it takes that long, and can be
//! cancelled meanwhile; `"do"` may be `"fail"`, `"panic"`, `"print"`, `"hang"`, `"elsewhere"`, `"linger"` (which gives
//! up its place before it takes its time), `"abort"` (after its time) or `"poison"` (after its time, the worker asks to
//! be avoided for this job and for all others that it has, as if its device were lost), and with `"once": FILE` it is
//! done only if that file is not there yet, and makes it. With `"until": FILE` the job lasts until that file is there,
//! or until it is cancelled. `--at-once N` works on N jobs at once.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rigel_worker::{Error, Failure, Job, Options};
use serde_json::Value;

/// Whether a job has poisoned the worker.
static POISONED: AtomicBool = AtomicBool::new(false);

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Bytes that are not a frame, for tests of whoever reads them: the standard output before the worker takes it.
    if arguments.first().is_some_and(|first| first == "--garbage") {
        println!("this worker prints before it greets");
    }
    match arguments.as_slice() {
        [option, number] if option == "--at-once" => {
            let at_once = number.parse().expect("--at-once takes a number");
            rigel_worker::serve_several("sums", at_once, Options::default(), sum)
        }
        _ => rigel_worker::serve("sums", sum),
    }
}

fn sum(job: &mut Job) -> Result<Vec<u8>, Failure> {
    let request: Value = serde_json::from_slice(job.input())?;
    let is_first = |file: &str| std::fs::File::create_new(file).is_ok();
    let what = request["do"].as_str().filter(|_| request["once"].as_str().is_none_or(is_first));
    match what {
        Some("fail") => return Err(Failure::new("the job asked to fail")),
        Some("elsewhere") => return Err(Failure::elsewhere("this worker asked to be avoided")),
        Some("panic") => panic!("the job asked for a panic"),
        Some("print") => println!("printed by the job"),
        Some("linger") => job.give_up_place(),
        Some("hang") => {
            job.progress(0.0, "hanging");
            sleep(Duration::from_secs(3600));
        }
        _ => {}
    }
    let duration = Duration::from_millis(request["milliseconds"].as_u64().unwrap_or(0));
    let began = Instant::now();
    while began.elapsed() < duration {
        job.check()?;
        job.progress(began.elapsed().as_secs_f64() / duration.as_secs_f64(), "waiting");
        sleep(Duration::from_millis(5).min(duration.saturating_sub(began.elapsed())));
    }
    while request["until"].as_str().is_some_and(|file| !std::path::Path::new(file).exists()) {
        job.check()?;
        check_poison()?;
        job.progress(0.0, "waiting for a file");
        sleep(Duration::from_millis(5));
    }
    if what == Some("abort") {
        eprintln!("about to abort");
        std::process::abort();
    }
    POISONED.fetch_or(what == Some("poison"), Ordering::SeqCst);
    check_poison()?;
    let numbers = request["numbers"].as_array().ok_or_else(|| Failure::new("no numbers in the job"))?;
    job.report("numbers", numbers.len());
    let sum: u64 = numbers.iter().filter_map(Value::as_u64).sum();
    std::io::stdout().flush()?;
    Ok(sum.to_string().into_bytes())
}

fn check_poison() -> Result<(), Failure> {
    if POISONED.load(Ordering::SeqCst) {
        return Err(Failure::elsewhere("this worker is of no use any more"));
    }
    Ok(())
}

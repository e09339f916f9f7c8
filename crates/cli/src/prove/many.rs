//! `rigel prove --count`: many proofs of one statement, shared out over the devices by a pool.

use std::fmt::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rigel_gpu::{Bytes, Device, Member, Pool, PoolError, Share};
use rigel_plonky3::Policy;
use rigel_workloads::{Made, Statement};
use serde::Serialize;

use super::{Arguments, finish_compiling, split, statement, write};
use crate::Failure;
use crate::choice::Choice;
use crate::proof_file::{self, Header};
use crate::terminal::{Align, Columns, Paint, Progress, number};

/// Plonky3's proofs at a time on one device: uploads and the host's part of some overlap the work of the others. More
/// than four gain nothing on an H200.
const AT_ONCE: usize = 4;

/// The failure of a proof, of which the pool must know whether its device was lost.
struct Failed(Failure);

impl Failed {
    fn is(&self, of_gpu: fn(&rigel_gpu::Error) -> bool, of_plonky3: fn(&rigel_plonky3::Error) -> bool) -> bool {
        self.0.downcast_ref().is_some_and(of_gpu) || self.0.downcast_ref().is_some_and(of_plonky3)
    }
}

impl PoolError for Failed {
    fn is_lost_device(&self) -> bool {
        self.is(PoolError::is_lost_device, PoolError::is_lost_device)
    }

    fn is_of_device(&self) -> bool {
        self.is(PoolError::is_of_device, PoolError::is_of_device)
    }

    fn cancelled() -> Self {
        Self(rigel_gpu::Error::Cancelled.into())
    }

    fn panicked(message: String) -> Self {
        Self(format!("a proof panicked: {message}").into())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A statement that is ready to be proved on one device, of which a pool's threads each have a copy.
type Ready = Arc<dyn Statement>;

/// Makes `count` proofs and reports.
pub(super) fn run(arguments: &Arguments, choice: Choice, count: u64, json: bool) -> Result<bool, Failure> {
    let (devices, may_fall_back) = split::open(arguments)?;
    let policy = Policy { cpu_on_failure: may_fall_back, ..Policy::default() };
    let place = if devices.is_empty() { "the CPU".to_string() } else { split::names(&devices) };
    let progress = Progress::spoken();
    progress.say(&format!("preparing {choice} on {place} …"));
    let members = members(arguments, &choice, &devices, policy)?;
    let publics = members[0].to.publics();
    // A statement that hides its trace begins its randomness anew for each proof, so its proofs take turns. So do
    // Stwo's, which have one stream on each device, and those of the CPU, which use all cores.
    let overlaps = !devices.is_empty() && !arguments.fri.hides() && matches!(choice, Choice::Plonky3(_));
    let at_once = if overlaps { AT_ONCE } else { 1 };
    // How much memory a proof takes, its report tells. Until one is made, each begins alone on its device.
    let alone = members.iter().map(|member| member.budget).min().unwrap_or(0);
    let first_ones = (members.len() as u64).min(count);
    // Enough for a device to find the next one when it is done.
    let under_way = 2 * (at_once * members.len()) as u64;
    let pool = Pool::<Ready, Made, Failed>::new(members, at_once)?;

    progress.say(&format!("proving on {place}, {count} times …"));
    let began = Instant::now();
    let submit = |bytes: usize| pool.submit(bytes, |statement: &Ready| statement.prove().map_err(Failed));
    for _ in 0..first_ones {
        submit(alone);
    }
    let (mut submitted, mut bytes) = (first_ones, None);
    let (mut first, mut retries, mut on_cpu) = (None, Vec::new(), Vec::new());
    for done in 1..=count {
        let Some((_, made)) = pool.next() else { return Err("the pool ended before all proofs were made".into()) };
        let made = made.map_err(|failed| failed.0)?;
        bytes = bytes.or(Some(made.report.peak_bytes).filter(|&bytes| bytes > 0));
        while submitted < count.min(done + under_way) {
            submit(bytes.unwrap_or(alone));
            submitted += 1;
        }
        let rate = done as f64 / began.elapsed().as_secs_f64();
        progress.part(done, count, &format!("{done} of {count} proofs, {} a second", number(rate)));
        retries.extend(made.report.moves.iter().map(|lost| lost.from.clone()));
        on_cpu.extend(
            made.report
                .fallbacks
                .iter()
                .filter(|fallback| fallback.part == "the proof")
                .map(|it| it.reason.clone()),
        );
        first.get_or_insert((made, began.elapsed().as_secs_f64()));
    }
    let seconds = began.elapsed().as_secs_f64();
    let (first, first_seconds) = first.expect("at least one proof is made");
    let shares = pool.shares();
    drop((pool, progress));

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

/// A statement for each device, or one for the CPU, each with a witness of its own. They are made at the same time. A
/// device that fails meanwhile is left out if the CPU could take its place.
fn members(
    arguments: &Arguments,
    choice: &Choice,
    devices: &[Device],
    policy: Policy,
) -> Result<Vec<Member<Ready>>, Failure> {
    let make = |device: Option<&Device>| -> Result<Member<Ready>, Failure> {
        let mut statement = statement(arguments, choice)?;
        statement.generate();
        statement.prepare(device, policy)?;
        let budget = device.map_or(Ok(usize::MAX), |device| device.available_among(devices))?;
        Ok(Member { to: Arc::from(statement), device: device.cloned(), budget })
    };
    if devices.is_empty() {
        return Ok(vec![make(None)?]);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = devices.iter().map(|device| scope.spawn(move || make(Some(device)))).collect();
        let made = threads.into_iter().map(|thread| thread.join().map_err(|_| "preparing a device panicked")?);
        let mut members = Vec::with_capacity(devices.len());
        for (device, made) in devices.iter().zip(made) {
            match made.map_err(Failed) {
                Err(failed) if policy.cpu_on_failure && failed.is_of_device() => {
                    eprintln!("note: {failed}\nnote: {device} makes no proofs");
                }
                made => members.push(made.map_err(|failed| failed.0)?),
            }
        }
        if members.is_empty() {
            eprintln!("note: proving on the CPU instead, with upstream's prover");
            members.push(make(None)?);
        }
        Ok(members)
    })
}

/// What many proofs took.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    header: &'a Header,
    count: u64,
    /// From the start of the first proof to the end of the last.
    seconds: f64,
    /// The time to the first proof, which loads or compiles kernels.
    first_seconds: f64,
    proofs_per_second: f64,
    proof_bytes: usize,
    /// Attempts that began anew elsewhere because their device was lost.
    retries: usize,
    /// Proofs that the CPU made because the device could not.
    on_cpu: usize,
    /// Where the first proof is.
    file: Option<&'a Path>,
    devices: Vec<OfDevice>,
}

/// What one device made.
#[derive(Serialize)]
struct OfDevice {
    device: String,
    proofs: u64,
    /// The time in which it had at least one proof.
    busy_seconds: f64,
    proofs_per_second: f64,
    /// Attempts that it lost.
    retries: usize,
    /// How it was lost, if it was.
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
            let file = file.display();
            let _ = writeln!(out, "\nthe first was written to {file}; check it with: rigel verify {file}");
        }
        out
    }
}

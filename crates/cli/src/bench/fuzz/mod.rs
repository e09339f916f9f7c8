//! `rigel bench fuzz`: altered, cut, extended, spliced and foreign proof files, frames of workers and entries of the
//! kernel cache. None may be accepted, and none may end the process, which has little memory.
//!
//! Children of this process do the work, because a child that is killed, panics or hangs is something that was found. A
//! child writes to a file where it is and what it has counted; the next one goes on behind the input that ended it. An
//! input depends on the seed and its number only.

mod cache;
mod child;
mod files;
mod frames;
mod state;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rigel_gpu::Bytes;
use serde::Serialize;

use crate::Failure;
use crate::terminal::{Align, Columns, Paint, Progress};
use state::{Counts, KINDS, OUTCOMES, Outcome, State};

/// The interval at which the children are checked.
const GLANCE: Duration = Duration::from_millis(50);

/// The least time that a child has to start.
const STARTING: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Arguments {
    /// The number of inputs
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    count: u64,
    /// The seed of what is changed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Processes that work at the same time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// The address space of each of these processes
    #[arg(long, value_name = "BYTES", default_value = "512MiB")]
    memory_limit: Bytes,
    /// An input on which a process spends more seconds counts as found
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// Only this input, in this process, to look into what was found
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["jobs", "count"])]
    input: Option<u64>,
    /// The folder of a child's files, and its index
    #[arg(long, hide = true, num_args = 2)]
    child: Option<Vec<String>>,
    #[command(flatten)]
    trouble: Trouble,
}

/// Inputs that are no trouble to read, but end the process or keep it: what this command is there to find.
#[derive(clap::Args, Clone, Copy, Default)]
pub struct Trouble {
    /// The process that reads this input aborts
    #[arg(long, hide = true)]
    dies_at: Option<u64>,
    /// The process that reads this input does not go on
    #[arg(long, hide = true)]
    hangs_at: Option<u64>,
}

impl Trouble {
    /// Makes it, if the input is one of these.
    fn make(self, input: u64) {
        if self.dies_at == Some(input) {
            std::process::abort();
        }
        while self.hangs_at == Some(input) {
            std::thread::park();
        }
    }
}

/// The result as JSON.
#[derive(Serialize)]
struct Report {
    count: u64,
    seed: u64,
    jobs: u64,
    memory_limit: usize,
    seconds: f64,
    per_second: f64,
    /// The number of inputs by kind and outcome.
    inputs: serde_json::Value,
    accepted: u64,
    panicked: u64,
    killed: u64,
    /// The findings, at most [`MOST_FINDINGS`].
    findings: Vec<String>,
}

/// The most findings that are described; all are counted.
const MOST_FINDINGS: usize = 100;

/// Makes inputs and has them read. Returns whether nothing was found.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    if let Some(number) = arguments.input {
        return child::only(arguments.seed, number);
    }
    if let Some([folder, index]) = arguments.child.as_deref().and_then(<[String]>::as_array) {
        return child::run(Path::new(folder), index.parse()?, arguments.trouble);
    }
    let folder = Folder::new()?;
    let progress = Progress::new();
    progress.say("proofs to change …");
    files::Originals::make()?.save(&folder.0)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let jobs = arguments.jobs.map_or(cores, u64::from).clamp(1, arguments.count.max(1));
    let began = Instant::now();
    let mut workers: Vec<Worker> = (0..jobs)
        .map(|index| {
            let share = State::share(index, jobs, arguments.count, arguments.seed);
            Worker::start(&folder.0, index, share, arguments)
        })
        .collect::<Result<_, Failure>>()?;
    while workers.iter().any(|worker| worker.process.is_some()) {
        std::thread::sleep(GLANCE);
        for worker in &mut workers {
            worker.look(arguments)?;
        }
        let done: u64 = workers.iter().map(|worker| worker.state.counts.all()).sum();
        progress.part(done, arguments.count, "changed files, frames and cache entries …");
    }
    drop(progress);
    let seconds = began.elapsed().as_secs_f64();
    let mut counts = Counts::default();
    workers.iter().for_each(|worker| counts.add(&worker.state.counts));
    let mut findings: Vec<String> = workers.iter().flat_map(Worker::findings).collect();
    findings.truncate(MOST_FINDINGS);
    let of = |outcome| counts.of(outcome);
    let report = Report {
        count: counts.all(),
        seed: arguments.seed,
        jobs,
        memory_limit: arguments.memory_limit.0,
        seconds,
        per_second: counts.all() as f64 / seconds,
        inputs: counts.to_json(),
        accepted: of(Outcome::Accepted),
        panicked: of(Outcome::Panicked),
        killed: of(Outcome::Killed),
        findings,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", text(&report, &counts));
    }
    let complete = report.count == arguments.count;
    Ok(complete && [report.accepted, report.panicked, report.killed] == [0; 3])
}

fn text(report: &Report, counts: &Counts) -> String {
    let mut columns = Columns::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    columns.row(Paint::Dim, std::iter::once("").chain(KINDS.iter().map(|kind| kind.name())));
    for outcome in OUTCOMES {
        let number = |kind: &state::Kind| counts.get(*kind, outcome);
        let found: u64 = KINDS.iter().map(number).sum();
        let paint = if outcome.is_finding() && found > 0 { Paint::Bad } else { Paint::Plain };
        let cells = KINDS.iter().map(|kind| number(kind).to_string());
        columns.row(paint, std::iter::once(outcome.name().to_string()).chain(cells));
    }
    let Report { count, jobs, seconds, per_second, seed, .. } = report;
    let findings: String = report.findings.iter().map(|finding| format!("  {finding}\n")).collect();
    format!(
        "{count} inputs from seed {seed} in {seconds:.0} s, {per_second:.0} a second, by {jobs} processes of {} each\n\
         {}{findings}",
        Bytes(report.memory_limit),
        columns.to_text("  "),
    )
}

/// A folder of its own, which is removed.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("rigel-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One share of the inputs, and the child that works on it.
struct Worker {
    folder: PathBuf,
    index: u64,
    process: Option<Child>,
    state: State,
    /// The time at which the child went on to another input.
    moved: Instant,
    ended: Vec<String>,
}

impl Worker {
    fn start(folder: &Path, index: u64, state: State, arguments: &Arguments) -> Result<Self, Failure> {
        let mut worker = Self {
            folder: folder.to_owned(),
            index,
            process: None,
            state,
            moved: Instant::now(),
            ended: Vec::new(),
        };
        worker.begin(arguments)?;
        Ok(worker)
    }

    /// Starts a child that goes on where the state is.
    fn begin(&mut self, arguments: &Arguments) -> Result<(), Failure> {
        let Arguments { memory_limit: memory, trouble: Trouble { dies_at, hangs_at }, .. } = arguments;
        self.state.write(&self.folder, self.index)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "fuzz", "--child"]).arg(&self.folder).arg(self.index.to_string());
        for (option, input) in [("--dies-at", dies_at), ("--hangs-at", hangs_at)] {
            command.args(input.iter().flat_map(|input| [option.to_string(), input.to_string()]));
        }
        // Threads that upstream's verifiers have no use for would take address space.
        command.env("RAYON_NUM_THREADS", "1").stdin(Stdio::null()).stdout(Stdio::null());
        let limit = libc::rlimit { rlim_cur: memory.0 as u64, rlim_max: memory.0 as u64 };
        // SAFETY: between `fork` and `exec` this only calls `setrlimit`, which is safe there and reads its own copy.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        self.process = Some(command.spawn()?);
        self.moved = Instant::now();
        Ok(())
    }

    /// Reads how far the child is, and starts another if an input has ended it.
    fn look(&mut self, arguments: &Arguments) -> Result<(), Failure> {
        let Some(process) = &mut self.process else { return Ok(()) };
        let status = process.try_wait()?;
        let state = State::read(&self.folder, self.index)?;
        if state.next != self.state.next {
            self.moved = Instant::now();
        }
        self.state = state;
        // Before its first input a child verifies the proofs that are changed.
        let starting = if self.state.is_reading() { Duration::ZERO } else { STARTING };
        let patience = starting.max(Duration::from_secs(arguments.patience));
        let ending = match status {
            Some(status) if status.success() => {
                self.process = None;
                return Ok(());
            }
            Some(status) => ending(status),
            None if self.moved.elapsed() < patience => return Ok(()),
            None => {
                process.kill()?;
                process.wait()?;
                self.state = State::read(&self.folder, self.index)?;
                format!("did not end in {} s", patience.as_secs())
            }
        };
        if !self.state.is_reading() {
            return Err(format!("a child {ending} before its first input; its messages are above").into());
        }
        self.ended.push(format!(
            "input {} of {}: the process {ending}",
            self.state.next,
            self.state.kind().name()
        ));
        self.state.finish(Outcome::Killed);
        self.begin(arguments)
    }

    /// The descriptions of what was found.
    fn findings(&self) -> Vec<String> {
        let said = std::fs::read_to_string(child::findings(&self.folder, self.index)).unwrap_or_default();
        said.lines().map(str::to_owned).chain(self.ended.iter().cloned()).collect()
    }
}

/// Ends the child, so that none outlives an error of its parent.
impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // One that has already ended needs neither.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Describes how a process has ended.
fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("exited with {code}"),
        (None, None) => "ended".into(),
    }
}

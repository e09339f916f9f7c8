//! Whole runs of Cairo and RISC Zero programs, by the binaries of the machines.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::Duration;

use rigel_worker::{Failure, Job};
use serde_json::{Map, Value};

/// The facts in which the machines differ.
struct Machine {
    name: &'static str,
    /// The option of the second file.
    input: &'static str,
    /// The options that a job may give. Those that name files are not among them: a job reads and writes nothing on the
    /// machine that it is proven on.
    options: &'static [&'static str],
}

const MACHINES: [Machine; 2] = [
    Machine {
        name: "cairo",
        input: "--input",
        options: &[
            "args",
            "max_steps",
            "variant",
            "channel",
            "log_blowup",
            "queries",
            "pow_bits",
            "lifting_log_size",
        ],
    },
    Machine { name: "risc0", input: "--stdin", options: &["number", "segment_po2", "max_cycles"] },
];

/// The interval at which a machine is asked whether it is done, and the job whether it was cancelled.
const GLANCE: Duration = Duration::from_millis(20);

/// Runs the binary of the machine and returns the proof file that it writes.
pub fn prove(
    job: &mut Job,
    request: &Map<String, Value>,
    files: &[u8],
    place: &[String],
) -> Result<Vec<u8>, Failure> {
    let machine = request["machine"].as_str().unwrap_or_default();
    let machine = MACHINES.iter().find(|known| known.name == machine).ok_or_else(|| {
        Failure::new(format!("{} is not a machine; there are cairo and risc0", request["machine"]))
    })?;
    let options = options(machine, request).map_err(Failure::new)?;
    let (program, input) = split(request, files).map_err(Failure::new)?;
    let binary = format!("rigel-{}", machine.name);
    let path = crate::machine::find(&binary).ok_or_else(|| {
        Failure::elsewhere(format!(
            "{binary} is neither beside rigel nor on the PATH of this worker; in Rigel's sources: \
             vms/{}/scripts/install",
            machine.name
        ))
    })?;
    let folder = Folder::new().map_err(of_this_machine)?;
    fs::write(folder.path.join("program"), program).map_err(of_this_machine)?;
    let proof = folder.path.join("proof");
    let mut command = Command::new(path);
    command.arg("prove").arg(folder.path.join("program")).arg("-o").arg(&proof).arg("--json").args(place);
    if !input.is_empty() {
        fs::write(folder.path.join("input"), input).map_err(of_this_machine)?;
        command.arg(machine.input).arg(folder.path.join("input"));
    }
    command.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    end_with_this_process(&mut command);
    job.progress(0.0, "prove");
    let (report, words, code) = finish(job, command.spawn().map_err(of_this_machine)?)?;
    match code {
        Some(0) => {}
        Some(code) => return Err(Failure::new(format!("{binary} ended with code {code}: {}", words.trim()))),
        // Not the program's own doing: the system has ended it, for instance because memory was short.
        None => return Err(Failure::elsewhere(format!("{binary} was ended by a signal: {}", words.trim()))),
    }
    if let Ok(report) = serde_json::from_str::<Value>(&report) {
        job.report("proof", report);
    }
    fs::read(proof).map_err(of_this_machine)
}

/// Files and processes fail here, and may not elsewhere.
fn of_this_machine(error: io::Error) -> Failure {
    Failure::elsewhere(error)
}

/// A worker may be killed, or end because nobody is left to take a result; what it has started must not go on.
fn end_with_this_process(command: &mut Command) {
    let end = || {
        // SAFETY: `prctl` with these arguments changes only the signal that this process gets, and may be called
        // between `fork` and `exec`.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes one system call; it allocates nothing and takes no locks.
    unsafe { command.pre_exec(end) };
}

/// The options of the job as the binary takes them.
fn options(machine: &Machine, request: &Map<String, Value>) -> Result<Vec<String>, String> {
    let options = match request.get("options") {
        None => return Ok(Vec::new()),
        Some(Value::Object(options)) => options.clone(),
        Some(other) => return Err(format!("options is {other}; it should be an object")),
    };
    if let Some(unknown) = options.keys().find(|name| !machine.options.contains(&name.as_str())) {
        return Err(format!(
            "{unknown} is not an option of a job for {}; there are {}",
            machine.name,
            machine.options.join(", ")
        ));
    }
    super::options(options)
}

/// The program, and what follows it.
fn split<'a>(request: &Map<String, Value>, files: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), String> {
    let length = match request.get("program_bytes") {
        None => files.len(),
        Some(length) => length
            .as_u64()
            .and_then(|length| usize::try_from(length).ok())
            .ok_or_else(|| format!("program_bytes is {length}; it should be a number of bytes"))?,
    };
    if length == 0 {
        return Err("no program follows the line of the job".into());
    }
    files.split_at_checked(length).ok_or_else(|| {
        format!("the job states a program of {length} bytes, and {} bytes follow its line", files.len())
    })
}

/// Waits for the binary and kills it if the job is cancelled: what it printed, what it said, its exit code.
fn finish(job: &Job, mut child: Child) -> Result<(String, String, Option<i32>), Failure> {
    let (mut printed, mut said) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let printed = scope.spawn(move || text(&mut printed));
        let said = scope.spawn(move || text(&mut said));
        let status = loop {
            if job.cancelled() {
                child.kill().and_then(|()| child.wait()).map_err(of_this_machine)?;
                return Err(Failure::stopped());
            }
            match child.try_wait().map_err(of_this_machine)? {
                Some(status) => break status,
                None => sleep(GLANCE),
            }
        };
        Ok((printed.join().unwrap_or_default(), said.join().unwrap_or_default(), status.code()))
    })
}

fn text(stream: &mut Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before a failure is still worth showing.
        let _ = stream.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A folder for one job, removed with all that is in it. The job's input may be secret: only this user can look into
/// it, and nobody can guess its name and make it first.
///
/// A worker that is killed leaves its folder behind. So a folder holds a file that its worker has locked, and the
/// system unlocks when the worker ends: the next worker removes folders with a file that nobody has locked ([`sweep`]).
struct Folder {
    path: PathBuf,
    _lock: File,
}

/// The prefix of the folders' names.
const PREFIX: &str = "rigel-worker-";
/// The file that is locked.
const LOCK: &str = "lock";

impl Folder {
    fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{:032x}", rand::random::<u128>()));
        // Fails if it is there: nobody else's folder is used.
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        // It gets its name when it is locked, so that nobody finds it unlocked before.
        let lock = File::create_new(path.join("new"))?;
        lock.lock()?;
        fs::rename(path.join("new"), path.join(LOCK))?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all::<&Path>(&self.path);
    }
}

/// Removes what workers of this user have left that were killed in the middle of a job. Returns how many there were.
pub fn sweep() -> usize {
    sweep_within(&std::env::temp_dir())
}

fn sweep_within(parent: &Path) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    let left = |path: &Path| {
        // Neither links nor folders of others: their files can't be opened, or are not ours to remove.
        let ours = fs::symlink_metadata(path).is_ok_and(|about| {
            // SAFETY: it reads a number of this process.
            about.is_dir() && about.uid() == unsafe { libc::geteuid() }
        });
        ours && File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)))
        .filter(|path| left(path) && fs::remove_dir_all(path).is_ok())
        .count()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn request(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn options_that_name_files_are_refused() {
        let [cairo, risc0] = &MACHINES;
        let asked = request(r#"{"options": {"args": "1,2", "queries": 3}}"#);
        assert_eq!(options(cairo, &asked).unwrap(), ["--args=1,2", "--queries=3"]);
        for (machine, asked) in [
            (cairo, r#"{"options": {"output": "/tmp/x"}}"#),
            (cairo, r#"{"options": {"prover_input": "/etc/passwd"}}"#),
            (risc0, r#"{"options": {"stdin": "/etc/passwd"}}"#),
            (risc0, r#"{"options": {"args": "1"}}"#),
        ] {
            assert!(
                options(machine, &request(asked)).unwrap_err().contains("is not an option of a job"),
                "{asked}"
            );
        }
        assert!(options(cairo, &request(r#"{"options": []}"#)).is_err());
    }

    #[test]
    fn a_folder_is_for_this_user_and_goes_with_its_job() {
        let folder = Folder::new().unwrap();
        let path = folder.path.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_ne!(Folder::new().unwrap().path, path);
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_worker_has_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Folder::within(parent.path()).unwrap();
        let killed = Folder::within(parent.path()).unwrap();
        fs::write(killed.path.join("input"), "secret").unwrap();
        let path = killed.path.clone();
        // The system closes the files of a process that is killed, and runs nothing of it.
        let Folder { _lock: lock, .. } = &killed;
        lock.unlock().unwrap();
        std::mem::forget(killed);
        let other = parent.path().join("rigel-worker-of-somebody-else");
        fs::create_dir(&other).unwrap();
        assert_eq!(sweep_within(parent.path()), 1);
        assert!(!path.exists() && alive.path.join(LOCK).exists() && other.exists());
        assert_eq!(sweep_within(parent.path()), 0);
    }

    #[test]
    fn the_program_ends_where_the_job_says() {
        let files = b"programinput";
        assert_eq!(split(&request("{}"), files), Ok((&files[..], &b""[..])));
        assert_eq!(split(&request(r#"{"program_bytes": 7}"#), files), Ok((&b"program"[..], &b"input"[..])));
        for asked in [r#"{"program_bytes": 13}"#, r#"{"program_bytes": -1}"#, r#"{"program_bytes": 0}"#] {
            assert!(split(&request(asked), files).is_err(), "{asked}");
        }
        assert!(split(&request("{}"), b"").is_err());
    }
}

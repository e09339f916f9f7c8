//! `rigel doctor`: the available devices, their speed, and what to fix.

mod report;
mod text;

use std::path::Path;
use std::time::{Duration, Instant};

use rigel_gpu::testing::chains::{Effort, check};
use rigel_gpu::{
    Cache, Device, DeviceKind, Emulation, Error, Options, Result, Selector, Source, Stream, Topology,
    cublas_status, cuda_status, host_compiler,
};

use crate::bandwidth::{Way, milliseconds};
use crate::terminal::{Progress, without_options};
use report::{Bandwidth, CacheReport, CudaReport, DeviceReport, Finding, Peers, Report, Variable};

#[derive(clap::Args)]
pub struct Arguments {
    /// The device to examine: auto, cuda:N, emulated, emulated:N or none [default: RIGEL_DEVICE, or auto]
    #[arg(long)]
    device: Option<Selector>,
}

/// Prints the report. Returns whether the requested device is usable.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool> {
    let report = examine(arguments.device);
    if json {
        let json = serde_json::to_string_pretty(&report).expect("the report holds strings and finite numbers");
        println!("{json}");
    } else {
        print!("{}", text::render(&report));
    }
    Ok(report.usable)
}

fn examine(asked: Option<Selector>) -> Report {
    let progress = Progress::new();
    progress.say("looking for devices …");
    let asked = asked.map_or_else(Selector::from_env, Ok);
    let mut report = survey(&asked);
    let opened = asked.and_then(|asked| open(asked, &mut report));
    let device = match opened {
        Ok(device) => device,
        Err(error) => {
            report.problems.push(error.to_string());
            return report;
        }
    };
    report.chosen = Some(device.to_string());
    let known = report.devices.iter_mut().find(|known| known.device == device.to_string());
    let described = DeviceReport::new(device.properties(), Some(&device));
    match known {
        Some(known) => *known = described,
        None => report.devices.push(described),
    }

    progress.say("compiling and running a kernel …");
    let check = device.compute().and_then(|stream| compile_and_run(&stream));
    if let Err(error) = &check {
        report.problems.push(error.to_string());
    }
    report.kernel_check = Some(check.into());
    if let Some(problem) = device.cache().stats().problem {
        report.notes.push(format!("the kernel cache is not writable: {problem}"));
    }

    progress.say("measuring bandwidths …");
    match bandwidths(&device) {
        Ok(bandwidths) => report.bandwidths = bandwidths,
        Err(error) => report.problems.push(error.to_string()),
    }
    progress.say("measuring links …");
    match peers(&device) {
        Ok(peers) => report.peers = Some(peers),
        Err(error) => report.notes.push(format!("the links between devices could not be measured: {error}")),
    }
    // Last, because a driver that spoils them may take the device down. Without kernels there is nothing to gather.
    if report.kernel_check.as_ref().is_some_and(|check| check.ok) {
        progress.say("running gathered launches …");
        let check = gathered(&device);
        if let Err(error) = &check {
            report.problems.push(error.to_string());
        }
        report.gathered = Some(check.into());
    }
    report.usable = report.problems.is_empty();
    report
}

/// Runs launches that are submitted together, for about a second, and compares their results.
fn gathered(device: &Device) -> Result<String> {
    let chains = Options::from_env()?.chains;
    let effort = match device.kind() {
        DeviceKind::Cuda => Effort { threads: 24, depths: 10, rounds: 1, time: Duration::from_millis(100) },
        // Kernels take the host's compiler long, and launches are run one by one.
        DeviceKind::Emulated => Effort { threads: 2, depths: 1, rounds: 10, time: Duration::ZERO },
    };
    let began = Instant::now();
    let before = device.activity();
    match check(device, effort) {
        Ok(rounds) => {
            let after = device.activity();
            let (launches, calls) = (after.launches - before.launches, after.submissions - before.submissions);
            let seconds = began.elapsed().as_secs_f64();
            let off = if chains { "" } else { "; chains are off (RIGEL_CHAINS)" };
            Ok(format!(
                "right results in {rounds} rounds: {launches} launches in {calls} submissions, {seconds:.1} s{off}"
            ))
        }
        Err(error @ (Error::Fault { .. } | Error::Driver { .. } | Error::DeviceLost { .. })) if chains => {
            Err(Error::Driver {
                device: device.to_string(),
                operation: "submitting launches together",
                detail: format!(
                    "{error}. The driver ({}) may spoil graphs of kernels; set RIGEL_CHAINS=off and run rigel \
                     doctor again, and use another driver if that helps",
                    device.properties().driver
                ),
            })
        }
        // A compiler that fails, or memory that is short, says itself what to do.
        Err(error) => Err(error),
    }
}

/// Reports everything that can be found without opening the requested device.
fn survey(asked: &Result<Selector>) -> Report {
    let status = cuda_status();
    let show = |path: std::path::PathBuf| path.display().to_string();
    let cuda = Device::list().into_iter().map(|properties| {
        let device = Device::open(Selector::Cuda(properties.ordinal)).ok();
        DeviceReport::new(&properties, device.as_ref())
    });
    let emulated = Device::open(Selector::Emulated(0)).ok();
    let emulated = emulated.map(|device| DeviceReport::new(device.properties(), Some(&device)));
    Report {
        rigel: env!("CARGO_PKG_VERSION"),
        asked: match asked {
            Ok(selector) => selector.to_string(),
            Err(_) => std::env::var("RIGEL_DEVICE").unwrap_or_default(),
        },
        chosen: None,
        usable: false,
        devices: cuda.chain(emulated).collect(),
        cuda: CudaReport {
            driver: status.driver.map(show).into(),
            version: status.version.into(),
            devices: status.devices.into(),
            peer_copies: status.peer_copies.into(),
            nvrtc: status.nvrtc.map(show).into(),
            nvrtc_version: status.nvrtc_version.into(),
            cublas: cublas_status().map(|found| format!("{}, {}", found.version, show(found.path))).into(),
        },
        host_compiler: host_compiler().into(),
        cache: cache_report(),
        environment: environment(),
        kernel_check: None,
        gathered: None,
        bandwidths: Vec::new(),
        peers: None,
        problems: Vec::new(),
        notes: Vec::new(),
    }
}

/// Opens the requested device. `auto` uses the emulated one if there is no CUDA device, with a note.
fn open(asked: Selector, report: &mut Report) -> Result<Device> {
    match Device::open(asked) {
        Err(error @ Error::Unavailable { .. }) if asked == Selector::Auto => {
            let device = Device::open(Selector::Emulated(0))?;
            report.notes.push(error.to_string());
            if let (false, Some(advice)) = (report.cuda.nvrtc.ok, &report.cuda.nvrtc.advice) {
                report.notes.push(format!("NVRTC is missing as well. {advice}"));
            }
            Ok(device)
        }
        opened => opened,
    }
}

/// Squares a few numbers on the device.
fn compile_and_run(stream: &Stream) -> Result<String> {
    const TEXT: &str = "__global__ void square(unsigned *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= x[i];
}";
    let device = stream.device();
    let start = Instant::now();
    let compiled = device.cache().stats().compiled;
    // SAFETY: each thread changes one element below the length that it is given.
    let source = unsafe { Source::new("doctor.cu", TEXT) }.kernel("square");
    let square = device.compile(&source)?.kernel("square")?;
    let made = if device.cache().stats().compiled > compiled { "compiled" } else { "loaded from the cache" };
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let numbers: Vec<u32> = (0..1000).collect();
    let mut values = stream.upload(&numbers)?;
    square.launch(stream, square.cover(numbers.len())?, (&mut values, numbers.len() as u32))?;
    let squares = values.to_vec(stream)?;
    match numbers.iter().zip(&squares).find(|(n, square)| *n * *n != **square) {
        None => {
            let compiler = device.compiler()?;
            let compiler = without_options(&compiler);
            Ok(format!("{made} in {milliseconds:.0} ms with {compiler}; right result"))
        }
        Some((n, square)) => Err(Error::Fault {
            kernel: "square".into(),
            detail: format!("{device} computed {n} squared as {square}; its results can't be trusted"),
        }),
    }
}

fn bandwidths(device: &Device) -> Result<Vec<Bandwidth>> {
    let stream = device.compute()?;
    let bytes = sample_bytes(device);
    let measure = |way: Way| {
        let rate = way.traffic(bytes) / milliseconds(&stream, way, bytes, 5)? / 1e6;
        Ok(Bandwidth { way: way.name(), gigabytes_per_second: rate })
    };
    Way::ALL.into_iter().map(measure).collect()
}

/// The links between all devices of the chosen one's kind.
fn peers(device: &Device) -> Result<Peers> {
    let bytes = sample_bytes(device);
    let options = Options::from_env()?;
    let devices = match device.kind() {
        DeviceKind::Cuda => Device::all_cuda(&options)?,
        DeviceKind::Emulated => Device::emulated(&Emulation::from_env()?, &options)?,
    };
    let topology = Topology::measure(&devices, bytes)?;
    Ok(Peers::new(&devices, &topology.links, &topology.gigabytes_per_second))
}

/// Large enough to hide the cost of starting a copy, small enough to take little time.
fn sample_bytes(device: &Device) -> usize {
    match device.kind() {
        DeviceKind::Cuda => 256 << 20,
        DeviceKind::Emulated => 16 << 20,
    }
}

fn cache_report() -> CacheReport {
    let folder = Cache::default_folder();
    let writable = folder.as_deref().is_some_and(writable);
    let cache = Cache::new(folder);
    let (entries, bytes) = cache.size();
    CacheReport { folder: cache.folder().map(|folder| folder.display().to_string()), entries, bytes, writable }
}

fn writable(folder: &Path) -> bool {
    let probe = folder.join(format!("doctor-{}.part", std::process::id()));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&probe, b"probe"));
    let _ = std::fs::remove_file(&probe);
    written.is_ok()
}

fn environment() -> Vec<Variable> {
    const VARIABLES: [(&str, &str); 12] = [
        ("RIGEL_DEVICE", "the device to use; auto if not set"),
        ("RIGEL_CACHE", "the folder of compiled kernels, or off"),
        ("RIGEL_CACHE_LIMIT", "the most bytes in that folder, such as 2GiB"),
        ("RIGEL_INTERPRET", "whether proofs wait for compilers: never, until-compiled or always interpreted"),
        ("RIGEL_EMULATED", "how the emulated device is set up"),
        ("RIGEL_MEMORY_LIMIT", "the most bytes of device memory to take"),
        ("RIGEL_POOL", "arena, or direct to see each buffer's bounds in compute-sanitizer"),
        ("RIGEL_LAUNCH", "occupancy, or the number of threads of a block"),
        ("RIGEL_CHAINS", "on, or off to launch one by one what is gathered"),
        ("RIGEL_NVRTC", "where NVRTC is"),
        ("RIGEL_CUBLAS", "where cuBLAS is"),
        ("RIGEL_TEST_DEVICES", "the devices that tests run on"),
    ];
    let read = |(name, meaning)| Variable { name, value: std::env::var(name).ok(), meaning };
    VARIABLES.into_iter().map(read).collect()
}

impl Finding {
    /// The detail if the item was found, `None` if it is missing.
    fn found(&self) -> Option<&str> {
        self.ok.then_some(self.detail.as_str())
    }
}

#[cfg(test)]
mod tests {
    use rigel_gpu::testing::faults::{Call, Injection};

    use super::*;

    #[test]
    fn a_driver_that_spoils_gathered_launches_is_named_with_what_to_do() {
        let options = Options { chains: true, ..Options::from_env().unwrap() };
        let (device, faults) = Injection::over(Selector::Emulated(0), options).unwrap().open();
        let found = gathered(&device).unwrap();
        assert!(found.contains("right results"), "{found}");
        faults.swallow(Call::Chain, 1);
        let error = gathered(&device).unwrap_err().to_string();
        assert!(error.contains("wrong values") && error.contains("RIGEL_CHAINS=off"), "{error}");
    }

    #[test]
    fn a_driver_is_not_blamed_for_memory_that_is_short() {
        let options = Options { chains: true, memory_limit: Some(1), ..Options::from_env().unwrap() };
        let (device, _) = Injection::over(Selector::Emulated(0), options).unwrap().open();
        let error = gathered(&device).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    }
}

//! The report as text.

use rigel_gpu::Bytes;

use super::report::{CudaReport, DeviceReport, Finding, Peers, Report};
use crate::terminal::{Align, Columns, Paint, number, wrap};

const INDENT: &str = "  ";
/// The column at which sentences are wrapped.
const WIDTH: usize = 100;

pub fn render(report: &Report) -> String {
    let mut out = format!("Rigel {}, device {}\n", report.rigel, asked(report));
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            out.push_str(&format!("\n{}\n{body}", Paint::Bold.on(title)));
        }
    };
    section("Devices", report.devices.iter().map(device).collect());
    section("CUDA", cuda(&report.cuda));
    section("Host compiler", facts([("C++ compiler", finding(&report.host_compiler))]));
    section("Kernel cache", cache(report));
    if let Some(check) = &report.kernel_check {
        section("A kernel, compiled and run", facts([("check", finding(check))]));
    }
    if let Some(check) = &report.gathered {
        section("Launches submitted together", facts([("check", finding(check))]));
    }
    section("Bandwidth", bandwidths(report));
    if let Some(peers) = &report.peers {
        section("Links between devices (GB/s)", peer_matrix(peers));
    }
    section("Environment", environment(report));
    section("Notes", list(&report.notes));
    section("To fix", list(&report.problems));
    out.push('\n');
    out.push_str(&verdict(report));
    out.push('\n');
    out
}

fn asked(report: &Report) -> String {
    match &report.chosen {
        Some(chosen) if *chosen != report.asked => format!("{} ({chosen})", report.asked),
        _ => report.asked.clone(),
    }
}

fn verdict(report: &Report) -> String {
    match (&report.chosen, report.usable) {
        (Some(chosen), true) if report.notes.is_empty() => {
            Paint::Good.on(&format!("All good: {chosen} is ready."))
        }
        (Some(chosen), true) => Paint::Good.on(&format!("Usable: {chosen} is ready.")),
        _ => Paint::Bad.on(&format!("Not usable: {}.", report.asked)),
    }
}

/// Names and their findings, one per line.
fn facts<'a>(lines: impl IntoIterator<Item = (&'a str, (String, Paint))>) -> String {
    let mut columns = Columns::new(&[Align::Left, Align::Left]);
    for (name, (value, paint)) in lines {
        for (i, line) in wrap(&value, WIDTH).into_iter().enumerate() {
            let name = if i == 0 { name } else { "" };
            columns.painted_row([(name.to_string(), Paint::Plain), (line, paint)]);
        }
    }
    columns.to_text(INDENT)
}

fn finding(finding: &Finding) -> (String, Paint) {
    // The first line is enough; a compiler's whole log is in the problems below.
    let first = finding.detail.lines().next().unwrap_or_default();
    if finding.ok { (first.to_string(), Paint::Plain) } else { (format!("missing: {first}"), Paint::Bad) }
}

fn device(device: &DeviceReport) -> String {
    let memory = match device.free_bytes {
        Some(free) => format!("{} free of {}", Bytes(free), Bytes(device.memory_bytes)),
        None => Bytes(device.memory_bytes).to_string(),
    };
    let details = match &device.capability {
        Some(capability) => format!(
            "compute capability {capability}, {} multiprocessors, {} L2 cache, driver {}",
            device.multiprocessors,
            Bytes(device.l2_bytes),
            device.driver
        ),
        None => format!("{} workers, {}", device.multiprocessors, device.driver),
    };
    let name = Paint::Bold.on(&device.name);
    format!("{INDENT}{}  {name}\n{INDENT}  {details}\n{INDENT}  memory {memory}\n", device.device)
}

fn cuda(cuda: &CudaReport) -> String {
    let with_version = |path: &Finding, version: &Finding, words: &str| match (path.found(), version.found()) {
        (Some(path), Some(version)) => (format!("{words}{version}, {path}"), Paint::Plain),
        (Some(_), None) => finding(version),
        (None, _) => finding(path),
    };
    let driver = with_version(&cuda.driver, &cuda.version, "CUDA ");
    let nvrtc = with_version(&cuda.nvrtc, &cuda.nvrtc_version, "");
    if !cuda.driver.ok {
        return facts([("driver", driver), ("NVRTC", nvrtc)]);
    }
    let cublas = finding(&cuda.cublas);
    facts([
        ("driver", driver),
        ("devices", finding(&cuda.devices)),
        ("between devices", finding(&cuda.peer_copies)),
        ("NVRTC", nvrtc),
        ("cuBLAS", cublas),
    ])
}

fn cache(report: &Report) -> String {
    let cache = &report.cache;
    let Some(folder) = &cache.folder else {
        return format!("{INDENT}off: kernels are compiled again in each process\n");
    };
    let state =
        if cache.writable { ("writable".to_string(), Paint::Plain) } else { ("not writable".into(), Paint::Bad) };
    let content = format!("{} modules, {}", cache.entries, Bytes(cache.bytes as usize));
    facts([("folder", (folder.clone(), Paint::Plain)), ("content", (content, Paint::Plain)), ("state", state)])
}

fn bandwidths(report: &Report) -> String {
    let mut columns = Columns::new(&[Align::Left, Align::Right, Align::Left]);
    for bandwidth in &report.bandwidths {
        columns.row(Paint::Plain, [bandwidth.way, &number(bandwidth.gigabytes_per_second), "GB/s"]);
    }
    columns.to_text(INDENT)
}

fn peer_matrix(peers: &Peers) -> String {
    let mut align = vec![Align::Left];
    align.extend(peers.devices.iter().map(|_| Align::Right));
    let mut columns = Columns::new(&align);
    columns.row(Paint::Dim, std::iter::once("from \\ to").chain(peers.devices.iter().map(String::as_str)));
    for (from, name) in peers.devices.iter().enumerate() {
        let cells = peers.links[from].iter().zip(&peers.gigabytes_per_second[from]);
        let cells = cells.map(|(link, rate)| format!("{link} {}", number(*rate)));
        columns.row(Paint::Plain, std::iter::once(name.clone()).chain(cells));
    }
    columns.to_text(INDENT)
}

fn environment(report: &Report) -> String {
    let mut columns = Columns::new(&[Align::Left, Align::Left, Align::Left]);
    for variable in &report.environment {
        let value = match &variable.value {
            Some(value) => (format!("{value:?}"), Paint::Bold),
            None => ("not set".to_string(), Paint::Dim),
        };
        let (name, meaning) = (variable.name.to_string(), variable.meaning.to_string());
        columns.painted_row([(name, Paint::Plain), value, (meaning, Paint::Dim)]);
    }
    columns.to_text(INDENT)
}

fn list(items: &[String]) -> String {
    items.iter().map(|item| format!("{INDENT}- {}\n", wrap(item, WIDTH).join("\n    "))).collect()
}

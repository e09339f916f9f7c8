//! Detects data races: runs a grid in a child process under ThreadSanitizer, on the same device memory.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::compiler::{Folder, io};
use super::module::parameter;
use super::region::Region;
use crate::base::{Error, Result};
use crate::drivers::{Grid, Image, Parameter};

/// A program made of kernels and `shim/threads.cpp`.
pub(super) struct RaceProgram {
    folder: Folder,
    /// The parameters of each kernel.
    pub(super) parameters: Vec<Vec<Parameter>>,
}

impl RaceProgram {
    pub(super) fn load(name: &str, image: &Image) -> Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(failed(name, "race detection needs an x86_64 machine".into()));
        }
        let folder = Folder::new()?;
        // A real file: ThreadSanitizer opens it to find source lines.
        let path = folder.0.join("image");
        std::fs::write(&path, &image.binary).map_err(|error| io(&path, &error))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))
            .map_err(|error| io(&path, &error))?;
        let mut program = Self { folder, parameters: Vec::new() };
        let output = program.command().output().map_err(|error| io(&path, &error))?;
        if !output.status.success() {
            return Err(failed(name, String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let parameters = |line: &str| -> Option<Vec<Parameter>> {
            let numbers =
                line.split_whitespace().map(|number| number.parse().ok()).collect::<Option<Vec<u32>>>()?;
            numbers.chunks_exact(2).map(|pair| parameter(pair[0], u64::from(pair[1]))).collect()
        };
        let listed: Option<Vec<_>> = text.lines().map(parameters).collect();
        program.parameters =
            listed.ok_or_else(|| failed(name, format!("{text:?} is not a list of parameters")))?;
        Ok(program)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.folder.0.join("image"));
        command.env("TSAN_OPTIONS", "halt_on_error=1:exitcode=66:report_signal_unsafe=0");
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(|| {
                // With address randomisation, mappings may collide with ThreadSanitizer's shadow memory.
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                Ok(())
            })
        };
        command
    }

    /// Runs kernel `number`. A fault of the kernel is an [`Error::Fault`].
    pub(super) fn launch(
        &self,
        name: &str,
        number: usize,
        grid: Grid,
        parameters: &[u8],
        region: &Region,
    ) -> Result<()> {
        let memory = region.file().expect("the region of a device that runs threads is a file").as_raw_fd();
        let mut command = self.command();
        command.arg(number.to_string());
        command.args(grid.blocks.iter().chain(&grid.threads).chain([&grid.shared]).map(u32::to_string));
        command.args([memory.to_string(), region.base.to_string(), region.bytes.to_string()]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: between fork and exec only a system call is made, on a descriptor that is open here.
        unsafe {
            command.pre_exec(move || match libc::fcntl(memory, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            })
        };
        let path = self.folder.0.join("image");
        let mut child = command.spawn().map_err(|error| io(&path, &error))?;
        if let Some(mut input) = child.stdin.take() {
            // If the child has already exited, its own message says why.
            let _ = input.write_all(parameters);
        }
        let output = child.wait_with_output().map_err(|error| io(&path, &error))?;
        if output.status.success() {
            return Ok(());
        }
        let report = String::from_utf8_lossy(&output.stderr);
        let detail = race(&report).or_else(|| said(&report)).unwrap_or_else(|| report.trim().to_owned());
        match output.status.code() {
            Some(66..=68) => Err(Error::Fault { kernel: name.to_owned(), detail }),
            _ => Err(failed(name, format!("{detail} ({})", output.status))),
        }
    }
}

fn failed(name: &str, detail: String) -> Error {
    Error::Driver {
        device: "emulated".into(),
        operation: "looking for races",
        detail: format!("{name}: {detail}"),
    }
}

/// The message of the harness itself.
fn said(report: &str) -> Option<String> {
    report.lines().find_map(|line| line.strip_prefix("rigel: ")).map(str::to_owned)
}

/// The two accesses of ThreadSanitizer's report, in one line: "data race: in block (0, 0, 0), thread (1, 0, 0)
/// writes 4 bytes at sum.cu:7, thread (0, 0, 0) reads 4 bytes at sum.cu:9".
fn race(report: &str) -> Option<String> {
    report.lines().find(|line| line.contains("WARNING: ThreadSanitizer: data race"))?;
    // "  Thread T3 '(2, 0, 0)' (tid=17, running) created by main thread at:"
    let names: HashMap<&str, &str> = report
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Thread ")?.split_once(" '"))
        .filter_map(|(thread, rest)| Some((thread, rest.split_once('\'')?.0)))
        .collect();
    let mut accesses = Vec::new();
    let mut lines = report.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        // "Previous atomic write of size 4 at 0x1000 by thread T3:"
        let Some((what, rest)) = line.split_once(" of size ") else { continue };
        let Some((bytes, by)) = rest.split_once(" at ").filter(|(_, by)| by.contains(" by ")) else { continue };
        let what = what.to_lowercase();
        let verb = if what.contains("write") { "writes" } else { "reads" };
        let atomically = if what.contains("atomic") { " atomically" } else { "" };
        let thread = by.split("thread ").nth(1).map_or("", |rest| rest.trim_end_matches(':'));
        let thread = thread.split(' ').next().unwrap_or(thread);
        let mut place = "an unknown place";
        while let Some(frame) = lines.next_if(|frame| frame.starts_with('#')) {
            // "#0 void sum<unsigned>(unsigned*) sum.cu:7 (image+0x12ab) (BuildId: 34cd)", the last from newer
            // compilers
            let frame = frame.split(" (image").next().unwrap_or(frame);
            let file = frame.rsplit_once(' ').map_or(frame, |(_, file)| file);
            if place == "an unknown place" && !file.contains("rigel_emulated/") && file.contains(':') {
                place = file.rsplit_once('/').map_or(file, |(_, file)| file);
            }
        }
        let name = names.get(thread).copied().unwrap_or(thread);
        accesses.push(format!("thread {name} {verb} {bytes} bytes{atomically} at {place}"));
    }
    let block = report.lines().find_map(|line| line.strip_prefix("rigel: ")).unwrap_or("in a block");
    Some(format!("data race: {block}, {}", accesses.join(", ")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_report_becomes_a_line() {
        let report = "rigel: in block (0, 0, 0)\n\
            WARNING: ThreadSanitizer: data race (pid=1)\n\
            \x20 Atomic write of size 4 at 0x10 by thread T2:\n\
            \x20   #0 atomicAdd(unsigned*, unsigned) text/rigel_emulated/intrinsics.h:9 (image+0x1)\n\
            \x20   #1 k(unsigned*) k.cu:7 (image+0x1) (BuildId: 2)\n\n\
            \x20 Previous read of size 4 at 0x10 by thread T1:\n\
            \x20   #0 k(unsigned*) k.cu:9 (image+0x1)\n\n\
            \x20 Thread T2 '(1, 0, 0)' (tid=4, running) created by main thread at:\n";
        assert_eq!(
            super::race(report).unwrap(),
            "data race: in block (0, 0, 0), thread (1, 0, 0) writes 4 bytes atomically at k.cu:7, \
             thread T1 reads 4 bytes at k.cu:9"
        );
        assert_eq!(super::race("all is well"), None);
    }
}

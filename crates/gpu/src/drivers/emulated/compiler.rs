//! Compiles kernels with the host's C++ compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::emulation::Execution;
use super::rewrite::{Untranslatable, rewrite};
use crate::base::{Error, Result};
use crate::drivers::{Image, Unit};

const DEVICE: &str = include_str!("shim/device.h");
const CHECKS: &str = include_str!("shim/checks.h");
const INTRINSICS: &str = include_str!("shim/intrinsics.h");
const THREADS: &str = include_str!("shim/threads.cpp");

/// The flags of every compilation.
const FLAGS: &[&str] = &[
    "-x",
    "c++",
    "-std=c++17",
    "-w",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-fvisibility=hidden",
];
/// The compiler's options for libraries. With stack clash protection a large frame touches each of its pages, so
/// it can't skip the guard page of a fiber's stack. More optimisation takes longer to compile than it saves.
const LIBRARY: &[&str] = &["-O1", "-fPIC", "-shared", "-fstack-clash-protection"];
const RACES: &[&str] = &["-O1", "-g", "-fsanitize=thread", "-pthread"];
/// Precedes each access by a call such as `__asan_load4_noabort`, and keeps accesses unmerged.
const CHECKED: &[&str] = &["-fsanitize=kernel-address", "-fno-tree-vectorize", "-fno-tree-slp-vectorize"];
const CHECKED_GCC: &[&str] = &[
    "--param",
    "asan-instrumentation-with-call-threshold=0",
    "--param",
    "asan-stack=0",
    "--param",
    "asan-globals=0",
    "-fno-store-merging",
    "-fno-tree-loop-distribute-patterns",
];
const CHECKED_CLANG: &[&str] = &[
    "-mllvm",
    "-asan-instrumentation-with-call-threshold=0",
    "-mllvm",
    "-asan-stack=0",
    "-mllvm",
    "-asan-globals=0",
    "-fno-vectorize",
    "-fno-slp-vectorize",
];

/// A compiler that was found on this machine.
#[derive(Clone, Debug)]
pub(super) struct Compiler {
    program: Vec<String>,
    /// The first line of its version output.
    pub(super) version: String,
}

impl Compiler {
    /// `$CXX`, or the first of `c++`, `g++` and `clang++` that runs.
    pub(super) fn find() -> Result<Self> {
        static FOUND: OnceLock<Result<Compiler>> = OnceLock::new();
        FOUND.get_or_init(Self::search).clone()
    }

    fn search() -> Result<Self> {
        let chosen = std::env::var("CXX").ok().filter(|text| !text.trim().is_empty());
        let candidates =
            chosen.map_or_else(|| ["c++", "g++", "clang++"].map(String::from).to_vec(), |one| vec![one]);
        for candidate in &candidates {
            let program: Vec<String> = candidate.split_whitespace().map(String::from).collect();
            let output = Command::new(&program[0]).args(&program[1..]).arg("--version").output();
            if let Ok(output) = output
                && output.status.success()
            {
                let text = String::from_utf8_lossy(&output.stdout);
                return Ok(Self { program, version: text.lines().next().unwrap_or("unknown").to_owned() });
            }
        }
        Err(Error::NoCompiler {
            compiler: "a C++ compiler",
            reason: format!("tried {}", candidates.join(", ")),
            advice: "Install g++ or clang++, or set CXX".into(),
        })
    }

    fn is_clang(&self) -> bool {
        self.version.contains("clang")
    }

    fn flags(&self, checked: bool, execution: Execution) -> Vec<&'static str> {
        let mut flags = FLAGS.to_vec();
        match execution {
            Execution::Threads => flags.extend([RACES, &["-DRIGEL_THREADS=1", "-DRIGEL_CHECKED=0"]].concat()),
            Execution::Fibers => {
                flags.extend(LIBRARY);
                flags.push("-DRIGEL_THREADS=0");
                flags.push(if checked { "-DRIGEL_CHECKED=1" } else { "-DRIGEL_CHECKED=0" });
                if !self.is_clang() {
                    // Otherwise the loader would share static variables of templates between modules.
                    flags.push("-fno-gnu-unique");
                }
                if checked {
                    flags.extend(CHECKED);
                    flags.extend(if self.is_clang() { CHECKED_CLANG } else { CHECKED_GCC });
                }
            }
        }
        flags
    }

    /// Identifies everything that an image depends on besides its unit.
    pub(super) fn identity(&self, checked: bool, execution: Execution) -> String {
        let mut hash = Sha256::new();
        for text in [DEVICE, CHECKS, INTRINSICS, THREADS, include_str!("rewrite.rs"), include_str!("compiler.rs")]
        {
            hash.update(text);
        }
        let shim: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let flags = self.flags(checked, execution).join(" ");
        format!("{} for {}, shim {shim}, {flags}", self.version, std::env::consts::ARCH)
    }

    /// Compiles a unit to a shared library, or to a program that finds races.
    pub(super) fn compile(&self, unit: &Unit, checked: bool, execution: Execution) -> Result<Image> {
        let folder = Folder::new()?;
        let text = source(unit, checked && execution == Execution::Fibers)?;
        folder.write("text/rigel_emulated/device.h", DEVICE)?;
        folder.write("text/rigel_emulated/checks.h", CHECKS)?;
        folder.write("text/rigel_emulated/intrinsics.h", INTRINSICS)?;
        folder.write("text/rigel_emulated/unit.cpp", &text)?;
        // The compiler quotes source lines in its messages. It finds the original files by name in its directory.
        folder.write(&unit.name, &unit.text)?;
        for (name, header) in &unit.headers {
            folder.write(name, header)?;
            folder.write(&format!("text/{name}"), &named(name, &translated(unit, name, header)?))?;
        }

        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).args(self.flags(checked, execution)).current_dir(&folder.0);
        command.args(unit.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        command.args(["-Itext", "-o", "image", "text/rigel_emulated/unit.cpp"]);
        if execution == Execution::Threads {
            folder.write("text/rigel_emulated/threads.cpp", THREADS)?;
            command.arg("text/rigel_emulated/threads.cpp");
        }
        let output = command.output().map_err(|error| Error::NoCompiler {
            compiler: "a C++ compiler",
            reason: format!("{} can't be started: {error}", self.program[0]),
            advice: "Install g++ or clang++, or set CXX".into(),
        })?;
        if !output.status.success() {
            return Err(failure(unit, &output, &folder));
        }
        let image = folder.0.join("image");
        let binary = std::fs::read(&image).map_err(|error| io(&image, &error))?;
        let symbols = (0..unit.kernels.len()).map(|i| format!("rigel_kernel_{i}")).collect();
        Ok(Image { binary, symbols, signatures: Vec::new() })
    }
}

/// The complete source: the shim, the unit's text, and an entry for each kernel.
fn source(unit: &Unit, checked: bool) -> Result<String> {
    let mut text = String::from("#include \"rigel_emulated/device.h\"\n");
    if checked {
        text += "#include \"rigel_emulated/checks.h\"\n";
    }
    text += "#include \"rigel_emulated/intrinsics.h\"\n";
    text += &named(&unit.name, &translated(unit, &unit.name, &unit.text)?);
    for (i, kernel) in unit.kernels.iter().enumerate() {
        let place = format!("#line 1 {:?}\n", format!("kernel {kernel}"));
        text += &format!(
            "\n{place}extern \"C\" {{ RIGEL_UNCHECKED static void rigel_entry_{i}(void** arguments) \
             {{ ::rigel_emulated::call(&{kernel}, arguments); }} }}\n\
             {place}typedef decltype(::rigel_emulated::signature(&{kernel})) rigel_signature_{i};\n\
             {place}extern \"C\" {{ extern __attribute__((visibility(\"default\"))) \
             const ::rigel_emulated::Kernel rigel_kernel_{i}; \
             const ::rigel_emulated::Kernel rigel_kernel_{i} = {{ &rigel_entry_{i}, \
             rigel_signature_{i}::count, rigel_signature_{i}::sizes, rigel_signature_{i}::passing, \
             {kernel:?} }}; }}\n"
        );
    }
    let table: String = (0..unit.kernels.len()).map(|i| format!("&rigel_kernel_{i}, ")).collect();
    let count = unit.kernels.len();
    text += &format!(
        "\n#line 1 \"the table of kernels\"\n#if RIGEL_THREADS\n\
         extern \"C\" {{ extern const ::rigel_emulated::Kernel* const rigel_table[]; \
         const ::rigel_emulated::Kernel* const rigel_table[] = {{ {table} 0 }}; \
         extern const unsigned rigel_table_size; const unsigned rigel_table_size = {count}; }}\n#else\n\
         extern \"C\" __attribute__((visibility(\"default\"))) void \
         rigel_bind(const ::rigel_emulated::Runtime* runtime) {{ ::rigel_emulated::runtime = *runtime; }}\n\
         #endif\n"
    );
    Ok(text)
}

fn named(name: &str, text: &str) -> String {
    format!("#line 1 {name:?}\n{text}\n")
}

fn translated(unit: &Unit, file: &str, text: &str) -> Result<String> {
    rewrite(text).map_err(|Untranslatable { line, reason }| {
        let quoted = text.lines().nth(line - 1).unwrap_or_default();
        not_compiled(unit, format!("{file}:{line}: error: {reason}\n    {line} | {quoted}\n"))
    })
}

fn not_compiled(unit: &Unit, log: String) -> Error {
    Error::Compile { unit: unit.name.clone(), target: "the emulated device".into(), log }
}

fn failure(unit: &Unit, output: &Output, folder: &Folder) -> Error {
    let log = String::from_utf8_lossy(&output.stderr);
    let log = log.replace(&format!("{}/", folder.0.display()), "").replace("text/", "");
    if log.contains("tsan") && (log.contains("cannot find") || log.contains("unable to find")) {
        return Error::NoCompiler {
            compiler: "ThreadSanitizer",
            reason: log.trim().to_owned(),
            advice: "Install the compiler's sanitizer libraries (libtsan, or compiler-rt for clang)".into(),
        };
    }
    not_compiled(unit, log)
}

pub(super) fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), detail: error.to_string() }
}

/// A temporary folder that is removed when dropped.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let parent = std::env::temp_dir();
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("rigel-emulated-{}-{number}", std::process::id()));
            let mut builder = std::fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            match builder.create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(io(&path, &error)),
            }
        }
    }

    /// Writes a file in the folder.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let relative = Path::new(name);
        let plain = relative.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !plain || name.is_empty() {
            return Err(Error::shape("compile", format!("{name:?} is not a valid name for a source file")));
        }
        let path = self.0.join(relative);
        let parent = path.parent().unwrap_or(&self.0);
        std::fs::create_dir_all(parent).map_err(|error| io(parent, &error))?;
        std::fs::write(&path, text).map_err(|error| io(&path, &error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

//! Compiling CUDA C++ with NVRTC.
//!
//! Compiling needs no device: the architecture is an argument. Programs share no state, so any number of threads
//! can compile at the same time.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::ptr;
use std::str::FromStr;

use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};
use sha2::{Digest, Sha256};

use super::diagnostics;
use super::library::{self, Libnvrtc};
use super::signature;
use crate::base::{Error, Result};
use crate::drivers::{Image, Unit};

/// The options of every compilation. They are part of [`compiler`], and so of every cache key.
///
/// The shared headers have no `__device__` qualifiers, so functions default to device functions. With the environment
/// variable `RIGEL_LINE_INFO`, binaries have line numbers and profilers show the source. Without it they are a fifth of
/// the size, which a first proof reads and loads.
fn options() -> Vec<&'static str> {
    let mut options = vec!["-std=c++17", "-default-device"];
    options.extend(std::env::var_os("RIGEL_LINE_INFO").map(|_| "-lineinfo"));
    options
}

/// The target of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    /// The machine code of GPUs of one compute capability: `sm_90`.
    Machine((u32, u32)),
    /// PTX, NVIDIA's portable assembly: `compute_90`. Quicker to make, for checks that need no machine code.
    Portable((u32, u32)),
    /// Nothing: `syntax_90`. The compiler's front end alone, which finds all errors in CUDA C++ and none in assembly,
    /// and takes a tenth of the time.
    Syntax((u32, u32)),
}

impl Architecture {
    pub(super) fn capability(self) -> (u32, u32) {
        match self {
            Self::Machine(capability) | Self::Portable(capability) | Self::Syntax(capability) => capability,
        }
    }

    /// The options of NVRTC that select it.
    fn options(self) -> Vec<String> {
        match self {
            Self::Machine(_) | Self::Portable(_) => vec![format!("--gpu-architecture={self}")],
            Self::Syntax(capability) => {
                let target = Self::Portable(capability);
                vec![format!("--gpu-architecture={target}"), "--fdevice-syntax-only".into()]
            }
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine((major, minor)) => write!(f, "sm_{major}{minor}"),
            Self::Portable((major, minor)) => write!(f, "compute_{major}{minor}"),
            Self::Syntax((major, minor)) => write!(f, "syntax_{major}{minor}"),
        }
    }
}

impl FromStr for Architecture {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown =
            || Error::shape("architecture", format!("{text:?}; write `sm_90`, `compute_90` or `syntax_90`, say"));
        let (kind, number) = text.split_once('_').ok_or_else(unknown)?;
        let number: u32 = number.parse().map_err(|_| unknown())?;
        let capability = (number / 10, number % 10);
        match kind {
            "sm" => Ok(Self::Machine(capability)),
            "compute" => Ok(Self::Portable(capability)),
            "syntax" => Ok(Self::Syntax(capability)),
            _ => Err(unknown()),
        }
    }
}

/// Compiler, version, build, target and fixed options: `nvrtc 13.0 build 65be0db3… sm_90 -std=c++17 …`.
pub(super) fn compiler(architecture: Architecture) -> Result<String> {
    Ok(compiler_of(library::libnvrtc()?, architecture))
}

fn compiler_of(library: &Libnvrtc, architecture: Architecture) -> String {
    // Images hold what the signatures' text makes of a kernel.
    let signatures =
        Sha256::digest(signature::TEXT)[..4].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // Of what is only checked, the cache keeps that it passed: this check, as this file makes it.
    let check = match architecture {
        Architecture::Machine(_) => String::new(),
        Architecture::Portable(_) | Architecture::Syntax(_) => {
            let hash = Sha256::digest(include_str!("nvrtc.rs"));
            hash[..4].iter().fold(" check ".to_owned(), |text, byte| text + &format!("{byte:02x}"))
        }
    };
    // NVRTC tells its version without the patch release, which may compile the same text differently.
    let (version, build) = (library.version(), &library.build);
    let options = options().join(" ");
    format!("nvrtc {version} build {build} {architecture} {options} signatures {signatures}{check}")
}

/// Compiles a unit for one architecture: to a cubin, to PTX, or only through the front end.
pub(super) fn compile(unit: &Unit, architecture: Architecture) -> Result<Image> {
    let library = library::libnvrtc()?;
    let compilation = Compilation { unit, target: architecture, library };
    let program = compilation.create()?;
    let expressions = compilation.strings(unit.kernels.iter().map(String::as_str))?;
    let signatures: Vec<String> = unit.kernels.iter().map(|kernel| signature::expression(kernel)).collect();
    let signatures = compilation.strings(signatures.iter().map(String::as_str))?;
    for expression in expressions.iter().chain(&signatures) {
        // SAFETY: the program is live and not yet compiled, and the name is NUL-terminated.
        let code = unsafe { sys::nvrtcAddNameExpression(program.0, expression.as_ptr()) };
        compilation.check("nvrtcAddNameExpression", code)?;
    }
    compilation.run(&program)?;
    let symbols =
        expressions.iter().map(|expression| compilation.symbol(&program, expression)).collect::<Result<_>>()?;
    let signatures = unit.kernels.iter().zip(&signatures).map(|(kernel, expression)| {
        let symbol = compilation.symbol(&program, expression)?;
        signature::decode(&symbol).ok_or_else(|| {
            compilation
                .error(format!("the parameters of {kernel} can't be decoded from {symbol}; the maximum is 96"))
        })
    });
    let signatures = signatures.collect::<Result<_>>()?;
    let binary = match architecture {
        Architecture::Machine(_) => compilation.cubin(&program)?,
        // These are never loaded: that they compile is all that is asked.
        Architecture::Portable(_) | Architecture::Syntax(_) => Vec::new(),
    };
    Ok(Image { binary, symbols, signatures })
}

/// An NVRTC program that is destroyed when dropped.
struct Program(nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program came from nvrtcCreateProgram and is destroyed once.
        unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

/// The compilation of one unit. It holds the library, which makes NVRTC's calls available.
struct Compilation<'a> {
    unit: &'a Unit,
    target: Architecture,
    library: &'static Libnvrtc,
}

impl Compilation<'_> {
    fn create(&self) -> Result<Program> {
        let unit = self.unit;
        let text = self.string(&format!("{}\n{}", unit.text, signature::TEXT))?;
        let name = self.string(&unit.name)?;
        let names = self.strings(unit.headers.iter().map(|(name, _)| name.as_str()))?;
        let texts = self.strings(unit.headers.iter().map(|(_, text)| text.as_str()))?;
        let (names_at, texts_at) = (pointers(&names), pointers(&texts));
        let mut program = ptr::null_mut();
        // SAFETY: every string is NUL-terminated, both tables have one entry per header, and all outlive the call,
        // in which NVRTC copies them.
        let code = unsafe {
            sys::nvrtcCreateProgram(
                &mut program,
                text.as_ptr(),
                name.as_ptr(),
                names.len() as c_int,
                texts_at.as_ptr(),
                names_at.as_ptr(),
            )
        };
        self.check("nvrtcCreateProgram", code)?;
        Ok(Program(program))
    }

    fn run(&self, program: &Program) -> Result<()> {
        let mut options = self.target.options();
        options.extend(self::options().into_iter().map(String::from));
        options.extend(self.unit.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        options.extend(self.unit.options.iter().cloned());
        let options = self.strings(options.iter().map(String::as_str))?;
        let options_at = pointers(&options);
        // SAFETY: the program is live; the options are NUL-terminated, match the given count and outlive the call.
        let code = unsafe { sys::nvrtcCompileProgram(program.0, options_at.len() as c_int, options_at.as_ptr()) };
        match code {
            nvrtcResult::NVRTC_SUCCESS => Ok(()),
            nvrtcResult::NVRTC_ERROR_INVALID_OPTION if !self.is_target_known() => Err(Error::NoCompiler {
                compiler: "NVRTC",
                reason: format!(
                    "{} is version {}, which does not support {}",
                    self.library.path.display(),
                    self.library.version(),
                    self.target
                ),
                advice: "Install an NVRTC that does and set RIGEL_NVRTC; 12 is the last for sm_50 to sm_72".into(),
            }),
            code => {
                let log = self.log(program);
                if log.trim().is_empty() {
                    return self.check("nvrtcCompileProgram", code);
                }
                Err(self.error(diagnostics::with_source(&log, self.unit)))
            }
        }
    }

    fn is_target_known(&self) -> bool {
        let mut count = 0;
        // SAFETY: `count` outlives the call.
        if unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) } != nvrtcResult::NVRTC_SUCCESS {
            return true;
        }
        let mut known: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the table has as many entries as NVRTC reported.
        if unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) } != nvrtcResult::NVRTC_SUCCESS {
            return true;
        }
        let (major, minor) = self.target.capability();
        known.iter().any(|&architecture| u32::try_from(architecture) == Ok(10 * major + minor))
    }

    fn log(&self, program: &Program) -> String {
        let mut size = 0;
        // SAFETY: the program is live, and `size` outlives the call.
        if unsafe { sys::nvrtcGetProgramLogSize(program.0, &mut size) } != nvrtcResult::NVRTC_SUCCESS {
            return String::new();
        }
        let mut log = vec![0u8; size];
        // SAFETY: the buffer has the size that NVRTC reported, including the terminator.
        if unsafe { sys::nvrtcGetProgramLog(program.0, log.as_mut_ptr().cast()) } != nvrtcResult::NVRTC_SUCCESS {
            return String::new();
        }
        String::from_utf8_lossy(&log).trim_end_matches('\0').into()
    }

    fn symbol(&self, program: &Program, expression: &CStr) -> Result<String> {
        let mut symbol = ptr::null();
        // SAFETY: the program is compiled and live, and the expression is one of those added to it.
        let code = unsafe { sys::nvrtcGetLoweredName(program.0, expression.as_ptr(), &mut symbol) };
        self.check("nvrtcGetLoweredName", code)?;
        // SAFETY: on success NVRTC returns a NUL-terminated string that lives as long as the program.
        Ok(unsafe { CStr::from_ptr(symbol) }.to_string_lossy().into_owned())
    }

    fn cubin(&self, program: &Program) -> Result<Vec<u8>> {
        let mut size = 0;
        // SAFETY: the program is compiled and live, and `size` outlives the call.
        self.check("nvrtcGetCUBINSize", unsafe { sys::nvrtcGetCUBINSize(program.0, &mut size) })?;
        let mut cubin = vec![0u8; size];
        // SAFETY: the buffer has the size that NVRTC reported.
        self.check("nvrtcGetCUBIN", unsafe { sys::nvrtcGetCUBIN(program.0, cubin.as_mut_ptr().cast()) })?;
        Ok(cubin)
    }

    fn string(&self, text: &str) -> Result<CString> {
        CString::new(text)
            .map_err(|_| self.error("the source, a header, a name or an option contains a NUL byte".into()))
    }

    fn strings<'a>(&self, texts: impl Iterator<Item = &'a str>) -> Result<Vec<CString>> {
        texts.map(|text| self.string(text)).collect()
    }

    fn check(&self, operation: &str, code: nvrtcResult) -> Result<()> {
        if code == nvrtcResult::NVRTC_SUCCESS {
            return Ok(());
        }
        // SAFETY: NVRTC returns a constant, NUL-terminated string for every code.
        let words = unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(code)) };
        Err(self.error(format!("{operation}: {}", words.to_string_lossy())))
    }

    fn error(&self, log: String) -> Error {
        Error::Compile { unit: self.unit.name.clone(), target: self.target.to_string(), log }
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cubin;
    use super::*;

    const HOPPER: Architecture = Architecture::Machine((9, 0));

    /// Whether NVRTC is available; prints why a test is skipped if it is not.
    fn nvrtc() -> bool {
        match library::libnvrtc() {
            Ok(_) => true,
            Err(error) => {
                assert!(std::env::var_os("RIGEL_NVRTC").is_none(), "{error}");
                println!("skipped: {error}");
                false
            }
        }
    }

    fn unit(text: &str, kernels: &[&str]) -> Unit {
        Unit {
            name: "sample.cu".into(),
            text: text.into(),
            kernels: kernels.iter().map(|kernel| kernel.to_string()).collect(),
            ..Unit::default()
        }
    }

    fn log(error: Error) -> String {
        match error {
            Error::Compile { unit, target, log } => {
                assert_eq!((unit.as_str(), target.as_str()), ("sample.cu", "sm_90"));
                log
            }
            error => panic!("{error}"),
        }
    }

    const ADD: &str = "extern \"C\" __global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
";

    #[test]
    fn vectors_add() {
        if !nvrtc() {
            return;
        }
        let image = compile(&unit(ADD, &["add"]), HOPPER).unwrap();
        assert_eq!(image.symbols, ["add"]);
        assert_eq!(image.signatures, ["ccpv"]);
        assert!(cubin::is_whole(&image.binary));
        assert!(!cubin::is_whole(&image.binary[..image.binary.len() - 1]));
    }

    #[test]
    fn architectures_are_read_and_printed() {
        for text in ["sm_80", "sm_120", "compute_90"] {
            assert_eq!(text.parse::<Architecture>().unwrap().to_string(), text);
        }
        for text in ["sm90", "sm_", "gpu_90", "90"] {
            assert!(text.parse::<Architecture>().unwrap_err().to_string().contains("sm_90"));
        }
    }

    #[test]
    fn portable_code_is_checked_as_machine_code_is() {
        if !nvrtc() {
            return;
        }
        let portable: Architecture = "compute_90".parse().unwrap();
        assert_eq!(compile(&unit(ADD, &["add"]), portable).unwrap().signatures, ["ccpv"]);
        assert!(compile(&unit(&ADD.replace("c[i] =", "d[i] ="), &["add"]), portable).is_err());
    }

    #[test]
    fn templates_headers_and_definitions() {
        if !nvrtc() {
            return;
        }
        let text = "#include \"field.h\"
#ifndef EMPTY
#error EMPTY
#endif
template <class F> __global__ void fold(F* values) { values[threadIdx.x] = twice(values[threadIdx.x]) + F(TERM); }
";
        let header = "template <class F> F twice(F value) { return value + value; }\nstruct Tower {};\n";
        let mut unit = unit(text, &["fold<float>", "fold<unsigned>"]);
        unit.headers.push(("field.h".into(), header.into()));
        unit.defines.push(("TERM".into(), "(1 + 2)".into()));
        unit.defines.push(("EMPTY".into(), String::new()));
        unit.options.push("--use_fast_math".into());
        let image = compile(&unit, HOPPER).unwrap();
        assert_eq!(image.symbols, ["_Z4foldIfEvPT_", "_Z4foldIjEvPT_"]);
        assert_eq!(image.signatures, ["p", "p"]);
        assert!(cubin::is_whole(&image.binary));
    }

    #[test]
    fn an_error_shows_its_line() {
        if !nvrtc() {
            return;
        }
        let error = compile(&unit(&ADD.replace("c[i] =", "d[i] ="), &["add"]), HOPPER).unwrap_err();
        let log = log(error);
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines[0], "sample.cu(3): error: identifier \"d\" is undefined", "{log}");
        assert_eq!(lines[1].trim(), "if (i < n) d[i] = a[i] + b[i];", "{log}");
        assert_eq!(lines[2].find('^'), lines[1].find("d[i]"), "{log}");
    }

    #[test]
    fn a_kernel_that_is_not_there_is_an_error() {
        if !nvrtc() {
            return;
        }
        let log = log(compile(&unit(ADD, &["subtract"]), HOPPER).unwrap_err());
        assert!(log.contains("subtract"), "{log}");
    }

    #[test]
    fn bad_input_is_an_error() {
        if !nvrtc() {
            return;
        }
        let log_of = |unit: &Unit| log(compile(unit, HOPPER).unwrap_err());
        assert!(log_of(&unit("\0", &[])).contains("NUL"));
        let mut unknown_option = unit(ADD, &["add"]);
        unknown_option.options.push("--no-such-option".into());
        assert!(log_of(&unknown_option).contains("no-such-option"));
    }

    #[test]
    fn an_architecture_that_nvrtc_does_not_know_is_named() {
        if !nvrtc() {
            return;
        }
        let error = compile(&unit(ADD, &["add"]), Architecture::Machine((2, 0))).unwrap_err();
        assert!(matches!(&error, Error::NoCompiler { reason, .. } if reason.contains("sm_20")), "{error}");
    }

    #[test]
    fn threads_compile_at_once() {
        if !nvrtc() {
            return;
        }
        let images: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| compile(&unit(ADD, &["add"]), HOPPER).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(images.iter().all(|image| *image == images[0]));
    }

    #[test]
    fn builds_of_one_version_are_different_compilers() {
        let library =
            |build: &str| Libnvrtc { path: "libnvrtc.so.13".into(), version: (13, 0), build: build.into() };
        let compiler = |build| compiler_of(&library(build), HOPPER);
        assert_eq!(compiler("65be"), compiler("65be"));
        assert_ne!(compiler("65be"), compiler("1669"));
    }

    #[test]
    fn the_compiler_names_version_and_target() {
        if !nvrtc() {
            return;
        }
        let compiler = compiler(HOPPER).unwrap();
        let build = format!(" build {} sm_90 -std=c++17", library::libnvrtc().unwrap().build);
        assert!(compiler.starts_with("nvrtc 1") && compiler.contains(&build), "{compiler}");
    }
}

//! Compiles the shim with the headers of `risc0-circuit-rv32im-sys`, in the folder where cargo keeps that crate.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let upstream = upstream();
    let cxx = upstream.join("cxx");
    for file in ["compare.cpp", "hal.cpp", "hal.h", "operations.h", "prove.cpp", "record.cpp"] {
        println!("cargo:rerun-if-changed=shim/{file}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    embed(&cxx);
    let compile = |name: &str, optimisation: u32, files: &[PathBuf]| {
        cc::Build::new()
            .cpp(true)
            .debug(false)
            .warnings(false)
            .opt_level(optimisation)
            .flag("-std=c++17")
            .include("shim")
            .include(&cxx)
            .include(upstream.join("vendor"))
            .files(files)
            .compile(name);
    };
    // It runs once in a process, and would take minutes to optimise.
    compile("rigel_risc0_record", 0, &["shim/record.cpp".into()]);
    let shim = ["shim/compare.cpp", "shim/hal.cpp", "shim/prove.cpp"].map(PathBuf::from);
    compile("rigel_risc0_hal", 2, &[&shim[..], &[cxx.join("hal/dual/hal.cpp")]].concat());
}

/// Writes `upstream.rs`, which embeds the headers that the device's compiler gets: all that make the data columns.
fn embed(cxx: &Path) {
    let mut names = vec!["rv32im/circuit/data_witgen.h".to_string()];
    let mut next = 0;
    while let Some(name) = names.get(next) {
        let text = fs::read_to_string(cxx.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("#include \"")) {
            let included = line.split('"').next().unwrap_or_default().to_string();
            // The others are for upstream's CPU code.
            if included.starts_with("rv32im/") && !names.contains(&included) {
                names.push(included);
            }
        }
        next += 1;
    }
    let mut code = "/// Upstream's headers, by name.\nconst UPSTREAM: &[(&str, &str)] = &[\n".to_string();
    for name in &names {
        code += &format!("    ({name:?}, include_str!({:?})),\n", cxx.join(name));
    }
    code += "];\n";
    let out = env::var("OUT_DIR").expect("cargo sets it for build scripts");
    fs::write(Path::new(&out).join("upstream.rs"), code).expect("the folder can be written");
}

/// The folder of `risc0-circuit-rv32im-sys`, a dependency of this crate. Cargo checks the downloaded files.
fn upstream() -> PathBuf {
    let name = "risc0-circuit-rv32im-sys";
    let cargo = env::var_os("CARGO").expect("cargo sets it for build scripts");
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
    // For other platforms there are dependencies that this build has not downloaded.
    let target = env::var("TARGET").expect("cargo sets it for build scripts");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--filter-platform", &target, "--manifest-path"])
        .arg(Path::new(&manifest).join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    // The path of the crate's manifest; a JSON parser would be one more dependency of the build.
    let path = text.split("\"manifest_path\":\"").skip(1).find_map(|rest| {
        let path = rest.split('"').next()?;
        let folder = Path::new(path).parent()?;
        folder.file_name()?.to_str()?.starts_with(&format!("{name}-")).then(|| folder.to_path_buf())
    });
    path.unwrap_or_else(|| panic!("{name} is not among the dependencies"))
}

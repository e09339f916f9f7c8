//! Translates upstream's witness code, from the sources that cargo has downloaded, to kernels.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use rigel_cairo_translate::{Component, Inputs, input_words, translate};

/// The crate with the witness code.
const UPSTREAM: &str = "stwo-cairo-prover";

/// Components that others give inputs to.
const CHAINED: [&str; 14] = [
    "blake_g",
    "blake_round",
    "cube_252",
    "partial_ec_mul_generic",
    "partial_ec_mul_window_bits_18",
    "partial_ec_mul_window_bits_9",
    "pedersen_aggregator_window_bits_18",
    "pedersen_aggregator_window_bits_9",
    "poseidon_3_partial_rounds_chain",
    "poseidon_aggregator",
    "poseidon_full_round_chain",
    "range_check_252_width_27",
    "triple_xor_32",
    "verify_instruction",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let folder = upstream()?.join("src/witness/components");
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        names.push(path.file_stem().and_then(|stem| stem.to_str()).ok_or("a file without a name")?.to_string());
    }
    names.sort();

    let mut uses = String::new();
    for name in &names {
        let of_component =
            rigel_cairo_translate::uses(&fs::read_to_string(folder.join(name).with_extension("rs"))?)?;
        if !of_component.is_empty() {
            let list: Vec<String> =
                of_component.iter().map(|(name, count)| format!("({name:?}, {count})")).collect();
            writeln!(uses, "    ({name:?}, &[{}]),", list.join(", "))?;
        }
    }
    names.retain(|name| {
        name.ends_with("_opcode")
            || ["_opcode_", "_builtin"].iter().any(|part| name.contains(part))
            || CHAINED.contains(&name.as_str())
    });

    let read = |name: &str| fs::read_to_string(folder.join(name).with_extension("rs"));
    let words = |name: &str| input_words(&read(name).ok()?);
    let mut results = Vec::new();
    for name in &names {
        results.push((name, translate(name, &read(name)?, words).map_err(|reason| reason.to_string())));
    }
    // A component is made on the device only if all components are that it gives inputs to.
    loop {
        let made: Vec<String> =
            results.iter().filter(|(_, result)| result.is_ok()).map(|(name, _)| (*name).clone()).collect();
        let missing = |component: &Component| {
            component.gives.iter().find(|(to, ..)| !made.contains(to)).map(|(to, ..)| to.clone())
        };
        let stuck = results.iter_mut().find_map(|(_, result)| {
            let to = missing(result.as_ref().ok()?)?;
            Some((result, to))
        });
        let Some((result, to)) = stuck else { break };
        *result = Err(format!("it gives inputs to {to}"));
    }
    let mut translated = String::new();
    let mut untranslated = String::new();
    for (name, result) in &results {
        match result {
            Ok(component) => {
                let inputs = match component.inputs {
                    Inputs::State => "Inputs::State".to_string(),
                    Inputs::Counted { words } => format!("Inputs::Counted {{ words: {words} }}"),
                    Inputs::List { words } => format!("Inputs::List {{ words: {words} }}"),
                    Inputs::Segment => "Inputs::Segment".to_string(),
                };
                let Component { columns, gives, text, .. } = component;
                writeln!(
                    translated,
                    "    Translated {{ name: {name:?}, inputs: {inputs}, columns: {columns}, gives: &{gives:?}, \
                     text: {text:?} }},"
                )?;
            }
            Err(reason) => writeln!(untranslated, "    ({name:?}, {reason:?}),")?,
        }
    }
    let text = format!(
        "pub(crate) static TRANSLATED: &[Translated] = &[\n{translated}];\n\
         pub(crate) static UNTRANSLATED: &[(&str, &str)] = &[\n{untranslated}];\n\
         /// The components to which each row of a component gives inputs, and how many.\n\
         pub(crate) static USES: &[(&str, &[(&str, u32)])] = &[\n{uses}];\n"
    );
    fs::write(Path::new(&env::var("OUT_DIR")?).join("translated.rs"), text)?;
    Ok(())
}

/// The folder of upstream's crate.
fn upstream() -> Result<PathBuf, Box<dyn Error>> {
    let manifest = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
    // For other platforms there are dependencies that this build has not downloaded.
    let output = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version", "1", "--filter-platform", &env::var("TARGET")?, "--manifest-path"])
        .arg(manifest)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let package =
        packages.iter().find(|package| package["name"] == UPSTREAM).ok_or("upstream's crate is not there")?;
    let manifest = package["manifest_path"].as_str().ok_or("upstream's crate has no manifest")?;
    Ok(Path::new(manifest).parent().ok_or("the manifest is in no folder")?.to_path_buf())
}

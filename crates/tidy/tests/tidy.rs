//! Checks of what the documents promise about the repository's files: widths of lines, arrows between crates and
//! rooms, names of files, tests that can fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The widest line of source text and prose.
const WIDTH: usize = 120;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files that git tracks or would track, with their paths below the root.
fn files() -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).unwrap();
    // A file that was removed and not yet committed is still listed; one that is not text has no lines to check.
    names.lines().filter_map(|name| Some((name.to_owned(), fs::read_to_string(root().join(name)).ok()?))).collect()
}

fn with_extension<'a>(
    files: &'a [(String, String)],
    extensions: &'static [&'static str],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let has = move |name: &str| extensions.iter().any(|extension| name.ends_with(&format!(".{extension}")));
    files.iter().filter(move |(name, _)| has(name)).map(|(name, text)| (name.as_str(), text.as_str()))
}

fn report(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn lines_are_not_too_wide() {
    let files = files();
    let sources = with_extension(&files, &["rs", "cu", "cuh", "h", "cpp", "py", "pyi", "md"]);
    let mut wide = Vec::new();
    for (name, text) in sources {
        let mut is_output = false;
        for (number, line) in text.lines().enumerate() {
            // What programs print stands in documents as they print it.
            is_output ^= name.ends_with(".md") && line.starts_with("```");
            if is_output {
                continue;
            }
            // Rows of tables can't be broken in Markdown and in doc comments.
            let is_row = line.trim_start_matches(['/', '!', ' ']).starts_with('|');
            let length = line.chars().count();
            if length > WIDTH && !is_row {
                wide.push(format!("{name}:{}: {length} characters", number + 1));
            }
        }
    }
    report(&format!("lines of more than {WIDTH} characters"), wide);
}

/// The crates, lowest first. A crate depends only on crates before it.
const CRATES: &[&[&str]] = &[
    &["tidy"],
    &["gpu", "terminal", "worker"],
    &["kernels"],
    &["codegen"],
    &["array", "plonky3", "statements", "stwo"],
    &["stwo-workloads", "workloads-tables"],
    &["workloads-baby-bear", "workloads-goldilocks", "workloads-koala-bear"],
    &["workloads"],
    &["proofs"],
    &["cli", "python"],
];

#[test]
fn crates_depend_downwards() {
    let level = |name: &str| CRATES.iter().position(|level| level.contains(&name));
    let mut wrong = Vec::new();
    for (name, text) in
        files().iter().filter(|(name, _)| name.starts_with("crates/") && name.ends_with("/Cargo.toml"))
    {
        let folder = name["crates/".len()..name.len() - "/Cargo.toml".len()].replace('/', "-");
        let Some(own) = level(&folder) else {
            wrong.push(format!("{folder} has no place in the order of crates (CRATES in this file)"));
            continue;
        };
        // Tests and examples may use what they like.
        let text = text.split("[dev-dependencies]").next().unwrap();
        for dependency in text.lines().filter_map(|line| line.strip_prefix("rigel-")) {
            let dependency = dependency.split(['.', ' ', '=']).next().unwrap();
            if level(dependency).is_none_or(|theirs| theirs >= own) {
                wrong.push(format!("{folder} depends on {dependency}"));
            }
        }
    }
    report("dependencies that point up or sideways", wrong);
}

/// The rooms of a crate, lowest first. A room imports only from rooms before it.
const ROOMS: &[(&str, &[&str])] = &[
    ("crates/gpu/src", &["base", "drivers", "queue", "memory", "code", "device", "work", "pool", "testing"]),
    (
        "crates/kernels/src",
        &[
            "field",
            "code",
            "layout",
            "hash",
            "number",
            "vector",
            "domain",
            "transform",
            "commit",
            "open",
            "fri",
            "gkr",
        ],
    ),
    (
        "crates/plonky3/src",
        &[
            "base", "upstream", "witness", "air", "prover", "columns", "phases", "several", "keys", "memory",
            "door",
        ],
    ),
];

#[test]
fn rooms_import_downwards() {
    let files = files();
    let mut wrong = Vec::new();
    for (folder, rooms) in ROOMS {
        let level = |room: &str| rooms.iter().position(|known| *known == room);
        for (name, text) in with_extension(&files, &["rs"]) {
            let Some((room, _)) = name.strip_prefix(&format!("{folder}/")).and_then(|rest| rest.split_once('/'))
            else {
                continue;
            };
            let Some(own) = level(room) else {
                wrong.push(format!("{folder}/{room} has no place in the order of rooms (ROOMS in this file)"));
                continue;
            };
            // Unit tests may use what they like; documentation may point anywhere.
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
            {
                for used in line.split("crate::").skip(1) {
                    let used = used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                    if level(used).is_some_and(|theirs| theirs > own) {
                        wrong.push(format!("{name}:{}: {room} imports from {used}", number + 1));
                    }
                }
            }
        }
        for room in *rooms {
            let front = format!("{folder}/{room}/mod.rs");
            if !files.iter().any(|(name, text)| *name == front && text.starts_with("//!")) {
                wrong.push(format!("{front} is missing, or does not say what is in the room"));
            }
        }
    }
    report("imports that point up, and rooms without a front page", wrong);
}

/// Crates in which at most two files import each other: a kernel's launcher and its neighbour, say. The drivers of the
/// engine are left out: a driver is one type, written in several files.
const WITHOUT_CIRCLES: &[&str] = &[
    "crates/gpu/src",
    "crates/kernels/src",
    "crates/codegen/src",
    "crates/array/src",
    "crates/plonky3/src",
    "crates/stwo/src",
    "crates/python/src",
    "crates/cli/src",
];

/// The modules of a crate that the text of one of them imports: those of `modules` that begin a path after `crate::` or
/// `super::`.
fn imports<'m>(text: &str, module: &str, modules: &'m [String]) -> Vec<&'m str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let mut code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join(" ");
    // The longest first: `super::super::` is the parent's parent.
    let folders: Vec<&str> = module.split("::").collect();
    for up in (1..=folders.len()).rev() {
        let parent: String = folders[..folders.len() - up].iter().map(|folder| format!("{folder}::")).collect();
        code = code.replace(&"super::".repeat(up), &format!("crate::{parent}"));
    }
    let mut found = Vec::new();
    for used in code.split("crate::").skip(1) {
        // A list of paths behind a common beginning is written out.
        let end = used.find(|c: char| !c.is_alphanumeric() && !"_:{}, *".contains(c)).unwrap_or(used.len());
        let (common, list) = used[..end].split_once('{').unwrap_or((&used[..end], ""));
        let list = list.split('}').next().unwrap();
        for last in if list.is_empty() { vec![""] } else { list.split(',').collect() } {
            let path = format!("{common}{}", last.trim());
            let is_begun = |module: &&String| path == **module || path.starts_with(&format!("{module}::"));
            found.extend(modules.iter().filter(is_begun).max_by_key(|module| module.len()).map(String::as_str));
        }
    }
    found
}

#[test]
fn files_import_in_no_circle() {
    let sample = ["a".to_owned(), "a::b".to_owned(), "c".to_owned(), "d".to_owned()];
    let text = "use crate::a::b::{X, Y};\nuse crate::{c, d::Z};\n// crate::c\nfn f() { crate::a::g() }\n";
    assert_eq!(imports(text, "e", &sample), ["a::b", "a::b", "c", "d", "a"]);
    assert_eq!(imports("use super::super::c;\nuse super::b::X;\n", "a::d", &sample), ["c", "a::b"]);

    let files = files();
    let mut circles = Vec::new();
    for folder in WITHOUT_CIRCLES {
        let (mut names, mut texts) = (Vec::new(), Vec::new());
        for (name, text) in with_extension(&files, &["rs"]) {
            let Some(path) = name.strip_prefix(&format!("{folder}/")) else { continue };
            let module = path.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
            if module != "lib" && module != "main" && !module.ends_with("tests") {
                names.push(module);
                texts.push(text);
            }
        }
        let index = |name: &str| names.iter().position(|known| known == name).unwrap();
        let mut reached: Vec<Vec<bool>> = vec![vec![false; names.len()]; names.len()];
        for (from, text) in texts.iter().enumerate() {
            imports(text, &names[from], &names).into_iter().for_each(|to| reached[from][index(to)] = true);
        }
        for middle in 0..names.len() {
            for from in 0..names.len() {
                if reached[from][middle] {
                    let beyond = reached[middle].clone();
                    reached[from].iter_mut().zip(beyond).for_each(|(known, new)| *known |= new);
                }
            }
        }
        let circle_of = |file: usize| -> Vec<&str> {
            let both = |other: &usize| reached[file][*other] && reached[*other][file];
            (0..names.len())
                .filter(|other| *other == file || both(other))
                .map(|other| names[other].as_str())
                .collect()
        };
        let found: std::collections::BTreeSet<Vec<&str>> = (0..names.len()).map(circle_of).collect();
        circles.extend(
            found
                .iter()
                .filter(|circle| circle.len() > 2 && !circle[0].starts_with("drivers::"))
                .map(|circle| format!("{folder}: {}", circle.join(", "))),
        );
    }
    report("files that import each other in a circle", circles);
}

#[test]
fn cuda_is_named_in_one_folder() {
    let files = files();
    let sources = with_extension(&files, &["rs", "toml"]);
    let uses = sources.filter(|(_, text)| text.contains("cudarc"));
    let allowed = ["crates/gpu/src/drivers/cuda/", "crates/gpu/Cargo.toml", "Cargo.toml", "crates/tidy/"];
    let wrong = uses.filter(|(name, _)| !allowed.iter().any(|place| name.starts_with(place)));
    report("cudarc outside the CUDA driver's folder", wrong.map(|(name, _)| name.to_owned()).collect());
}

/// Launching is a safe call, and many kernels trust their numbers. So crates above the engine keep kernels, and what
/// kernels can be had from, to themselves.
#[test]
fn kernels_stay_with_those_who_vouch_for_them() {
    /// Functions that give only what their caller vouches for, being unsafe, are no way around.
    fn gives_away(item: &str) -> bool {
        let item = item.split(['{', ';']).next().unwrap();
        let is_field = !item.contains("fn ");
        let (result, is_unsafe) = match item.split_once("->") {
            Some((before, result)) => (result, before.contains("unsafe fn")),
            None => (if is_field { item } else { "" }, false),
        };
        let words: Vec<&str> = result.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        !is_unsafe && ["Kernel", "Module", "Source"].iter().any(|name| words.contains(name))
    }
    assert!(gives_away("pub fn kernel(&self, index: usize) -> Option<&Kernel> {"));
    assert!(gives_away("pub multiply: rigel_gpu::Kernel,"));
    assert!(!gives_away("pub unsafe fn source(name: &str) -> Source {"));
    assert!(!gives_away("pub fn launch(kernel: &Kernel) -> Result<usize> {"));

    /// The lines of public items that give one away.
    fn given_away(text: &str) -> Vec<usize> {
        let mut lines = Vec::new();
        for (at, _) in text.match_indices("pub ") {
            let line = text[..at].rsplit('\n').next().unwrap();
            let item = &text[at..];
            let end = item.find([';', '{']).into_iter().chain(item.find(",\n")).min().unwrap_or(item.len());
            let is_declaration = ["pub struct", "pub enum", "pub trait", "pub mod", "pub use"];
            let is_item = line.trim().is_empty() && !is_declaration.iter().any(|word| item.starts_with(word));
            if is_item && gives_away(&item[..end]) {
                lines.push(text[..at].matches('\n').count() + 1);
            }
        }
        lines
    }
    let sample = "/// Gives one.\npub fn kernel() -> Kernel {\n    todo!()\n}\n\nimpl S {\n    /// Another.\n    \
                  pub fn module(&self) -> &Module {\n    }\n}\n// A pub fn f() -> Kernel {\npub struct Kernel {}\n";
    assert_eq!(given_away(sample), [2, 8]);

    let files = files();
    let mut given = Vec::new();
    // `rigel-array` has a type `Kernel` of its own, whose contract covers every launch. Programs are used by nobody.
    let engine = ["crates/gpu/", "crates/array/", "crates/cli/", "crates/python/", "crates/tidy/"];
    let is_library = |name: &str| name.contains("/src/") && !engine.iter().any(|crate_| name.starts_with(crate_));
    for (name, text) in with_extension(&files, &["rs"]).filter(|(name, _)| is_library(name)) {
        given.extend(given_away(text).into_iter().map(|line| format!("{name}:{line}")));
    }
    report("kernels, modules and sources that are given to other crates", given);
}

#[test]
fn documents_name_files_that_exist() {
    let files = files();
    let exists = |name: &str| {
        let name = name.trim_end_matches('/');
        files.iter().any(|(file, _)| file == name || file.starts_with(&format!("{name}/")))
    };
    let mut missing = Vec::new();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let mut is_code = false;
        for (number, line) in text.lines().enumerate() {
            if line.starts_with("```") {
                is_code = !is_code;
            }
            if is_code {
                continue;
            }
            for name in line.split('`').skip(1).step_by(2) {
                let is_path =
                    name.starts_with("crates/") || name.starts_with("scripts/") || name.starts_with("docs/");
                let is_plain = name.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
                if is_path && is_plain && !exists(name) {
                    missing.push(format!("{document}:{}: {name}", number + 1));
                }
            }
        }
    }
    report("files that documents name and that do not exist", missing);
}

/// A test without an assertion passes whatever happens.
#[test]
fn tests_assert() {
    /// The marks of code that can fail: assertions, results that are unwrapped or returned, calls that check.
    const CHECKS: &[&str] =
        &["assert", "unwrap", "expect(", "panic!", "?;", "report(", "check", "same", "compare", "equal"];
    let files = files();
    let mut idle = Vec::new();
    for (name, text) in with_extension(&files, &["rs"]) {
        for (at, _) in text.match_indices("#[test]\n") {
            let body = &text[at..];
            let indent = text[..at].chars().rev().take_while(|c| *c == ' ').count();
            let end = body.find(&format!("\n{}}}\n", " ".repeat(indent))).unwrap_or(body.len());
            let body = &body[..end];
            let is_short = body.lines().count() <= 8 && body.lines().any(|line| line.trim_end().ends_with(';'));
            let title = body.lines().find(|line| line.contains("fn ")).unwrap_or_default().trim();
            // A test of a few calls leaves the checking to them.
            if !is_short && !CHECKS.iter().any(|check| body.contains(check)) {
                idle.push(format!("{name}: {title}"));
            }
        }
    }
    report("tests without an assertion", idle);
}

/// A line that names no test would leave a slow one among the quick.
#[test]
fn slow_tests_exist() {
    let files = files();
    let list = fs::read_to_string(root().join("scripts/slow-tests")).unwrap();
    let unknown = |line: &&str| {
        // The last part is a module or the beginning of a function's name, which a macro may complete.
        let last = line.trim_end_matches("::").rsplit("::").next().unwrap();
        let mut sources = with_extension(&files, &["rs"]);
        !sources.any(|(name, text)| name.ends_with(&format!("/{last}.rs")) || text.contains(last))
    };
    let names = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    report("lines of scripts/slow-tests that name no test", names.filter(unknown).map(str::to_owned).collect());
}

#[test]
fn nothing_is_left_to_do() {
    let files = files();
    let mut left = Vec::new();
    for (name, text) in with_extension(&files, &["rs", "cu", "cuh", "h", "cpp", "py"]) {
        if name.starts_with("crates/tidy/") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if ["TODO", "FIXME", "todo!(", "unimplemented!("].iter().any(|mark| line.contains(mark)) {
                left.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    report("marks of work that is not done", left);
}

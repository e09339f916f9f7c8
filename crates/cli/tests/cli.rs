//! The command line from outside, on the emulated device: output, files and exit codes.

mod command;

use command::{code, rigel, stderr, stdout};
use serde_json::Value;

#[test]
fn the_doctor_finds_the_emulated_device_usable() {
    let output = rigel(&["doctor", "--device", "emulated"], &[]);
    let text = stdout(&output);
    assert_eq!(code(&output), Some(0), "{text}{}", stderr(&output));
    for part in ["emulated:0", "Kernel cache", "Bandwidth", "right result", "RIGEL_DEVICE", "is ready"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn the_doctor_speaks_json() {
    let output = rigel(&["doctor", "--json"], &[("RIGEL_DEVICE", "emulated"), ("RIGEL_EMULATED", "devices=2")]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["usable"], true);
    assert_eq!(report["kernel_check"]["ok"], true);
    assert_eq!(report["gathered"]["ok"], true, "{}", report["gathered"]);
    assert_eq!(report["bandwidths"].as_array().map(Vec::len), Some(5));
    assert_eq!(report["peers"]["links"][0][0], "same");
    let across = &report["peers"]["gigabytes_per_second"][0][1];
    assert!(across.as_f64().is_some_and(|rate| rate > 0.0), "{across}");
}

#[test]
fn a_missing_device_is_exit_code_1() {
    for (name, words) in
        [("cuda:9", "To fix"), ("emulated:7", "number of emulated devices: 1"), ("nonsense", "cuda:N")]
    {
        let output = rigel(&["doctor"], &[("RIGEL_DEVICE", name)]);
        assert_eq!(code(&output), Some(1), "{name}");
        assert!(stdout(&output).contains(words), "{name}: {}", stdout(&output));

        let output = rigel(&["bench", "plonky3", "--only", "fibonacci"], &[("RIGEL_DEVICE", name)]);
        assert_eq!(code(&output), Some(1), "{name}");
        assert!(stderr(&output).starts_with("error: "), "{name}: {}", stderr(&output));
    }
}

#[test]
fn settings_that_are_not_understood_are_named() {
    let output = rigel(&["doctor", "--device", "emulated"], &[("RIGEL_LAUNCH", "many")]);
    assert_eq!(code(&output), Some(1));
    assert!(stdout(&output).contains("neither `occupancy` nor a number"), "{}", stdout(&output));
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for arguments in [
        &["doctor", "--device", "gpu"][..],
        &["doctor", "--fast"],
        &["bench"],
        &["bench", "plonky3", "--repeat", "0"],
        &["bench", "stwo", "--device", "cuda:0,gpu"],
        &["prove"],
        &["prove", "nonsense"],
        &["prove", "fibonacci", "--cpu", "--device", "emulated"],
        &["prove", "fibonacci", "--cpu", "--fallback"],
        &["prove", "fibonacci", "--fold-step", "2"],
        &["prove", "plonk", "--prover", "plonky3"],
        &["completions", "cmd"],
        &["man", "frobnicate"],
        &["verify"],
        &["frobnicate"],
    ] {
        let output = rigel(arguments, &[]);
        assert_eq!(code(&output), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains("error:") || stderr(&output).contains("Usage:"), "{}", stderr(&output));
    }
}

#[test]
fn help_names_the_commands() {
    let text = stdout(&rigel(&["--help"], &[]));
    for part in ["doctor", "prove", "verify", "bench", "emulated", "Exit codes"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[cfg(feature = "full")]
#[test]
fn the_bench_writes_json_and_a_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (json, html) = (folder.path().join("report.json"), folder.path().join("report.html"));
    let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_string();
    let arguments = ["bench", "primitives", "--quick", "--device", "emulated", "--repeat", "1"];
    let files = ["--only", "elementwise add", "-o", &path(&json), "--html", &path(&html)];
    let output = rigel(&[&arguments[..], &files[..]].concat(), &[]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("elementwise add KoalaBear"), "{}", stdout(&output));

    let document: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).expect("JSON");
    assert_eq!(document["schema"], 1);
    let report = &document["reports"][0];
    assert_eq!(report["device"]["device"], "emulated:0");
    let positive = |value: &Value| value.as_f64().is_some_and(|x| x.is_finite() && x > 0.0);
    for ceiling in ["copy_gigabytes_per_second", "logic_per_second", "multiply_per_second"] {
        assert!(positive(&report["ceilings"][ceiling]), "{ceiling}: {}", report["ceilings"]);
    }
    let rows = report["rows"].as_array().expect("rows");
    assert!(rows.len() >= 4);
    for row in rows {
        assert!(row["error"].is_null(), "{row}");
        assert!(row["pass"].is_null(), "bars are for GPUs: {row}");
        for figure in ["milliseconds", "floor_milliseconds", "ratio", "rate"] {
            assert!(positive(&row[figure]), "{figure}: {row}");
        }
    }

    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg") && page.contains("</svg>"));
    assert!(!page.contains("<script") && !page.contains("<link") && !page.contains("NaN"), "self-contained");
}

#[cfg(feature = "full")]
#[test]
fn an_operation_that_is_not_there_is_said() {
    let output = rigel(&["bench", "primitives", "--device", "emulated", "--only", "no such thing"], &[]);
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("--list"), "{}", stderr(&output));
    let list = stdout(&rigel(&["bench", "primitives", "--list"], &[]));
    assert!(list.contains("extend KoalaBear") && list.contains("2^20 -> 2^21, 64 columns"), "{list}");
}

/// Each device's work alone, the bytes between them, and what that means for as many GPUs.
#[test]
fn several_devices_are_modelled() {
    // Of fewer rows, a proof on one device takes next to no memory: the host makes all trees of FRI.
    let bench = |more: &[&str]| {
        let arguments = ["bench", "several", "--device", "emulated", "--log-rows", "7", "--repeat", "1"];
        rigel(&[&arguments, more].concat(), &[("RIGEL_INTERPRET", "always")])
    };
    let output = bench(&["--model", "--counts", "2,4", "--json"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let counts: Vec<u64> = rows.iter().map(|row| row["devices"].as_u64().unwrap()).collect();
    // An LDE and a proof of Plonky3; one of Stwo is only timed.
    if cfg!(feature = "stwo") {
        assert_eq!(counts, [2, 4, 2, 4, 2, 4]);
        assert!(rows[5]["case"].as_str().unwrap().contains("wide-fibonacci") && rows[5]["model"].is_null());
    } else {
        assert_eq!(counts, [2, 4, 2, 4]);
    }
    for row in &rows[..4] {
        let model = &row["model"];
        assert!(model["bytes_sent"].as_u64().unwrap() > 0 && model["copies"].as_u64().unwrap() > 0, "{row}");
        let times: Vec<f64> =
            model["on"].as_array().unwrap().iter().map(|links| links[1]["total_ms"].as_f64().unwrap()).collect();
        // The slower the links.
        assert!(times[0] > 0.0 && times.is_sorted(), "{times:?}");
    }
    // A quarter, and what is the same on all.
    let memory = |row: usize| rows[row]["memory_over_one"].as_f64().unwrap();
    assert!(memory(3) < memory(2) && memory(2) < 1.0, "{} and {}", memory(2), memory(3));
    // Many proofs, from traces on the host and from inputs.
    let many = report["many"].as_array().unwrap();
    let ends = ["fibonacci 2^6, koala-bear, keccak, traces on the host", "made on the device from their inputs"];
    assert_eq!(many.len(), ends.len());
    for (case, end) in many.iter().zip(ends) {
        assert!(case["case"].as_str().unwrap().ends_with(end), "{case}");
        assert!(case["rates"].as_array().unwrap().iter().all(|rate| rate[1].as_f64().unwrap() > 0.0), "{case}");
        let modelled = |row: usize| case["on"][row]["modelled"].as_f64().unwrap();
        assert!(0.0 < modelled(0) && modelled(0) <= modelled(1), "{case}");
    }
    let text = stdout(&bench(&["--counts", "2", "--only", "lde"]));
    assert!(text.contains("LDE, KoalaBear 2^10 to 2^11 x 16") && !text.contains("NVLink"), "{text}");
    let none = bench(&["--only", "no such thing"]);
    assert_eq!(code(&none), Some(2));
    assert!(stderr(&none).contains("they are: LDE, KoalaBear"), "{}", stderr(&none));
    let wrong = bench(&["--counts", "3"]);
    assert_eq!(code(&wrong), Some(2));
    assert!(stderr(&wrong).contains("a power of two of devices"), "{}", stderr(&wrong));
}

#[cfg(not(feature = "stwo"))]
#[test]
fn a_build_without_stwo_says_how_to_get_it() {
    for (words, code_) in [
        (vec!["prove", "plonk", "--log-rows", "5"], 2),
        (vec!["prove", "poseidon2", "--prover", "stwo"], 2),
        (vec!["bench", "stwo", "--quick", "--device", "emulated"], 1),
    ] {
        let output = rigel(&words, &[]);
        assert_eq!(code(&output), Some(code_), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("--features stwo"), "{words:?}: {}", stderr(&output));
    }
}

#[cfg(not(feature = "full"))]
#[test]
fn a_small_build_says_how_to_measure_operations() {
    for family in ["primitives", "array"] {
        let output = rigel(&["bench", family, "--only", "NTT"], &[]);
        assert_eq!(code(&output), Some(1));
        assert!(stderr(&output).contains("--features full"), "{}", stderr(&output));
    }
}

/// A proof does not wait for a compiler: it is interpreted, its kernels are compiled beside it, and the next process
/// finds them. The proof is the same.
#[test]
fn proofs_are_interpreted_until_their_kernels_are_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("a readable name").to_string();
    let prove = |workload: &str, interpret: &str, cache: &str, proof: &str| {
        let words = ["prove", workload, "--log-rows", "6", "--device", "emulated", "--json", "-o", proof];
        let output = rigel(&words, &[("RIGEL_INTERPRET", interpret), ("RIGEL_CACHE", cache)]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let number = |value: &Value| value.as_u64().expect("a number");
        let (interpreted, compiled) =
            (number(&report["report"]["interpreted"]), number(&report["kernels_compiled"]));
        (std::fs::read(proof).expect("the proof"), interpreted, compiled)
    };
    // The other kernels are those of all tests.
    let shared = std::env::var("RIGEL_CACHE").unwrap_or_default();
    for workload in [Some("fibonacci"), cfg!(feature = "stwo").then_some("plonk")].into_iter().flatten() {
        let (expected, none, _) = prove(workload, "never", &shared, &file("compiled"));
        assert_eq!(none, 0);
        let (proof, interpreted, _) = prove(workload, "always", &shared, &file("interpreted"));
        assert!(proof == expected && interpreted > 0, "{workload}: {interpreted} programs");
    }
    let cache = file("cache");
    let (expected, ..) = prove("fibonacci", "never", &shared, &file("compiled"));
    for is_first in [true, false] {
        // Whether the first is interpreted depends on which compiler is done first.
        let (proof, interpreted, compiled) = prove("fibonacci", "until-compiled", &cache, &file("either"));
        assert!(proof == expected && (compiled > 0) == is_first, "first: {is_first}, {compiled} modules");
        assert!(is_first || interpreted == 0, "{interpreted} programs");
    }
    let output = rigel(&["prove", "fibonacci", "--device", "emulated"], &[("RIGEL_INTERPRET", "sometimes")]);
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("none of `never`, `until-compiled`"), "{}", stderr(&output));
}

#[test]
fn kernels_are_compiled_once_ahead_of_proofs() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().to_str().expect("a readable name");
    let warm = |words: &[&str]| rigel(&[&["warm"], words].concat(), &[("RIGEL_CACHE", cache)]);
    let second = if cfg!(feature = "stwo") { "plonk" } else { "lookups" };
    let words = ["fibonacci", second, "--device", "emulated", "--generated-only", "--json"];
    for compiled in [true, false] {
        let output = warm(&words);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let rows = rows.as_array().expect("rows");
        assert!(rows.len() >= 2, "{rows:?}");
        for row in rows {
            assert!(row["kernels"].as_u64().is_some_and(|kernels| kernels > 0), "{row}");
            assert_eq!(row["compiled"].as_u64().is_some_and(|modules| modules > 0), compiled, "{row}");
        }
    }
    let output = warm(&["fibonacci", "--prover", "stwo"]);
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("fibonacci is a workload of Plonky3"), "{}", stderr(&output));
    let output = rigel(&["warm", "fibonacci", "--device", "emulated"], &[("RIGEL_CACHE", "off")]);
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("RIGEL_CACHE"), "{}", stderr(&output));
    let output = warm(&["fibonacci", "--for", "ninety"]);
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("sm_90"), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn a_machine_is_found_on_the_path_and_gets_all_arguments() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("rigel-probe");
    std::fs::write(&binary, "#!/bin/sh\nfor a in \"$@\"; do echo \"<$a>\"; done\nexit 7\n").unwrap();
    std::fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let output = rigel(&["probe", "prove", "--json", "-o", "a b", "--help"], &[("PATH", &path)]);
    assert_eq!(code(&output), Some(7), "{}", stderr(&output));
    assert_eq!(stdout(&output), "<prove>\n<--json>\n<-o>\n<a b>\n<--help>\n");
}

#[test]
fn a_machine_that_is_not_installed_is_named_with_what_to_do() {
    let output = rigel(&["cairo", "prove", "program.json"], &[("PATH", "/nowhere")]);
    assert_eq!(code(&output), Some(1));
    assert!(
        stderr(&output).contains("rigel-cairo is neither beside rigel nor on the PATH"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("vms/cairo/scripts/install"), "{}", stderr(&output));
    let output = rigel(&["bogus"], &[("PATH", "/nowhere")]);
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("`bogus` is not a command"), "{}", stderr(&output));
}

/// The flag `--json`, wherever it stands, makes standard output one JSON document, errors included.
#[test]
fn json_means_the_same_everywhere() {
    let list = rigel(&["bench", "plonky3", "--list", "--json"], &[]);
    let cases: Vec<Value> = serde_json::from_slice(&list.stdout).expect("a JSON array");
    assert!(
        cases.iter().any(|case| case["name"].as_str().is_some_and(|name| name.contains("keccak"))),
        "{cases:?}"
    );
    for (arguments, expected) in [
        (&["--json", "prove", "fibonacci", "--device", "emulated:7"][..], 1),
        (&["prove", "plonk", "--field", "koala-bear", "--json"], 2),
        (&["verify", "no such file", "--json"], 3),
        (&["warm", "--device", "emulated:7", "--json"], 1),
        (&["bench", "stwo", "--json", "--device", "emulated:7"], 1),
        (&["--json", "frobnicate"], 2),
    ] {
        let output = rigel(arguments, &[]);
        assert_eq!(code(&output), Some(expected), "{arguments:?}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let error = document["error"].as_str().expect("an error").to_string();
        assert_eq!(stderr(&output), format!("error: {error}\n"), "{arguments:?}");
    }
    let misspelt = rigel(&["prove", "nonsense", "--json"], &[]);
    assert_eq!(code(&misspelt), Some(2));
    let document: Value = serde_json::from_slice(&misspelt.stdout).expect("JSON");
    assert!(document["error"].as_str().is_some_and(|error| error.contains("nonsense")), "{document}");
}

#[test]
fn a_device_that_is_not_there_is_replaced_only_if_asked_to() {
    for device in ["cuda:9", "emulated:7"] {
        let words = ["prove", "fibonacci", "--log-rows", "4", "--pow-bits", "0", "--device", device];
        let output = rigel(&words, &[]);
        assert_eq!(code(&output), Some(1), "{}", stdout(&output));
        assert!(stderr(&output).contains("--fallback"), "{}", stderr(&output));
        let output = rigel(&[&words[..], &["--fallback"]].concat(), &[]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("the CPU (upstream's prover)"), "{}", stdout(&output));
        assert!(stderr(&output).contains("proving on the CPU instead"), "{}", stderr(&output));
    }
}

#[test]
fn a_device_that_is_lost_before_the_proof_is_replaced_only_if_asked_to() {
    let words = ["prove", "fibonacci", "--log-rows", "8", "--pow-bits", "0", "--device", "emulated"];
    let lost = [("RIGEL_EMULATED", "lost_after=20")];
    let output = rigel(&words, &lost);
    assert_eq!(code(&output), Some(1), "{}", stdout(&output));
    let output = rigel(&[&words[..], &["--fallback"]].concat(), &lost);
    let said = stdout(&output);
    assert_eq!(code(&output), Some(0), "{said}{}", stderr(&output));
    assert!(said.contains("the CPU (upstream's prover)") && said.contains("the proof ran on the CPU: "), "{said}");
}

#[test]
fn shells_and_man_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = stdout(&rigel(&["completions", shell], &[]));
        for word in ["prove", "verify", "fallback"] {
            assert!(text.contains(word), "{word} is not among the completions for {shell}");
        }
    }
    let page = stdout(&rigel(&["man", "bench", "plonky3"], &[]));
    assert!(page.contains(".TH") && page.contains("upstream"), "{page}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("man1");
    let output = rigel(&["man", "--folder", path.to_str().expect("a readable name")], &[]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    for page in ["rigel.1", "rigel-prove.1", "rigel-bench-stwo.1"] {
        assert!(std::fs::read_to_string(path.join(page)).expect("a page").contains(".SH"), "{page}");
    }
}

#[test]
fn the_cluster_says_what_to_install() {
    let missing = rigel(&["cluster", "status"], &[("RIGEL_PYTHON", "/no/such/python")]);
    assert_eq!(code(&missing), Some(1));
    assert!(stderr(&missing).contains("/no/such/python does not start"), "{}", stderr(&missing));
    // A Python that has no such package.
    let without = rigel(&["cluster", "up"], &[("RIGEL_PYTHON", "false")]);
    assert_eq!(code(&without), Some(1));
    assert!(stderr(&without).contains("pip install './crates/python[cluster]'"), "{}", stderr(&without));
    // One that has it gets all arguments, those with dashes too, and its exit code is the command's.
    let passed = rigel(&["cluster", "simulate", "--help"], &[("RIGEL_PYTHON", "echo")]);
    assert_eq!(stdout(&passed), "-m rigel.cluster simulate --help\n");
    assert_eq!(code(&passed), Some(0));
}

/// The answers of a worker to jobs that it is given together, in the order of the jobs.
fn worked(arguments: &[&str], environment: &[(&str, &str)], jobs: &[&[u8]]) -> Vec<rigel_worker::frame::Frame> {
    use rigel_worker::frame::{self, Kind};
    let mut bytes = Vec::new();
    for (number, job) in (1..).zip(jobs) {
        frame::write(&mut bytes, Kind::Job, number, &[job]).unwrap();
    }
    let mut worker = std::process::Command::new(env!("CARGO_BIN_EXE_rigel"))
        .arg("worker")
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = worker.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &bytes).unwrap();
    let mut output = worker.stdout.take().unwrap();
    let mut answers = Vec::new();
    while answers.len() < jobs.len() {
        let frame = frame::read(&mut output, 1 << 30).unwrap().expect("the worker is there");
        if matches!(frame.kind, Kind::Done | Kind::Failed) {
            answers.push(frame);
        }
    }
    drop(input);
    assert_eq!(worker.wait().unwrap().code(), Some(0));
    answers.sort_by_key(|answer| answer.job);
    answers
}

/// The report and the proof of an answer that has one.
fn proven(answer: &rigel_worker::frame::Frame) -> (Value, &[u8]) {
    let text = String::from_utf8_lossy(&answer.payload);
    assert_eq!(answer.kind, rigel_worker::frame::Kind::Done, "{text}");
    let (report, proof) = rigel_worker::frame::split_done(&answer.payload).unwrap();
    (serde_json::from_slice(report).unwrap(), proof)
}

#[test]
fn a_worker_proves_jobs_from_its_standard_input() {
    let small = br#"{"workload": "fibonacci", "log_rows": 4, "queries": 2, "pow_bits": 1, "batch_pow_bits": 0}"#;
    let answers = worked(&["--cpu"], &[], &[small, small, b"{}", b"{\"machine\": \"cairo\"}\n"]);
    let folder = tempfile::tempdir().unwrap();
    for answer in &answers[..2] {
        let (report, proof) = proven(answer);
        assert_eq!(report["proof"]["device"], "cpu");
        let path = folder.path().join("proof");
        std::fs::write(&path, proof).unwrap();
        let verified = rigel(&["verify", path.to_str().unwrap()], &[]);
        assert_eq!(code(&verified), Some(0), "{}", stderr(&verified));
    }
    for (answer, reason) in answers[2..].iter().zip(["neither a workload nor a machine", "no program follows"]) {
        let answer = String::from_utf8_lossy(&answer.payload).into_owned();
        assert!(answer.contains(reason), "{answer}");
    }
}

#[test]
fn a_worker_makes_several_proofs_at_once() {
    let (one, two) = (
        br#"{"workload": "fibonacci", "log_rows": 10, "queries": 2, "pow_bits": 1, "batch_pow_bits": 0}"#,
        br#"{"workload": "fibonacci", "log_rows": 4, "queries": 2, "pow_bits": 1, "batch_pow_bits": 0}"#,
    );
    let machine = b"{\"machine\": \"none\"}\n";
    let jobs: [&[u8]; 12] = [one, one, one, two, machine, two, one, one, one, one, one, one];
    // One proof of the larger statement fits, two do not.
    let limit = ("RIGEL_MEMORY_LIMIT", "1MiB");
    let answers = worked(&["--device=emulated", "--at-once=3"], &[limit], &jobs);
    let alone = worked(&["--device=emulated"], &[], &[one, two]);
    let expected = |job: &[u8]| if job == one { proven(&alone[0]).1 } else { proven(&alone[1]).1 };
    for (answer, job) in answers.iter().zip(jobs) {
        if job == machine {
            assert!(String::from_utf8_lossy(&answer.payload).contains("not a machine"));
            continue;
        }
        let (report, proof) = proven(answer);
        assert!(proof == expected(job), "job {} has another proof", answer.job);
        assert!(report["phases"].is_object() && report["proof"]["peak_bytes"].is_number(), "{report}");
    }
}

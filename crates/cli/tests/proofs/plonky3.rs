//! Proofs with Plonky3.

use serde_json::Value;

use crate::command::{code, rigel, stderr, stdout};
use crate::files::{Folder, json, text, verify, with_header};

/// Parameters that make every proof cheap; the shapes are the same.
const QUICK: [&str; 6] = ["--queries", "5", "--pow-bits", "2", "--batch-pow-bits", "2"];

#[test]
fn what_is_proved_verifies() {
    let folder = Folder::new();
    let all_builds = [
        "fibonacci --log-rows 4 --cpu",
        "keccak --log-rows 5 --cpu",
        "blake3 --log-rows 3 --cpu",
        "fibonacci --log-rows 4 --device emulated",
        "lookups --log-rows 6 --device emulated",
    ];
    let full_builds = [
        "fibonacci --log-rows 5 --field goldilocks3 --cpu",
        "fibonacci --log-rows 5 --field goldilocks --hash poseidon2 --cpu",
        "fibonacci --log-rows 5 --field koala-bear --hash keccak256 --cpu",
        "poseidon2 --log-rows 3 --field goldilocks --cpu",
        "lookups --log-rows 7 --field baby-bear --cpu",
    ];
    for words in all_builds.iter().chain(full_builds.iter().filter(|_| cfg!(feature = "full"))) {
        let output = verify(&folder.prove("proof", words, &QUICK));
        assert_eq!(code(&output), Some(0), "{words}: {}", stderr(&output));
        assert!(stdout(&output).contains("verified in"), "{words}: {}", stdout(&output));
    }
}

#[test]
fn the_report_speaks_json_and_the_phases_are_a_trace() {
    let folder = Folder::new();
    let trace = folder.path("trace.json");
    let words = ["prove", "fibonacci", "--log-rows", "4", "--device", "emulated", "--json", "--trace-file"];
    let output = rigel(&[&words[..], &[text(&trace)], &QUICK[..]].concat(), &[]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let report = json(&output);
    assert_eq!((&report["workload"], &report["log_rows"]), (&"fibonacci".into(), &4.into()));
    assert_eq!(report["public_values"][0][2], 987);
    assert_eq!(report["report"]["device"], "emulated:0");
    let phases = report["report"]["phases"].as_array().expect("phases");
    assert!(phases.iter().any(|phase| phase["name"] == "query"), "{report}");
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).expect("JSON");
    assert_eq!(trace["traceEvents"].as_array().map(Vec::len), Some(phases.len() + 1));
}

/// Several devices make the proof of one, byte for byte, and the report names them.
#[test]
fn devices_prove_together() {
    let folder = Folder::new();
    let one = folder.prove("one", "fibonacci --log-rows 4 --device emulated", &QUICK);
    let words = "fibonacci --log-rows 4 --split --device emulated:0,emulated:1";
    let two = folder.prove("two", words, &QUICK);
    assert!(std::fs::read(one).unwrap() == std::fs::read(two).unwrap());

    // Tables of several heights, tied together by lookups.
    let one = folder.prove("lookups", "lookups --log-rows 6 --device emulated", &QUICK);
    let both = "lookups --log-rows 6 --split --device emulated:0,emulated:1";
    assert!(std::fs::read(one).unwrap() == std::fs::read(folder.prove("both", both, &QUICK)).unwrap());

    let words: Vec<&str> =
        std::iter::once("prove").chain(words.split(' ')).chain(["--json"]).chain(QUICK).collect();
    let report = &json(&rigel(&words, &[]))["report"];
    assert_eq!(report["device"], "emulated:0, emulated:1");
    let shares = report["devices"].as_array().expect("a share of each");
    assert!(shares.len() == 2 && shares.iter().all(|share| share["bytes_sent"].as_u64() > Some(0)), "{report}");

    for (words, says) in [
        ("fibonacci --device emulated:0,emulated:1", "--split"),
        ("fibonacci --split --device emulated:0,emulated:1,emulated:2", "power of two"),
        ("fibonacci --split --device emulated:0,emulated:0", "twice"),
        ("fibonacci --zk --split --device emulated:0,emulated:1", "by one device each"),
    ] {
        let words: Vec<&str> = std::iter::once("prove").chain(words.split(' ')).collect();
        let output = rigel(&words, &[]);
        assert_ne!(code(&output), Some(0), "{words:?}");
        assert!(stderr(&output).contains(says), "{words:?}: {}", stderr(&output));
    }
}

/// Many proofs, shared out over devices of which one is lost in the middle of a proof.
#[test]
fn many_proofs() {
    let folder = Folder::new();
    let one = folder.prove("one", "fibonacci --log-rows 4 --device emulated", &QUICK);
    let many = "fibonacci --log-rows 4 --device emulated:0,emulated:1 --count 5";
    let kept = folder.prove("many", many, &QUICK);
    assert!(std::fs::read(one).unwrap() == std::fs::read(kept).unwrap());

    let words = |more: &'static str| -> Vec<&str> {
        std::iter::once("prove").chain(many.split(' ')).chain(QUICK).chain(more.split_whitespace()).collect()
    };
    let whole = json(&rigel(&words("--json"), &[]));
    assert!(whole["count"] == 5 && whole["retries"] == 0 && whole["on_cpu"] == 0, "{whole}");
    assert!(whole["proofs_per_second"].as_f64() > Some(0.0), "{whole}");
    let made: Vec<u64> =
        whole["devices"].as_array().expect("both").iter().filter_map(|device| device["proofs"].as_u64()).collect();
    assert!(made.len() == 2 && made.iter().sum::<u64>() == 5 && made.iter().all(|&proofs| proofs > 0), "{whole}");

    let lost = [("RIGEL_EMULATED", "lost_after=20,lost_device=1")];
    let output = rigel(&words("--json"), &lost);
    let less = json(&output);
    assert!(less["retries"].as_u64() > Some(0), "{less}");
    assert_eq!(less["devices"][1]["retries"], less["retries"]);
    assert!(less["devices"][1]["lost"].as_str().is_some_and(|reason| reason.contains("lost")), "{less}");
    assert!(less["devices"][0]["proofs"] == 5 && less["devices"][1]["proofs"] == 0, "{less}");
    let output = rigel(&words(""), &lost);
    let table = stdout(&output);
    for says in ["5 proofs of", "a second", "retries", "emulated:0", "lost: "] {
        assert!(table.contains(says), "{table}");
    }

    for (more, says) in [("--split", "cannot be used with"), ("--html page", "cannot be used with")] {
        let output = rigel(&words(more), &[]);
        assert!(code(&output) != Some(0) && stderr(&output).contains(says), "{more}: {}", stderr(&output));
    }
    let output = rigel(&["prove", "fibonacci", "--count", "0"], &[]);
    assert!(code(&output) != Some(0) && stderr(&output).contains("--count"), "{}", stderr(&output));
}

#[test]
fn without_a_device_the_cpu_proves_and_says_so() {
    let words = ["prove", "fibonacci", "--log-rows", "4"];
    let output = rigel(&[&words[..], &QUICK[..]].concat(), &[("RIGEL_DEVICE", "none")]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("the CPU (upstream's prover)"), "{}", stdout(&output));
}

#[test]
fn each_damage_is_told_from_the_others() {
    let folder = Folder::new();
    let file = std::fs::read(folder.prove("proof", "fibonacci --log-rows 4 --cpu", &QUICK)).unwrap();
    let mut altered = file.clone();
    altered[file.len() / 2] ^= 1;
    let mut newer = file.clone();
    newer[8] = 99;
    let cases: [(&[u8], &str); 6] = [
        (&altered, "altered"),
        (&file[..file.len() - 100], "cut short"),
        (&file[..5], "cut short"),
        (&newer, "version 99"),
        (b"\x7fELF and so on, which is something else", "not a proof file"),
        (b"", "not a proof file"),
    ];
    for (bytes, words) in cases {
        let output = folder.verify(bytes);
        assert_eq!(code(&output), Some(1), "{words}");
        assert!(stderr(&output).contains(words), "{words}: {}", stderr(&output));
    }
    let output = verify(&folder.path("nowhere"));
    assert_eq!(code(&output), Some(3));
}

#[test]
fn security_and_statements_that_are_asked_for() {
    let folder = Folder::new();
    let proof = folder.prove("proof", "fibonacci --log-rows 4 --cpu", &QUICK);
    let verdict = json(&rigel(&["verify", "--json", text(&proof)], &[]));
    let bits = |kind: &str| verdict["security"][kind].as_u64().unwrap();
    let (conjectured, proven) = (bits("conjectured"), bits("proven"));
    assert!(0 < proven && proven <= conjectured, "{verdict}");
    let judged = |words: &[&str]| {
        let output = rigel(&[&["verify", text(&proof)], words].concat(), &[]);
        (code(&output), stdout(&output) + &stderr(&output))
    };
    for (option, bits) in [("--security", conjectured), ("--proven-security", proven)] {
        assert_eq!(judged(&[option, &bits.to_string()]).0, Some(0), "{option} {bits}");
        let (code, said) = judged(&[option, &(bits + 1).to_string()]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("{bits} bits of")) && said.contains("asked for"), "{said}");
    }

    let expect = folder.path("expected.json");
    let expected = |expected: &str| {
        std::fs::write(&expect, expected).unwrap();
        judged(&["--expect", text(&expect)])
    };
    let publics = &verdict["public_values"];
    let right =
        format!(r#"{{"prover": "plonky3", "log_rows": 4, "public_values": {publics}, "fri": {{"queries": 5}}}}"#);
    let right = right.replace(r#""queries": 5"#, &format!(r#""queries": {}"#, verdict["fri"]["queries"]));
    assert_eq!(expected(&right).0, Some(0), "{right}");
    assert_eq!(expected("{}").0, Some(0));
    for (wrong, words) in [
        (r#"{"workload": "keccak"}"#, "workload should be \"keccak\", the file states \"fibonacci\""),
        (r#"{"public_values": [[0, 1, 2]]}"#, "public_values should be"),
        (r#"{"fri": {"queries": 1000}}"#, "fri.queries should be 1000"),
        (r#"{"colour": 1}"#, "colour should be 1, the file does not state it"),
    ] {
        let (code, said) = expected(wrong);
        assert_eq!(code, Some(1), "{wrong}: {said}");
        assert!(said.contains(words), "{wrong}: {said}");
    }
    for unreadable in ["", "[1]", "not JSON"] {
        assert_eq!(expected(unreadable).0, Some(3), "{unreadable:?}");
    }
    assert_eq!(judged(&["--expect", "no such file"]).0, Some(3));
}

/// Random proofs from several threads, with limits on memory and lost devices: each is upstream's, byte for byte.
/// `scripts/test` runs one of two minutes.
#[test]
fn a_soak_finds_nothing() {
    let output =
        rigel(&["bench", "soak", "--device", "emulated", "--seconds", "5", "--log-rows", "7", "--json"], &[]);
    let counts = json(&output);
    assert_eq!(code(&output), Some(0), "{counts}\n{}", stderr(&output));
    assert_eq!((&counts["wrong"], &counts["faults"]), (&0.into(), &0.into()), "{}", stderr(&output));
    assert!(counts["proofs"].as_u64().unwrap() > 0, "{counts}");
}

/// A sample of the driver's calls fails, one at a time. `rigel bench soak --faults` tries all.
#[test]
fn calls_of_the_driver_that_fail_are_errors_or_do_not_matter() {
    let output = rigel(&["bench", "soak", "--faults", "--device", "emulated", "--most", "2", "--json"], &[]);
    let report = json(&output);
    assert_eq!(code(&output), Some(0), "{report}\n{}", stderr(&output));
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(0), "{report}");
    let rows = report["rows"].as_array().unwrap();
    let programs = ["plonky3", "plonky3 batch", "stwo", "stwo, measured", "transfer", "array"];
    let is_built = |program: &&str| match *program {
        "array" => cfg!(feature = "full"),
        program => cfg!(feature = "stwo") || !program.starts_with("stwo"),
    };
    for program in programs.into_iter().filter(is_built) {
        for run in ["first", "second", "later"] {
            let rows = rows.iter().filter(|row| row["program"] == program && row["run"] == run);
            let errors = rows.filter_map(|row| row["outcomes"]["error"].as_u64()).sum::<u64>();
            assert!(errors > 0, "{program}, {run} run: {report}");
        }
    }
    // Gathered launches fail, too, and what waits for them is told.
    let calls = [("stwo, measured", "chain"), ("transfer", "chain"), ("transfer", "launch")];
    for (program, call) in calls.into_iter().filter(|(program, _)| is_built(program)) {
        let rows = || rows.iter().filter(|row| row["program"] == program && row["call"] == call);
        let calls = rows().filter_map(|row| row["calls"].as_u64()).sum::<u64>();
        let errors = rows().filter_map(|row| row["outcomes"]["error"].as_u64()).sum::<u64>();
        assert!(calls > 0 && errors > 0, "{program}, {call}: {report}");
    }
}

#[test]
fn no_changed_file_is_accepted_or_ends_the_process() {
    let output = rigel(&["bench", "fuzz", "--count", "4000", "--json"], &[]);
    let report = json(&output);
    assert_eq!(code(&output), Some(0), "{report}\n{}", stderr(&output));
    let found = ["accepted", "panicked", "killed"].map(|outcome| report[outcome].as_u64());
    assert_eq!((report["count"].as_u64(), found), (Some(4000), [Some(0); 3]));
    let rejected = |kind: &str| report["inputs"][kind]["rejected"].as_u64().unwrap();
    assert!(rejected("proof_files") > 1000 && rejected("frames") > 20, "{report}");
    assert!(report["inputs"]["cache_entries"]["refused_unread"].as_u64().unwrap() > 100, "{report}");
}

/// An input that ends a process is found, and the rest is still read.
#[test]
fn inputs_that_kill_or_keep_a_process_are_found() {
    let words = "bench fuzz --count 40 --jobs 2 --dies-at 13 --hangs-at 22 --patience 10 --json";
    let output = rigel(&words.split(' ').collect::<Vec<_>>(), &[]);
    let report = json(&output);
    assert_eq!(code(&output), Some(1), "{report}\n{}", stderr(&output));
    assert_eq!((&report["count"], &report["killed"]), (&40.into(), &2.into()), "{report}");
    let mut findings: Vec<&str> =
        report["findings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    findings.sort_unstable();
    let expected = [
        "input 13 of proof files: the process was ended by signal 6",
        "input 22 of proof files: the process did not end in 10 s",
    ];
    assert_eq!(findings, expected);

    let output = rigel(&["bench", "fuzz", "--count", "40", "--memory-limit", "1MiB", "--json"], &[]);
    assert_eq!(code(&output), Some(1), "no process starts with so little: {}", stderr(&output));
}

#[test]
fn a_proof_of_something_else_does_not_verify() {
    let folder = Folder::new();
    let file = std::fs::read(folder.prove("proof", "fibonacci --log-rows 4 --cpu", &QUICK)).unwrap();
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 6] = [
        (|header| header["public_values"][0][2] = 986.into(), "does not verify"),
        (|header| header["public_values"][0] = Value::Array(vec![]), "malformed"),
        (|header| header["public_values"][0][0] = u64::MAX.into(), "malformed"),
        (|header| header["log_rows"] = 5.into(), "malformed"),
        (|header| header["fri"]["queries"] = 6.into(), "does not verify"),
        (|header| header["workload"] = "lookups".into(), "takes 2^6"),
    ];
    for (change, words) in changes {
        let output = folder.verify(&with_header(&file, change));
        assert_eq!(code(&output), Some(1), "{words}");
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains(words) && !said.contains("panicked"), "{words}: {said}");
    }
    std::fs::write(folder.path("other"), with_header(&file, changes[0].0)).unwrap();
    let verdict = json(&rigel(&["verify", "--json", text(&folder.path("other"))], &[]));
    assert_eq!(verdict["verified"], false);
    assert!(verdict["reason"].is_string(), "{verdict}");
}

#[test]
fn unavailable_choices_are_refused_with_the_alternatives() {
    let cases = [
        (vec!["prove", "blake3", "--field", "baby-bear"], "--field koala-bear"),
        (vec!["prove", "fibonacci", "--log-rows", "40"], "--log-rows"),
        (vec!["prove", "fibonacci", "--queries", "0"], "--queries"),
        (vec!["prove", "fibonacci", "--log-rows", "4", "--log-final-poly-len", "4"], "lower --log-final-poly-len"),
        (vec!["bench", "plonky3", "--device", "emulated", "--only", "no such thing"], "--list"),
    ];
    for (words, advice) in cases {
        let output = rigel(&words, &[]);
        assert_eq!(code(&output), Some(2), "{words:?}");
        assert!(stderr(&output).contains(advice), "{words:?}: {}", stderr(&output));
    }
    let list = stdout(&rigel(&["bench", "plonky3", "--list"], &[]));
    assert!(list.contains("keccak 2^17, goldilocks, keccak"), "{list}");
}

#[test]
fn the_bench_compares_with_upstream() {
    let folder = Folder::new();
    let (report, page) = (folder.path("report.json"), folder.path("report.html"));
    let words = ["bench", "plonky3", "--quick", "--only", "fibonacci", "--device", "emulated", "--repeat", "1"];
    let files = ["--stream", "2", "-o", text(&report), "--html", text(&page)];
    let output = rigel(&[&words[..], &files[..]].concat(), &[]);
    assert_eq!(code(&output), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("all bytes"), "{}", stdout(&output));

    let document: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).expect("JSON");
    let row = &document["reports"][0]["rows"][0];
    assert!(row["error"].is_null(), "{row}");
    for side in ["milliseconds", "upstream_milliseconds"] {
        let phases = row["figures"]["phases"].as_array().expect("phases");
        assert!(phases.iter().any(|phase| phase["name"] == "fold" && phase[side].is_number()), "{side}: {row}");
    }
    assert!(row["bars"].as_array().is_some_and(|bars| bars.iter().all(|bar| bar["pass"].is_null())), "{row}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"));
    assert!(!page.contains("<script") && !page.contains("<link") && !page.contains("NaN"), "self-contained");
}

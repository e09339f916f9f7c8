//! Proofs with Stwo.

use serde_json::Value;

use crate::command::{code, rigel, rigel_within, stderr, stdout};
use crate::files::{Folder, json, text, verify, with_header, with_proof};

/// Parameters that make every proof cheap; the shapes are the same.
const QUICK: [&str; 4] = ["--queries", "5", "--pow-bits", "2"];

/// The channel that only a full build has.
const IN_FULL_BUILDS: &str = "--channel blake2s-m31";

/// The message of a build about a proof with that channel which was made with the other.
const OTHER_CHANNEL: &str = if cfg!(feature = "full") { "does not verify" } else { "--features full" };

fn is_built(words: &&str) -> bool {
    cfg!(feature = "full") || !words.contains(IN_FULL_BUILDS)
}

#[test]
fn what_is_proved_verifies() {
    let folder = Folder::new();
    for words in [
        "wide-fibonacci --log-rows 4 --cpu",
        "poseidon2 --prover stwo --log-rows 7 --cpu",
        "plonk --log-size 4 --cpu",
        "state-machine --log-rows 5 --channel blake2s-m31 --cpu",
        "xor --prover stwo --log-rows 4 --log-blowup 2 --cpu",
        "blake2s --log-rows 4 --cpu",
        "plonk --log-rows 8 --fold-step 3 --log-final-poly-len 2 --store-coefficients --cpu",
    ]
    .into_iter()
    .filter(is_built)
    {
        let output = verify(&folder.prove("proof", words, &QUICK));
        assert_eq!(code(&output), Some(0), "{words}: {}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains("verified in"), "{words}: {}", stdout(&output));
    }
}

#[test]
fn the_emulated_device_makes_the_cpus_proof() {
    let folder = Folder::new();
    for words in [
        "wide-fibonacci --log-rows 4",
        "wide-fibonacci --log-rows 6 --store-coefficients",
        "plonk --log-rows 5 --channel blake2s-m31",
        "state-machine --log-rows 5",
        "xor --log-rows 4",
    ]
    .into_iter()
    .filter(is_built)
    {
        let [device, cpu] = ["--device emulated", "--cpu"].map(|place| {
            let path = folder.prove("proof", &format!("{words} {place}"), &QUICK);
            std::fs::read(path).unwrap()
        });
        assert!(device == cpu, "{words}: the files differ");
        assert_eq!(code(&folder.verify(&device)), Some(0), "{words}");
    }
}

#[test]
fn the_report_speaks_json_and_the_phases_are_a_trace() {
    let folder = Folder::new();
    let trace = folder.path("trace.json");
    let words = ["prove", "plonk", "--log-rows", "5", "--device", "emulated", "--json", "--trace-file"];
    let output = rigel(&[&words[..], &[text(&trace)], &QUICK[..]].concat(), &[]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let report = json(&output);
    let named = ["prover", "workload", "channel"].map(|field| report[field].as_str().unwrap_or_default());
    assert_eq!((named, &report["log_size"]), (["stwo", "plonk", "blake2s"], &5.into()));
    assert_eq!(report["report"]["device"], "emulated:0");
    assert!(report["report"]["downloads"].as_u64().is_some_and(|copies| copies > 0), "{report}");
    let phases = report["report"]["phases"].as_array().expect("phases");
    for name in ["upload", "lookups", "constraints", "merkle tree", "fold"] {
        assert!(phases.iter().any(|phase| phase["name"] == name), "{name}: {report}");
    }
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).expect("JSON");
    assert_eq!(trace["traceEvents"].as_array().map(Vec::len), Some(phases.len() + 1));
}

/// Several devices make the proof of one, byte for byte, and the report names them.
#[test]
fn devices_prove_together() {
    let folder = Folder::new();
    let words = "wide-fibonacci --log-rows 5 --split --device emulated:0,emulated:1";
    let one = folder.prove("one", "wide-fibonacci --log-rows 5 --device emulated", &QUICK);
    let two = folder.prove("two", words, &QUICK);
    assert!(std::fs::read(one).unwrap() == std::fs::read(two).unwrap());

    let words: Vec<&str> =
        std::iter::once("prove").chain(words.split(' ')).chain(["--json"]).chain(QUICK).collect();
    let report = &json(&rigel(&words, &[]))["report"];
    assert_eq!(report["device"], "emulated:0, emulated:1");
    let shares = report["devices"].as_array().expect("a share of each");
    assert!(shares.len() == 2 && shares.iter().all(|share| share["bytes_sent"].as_u64() > Some(0)), "{report}");

    let words = "prove plonk --log-rows 5 --split --device emulated:0,emulated:1,emulated:2";
    let output = rigel(&words.split(' ').collect::<Vec<_>>(), &[]);
    assert_eq!(code(&output), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("power of two"), "{}", stderr(&output));
}

#[test]
fn without_a_device_the_cpu_proves_and_says_so() {
    let words = ["prove", "wide-fibonacci", "--log-rows", "4"];
    let output = rigel(&[&words[..], &QUICK[..]].concat(), &[("RIGEL_DEVICE", "none")]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("the CPU (upstream's prover)"), "{}", stdout(&output));
}

#[test]
fn a_device_that_is_too_small_leaves_the_proof_to_the_cpu_if_asked_to() {
    let words = ["prove", "wide-fibonacci", "--log-rows", "12", "--device", "emulated"];
    let output = rigel(&[&words[..], &QUICK[..]].concat(), &[("RIGEL_MEMORY_LIMIT", "1MiB")]);
    assert_eq!(code(&output), Some(1), "a device that was named is not replaced: {}", stdout(&output));

    let words = [&words[..], &["--fallback"]].concat();
    let output = rigel(&[&words[..], &QUICK[..]].concat(), &[("RIGEL_MEMORY_LIMIT", "1MiB")]);
    let said = stdout(&output);
    assert_eq!(code(&output), Some(0), "{said}{}", stderr(&output));
    assert!(said.contains("the CPU (upstream's prover)") && said.contains("the proof ran on the CPU: "), "{said}");
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));

    let output = rigel(&[&words[..], &["--json"], &QUICK[..]].concat(), &[("RIGEL_MEMORY_LIMIT", "1MiB")]);
    let fallbacks = &json(&output)["report"]["fallbacks"];
    assert_eq!(fallbacks[0]["ran_on"], "CPU", "{fallbacks}");
}

#[test]
fn each_damage_is_told_from_the_others() {
    let folder = Folder::new();
    let file = std::fs::read(folder.prove("proof", "plonk --log-rows 4 --cpu", &QUICK)).unwrap();
    let mut altered = file.clone();
    altered[file.len() / 2] ^= 1;
    for (bytes, words) in [(&altered[..], "altered"), (&file[..file.len() - 100], "cut short")] {
        let output = folder.verify(bytes);
        assert_eq!(code(&output), Some(1), "{words}");
        assert!(stderr(&output).contains(words), "{words}: {}", stderr(&output));
    }
}

#[test]
fn a_proof_of_something_else_does_not_verify() {
    let folder = Folder::new();
    let file = std::fs::read(folder.prove("proof", "state-machine --log-rows 5 --cpu", &QUICK)).unwrap();
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 8] = [
        (|header| header["public_values"][0][0] = 986.into(), "public values"),
        (|header| header["public_values"] = Value::Array(vec![]), "public values"),
        (|header| header["log_size"] = 6.into(), "does not verify"),
        (|header| header["log_size"] = 60.into(), "takes 2^5"),
        (|header| header["fri"]["queries"] = 6.into(), "another configuration"),
        (|header| header["workload"] = "plonk".into(), "does not verify"),
        (|header| header["channel"] = "blake2s-m31".into(), OTHER_CHANNEL),
        (|header| header["prover"] = "plonky3".into(), "header is not understood"),
    ];
    for (change, words) in changes {
        let output = folder.verify(&with_header(&file, change));
        assert_eq!(code(&output), Some(1), "{words}");
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains(words) && !said.contains("panicked"), "{words}: {said}");
    }
    std::fs::write(folder.path("other"), with_header(&file, changes[0].0)).unwrap();
    let verdict = json(&rigel(&["verify", "--json", text(&folder.path("other"))], &[]));
    assert_eq!((&verdict["verified"], &verdict["prover"]), (&false.into(), &"stwo".into()));
    assert!(verdict["reason"].is_string(), "{verdict}");
}

/// A file's header does not decide how much memory is taken: with 512 MiB of address space a process ends if it
/// takes what such a file asks for.
#[test]
fn a_file_does_not_choose_how_much_memory_verifying_takes() {
    let folder = Folder::new();
    let file = std::fs::read(folder.prove("proof", "plonk --log-rows 8 --cpu", &QUICK)).unwrap();
    let resized = |log_size: u64| {
        with_header(&file, |header| {
            header["log_size"] = log_size.into();
            header["fri"]["log_blowup"] = 2.into();
        })
    };
    // 3 << 20 claimed sums, of which each byte becomes four.
    let zeros = with_proof(&file, &[&[0x80, 0x80, 0xc0, 1][..], &vec![0; 12 << 20]].concat());
    let verify = |bytes: &[u8], more: &[&str]| {
        std::fs::write(folder.path("file"), bytes).unwrap();
        let output = rigel_within(512 << 20, &[&["verify", text(&folder.path("file"))], more].concat());
        (code(&output), stdout(&output) + &stderr(&output))
    };
    for (bytes, words) in [
        (resized(24), "MiB of memory, the limit is 64.0 MiB"),
        (resized(26), "MiB of memory, the limit is 64.0 MiB"),
        (zeros.clone(), "more memory than the limit of 64.0 MiB"),
        (with_proof(&file, &vec![0; 70 << 20]), "the limit of memory is 64.0 MiB"),
    ] {
        let (code, said) = verify(&bytes, &[]);
        assert_eq!(code, Some(1), "{words}: {said}");
        assert!(said.contains(words) && said.contains("--memory-limit"), "{words}: {said}");
    }
    // Whoever wants to know takes the memory.
    for (bytes, words) in
        [(&resized(12), "the public values are not those of"), (&zeros[..1000].to_vec(), "cut short")]
    {
        let (code, said) = verify(bytes, &["--memory-limit", "2GiB"]);
        assert_eq!(code, Some(1), "{words}: {said}");
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(verify(&file, &["--memory-limit", "1MiB"]).0, Some(0));
    assert_eq!(verify(&file, &["--memory-limit", "10KiB"]).0, Some(1));
}

/// A file of a few hundred bytes names a chain that takes minutes to compute: nobody computes it.
#[test]
fn a_long_chain_is_not_computed_to_verify_it() {
    let folder = Folder::new();
    let file = std::fs::read(folder.prove("proof", "poseidon2 --prover stwo --log-rows 7 --cpu", &QUICK)).unwrap();
    for (workload, log_size) in [("poseidon2", 26), ("blake2s", 18)] {
        let resized = with_header(&file, |header| {
            header["workload"] = workload.into();
            header["log_size"] = log_size.into();
        });
        for bytes in [with_proof(&resized, b""), resized] {
            let output = folder.verify(&bytes);
            assert_eq!(code(&output), Some(1), "{}", stderr(&output));
            assert!(stdout(&output).contains("does not verify"), "{}", stdout(&output));
        }
    }
}

#[test]
fn unavailable_choices_are_refused_with_the_alternatives() {
    let cases = [
        ("prove plonk --prover plonky3", "Plonky3: keccak, poseidon2, blake3"),
        ("prove keccak --prover stwo", "Stwo: poseidon2, wide-fibonacci, plonk"),
        ("prove plonk --field koala-bear", "its field is Mersenne31"),
        ("prove plonk --hash keccak", "--channel"),
        ("prove plonk --cap-height 2", "--cap-height"),
        ("prove plonk --max-log-arity 2", "--fold-step"),
        ("prove keccak --channel blake2s", "--hash"),
        ("prove poseidon2 --fold-step 2", "--max-log-arity"),
        ("prove keccak --store-coefficients", "--store-coefficients is for Stwo"),
        ("prove blake2s --log-rows 21", "takes 2^4 to 2^20 compressions"),
        ("prove plonk --log-rows 26 --log-blowup 3", "--log-blowup"),
        ("prove plonk --queries 0", "--queries"),
        ("prove plonk --pow-bits 4294967297", "too large"),
        (
            "prove plonk --log-rows 5 --fold-step 3 --log-final-poly-len 3",
            "lower --log-final-poly-len or --fold-step",
        ),
        ("bench stwo --device emulated --only nothing", "--list"),
    ];
    for (words, advice) in cases {
        let output = rigel(&words.split(' ').collect::<Vec<_>>(), &[]);
        assert_eq!(code(&output), Some(2), "{words}");
        assert!(stderr(&output).contains(advice), "{words}: {}", stderr(&output));
    }
    let list = stdout(&rigel(&["bench", "stwo", "--list"], &[]));
    assert!(list.contains("wide-fibonacci 2^22") && list.contains("poseidon2 2^20"), "{list}");
}

#[test]
fn the_bench_compares_with_upstream() {
    let folder = Folder::new();
    let (report, page) = (folder.path("report.json"), folder.path("report.html"));
    let words = ["bench", "stwo", "--quick", "--device", "emulated", "--repeat", "1"];
    let files = ["-o", text(&report), "--html", text(&page)];
    let output = rigel(&[&words[..], &files[..]].concat(), &[]);
    assert_eq!(code(&output), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(
        stdout(&output).contains("all bytes") && stdout(&output).contains("copies back"),
        "{}",
        stdout(&output)
    );

    let document: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).expect("JSON");
    assert_eq!(document["suite"], "stwo");
    let rows = document["reports"][0]["rows"].as_array().expect("rows");
    assert!(rows.len() >= 6, "{} rows", rows.len());
    let named = |row: &&Value| row["choice"]["workload"] == "poseidon2";
    let bars = &rows.iter().find(named).expect("Poseidon2")["bars"];
    let constraints = |bar: &Value| bar["figure"] == "constraints, x upstream" && bar["value"].is_number();
    assert!(bars.as_array().is_some_and(|bars| bars.iter().any(constraints)), "{bars}");
    for row in rows {
        assert!(row["error"].is_null(), "{row}");
        assert_eq!((&row["choice"]["prover"], &row["figures"]["equal_bytes"]), (&"stwo".into(), &true.into()));
        let phases = row["figures"]["phases"].as_array().expect("phases");
        for side in ["milliseconds", "upstream_milliseconds"] {
            for name in ["interpolate", "evaluate", "merkle tree", "constraints", "quotients", "fold"] {
                let there = phases.iter().any(|phase| phase["name"] == name && phase[side].is_number());
                assert!(there, "{name}, {side}: {row}");
            }
        }
        for count in ["launches", "downloads", "peak_bytes"] {
            assert!(row["figures"]["report"][count].as_u64().is_some_and(|count| count > 0), "{count}: {row}");
        }
        assert!(row["bars"].as_array().is_some_and(|bars| bars.iter().all(|bar| bar["pass"].is_null())), "{row}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"));
    assert!(!page.contains("<script") && !page.contains("<link") && !page.contains("NaN"), "self-contained");
}

//! Proofs equal those of upstream's own function, and upstream's verifier accepts them.

mod support;

use rigel_cairo::{Blake2sMerkleChannel, CairoProver, for_verifier, verify};
use serde_json::json;
use support::{device, input, program, quick, serialized, upstream};

#[test]
fn fibonacci_on_the_device_and_on_the_cpu() {
    let input = input("fibonacci", json!([100]));
    let expected = serialized(&upstream::<Blake2sMerkleChannel>(input.clone(), quick()));

    let prover: CairoProver = CairoProver::new(&device(), quick()).unwrap();
    let proven = prover.prove(input.clone()).unwrap();
    println!("{}", proven.report);
    assert!(serialized(&proven.proof) == expected, "the device's proof differs");

    let on_cpu: CairoProver = CairoProver::on_cpu(quick()).unwrap();
    let on_cpu = on_cpu.prove(input).unwrap();
    println!("{}", on_cpu.report);
    assert!(serialized(&on_cpu.proof) == expected, "the CPU's proof differs");

    let statement = verify::<Blake2sMerkleChannel>(for_verifier(&proven.proof), Some(&program("fibonacci"))).unwrap();
    assert_eq!(statement.output, ["0x64", "0x3245e1a61e5624f888"]);
}

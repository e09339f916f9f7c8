//! Runs a compiled program, proves the run on the first GPU or on the CPU, and verifies the proof.
//!
//! Compile the program first, with scripts/compile-programs.

use std::path::Path;

use rigel_cairo::{
    Blake2sMerkleChannel, CairoProver, PreProcessedTraceVariant, Program, Result, RunOptions, for_verifier,
    production, verify,
};
use serde_json::json;

fn main() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compiled/fibonacci.json");
    let program = Program::read(path)?;
    let run = program.run(&RunOptions { program_input: Some(json!([100])), ..RunOptions::default() })?;
    println!("{} steps", run.steps);

    let prover: CairoProver = CairoProver::open(production(PreProcessedTraceVariant::CanonicalSmall))?;
    let proven = prover.prove(run.input)?;
    print!("{}", proven.report);

    let root = prover.preprocessed_root();
    let statement = verify::<Blake2sMerkleChannel>(for_verifier(&proven.proof), Some(&program), Some(&root))?;
    println!("program {}, output {:?}", statement.program_hash, statement.output);
    Ok(())
}

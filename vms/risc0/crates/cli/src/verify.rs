//! `rigel risc0 verify`: upstream's verifier.

use std::path::PathBuf;

use rigel_risc0::{Digest, Program, Receipt};
use rigel_terminal::Paint;
use serde_json::json;

use crate::Failure;
use crate::options::{read, write};
use crate::prove::shortened;

#[derive(clap::Args)]
pub struct Arguments {
    /// Receipt, as `rigel risc0 prove` or upstream's programs write it (bincode)
    #[arg(value_name = "RECEIPT")]
    receipt: PathBuf,
    /// Image id of the program, in 64 hexadecimal digits
    #[arg(long, value_name = "HEX", required_unless_present = "program")]
    image_id: Option<String>,
    /// The program itself, in place of its image id
    #[arg(long, value_name = "FILE", conflicts_with = "image_id")]
    program: Option<PathBuf>,
    /// Write the journal to a file, if the receipt is accepted
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

/// Verifies and reports. Returns whether the receipt is accepted.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let bytes = read(&arguments.receipt)?;
    let receipt: Receipt = bincode::deserialize(&bytes)
        .map_err(|error| format!("{} is no receipt: {error}", arguments.receipt.display()))?;
    let image_id = match (&arguments.image_id, &arguments.program) {
        (Some(digits), _) => {
            let mut bytes = [0; 32];
            hex::decode_to_slice(digits.trim_start_matches("0x"), &mut bytes)
                .map_err(|error| format!("{digits:?} is no image id of 64 hexadecimal digits: {error}"))?;
            Digest::from_bytes(bytes)
        }
        (None, Some(path)) => Program::load(&read(path)?)?.image_id(),
        (None, None) => return Err("no image id is given".into()),
    };
    let reason = rigel_risc0::verify(&receipt, image_id).err().map(|error| error.to_string());
    let accepted = reason.is_none();
    let journal = hex::encode(&receipt.journal.bytes);
    if json {
        let image_id = image_id.to_string();
        let verdict = json!({ "verified": accepted, "reason": reason, "image_id": image_id, "journal": journal });
        println!("{}", serde_json::to_string_pretty(&verdict)?);
    } else {
        match reason {
            None => {
                let journal = shortened(&journal);
                println!("{}\n  image id {image_id}\n  journal  {journal}", Paint::Good.on("accepted"));
            }
            Some(reason) => println!("{}", Paint::Bad.on(&reason)),
        }
    }
    if let Some(path) = arguments.journal.as_ref().filter(|_| accepted) {
        write(path, &receipt.journal.bytes)?;
    }
    Ok(accepted)
}

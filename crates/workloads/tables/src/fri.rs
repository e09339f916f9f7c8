//! The parameters of FRI and of its Merkle trees, which determine a proof's size and soundness.

use p3_fri::FriParameters;
use serde::{Deserialize, Serialize};

/// FRI parameters and the height of the Merkle caps. The defaults are those of upstream's benchmark
/// (`FriParameters::new_benchmark_high_arity`, caps of height 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Fri {
    /// Extended columns are 2^N times as long as the trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub log_blowup: usize,
    /// Folding ends at a polynomial of 2^N coefficients
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub log_final_poly_len: usize,
    /// A fold reduces at most 2^N elements to one
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub max_log_arity: usize,
    /// Number of queries
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub queries: usize,
    /// Proof of work before the queries, in bits
    #[arg(long, value_name = "BITS", default_value_t = 16)]
    pub pow_bits: usize,
    /// Proof of work before openings are batched, in bits
    #[arg(long, value_name = "BITS", default_value_t = 10)]
    pub batch_pow_bits: usize,
    /// Proof of work before each fold, in bits
    #[arg(long, value_name = "BITS", default_value_t = 0)]
    pub commit_pow_bits: usize,
    /// A commitment is the 2^N digests at depth N below a tree's root
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub cap_height: usize,
    /// The protocol that hides the trace (`HidingFriPcs` and hiding trees), with fixed seeds, for measurements
    #[arg(long)]
    #[serde(default)]
    pub zk: bool,
}

impl Default for Fri {
    fn default() -> Self {
        Self {
            log_blowup: 1,
            log_final_poly_len: 0,
            max_log_arity: 3,
            queries: 100,
            pow_bits: 16,
            batch_pow_bits: 10,
            commit_pow_bits: 0,
            cap_height: 3,
            zk: false,
        }
    }
}

impl Fri {
    /// Converts to upstream's type.
    pub fn parameters<M>(&self, mmcs: M) -> FriParameters<M> {
        FriParameters {
            log_blowup: self.log_blowup,
            log_final_poly_len: self.log_final_poly_len,
            max_log_arity: self.max_log_arity,
            num_queries: self.queries,
            batch_proof_of_work_bits: self.batch_pow_bits,
            commit_proof_of_work_bits: self.commit_pow_bits,
            query_proof_of_work_bits: self.pow_bits,
            mmcs,
        }
    }

    /// Checks that every parameter is in its range; the error names the first that is not.
    pub fn check(&self) -> Result<(), String> {
        let within = [
            ("--log-blowup", self.log_blowup, 1, 8),
            ("--log-final-poly-len", self.log_final_poly_len, 0, 16),
            ("--max-log-arity", self.max_log_arity, 1, 8),
            ("--queries", self.queries, 1, 1000),
            ("--pow-bits", self.pow_bits, 0, 30),
            ("--batch-pow-bits", self.batch_pow_bits, 0, 30),
            ("--commit-pow-bits", self.commit_pow_bits, 0, 30),
            ("--cap-height", self.cap_height, 0, 16),
        ];
        for (name, value, least, most) in within {
            if !(least..=most).contains(&value) {
                return Err(format!("{name} is {value}; it must be from {least} to {most}"));
            }
        }
        Ok(())
    }

    /// The security of the queries in bits, by upstream's conjecture.
    pub fn conjectured_bits(&self) -> usize {
        self.parameters(()).conjectured_soundness_bits()
    }
}

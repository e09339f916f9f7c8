//! A component with a lookup, whose LogUp columns are computed on the device from the component itself.
//!
//! Every row looks up its value in a table with as many values, and the table counts the uses of each value.
//!
//! `cargo run --release -p rigel-stwo --example lookups`, on the GPU if there is one, else on the emulated device.

// The items that upstream's `relation!` defines have no documentation.
#![allow(missing_docs)]

use num_traits::{One, Zero};
use rigel_gpu::{Device, Error, Selector};
use rigel_stwo::CudaBackend;
use stwo::core::air::Component;
use stwo::core::channel::{Blake2sChannel, Channel};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::{CommitmentSchemeVerifier, PcsConfig};
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::core::verifier::verify;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
use stwo::prover::{CommitmentSchemeProver, prove};
use stwo_constraint_framework::{
    EvalAtRow, FrameworkComponent, FrameworkEval, RelationEntry, TraceLocationAllocator, relation,
};

relation!(Table, 1);

/// Columns: a value to look up, a value of the table, and the number of lookups of the latter.
struct Lookup {
    log_size: u32,
    table: Table,
}

impl FrameworkEval for Lookup {
    fn log_size(&self) -> u32 {
        self.log_size
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_size + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let (used, entry, times) = (eval.next_trace_mask(), eval.next_trace_mask(), eval.next_trace_mask());
        eval.add_to_relation(RelationEntry::new(&self.table, E::EF::one(), &[used]));
        eval.add_to_relation(RelationEntry::new(&self.table, -E::EF::from(times), &[entry]));
        eval.finalize_logup_in_pairs();
        eval
    }
}

fn component(log_size: u32, table: Table, claimed_sum: SecureField) -> FrameworkComponent<Lookup> {
    FrameworkComponent::new(&mut TraceLocationAllocator::default(), Lookup { log_size, table }, claimed_sum)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = match Device::open(Selector::Auto) {
        Err(Error::Unavailable { .. }) => Device::open(Selector::Emulated(0))?,
        opened => opened?,
    };
    let log_size = 8;
    let rows = 1u32 << log_size;

    // Row r looks up 7 r^2; the table has all values, in order.
    let used: Vec<u32> = (0..rows).map(|r| 7 * r * r % rows).collect();
    let mut times = vec![0; rows as usize];
    used.iter().for_each(|&value| times[value as usize] += 1);
    let domain = CanonicCoset::new(log_size).circle_domain();
    let trace = [used, (0..rows).collect(), times].map(|column| {
        let values = column.into_iter().map(BaseField::from_u32_unchecked).collect();
        CircleEvaluation::<SimdBackend, BaseField, BitReversedOrder>::new(domain, values)
    });

    let config = PcsConfig::default();
    let (proof, claimed_sum) = rigel_stwo::on(&device, || -> Result<_, Box<dyn std::error::Error>> {
        let twiddles = CudaBackend::precompute_twiddles(CanonicCoset::new(log_size + 1).half_coset());
        let mut channel = Blake2sChannel::default();
        let mut scheme = CommitmentSchemeProver::<CudaBackend, Blake2sMerkleChannel>::new(config, &twiddles);
        scheme.tree_builder().commit(&mut channel);
        let columns = rigel_stwo::upload(&trace)?;
        let mut tree = scheme.tree_builder();
        tree.extend_evals(columns.clone());
        tree.commit(&mut channel);

        // With the drawn lookup elements, the component defines its fractions.
        let lookup = Lookup { log_size, table: Table::draw(&mut channel) };
        let values: Vec<_> = columns.iter().map(|column| &column.values).collect();
        let (sums, claimed_sum) = rigel_stwo::interaction_trace(&lookup, &[], &values)?;
        channel.mix_felts(&[claimed_sum]);
        let mut tree = scheme.tree_builder();
        tree.extend_evals(sums);
        tree.commit(&mut channel);
        let component = component(log_size, lookup.table, claimed_sum);
        Ok((prove(&[&component], &mut channel, scheme)?, claimed_sum))
    })?;

    // Every value that is looked up is in the table, so the sums cancel.
    assert!(claimed_sum.is_zero());
    let mut channel = Blake2sChannel::default();
    let mut scheme = CommitmentSchemeVerifier::<Blake2sMerkleChannel>::new(config);
    scheme.commit(proof.commitments[0], &[], &mut channel);
    scheme.commit(proof.commitments[1], &[log_size; 3], &mut channel);
    let table = Table::draw(&mut channel);
    channel.mix_felts(&[claimed_sum]);
    let component = component(log_size, table, claimed_sum);
    scheme.commit(proof.commitments[2], &component.trace_log_degree_bounds()[2], &mut channel);
    verify(&[&component], &mut channel, &mut scheme, proof)?;
    println!("{rows} lookups proved on {device}, verified by Stwo");
    Ok(())
}

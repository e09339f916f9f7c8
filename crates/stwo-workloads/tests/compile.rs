//! Kernels that are compiled ahead of the first proof, of both provers' workloads.

use std::sync::atomic::{AtomicUsize, Ordering};

use rigel_gpu::{Device, Selector};
use rigel_statements::stwo::{Channel, Fri, Making};
use rigel_statements::{OnFailure, Statement};
use rigel_stwo_workloads::Workload;
use rigel_stwo_workloads::choice::statement;
use rigel_workloads::{Field, Hash, Workload as Plonky3Workload};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Counts the programs that are compiled: each has a span with the field `compile`.
struct Compilations;

static COMPILATIONS: AtomicUsize = AtomicUsize::new(0);

impl Subscriber for Compilations {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.fields().field("compile").is_some()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        COMPILATIONS.fetch_add(1, Ordering::Relaxed);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The compilations of `work`.
fn compilations(work: impl FnOnce()) -> usize {
    let before = COMPILATIONS.load(Ordering::Relaxed);
    work();
    COMPILATIONS.load(Ordering::Relaxed) - before
}

fn of_plonky3(workload: Plonky3Workload) -> Box<dyn Statement> {
    let fri = rigel_workloads::Fri { queries: 2, pow_bits: 1, batch_pow_bits: 1, ..Default::default() };
    let (field, hash) = (Field::KoalaBear, Hash::Keccak);
    rigel_workloads::Choice { workload, log_rows: 6, field, hash, fri }.statement().unwrap()
}

fn of_stwo(workload: Workload) -> Box<dyn Statement> {
    let fri = Fri { queries: 2, pow_bits: 1, ..Fri::default() };
    statement(workload, 5, Channel::Blake2s, fri, Making::default()).unwrap()
}

#[test]
fn what_is_compiled_ahead_is_what_a_proof_needs() {
    tracing::subscriber::set_global_default(Compilations).unwrap();
    for (workload, mut statement) in [
        ("fibonacci", of_plonky3(Plonky3Workload::Fibonacci)),
        ("lookups", of_plonky3(Plonky3Workload::Lookups)),
        // Without lookups; across components; with preprocessed columns of one component of two.
        ("wide-fibonacci", of_stwo(Workload::WideFibonacci)),
        ("state-machine", of_stwo(Workload::StateMachine)),
        ("xor", of_stwo(Workload::Xor)),
    ] {
        let device = Device::open(Selector::Emulated(0)).unwrap();
        statement.generate();
        let ahead = compilations(|| assert!(statement.compile(&device).unwrap() > 0));
        let prove = |statement: &mut dyn Statement, device: &Device| {
            statement.prepare(Some(device), OnFailure::Fail).unwrap();
            compilations(|| drop(statement.prove().unwrap()))
        };
        assert_eq!(prove(&mut *statement, &device), 0, "{workload}");
        // Nor is anything compiled that it does not need.
        let other = Device::open(Selector::Emulated(0)).unwrap();
        let alone = prove(&mut *statement, &other);
        assert!(ahead >= alone && alone > 0, "{workload}: {ahead} ahead, {alone} in a proof");
        assert_eq!(device.keep_stats().values, other.keep_stats().values, "{workload}");
    }
}

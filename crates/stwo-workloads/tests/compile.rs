//! Kernels that are compiled ahead of the first proof.

use rigel_gpu::{Device, Selector};
use rigel_plonky3::Policy;
use rigel_stwo_workloads::Workload;
use rigel_stwo_workloads::choice::{Channel, Choice, Fri, Making};

#[test]
fn what_is_compiled_ahead_is_what_a_proof_needs() {
    // Without lookups; across components; with preprocessed columns of one component of two.
    for workload in [Workload::WideFibonacci, Workload::StateMachine, Workload::Xor] {
        let fri = Fri { queries: 2, pow_bits: 1, ..Fri::default() };
        let choice = Choice { workload, log_size: 5, channel: Channel::Blake2s, fri };
        let [ahead, alone] = [true, false].map(|ahead| {
            let device = Device::open(Selector::Emulated(0)).unwrap();
            let mut statement = choice.statement(Making::default()).unwrap();
            statement.generate();
            let kernels = if ahead { statement.compile(&device).unwrap() } else { 0 };
            assert_eq!(kernels > 0, ahead, "{workload}");
            statement.prepare(Some(&device), Policy::default()).unwrap();
            statement.prove().unwrap();
            device.keep_stats().values
        });
        // A program with another text would be one value more that the device keeps.
        assert_eq!(ahead, alone, "{workload}");
    }
}

//! The contents of reports.

use rigel_gpu::testing::{are_pooled, on_each_device};
use rigel_plonky3::{Report, prove};

use crate::airs::fibonacci;
use crate::configs::{self, Fri};
use crate::small::numbers;
use crate::support::{self, bytes};

#[test]
fn a_report_says_what_the_proof_took() {
    on_each_device(|stream| {
        let fri = Fri { num_queries: 30, ..Fri::default() };
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let (trace, publics) = fibonacci(256);
        let proven = [0, 1].map(|_| prove(&prover, &numbers(), &trace, &publics).unwrap());
        for proven in &proven {
            let report = &proven.report;
            assert_eq!(report.device, stream.device().to_string());
            for name in
                ["upload", "extend", "hash", "constraints", "denominators", "open", "reduce", "fold", "query"]
            {
                assert!(report.phases.iter().any(|phase| phase.name == name), "{name} is missing: {report}");
            }
            assert!(report.phases.iter().all(|phase| phase.start_ms >= 0.0 && phase.ms >= 0.0));
            assert!(report.phases.is_sorted_by(|a, b| a.start_ms <= b.start_ms));
            assert!(report.total_ms > 0.0 && (0.0..=1.0).contains(&report.busy()));
            assert!(report.launches > 0 && report.peak_bytes > 0 && report.fallbacks.is_empty());
            let memory = || report.phases.iter().map(|phase| phase.memory_bytes);
            assert!(
                memory().all(|bytes| bytes <= report.peak_bytes) && memory().any(|bytes| bytes > 256 * 2 * 2 * 4)
            );
            let size = bytes(&proven.proof).len() as u64;
            assert!(report.bytes_up >= 256 * 2 * 4, "{report}");
            assert!(report.bytes_down <= 4 * size, "{} down for a proof of {size}", report.bytes_down);
        }
        if are_pooled() {
            assert_eq!(proven[1].report.driver_allocations, 0);
        }
        assert_eq!(proven[0].report.bytes_down, proven[1].report.bytes_down);
        assert_shown(&proven[1].report);
    });
}

fn assert_shown(report: &Report) {
    let trace: serde_json::Value = serde_json::from_str(&report.chrome_trace()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events.len(), report.phases.len() + 1);
    assert!(events[1..].iter().all(|event| event["ph"] == "X" && event["dur"].as_f64().unwrap() >= 0.0));
    let json = serde_json::to_value(report).unwrap();
    assert_eq!(json["phases"].as_array().unwrap().len(), report.phases.len());
    let text = report.to_string();
    for word in ["ms on ", "constraints", "up, ", "launches", &report.device] {
        assert!(text.contains(word), "{text} does not say {word:?}");
    }
}

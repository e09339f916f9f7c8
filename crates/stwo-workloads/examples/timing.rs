//! throw-away
use rigel_stwo::CudaBackend as Cuda;
use rigel_stwo_workloads::*;
use std::time::Instant;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel as MC;
use stwo::prover::backend::simd::SimdBackend as Simd;

fn main() {
    let device = rigel_gpu::Device::from_env().unwrap();
    if std::env::var("SPANS").is_ok() {
        use tracing_subscriber::fmt::format::FmtSpan;
        tracing_subscriber::fmt().with_span_events(FmtSpan::CLOSE).with_max_level(tracing_subscriber::filter::LevelFilter::INFO).init();
    }
    let args: Vec<String> = std::env::args().collect();
    let simd = args.iter().any(|a| a == "simd");
    let cases: Vec<(Workload, u32)> = args[1..].iter().filter_map(|a| { let (n, l) = a.split_once(':')?; Some((n.parse().ok()?, l.parse().ok()?)) }).collect();
    for (workload, log) in cases {
        let config = benchmark_config();
        let statement = Cuda::statement(workload, log, 1).unwrap();
        let t = Instant::now();
        let witness = statement.witness();
        println!("== {workload} 2^{log}: witness {:.0} ms, {} MB", t.elapsed().as_secs_f64()*1e3, witness.bytes() >> 20);
        let mut recorded = None;
        let mut expected = None;
        {
            let host = Simd::statement(workload, log, 1).unwrap();
            let tw = twiddles::<Simd>(host.log_rows(), &config);
            if simd || statement.relations() > 0 {
                for i in 0..if simd { 3 } else { 1 } {
                    let cols = witness.adopt::<Simd>();
                    let t = Instant::now();
                    let source = match &recorded { Some(r) => InteractionSource::Reuse(r), None => InteractionSource::Record(&mut recorded) };
                    let p = prove_adopted::<Simd, MC>(&*host, cols, config, false, &tw, source).unwrap();
                    println!("simd {i}: {:.1} ms", t.elapsed().as_secs_f64()*1e3);
                    expected = Some(postcard::to_allocvec(&p).unwrap());
                }
            }
        }
        rigel_stwo::on(&device, || {
            let tw = twiddles::<Cuda>(statement.log_rows(), &config);
            for i in 0..4 {
                let source = || match &recorded { Some(r) => InteractionSource::Reuse(r), None => InteractionSource::Generate };
                let run = |resident: bool| {
                    let kept = resident.then(|| witness.adopt::<Cuda>());
                    device.synchronize().unwrap();
                    let t = Instant::now();
                    let (p, report) = rigel_stwo::measure(|| match kept {
                        Some(k) => prove_adopted::<Cuda, MC>(&*statement, k, config, false, &tw, source()).unwrap(),
                        None => prove::<Cuda, MC>(&*statement, &witness, config, false, &tw, source()).unwrap(),
                    }).unwrap();
                    let ms = t.elapsed().as_secs_f64()*1e3;
                    let equal = expected.as_ref().map(|e| *e == postcard::to_allocvec(&p).unwrap());
                    println!("cuda {i} resident {resident}: {ms:.2} ms equal {equal:?}");
                    if i == 3 { println!("{report}"); }
                };
                run(false); run(true);
                if i == 2 {
                    let t = Instant::now();
                    let _ = prove::<Cuda, MC>(&*statement, &witness, config, false, &tw, source()).unwrap();
                    println!("cuda unmeasured: {:.2} ms", t.elapsed().as_secs_f64()*1e3);
                    let k = witness.adopt::<Cuda>(); device.synchronize().unwrap();
                    let t = Instant::now();
                    let _ = prove_adopted::<Cuda, MC>(&*statement, k, config, false, &tw, source()).unwrap();
                    println!("cuda resident unmeasured: {:.2} ms", t.elapsed().as_secs_f64()*1e3);
                }
            }
            if args.iter().any(|a| a == "logup") && statement.relations() > 0 {
                for _ in 0..2 { let (p, report) = rigel_stwo::measure(|| prove::<Cuda, MC>(&*statement, &witness, config, false, &tw, InteractionSource::Generate).unwrap()).unwrap();
                println!("generate: equal {:?} {report}", expected.as_ref().map(|e| *e == postcard::to_allocvec(&p).unwrap())); }
            }
        });
    }
}

//! Calls of the driver that fail, at every point of small programs.

use std::time::Duration;

use rigel_gpu::testing::faults::{
    Call, Faults, Injection, Moment, Outcome, Patience, Program, Sweep, check, sample,
};
use rigel_gpu::testing::programs::{self, kernels};
use rigel_gpu::{Buffer, Device, Graph, Options, Pooling, Result, Selector, Shape, bytes_of};

const N: usize = 64;

/// Work of all kinds: uploads, gathered launches, a graph, copies between two streams and to the host.
fn work(device: &Device) -> Result<Vec<u8>> {
    // SAFETY: all launches have a thread for each element.
    let [step, flip] = unsafe { kernels(device) }?;
    let stream = device.compute()?;
    let shape = Shape::new(2, N as u32 / 2);
    let values: Vec<u32> = (0..N as u32).collect();
    let mut x = stream.upload(&values)?;
    let gathering = stream.gather();
    for by in 0..20 {
        step.launch(&stream, shape, (&mut x, by))?;
        flip.launch(&stream, shape, (&mut x, by))?;
    }
    let other = device.new_stream()?;
    let mut copy = other.zeros::<u32>(N)?;
    other.wait_for(&stream)?;
    other.copy(&mut copy, &x)?;
    stream.wait_for(&other)?;
    for by in 0..3 {
        flip.launch(&stream, shape, (&mut x, by))?;
    }
    drop(gathering);
    let mut graph = Graph::capture(&other, |other| step.launch(other, shape, (&mut copy, 5u32)))?;
    graph.replay(&other)?;
    graph.recapture(&other, |other| step.launch(other, shape, (&mut copy, 6u32)))?;
    graph.replay(&other)?;
    stream.wait_for(&other)?;
    let mut both = stream.alloc::<u32>(2 * N)?;
    stream.copy(both.range_mut(..N)?, &x)?;
    stream.copy(both.range_mut(N..)?, &copy)?;
    let start = stream.record_time()?;
    flip.launch(&stream, Shape::new(4, N as u32 / 2), (&mut both, 9u32))?;
    let end = stream.record_time()?;
    let found = both.to_vec(&stream)?;
    end.since(&start)?;
    Ok(bytes_of(&found).to_vec())
}

/// The bytes that [`work`] gives, computed by the host.
fn expected() -> Vec<u8> {
    let mut x: Vec<u32> = (0..N as u32).collect();
    (0..20).for_each(|by| x.iter_mut().for_each(|x| *x = x.wrapping_mul(3).wrapping_add(by) ^ by));
    let copy = x.iter().map(|x| x.wrapping_mul(3).wrapping_add(5).wrapping_mul(3).wrapping_add(6));
    let flipped = x.iter().map(|x| x ^ 1 ^ 2);
    let both: Vec<u32> = flipped.chain(copy).map(|x| x ^ 9).collect();
    bytes_of(&both).to_vec()
}

#[test]
fn work_of_all_kinds_fails_at_every_point() {
    check(&Program::new("work of all kinds", expected(), |device| Ok(work(device)?)), u64::MAX);
}

#[test]
fn transfers_to_another_library_fail_at_every_point() {
    check(&programs::transfer(), u64::MAX);
}

/// Each outcome that a run with a failure must not have is told apart from the others.
#[test]
fn outcomes_are_told_apart() {
    let injection = Injection::over(Selector::Emulated(0), Options::from_env().unwrap()).unwrap();
    let upload = |device: &Device| device.compute()?.upload(&[7u32; N]);
    let within = |patience: Patience, program: Program, call: Call, number: u64| {
        let mut sweep = Sweep::new(&injection, &program, Moment::Later, patience).unwrap();
        sweep.fail(call, number)
    };
    let outcome = |program, call, number| within(Patience::default(), program, call, number);
    let short = Duration::from_millis(500);
    let expected = bytes_of(&[7u32; N]).to_vec();
    let honest = move |device: &Device| upload(device)?.to_vec(&device.compute()?);
    let honest = Program::new("honest", expected.clone(), move |device| Ok(bytes_of(&honest(device)?).to_vec()));
    assert_eq!(outcome(honest.clone(), Call::Copy, 1), Outcome::Error);
    assert_eq!(outcome(honest.clone(), Call::Copy, 2), Outcome::Error);
    assert_eq!(outcome(honest, Call::Copy, 3), Outcome::NotReached);
    let told = move |of: fn(String) -> std::result::Result<Vec<u8>, String>| {
        Program::new("another", vec![1], move |device| match upload(device) {
            Ok(_) => Ok(vec![1]),
            Err(error) => Ok(of(error.to_string())?),
        })
    };
    assert_eq!(outcome(told(|_| Ok(vec![1])), Call::Copy, 1), Outcome::Right);
    assert_eq!(outcome(told(|_| Ok(vec![2])), Call::Copy, 1), Outcome::Wrong);
    assert_eq!(outcome(told(|_| Err("no".into())), Call::Copy, 1), Outcome::Unnamed("no".into()));
    assert!(matches!(outcome(told(|error| panic!("{error}")), Call::Copy, 1), Outcome::Panicked(_)));
    let endless = |_| loop {
        std::thread::park();
    };
    let impatient = Patience { run: short, ..Patience::default() };
    assert_eq!(within(impatient, told(endless), Call::Copy, 1), Outcome::Hung);
    let leaking = Program::new("leaking", vec![1], move |device| {
        if let Err(error) = upload(device) {
            std::mem::forget(device.compute()?.zeros::<u32>(N)?);
            return Err(error.into());
        }
        Ok(vec![1])
    });
    let impatient = Patience { settling: short, ..Patience::default() };
    assert!(matches!(within(impatient, leaking, Call::Copy, 1), Outcome::Leaked(_)));
}

/// Memory whose last wait failed is left to the driver, because work may still use it; nothing else is.
#[test]
fn what_a_failed_wait_leaves_is_counted() {
    for pooling in [Pooling::Arena, Pooling::Direct] {
        let options = Options { pooling, ..Options::from_env().unwrap() };
        let injection = Injection::over(Selector::Emulated(0), options).unwrap();
        let close = |call: Call, count: u64| {
            let (device, faults): (Device, Faults) = injection.open();
            let stream = device.new_stream().unwrap();
            let x: Buffer<u32> = stream.upload(&[1; N]).unwrap();
            assert!(faults.held().device_bytes > 0 && faults.held().pinned_bytes > 0);
            faults.arm_several(call, 1, count);
            drop((x, stream, device));
            faults.held()
        };
        assert_eq!(close(Call::Wait, 0), Default::default(), "nothing fails");
        let left = close(Call::Wait, u64::MAX / 2);
        assert!(left.device_bytes > 0, "{pooling:?}: {left:?}");
    }
}

#[test]
fn samples_are_spread() {
    assert_eq!(sample(3, 5), [1, 2, 3]);
    assert_eq!(sample(100, 3), [1, 50, 100]);
    assert_eq!(sample(0, 3), [0; 0]);
}

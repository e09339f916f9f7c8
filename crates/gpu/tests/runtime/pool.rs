//! Jobs over several devices.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rigel_gpu::{Attempt, Device, Emulation, Error, Member, Options, Pool, Selectors};

fn members(devices: &[Device]) -> Vec<Member<Device>> {
    let member = |device: &Device| Member { to: device.clone(), device: Some(device.clone()), budget: 1 << 30 };
    devices.iter().map(member).collect()
}

fn emulated(emulation: &Emulation) -> Vec<Device> {
    Device::emulated(emulation, &Options::from_env().unwrap()).unwrap()
}

#[test]
fn each_device_gets_jobs() {
    for names in ["emulated:0,emulated:1", "emulated:0,emulated:1,emulated:0#1"] {
        let devices = names.parse::<Selectors>().unwrap().open().unwrap();
        let pool = Pool::<_, String, Error>::new(members(&devices), 1).unwrap();
        // Each holds its device until all have begun, so no device gets two.
        let (began, begins) = channel();
        let ends: Vec<_> = devices
            .iter()
            .map(|_| {
                let (end, ends) = channel::<()>();
                let began = began.clone();
                pool.submit(1, move |device: &Device| {
                    began.send(()).unwrap();
                    ends.recv().unwrap();
                    let stream = device.compute()?;
                    assert_eq!(stream.upload(&[7u32])?.to_vec(&stream)?, [7]);
                    assert!(Attempt::current().may_move() && Attempt::current().moves().is_empty());
                    Ok(device.to_string())
                });
                end
            })
            .collect();
        devices.iter().for_each(|_| begins.recv().unwrap());
        ends.iter().for_each(|end| end.send(()).unwrap());
        let mut made: Vec<String> = std::iter::from_fn(|| pool.next()).map(|(_, made)| made.unwrap()).collect();
        let mut expected: Vec<String> = devices.iter().map(ToString::to_string).collect();
        made.sort_unstable();
        expected.sort_unstable();
        assert_eq!(made, expected);
        assert!(pool.shares().iter().all(|share| share.jobs == 1 && share.lost.is_none()));
    }
}

/// 32 numbers `value` by two launches.
fn fill(device: &Device, value: u32) -> Result<Vec<u32>, Error> {
    let stream = device.compute()?;
    let mut values = stream.zeros::<u32>(32)?;
    let shape = rigel_gpu::Shape::new(1, 32);
    crate::slow_fill(&stream).launch(&stream, shape, (&mut values, 32u32, value, 10u32))?;
    values.to_vec(&stream)
}

/// Waits until it is set, in a job. If it never is, the job panics and the test fails, instead of waiting for ever.
fn await_set(flag: &OnceLock<()>, what: &str) {
    let began = Instant::now();
    while flag.get().is_none() {
        assert!(began.elapsed() < Duration::from_secs(300), "{what} within 300 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Device 0 of two answers to `lost_after` launches, then no more. A fill is a launch, too. Device 1 waits for that, so
/// that it does not do all the jobs first.
#[test]
fn jobs_of_a_lost_device_are_done_by_the_others() {
    let devices =
        emulated(&Emulation { devices: 2, lost_after: Some(5), lost_device: Some(0), ..Emulation::default() });
    let pool = Pool::<_, (String, usize), Error>::new(members(&devices), 2).unwrap();
    let lost = Arc::new(OnceLock::new());
    for i in 0..50u32 {
        let lost = lost.clone();
        pool.submit(1, move |device: &Device| {
            if device.to_string() == "emulated:1" {
                await_set(&lost, "device 0 was not lost");
            }
            let made = fill(device, i);
            if matches!(made, Err(Error::DeviceLost { .. })) {
                lost.get_or_init(|| ());
            }
            assert_eq!(made?, [i; 32]);
            Ok((device.to_string(), Attempt::current().moves().len()))
        });
    }
    let made: Vec<_> = std::iter::from_fn(|| pool.next()).map(|(_, made)| made.unwrap()).collect();
    assert_eq!(made.len(), 50);
    let moved: Vec<_> = made.iter().filter(|(_, moves)| *moves > 0).collect();
    assert!(!moved.is_empty() && moved.iter().all(|made| **made == ("emulated:1".to_string(), 1)), "{moved:?}");
    let shares = pool.shares();
    assert!(shares[0].lost.as_ref().is_some_and(|reason| reason.contains("lost after 5 launches")), "{shares:?}");
    assert_eq!(shares[0].jobs + shares[1].jobs, 50);
    assert_eq!(shares[1].lost, None);
}

/// A job that loses each device that it gets takes two of four, and the others do the rest.
#[test]
fn a_job_that_loses_devices_does_not_take_all() {
    for has_another_way in [false, true] {
        let devices = emulated(&Emulation { devices: 4, ..Emulation::default() });
        let pool = Pool::<_, u32, Error>::new(members(&devices), 1).unwrap();
        let fatal = pool.submit(1, move |device: &Device| {
            let attempt = Attempt::current();
            if has_another_way && !attempt.may_move() {
                assert_eq!(attempt.moves().len(), 2);
                return Ok(100);
            }
            Err(Error::DeviceLost { device: device.to_string(), operation: "a test", detail: "on purpose".into() })
        });
        for i in 0..20 {
            pool.submit(1, move |device: &Device| {
                let stream = device.compute()?;
                Ok(stream.upload(&[i])?.to_vec(&stream)?[0])
            });
        }
        match pool.wait(fatal) {
            Some(Ok(100)) if has_another_way => {}
            Some(Err(Error::DeviceLost { .. })) if !has_another_way => {}
            ended => panic!("{ended:?}"),
        }
        let mut made: Vec<u32> = std::iter::from_fn(|| pool.next()).map(|(_, made)| made.unwrap()).collect();
        made.sort_unstable();
        assert_eq!(made, (0..20).collect::<Vec<_>>());
        let shares = pool.shares();
        assert_eq!(shares.iter().filter(|share| share.lost.is_some()).count(), 2, "{shares:?}");
    }
}

#[test]
fn when_all_are_lost_jobs_run_once_more_and_their_error_is_final() {
    let devices = emulated(&Emulation { devices: 3, ..Emulation::default() });
    let pool = Pool::<_, usize, Error>::new(members(&devices), 1).unwrap();
    let gone = |device: &Device| Error::DeviceLost {
        device: device.to_string(),
        operation: "a test",
        detail: "on purpose".into(),
    };
    for i in 0..10 {
        pool.submit(1, move |device: &Device| {
            let attempt = Attempt::current();
            // Every second one has another way.
            if attempt.may_move() || i % 2 == 0 { Err(gone(device)) } else { Ok(i) }
        });
    }
    let results: Vec<_> = std::iter::from_fn(|| pool.next()).collect();
    assert_eq!(results.len(), 10);
    let (made, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(|(_, made)| made.is_ok());
    assert_eq!(made.len(), 5);
    assert!(failed.iter().all(|(_, made)| matches!(made, Err(Error::DeviceLost { .. }))));
    assert!(pool.shares().iter().all(|share| share.lost.is_some()));
    // One that is submitted now runs, too.
    let ticket = pool.submit(1, |_| Ok(11));
    assert_eq!(pool.wait(ticket).unwrap().unwrap(), 11);
}

#[test]
fn jobs_are_cancelled_and_panics_are_errors() {
    let devices = emulated(&Emulation { devices: 2, ..Emulation::default() });
    let pool = Pool::<_, (), Error>::new(members(&devices), 1).unwrap();
    let (began, begins) = channel();
    let running: Vec<_> = (0..2)
        .map(|_| {
            let began = began.clone();
            pool.submit(1, move |_: &Device| {
                began.send(()).unwrap();
                while !Attempt::current().is_cancelled() {
                    std::thread::yield_now();
                }
                Err(Error::Cancelled)
            })
        })
        .collect();
    begins.recv().unwrap();
    begins.recv().unwrap();
    let waiting = pool.submit(1, |_| Ok(()));
    assert!(pool.cancel(waiting));
    assert!(matches!(pool.wait(waiting), Some(Err(Error::Cancelled))));
    assert!(pool.wait(waiting).is_none() && !pool.cancel(waiting));
    for ticket in running {
        assert!(pool.cancel(ticket));
        assert!(matches!(pool.wait(ticket), Some(Err(Error::Cancelled))));
    }
    let ticket = pool.submit(1, |_| panic!("on purpose"));
    assert!(matches!(pool.wait(ticket), Some(Err(Error::Panicked(reason))) if reason == "on purpose"));
    // Dropping the pool ends what runs.
    let cancelled = pool.submit(1, move |_: &Device| {
        began.send(()).unwrap();
        while !Attempt::current().is_cancelled() {
            std::thread::yield_now();
        }
        Ok(())
    });
    begins.recv().unwrap();
    let _ = cancelled;
    drop(pool);
}

/// A member of a pool that has no device.
fn on_the_cpu() -> Vec<Member<()>> {
    vec![Member { to: (), device: None, budget: 1 << 30 }]
}

/// The longest that a test waits before it fails, where a defect would make it wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// A value of a closure that uses the pool when it is dropped.
struct Asks {
    pool: Arc<Pool<(), (), Error>>,
    jobs: Sender<usize>,
}

impl Drop for Asks {
    fn drop(&mut self) {
        self.jobs.send(self.pool.shares().len()).unwrap();
    }
}

#[test]
fn a_cancelled_closure_may_use_the_pool_when_it_is_dropped() {
    let pool = Arc::new(Pool::new(on_the_cpu(), 1).unwrap());
    let (end, ends) = channel::<()>();
    let running = pool.submit(1, move |()| {
        // An error means that the test has failed.
        let _ = ends.recv();
        Ok(())
    });
    let (jobs, asked) = channel();
    let asks = Asks { pool: pool.clone(), jobs };
    let waiting = pool.submit(1, move |()| {
        let _asks = &asks;
        Ok(())
    });
    let cancels = std::thread::spawn({
        let pool = pool.clone();
        move || pool.cancel(waiting)
    });
    assert_eq!(asked.recv_timeout(PATIENCE), Ok(1), "the closure was not dropped");
    assert!(cancels.join().unwrap());
    end.send(()).unwrap();
    assert!(matches!(pool.wait(running), Some(Ok(()))));
}

/// A value of a closure that waits, when it is dropped, for the end of another job.
struct AwaitsEnd {
    end: Receiver<()>,
    outcome: Sender<RecvTimeoutError>,
}

impl Drop for AwaitsEnd {
    fn drop(&mut self) {
        self.outcome.send(self.end.recv_timeout(PATIENCE).unwrap_err()).unwrap();
    }
}

#[test]
fn closures_that_a_closing_pool_drops_may_wait_for_its_jobs() {
    let pool = Pool::<_, (), Error>::new(on_the_cpu(), 1).unwrap();
    let (began, begins) = channel();
    // Nothing is sent: the sender is dropped with the closure, when the pool has noted that the job has ended.
    let (held, end) = channel::<()>();
    pool.submit(1, move |()| {
        let _held = &held;
        began.send(()).unwrap();
        while !Attempt::current().is_cancelled() {
            std::thread::yield_now();
        }
        Ok(())
    });
    begins.recv().unwrap();
    let (outcome, outcomes) = channel();
    let awaits = AwaitsEnd { end, outcome };
    pool.submit(1, move |()| {
        let _awaits = &awaits;
        Ok(())
    });
    drop(pool);
    assert_eq!(outcomes.recv(), Ok(RecvTimeoutError::Disconnected), "the other job could not end");
}

#[test]
fn wrong_pools_are_refused() {
    let device = Device::emulated(&Emulation::default(), &Options::from_env().unwrap()).unwrap().remove(0);
    let refused = |devices: &[Device], at_once| match Pool::<_, (), Error>::new(members(devices), at_once) {
        Err(error) => error.to_string(),
        Ok(pool) => panic!("{pool:?}"),
    };
    assert!(refused(&[], 1).contains("0 devices"));
    assert!(refused(std::slice::from_ref(&device), 0).contains("at least 1"));
    assert!(refused(&[device.clone(), device.clone()], 1).contains("emulated:0 is there twice"));
    // Opened again, without a number of its own.
    let again = emulated(&Emulation::default()).remove(0);
    assert!(refused(&[device, again], 1).contains("emulated:0 is there twice"));
}

//! Proofs through a queue, and many at once without one.

use std::sync::Arc;
use std::sync::mpsc::channel;

use p3_field::PrimeCharacteristicRing;
use p3_koala_bear::KoalaBear;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::testing::on_each_device;
use rigel_plonky3::{Cancel, Error, Prover, Queue, prove};

use crate::airs::{fibonacci, fibonacci_from};
use crate::configs::{self, Fri};
use crate::small::numbers;
use crate::support::{self, bytes};

fn shared<T: Send + Sync>(value: T) -> T {
    value
}

fn witness(first: u32, rows: usize) -> (RowMajorMatrix<KoalaBear>, Vec<KoalaBear>) {
    fibonacci_from(KoalaBear::from_u32(first), KoalaBear::ONE, rows)
}

#[test]
fn results_come_as_they_are_done() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = Arc::new(shared(support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri)));
        let air = Arc::new(numbers());
        let queue = shared(Queue::new(&prover, 3).unwrap());
        assert!(queue.next().is_none(), "nothing was submitted");
        let submitted: Vec<_> = (0..8)
            .map(|i| {
                let (trace, publics) = witness(i, 8 << (i % 4));
                let expected = support::expected(prover.config(), &*air, &trace, &publics);
                (queue.prove(&air, trace, publics), expected)
            })
            .collect();
        let last = &submitted[7];
        assert!(bytes(&queue.wait(last.0).unwrap().unwrap().proof) == last.1);
        assert!(queue.wait(last.0).is_none(), "it was taken");
        for _ in 0..7 {
            let (ticket, made) = queue.next().unwrap();
            let (_, expected) = submitted.iter().find(|(submitted, _)| *submitted == ticket).unwrap();
            assert!(bytes(&made.unwrap().proof) == *expected);
        }
        assert!(queue.next().is_none(), "all were taken");
        // An error is a result, too.
        let ticket = queue.prove(&air, RowMajorMatrix::new(vec![KoalaBear::ONE; 6], 2), vec![]);
        assert!(matches!(queue.wait(ticket), Some(Err(Error::Height { rows: 3, .. }))));
        let ticket = queue.submit(0, |_| panic!("on purpose"));
        let error = queue.wait(ticket).unwrap().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
    });
}

/// Jobs tell when they run, and end when they are told to: so it is seen how many run together.
#[test]
fn proofs_wait_for_memory() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri::default();
        let prover = Arc::new(support::prover(device, &configs::koala_bear_sponge(fri), fri));
        device.set_memory_limit(Some(device.memory_stats().in_use + (1 << 20)));
        let queue = Queue::<_, usize>::new(&prover, 4).unwrap();
        device.set_memory_limit(None);
        let (began, begins) = channel();
        let submit = |name: usize, bytes: usize| {
            let (end, ends) = channel::<()>();
            let began = began.clone();
            let ticket = queue.submit(bytes, move |_| {
                began.send(name).unwrap();
                ends.recv().unwrap();
                Ok(name)
            });
            (ticket, end)
        };
        let jobs = [submit(0, 600 << 10), submit(1, 300 << 10), submit(2, 300 << 10), submit(3, 1)];
        let mut first = [begins.recv().unwrap(), begins.recv().unwrap()];
        first.sort_unstable();
        assert_eq!(first, [0, 1]);
        // Those that begin later wait for the third, which waits for memory.
        assert!(begins.try_recv().is_err());
        jobs[0].1.send(()).unwrap();
        assert_eq!(queue.wait(jobs[0].0).unwrap().unwrap(), 0);
        let mut then = [begins.recv().unwrap(), begins.recv().unwrap()];
        then.sort_unstable();
        assert_eq!(then, [2, 3]);
        // One that fits with none begins when it is alone.
        let large = submit(4, 1 << 40);
        for (ticket, end) in &jobs[1..] {
            end.send(()).unwrap();
            queue.wait(*ticket).unwrap().unwrap();
        }
        assert_eq!(begins.recv().unwrap(), 4);
        large.1.send(()).unwrap();
        assert_eq!(queue.next().unwrap().1.unwrap(), 4);
    });
}

#[test]
fn proofs_are_cancelled() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = Arc::new(support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri));
        let air = Arc::new(numbers());
        let queue = Queue::new(&prover, 1).unwrap();
        // The first holds the queue's only thread until the second is cancelled.
        let (end, ends) = channel::<()>();
        let (began, begins) = channel();
        let (running, made) = (Cancel::new(), air.clone());
        let seen = running.clone();
        let (trace, publics) = fibonacci(32);
        let first = queue.submit(0, move |prover| {
            began.send(()).unwrap();
            ends.recv().unwrap();
            assert!(!seen.is_cancelled());
            prove(prover, &*made, &trace, &publics)
        });
        begins.recv().unwrap();
        let (trace, publics) = fibonacci(16);
        let second = queue.prove(&air, trace.clone(), publics.clone());
        let third = queue.prove(&air, trace.clone(), publics.clone());
        assert!(queue.cancel(second));
        assert!(matches!(queue.wait(second), Some(Err(Error::Cancelled))));
        assert!(queue.cancel(first));
        end.send(()).unwrap();
        assert!(matches!(queue.wait(first), Some(Err(Error::Cancelled))));
        let expected = support::expected(prover.config(), &*air, &trace, &publics);
        assert!(bytes(&queue.wait(third).unwrap().unwrap().proof) == expected);
        assert!(!queue.cancel(third), "it has ended");

        // Without a queue.
        running.cancel();
        let made = running.during(|| prove(&prover, &*air, &trace, &publics));
        assert!(matches!(made, Err(Error::Cancelled)));
        assert!(prove(&prover, &*air, &trace, &publics).is_ok(), "the flag is only looked at inside");
    });
}

/// Each proof has two streams of its own.
#[test]
fn forty_proofs_at_once() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover: &Prover<_> = &support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let (trace, publics) = fibonacci(8);
        let expected = &support::expected(prover.config(), &numbers(), &trace, &publics);
        std::thread::scope(|scope| {
            let proofs: Vec<_> = (0..40)
                .map(|_| scope.spawn(|| prove(prover, &numbers(), &trace, &publics).unwrap().proof))
                .collect();
            assert!(proofs.into_iter().all(|proof| bytes(&proof.join().unwrap()) == *expected));
        });
    });
}

//! The statement that jobs share: who may use it, who may replace it, and who has the device alone.
//!
//! Jobs of the same choice use one statement at the same time. A job of another choice waits until nobody uses it, and
//! replaces it; a job that needs the whole device waits likewise. Those that come later wait behind a job that waits,
//! so that it has its turn.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rigel_worker::{Failure, Job};

/// The interval at which a waiting job checks whether it was cancelled.
const GLANCE: Duration = Duration::from_millis(20);

/// The value that jobs share, by its key.
pub struct Ready<K, V: ?Sized> {
    state: Mutex<State<K, V>>,
    changed: Condvar,
}

struct State<K, V: ?Sized> {
    /// The jobs that wait to enter, and at its front the one that has the device alone.
    line: VecDeque<u64>,
    next: u64,
    users: usize,
    /// The number of uses that have begun.
    begun: u64,
    kept: Option<(K, Arc<V>)>,
}

/// A turn, and the state at its beginning.
type Begun<'a, K, V> = (Turn<'a, K, V>, MutexGuard<'a, State<K, V>>);

impl<K: PartialEq, V: ?Sized> Ready<K, V> {
    pub fn new() -> Self {
        let state = State { line: VecDeque::new(), next: 0, users: 0, begun: 0, kept: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// A use of what is kept for the key. If it is another's or nothing, it goes, as soon as nobody uses it, before
    /// `make` is called; meanwhile nobody else enters. A use that is not `shared` has no other beside it.
    pub fn enter(
        &self,
        job: &mut Job,
        key: K,
        shared: bool,
        make: impl FnOnce(&mut Job) -> Result<Arc<V>, Failure>,
    ) -> Result<Use<'_, K, V>, Failure> {
        let is_kept = |state: &State<K, V>| state.kept.as_ref().is_some_and(|(known, _)| *known == key);
        let (turn, mut state) = self.turn(job, |state| state.users == 0 || shared && is_kept(state))?;
        if !is_kept(&state) {
            let old = state.kept.take();
            drop(state);
            drop(old);
            let made = make(job)?;
            state = self.lock();
            state.kept = Some((key, made));
        }
        let value =
            state.kept.as_ref().map(|(_, value)| value.clone()).expect("it was there, or has just been made");
        state.users += 1;
        state.begun += 1;
        let (number, others) = (state.begun, state.users > 1);
        drop(state);
        // Whoever has a turn is alone.
        let turn = (!shared).then_some(turn);
        Ok(Use { of: self, value: Some(value), number, others, _turn: turn })
    }

    /// Waits until nobody uses anything, and lets nobody in until the turn is dropped.
    pub fn alone(&self, job: &Job) -> Result<Turn<'_, K, V>, Failure> {
        Ok(self.turn(job, |state| state.users == 0)?.0)
    }

    /// The value that is kept for the key, for whoever is alone.
    pub fn kept(&self, key: &K) -> Option<Arc<V>> {
        self.lock().kept.as_ref().filter(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    /// Lets go of what is kept; its users keep it until they are done.
    pub fn forget(&self) {
        let kept = self.lock().kept.take();
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the job's turn and for the condition.
    fn turn(&self, job: &Job, may: impl Fn(&State<K, V>) -> bool) -> Result<Begun<'_, K, V>, Failure> {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.line.push_back(ticket);
        drop(state);
        let turn = Turn { of: self, ticket };
        let mut waits = false;
        let mut state = self.lock();
        loop {
            match (state.line.front() == Some(&ticket) && may(&state), waits) {
                (true, false) => return Ok((turn, state)),
                (may, _) if may == waits => {
                    // Its time stops or begins. That is said without the lock, so things may have changed afterwards.
                    waits = !may;
                    drop(state);
                    if waits {
                        job.waits(0.0, "wait for other jobs")
                    } else {
                        job.progress(0.0, "begin")
                    }
                    state = self.lock();
                }
                _ => {
                    let waited = self.changed.wait_timeout(state, GLANCE);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    if job.cancelled() {
                        // The turn's end takes the lock.
                        drop(state);
                        return Err(Failure::stopped());
                    }
                }
            }
        }
    }
}

/// A place in the line. While it is at the front, nobody else enters.
pub struct Turn<'a, K: PartialEq, V: ?Sized> {
    of: &'a Ready<K, V>,
    ticket: u64,
}

impl<K: PartialEq, V: ?Sized> Drop for Turn<'_, K, V> {
    fn drop(&mut self) {
        self.of.lock().line.retain(|ticket| *ticket != self.ticket);
        self.of.changed.notify_all();
    }
}

/// A use of what is kept.
pub struct Use<'a, K: PartialEq, V: ?Sized> {
    of: &'a Ready<K, V>,
    /// The value, until the use is dropped.
    value: Option<Arc<V>>,
    number: u64,
    others: bool,
    _turn: Option<Turn<'a, K, V>>,
}

impl<K: PartialEq, V: ?Sized> Use<'_, K, V> {
    pub fn value(&self) -> &V {
        self.value.as_ref().expect("it is there until this is dropped")
    }

    /// Whether there were other uses at any time of this one.
    pub fn was_beside_others(&self) -> bool {
        self.others || self.of.lock().begun != self.number
    }
}

impl<K: PartialEq, V: ?Sized> Drop for Use<'_, K, V> {
    fn drop(&mut self) {
        // Before it is counted out: whoever waits for that needs the memory.
        self.value = None;
        self.of.lock().users -= 1;
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// Runs work as jobs of a worker, one for each line of the input, all at once.
    fn jobs(work: impl Fn(&mut Job) + Sync, inputs: &[&str]) {
        thread::scope(|scope| {
            for (number, input) in inputs.iter().enumerate() {
                let work = &work;
                scope.spawn(move || work(&mut Job::detached(number as u64, input.as_bytes().to_vec())));
            }
        });
    }

    #[test]
    fn uses_of_one_key_overlap_and_others_do_not() {
        let ready = Ready::<u8, AtomicUsize>::new();
        let made = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        let began = Instant::now();
        let work = |job: &mut Job| {
            let key = job.input()[0];
            let make = |_: &mut Job| {
                made.fetch_add(1, Ordering::SeqCst);
                Ok(Arc::new(AtomicUsize::new(0)))
            };
            let used = ready.enter(job, key, key != b'x', make).unwrap();
            let users = 1 + used.value().fetch_add(1, Ordering::SeqCst);
            most.fetch_max(users, Ordering::SeqCst);
            assert!(key != b'x' || users == 1, "a use beside one that is not shared");
            // The first ones stay until there is a second, however slow the machine is.
            while most.load(Ordering::SeqCst) < 2 && began.elapsed() < Duration::from_secs(30) {
                thread::yield_now();
            }
            used.value().fetch_sub(1, Ordering::SeqCst);
        };
        jobs(work, &["a"; 8]);
        assert_eq!(made.load(Ordering::SeqCst), 1);
        assert!(most.load(Ordering::SeqCst) > 1);
        jobs(work, &["a", "b", "x", "a", "x", "b", "x", "a"]);
        assert!(made.load(Ordering::SeqCst) <= 9);
        assert_eq!(ready.lock().users, 0);
        assert!(ready.lock().line.is_empty());
    }

    #[test]
    fn whoever_is_alone_has_nobody_beside() {
        let ready = Ready::<u8, ()>::new();
        let inside = AtomicUsize::new(0);
        let work = |job: &mut Job| {
            if job.number().is_multiple_of(3) {
                let _turn = ready.alone(job).unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                thread::sleep(Duration::from_millis(1));
                inside.fetch_sub(1, Ordering::SeqCst);
                ready.forget();
                return;
            }
            let used = ready.enter(job, 1, true, |_| Ok(Arc::new(()))).unwrap();
            inside.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(1));
            inside.fetch_sub(1, Ordering::SeqCst);
            drop(used);
        };
        jobs(work, &[""; 12]);
    }

    #[test]
    fn a_use_knows_whether_there_were_others() {
        let ready = Ready::<u8, ()>::new();
        let mut job = Job::detached(1, Vec::new());
        let mut enter = || ready.enter(&mut job, 1, true, |_| Ok(Arc::new(()))).unwrap();
        let first = enter();
        assert!(!first.was_beside_others());
        let second = enter();
        drop(second);
        assert!(first.was_beside_others(), "one that has come and gone");
        let third = enter();
        assert!(third.was_beside_others(), "one that was there");
        drop((first, third));
        assert!(!enter().was_beside_others());
    }

    #[test]
    fn a_job_that_is_cancelled_while_it_waits_leaves_the_line() {
        let ready = Ready::<u8, ()>::new();
        let mut first = Job::detached(1, Vec::new());
        let used = ready.enter(&mut first, 1, true, |_| Ok(Arc::new(()))).unwrap();
        let (send, receive) = mpsc::channel();
        thread::scope(|scope| {
            let ready = &ready;
            scope.spawn(move || {
                let mut second = Job::detached(2, Vec::new());
                send.send(second.stopped()).unwrap();
                let entered = ready.enter(&mut second, 2, true, |_| panic!("it is in use"));
                assert_eq!(
                    entered.err().map(|failure| failure.to_string()).as_deref(),
                    Some("the job was cancelled")
                );
            });
            let stopped = receive.recv().unwrap();
            while ready.lock().line.is_empty() {
                thread::yield_now();
            }
            stopped.set();
        });
        assert!(ready.lock().line.is_empty());
        drop(used);
        // What a failure leaves is nothing, and the next makes it.
        let failed = ready.enter(&mut first, 2, true, |_| Err(Failure::new("no"))).err();
        assert_eq!(failed.map(|failure| failure.to_string()).as_deref(), Some("no"));
        assert!(ready.enter(&mut first, 2, true, |_| Ok(Arc::new(()))).is_ok());
    }
}

//! Threads that help the launching thread run a grid.

use crate::base::Lock;
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;

/// Work that several threads may run at the same time. It lives as long as a call of [`Pool::join`], which returns
/// only when no thread can access the work any more.
type Work = &'static (dyn Fn() + Sync);

#[derive(Default)]
struct State {
    work: Option<Work>,
    /// The number of workers that may still start the work.
    wanted: usize,
    /// The number of workers that are running it.
    running: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Lock<State>,
    offered: Condvar,
    finished: Condvar,
}

/// A fixed number of workers, started on first use.
pub(super) struct Pool {
    shared: Arc<Shared>,
    workers: usize,
    threads: Lock<Vec<JoinHandle<()>>>,
}

impl Pool {
    pub(super) fn new(workers: usize) -> Self {
        Self { shared: Arc::default(), workers, threads: Lock::default() }
    }

    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    /// Runs `lead` on the calling thread. `lead` may call its argument to let up to `workers` other threads run
    /// `help` in parallel. Returns when all have finished. Only one call at a time.
    pub(super) fn join(&self, help: &(dyn Fn() + Sync), workers: usize, lead: impl FnOnce(&dyn Fn())) {
        // Waits for the workers even if `lead` panics.
        struct Finish<'a>(&'a Shared);
        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                let mut state = self.0.state.lock();
                (state.work, state.wanted) = (None, 0);
                drop(self.0.finished.wait_while(state, |state| state.running > 0).unwrap());
            }
        }
        let finish = Finish(&self.shared);
        // SAFETY: only the lifetime changes. Before this function returns, `finish` removes the work and waits
        // until no worker runs it, which is within the borrow.
        let work = unsafe { std::mem::transmute::<&(dyn Fn() + Sync), Work>(help) };
        lead(&|| self.offer(work, workers.min(self.workers)));
        drop(finish);
    }

    fn offer(&self, work: Work, workers: usize) {
        if workers == 0 {
            return;
        }
        let mut threads = self.threads.lock();
        while threads.len() < self.workers {
            let shared = self.shared.clone();
            let worker = std::thread::Builder::new().name("rigel-emulated".into()).spawn(move || shared.help());
            // If no worker can be started, the launching thread does all of the work.
            let Ok(worker) = worker else { break };
            threads.push(worker);
        }
        let mut state = self.shared.state.lock();
        (state.work, state.wanted) = (Some(work), workers);
        self.shared.offered.notify_all();
    }
}

impl Shared {
    fn help(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            match state.work.filter(|_| state.wanted > 0) {
                None => state = self.offered.wait(state).unwrap(),
                Some(work) => {
                    state.wanted -= 1;
                    state.running += 1;
                    drop(state);
                    work();
                    state = self.state.lock();
                    state.running -= 1;
                    if state.running == 0 {
                        self.finished.notify_all();
                    }
                }
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.offered.notify_all();
        for thread in self.threads.get_mut().drain(..) {
            let _ = thread.join();
        }
    }
}

//! One policy for poisoned locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex that does not know poisoning.
///
/// A thread that panics while it holds a lock would make every later user of the lock panic too. The engine reports
/// errors as values, so that is not wanted; and no code here panics between two steps of a change that belong
/// together, so what the lock protects is whole.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a lock that nobody else can hold.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a lock that is needed no more.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_the_lock_usable() {
        let lock = Lock::new(1);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let mut value = lock.lock();
                *value = 2;
                panic!("while the lock is held");
            });
            assert!(thread.join().is_err());
        });
        assert_eq!(*lock.lock(), 2);
    }
}

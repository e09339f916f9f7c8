//! One policy for poisoned locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex that ignores poisoning.
///
/// With a standard mutex, a thread that panics while it holds the lock makes every later user panic too. The
/// engine reports errors as values instead. Ignoring the poison is sound because no code here panics halfway
/// through an update, so the protected value is always consistent.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Wraps `value` in a lock.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, without locking: the exclusive borrow proves that the lock is free.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Consumes the lock and returns the value.
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

//! Hides the messages of panics that are caught and expected.

use std::any::Any;
use std::panic::{set_hook, take_hook};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Whether a panic's message is expected.
type Expected = fn(&str) -> bool;

/// The panics that are expected at the moment, each with the number of the caller that expects it.
static EXPECTED: Mutex<(u64, Vec<(u64, Expected)>)> = Mutex::new((0, Vec::new()));

fn expected() -> MutexGuard<'static, (u64, Vec<(u64, Expected)>)> {
    EXPECTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A panic's message.
pub fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied())
}

/// Runs `work`, which must catch its own panics. Until it returns, panics of any thread whose message is `expected` are
/// not printed: upstream's code also panics on threads of its own.
pub fn quietly<R>(is_expected: fn(&str) -> bool, work: impl FnOnce() -> R) -> R {
    // One hook for all callers, which stays: callers on several threads that each exchanged it would restore each
    // other's.
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let outer = take_hook();
        set_hook(Box::new(move |info| {
            let known = |text: &str| expected().1.iter().any(|(_, is_expected)| is_expected(text));
            if !info.payload_as_str().is_some_and(known) {
                outer(info);
            }
        }));
    });
    let _registered = Registered::new(is_expected);
    work()
}

/// An entry of [`EXPECTED`].
struct Registered(u64);

impl Registered {
    fn new(is_expected: Expected) -> Self {
        let mut expected = expected();
        expected.0 += 1;
        let number = expected.0;
        expected.1.push((number, is_expected));
        Self(number)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        expected().1.retain(|(number, _)| *number != self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_ends_with_the_work() {
        let count = || expected().1.len();
        let before = count();
        quietly(
            |_| true,
            || {
                quietly(|text| text == "inner", || assert_eq!(count(), before + 2));
                assert_eq!(count(), before + 1);
            },
        );
        let caught = std::panic::catch_unwind(|| quietly(|_| true, || panic!("outer")));
        assert_eq!(message(&*caught.unwrap_err()), Some("outer"));
        assert_eq!(count(), before);
    }
}

//! Upstream's panics as values.
//!
//! Upstream's witness and verifier report bad input by panicking. Rigel's public functions return errors instead.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether panics on this thread are caught and returned, so that printing them would only confuse.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` and returns the panic if it panics. Its message is not printed, unless it is raised on another thread.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let outer = take_hook();
        set_hook(Box::new(move |info| {
            if !CAUGHT.get() {
                outer(info);
            }
        }));
    });
    let outer = CAUGHT.replace(true);
    // The result of `work` is dropped with everything that it left half done.
    let result = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(outer);
    result
}

/// A panic's message.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given").to_string()
}

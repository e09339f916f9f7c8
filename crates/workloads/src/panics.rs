//! Hides the messages of panics that are caught and expected.

use std::any::Any;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Arc;

/// A panic's message.
pub fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied())
}

/// Runs `work`, which must catch its own panics. Panics whose message is `expected` are not printed.
pub fn quietly<R>(expected: fn(&str) -> bool, work: impl FnOnce() -> R) -> R {
    let hook: Arc<dyn Fn(&PanicHookInfo<'_>) + Send + Sync> = Arc::from(take_hook());
    let outer = hook.clone();
    set_hook(Box::new(move |info| {
        if !info.payload_as_str().is_some_and(expected) {
            outer(info);
        }
    }));
    let result = work();
    set_hook(Box::new(move |info| hook(info)));
    result
}

//! Opaque handles.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::{Error, Lock, Result};
use crate::drivers::Raw;

/// The live objects of one kind, by handle.
pub(super) struct Handles<T> {
    what: &'static str,
    things: Lock<HashMap<u64, Arc<T>>>,
}

impl<T> Handles<T> {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, things: Lock::default() }
    }

    /// Adds an object and returns its handle, which is unique in the process.
    pub(super) fn add(&self, thing: T) -> Raw {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.things.lock().insert(number, Arc::new(thing));
        Raw(number)
    }

    pub(super) fn get(&self, raw: Raw) -> Result<Arc<T>> {
        self.things.lock().get(&raw.0).cloned().ok_or_else(|| Error::Driver {
            device: "emulated".into(),
            operation: "looking up a handle",
            detail: format!("no {} on this device has this handle", self.what),
        })
    }

    pub(super) fn remove(&self, raw: Raw) -> Option<Arc<T>> {
        self.things.lock().remove(&raw.0)
    }

    pub(super) fn retain(&self, keep: impl Fn(&T) -> bool) {
        self.things.lock().retain(|_, thing| keep(thing));
    }
}

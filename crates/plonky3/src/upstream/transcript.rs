//! A wrapper for upstream's transcripts, which panic if they are dropped before their last step.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A transcript that an error may leave unfinished. It is then leaked instead of dropped, so that the error
/// reaches the caller.
pub(crate) struct Unfinished<T>(ManuallyDrop<T>);

impl<T> Unfinished<T> {
    pub(crate) fn new(transcript: T) -> Self {
        Self(ManuallyDrop::new(transcript))
    }

    /// Returns the transcript, after the last step that can fail.
    pub(crate) fn into_inner(self) -> T {
        ManuallyDrop::into_inner(self.0)
    }
}

impl<T> Deref for Unfinished<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Unfinished<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

//! Standard input and output, kept for frames.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::Error;

/// Takes standard input and output away from the rest of the program: it then reads nothing from the one, and what it
/// prints to the other goes to standard error. Programs that it starts inherit neither of the two that are returned.
///
/// [`serve`](crate::serve) does so itself. This is for programs that speak in frames about something else.
///
/// # Errors
/// A standard stream that is closed.
pub fn take() -> Result<(File, File), Error> {
    let stream = |stream| move |source| Error::Stream { stream, source };
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let copy = |of: BorrowedFd<'_>| of.try_clone_to_owned().map(File::from);
    let input = copy(stdin.as_fd()).map_err(stream("standard input"))?;
    let output = copy(stdout.as_fd()).map_err(stream("standard output"))?;
    let nothing = File::open("/dev/null").map_err(stream("standard input"))?;
    redirect(stdin.as_fd(), nothing.as_fd()).map_err(stream("standard input"))?;
    redirect(stdout.as_fd(), io::stderr().as_fd()).map_err(stream("standard output"))?;
    Ok((input, output))
}

/// Makes one descriptor mean what another means.
fn redirect(descriptor: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open, because they are borrowed. The first is one of the standard streams, which
    // Rust never closes and which may change what they refer to.
    let result = unsafe { libc::dup2(to.as_raw_fd(), descriptor.as_raw_fd()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

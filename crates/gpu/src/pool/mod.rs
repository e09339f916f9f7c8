//! Jobs over several devices.
//!
//! | file | content |
//! |---|---|
//! | `schedule.rs` | which job begins on which device: memory, expected time, lost devices. No threads, no clock |
//! | `workers.rs` | the threads of each device, results, cancellation |

mod schedule;
mod workers;

pub use schedule::{Share, Ticket};
pub use workers::{Member, Pool, PoolError};

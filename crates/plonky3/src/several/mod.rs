//! The phases of one proof over several devices. The protocols are in `door`, in `prove_over.rs` and `batch_over.rs`.
//!
//! The rows of a table's extended domain are shared out: device k of K has block k of them, in bit-reversed order,
//! which is a coset of its own. Tables of a batch with fewer extended rows than there are devices are on the first one.
//! What a device does for a proof it does for its rows, with the functions of a proof on one device:
//!
//! | phase | on each device | between devices |
//! |---|---|---|
//! | `extend.rs`, `commit.rs` | extends a share of the columns, hashes its rows of all into a subtree | extended rows (coefficients, if that is less), roots |
//! | `lookup.rs` | computes the lookups' columns for a K-th of the trace's rows (`rows.rs`) | the trace's rows, the columns, a sum for each table |
//! | `quotient.rs` | evaluates the constraints on its rows | the trace's next rows, if blocks are smaller than the trace; the quotient |
//! | `open.rs` | adds up its rows' part of the opened values, reduces its rows | sums, through the host |
//! | `fri.rs` | folds its rows, until they are few; then the first device has all | the values of the first small layer |
//!
//! The host keeps the transcript. Queried rows and nodes are read from the devices that have them (`gather.rs`). The
//! devices with their streams are a `Team` (`team.rs`).

pub(crate) mod commit;
pub(crate) mod extend;
pub(crate) mod fri;
pub(crate) mod gather;
pub(crate) mod lookup;
pub(crate) mod open;
pub(crate) mod quotient;
pub(crate) mod rows;
pub(crate) mod team;

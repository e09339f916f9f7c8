//! Evaluation domains: the points of cosets of roots of unity and of circle cosets.
//!
//! Input: a domain's size and shift. Output: its points, twiddles and row selectors, and columns reordered to the order
//! of a circle domain.

pub mod block;
pub mod circle_domain;
pub mod circle_order;
pub mod kept;
pub mod points;
pub(crate) mod roots;
pub mod selectors;

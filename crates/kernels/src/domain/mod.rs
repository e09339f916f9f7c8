//! Evaluation domains: the points of cosets of roots of unity and of circle cosets.
//!
//! A domain's size and shift go in. Out come its points, twiddles, selectors of rows, and columns in the order of a
//! circle domain.

pub mod circle_domain;
pub mod circle_order;
pub(crate) mod roots;
pub mod selectors;

mod block;
pub(crate) mod circle_domain;
mod circle_order;
mod selectors;

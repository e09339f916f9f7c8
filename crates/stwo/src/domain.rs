//! Blocks of a domain's rows as domains of their own.

use stwo::core::circle::Coset;
use stwo::core::poly::circle::CircleDomain;
use stwo::core::utils::bit_reverse_index;

/// Block `index` of `blocks` of a coset in bit-reversed order.
pub(crate) fn coset_block(coset: Coset, index: usize, blocks: usize) -> Coset {
    let log_blocks = blocks.ilog2();
    let first = coset.initial_index + coset.step_size * bit_reverse_index(index, log_blocks);
    Coset::new(first, coset.log_size - log_blocks)
}

/// Block `index` of `blocks` of a domain in bit-reversed order.
pub(crate) fn block_of(domain: CircleDomain, index: usize, blocks: usize) -> CircleDomain {
    CircleDomain::new(coset_block(domain.half_coset, index, blocks))
}

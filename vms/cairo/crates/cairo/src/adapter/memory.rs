//! The memory in one piece, with its values numbered.
//!
//! A value's number is how many other values of its kind, small or large, first occur before it. So equal cells have
//! to be found, and of each the first. Values are distributed by their hash to shards; each shard has the addresses of
//! its values in order, and finds the first of equal ones in a table of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use cairo_vm::types::builtin_name::BuiltinName;
use cairo_vm::types::relocatable::{MaybeRelocatable, Relocatable};
use cairo_vm::vm::vm_memory::memory::Memory as VmMemory;
use rayon::prelude::*;
use stwo_cairo_adapter::memory::{EncodedMemoryValueId, Memory, MemoryConfig, MemoryValueId};

/// A value, as 64-bit limbs, lowest first.
pub(super) type Value = [u64; 4];

/// The values that one task works on.
const PART: usize = 1 << 16;

/// The cells that are read at a time: the machine gives out copies, which should stay in a cache.
const READ: usize = 1 << 11;

/// The machine's memory, read by several threads.
struct Cells<'a>(&'a VmMemory);

// SAFETY: threads only call `get_range`, which reads cells. What is not `Sync` in the type are the rules by which
// written values are checked, and nothing is written.
unsafe impl Sync for Cells<'_> {}

impl Cells<'_> {
    /// A part of a segment.
    fn get(&self, segment: usize, cells: Range<usize>) -> Vec<Option<Cow<'_, MaybeRelocatable>>> {
        let start = Relocatable { segment_index: segment as isize, offset: cells.start };
        self.0.get_range(start, cells.len())
    }
}

/// The values of all cells from address 1 on; an empty one is zero. Segments begin at the addresses in `starts`;
/// those of builtins are in `padded`.
pub(super) fn relocated(
    memory: &VmMemory,
    starts: &[u32],
    padded: &[Vec<Option<MaybeRelocatable>>],
    builtins: &BTreeMap<usize, BuiltinName>,
) -> Vec<Value> {
    let cells = Cells(memory);
    let total = starts.last().map_or(0, |end| *end as usize - 1);
    let mut values = vec![[0; 4]; total];
    values.par_chunks_mut(READ).enumerate().for_each(|(part, mut values)| {
        let mut address = 1 + part * READ;
        while !values.is_empty() {
            // The last segment that begins at or before the address: those before it may be empty.
            let segment = starts.partition_point(|start| *start as usize <= address) - 1;
            let (start, end) = (starts[segment] as usize, starts[segment + 1] as usize);
            let (of_segment, rest) = values.split_at_mut(values.len().min(end - address));
            let range = address - start..address - start + of_segment.len();
            if builtins.contains_key(&segment) {
                for (value, cell) in of_segment.iter_mut().zip(&padded[segment][range]) {
                    *value = relocated_value(cell.as_ref(), starts);
                }
            } else {
                for (value, cell) in of_segment.iter_mut().zip(cells.get(segment, range)) {
                    *value = relocated_value(cell.as_deref(), starts);
                }
            }
            address += of_segment.len();
            values = rest;
        }
    });
    values
}

fn relocated_value(cell: Option<&MaybeRelocatable>, starts: &[u32]) -> Value {
    match cell {
        Some(MaybeRelocatable::Int(value)) => value.to_le_digits(),
        Some(MaybeRelocatable::RelocatableValue(address)) => {
            [u64::from(starts[address.segment_index as usize]) + address.offset as u64, 0, 0, 0]
        }
        None => [0; 4],
    }
}

/// The memory with the values from address 1 on.
pub(super) fn numbered(values: &[Value], config: MemoryConfig) -> Memory {
    let first = first_occurrences(values);
    let capacity = 1 << config.log_small_value_capacity;
    let is_first = |index: usize| first[index].load(Relaxed) == index as u32;

    // How many small and large values first occur in each part. Small ones beyond the capacity count as large ones.
    let parts: Vec<Range<usize>> =
        (0..values.len()).step_by(PART).map(|start| start..values.len().min(start + PART)).collect();
    let counts: Vec<(usize, usize)> = parts
        .par_iter()
        .map(|part| {
            let firsts = part.clone().filter(|index| is_first(*index)).count();
            let small = part.clone().filter(|index| is_first(*index) && is_small(&values[*index])).count();
            (small, firsts - small)
        })
        .collect();
    let mut small_before = 0;
    let counts: Vec<(usize, usize)> = counts
        .into_iter()
        .map(|(small, large)| {
            let room = small.min(capacity - small_before);
            small_before += room;
            (room, large + small - room)
        })
        .collect();

    let mut small_values = vec![0u128; counts.iter().map(|(small, _)| small).sum()];
    let mut f252_values = vec![[0u32; 8]; counts.iter().map(|(_, large)| large).sum()];
    let ids: Vec<AtomicU32> = (0..=values.len()).into_par_iter().map(|_| AtomicU32::new(0)).collect();
    let (mut small_rest, mut large_rest) = (small_values.as_mut_slice(), f252_values.as_mut_slice());
    let (mut next_small, mut next_large) = (0, 0);
    let mut work = Vec::new();
    for (part, (small, large)) in parts.iter().zip(&counts) {
        let (of_small, of_large);
        (of_small, small_rest) = small_rest.split_at_mut(*small);
        (of_large, large_rest) = large_rest.split_at_mut(*large);
        work.push((part.clone(), next_small, of_small, next_large, of_large));
        next_small += *small;
        next_large += *large;
    }
    work.into_par_iter().for_each(|(part, mut next_small, small, mut next_large, large)| {
        let (mut small, mut large) = (small.iter_mut(), large.iter_mut());
        for index in part.filter(|index| is_first(*index)) {
            let value = values[index];
            let room = is_small(&value).then(|| small.next()).flatten();
            let id = match room {
                Some(place) => {
                    *place = u128::from(value[1]) << 64 | u128::from(value[0]);
                    next_small += 1;
                    MemoryValueId::Small(next_small as u32 - 1)
                }
                None => {
                    let place = large.next().expect("a place for each of the part's large values");
                    *place = std::array::from_fn(|word| (value[word / 2] >> (32 * (word % 2))) as u32);
                    next_large += 1;
                    MemoryValueId::F252(next_large as u32 - 1)
                }
            };
            ids[index].store(EncodedMemoryValueId::encode(id).0, Relaxed);
        }
    });

    let mut address_to_id = vec![EncodedMemoryValueId::default(); values.len() + 1];
    address_to_id[1..].par_iter_mut().enumerate().for_each(|(index, id)| {
        *id = EncodedMemoryValueId(ids[first[index].load(Relaxed) as usize].load(Relaxed));
    });
    Memory { config, address_to_id, f252_values, small_values }
}

/// Whether a value is below 2^72.
fn is_small(value: &Value) -> bool {
    value[1] < 1 << 8 && value[2] == 0 && value[3] == 0
}

/// The index of the first value that is equal to each value.
fn first_occurrences(values: &[Value]) -> Vec<AtomicU32> {
    const LOG_SHARDS: u32 = 8;
    // Of every process another one, so that no program can be written whose values collide.
    let key = RandomState::new().hash_one(0u8) | 1;
    let hash = |value: &Value| {
        value.iter().fold(key, |state, limb| {
            let product = u128::from(state ^ limb) * 0x9e37_79b9_7f4a_7c15;
            (product >> 64) as u64 ^ product as u64
        })
    };
    let buckets: Vec<Vec<Vec<u32>>> = values
        .par_chunks(PART)
        .enumerate()
        .map(|(part, values)| {
            let mut shards = vec![Vec::new(); 1 << LOG_SHARDS];
            for (index, value) in values.iter().enumerate() {
                shards[(hash(value) >> (64 - LOG_SHARDS)) as usize].push((part * PART + index) as u32);
            }
            shards
        })
        .collect();

    let first: Vec<AtomicU32> = (0..values.len()).into_par_iter().map(|_| AtomicU32::new(0)).collect();
    (0..1usize << LOG_SHARDS).into_par_iter().for_each(|shard| {
        const EMPTY: u32 = u32::MAX;
        let count: usize = buckets.iter().map(|part| part[shard].len()).sum();
        let mask = (2 * count).next_power_of_two() - 1;
        let mut table = vec![EMPTY; mask + 1];
        for index in buckets.iter().flat_map(|part| &part[shard]) {
            let value = &values[*index as usize];
            let mut slot = hash(value) as usize & mask;
            while table[slot] != EMPTY && values[table[slot] as usize] != *value {
                slot = (slot + 1) & mask;
            }
            if table[slot] == EMPTY {
                table[slot] = *index;
            }
            first[*index as usize].store(table[slot], Relaxed);
        }
    });
    first
}

#[cfg(test)]
mod tests {
    use stwo_cairo_adapter::memory::{MemoryBuilder, MemoryEntry};

    use super::*;

    /// Values that repeat, of both kinds, more than fit one task, and more small ones than there is room for.
    #[test]
    fn numbers_are_those_of_upstream() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for (log_capacity, len) in [(24, 3 * PART + 5), (6, 5_000), (24, 1)] {
            let value = |number: u64| match number % 3 {
                0 => [number, 0, 0, 0],
                1 => [number, 255, 0, 0],
                _ => [number, 256, 0, number >> 5],
            };
            let values: Vec<Value> = (0..len).map(|_| value(random() % 1_000)).collect();
            let config = MemoryConfig::new((1 << 72) - 1, log_capacity);
            let entries = values.iter().enumerate().map(|(index, value)| MemoryEntry {
                address: index as u64 + 1,
                value: std::array::from_fn(|word| (value[word / 2] >> (32 * (word % 2))) as u32),
            });
            let (expected, _) = MemoryBuilder::from_iter(config.clone(), entries).build();
            let found = numbered(&values, config);
            assert_eq!(found.address_to_id, expected.address_to_id);
            assert_eq!(found.small_values, expected.small_values);
            assert_eq!(found.f252_values, expected.f252_values);
        }
    }
}

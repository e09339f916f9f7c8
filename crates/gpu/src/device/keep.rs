//! The device's cache of reusable values: loaded modules, tables, compiled programs.
//!
//! One bounded cache holds values of all types. Over its limits it evicts the least recently used values, except
//! those that are still referenced: evicting these would free no memory and only prevent sharing.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, MutexGuard};

use crate::base::Lock;

/// Limits of a device's cache of reusable values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepLimits {
    /// Maximum number of values.
    pub values: usize,
    /// Maximum bytes of device memory and pinned memory that they hold together.
    pub bytes: usize,
}

/// Statistics of a device's cache of reusable values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeepStats {
    /// Number of cached values.
    pub values: usize,
    /// Bytes of device memory and pinned memory that they hold.
    pub bytes: usize,
    /// Values evicted to stay within the limits.
    pub evicted: u64,
}

pub(super) struct Keep(Lock<State>);

struct State {
    /// One map for each pair of key and value types.
    shards: HashMap<TypeId, Box<dyn Shard>>,
    limits: KeepLimits,
    stats: KeepStats,
    /// Counts uses: the age of an entry is the tick of its last use.
    tick: u64,
}

struct Entry<V> {
    value: Arc<V>,
    bytes: usize,
    used: u64,
}

/// A map of any key and value type, for eviction.
trait Shard: Any + Send {
    /// The tick of the least recently used entry that is not referenced elsewhere.
    fn oldest(&self) -> Option<u64>;
    /// Removes the entry with this tick and returns its value and its bytes.
    fn remove(&mut self, used: u64) -> Option<(Box<dyn Any + Send>, usize)>;
}

impl<K: Hash + Eq + Clone + Send + 'static, V: Send + Sync + 'static> Shard for HashMap<K, Entry<V>> {
    fn oldest(&self) -> Option<u64> {
        self.values().filter(|entry| Arc::strong_count(&entry.value) == 1).map(|entry| entry.used).min()
    }

    fn remove(&mut self, used: u64) -> Option<(Box<dyn Any + Send>, usize)> {
        let key = self.iter().find(|(_, entry)| entry.used == used)?.0.clone();
        let entry = HashMap::remove(self, &key)?;
        Some((Box::new(entry.value), entry.bytes))
    }
}

impl Keep {
    pub(super) fn new(limits: KeepLimits) -> Self {
        Self(Lock::new(State { shards: HashMap::new(), limits, stats: KeepStats::default(), tick: 0 }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    pub(super) fn stats(&self) -> KeepStats {
        self.state().stats
    }

    pub(super) fn get<K, V>(&self, key: &K) -> Option<Arc<V>>
    where
        K: Hash + Eq + Clone + Send + 'static,
        V: Send + Sync + 'static,
    {
        let state = &mut *self.state();
        state.tick += 1;
        let entry = shard::<K, V>(&mut state.shards).get_mut(key)?;
        entry.used = state.tick;
        Some(entry.value.clone())
    }

    /// Caches `value`. If another thread cached one for this key in the meantime, returns that one.
    pub(super) fn insert<K, V>(&self, key: K, value: V, bytes: usize) -> Arc<V>
    where
        K: Hash + Eq + Clone + Send + 'static,
        V: Send + Sync + 'static,
    {
        let (value, evicted) = {
            let state = &mut *self.state();
            state.tick += 1;
            let used = state.tick;
            let shard = shard::<K, V>(&mut state.shards);
            if let Some(entry) = shard.get_mut(&key) {
                entry.used = used;
                return entry.value.clone();
            }
            let value = Arc::new(value);
            shard.insert(key, Entry { value: value.clone(), bytes, used });
            state.stats.values += 1;
            state.stats.bytes += bytes;
            let limits = state.limits;
            (value, state.shrink(limits))
        };
        // Outside the lock: dropping a value may free memory, unload code, or drop further values.
        drop(evicted);
        value
    }

    pub(super) fn set_limits(&self, limits: KeepLimits) {
        let evicted = {
            let mut state = self.state();
            state.limits = limits;
            state.shrink(limits)
        };
        drop(evicted);
    }

    /// Drops every value that is not referenced elsewhere.
    pub(super) fn clear(&self) {
        // A dropped value may have held the last reference to another one.
        loop {
            let evicted = self.state().shrink(KeepLimits { values: 0, bytes: 0 });
            if evicted.is_empty() {
                return;
            }
        }
    }
}

impl State {
    fn shrink(&mut self, to: KeepLimits) -> Vec<Box<dyn Any + Send>> {
        let mut evicted = Vec::new();
        while self.stats.values > to.values || self.stats.bytes > to.bytes {
            let oldest = self.shards.values().filter_map(|shard| shard.oldest()).min();
            let removed = oldest.and_then(|used| self.shards.values_mut().find_map(|shard| shard.remove(used)));
            let Some((value, bytes)) = removed else { break };
            self.stats.values -= 1;
            self.stats.bytes -= bytes;
            self.stats.evicted += 1;
            evicted.push(value);
        }
        evicted
    }
}

fn shard<K, V>(shards: &mut HashMap<TypeId, Box<dyn Shard>>) -> &mut HashMap<K, Entry<V>>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Send + Sync + 'static,
{
    let shard = shards.entry(TypeId::of::<(K, V)>()).or_insert_with(|| Box::new(HashMap::<K, Entry<V>>::new()));
    let shard: &mut dyn Any = &mut **shard;
    shard.downcast_mut().expect("the map is stored under its types")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(values: usize, bytes: usize) -> Keep {
        Keep::new(KeepLimits { values, bytes })
    }

    #[test]
    fn the_least_recently_used_value_makes_room() {
        let keep = keep(2, 1000);
        keep.insert("a", 1u32, 10);
        keep.insert("b", 2u32, 10);
        assert_eq!(keep.get::<_, u32>(&"a").as_deref(), Some(&1));
        keep.insert("c", 3u32, 10);
        assert_eq!(keep.get::<_, u32>(&"b"), None);
        assert_eq!(keep.get::<_, u32>(&"a").as_deref(), Some(&1));
        assert_eq!(keep.stats(), KeepStats { values: 2, bytes: 20, evicted: 1 });
    }

    #[test]
    fn bytes_are_bounded_across_types() {
        let keep = keep(100, 100);
        keep.insert(1u8, "text", 60);
        keep.insert("key", 2u64, 60);
        assert_eq!(keep.get::<_, &str>(&1u8), None);
        assert_eq!(keep.get::<_, u64>(&"key").as_deref(), Some(&2));
    }

    #[test]
    fn what_somebody_holds_stays() {
        let keep = keep(1, 1000);
        let held = keep.insert("a", 1u32, 10);
        keep.insert("b", 2u32, 10);
        assert!(Arc::ptr_eq(&keep.get(&"a").expect("it is held"), &held));
        drop(held);
        keep.clear();
        assert_eq!(keep.stats().values, 0);
    }

    #[test]
    fn types_do_not_mix() {
        let keep = keep(10, 1000);
        keep.insert(1u32, "a", 0);
        keep.insert(1u32, 7u64, 0);
        assert_eq!(keep.get::<_, &str>(&1u32).as_deref(), Some(&"a"));
        assert_eq!(keep.get::<_, u64>(&1u32).as_deref(), Some(&7));
        assert_eq!(keep.get::<_, u8>(&1u32), None);
    }
}

//! Tables of the Fourier transforms that a thread used last.

use std::vec::Vec;

use afferent_core::Error;
use afferent_simd::fft::{fill_tables, tables_len};

use crate::shared::fft::{Component, TOO_LONG};

/// Tables of the last lengths.
pub(crate) struct Cache<A> {
    entries: Vec<CacheEntry<A>>,
}

struct CacheEntry<A> {
    key: (usize, bool),
    tables: Vec<[A; 2]>,
}

impl<A: Component> Cache<A> {
    const MAX_ENTRIES: usize = 16;

    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Tables for signals of length `len`, moved to the end of the cache.
    pub(crate) fn get(&mut self, len: usize, is_real: bool) -> Result<&[[A; 2]], Error> {
        let key = (len, is_real);
        if let Some(at) = self.entries.iter().position(|entry| entry.key == key) {
            self.entries[at..].rotate_left(1);
        } else {
            let needed = tables_len(len, is_real).ok_or(TOO_LONG)?;
            let mut tables = Vec::new();
            let missing =
                Error::OutOfResources { bytes: needed.saturating_mul(size_of::<[A; 2]>()) };
            tables.try_reserve_exact(needed).map_err(|_| missing)?;
            tables.resize(needed, [A::default(); 2]);
            fill_tables(len, is_real, &mut tables);
            if self.entries.len() == Self::MAX_ENTRIES {
                self.entries.remove(0);
            }
            self.entries.push(CacheEntry { key, tables });
        }
        Ok(self.entries.last().map_or(&[], |entry| &entry.tables))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_keeps_the_last_tables() {
        let mut cache = Cache::<f32>::new();
        for len in (1..=20).chain([5]) {
            assert_eq!(cache.get(len, true).unwrap().len(), tables_len(len, true).unwrap());
        }
        let keys: Vec<usize> = cache.entries.iter().map(|entry| entry.key.0).collect();
        let expected: Vec<usize> = (6..=20).chain([5]).collect();
        assert_eq!(keys, expected);
        assert!(cache.get(usize::MAX, false).is_err());
    }
}

//! Packed constants of a file: packed once, shared by all users, and stored in the weight cache.

use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use afferent_core::{AlignedBytes, Backend, Error, SharedBytes, WeightCache};
use memmap2::MmapOptions;

use super::{
    ModelFile,
    file_bytes::FileBytes,
    huge_pages::HugePagePool,
    weight_cache_file::{self, CacheKey, EntryKey, WeightCacheError, WeightCacheFile},
};

/// Size of a model, in bytes, from which its packed constants are in huge pages. For a smaller
/// model the unused part of the last page would be too large a share.
const HUGE_PAGES_MIN_FILE_BYTES: usize = 12 << 20;

/// Size of a packed constant, in bytes, from which its pages are populated at once. Packing writes
/// them all, and one fault for each page would take as long as the packing.
const POPULATE_MIN_BYTES: usize = 64 << 10;

/// Packed constants of a file. Each lives as long as a method uses it.
#[derive(Default)]
pub(super) struct PackedConstants(Mutex<State>);

#[derive(Default)]
struct State {
    in_use: HashMap<EntryKey, Weak<dyn AsRef<[u8]> + Send + Sync>>,
    cache: Option<OpenCache>,
    huge_pages: HugePagePool,
}

/// Weight cache on disk.
struct OpenCache {
    path: PathBuf,
    /// Contents at the time of opening, if they are valid.
    file: Option<WeightCacheFile>,
    /// True if a constant was packed that is not in the file.
    is_outdated: bool,
}

impl PackedConstants {
    fn state(&self) -> MutexGuard<'_, State> {
        // A constant is inserted after it is packed, so a panic while packing leaves valid maps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelFile {
    /// Opens the weight cache of this file and `backends` in `folder`.
    pub(super) fn open_cache(
        &self,
        folder: &Path,
        backends: &[Arc<dyn Backend>],
    ) -> Result<(), WeightCacheError> {
        let key = CacheKey::new(self.content_hash(), backends);
        let path = folder.join(key.file_name());
        let mut state = self.constants.state();
        if state.cache.as_ref().is_some_and(|cache| cache.path == path) {
            return Ok(());
        }
        let opened = WeightCacheFile::open(&path, &key);
        let (file, result) = match opened {
            Ok(file) => (file, Ok(())),
            Err(error) => (None, Err(error)),
        };
        state.cache = Some(OpenCache { path, file, is_outdated: false });
        result
    }

    /// Writes the weight cache if a constant in use is not in it.
    pub(super) fn write_cache(
        &self,
        backends: &[Arc<dyn Backend>],
    ) -> Result<(), WeightCacheError> {
        let mut state = self.constants.state();
        let State { in_use, cache, .. } = &mut *state;
        let Some(cache) = cache.as_mut().filter(|cache| cache.is_outdated) else { return Ok(()) };
        // After a failure, the next attempt would fail too.
        cache.is_outdated = false;
        let in_use = in_use.iter().filter_map(|(key, bytes)| Some((*key, bytes.upgrade()?)));
        let mut all: HashMap<EntryKey, SharedBytes> = in_use.collect();
        for (key, bytes) in cache.file.iter().flat_map(WeightCacheFile::entries) {
            all.entry(key).or_insert(bytes);
        }
        let key = CacheKey::new(self.content_hash(), backends);
        weight_cache_file::write(&cache.path, &key, &all)
    }

    /// Index of the file that contains `source` (the program is 0, data files follow), and the
    /// range in it.
    fn locate(&self, source: &[u8]) -> Option<(usize, Range<usize>)> {
        self.files().map(FileBytes::as_slice).enumerate().find_map(|(file, bytes)| {
            let start = source.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
            let end = start.checked_add(source.len())?;
            (end <= bytes.len()).then_some((file, start..end))
        })
    }
}

impl WeightCache for ModelFile {
    fn get_or_pack(
        &self,
        source: &[u8],
        packing: u64,
        len: usize,
        pack: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<SharedBytes, Error> {
        let location = self.locate(source);
        let key = location.clone().map(|(file, Range { start, end })| {
            let (start, len) = (start as u64, (end - start) as u64);
            EntryKey { file: file as u64, start, len, packing }
        });
        let mut state = self.constants.state();
        let State { in_use, cache, huge_pages } = &mut *state;
        if let Some(key) = key {
            let found = in_use.get(&key).and_then(Weak::upgrade);
            let found = found.or_else(|| cache.as_ref()?.file.as_ref()?.get(key));
            if let Some(bytes) = found.filter(|bytes| (**bytes).as_ref().len() == len) {
                in_use.insert(key, Arc::downgrade(&bytes));
                return Ok(bytes);
            }
        }
        let file_bytes = self.files().map(|file| file.as_slice().len()).sum::<usize>();
        let use_huge_pages = file_bytes >= HUGE_PAGES_MIN_FILE_BYTES;
        let bytes = alloc_and_pack(len, use_huge_pages.then_some(huge_pages), pack)?;
        if let Some((file, range)) =
            location.and_then(|(file, range)| Some((self.files().nth(file)?, range)))
        {
            file.release_pages(range);
        }
        if let Some(key) = key {
            in_use.insert(key, Arc::downgrade(&bytes));
            cache.iter_mut().for_each(|cache| cache.is_outdated = true);
        }
        Ok(bytes)
    }
}

/// Allocates `len` zero bytes, in huge pages if a pool is given, and packs into them.
fn alloc_and_pack(
    len: usize,
    huge_pages: Option<&mut HugePagePool>,
    pack: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
) -> Result<SharedBytes, Error> {
    let out_of_memory = Error::OutOfResources { bytes: len };
    if let Some(huge_pages) = huge_pages {
        let mut block = huge_pages.alloc(len).map_err(|_| out_of_memory)?;
        pack(block.as_mut_slice())?;
        return Ok(Arc::new(block));
    }
    if len >= POPULATE_MIN_BYTES {
        let map = MmapOptions::new().len(len).populate().map_anon();
        let mut map = map.map_err(|_| out_of_memory)?;
        pack(&mut map)?;
        return Ok(Arc::new(map));
    }
    let mut bytes = AlignedBytes::try_zeroed(len).ok_or(out_of_memory)?;
    pack(bytes.as_mut_slice())?;
    Ok(Arc::new(bytes))
}

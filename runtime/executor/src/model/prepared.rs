//! What backends made of the constants of a file: made once, and perhaps found on disk.

use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use afferent_core::{AlignedBytes, Backend, Error, Prepared, SharedBytes};
use memmap2::MmapOptions;

use super::{
    ModelFile,
    bytes::FileBytes,
    cache::{self, CacheFile, CacheProblem, Key},
    slab::Slabs,
};

/// What is made of files of so many bytes lies in large pages. Of a smaller model the last one, which
/// is not filled, would count.
const LARGE: usize = 12 << 20;

/// Of so many bytes on, memory is asked for with all its pages at once: it is written from end to
/// end, and a fault for each page would take as long as the writing.
const WHOLE: usize = 64 << 10;

/// The prepared constants of a file, as long as a method uses them.
#[derive(Default)]
pub(super) struct Constants(Mutex<State>);

#[derive(Default)]
struct State {
    in_use: HashMap<Key, Weak<dyn AsRef<[u8]> + Send + Sync>>,
    cache: Option<Cache>,
    slabs: Slabs,
}

/// A file on disk that later starts find them in.
struct Cache {
    path: PathBuf,
    /// What is in it, if it is good.
    file: Option<CacheFile>,
    /// Whether something was made that is not in it.
    is_behind: bool,
}

impl Constants {
    fn state(&self) -> MutexGuard<'_, State> {
        // What a backend that panicked made is not in the maps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelFile {
    /// Opens the file in `folder` that has what `backends` made of these constants.
    pub(super) fn open_cache(
        &self,
        folder: &Path,
        backends: &[Arc<dyn Backend>],
    ) -> Result<(), CacheProblem> {
        let about = cache::About::new(self.contents(), backends);
        let path = folder.join(about.file_name());
        let mut state = self.constants.state();
        if state.cache.as_ref().is_some_and(|cache| cache.path == path) {
            return Ok(());
        }
        let opened = CacheFile::open(&path, &about);
        let (file, result) = match opened {
            Ok(file) => (file, Ok(())),
            Err(problem) => (None, Err(problem)),
        };
        state.cache = Some(Cache { path, file, is_behind: false });
        result
    }

    /// Writes what is in use and not in the file that was opened.
    pub(super) fn write_cache(&self, backends: &[Arc<dyn Backend>]) -> Result<(), CacheProblem> {
        let mut state = self.constants.state();
        let State { in_use, cache, .. } = &mut *state;
        let Some(cache) = cache.as_mut().filter(|cache| cache.is_behind) else { return Ok(()) };
        // Another try would fail as well.
        cache.is_behind = false;
        let in_use = in_use.iter().filter_map(|(key, bytes)| Some((*key, bytes.upgrade()?)));
        let mut all: HashMap<Key, SharedBytes> = in_use.collect();
        for (key, bytes) in cache.file.iter().flat_map(CacheFile::entries) {
            all.entry(key).or_insert(bytes);
        }
        cache::write(&cache.path, &cache::About::new(self.contents(), backends), &all)
    }

    /// The number of the file, the program or one of its data files, that a part is of, and where
    /// in it.
    fn place(&self, part: &[u8]) -> Option<(usize, Range<usize>)> {
        self.files().map(FileBytes::as_slice).enumerate().find_map(|(file, bytes)| {
            let start = part.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
            let end = start.checked_add(part.len())?;
            (end <= bytes.len()).then_some((file, start..end))
        })
    }
}

impl Prepared for ModelFile {
    fn get(
        &self,
        source: &[u8],
        form: u64,
        len: usize,
        make: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<SharedBytes, Error> {
        let place = self.place(source);
        let key = place.clone().map(|(file, Range { start, end })| {
            let (start, len) = (start as u64, (end - start) as u64);
            Key { file: file as u64, start, len, form }
        });
        let mut state = self.constants.state();
        let State { in_use, cache, slabs } = &mut *state;
        if let Some(key) = key {
            let found = in_use.get(&key).and_then(Weak::upgrade);
            let found = found.or_else(|| cache.as_ref()?.file.as_ref()?.get(key));
            if let Some(bytes) = found.filter(|bytes| (**bytes).as_ref().len() == len) {
                in_use.insert(key, Arc::downgrade(&bytes));
                return Ok(bytes);
            }
        }
        let is_large = self.files().map(|file| file.as_slice().len()).sum::<usize>() >= LARGE;
        let bytes = prepared(len, is_large.then_some(slabs), make)?;
        if let Some((file, range)) =
            place.and_then(|(at, range)| Some((self.files().nth(at)?, range)))
        {
            file.release(range);
        }
        if let Some(key) = key {
            in_use.insert(key, Arc::downgrade(&bytes));
            cache.iter_mut().for_each(|cache| cache.is_behind = true);
        }
        Ok(bytes)
    }
}

/// `len` bytes that `make` writes into zeros, in large pages if these are given.
fn prepared(
    len: usize,
    large: Option<&mut Slabs>,
    make: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
) -> Result<SharedBytes, Error> {
    let missing = Error::OutOfResources { bytes: len };
    if let Some(slabs) = large {
        let mut piece = slabs.cut(len).map_err(|_| missing)?;
        make(piece.as_mut_slice())?;
        return Ok(Arc::new(piece));
    }
    if len >= WHOLE {
        let mut map = MmapOptions::new().len(len).populate().map_anon().map_err(|_| missing)?;
        make(&mut map)?;
        return Ok(Arc::new(map));
    }
    let mut bytes = AlignedBytes::try_zeroed(len).ok_or(missing)?;
    make(bytes.as_mut_slice())?;
    Ok(Arc::new(bytes))
}

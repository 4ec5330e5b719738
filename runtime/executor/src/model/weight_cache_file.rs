//! Weight cache file: packed constants of a model, which the next process maps.
//!
//! Layout: [`MAGIC`], the checksum of the rest, the cache key with its length, the number of
//! entries, key and range of each entry, and the entries, aligned to 64 bytes. Numbers are
//! little-endian.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufWriter, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use afferent_core::{Backend, SharedBytes};
use twox_hash::XxHash3_128;

use super::{
    file_bytes::{FileAccess, FileBytes},
    saved_file::{WordReader, replace_file},
};

/// First bytes of the file. The last one is the format version.
const MAGIC: [u8; 16] = *b"afferent weight1";

/// Offset of the first byte that the checksum covers.
const CHECKSUM_START: usize = 32;

/// Alignment of an entry in bytes.
const ALIGNMENT: usize = 64;

/// Error of the weight cache. The model is loaded without the cache then.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightCacheError {
    /// The file is not valid.
    #[error("weight cache {}: {reason}; it will be replaced", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Failed check.
        reason: &'static str,
    },
    /// The file cannot be read.
    #[error("weight cache {}: cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error message of the system.
        reason: String,
    },
    /// The file cannot be written.
    #[error("weight cache {}: cannot be written: {reason}; the next start packs all weights again", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error message of the system.
        reason: String,
    },
}

/// Key of a packed constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EntryKey {
    /// Index of the source file: the program is 0, its data files follow.
    pub(super) file: u64,
    /// Offset of the source in the file, in bytes.
    pub(super) start: u64,
    /// Bytes of the source.
    pub(super) len: u64,
    /// Packing id of the backend.
    pub(super) packing: u64,
}

/// Key of a cache file: hash of the model's contents, and packing layouts of the backends.
pub(super) struct CacheKey(Vec<u8>);

impl CacheKey {
    pub(super) fn new(content_hash: u128, backends: &[Arc<dyn Backend>]) -> Self {
        let mut key = content_hash.to_le_bytes().to_vec();
        for backend in backends {
            let (layout, isa) = backend.layout();
            key.extend(format!("{} {layout} {isa}\n", backend.name()).bytes());
        }
        Self(key)
    }

    pub(super) fn file_name(&self) -> String {
        format!("{:032x}.weights", XxHash3_128::oneshot(&self.0))
    }
}

/// Mapped and validated cache file.
pub(super) struct WeightCacheFile {
    bytes: Arc<FileBytes>,
    entries: HashMap<EntryKey, Range<usize>>,
}

/// Bytes of an entry in a mapped file.
struct Entry {
    file: Arc<FileBytes>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Entry {
    fn as_ref(&self) -> &[u8] {
        &self.file.as_slice()[self.range.clone()]
    }
}

impl WeightCacheFile {
    /// Maps and validates the file at `path`; `None` if there is none.
    ///
    /// # Errors
    /// [`WeightCacheError::Read`]; [`WeightCacheError::Invalid`] if the file is damaged or has
    /// another key.
    pub(super) fn open(path: &Path, key: &CacheKey) -> Result<Option<Self>, WeightCacheError> {
        let bytes = match FileBytes::open(path, FileAccess::Map) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(WeightCacheError::Read {
                    path: path.to_owned(),
                    reason: error.to_string(),
                });
            }
        };
        let invalid = |reason| WeightCacheError::Invalid { path: path.to_owned(), reason };
        let entries = entries(bytes.as_slice(), key).map_err(invalid)?;
        Ok(Some(Self { bytes: Arc::new(bytes), entries }))
    }

    pub(super) fn get(&self, key: EntryKey) -> Option<SharedBytes> {
        let range = self.entries.get(&key)?.clone();
        Some(Arc::new(Entry { file: Arc::clone(&self.bytes), range }))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (EntryKey, SharedBytes)> {
        self.entries.keys().filter_map(|key| Some((*key, self.get(*key)?)))
    }
}

/// Validates a file and returns the ranges of its entries.
fn entries(bytes: &[u8], key: &CacheKey) -> Result<HashMap<EntryKey, Range<usize>>, &'static str> {
    const SHORT: &str = "it is truncated";
    let (magic, rest) = bytes.split_at_checked(MAGIC.len()).ok_or(SHORT)?;
    if magic != MAGIC {
        return Err("it is not a weight cache of this version");
    }
    let (sum, rest) = rest.split_first_chunk().ok_or(SHORT)?;
    if u128::from_le_bytes(*sum) != XxHash3_128::oneshot(rest) {
        return Err("it is damaged: its checksum is wrong");
    }
    let mut words = WordReader(rest);
    let len = words.next().ok_or(SHORT)?;
    let found = words.bytes(len).ok_or(SHORT)?;
    if found != key.0 {
        return Err("it belongs to another model or another processor");
    }
    let count = words.next().ok_or(SHORT)?;
    let mut entries = HashMap::new();
    for _ in 0..count {
        let mut next = || words.next().ok_or(SHORT);
        let key = EntryKey { file: next()?, start: next()?, len: next()?, packing: next()? };
        let (offset, len) = (next()?, next()?);
        let range = usize::try_from(offset).ok().zip(usize::try_from(len).ok());
        let range = range.and_then(|(offset, len)| Some(offset..offset.checked_add(len)?));
        let range =
            range.filter(|range| range.end <= bytes.len() && range.start.is_multiple_of(ALIGNMENT));
        entries.insert(key, range.ok_or("it is damaged: an entry exceeds the file")?);
    }
    Ok(entries)
}

/// Writes `entries` to `path` atomically.
///
/// # Errors
/// [`WeightCacheError::Write`].
pub(super) fn write(
    path: &Path,
    key: &CacheKey,
    entries: &HashMap<EntryKey, SharedBytes>,
) -> Result<(), WeightCacheError> {
    let write = |new: &Path| write_new(new, key, entries);
    replace_file(path, write).map_err(|error| WeightCacheError::Write {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn write_new(
    path: &Path,
    key: &CacheKey,
    entries: &HashMap<EntryKey, SharedBytes>,
) -> io::Result<()> {
    let mut sorted: Vec<_> = entries.iter().map(|(key, bytes)| (key, (**bytes).as_ref())).collect();
    sorted.sort_unstable_by_key(|(key, _)| **key);
    let mut head = (key.0.len() as u64).to_le_bytes().to_vec();
    head.extend(&key.0);
    head.extend((sorted.len() as u64).to_le_bytes());
    let words = 6 * size_of::<u64>();
    let mut at = (CHECKSUM_START + head.len() + sorted.len() * words).next_multiple_of(ALIGNMENT);
    for (EntryKey { file, start, len, packing }, bytes) in &sorted {
        for word in [*file, *start, *len, *packing, at as u64, bytes.len() as u64] {
            head.extend(word.to_le_bytes());
        }
        at = (at + bytes.len()).next_multiple_of(ALIGNMENT);
    }
    head.resize((CHECKSUM_START + head.len()).next_multiple_of(ALIGNMENT) - CHECKSUM_START, 0);
    let mut sum = XxHash3_128::new();
    let padding = |bytes: &[u8]| [0; ALIGNMENT][..bytes.len().wrapping_neg() % ALIGNMENT].to_vec();
    sum.write(&head);
    for (_, bytes) in &sorted {
        sum.write(bytes);
        sum.write(&padding(bytes));
    }
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&MAGIC)?;
    file.write_all(&sum.finish_128().to_le_bytes())?;
    file.write_all(&head)?;
    for (_, bytes) in &sorted {
        file.write_all(bytes)?;
        file.write_all(&padding(bytes))?;
    }
    file.into_inner()?;
    Ok(())
}

//! A file with the prepared constants of a model, which the next start maps.
//!
//! It begins with [`MAGIC`] and the checksum of all that follows: what it was made of and for, the
//! number of its entries, where each is and what of, and the entries, aligned to 64. Numbers are
//! little-endian.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufWriter, Write},
    ops::Range,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use afferent_core::{Backend, SharedBytes};
use twox_hash::XxHash3_128;

use super::bytes::{FileAccess, FileBytes};

/// The first bytes of such a file; the last of them counts its formats.
const MAGIC: [u8; 16] = *b"afferent weight1";

/// Bytes before those that the checksum is of.
const SUMMED: usize = 32;

/// Alignment of entries.
const ALIGNMENT: usize = 64;

/// Why the weight cache did not serve. Whatever it is, the model is loaded without it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheProblem {
    /// The file is not what it should be.
    #[error("weight cache {}: {reason}; it is made anew", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file cannot be read.
    #[error("weight cache {}: cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The file cannot be written.
    #[error("weight cache {}: cannot be written: {reason}; the next start prepares all weights again", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
}

/// A constant in a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    /// The program is 0, its data files follow.
    pub(super) file: u64,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) form: u64,
}

/// What entries depend on: contents, and layouts of backends.
pub(super) struct About(Vec<u8>);

impl About {
    pub(super) fn new(contents: u128, backends: &[Arc<dyn Backend>]) -> Self {
        let mut about = contents.to_le_bytes().to_vec();
        for backend in backends {
            let (layout, isa) = backend.layout();
            about.extend(format!("{} {layout} {isa}\n", backend.name()).bytes());
        }
        Self(about)
    }

    pub(super) fn file_name(&self) -> String {
        format!("{:032x}.weights", XxHash3_128::oneshot(&self.0))
    }
}

/// A good file.
pub(super) struct CacheFile {
    bytes: Arc<FileBytes>,
    entries: HashMap<Key, Range<usize>>,
}

/// An entry of a file.
struct Entry {
    file: Arc<FileBytes>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Entry {
    fn as_ref(&self) -> &[u8] {
        &self.file.as_slice()[self.range.clone()]
    }
}

impl CacheFile {
    /// The file at `path`, if there is one.
    ///
    /// # Errors
    /// [`CacheProblem::Read`], and [`CacheProblem::Refused`] when it is damaged, or of something
    /// else.
    pub(super) fn open(path: &Path, about: &About) -> Result<Option<Self>, CacheProblem> {
        let bytes = match FileBytes::open(path, FileAccess::Map) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(CacheProblem::Read {
                    path: path.to_owned(),
                    reason: error.to_string(),
                });
            }
        };
        let refused = |reason| CacheProblem::Refused { path: path.to_owned(), reason };
        let entries = entries(bytes.as_slice(), about).map_err(refused)?;
        Ok(Some(Self { bytes: Arc::new(bytes), entries }))
    }

    pub(super) fn get(&self, key: Key) -> Option<SharedBytes> {
        let range = self.entries.get(&key)?.clone();
        Some(Arc::new(Entry { file: Arc::clone(&self.bytes), range }))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (Key, SharedBytes)> {
        self.entries.keys().filter_map(|key| Some((*key, self.get(*key)?)))
    }
}

/// Where the entries of a file are.
fn entries(bytes: &[u8], about: &About) -> Result<HashMap<Key, Range<usize>>, &'static str> {
    const SHORT: &str = "it is cut short";
    let (magic, rest) = bytes.split_at_checked(MAGIC.len()).ok_or(SHORT)?;
    if magic != MAGIC {
        return Err("it is no weight cache of this version");
    }
    let (sum, rest) = rest.split_first_chunk().ok_or(SHORT)?;
    if u128::from_le_bytes(*sum) != XxHash3_128::oneshot(rest) {
        return Err("it is damaged: its checksum is wrong");
    }
    let mut words = Words(rest);
    let len = words.next().ok_or(SHORT)?;
    let found = words.bytes(len).ok_or(SHORT)?;
    if found != about.0 {
        return Err("it was made of another model, or for another processor");
    }
    let count = words.next().ok_or(SHORT)?;
    let mut entries = HashMap::new();
    for _ in 0..count {
        let mut next = || words.next().ok_or(SHORT);
        let key = Key { file: next()?, start: next()?, len: next()?, form: next()? };
        let (at, len) = (next()?, next()?);
        let range = usize::try_from(at).ok().zip(usize::try_from(len).ok());
        let range = range.and_then(|(at, len)| Some(at..at.checked_add(len)?));
        let range =
            range.filter(|range| range.end <= bytes.len() && range.start.is_multiple_of(ALIGNMENT));
        entries.insert(key, range.ok_or("it is damaged: an entry is outside of it")?);
    }
    Ok(entries)
}

/// Numbers, one after the other.
struct Words<'b>(&'b [u8]);

impl<'b> Words<'b> {
    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn bytes(&mut self, len: u64) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// Writes `entries` to `path`: all of them, or nothing.
///
/// # Errors
/// [`CacheProblem::Write`].
pub(super) fn write(
    path: &Path,
    about: &About,
    entries: &HashMap<Key, SharedBytes>,
) -> Result<(), CacheProblem> {
    /// Of this process.
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("{}-{number}.new", process::id()));
    let result = write_new(&new, about, entries).and_then(|()| fs::rename(&new, path));
    result.map_err(|error| {
        // It may not even be there.
        let _ = fs::remove_file(&new);
        CacheProblem::Write { path: path.to_owned(), reason: error.to_string() }
    })
}

fn write_new(path: &Path, about: &About, entries: &HashMap<Key, SharedBytes>) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut sorted: Vec<_> = entries.iter().map(|(key, bytes)| (key, (**bytes).as_ref())).collect();
    sorted.sort_unstable_by_key(|(key, _)| **key);
    let mut head = (about.0.len() as u64).to_le_bytes().to_vec();
    head.extend(&about.0);
    head.extend((sorted.len() as u64).to_le_bytes());
    let words = 6 * size_of::<u64>();
    let mut at = (SUMMED + head.len() + sorted.len() * words).next_multiple_of(ALIGNMENT);
    for (Key { file, start, len, form }, bytes) in &sorted {
        for word in [*file, *start, *len, *form, at as u64, bytes.len() as u64] {
            head.extend(word.to_le_bytes());
        }
        at = (at + bytes.len()).next_multiple_of(ALIGNMENT);
    }
    head.resize((SUMMED + head.len()).next_multiple_of(ALIGNMENT) - SUMMED, 0);
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

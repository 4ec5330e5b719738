//! Files that keep the entities of a scene.
//!
//! A file is a snapshot and a log: 8 bytes of header (`AFSM` and the version), then blocks. A block is
//! its length and its CRC-32 (4 bytes each, little endian) and an entry in postcard form: first a
//! snapshot, then lists of changes. When the log has grown, a new file with a snapshot replaces the old
//! one atomically. A block that a crash has cut off at the end is dropped.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{Change, EntityRecord};

#[cfg(test)]
mod tests;

/// Longest wait for the lock of a file.
const LOCK_PATIENCE: Duration = Duration::from_millis(200);

/// All entities at a time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Number of the next entity.
    pub next_id: u64,
    /// The entities, in the order of their numbers.
    pub records: Vec<EntityRecord>,
}

#[derive(Serialize, Deserialize)]
enum Entry {
    Snapshot(Snapshot),
    Changes(Vec<Change>),
}

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryFileError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no file of a scene memory.
    #[error("it is not a file of a scene memory; choose another path, and it will be created")]
    NotAMemory,
    /// It was written by another version.
    #[error(
        "it has version {found}, and this program reads version {VERSION}; use the program that wrote it, or delete it to start with an empty memory"
    )]
    Version {
        /// Version of the file.
        found: u32,
    },
    /// A block in the middle is damaged.
    #[error(
        "it is damaged at byte {at}: {reason}; restore it from a copy, or delete it to start with an empty memory"
    )]
    Damaged {
        /// Offset of the block.
        at: u64,
        /// Failed check.
        reason: String,
    },
    /// Another process has opened the file.
    #[error("another process uses it; stop that one, or choose another path")]
    InUse,
}

const MAGIC: [u8; 4] = *b"AFSM";
const VERSION: u32 = 2;
const HEADER_LEN: u64 = 8;

/// Largest block, so that a damaged length does not fill the memory.
const MAX_BLOCK_BYTES: u32 = 1 << 30;

/// Content of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// Entities after all changes.
    pub snapshot: Snapshot,
    /// Bytes of the header and of whole blocks.
    pub valid_bytes: u64,
    /// Bytes at the end that a crash has cut off.
    pub cut_bytes: u64,
    /// Bytes of the snapshot in it.
    snapshot_bytes: u64,
}

/// Reads the entities of a file.
///
/// # Errors
/// [`MemoryFileError`]; a block that is cut off at the end is no error.
pub fn read(path: &Path) -> Result<Content, MemoryFileError> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Content, MemoryFileError> {
    let total = bytes.len() as u64;
    let mut content = Content {
        snapshot: Snapshot::default(),
        valid_bytes: 0,
        cut_bytes: total,
        snapshot_bytes: 0,
    };
    let Some((magic, rest)) = bytes.split_first_chunk::<4>() else {
        // A crash may have cut off the header of a new file.
        return if MAGIC.starts_with(bytes) {
            Ok(content)
        } else {
            Err(MemoryFileError::NotAMemory)
        };
    };
    if *magic != MAGIC {
        return Err(MemoryFileError::NotAMemory);
    }
    let Some((version, mut rest)) = rest.split_first_chunk::<4>() else { return Ok(content) };
    let found = u32::from_le_bytes(*version);
    if found != VERSION {
        return Err(MemoryFileError::Version { found });
    }
    let mut at = HEADER_LEN;
    let mut records = BTreeMap::new();
    while let Some((entry, len)) = next_block(at, rest)? {
        match entry {
            Entry::Snapshot(snapshot) => {
                content.snapshot_bytes = len as u64;
                content.snapshot.next_id = snapshot.next_id;
                records = snapshot.records.into_iter().map(|record| (record.id, record)).collect();
            }
            Entry::Changes(changes) => {
                for change in changes {
                    match change {
                        Change::Put(record) => drop(records.insert(record.id, *record)),
                        Change::Remove(id) => drop(records.remove(&id)),
                    }
                }
            }
        }
        at += len as u64;
        rest = &rest[len..];
    }
    let next = records.keys().next_back().map_or(1, |last| last.saturating_add(1));
    content.snapshot.next_id = content.snapshot.next_id.max(next);
    content.snapshot.records = records.into_values().collect();
    (content.valid_bytes, content.cut_bytes) = (at, total - at);
    Ok(content)
}

/// The first entry of `bytes`, with the length of its block; `None` if the file ends in it.
fn next_block(at: u64, bytes: &[u8]) -> Result<Option<(Entry, usize)>, MemoryFileError> {
    let damaged = |reason: String| MemoryFileError::Damaged { at, reason };
    // A file system may leave zeros where a write did not reach the disk.
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else { return Ok(None) };
    let [a, b, c, d, crc @ ..] = *head;
    let (len, crc) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(crc));
    if len > MAX_BLOCK_BYTES {
        return Err(damaged(format!("a block of {len} bytes")));
    }
    let len = len as usize;
    let Some(body) = rest.get(..len) else { return Ok(None) };
    if crc32fast::hash(body) != crc {
        // The blocks of a file system may reach the disk in another order than they were written.
        return match rest.len() == len {
            true => Ok(None),
            false => Err(damaged("wrong checksum".to_owned())),
        };
    }
    let entry = postcard::from_bytes(body).map_err(|error| damaged(error.to_string()))?;
    Ok(Some((entry, 8 + len)))
}

fn block(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(entry, vec![0; 8]).map_err(io::Error::other)?;
    let len = u32::try_from(bytes.len() - 8).ok().filter(|len| *len <= MAX_BLOCK_BYTES);
    let len =
        len.ok_or_else(|| io::Error::other("the entities do not fit into a block of 1 GiB"))?;
    let crc = crc32fast::hash(&bytes[8..]);
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

/// A file that is written by a thread of its own.
pub struct MemoryFile {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

enum Command {
    Append(Vec<Change>),
    Replace(Snapshot),
}

struct Shared {
    /// Bytes of the log since the last snapshot, and of that snapshot.
    log_bytes: AtomicU64,
    snapshot_bytes: AtomicU64,
    least_log_bytes: u64,
    error: Mutex<Option<String>>,
}

impl Shared {
    fn take_error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Asks for a snapshot, which has the changes that were not written.
    fn request_snapshot(&self) {
        self.log_bytes.store(u64::MAX / 2, Ordering::Relaxed);
    }
}

/// A log that is shorter than this is not replaced by a snapshot.
const LEAST_LOG_BYTES: u64 = 1 << 20;

/// Time after which written changes reach the disk. A crash of the program loses nothing that was
/// written, one of the system what is younger.
const SYNC_EVERY: Duration = Duration::from_secs(5);

impl MemoryFile {
    /// Opens the file at `path`, or creates it, and returns its content.
    ///
    /// # Errors
    /// [`MemoryFileError`].
    pub fn open(path: &Path) -> Result<(Self, Content), MemoryFileError> {
        Self::open_with(path, LEAST_LOG_BYTES)
    }

    fn open_with(path: &Path, least_log_bytes: u64) -> Result<(Self, Content), MemoryFileError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        lock(&file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let content = parse(&bytes)?;
        if content.valid_bytes == 0 {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&MAGIC)?;
            file.write_all(&VERSION.to_le_bytes())?;
        } else {
            file.set_len(content.valid_bytes)?;
            file.seek(SeekFrom::Start(content.valid_bytes))?;
        }
        let shared = Arc::new(Shared {
            log_bytes: AtomicU64::new(content.valid_bytes - content.snapshot_bytes),
            snapshot_bytes: AtomicU64::new(content.snapshot_bytes),
            least_log_bytes,
            error: Mutex::new(None),
        });
        let (commands, receiver) = channel();
        let (path, shared_with) = (path.to_owned(), shared.clone());
        let len = content.valid_bytes.max(HEADER_LEN);
        let writer = Writer { path, file, len, shared: shared_with, dirty_since: None };
        let thread = thread::Builder::new().name("scene_memory".to_owned());
        let thread = thread.spawn(move || writer.run(&receiver))?;
        Ok((Self { commands: Some(commands), thread: Some(thread), shared }, content))
    }

    /// Appends changes to the log, in the background.
    ///
    /// # Errors
    /// The reason why an earlier write failed.
    pub fn append(&self, changes: Vec<Change>) -> Result<(), MemoryFileError> {
        self.send(Command::Append(changes))
    }

    /// True if the log is longer than a snapshot would be.
    pub fn needs_snapshot(&self) -> bool {
        let log = self.shared.log_bytes.load(Ordering::Relaxed);
        let snapshot = self.shared.snapshot_bytes.load(Ordering::Relaxed);
        log > self.shared.least_log_bytes.max(2 * snapshot)
    }

    /// Replaces the file by a snapshot, in the background.
    ///
    /// # Errors
    /// The reason why an earlier write failed.
    pub fn replace(&self, snapshot: Snapshot) -> Result<(), MemoryFileError> {
        self.shared.log_bytes.store(0, Ordering::Relaxed);
        self.send(Command::Replace(snapshot))
    }

    fn send(&self, command: Command) -> Result<(), MemoryFileError> {
        let error = self.shared.take_error();
        if let Some(commands) = &self.commands {
            let sent = commands.send(command);
            sent.map_err(|_| io::Error::other("the writer has stopped"))?;
        }
        error.map_or(Ok(()), |reason| Err(io::Error::other(reason).into()))
    }
}

impl Drop for MemoryFile {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.commands = None;
        // A panic of the writer was reported by its thread.
        let _ = self.thread.take().map(JoinHandle::join);
        if let Some(reason) = self.shared.take_error() {
            tracing::warn!("the last changes of the scene memory were not written: {reason}");
        }
    }
}

/// Locks a file against other processes.
fn lock(file: &File) -> Result<(), MemoryFileError> {
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            // A process that is started now holds the files of this one, also those that were closed
            // meanwhile, until it runs its program.
            Err(fs::TryLockError::WouldBlock) if start.elapsed() < LOCK_PATIENCE => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(fs::TryLockError::WouldBlock) => return Err(MemoryFileError::InUse),
            Err(fs::TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

struct Writer {
    path: PathBuf,
    file: File,
    /// Length of the file.
    len: u64,
    shared: Arc<Shared>,
    /// Time of the first write that has not reached the disk.
    dirty_since: Option<Instant>,
}

impl Writer {
    fn run(mut self, commands: &Receiver<Command>) {
        loop {
            let done = match commands.recv_timeout(SYNC_EVERY) {
                Ok(Command::Append(changes)) => self.append(changes),
                Ok(Command::Replace(snapshot)) => self.replace(snapshot),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.report(done);
            if self.dirty_since.is_some_and(|since| since.elapsed() >= SYNC_EVERY) {
                let done = self.sync();
                self.report(done);
            }
        }
        let done = self.sync();
        self.report(done);
    }

    /// Keeps an error for the next call of the node, which then writes a snapshot.
    fn report(&self, done: Result<(), MemoryFileError>) {
        if let Err(error) = done {
            self.shared.request_snapshot();
            let mut shared = self.shared.error.lock().unwrap_or_else(PoisonError::into_inner);
            *shared = Some(error.to_string());
        }
    }

    fn append(&mut self, changes: Vec<Change>) -> Result<(), MemoryFileError> {
        let bytes = block(&Entry::Changes(changes))?;
        if let Err(error) = self.file.write_all(&bytes) {
            // Nothing may follow a part of a block.
            self.file.set_len(self.len)?;
            self.file.seek(SeekFrom::Start(self.len))?;
            return Err(error.into());
        }
        self.len += bytes.len() as u64;
        self.shared.log_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.dirty_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn replace(&mut self, snapshot: Snapshot) -> Result<(), MemoryFileError> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = self.path.with_file_name(name);
        let done = self.replace_by(&new, snapshot);
        if done.is_err() {
            // The old file is as it was.
            let _ = fs::remove_file(&new);
        }
        done
    }

    /// Writes a snapshot to the path `new`, and gives it the name of the file.
    fn replace_by(&mut self, new: &Path, snapshot: Snapshot) -> Result<(), MemoryFileError> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(new)?;
        lock(&file)?;
        let bytes = block(&Entry::Snapshot(snapshot))?;
        file.write_all(&MAGIC)?;
        file.write_all(&VERSION.to_le_bytes())?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(new, &self.path)?;
        #[cfg(unix)]
        if let Some(folder) = self.path.parent() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(folder)?.sync_all()?;
        }
        self.shared.snapshot_bytes.store(bytes.len() as u64, Ordering::Relaxed);
        self.len = HEADER_LEN + bytes.len() as u64;
        (self.file, self.dirty_since) = (file, None);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), MemoryFileError> {
        if self.dirty_since.take().is_some() {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

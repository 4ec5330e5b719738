//! Mapped files in use, so that a file that is opened again is shared.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{ModelFile, file_bytes::FileIdentity};

static OPEN_FILES: Mutex<Vec<Weak<ModelFile>>> = Mutex::new(Vec::new());

fn open_files() -> MutexGuard<'static, Vec<Weak<ModelFile>>> {
    OPEN_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds the open file with this path and identity.
pub(super) fn find(path: &Path, identity: &[FileIdentity]) -> Option<Arc<ModelFile>> {
    let mut files = open_files().iter().filter_map(Weak::upgrade).collect::<Vec<_>>().into_iter();
    files.find(|file| file.path() == path && file.identity().as_deref() == Some(identity))
}

/// Registers `file`. Returns the same file of another thread, if that was registered first.
pub(super) fn share(file: Arc<ModelFile>) -> Arc<ModelFile> {
    let same = file.identity().and_then(|identity| find(file.path(), &identity));
    let mut files = open_files();
    files.retain(|file| file.strong_count() > 0);
    same.unwrap_or_else(|| {
        files.push(Arc::downgrade(&file));
        file
    })
}

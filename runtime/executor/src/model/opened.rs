//! The mapped files that are in use, so that whoever maps one again shares it.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{ModelFile, bytes::Identity};

static OPENED: Mutex<Vec<Weak<ModelFile>>> = Mutex::new(Vec::new());

fn opened() -> MutexGuard<'static, Vec<Weak<ModelFile>>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files that are in use under this path, if they are these.
pub(super) fn find(path: &Path, identity: &[Identity]) -> Option<Arc<ModelFile>> {
    let mut files = opened().iter().filter_map(Weak::upgrade).collect::<Vec<_>>().into_iter();
    files.find(|file| file.path() == path && file.identity().as_deref() == Some(identity))
}

/// `file`, or what another thread has opened meanwhile.
pub(super) fn share(file: Arc<ModelFile>) -> Arc<ModelFile> {
    let same = file.identity().and_then(|identity| find(file.path(), &identity));
    let mut files = opened();
    files.retain(|file| file.strong_count() > 0);
    same.unwrap_or_else(|| {
        files.push(Arc::downgrade(&file));
        file
    })
}

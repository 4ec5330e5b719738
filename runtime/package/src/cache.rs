//! Programs by their SHA-256, outside of packages.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process,
};

use sha2::{Digest, Sha256};

/// Folder of programs whose file names are their SHA-256 in lower-case hexadecimal.
///
/// Packages name the SHA-256 of their programs, so a machine that has the small files of a package
/// finds the program here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCache {
    folder: PathBuf,
}

/// Error of [`ModelCache::store`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The contents have another SHA-256.
    #[error("the contents have the SHA-256 {found}, not {expected}")]
    Hash {
        /// SHA-256 of the contents.
        found: String,
        /// Expected SHA-256.
        expected: String,
    },
    /// A file of the cache cannot be written, or the contents cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path of the file in the cache.
        path: PathBuf,
        /// Cause.
        error: io::Error,
    },
}

/// Folder for files of the user that can be made again: `afferent` in `XDG_CACHE_HOME`, by default
/// `~/.cache`. `None` without a home folder.
pub fn user_cache() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    // A relative path is invalid by the specification of XDG.
    let given = given.filter(|path| path.is_absolute());
    let folder = given.or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    Some(folder.join("afferent"))
}

impl ModelCache {
    /// Cache in `folder`, which need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Cache of the user: `afferent/models` in `XDG_CACHE_HOME`, by default `~/.cache`. `None`
    /// without a home folder.
    pub fn of_user() -> Option<Self> {
        Some(Self::new(user_cache()?.join("models")))
    }

    /// Folder of the cache.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of the program with this SHA-256, if the cache has it.
    pub fn find(&self, sha256: &str) -> Option<PathBuf> {
        let path = self.path(sha256)?;
        path.is_file().then_some(path)
    }

    /// Path of the program with this SHA-256; `None` for another text, which must not name a file.
    fn path(&self, sha256: &str) -> Option<PathBuf> {
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| self.folder.join(sha256.to_lowercase()))
    }

    /// Adds the contents of `program` and returns their path and SHA-256. The file appears when it is
    /// complete.
    ///
    /// # Errors
    /// [`StoreError::Hash`] if the contents do not have the SHA-256 `expected`, and
    /// [`StoreError::Io`]. In both cases the cache is unchanged.
    pub fn store(
        &self,
        mut program: impl Read,
        expected: Option<&str>,
    ) -> Result<(PathBuf, String), StoreError> {
        // Two processes may store the same program.
        let part = self.folder.join(format!("{}.part", process::id()));
        let failed = |error| StoreError::Io { path: part.clone(), error };
        let mut stored = || {
            fs::create_dir_all(&self.folder).map_err(failed)?;
            let mut file = File::create(&part).map_err(failed)?;
            let found = copy_and_hash(&mut program, &mut file).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            if let Some(expected) =
                expected.filter(|expected| !expected.eq_ignore_ascii_case(&found))
            {
                return Err(StoreError::Hash { found, expected: expected.to_owned() });
            }
            let path = self.folder.join(&found);
            fs::rename(&part, &path).map_err(failed)?;
            Ok((path, found))
        };
        let stored = stored();
        if stored.is_err() {
            // The error that is returned matters more.
            let _ = fs::remove_file(&part);
        }
        stored
    }
}

/// Copies `from` to `to`; returns the SHA-256 in lower-case hexadecimal.
///
/// # Errors
/// Those of `from` and `to`.
pub fn copy_and_hash(from: &mut impl Read, to: &mut impl Write) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match from.read(&mut block) {
            Ok(0) => break,
            Ok(read) => {
                hash.update(&block[..read]);
                to.write_all(&block[..read])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "abc" (FIPS 180-4).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("afferent-cache-{name}-{}", process::id()))
    }

    #[test]
    fn programs_are_found_by_their_hash() {
        let cache = ModelCache::new(folder("found"));
        assert_eq!(cache.find(ABC), None);
        let (path, hash) = cache.store(&b"abc"[..], None).unwrap();
        assert_eq!((hash.as_str(), fs::read(&path).unwrap().as_slice()), (ABC, &b"abc"[..]));
        for spelling in [ABC.to_owned(), ABC.to_uppercase()] {
            assert_eq!(cache.find(&spelling).as_ref(), Some(&path));
            assert_eq!(cache.store(&b"abc"[..], Some(&spelling)).unwrap().0, path);
        }
        for text in ["", "../models", &ABC[1..], &ABC.replace('b', "/")] {
            assert_eq!(cache.find(text), None, "{text}");
        }
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 1);
        fs::remove_dir_all(cache.folder()).unwrap();
    }

    #[test]
    fn other_contents_are_refused() {
        let cache = ModelCache::new(folder("refused"));
        let error = cache.store(&b"abd"[..], Some(ABC)).unwrap_err();
        assert!(error.to_string().contains(ABC), "{error}");
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 0);
        fs::remove_dir_all(cache.folder()).unwrap();
        fs::write(cache.folder(), "a file").unwrap();
        let error = cache.store(&b"abc"[..], None).unwrap_err();
        assert!(error.to_string().contains(cache.folder().to_str().unwrap()), "{error}");
        fs::remove_file(cache.folder()).unwrap();
    }
}

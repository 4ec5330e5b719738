//! Compiled shaders of earlier processes, in a file of the driver's own format.
//!
//! The file is one for each device, in the folder of [`GpuOptions`](crate::GpuOptions). A checksum
//! guards the bytes; whether they fit the driver, the driver decides. A file that cannot be read or
//! written costs the time of compiling and nothing else.

#![expect(unsafe_code, reason = "the driver trusts what it wrote itself")]

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
};

use wgpu::{AdapterInfo, PipelineCacheDescriptor};

/// First bytes of a file.
const MAGIC: &[u8; 8] = b"AFGPU001";

/// Largest file that is read or written.
const MAX_BYTES: usize = 64 << 20;

/// The compiled shaders of a device, in memory and in a file.
pub(crate) struct PipelineFile {
    cache: wgpu::PipelineCache,
    path: PathBuf,
    /// Checksum of what the file holds.
    saved: u64,
}

impl PipelineFile {
    /// The file for `adapter` in `folder`; `None` if the driver keeps none.
    pub(crate) fn open(
        device: &wgpu::Device,
        adapter: &AdapterInfo,
        folder: &Path,
    ) -> Option<Self> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let path = folder.join(wgpu::util::pipeline_cache_key(adapter)?);
        let data = read(&path);
        let saved = data.as_deref().map_or(0, checksum);
        let descriptor =
            PipelineCacheDescriptor { label: None, data: data.as_deref(), fallback: true };
        // SAFETY: the bytes are those that an earlier process got from `get_data`, as the checksum shows.
        let cache = unsafe { device.create_pipeline_cache(&descriptor) };
        Some(Self { cache, path, saved })
    }

    /// Cache for the compilation of shaders.
    pub(crate) fn cache(&self) -> &wgpu::PipelineCache {
        &self.cache
    }
}

impl Drop for PipelineFile {
    /// Writes the file, if there is something new.
    fn drop(&mut self) {
        let data = self.cache.get_data().filter(|data| data.len() <= MAX_BYTES);
        let Some(data) = data else { return };
        let sum = checksum(&data);
        if sum != self.saved {
            // The next process compiles again.
            drop(write(&self.path, &data, sum));
        }
    }
}

fn checksum(data: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish()
}

/// Content of the file at `path`, if it is whole.
fn read(path: &Path) -> Option<Vec<u8>> {
    let len = fs::metadata(path).ok()?.len();
    if len > (MAX_BYTES + 16) as u64 {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (sum, data) = rest.split_first_chunk::<8>()?;
    (magic == MAGIC && u64::from_le_bytes(*sum) == checksum(data)).then(|| data.to_vec())
}

/// Replaces the file at `path` as a whole, so that other processes never read a part.
fn write(path: &Path, data: &[u8], sum: u64) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let part = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&part, [&MAGIC[..], &sum.to_le_bytes(), data].concat())?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache/device");
        assert_eq!(read(&path), None);
        let data = vec![7; 1000];
        write(&path, &data, checksum(&data)).unwrap();
        assert_eq!(read(&path).as_ref(), Some(&data));
        let whole = fs::read(&path).unwrap();
        for damage in [0, 8, 16, 1015] {
            let mut bytes = whole.clone();
            bytes[damage] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert_eq!(read(&path), None, "byte {damage}");
        }
        for len in [0, 7, 8, 15, 16, 1015] {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(read(&path), None, "length {len}");
        }
        assert_eq!(fs::read_dir(folder.path().join("cache")).unwrap().count(), 1);
    }
}

//! Valid files to start from: the programs of the conformance tests.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// A valid file.
#[derive(Debug, Clone)]
pub struct Seed {
    /// Name of the program.
    pub name: String,
    /// Contents of the file.
    pub bytes: Vec<u8>,
}

/// Returns all files called `file`, such as `model.pte`, sorted by program name.
///
/// # Panics
/// If the data of the conformance tests cannot be read.
pub fn seeds(file: &str) -> Vec<Seed> {
    seeds_in(&programs(), file)
}

fn seeds_in(folder: &Path, file: &str) -> Vec<Seed> {
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the conformance programs are in this repository")
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|folder| folder.join(file).exists())
        .collect();
    folders.sort();
    let name = |folder: &Path| folder.file_name().unwrap_or_default().to_string_lossy().into();
    folders.iter().map(|folder| Seed { name: name(folder), bytes: read(folder, file) }).collect()
}

/// Returns the conformance program with this name.
///
/// # Panics
/// If it does not exist.
pub fn seed(name: &str) -> Vec<u8> {
    read(&programs().join(name), "model.pte")
}

/// Returns programs with XNNPACK delegates that cover many node types and datatypes.
///
/// # Panics
/// If they cannot be read.
pub fn xnnpack_programs() -> Vec<Seed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("delegates");
    let entries = fs::read_dir(&folder).expect("the delegates are in this repository");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into();
    let seed = |path: &PathBuf| Seed { name: name(path), bytes: fs::read(path).expect("readable") };
    paths.iter().map(seed).collect()
}

/// Returns the conformance programs with Vulkan delegates of at most `max_bytes` bytes.
///
/// # Panics
/// If they cannot be read.
pub fn vulkan_programs(max_bytes: usize) -> Vec<Seed> {
    let mut seeds = seeds_in(&programs().with_file_name("vulkan"), "model.pte");
    seeds.retain(|seed| seed.bytes.len() <= max_bytes && payload(&seed.bytes).is_some());
    seeds
}

/// Range of the first Vulkan payload in a program: its header, graph and constants.
pub fn payload(program: &[u8]) -> Option<Range<usize>> {
    let start = program.windows(4).position(|bytes| bytes == b"VH00")?.checked_sub(4)?;
    let word = |at: usize| {
        let bytes = program.get(start + at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    };
    let (graph, constants) = (word(10)? + word(14)?, word(18)? + word(22)?);
    let end = start + graph.max(constants);
    (end <= program.len()).then_some(start..end)
}

/// Folder of the conformance programs.
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/data/programs")
}

fn read(folder: &Path, file: &str) -> Vec<u8> {
    let path = folder.join(file);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

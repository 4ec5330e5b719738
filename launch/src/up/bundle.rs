//! Files that a machine needs, as a tar archive.
//!
//! The archive has the folders of this machine below the nearest common one, so that relative paths
//! in graph files and options lead to the same files.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use afferent_spec::Checked;
use anyhow::Context;
use tar::{Builder, EntryType, Header};

use crate::models::{packages, read_paths};

/// Folder of certificates and keys in the archive.
pub(super) const KEYS: &str = ".afferent-keys";

/// Files to copy to a machine.
pub(super) struct Bundle {
    /// Files by their names in the archive.
    files: BTreeMap<PathBuf, PathBuf>,
    /// Working directory of the program, in the archive.
    folder: PathBuf,
    /// Graph file, from the working directory.
    graph: PathBuf,
    /// File of `--machines`, in the archive.
    machines: PathBuf,
}

impl Bundle {
    /// Files of the graph file `graph`, `machines`, and those that the nodes of `machine` read.
    ///
    /// Files with absolute paths are not copied: they are expected on each machine. Programs of
    /// models with a SHA-256 are not copied either: they are in the model cache.
    pub(super) fn new(
        graph: &Path,
        machines: &Path,
        checked: &Checked,
        machine: usize,
    ) -> anyhow::Result<Self> {
        let own = graph.parent().unwrap_or(Path::new(""));
        // With an absolute graph file, all paths are.
        let is_relative =
            |path: &Path| path.is_relative() || own.is_absolute() && path.starts_with(own);
        let mut all = vec![graph.to_owned(), machines.to_owned()];
        all.extend(checked.origin.files.iter().map(|(path, _)| path.clone()));
        let mut programs = HashSet::new();
        let nodes = checked.graph.nodes.iter().enumerate();
        let own_nodes = nodes.filter(|(index, _)| checked.graph.machine_of(*index) == machine);
        for (_, node) in own_nodes {
            for package in packages(node)? {
                let hashed = package.manifest.all_variants();
                let hashed = hashed.filter(|one| one.sha256.is_some());
                programs.extend(hashed.map(|variant| package.folder().join(&variant.file)));
            }
            all.extend(read_paths(node).filter(|path| is_relative(path)).cloned());
        }
        let mut found = Vec::new();
        for path in all {
            add(&path, &mut found).with_context(|| format!("cannot read {}", path.display()))?;
        }
        found.retain(|path| !programs.contains(path));
        let here = std::env::current_dir()?.canonicalize()?;
        let absolute = |path: &Path| {
            path.canonicalize().with_context(|| format!("cannot read {}", path.display()))
        };
        let (folder, graph) = if graph.is_relative() {
            (here, graph.to_owned())
        } else {
            let name = graph.file_name().context("the graph is a file")?;
            (absolute(own)?, name.into())
        };
        let found = found.iter().map(|path| absolute(path)).collect::<anyhow::Result<Vec<_>>>()?;
        let root = found.iter().fold(folder.clone(), |root, path| common(&root, path));
        let name = |path: &Path| path.strip_prefix(&root).unwrap_or(path).to_owned();
        let files = found.iter().map(|path| (name(path), path.clone())).collect();
        let machines = name(&absolute(machines)?);
        Ok(Self { files, folder: name(&folder), graph, machines })
    }

    /// Working directory, graph file and file of `--machines`.
    pub(super) fn names(&self) -> anyhow::Result<[String; 3]> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.with_context(|| format!("{} is not UTF-8", path.display()))
        };
        Ok([text(&self.folder)?, text(&self.graph)?, text(&self.machines)?])
    }

    /// Writes the archive; with `keys`, those of a machine from a folder of `afferent keys`.
    pub(super) fn write(&self, keys: Option<(&Path, &str)>, to: &mut dyn Write) -> io::Result<()> {
        let mut archive = Builder::new(to);
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        if self.folder != Path::new("") {
            archive.append_data(&mut header, &self.folder, io::empty())?;
        }
        for (name, path) in &self.files {
            append(&mut archive, name, path, 0o644)?;
        }
        if let Some((folder, machine)) = keys {
            for (name, kind) in [("ca", "pem"), (machine, "pem"), (machine, "key")] {
                let file = format!("{name}.{kind}");
                append(&mut archive, &Path::new(KEYS).join(&file), &folder.join(&file), 0o600)?;
            }
        }
        archive.finish()
    }
}

fn append<W: Write>(
    archive: &mut Builder<W>,
    name: &Path,
    path: &Path,
    mode: u32,
) -> io::Result<()> {
    let told =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(told)?;
    let mut header = Header::new_gnu();
    header.set_size(file.metadata().map_err(told)?.len());
    header.set_mode(mode);
    archive.append_data(&mut header, name, file)
}

/// Adds a file, or the files of a folder. Devices and missing files have no copy.
fn add(path: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if path.is_file() {
        found.push(path.to_owned());
    } else if path.is_dir() {
        for entry in fs::read_dir(path)? {
            add(&entry?.path(), found)?;
        }
    }
    Ok(())
}

/// Nearest folder that has both `folder` and `file` below it.
fn common(folder: &Path, file: &Path) -> PathBuf {
    let mut folder = folder;
    while !file.starts_with(folder) {
        folder = folder.parent().unwrap_or(Path::new("/"));
    }
    folder.to_owned()
}

//! The files that a graph depends on.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::Path,
};

use afferent_engine::CheckedGraph;
use afferent_graph::{ParamKind, ParamValue};
use sha2::{Digest, Sha256};

/// The files and folders that parameters of the nodes of `graph` name and that are there, each as
/// `node.parameter` with the SHA-256 of its content.
pub(crate) fn hashes(graph: &CheckedGraph) -> BTreeMap<String, String> {
    let mut hashes = BTreeMap::new();
    for node in &graph.nodes {
        for param in node.def.params.iter().filter(|param| param.kind == ParamKind::Path) {
            let Some(ParamValue::Path(path)) = node.params.get(param.name) else { continue };
            let mut hash = Sha256::new();
            if path.exists() && add(path, &mut hash).is_ok() {
                hashes.insert(format!("{}.{}", node.name, param.name), hex(&hash.finalize()));
            }
        }
    }
    hashes
}

/// Adds a file, or the names and files of a folder in their order.
fn add(path: &Path, hash: &mut Sha256) -> io::Result<()> {
    if !path.is_dir() {
        let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
        while let block = file.fill_buf()?
            && !block.is_empty()
        {
            hash.update(block);
            let len = block.len();
            file.consume(len);
        }
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        hash.update(entry.file_name().as_encoded_bytes());
        hash.update([0]);
        // Files alone: a folder within is no part of a model.
        if entry.file_type()?.is_file() {
            add(&entry.path(), hash)?;
        }
    }
    Ok(())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

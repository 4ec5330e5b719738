//! Hashes of the files that a graph depends on.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use afferent_graph::{ParamKind, ParamValue};
use afferent_spec::CheckedGraph;
use mcap::{
    MAGIC,
    read::parse_record,
    records::{Record, op},
};
use sha2::{Digest, Sha256};

/// Name of the metadata record that holds the hashes.
pub(crate) const METADATA: &str = "afferent.files";
/// Maximum size of the list of hashes, in bytes.
const MAX_LIST: u64 = 1 << 24;

/// Reads the hashes from the recording `path`. Empty if it has no such list.
pub(crate) fn recorded(path: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut file = BufReader::new(File::open(path)?);
    file.seek_relative(MAGIC.len() as i64)?;
    loop {
        // Attachments and metadata precede the packets.
        let mut head = [0; 9];
        file.read_exact(&mut head)?;
        let [kind, len @ ..] = head;
        let len = u64::from_le_bytes(len);
        match kind {
            op::METADATA if len <= MAX_LIST => {
                let mut body = Vec::new();
                file.by_ref().take(len).read_to_end(&mut body)?;
                match parse_record(kind, &body) {
                    Ok(Record::Metadata(found)) if found.name == METADATA => {
                        return Ok(found.metadata);
                    }
                    _ => {}
                }
            }
            op::HEADER | op::ATTACHMENT | op::METADATA => {
                file.seek_relative(i64::try_from(len).unwrap_or(i64::MAX))?;
            }
            _ => return Ok(BTreeMap::new()),
        }
    }
}

/// SHA-256 of the existing files and folders that node parameters of `graph` name, by
/// `node.parameter`. Excludes files that sources read or nodes write, and unbounded files such as
/// devices.
pub(crate) fn hashes(graph: &CheckedGraph) -> BTreeMap<String, String> {
    let mut hashes = BTreeMap::new();
    for node in graph.nodes.iter().filter(|node| !node.def.is_source()) {
        for param in node.def.params.iter().filter(|param| param.kind == ParamKind::Path) {
            let Some(ParamValue::Path(path)) = node.params.get(&*param.name) else { continue };
            let mut hash = Sha256::new();
            if (path.is_file() || path.is_dir()) && add(path, &mut hash).is_ok() {
                hashes.insert(format!("{}.{}", node.name, param.name), hex(&hash.finalize()));
            }
        }
    }
    hashes
}

/// Adds a file, or the names and contents of a folder's files in sorted order.
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
        // Only files and links to files count. Subfolders are not part of a model.
        if entry.path().is_file() {
            add(&entry.path(), hash)?;
        }
    }
    Ok(())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

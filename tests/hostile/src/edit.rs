//! Changes a field of a file by its name.

use crate::{
    flatbuffer::{Table, Vector, follow, number, set_number},
    schema::{Field, Kind, TableType},
};

/// Alignment of segments after an edit: that of every dtype.
const ALIGNMENT: usize = 16;

/// Maximum size of a file that grows by copies of its tables. Tables of a corrupted file may
/// contain each other.
const MAX_BYTES: usize = 1 << 20;

/// A file whose fields are addressed by path.
///
/// A path starts at the root table: `execution_plan[0].values[2].val.sizes[1]`. It ends in a field
/// or an element. The suffix `#` stands for the length of a vector, `_type` for the type of a
/// union.
///
/// All methods that take a path panic if it does not exist, because then the test is wrong.
#[derive(Debug, Clone)]
pub struct Edit {
    bytes: Vec<u8>,
    root: &'static TableType,
}

/// Offset and size of a number, in bytes.
type NumberLocation = (usize, usize);

impl Edit {
    /// Copies a file with the given root table.
    pub fn new(bytes: &[u8], root: &'static TableType) -> Self {
        Self { bytes: bytes.to_vec(), root }
    }

    /// Current bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number at `path`.
    #[track_caller]
    pub fn get(&self, path: &str) -> u64 {
        let found =
            self.number_location(path).and_then(|(at, width)| number(&self.bytes, at, width));
        found.unwrap_or_else(|| panic!("no number at {path}"))
    }

    /// Returns true if the field at `path` is present.
    pub fn has(&self, path: &str) -> bool {
        let field = self.field(path);
        field.is_some_and(|(table, field)| table.field(&self.bytes, field.slot).is_some())
    }

    /// Sets the number at `path`.
    #[track_caller]
    pub fn set(&mut self, path: &str, value: i64) -> &mut Self {
        let (at, width) =
            self.number_location(path).unwrap_or_else(|| panic!("no number at {path}"));
        set_number(&mut self.bytes, at, width, value as u64);
        self
    }

    /// Sets the 8 bytes at offset `at`, in the header.
    pub fn set_header(&mut self, at: usize, value: u64) -> &mut Self {
        set_number(&mut self.bytes, at, 8, value);
        self
    }

    /// Removes the field at `path`.
    #[track_caller]
    pub fn remove(&mut self, path: &str) -> &mut Self {
        let (table, field) = self.field(path).unwrap_or_else(|| panic!("no field at {path}"));
        let mut vtable = table.vtable(&self.bytes).expect("a table has a vtable").to_vec();
        vtable[4 + 2 * field.slot..][..2].fill(0);
        // Other tables may share the vtable: this one needs a copy.
        let at = append(&mut self.bytes, &vtable);
        let distance = table.at as i64 - at as i64;
        set_number(&mut self.bytes, table.at, 4, distance as u64);
        self
    }

    /// Replaces the vector of numbers, or the string, at `path`.
    #[track_caller]
    pub fn set_items(&mut self, path: &str, items: &[i64]) -> &mut Self {
        let (at, field) = self.reference(path);
        let width = element_width(field.kind);
        let vector = append_vector(&mut self.bytes, items.len(), width);
        for (item, &value) in items.iter().enumerate() {
            set_number(&mut self.bytes, vector + 4 + width * item, width, value as u64);
        }
        set_reference(&mut self.bytes, at, vector)
            .expect("the vector is appended after the reference");
        self
    }

    /// Replaces the vector of tables at `path` by its own entries with these indices, which may
    /// repeat.
    #[track_caller]
    pub fn set_tables(&mut self, path: &str, entries: &[usize]) -> &mut Self {
        let (at, field) = self.reference(path);
        let changed = set_tables(&mut self.bytes, at, field.kind, entries);
        changed.unwrap_or_else(|| panic!("no such tables at {path}"));
        self
    }

    #[track_caller]
    fn reference(&self, path: &str) -> (usize, &'static Field) {
        let found = self.field(path);
        let at =
            found.and_then(|(table, field)| Some((table.field(&self.bytes, field.slot)?, field)));
        at.unwrap_or_else(|| panic!("no field at {path}"))
    }

    fn number_location(&self, path: &str) -> Option<NumberLocation> {
        let bytes = &self.bytes;
        if let Some(path) = path.strip_suffix('#') {
            let (table, field) = self.field(path)?;
            return Some((follow(bytes, table.field(bytes, field.slot)?)?, 4));
        }
        if let Some((table, field)) = path.strip_suffix("_type").and_then(|path| self.field(path)) {
            return Some((table.field(bytes, field.slot - 1)?, 1));
        }
        let (path, index) = split_index(path);
        let (table, field) = self.field(path)?;
        let at = table.field(bytes, field.slot)?;
        let Some(index) = index else {
            return Some((at, if let Kind::Number(width) = field.kind { width } else { 4 }));
        };
        let width = element_width(field.kind);
        let vector = Vector::at(bytes, follow(bytes, at)?, width)?;
        (index < vector.len).then_some((vector.start + width * index, width))
    }

    /// Returns the last field of `path` and its table.
    fn field(&self, path: &str) -> Option<(Table, &'static Field)> {
        let bytes = &self.bytes;
        let (mut kind, mut table) = (self.root, Table::root(bytes)?);
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let (name, index) = split_index(name);
            let field = kind.fields.iter().find(|field| field.name == name)?;
            if names.peek().is_none() {
                return Some((table, field));
            }
            (kind, table) = match (field.kind, index) {
                (Kind::Tables(kind), Some(index)) => {
                    (kind, table_entry(bytes, table.field(bytes, field.slot)?, index)?)
                }
                _ => table.child(bytes, field)?,
            };
        }
        None
    }
}

/// Splits `name[3]` into name and index.
fn split_index(name: &str) -> (&str, Option<usize>) {
    let parts = name.strip_suffix(']').and_then(|name| name.rsplit_once('['));
    let parts = parts.and_then(|(name, index)| Some((name, index.parse().ok()?)));
    parts.map_or((name, None), |(name, index)| (name, Some(index)))
}

/// Size of a vector element, in bytes.
pub(crate) fn element_width(kind: Kind) -> usize {
    match kind {
        Kind::Numbers(width) => width,
        Kind::Text | Kind::Bytes | Kind::Program => 1,
        _ => 4,
    }
}

/// Returns entry `index` of the vector of tables that the reference at `at` points to.
pub(crate) fn table_entry(bytes: &[u8], at: usize, index: usize) -> Option<Table> {
    let vector = Vector::at(bytes, follow(bytes, at)?, 4)?;
    let reference = (index < vector.len).then_some(vector.start + 4 * index)?;
    Table::at(bytes, follow(bytes, reference)?)
}

/// Points the reference at `at` to a new vector with the tables `entries` of the old one.
pub(crate) fn set_tables(
    bytes: &mut Vec<u8>,
    at: usize,
    kind: Kind,
    entries: &[usize],
) -> Option<()> {
    let Kind::Tables(kind) = kind else { return None };
    let tables: Option<Vec<Table>> =
        entries.iter().map(|&index| table_entry(bytes, at, index)).collect();
    let tables = tables?;
    let vector = append_vector(bytes, entries.len(), 4);
    let mut copies: Vec<(usize, usize)> = Vec::new();
    for (item, table) in tables.iter().enumerate() {
        let known = copies.iter().find(|(from, _)| *from == table.at);
        let copy = match known {
            Some(&(_, copy)) => copy,
            None => {
                let copy = copy_table(bytes, kind, *table)?;
                copies.push((table.at, copy));
                copy
            }
        };
        set_reference(bytes, vector + 4 + 4 * item, copy)?;
    }
    set_reference(bytes, at, vector)
}

/// Points the reference at `at` to `target`; `None` if the target precedes the reference. That is
/// possible in a file with a corrupted header, to which new objects are appended too early.
pub(crate) fn set_reference(bytes: &mut [u8], at: usize, target: usize) -> Option<()> {
    set_number(bytes, at, 4, target.checked_sub(at)? as u64);
    Some(())
}

/// Appends a copy of a table and of all objects that it refers to. References point forward: only
/// an appended object can be the target of any reference.
fn copy_table(bytes: &mut Vec<u8>, kind: &TableType, table: Table) -> Option<usize> {
    if bytes.len() > MAX_BYTES {
        return None;
    }
    let vtable = table.vtable(bytes)?;
    let (len, vtable) = (number(vtable, 2, 2)? as usize, table.vtable_at());
    let own = bytes.get(table.at..table.at + len)?.to_vec();
    let copy = append(bytes, &own);
    set_number(bytes, copy, 4, (copy as i64 - vtable as i64) as u64);
    for field in kind.fields {
        let Some(from) = table.field(bytes, field.slot) else { continue };
        let target = match field.kind {
            Kind::Number(_) => continue,
            Kind::Table(_) | Kind::Union(_) => {
                let (kind, child) = table.child(bytes, field)?;
                copy_table(bytes, kind, child)?
            }
            Kind::Tables(kind) => {
                let vector = Vector::at(bytes, follow(bytes, from)?, 4)?;
                let copied = append_vector(bytes, vector.len, 4);
                for item in 0..vector.len {
                    let child = copy_table(bytes, kind, table_entry(bytes, from, item)?)?;
                    set_reference(bytes, copied + 4 + 4 * item, child)?;
                }
                copied
            }
            Kind::Numbers(_) | Kind::Text | Kind::Bytes | Kind::Program => {
                let width = element_width(field.kind);
                let vector = Vector::at(bytes, follow(bytes, from)?, width)?;
                let items = bytes.get(vector.start..vector.start + width * vector.len)?.to_vec();
                let copied = append_vector(bytes, vector.len, width);
                bytes[copied + 4..][..items.len()].copy_from_slice(&items);
                copied
            }
        };
        set_reference(bytes, copy + (from - table.at), target)?;
    }
    Some(copy)
}

/// Appends a vector of zeros and returns its offset.
fn append_vector(bytes: &mut Vec<u8>, len: usize, width: usize) -> usize {
    let mut vector = vec![0; 4 + len * width];
    set_number(&mut vector, 0, 4, len as u64);
    append(bytes, &vector)
}

/// Appends `new` to the flatbuffer and returns its offset. The segments move back.
pub(crate) fn append(bytes: &mut Vec<u8>, new: &[u8]) -> usize {
    // Header offsets of: the size of the flatbuffer, the start that the size counts from, and the
    // start of the segments.
    let header = match bytes.get(4..12) {
        Some(b"ET12eh00") => Some((16, 0, 24)),
        Some([b'F', b'T', _, _, b'F', b'H', _, _]) => Some((24, 16, 32)),
        _ => None,
    };
    let get = |bytes: &[u8], at| number(bytes, at, 8).unwrap_or(0) as usize;
    let end = header.map_or(bytes.len(), |(size, from, _)| {
        let from = if from > 0 { get(bytes, from) } else { 0 };
        get(bytes, size).saturating_add(from)
    });
    let end = end.min(bytes.len());
    let start = end.next_multiple_of(8);
    let grown = (start + new.len() - end).next_multiple_of(ALIGNMENT);
    let mut part = vec![0; grown];
    part[start - end..][..new.len()].copy_from_slice(new);
    bytes.splice(end..end, part);
    if let Some((size, _, base)) = header {
        // A corrupted header may contain any number.
        let (len, segments) = (get(bytes, size), get(bytes, base));
        set_number(bytes, size, 8, len.wrapping_add(grown) as u64);
        if segments > 0 {
            set_number(bytes, base, 8, segments.wrapping_add(grown) as u64);
        }
    }
    start
}

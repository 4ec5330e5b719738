//! Bytes of a compiled blob → a checked graph.
//!
//! Everything that a field says is checked here: numbers of values, sizes against the bytes of
//! constants, datatypes, parameters of nodes. Work is linear in the blob and in the data that it
//! names, of which no constant is used by many values. Many nodes may use one value: what a plan
//! makes for each of them counts against the limit of memory.

mod node;
mod schema;
mod value;

use std::collections::{HashMap, HashSet};

use afferent_core::{BlobEntry, Error};
use afferent_flatbuffer::{ErrorKind, Field, FieldError, Table, TableVector, array};

use crate::graph::{Graph, Role, Value};
use schema::*;

/// How an absent value is written.
pub(crate) const NONE: u32 = u32::MAX;

/// The most arguments of a delegate.
const MOST_ARGUMENTS: usize = 4096;

type NamedData<'c, 'a> = &'c dyn Fn(&str) -> Option<&'a [u8]>;

/// Reads a blob.
///
/// # Errors
/// [`Error::DelegateInvalidCompatibility`] when it is none, [`Error::InvalidBlob`] and
/// [`Error::UnsupportedBlob`] with the entry that is at fault.
pub(crate) fn read<'a>(bytes: &'a [u8], named: NamedData<'_, 'a>) -> Result<Graph<'a>, Error> {
    let parts = Parts::split(bytes)?;
    let magic = parts.flatbuffer.get(4..8);
    if !matches!(magic, Some(b"XN00" | b"XN01")) {
        return Err(invalid("it is no graph of the version XN00 or XN01"));
    }
    let at = Entry { kind: BlobEntry::Graph, index: 0 };
    let root = at.read(Table::root(parts.flatbuffer))?;
    let tables = |field| at.read(root.tables_or_empty(field));
    let constants = Constants {
        inline: tables(GRAPH_BUFFERS)?,
        placed: tables(GRAPH_CONSTANTS)?,
        data: parts.constants,
        named,
    };
    let budget = Budget { there: bytes.len(), ..Budget::default() };
    let mut reader = Reader { constants, ids: HashMap::new(), budget, values: vec![] };
    for (index, table) in tables(GRAPH_VALUES)?.iter().enumerate() {
        let at = Entry { kind: BlobEntry::Value, index: number(index) };
        let value = value::read(&mut reader, at, &at.read(table)?)?;
        reader.values.push(value);
    }
    let inputs = arguments(&reader.values)?;
    let mut nodes = Vec::new();
    for (index, table) in tables(GRAPH_NODES)?.iter().enumerate() {
        let at = Entry { kind: BlobEntry::Node, index: number(index) };
        nodes.push(node::read(&reader, at, &at.read(table)?)?);
    }
    let graph = Graph { values: reader.values, nodes, inputs };
    check_order(&graph)?;
    Ok(graph)
}

fn invalid(reason: &'static str) -> Error {
    Error::DelegateInvalidCompatibility { reason }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The parts of a blob.
struct Parts<'a> {
    flatbuffer: &'a [u8],
    /// Absent in a blob without header, where the flatbuffer holds the constants.
    constants: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn split(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.get(4..8) != Some(b"XH00") {
            return Ok(Self { flatbuffer: bytes, constants: None });
        }
        let parts = || {
            let word = |at| array(bytes, at).map(u32::from_le_bytes).map(u64::from);
            let (start, len) = (word(10)?, word(14)?);
            let (constants, size) = (word(18)?, u64::from_le_bytes(array(bytes, 22)?));
            let field = Field(0, "header");
            let flatbuffer = field.slice(bytes, start, len).ok()?;
            let constants = field.slice(bytes, constants, size).ok()?;
            Some(Self { flatbuffer, constants: Some(constants) })
        };
        parts().ok_or(invalid("its header names bytes that it does not have"))
    }
}

/// An entry of the blob, for messages.
#[derive(Clone, Copy)]
struct Entry {
    kind: BlobEntry,
    index: u32,
}

impl Entry {
    fn read<T>(self, read: Result<T, FieldError>) -> Result<T, Error> {
        read.map_err(|FieldError { field, kind }| {
            let reason = match kind {
                ErrorKind::OutOfBounds { .. } | ErrorKind::RangeOutOfBounds { .. } => {
                    "does not lie within the blob"
                }
                ErrorKind::Missing => "is missing",
                ErrorKind::IndexOutOfRange { .. } => "numbers an entry that does not exist",
                ErrorKind::Invalid { reason } => reason,
                _ => "is damaged",
            };
            self.fault(Field(0, field), reason)
        })
    }

    fn fault(self, field: Field, reason: &'static str) -> Error {
        Error::InvalidBlob { entry: self.kind, index: self.index, field: field.1, reason }
    }

    fn unsupported(self, what: &'static str) -> Error {
        Error::UnsupportedBlob { entry: self.kind, index: self.index, what }
    }

    /// Fails unless `fine`.
    fn expect(self, fine: bool, field: Field, reason: &'static str) -> Result<(), Error> {
        if fine { Ok(()) } else { Err(self.fault(field, reason)) }
    }
}

/// Where constants are.
struct Constants<'a, 'c> {
    inline: TableVector<'a>,
    placed: TableVector<'a>,
    data: Option<&'a [u8]>,
    named: NamedData<'c, 'a>,
}

impl<'a> Constants<'a, '_> {
    /// The constant with number `index`, `None` for 0; data outside of the blob adds to `budget`.
    fn get(
        &self,
        budget: &mut Budget,
        at: Entry,
        field: Field,
        index: u32,
    ) -> Result<Option<&'a [u8]>, Error> {
        if index == 0 {
            return Ok(None);
        }
        let Some(data) = self.data else {
            let buffer = at.read(self.inline.get(index as usize))?;
            let bytes = at.read(buffer.bytes(BUFFER_STORAGE))?;
            return at.read(BUFFER_STORAGE.required(bytes)).map(Some);
        };
        let entry = at.read(self.placed.get(index as usize))?;
        let size = at.read(entry.scalar::<u64>(CONSTANT_SIZE))?;
        let key = at.read(entry.name(CONSTANT_KEY))?.filter(|key| !key.is_empty());
        let Some(key) = key else {
            let offset = at.read(entry.scalar::<u64>(CONSTANT_OFFSET))?;
            return at.read(CONSTANT_OFFSET.slice(data, offset, size)).map(Some);
        };
        let bytes = (self.named)(key);
        let bytes = bytes.ok_or(at.fault(field, "names data that the program does not have"))?;
        budget.add(bytes);
        at.read(CONSTANT_SIZE.slice(bytes, 0, size)).map(Some)
    }
}

/// Bytes of constants that values use, against those that there are: a small blob must not make
/// many copies of one constant, or of parts of it that overlap.
#[derive(Default)]
struct Budget {
    /// Where data outside of the blob begins.
    named: HashSet<usize>,
    /// Bytes of the blob, and of that data.
    there: usize,
    used: usize,
}

impl Budget {
    /// How often a byte may be used, on average.
    const USES: usize = 8;

    /// Adds data that does not lie in the blob.
    fn add(&mut self, data: &[u8]) {
        if self.named.insert(data.as_ptr().addr()) {
            self.there = self.there.saturating_add(data.len());
        }
    }

    /// Whether `bytes` may be used once more.
    fn pay(&mut self, bytes: &[u8]) -> bool {
        self.used = self.used.saturating_add(bytes.len());
        self.used / Self::USES <= self.there.max(1 << 20)
    }
}

/// What is known while a blob is read.
struct Reader<'a, 'c> {
    constants: Constants<'a, 'c>,
    /// Place of the value with each number.
    ids: HashMap<u32, usize>,
    budget: Budget,
    values: Vec<Value<'a>>,
}

/// Checks that inputs and outputs are the arguments from 0 on, and returns how many are inputs.
///
/// Inputs that nothing uses have no value, so that numbers may be left out before the outputs.
fn arguments(values: &[Value<'_>]) -> Result<usize, Error> {
    let mut seen = HashSet::new();
    let (mut first_output, mut last_input) = (None::<usize>, None::<usize>);
    for value in values {
        let (argument, is_input) = match value.role {
            Role::Inner => continue,
            Role::Input(argument) => (argument, true),
            Role::Output(argument) => (argument, false),
        };
        if argument >= MOST_ARGUMENTS {
            return Err(invalid("it has an argument beyond 4095, the last that there may be"));
        }
        if !seen.insert(argument) {
            return Err(invalid("its inputs and outputs are not different arguments"));
        }
        if is_input {
            last_input = last_input.max(Some(argument));
        } else {
            first_output = Some(first_output.map_or(argument, |first| first.min(argument)));
        }
    }
    let first_output = first_output.ok_or(invalid("it has no output"))?;
    if last_input.is_some_and(|last| last >= first_output) {
        return Err(invalid("an input comes after an output"));
    }
    Ok(first_output)
}

/// Checks that every value is written once before it is read.
fn check_order(graph: &Graph<'_>) -> Result<(), Error> {
    let is_there = |value: &Value<'_>| value.data.is_some() || matches!(value.role, Role::Input(_));
    let mut there: Vec<bool> = graph.values.iter().map(is_there).collect();
    for (index, node) in graph.nodes.iter().enumerate() {
        let at = Entry { kind: BlobEntry::Node, index: number(index) };
        for input in &node.inputs {
            let reason = "reads a value that nothing wrote before";
            at.expect(there[*input], Field(0, "it"), reason)?;
        }
        for output in [Some(node.output), node.positions].into_iter().flatten() {
            let reason = "writes a constant, an input, or a value for the second time";
            at.expect(!there[output], Field(0, "it"), reason)?;
            there[output] = true;
        }
    }
    let unwritten = graph
        .values
        .iter()
        .zip(there)
        .any(|(value, there)| matches!(value.role, Role::Output(_)) && !there);
    if unwritten { Err(invalid("nothing writes one of its outputs")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_constant_that_overlap_are_counted() {
        let data = vec![0; 4 << 20];
        let mut budget = Budget { there: data.len(), ..Budget::default() };
        let paid = (0..1000).take_while(|at| budget.pay(&data[4 * at..][..2 << 20])).count();
        assert_eq!(paid, 2 * Budget::USES);
        // Data beside the blob may be used as often, however often it is named.
        let more = vec![0; 8 << 20];
        budget.add(&more);
        budget.add(&more);
        let paid = (0..1000).take_while(|_| budget.pay(&more)).count();
        assert_eq!(paid, Budget::USES - 1);
    }
}

//! Parses a compiled blob into a checked subgraph.
//!
//! All fields are checked here: value ids, sizes against the bytes of constants, datatypes, and
//! node parameters. Parsing takes time linear in the blob and its named data, because few values
//! may share a constant. Any number of nodes may use a value: packed weights count against the
//! memory limit of the delegate.

mod constants;
mod entry;
mod node;
mod reader;
mod schema;
mod value;

use std::collections::{HashMap, HashSet};

use afferent_core::Error;
use afferent_flatbuffer::{Field, Table, array};

use crate::subgraph::{Role, Subgraph, Value};
use constants::{ConstantUse, Constants, NamedData};
use entry::Entry;
use reader::Reader;
use schema::{
    GRAPH_CONSTANT_BUFFERS, GRAPH_CONSTANT_DATA, GRAPH_NODES, GRAPH_VALUES, MAX_ARGUMENTS,
};

/// Parses a blob.
///
/// # Errors
/// [`Error::DelegateInvalidCompatibility`] if the bytes are not an XNNPACK blob,
/// [`Error::InvalidBlob`] and [`Error::UnsupportedBlob`] with the entry that is at fault.
pub(crate) fn parse<'a>(bytes: &'a [u8], named: NamedData<'_, 'a>) -> Result<Subgraph<'a>, Error> {
    let sections = Sections::split(bytes)?;
    let identifier = sections.flatbuffer.get(4..8);
    if !matches!(identifier, Some(b"XN00" | b"XN01")) {
        return Err(invalid("its file identifier is neither XN00 nor XN01"));
    }
    let at = Entry::SUBGRAPH;
    let root = at.read(Table::root(sections.flatbuffer))?;
    let tables = |field| at.read(root.tables_or_empty(field));
    let constants = Constants {
        inline: tables(GRAPH_CONSTANT_BUFFERS)?,
        external: tables(GRAPH_CONSTANT_DATA)?,
        data: sections.constants,
        named,
    };
    let constant_use = ConstantUse::new(bytes.len());
    let mut reader = Reader { constants, ids: HashMap::new(), constant_use, values: vec![] };
    for (index, table) in tables(GRAPH_VALUES)?.iter().enumerate() {
        let at = Entry::value(index);
        let value = value::read(&mut reader, at, &at.read(table)?)?;
        reader.values.push(value);
    }
    let inputs = check_arguments(&reader.values)?;
    let mut nodes = Vec::new();
    for (index, table) in tables(GRAPH_NODES)?.iter().enumerate() {
        nodes.push(node::read(&reader, index, table)?);
    }
    let subgraph = Subgraph { values: reader.values, nodes, inputs };
    check_order(&subgraph)?;
    Ok(subgraph)
}

fn invalid(reason: &'static str) -> Error {
    Error::DelegateInvalidCompatibility { reason }
}

/// Sections of a blob.
struct Sections<'a> {
    flatbuffer: &'a [u8],
    /// Constant data; `None` for a blob without a header, whose flatbuffer contains the constants.
    constants: Option<&'a [u8]>,
}

impl<'a> Sections<'a> {
    fn split(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.get(4..8) != Some(b"XH00") {
            return Ok(Self { flatbuffer: bytes, constants: None });
        }
        let sections = || {
            let word = |at| array(bytes, at).map(u32::from_le_bytes).map(u64::from);
            let (start, len) = (word(10)?, word(14)?);
            let (constants, size) = (word(18)?, u64::from_le_bytes(array(bytes, 22)?));
            let field = Field(0, "header");
            let flatbuffer = field.slice(bytes, start, len).ok()?;
            let constants = field.slice(bytes, constants, size).ok()?;
            Some(Self { flatbuffer, constants: Some(constants) })
        };
        sections().ok_or(invalid("a section of its XH00 header exceeds the blob; export it again"))
    }
}

/// Checks that inputs and outputs have distinct argument indices, with the inputs first. Returns
/// the number of input arguments.
///
/// An unused input has no value. Argument indices before the outputs may therefore be missing.
fn check_arguments(values: &[Value<'_>]) -> Result<usize, Error> {
    let mut seen = HashSet::new();
    let (mut first_output, mut last_input) = (None::<usize>, None::<usize>);
    for value in values {
        let (argument, is_input) = match value.role {
            Role::Internal => continue,
            Role::Input(argument) => (argument, true),
            Role::Output(argument) => (argument, false),
        };
        if argument >= MAX_ARGUMENTS {
            return Err(invalid("an `external_id` exceeds 4095"));
        }
        if !seen.insert(argument) {
            return Err(invalid("two inputs or outputs have the same `external_id`"));
        }
        if is_input {
            last_input = last_input.max(Some(argument));
        } else {
            first_output = Some(first_output.map_or(argument, |first| first.min(argument)));
        }
    }
    let first_output = first_output.ok_or(invalid("it has no output"))?;
    if last_input.is_some_and(|last| last >= first_output) {
        return Err(invalid("the `external_id` of an input follows that of an output"));
    }
    Ok(first_output)
}

/// Checks that each value is written exactly once and before it is read.
fn check_order(subgraph: &Subgraph<'_>) -> Result<(), Error> {
    let is_initialized =
        |value: &Value<'_>| value.data.is_some() || matches!(value.role, Role::Input(_));
    let mut initialized: Vec<bool> = subgraph.values.iter().map(is_initialized).collect();
    for (index, node) in subgraph.nodes.iter().enumerate() {
        let at = Entry::node(index);
        for input in &node.inputs {
            let reason = "reads a value that no earlier node writes";
            at.expect(initialized[*input], Field(0, node.type_name), reason)?;
        }
        for output in [Some(node.output), node.index_output].into_iter().flatten() {
            let reason = "writes a constant, an input, or a value that another node writes";
            at.expect(!initialized[output], Field(0, node.type_name), reason)?;
            initialized[output] = true;
        }
    }
    let has_unwritten_output = subgraph
        .values
        .iter()
        .zip(initialized)
        .any(|(value, initialized)| matches!(value.role, Role::Output(_)) && !initialized);
    if has_unwritten_output { Err(invalid("no node writes one of its outputs")) } else { Ok(()) }
}

//! Parses a compiled blob into a checked graph.
//!
//! A blob is the header `VH00`, a flatbuffer `VK00` and a section of constants. All indices, sizes
//! and offsets are checked here, and the names of the operators against the list of [`crate::op`].
//! Each value has one writer, which precedes its readers; a constant that an operator writes is
//! state of the delegate.

mod constants;
mod entry;
mod schema;
#[cfg(test)]
mod tests;
mod value;

use afferent_core::{DelegateSource, Error};
use afferent_flatbuffer::{Field, Table, array};

use crate::{
    graph::{Call, DataType, Graph, Value},
    op,
};
use constants::Constants;
pub(crate) use entry::Entry;
use schema::{
    CALL_ARGS, CALL_NAME, GRAPH_CHAIN, GRAPH_CONSTANTS, GRAPH_INPUTS, GRAPH_OUTPUTS, GRAPH_VALUES,
};

/// Limit of the number of values and of calls.
const MAX_ENTRIES: usize = 1 << 18;

/// Parses a blob.
///
/// # Errors
/// [`Error::DelegateInvalidCompatibility`] if the bytes are not a Vulkan blob,
/// [`Error::InvalidBlob`] and [`Error::UnsupportedBlob`] with the entry that is at fault. Operators
/// without an implementation are reported to the source, each by its name.
pub(crate) fn parse<'a>(source: &DelegateSource<'a, '_>) -> Result<Graph<'a>, Error> {
    let (flatbuffer, data) = sections(source.blob)?;
    if flatbuffer.get(4..8) != Some(b"VK00") {
        return Err(invalid("its file identifier is not VK00"));
    }
    let at = Entry::GRAPH;
    let root = at.read(Table::root(flatbuffer))?;
    let tables = |field| at.read(root.tables_or_empty(field));
    let mut constants =
        Constants { tables: tables(GRAPH_CONSTANTS)?, data, named: source.named_data };
    let entries = tables(GRAPH_VALUES)?;
    let count = entries.len();
    at.expect(count <= MAX_ENTRIES, GRAPH_VALUES, "has more than 262,144 entries")?;
    let mut values = Vec::new();
    for (index, table) in entries.iter().enumerate() {
        let table = Entry::value(index).read(table)?;
        values.push(value::read(&mut constants, index, count, &table)?);
    }
    let ids = |field: Field| {
        let ids = at.read(root.vector::<u32>(field))?;
        let ids = ids.into_iter().flatten().map(|id| at.read(field.index(id, count)));
        ids.map(|id| id.map(|id| id as usize)).collect::<Result<Vec<_>, Error>>()
    };
    let (inputs, outputs) = (ids(GRAPH_INPUTS)?, ids(GRAPH_OUTPUTS)?);
    let calls = calls(&root, count, source)?;
    let mut graph = Graph { values, calls, inputs, outputs };
    fix_types(&mut graph);
    check_lists(&graph)?;
    check_arguments(&graph)?;
    check_order(&graph)?;
    Ok(graph)
}

fn invalid(reason: &'static str) -> Error {
    Error::DelegateInvalidCompatibility { reason }
}

/// Flatbuffer and constants of a blob.
fn sections(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    if bytes.get(4..8) != Some(b"VH00") {
        return Err(invalid("it has no header VH00; export the program again"));
    }
    let sections = || {
        let word = |at| array(bytes, at).map(u32::from_le_bytes).map(u64::from);
        let (start, len) = (word(10)?, word(14)?);
        let (constants, size) = (word(18)?, u64::from_le_bytes(array(bytes, 22)?));
        let field = Field(0, "header");
        let flatbuffer = field.slice(bytes, start, len).ok()?;
        // A size of 0 is the rest of the blob.
        let rest = (bytes.len() as u64).checked_sub(constants)?;
        let size = if size == 0 { rest } else { size };
        Some((flatbuffer, field.slice(bytes, constants, size).ok()?))
    };
    sections().ok_or(invalid("a section of its VH00 header exceeds the blob; export it again"))
}

fn calls(
    root: &Table<'_>,
    count: usize,
    source: &DelegateSource<'_, '_>,
) -> Result<Vec<Call>, Error> {
    let tables = Entry::GRAPH.read(root.tables_or_empty(GRAPH_CHAIN))?;
    Entry::GRAPH.expect(
        tables.len() <= MAX_ENTRIES,
        GRAPH_CHAIN,
        "has more than 262,144 entries",
    )?;
    let (mut calls, mut missing) = (Vec::new(), Vec::<&str>::new());
    for (index, table) in tables.iter().enumerate() {
        let at = Entry::node(index);
        let table = at.read(table)?;
        let name = at.read(table.name(CALL_NAME))?;
        let name = at.read(CALL_NAME.required(name))?;
        let args = at.read(table.vector::<u32>(CALL_ARGS))?;
        let args = args.into_iter().flatten().map(|id| at.read(CALL_ARGS.index(id, count)));
        let args = args.map(|id| id.map(|id| id as usize)).collect::<Result<Vec<_>, Error>>()?;
        let Some(operator) = op::find(name) else {
            if !missing.contains(&name) {
                missing.push(name);
                (source.missing_operator)(name);
            }
            continue;
        };
        if args.len() != operator.args {
            return Err(
                at.invalid(operator.name, "has another number of arguments than its schema")
            );
        }
        calls.push(Call { operator, index, args, epilogue: vec![], clamp: None });
    }
    if missing.is_empty() {
        return Ok(calls);
    }
    Err(Error::NotSupported { what: "operators that this backend does not implement" })
}

/// Gives linears with int8 inputs and weights floating-point results. The exporter declares int8 for
/// those without a bias.
fn fix_types(graph: &mut Graph<'_>) {
    let is_linear = |call: &&Call| call.operator.name == "et_vk.linear_q8ta_q8csw.default";
    for output in graph.calls.iter().filter(is_linear).filter_map(|call| call.args.last()) {
        if let Value::Tensor(spec) = &mut graph.values[*output]
            && spec.constant.is_none()
        {
            spec.datatype = DataType::F32;
        }
    }
}

/// Checks that lists hold no lists.
fn check_lists(graph: &Graph<'_>) -> Result<(), Error> {
    for (index, value) in graph.values.iter().enumerate() {
        let Value::List(items) = value else { continue };
        if items.iter().any(|item| matches!(graph.values[*item], Value::List(_))) {
            return Err(Entry::value(index).invalid("VkValue content", "is a list of lists"));
        }
    }
    Ok(())
}

/// Checks that inputs are distinct, and that outputs are tensors or SymInts.
fn check_arguments(graph: &Graph<'_>) -> Result<(), Error> {
    let mut seen = vec![false; graph.values.len()];
    for &input in &graph.inputs {
        let is_constant = graph.tensor(input).is_some_and(|spec| spec.constant.is_some());
        if graph.leaves(input) != [input] || is_constant {
            return Err(Entry::value(input).invalid(GRAPH_INPUTS.1, "is no tensor or SymInt"));
        }
        if std::mem::replace(&mut seen[input], true) {
            return Err(Entry::value(input).invalid(GRAPH_INPUTS.1, "is an input twice"));
        }
    }
    for &output in &graph.outputs {
        if graph.leaves(output) != [output] {
            return Err(Entry::value(output).invalid(GRAPH_OUTPUTS.1, "is no tensor or SymInt"));
        }
    }
    Ok(())
}

/// Checks that each value is written once and before it is read. Constants have a value from the
/// start.
fn check_order(graph: &Graph<'_>) -> Result<(), Error> {
    let constant =
        |value: &Value<'_>| matches!(value, Value::Tensor(spec) if spec.constant.is_some());
    let mut written: Vec<bool> = graph.values.iter().map(constant).collect();
    for &input in &graph.inputs {
        written[input] = true;
    }
    for call in &graph.calls {
        let (at, name) = (Entry::node(call.index), call.operator.name);
        let Some((output, inputs)) = call.args.split_last() else {
            return Err(at.invalid(name, "has no arguments"));
        };
        for leaf in inputs.iter().flat_map(|input| graph.leaves(*input)) {
            // A SymInt that no call writes keeps its value.
            if !written[leaf] && graph.tensor(leaf).is_some() {
                return Err(at.invalid(name, "reads a value that no earlier node writes"));
            }
        }
        for leaf in graph.leaves(*output) {
            if std::mem::replace(&mut written[leaf], true) {
                let reason = "writes a constant, an input, or a value that another node writes";
                return Err(at.invalid(name, reason));
            }
        }
    }
    if graph.outputs.iter().any(|output| !written[*output]) {
        return Err(invalid("no node writes one of its outputs"));
    }
    Ok(())
}

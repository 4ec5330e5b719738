//! Tests of all checks: changes one field of a valid file and compares the error message.

use crate::{ExternalData, Program, ProgramError, schema::*};
use afferent_flatbuffer::{Field, Table};

const EVERY_FIELD: &[u8] = include_bytes!("../tests/data/every_field.pte");
const ADD: &[u8] = include_bytes!("../tests/data/add.pte");
const CONSTANT_BUFFER: &[u8] = include_bytes!("../tests/data/constant_buffer.pte");
const INLINE_BLOB: &[u8] = include_bytes!("../tests/data/xnnpack_inline.pte");
const EXTERNAL: &[u8] = include_bytes!("../tests/data/external.ptd");

/// Step from a table to another table.
#[derive(Clone, Copy)]
enum Step {
    Child(Field),
    Entry(Field, usize),
}

/// Bytes to overwrite.
#[derive(Clone, Copy)]
enum Target {
    /// Inline data of the field.
    Field(Field),
    /// Element of the vector or string: field, index, element size in bytes.
    Element(Field, usize, usize),
    /// Length of the vector or string.
    Length(Field),
}

mod method;
mod values;

use Step::{Child, Entry};
use Target::{Element, Length};

fn field(field: Field) -> Target {
    Target::Field(field)
}

fn table<'a>(file: &'a [u8], path: &[Step]) -> Table<'a> {
    path.iter().fold(Table::root(file).unwrap(), |table, &step| match step {
        Child(field) => table.table(field).unwrap().unwrap(),
        Entry(field, index) => table.tables(field).unwrap().unwrap().get(index).unwrap(),
    })
}

fn position(file: &[u8], path: &[Step], target: Target) -> usize {
    let table = table(file, path);
    match target {
        Target::Field(field) => table.inline_bytes(field, 1).unwrap().unwrap().0,
        Element(field, index, width) => {
            table.vector_bytes(field, width).unwrap().unwrap().0 + index * width
        }
        Length(field) => table.vector_bytes(field, 0).unwrap().unwrap().0 - 4,
    }
}

fn parse(file: &[u8]) -> Result<(), ProgramError> {
    if file.get(4..6) == Some(b"FT") {
        ExternalData::parse(file).map(|_| ())
    } else {
        Program::parse(file).map(|_| ())
    }
}

/// Overwrites `target` of a valid `file` with `new` and expects `message`.
fn check<const N: usize>(file: &[u8], path: &[Step], target: Target, new: [u8; N], message: &str) {
    assert_eq!(parse(file), Ok(()), "unchanged");
    let at = position(file, path, target);
    let mut changed = file.to_vec();
    assert_ne!(changed[at..at + N], new, "no change: {message}");
    changed[at..at + N].copy_from_slice(&new);
    assert_eq!(parse(&changed).map_err(|error| error.to_string()), Err(message.to_owned()));
}

/// Removes `field` from a table of a valid `file` and expects `message`.
fn check_without(file: &[u8], path: &[Step], field: Field, message: &str) {
    assert_eq!(parse(file), Ok(()), "unchanged");
    let mut changed = file.to_vec();
    // Other tables may share the vtable. The table gets its own at the end of the flatbuffer.
    let table = table(file, path);
    let (at, mut vtable) = (table.offset(), table.vtable_bytes().collect::<Vec<_>>());
    vtable[4 + 2 * field.0..][..2].fill(0);
    let header = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let end = if file[8..12] == *b"eh00" { header(16) as usize } else { file.len() };
    changed.splice(end..end, vtable.iter().copied());
    if end < file.len() {
        for at in [16, 24] {
            let grown = header(at) + vtable.len() as u64;
            changed[at..at + 8].copy_from_slice(&grown.to_le_bytes());
        }
    }
    changed[at..at + 4].copy_from_slice(&le(at as i32 - end as i32));
    assert_eq!(parse(&changed).map_err(|error| error.to_string()), Err(message.to_owned()));
}

fn plan(steps: &[Step]) -> Vec<Step> {
    [&[Entry(PROGRAM_EXECUTION_PLAN, 0)], steps].concat()
}

fn value(index: usize) -> Vec<Step> {
    plan(&[Entry(PLAN_VALUES, index), Child(EVALUE_VAL)])
}

fn tensor(index: usize, field: Field) -> Vec<Step> {
    [value(index), vec![Child(field)]].concat()
}

fn instruction(index: usize) -> Vec<Step> {
    plan(&[Entry(PLAN_CHAINS, 0), Entry(CHAIN_INSTRUCTIONS, index), Child(INSTRUCTION_ARGS)])
}

const fn le(number: i32) -> [u8; 4] {
    number.to_le_bytes()
}

#[test]
fn wrong_file_identifiers() {
    let check = |bytes: &[u8], message: &str, code| {
        let error = Program::parse(bytes).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.code()), (message, code));
    };
    check(b"", "the file is truncated: it has 0 bytes, but needs 8", 0x23);
    check(
        b"\x89PNG\r\n\x1a\n",
        "not a .pte program: the file identifier is \"\\r\\n\\x1a\\n\", expected ET12",
        0x23,
    );
    check(
        b"....ET11",
        "a .pte program has the file identifier \"ET11\", but this runtime reads ET12; export \
         the model again",
        0x23,
    );
    check(
        b"....BP08",
        "this is a bundled program (.bpte, BP08); load the program that it contains",
        0x10,
    );
    let error = ExternalData::parse(EVERY_FIELD).unwrap_err();
    let message = "not a .ptd data file: the file identifier is \"ET12\", expected FT01";
    assert_eq!((error.to_string().as_str(), error.code()), (message, 0x24));
}

#[test]
fn headers() {
    let check = |file: &[u8], at: usize, new: u64, message: &str| {
        assert_eq!(parse(file), Ok(()));
        let mut changed = file.to_vec();
        changed[at..at + 8].copy_from_slice(&new.to_le_bytes());
        assert_eq!(parse(&changed).unwrap_err().to_string(), message);
    };
    let len = EVERY_FIELD.len() as u64;
    let truncated =
        |needed: u64| format!("the file is truncated: it has {len} bytes, but needs {needed}");
    check(EVERY_FIELD, 16, len + 1, &truncated(len + 1));
    check(EVERY_FIELD, 16, u64::MAX, &truncated(u64::MAX));
    check(EVERY_FIELD, 24, len + 16, &truncated(len + 16 + segment_bytes()));
    check(EVERY_FIELD, 24, 16, "segment base offset in the header points into the flatbuffer");
    check(EVERY_FIELD, 32, u64::MAX, "segment data size in the header overflows");
    check(
        EVERY_FIELD,
        8,
        u64::from_le_bytes(*b"eh00\x17\0\0\0"),
        "header length needs 24 bytes at offset 0, but only 23 bytes are available",
    );
    check(EVERY_FIELD, 32, 1, &segment_fault());
    check(EXTERNAL, 8, 0, "header does not start with FH01");
    check(EXTERNAL, 24, u64::MAX, "flatbuffer size in the header overflows");
    check(EVERY_FIELD, 0, u64::from_le_bytes(*b"\0\0\0\x7fET12"), ROOT);
}

const ROOT: &str = "root table at byte 0 points outside the file; the file is damaged";

fn segment_bytes() -> u64 {
    u64::from_le_bytes(EVERY_FIELD[32..40].try_into().unwrap())
}

fn segment_fault() -> String {
    "segment 0: DataSegment.size needs 24 bytes at offset 0, but only 1 bytes are available"
        .to_owned()
}

#[test]
fn program() {
    let check =
        |path: &[Step], target, new, message: &str| check(EVERY_FIELD, path, target, new, message);
    check(
        &[],
        field(PROGRAM_VERSION),
        le(1),
        "Program.version is not supported: a schema version other than 0; export the model again",
    );
    let total = segment_bytes();
    check(
        &[Entry(PROGRAM_SEGMENTS, 0)],
        field(DATA_SEGMENT_OFFSET),
        le(-1),
        &format!(
            "segment 0: DataSegment.size needs 24 bytes at offset 4294967295, but only {total} bytes are available"
        ),
    );
    check(
        &[Entry(PROGRAM_NAMED_DATA, 1)],
        field(NAMED_DATA_SEGMENT_INDEX),
        le(99),
        "entry 1: NamedData.segment_index is 99, out of range for 6 entries",
    );
    check(
        &[Entry(PROGRAM_NAMED_DATA, 1)],
        Length(NAMED_DATA_KEY),
        le(1025),
        "entry 1: NamedData.key has 1025 bytes, but a name may have at most 1024",
    );
    check(
        &[Entry(PROGRAM_NAMED_DATA, 1)],
        field(NAMED_DATA_KEY),
        le(i32::MAX),
        &out_of_bounds(
            "entry 1: NamedData.key",
            &[Entry(PROGRAM_NAMED_DATA, 1)],
            field(NAMED_DATA_KEY),
        ),
    );
    check_without(EVERY_FIELD, &[], PROGRAM_EXECUTION_PLAN, "Program.execution_plan is missing");
    let entry = [Entry(PROGRAM_NAMED_DATA, 0)];
    check_without(EVERY_FIELD, &entry, NAMED_DATA_KEY, "entry 0: NamedData.key is missing");
    let path = [Child(PROGRAM_CONSTANT_SEGMENT)];
    check(
        &path,
        field(SUBSEGMENT_INDEX),
        le(6),
        "method 0, value 1: SubsegmentOffsets.segment_index is 6, out of range for 6 entries",
    );
}

#[test]
fn constants() {
    // Point the absent vector of inline constants to another vector, whose length is not 0.
    let position = position(EVERY_FIELD, &[], Target::Field(PROGRAM_CONSTANT_BUFFER));
    let target = position_of_vector(EVERY_FIELD, PROGRAM_NAMED_DATA) - position;
    let target = i32::try_from(target).unwrap();
    check(
        EVERY_FIELD,
        &[],
        field(PROGRAM_CONSTANT_BUFFER),
        le(target),
        "Program.constant_buffer and Program.constant_segment both contain constants; only one of \
         them may",
    );
    check(
        CONSTANT_BUFFER,
        &[Entry(PROGRAM_CONSTANT_BUFFER, 1)],
        Length(BUFFER_STORAGE),
        le(95),
        "method 0, value 0: Buffer.storage needs 96 bytes at offset 0, but only 95 bytes are available",
    );
    check(
        CONSTANT_BUFFER,
        &[],
        Length(PROGRAM_CONSTANT_BUFFER),
        le(4),
        "method 0, value 3: Tensor.data_buffer_idx is 4, out of range for 4 entries",
    );
}

#[test]
fn external_data() {
    let check = |target, new: [u8; 4], message: &str| {
        check(EXTERNAL, &[Entry(FLAT_TENSOR_NAMED_DATA, 0)], target, new, message);
    };
    let key = Element(NAMED_DATA_KEY, 0, 1);
    check(key, [0xff; 4], "entry 0: NamedData.key is not valid UTF-8");
    let layout = [Entry(FLAT_TENSOR_NAMED_DATA, 0), Child(NAMED_DATA_TENSOR_LAYOUT)];
    let check = |target, new: [u8; 4], message: &str| {
        super::invalid_files::check(EXTERNAL, &layout, target, new, message);
    };
    check(Element(LAYOUT_SIZES, 0, 4), le(-6), "entry 0: TensorLayout.sizes is negative");
    check(
        Element(LAYOUT_SIZES, 0, 4),
        le(7),
        "entry 0: DataSegment.size needs 112 bytes at offset 0, but only 96 bytes are available",
    );
    let error = ExternalData::parse(&EXTERNAL[..EXTERNAL.len() - 1]).unwrap_err();
    assert_eq!(
        (error.to_string().starts_with("the file is truncated"), error.code()),
        (true, 0x24)
    );
}

#[test]
fn error_code_of_an_entry_depends_on_the_file() {
    for (file, list, code) in
        [(EVERY_FIELD, PROGRAM_NAMED_DATA, 0x23), (EXTERNAL, FLAT_TENSOR_NAMED_DATA, 0x24)]
    {
        let at = position(file, &[Entry(list, 0)], Element(NAMED_DATA_KEY, 0, 1));
        let mut changed = file.to_vec();
        changed[at] = 0xff;
        assert_eq!(parse(&changed).map_err(|error| error.code()), Err(code));
    }
}

/// Offset of a vector of the root table.
fn position_of_vector(file: &[u8], field: Field) -> usize {
    position(file, &[], Length(field))
}

fn out_of_bounds(name: &str, path: &[Step], target: Target) -> String {
    let at = position(EVERY_FIELD, path, target);
    format!("{name} at byte {at} points outside the file; the file is damaged")
}

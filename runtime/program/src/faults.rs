//! Every check: a file that is accepted, one field of it changed, and the message that follows.

use crate::{ExternalData, Program, ProgramError, schema::*};
use afferent_flatbuffer::{Field, Table};

const EVERY_FIELD: &[u8] = include_bytes!("../tests/data/every_field.pte");
const ADD: &[u8] = include_bytes!("../tests/data/add.pte");
const CONSTANT_BUFFER: &[u8] = include_bytes!("../tests/data/constant_buffer.pte");
const INLINE_BLOB: &[u8] = include_bytes!("../tests/data/xnnpack_inline.pte");
const EXTERNAL: &[u8] = include_bytes!("../tests/data/external.ptd");

/// From a table to another one.
#[derive(Clone, Copy)]
enum Step {
    To(Field),
    Entry(Field, usize),
}

/// What is overwritten.
#[derive(Clone, Copy)]
enum Spot {
    /// The field itself.
    Field(Field),
    /// An element, of so many bytes, of the vector or string.
    Item(Field, usize, usize),
    /// The length of the vector or string.
    Len(Field),
}

mod method;
mod values;

use Spot::{Item, Len};
use Step::{Entry, To};

fn field(field: Field) -> Spot {
    Spot::Field(field)
}

fn table<'a>(file: &'a [u8], path: &[Step]) -> Table<'a> {
    path.iter().fold(Table::root(file).unwrap(), |table, &step| match step {
        To(field) => table.table(field).unwrap().unwrap(),
        Entry(field, index) => table.tables(field).unwrap().unwrap().get(index).unwrap(),
    })
}

fn position(file: &[u8], path: &[Step], spot: Spot) -> usize {
    let table = table(file, path);
    match spot {
        Spot::Field(field) => table.fixed(field, 1).unwrap().unwrap().0,
        Item(field, index, width) => table.vector(field, width).unwrap().unwrap().0 + index * width,
        Len(field) => table.vector(field, 0).unwrap().unwrap().0 - 4,
    }
}

fn parse(file: &[u8]) -> Result<(), ProgramError> {
    if file.get(4..6) == Some(b"FT") {
        ExternalData::parse(file).map(|_| ())
    } else {
        Program::parse(file).map(|_| ())
    }
}

/// Writes `new` at the spot of an accepted `file`, and expects this `message`.
fn check<const N: usize>(file: &[u8], path: &[Step], spot: Spot, new: [u8; N], message: &str) {
    assert_eq!(parse(file), Ok(()), "unchanged");
    let at = position(file, path, spot);
    let mut changed = file.to_vec();
    assert_ne!(changed[at..at + N], new, "no change: {message}");
    changed[at..at + N].copy_from_slice(&new);
    assert_eq!(parse(&changed).map_err(|error| error.to_string()), Err(message.to_owned()));
}

/// Takes the field out of a table of an accepted `file`, and expects this `message`.
fn without(file: &[u8], path: &[Step], field: Field, message: &str) {
    assert_eq!(parse(file), Ok(()), "unchanged");
    let mut changed = file.to_vec();
    // Other tables share the vtable, so this one gets its own at the end of the flatbuffer.
    let table = table(file, path);
    let (at, mut vtable) = (table.start(), table.vtable().collect::<Vec<_>>());
    vtable[4 + 2 * field.0..][..2].fill(0);
    let header = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let end = if file[8..12] == *b"eh00" { header(16) as usize } else { file.len() };
    changed.splice(end..end, vtable.iter().copied());
    if end < file.len() {
        for place in [16, 24] {
            let grown = header(place) + vtable.len() as u64;
            changed[place..place + 8].copy_from_slice(&grown.to_le_bytes());
        }
    }
    changed[at..at + 4].copy_from_slice(&le(at as i32 - end as i32));
    assert_eq!(parse(&changed).map_err(|error| error.to_string()), Err(message.to_owned()));
}

fn plan(steps: &[Step]) -> Vec<Step> {
    [&[Entry(PROGRAM_EXECUTION_PLAN, 0)], steps].concat()
}

fn value(index: usize) -> Vec<Step> {
    plan(&[Entry(PLAN_VALUES, index), To(EVALUE_VAL)])
}

fn tensor(index: usize, field: Field) -> Vec<Step> {
    [value(index), vec![To(field)]].concat()
}

fn instruction(index: usize) -> Vec<Step> {
    plan(&[Entry(PLAN_CHAINS, 0), Entry(CHAIN_INSTRUCTIONS, index), To(INSTRUCTION_ARGS)])
}

const fn le(number: i32) -> [u8; 4] {
    number.to_le_bytes()
}

#[test]
fn files_of_another_kind() {
    let check = |bytes: &[u8], message: &str, code| {
        let error = Program::parse(bytes).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.code()), (message, code));
    };
    check(b"", "the file is cut off: it has 0 bytes and needs 8", 0x23);
    check(
        b"\x89PNG\r\n\x1a\n",
        "not a .pte program: bytes 4..8 are \"\\r\\n\\x1a\\n\" instead of ET12",
        0x23,
    );
    check(
        b"....ET11",
        "a .pte program has the format version \"ET11\", this runtime reads ET12: export the \
         model again",
        0x23,
    );
    check(
        b"....BP08",
        "this is a bundled program (.bpte, BP08): the program is inside of it",
        0x10,
    );
    let error = ExternalData::parse(EVERY_FIELD).unwrap_err();
    let message = "not a .ptd data file: bytes 4..8 are \"ET12\" instead of FT01";
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
    let cut = |needed: u64| format!("the file is cut off: it has {len} bytes and needs {needed}");
    check(EVERY_FIELD, 16, len + 1, &cut(len + 1));
    check(EVERY_FIELD, 16, u64::MAX, &cut(u64::MAX));
    check(EVERY_FIELD, 24, len + 16, &cut(len + 16 + segment_bytes()));
    check(EVERY_FIELD, 24, 16, "segment base offset in the header lies inside of the flatbuffer");
    check(EVERY_FIELD, 32, u64::MAX, "segment data size in the header overflows");
    check(
        EVERY_FIELD,
        8,
        u64::from_le_bytes(*b"eh00\x17\0\0\0"),
        "header length needs 24 bytes from byte 0 on, but there are 23",
    );
    check(EVERY_FIELD, 32, 1, &segment_fault());
    check(EXTERNAL, 8, 0, "header does not start with FH01");
    check(EXTERNAL, 24, u64::MAX, "size of the flatbuffer in the header overflows");
    check(EVERY_FIELD, 0, u64::from_le_bytes(*b"\0\0\0\x7fET12"), ROOT);
}

const ROOT: &str = "root table at byte 0 does not lie within the file; the file is damaged";

fn segment_bytes() -> u64 {
    u64::from_le_bytes(EVERY_FIELD[32..40].try_into().unwrap())
}

fn segment_fault() -> String {
    "segment 0: DataSegment.size needs 24 bytes from byte 0 on, but there are 1".to_owned()
}

#[test]
fn the_program() {
    let check =
        |path: &[Step], spot, new, message: &str| check(EVERY_FIELD, path, spot, new, message);
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
            "segment 0: DataSegment.size needs 24 bytes from byte 4294967295 on, but there are {total}"
        ),
    );
    check(
        &[Entry(PROGRAM_NAMED_DATA, 1)],
        field(NAMED_DATA_SEGMENT_INDEX),
        le(99),
        "entry 1: NamedData.segment_index is 99, but there are 6 entries",
    );
    check(
        &[Entry(PROGRAM_NAMED_DATA, 1)],
        Len(NAMED_DATA_KEY),
        le(1025),
        "entry 1: NamedData.key is a name of 1025 bytes; 1024 are the most",
    );
    check(
        &[Entry(PROGRAM_NAMED_DATA, 1)],
        field(NAMED_DATA_KEY),
        le(i32::MAX),
        &out_of_file(
            "entry 1: NamedData.key",
            &[Entry(PROGRAM_NAMED_DATA, 1)],
            field(NAMED_DATA_KEY),
        ),
    );
    without(EVERY_FIELD, &[], PROGRAM_EXECUTION_PLAN, "Program.execution_plan is missing");
    let entry = [Entry(PROGRAM_NAMED_DATA, 0)];
    without(EVERY_FIELD, &entry, NAMED_DATA_KEY, "entry 0: NamedData.key is missing");
    let path = [To(PROGRAM_CONSTANT_SEGMENT)];
    check(
        &path,
        field(SUBSEGMENT_INDEX),
        le(6),
        "method 0, value 1: SubsegmentOffsets.segment_index is 6, but there are 6 entries",
    );
}

#[test]
fn constants_of_two_kinds() {
    // The reserved entry of the inline constants takes the place of the absent vector.
    let position = position(EVERY_FIELD, &[], Spot::Field(PROGRAM_CONSTANT_BUFFER));
    let target = position_of_vector(EVERY_FIELD, PROGRAM_NAMED_DATA) - position;
    let target = i32::try_from(target).unwrap();
    check(
        EVERY_FIELD,
        &[],
        field(PROGRAM_CONSTANT_BUFFER),
        le(target),
        "Program.constant_buffer and Program.constant_segment hold constants; only one of them may",
    );
    check(
        CONSTANT_BUFFER,
        &[Entry(PROGRAM_CONSTANT_BUFFER, 1)],
        Len(BUFFER_STORAGE),
        le(95),
        "method 0, value 0: Buffer.storage needs 96 bytes from byte 0 on, but there are 95",
    );
    check(
        CONSTANT_BUFFER,
        &[],
        Len(PROGRAM_CONSTANT_BUFFER),
        le(4),
        "method 0, value 3: Tensor.data_buffer_idx is 4, but there are 4 entries",
    );
}

#[test]
fn external_data() {
    let check = |spot, new: [u8; 4], message: &str| {
        check(EXTERNAL, &[Entry(FLAT_TENSOR_NAMED_DATA, 0)], spot, new, message);
    };
    let key = Item(NAMED_DATA_KEY, 0, 1);
    check(key, [0xff; 4], "entry 0: NamedData.key is not UTF-8");
    let layout = [Entry(FLAT_TENSOR_NAMED_DATA, 0), To(NAMED_DATA_TENSOR_LAYOUT)];
    let check = |spot, new: [u8; 4], message: &str| {
        super::faults::check(EXTERNAL, &layout, spot, new, message);
    };
    check(Item(LAYOUT_SIZES, 0, 4), le(-6), "entry 0: TensorLayout.sizes is negative");
    check(
        Item(LAYOUT_SIZES, 0, 4),
        le(7),
        "entry 0: DataSegment.size needs 112 bytes from byte 0 on, but there are 96",
    );
    let error = ExternalData::parse(&EXTERNAL[..EXTERNAL.len() - 1]).unwrap_err();
    assert_eq!((error.to_string().starts_with("the file is cut off"), error.code()), (true, 0x24));
}

#[test]
fn an_entry_has_the_error_number_of_its_file() {
    for (file, list, code) in
        [(EVERY_FIELD, PROGRAM_NAMED_DATA, 0x23), (EXTERNAL, FLAT_TENSOR_NAMED_DATA, 0x24)]
    {
        let at = position(file, &[Entry(list, 0)], Item(NAMED_DATA_KEY, 0, 1));
        let mut changed = file.to_vec();
        changed[at] = 0xff;
        assert_eq!(parse(&changed).map_err(|error| error.code()), Err(code));
    }
}

/// Where a vector of the root table starts.
fn position_of_vector(file: &[u8], field: Field) -> usize {
    position(file, &[], Len(field))
}

fn out_of_file(name: &str, path: &[Step], spot: Spot) -> String {
    let at = position(EVERY_FIELD, path, spot);
    format!("{name} at byte {at} does not lie within the file; the file is damaged")
}

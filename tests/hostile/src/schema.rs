//! Tables of `.pte`, `.ptd` and `.bpte` files, as data.
//!
//! Source: ExecuTorch `program.fbs`, `flat_tensor.fbs` and `bundled_program_schema.fbs`.

use Kind::{Bytes, Number, Numbers, Table, Tables, Text, Union};

/// Type of a table.
#[derive(Debug)]
pub struct TableType {
    /// Fields in the order of the schema, without those that the parser ignores.
    pub fields: &'static [Field],
}

/// A field of a table.
#[derive(Debug)]
pub struct Field {
    /// Slot in the vtable.
    pub slot: usize,
    /// Name in the schema.
    pub name: &'static str,
    /// Type of the field.
    pub kind: Kind,
}

/// Type of a field.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Number, with its size in bytes.
    Number(usize),
    /// Vector of numbers, with their size in bytes.
    Numbers(usize),
    /// String.
    Text,
    /// Vector of bytes.
    Bytes,
    /// Vector of bytes that contains a program.
    Program,
    /// Table.
    Table(&'static TableType),
    /// Vector of tables.
    Tables(&'static TableType),
    /// One of several tables. Its type, counted from 1, is in the previous slot.
    Union(&'static [&'static TableType]),
}

const fn f(slot: usize, name: &'static str, kind: Kind) -> Field {
    Field { slot, name, kind }
}

/// Root table of a `.pte` file.
pub static PROGRAM: TableType = TableType {
    fields: &[
        f(0, "version", Number(4)),
        f(1, "execution_plan", Tables(&EXECUTION_PLAN)),
        f(2, "constant_buffer", Tables(&BUFFER)),
        f(3, "backend_delegate_data", Tables(&BUFFER)),
        f(4, "segments", Tables(&DATA_SEGMENT)),
        f(5, "constant_segment", Table(&SUBSEGMENT_OFFSETS)),
        f(6, "mutable_data_segments", Tables(&SUBSEGMENT_OFFSETS)),
        f(7, "named_data", Tables(&NAMED_DATA)),
    ],
};

/// Root table of a `.ptd` file.
pub static FLAT_TENSOR: TableType = TableType {
    fields: &[
        f(0, "version", Number(4)),
        f(1, "segments", Tables(&DATA_SEGMENT)),
        f(2, "named_data", Tables(&NAMED_DATA)),
    ],
};

/// Root table of a `.bpte` file.
pub static BUNDLED_PROGRAM: TableType = TableType {
    fields: &[
        f(0, "version", Number(4)),
        f(1, "method_test_suites", Tables(&TEST_SUITE)),
        f(2, "program", Kind::Program),
    ],
};

static TEST_SUITE: TableType =
    TableType { fields: &[f(0, "method_name", Text), f(1, "test_cases", Tables(&TEST_CASE))] };

static TEST_CASE: TableType = TableType {
    fields: &[
        f(0, "inputs", Tables(&BUNDLED_VALUE)),
        f(1, "expected_outputs", Tables(&BUNDLED_VALUE)),
    ],
};

static BUNDLED_VALUE: TableType = TableType {
    fields: &[f(1, "val", Union(&[&BUNDLED_TENSOR, &NUMBER_8, &NUMBER_1, &NUMBER_8]))],
};

static BUNDLED_TENSOR: TableType = TableType {
    fields: &[
        f(0, "scalar_type", Number(1)),
        f(1, "sizes", Numbers(4)),
        f(2, "data", Bytes),
        f(3, "dim_order", Bytes),
    ],
};

static EXECUTION_PLAN: TableType = TableType {
    fields: &[
        f(0, "name", Text),
        f(1, "container_meta_type", Table(&CONTAINER_METADATA)),
        f(2, "values", Tables(&EVALUE)),
        f(3, "inputs", Numbers(4)),
        f(4, "outputs", Numbers(4)),
        f(5, "chains", Tables(&CHAIN)),
        f(6, "operators", Tables(&OPERATOR)),
        f(7, "delegates", Tables(&BACKEND_DELEGATE)),
        f(8, "non_const_buffer_sizes", Numbers(8)),
        f(9, "non_const_buffer_device", Tables(&BUFFER_DEVICE)),
    ],
};

static CONTAINER_METADATA: TableType =
    TableType { fields: &[f(0, "encoded_inp_str", Text), f(1, "encoded_out_str", Text)] };

static EVALUE: TableType = TableType {
    fields: &[f(
        1,
        "val",
        Union(&[
            &NULL, &NUMBER_8, &NUMBER_1, &NUMBER_8, &TENSOR, &STRING, &ITEMS_8, &ITEMS_8, &ITEMS_1,
            &ITEMS_4, &ITEMS_4,
        ]),
    )],
};

static NULL: TableType = TableType { fields: &[] };
static NUMBER_8: TableType = TableType { fields: &[f(0, "value", Number(8))] };
static NUMBER_1: TableType = TableType { fields: &[f(0, "value", Number(1))] };
static STRING: TableType = TableType { fields: &[f(0, "string_val", Text)] };
static ITEMS_8: TableType = TableType { fields: &[f(0, "items", Numbers(8))] };
static ITEMS_4: TableType = TableType { fields: &[f(0, "items", Numbers(4))] };
static ITEMS_1: TableType = TableType { fields: &[f(0, "items", Numbers(1))] };

static TENSOR: TableType = TableType {
    fields: &[
        f(0, "scalar_type", Number(1)),
        f(1, "storage_offset", Number(4)),
        f(2, "sizes", Numbers(4)),
        f(3, "dim_order", Bytes),
        f(5, "data_buffer_idx", Number(4)),
        f(6, "allocation_info", Table(&ALLOCATION_DETAILS)),
        f(8, "shape_dynamism", Number(1)),
        f(9, "extra_tensor_info", Table(&EXTRA_TENSOR_INFO)),
    ],
};

static ALLOCATION_DETAILS: TableType = TableType {
    fields: &[
        f(0, "memory_id", Number(4)),
        f(1, "memory_offset_low", Number(4)),
        f(2, "memory_offset_high", Number(4)),
    ],
};

static EXTRA_TENSOR_INFO: TableType = TableType {
    fields: &[
        f(0, "mutable_data_segments_idx", Number(8)),
        f(1, "fully_qualified_name", Text),
        f(2, "location", Number(1)),
        f(3, "device_type", Number(1)),
    ],
};

static CHAIN: TableType = TableType { fields: &[f(2, "instructions", Tables(&INSTRUCTION))] };

static INSTRUCTION: TableType = TableType {
    fields: &[f(1, "instr_args", Union(&[&CALL, &CALL, &TWO_NUMBERS, &TWO_NUMBERS, &ONE_NUMBER]))],
};

static CALL: TableType =
    TableType { fields: &[f(0, "index", Number(4)), f(1, "args", Numbers(4))] };
static TWO_NUMBERS: TableType =
    TableType { fields: &[f(0, "first", Number(4)), f(1, "second", Number(4))] };
static ONE_NUMBER: TableType = TableType { fields: &[f(0, "value_index", Number(4))] };

static OPERATOR: TableType = TableType { fields: &[f(0, "name", Text), f(1, "overload", Text)] };

static BACKEND_DELEGATE: TableType = TableType {
    fields: &[
        f(0, "id", Text),
        f(1, "processed", Table(&DATA_REFERENCE)),
        f(2, "compile_specs", Tables(&COMPILE_SPEC)),
    ],
};

static DATA_REFERENCE: TableType =
    TableType { fields: &[f(0, "location", Number(1)), f(1, "index", Number(4))] };
static COMPILE_SPEC: TableType = TableType { fields: &[f(0, "key", Text), f(1, "value", Bytes)] };

static BUFFER_DEVICE: TableType = TableType {
    fields: &[
        f(0, "buffer_idx", Number(4)),
        f(1, "device_type", Number(1)),
        f(2, "device_index", Number(1)),
    ],
};

static BUFFER: TableType = TableType { fields: &[f(0, "storage", Bytes)] };

static DATA_SEGMENT: TableType =
    TableType { fields: &[f(0, "offset", Number(8)), f(1, "size", Number(8))] };

static SUBSEGMENT_OFFSETS: TableType =
    TableType { fields: &[f(0, "segment_index", Number(4)), f(1, "offsets", Numbers(8))] };

static NAMED_DATA: TableType = TableType {
    fields: &[
        f(0, "key", Text),
        f(1, "segment_index", Number(4)),
        f(2, "tensor_layout", Table(&TENSOR_LAYOUT)),
    ],
};

static TENSOR_LAYOUT: TableType = TableType {
    fields: &[f(0, "scalar_type", Number(1)), f(1, "sizes", Numbers(4)), f(2, "dim_order", Bytes)],
};

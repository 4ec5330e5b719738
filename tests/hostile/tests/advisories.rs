//! Published vulnerabilities of the official loader. Each test edits a valid file, asserts that the
//! edit reproduces the vulnerability, and expects an error that names the location.
//!
//! Sources: the advisories CVE-2025-30402, -30404, -30405, -54949, -54950, -54951 and -54952, and
//! fixes in the ExecuTorch repository that followed audits. The comments describe the official
//! runtime before its fix. Vulnerabilities that appear only at load or at run time (overlapping
//! planned memory, arguments of delegates, dim orders of inputs) are in `execution.rs`. The tests
//! of a backend cover its blob.

use afferent_runtime::{
    ModelFile,
    program::{BundledProgram, ExternalData, Program, Value},
};
use afferent_tests_hostile::{
    edit::Edit,
    schema::{BUNDLED_PROGRAM, FLAT_TENSOR, PROGRAM},
    seeds::seeds,
};

const EVERY_FIELD: &[u8] = include_bytes!("../../../runtime/program/tests/data/every_field.pte");
const INLINE_BLOB: &[u8] = include_bytes!("../../../runtime/program/tests/data/xnnpack_inline.pte");
const EXTERNAL: &[u8] = include_bytes!("../../../runtime/program/tests/data/external.ptd");

/// Valid program to edit.
fn valid() -> Edit {
    assert!(Program::parse(EVERY_FIELD).is_ok());
    Edit::new(EVERY_FIELD, &PROGRAM)
}

/// Asserts that the program is rejected with `message`.
#[track_caller]
fn expect_error(file: &Edit, message: &str) {
    let result = ModelFile::from_bytes("hostile.pte", file.bytes()).map(|_| ());
    let error = result.expect_err("the parser rejects the file");
    assert_eq!(error.to_string(), format!("hostile.pte: {message}"));
    assert!(error.code() > 0);
}

/// The items of an integer list are value indices. They were used without a bounds check, past the
/// end of the heap block.
#[test]
fn cve_2025_30402_list_items_past_the_values() {
    let mut file = valid();
    let items = "execution_plan[0].values[13].val.items[0]";
    assert_eq!((file.get(items), file.get("execution_plan[0].values#")), (9, 18));
    file.set(items, 10_000);
    assert_eq!(file.get(items), 10_000);
    expect_error(&file, "method 0, value 13: IntList.items is 10000, out of range for 18 entries");
    file.set(items, -7);
    expect_error(&file, "method 0, value 13: IntList.items is -7, out of range for 18 entries");
}

/// Inputs and outputs are value indices, too.
#[test]
fn cve_2025_54949_inputs_past_the_values() {
    let mut file = valid();
    file.set("execution_plan[0].inputs[0]", 1 << 20);
    assert!(file.get("execution_plan[0].inputs[0]") > file.get("execution_plan[0].values#"));
    expect_error(&file, "method 0: ExecutionPlan.inputs is 1048576, out of range for 18 entries");
    let mut file = valid();
    file.set("execution_plan[0].outputs[1]", 18);
    expect_error(&file, "method 0: ExecutionPlan.outputs is 18, out of range for 18 entries");
}

/// The number of elements of a tensor overflowed, and its memory was too small.
#[test]
fn cve_2025_30404_sizes_whose_product_overflows() {
    const TENSOR: &str = "execution_plan[0].values[0].val";
    let mut file = valid();
    let sizes = [1 << 30, 1 << 30, 1 << 4];
    file.set_items(&format!("{TENSOR}.sizes"), &sizes);
    file.set_items(&format!("{TENSOR}.dim_order"), &[0, 1, 2]);
    let read: Vec<u64> = (0..3).map(|at| file.get(&format!("{TENSOR}.sizes[{at}]"))).collect();
    let product = read.iter().fold(1_u64, |product, &size| product.wrapping_mul(size));
    assert_eq!((read.len(), product), (3, 0), "the 64-bit product is 0");
    expect_error(&file, "method 0, value 0: Tensor.sizes exceeds the address space");
}

/// Offset plus size of a planned tensor overflowed.
#[test]
fn cve_2025_30405_planned_memory_that_wraps() {
    const ALLOCATION: &str = "execution_plan[0].values[0].val.allocation_info";
    let mut file = valid();
    file.set(&format!("{ALLOCATION}.memory_offset_low"), -8);
    file.set(&format!("{ALLOCATION}.memory_offset_high"), -1);
    let low = file.get(&format!("{ALLOCATION}.memory_offset_low"));
    let offset = file.get(&format!("{ALLOCATION}.memory_offset_high")) << 32 | low;
    let size = file.get("execution_plan[0].non_const_buffer_sizes[1]");
    assert!(offset.wrapping_add(24) <= size, "the wrapped end is within the buffer");
    let start = u64::MAX - 7;
    expect_error(
        &file,
        &format!(
            "method 0, value 0: AllocationDetails.memory_offset_low needs 24 bytes at offset \
             {start}, but only 32 bytes are available"
        ),
    );
}

/// A jump destination and an operator index were out of range.
#[test]
fn cve_2025_54950_instructions_past_the_end() {
    let chain = "execution_plan[0].chains[0].instructions";
    let mut file = valid();
    let destination = format!("{chain}[1].instr_args.second");
    assert_eq!((file.get(&destination), file.get(&format!("{chain}#"))), (3, 6));
    file.set(&destination, 1_000_000);
    let message = "JumpFalseCall.destination_instruction is 1000000, out of range for 7 entries";
    expect_error(&file, &format!("method 0, instruction 1: {message}"));
    let mut file = valid();
    file.set(&format!("{chain}[0].instr_args.index"), -1);
    expect_error(
        &file,
        "method 0, instruction 0: KernelCall.op_index is -1, out of range for 1 entries",
    );
    let mut file = valid();
    file.set(&format!("{chain}[0].instr_args.args[2]"), 1 << 24);
    expect_error(
        &file,
        "method 0, instruction 0: KernelCall.args is 16777216, out of range for 18 entries",
    );
}

/// Several buffers were read past their end: dim orders shorter than the sizes, dimensions out of
/// range, constants beyond their segment.
#[test]
fn cve_2025_54951_buffers_shorter_than_what_is_read() {
    const TENSOR: &str = "execution_plan[0].values[0].val";
    let order = "method 0, value 0: Tensor.dim_order is not a permutation of the dimensions";
    let mut file = valid();
    file.set_items(&format!("{TENSOR}.dim_order"), &[0]);
    let lengths = ["sizes#", "dim_order#"].map(|length| file.get(&format!("{TENSOR}.{length}")));
    assert_eq!(lengths, [2, 1]);
    expect_error(&file, order);
    let mut file = valid();
    file.set(&format!("{TENSOR}.dim_order[1]"), 200);
    expect_error(&file, order);

    let mut file = valid();
    file.set("constant_segment.offsets[1]", 1 << 40);
    let size = file.get("segments[0].size").max(file.get("segments[1].size"));
    assert!(file.get("constant_segment.offsets[1]") > size);
    let error = Program::parse(file.bytes()).unwrap_err().to_string();
    assert!(error.contains("SubsegmentOffsets.offsets needs 24 bytes at offset 1099511627776"));
    let mut file = valid();
    file.set("execution_plan[0].values[1].val.data_buffer_idx", 77);
    let error = Program::parse(file.bytes()).unwrap_err().to_string();
    assert!(error.contains("Tensor.data_buffer_idx is 77, out of range for 2 entries"), "{error}");
}

/// A planned buffer was smaller than its tensors.
#[test]
fn cve_2025_54952_planned_memory_that_is_too_small() {
    let mut file = valid();
    let size = "execution_plan[0].non_const_buffer_sizes[1]";
    assert_eq!(file.get(size), 32);
    file.set(size, 31);
    let allocation = "execution_plan[0].values[0].val.allocation_info";
    let end = file.get(&format!("{allocation}.memory_offset_low")) + 2 * 3 * 4;
    assert!(end > file.get(size), "the tensor exceeds its buffer");
    let message = "AllocationDetails.memory_offset_low needs 24 bytes at offset 8, but only";
    expect_error(&file, &format!("method 0, value 0: {message} 31 bytes are available"));
    file.set(size, i64::MIN);
    expect_error(&file, "method 0: ExecutionPlan.non_const_buffer_sizes is negative");
}

/// Optional fields that exporters always write were dereferenced as null pointers.
#[test]
fn absent_fields_that_an_exporter_always_writes() {
    let mut file = valid();
    file.remove("execution_plan[0].container_meta_type");
    assert!(!file.has("execution_plan[0].container_meta_type"));
    let program = Program::parse(file.bytes()).unwrap();
    assert_eq!(program.method("forward").unwrap().encoded_out_str(), None);

    let mut file = valid();
    let text = "execution_plan[0].container_meta_type.encoded_out_str";
    file.remove(text);
    assert!(!file.has(text));
    let program = Program::parse(file.bytes()).unwrap();
    let plan = program.method("forward").unwrap();
    assert_eq!((plan.encoded_inp_str(), plan.encoded_out_str()), (Some("in"), None));

    let spec = "execution_plan[0].delegates[0].compile_specs[0]";
    let mut file = valid();
    file.remove(&format!("{spec}.key"));
    assert!(!file.has(&format!("{spec}.key")));
    expect_error(&file, "method 0, delegate 0: CompileSpec.key is missing");
    let mut file = valid();
    file.remove(&format!("{spec}.value"));
    assert!(!file.has(&format!("{spec}.value")));
    let program = Program::parse(file.bytes()).unwrap();
    let delegate = program.method("forward").unwrap().delegate(0).unwrap();
    assert_eq!(delegate.compile_spec(0).unwrap().value, b"");

    let mut file = Edit::new(INLINE_BLOB, &PROGRAM);
    assert!(file.get("backend_delegate_data#") > 0);
    file.remove("backend_delegate_data");
    assert!(!file.has("backend_delegate_data"));
    let message = "BackendDelegateDataReference.index is 0, out of range for 0 entries";
    expect_error(&file, &format!("method 0, delegate 0: {message}"));
}

/// Absent required tables were dereferenced as null pointers.
#[test]
fn absent_tables() {
    for (path, message) in [
        ("execution_plan", "Program.execution_plan is missing"),
        ("execution_plan[0].values", "method 0: ExecutionPlan.values is missing"),
        ("execution_plan[0].chains", "method 0: ExecutionPlan.chains is missing"),
        ("execution_plan[0].name", "method 0: ExecutionPlan.name is missing"),
        ("execution_plan[0].operators[0].name", "method 0, operator 0: Operator.name is missing"),
        ("execution_plan[0].values[0].val.sizes", "method 0, value 0: Tensor.sizes is missing"),
    ] {
        let mut file = valid();
        file.remove(path);
        assert!(!file.has(path));
        expect_error(&file, message);
    }
}

/// A free instruction of a number treated the number as a tensor.
#[test]
fn free_call_on_a_number() {
    let mut file = valid();
    let value = "execution_plan[0].chains[0].instructions[5].instr_args.value_index";
    assert_eq!(file.get(value), 7);
    file.set(value, 9);
    let program = Program::parse(EVERY_FIELD).unwrap();
    assert_eq!(program.method("forward").unwrap().value(9), Value::Int(7));
    let message = "FreeCall.value_index refers to value 9, which is not a tensor";
    expect_error(&file, &format!("method 0, instruction 5: {message}"));
}

/// Segment base plus segment offset overflowed.
#[test]
fn segment_offsets_that_wrap() {
    let mut file = valid();
    let base = u64::from_le_bytes(file.bytes()[24..32].try_into().unwrap());
    file.set("segments[0].offset", -(base as i64));
    let offset = file.get("segments[0].offset");
    assert_eq!(base.wrapping_add(offset), 0, "the sum wraps to the start of the file");
    let (size, total) = (file.get("segments[0].size"), segments(&file));
    let message =
        format!("needs {size} bytes at offset {offset}, but only {total} bytes are available");
    expect_error(&file, &format!("segment 0: DataSegment.size {message}"));

    let mut file = valid();
    file.set_header(24, u64::MAX - 15);
    let message = "segment data size in the header overflows";
    assert!((u64::MAX - 15).checked_add(segments(&file)).is_none());
    expect_error(&file, message);
}

fn segments(file: &Edit) -> u64 {
    u64::from_le_bytes(file.bytes()[32..40].try_into().expect("the slice has 8 bytes"))
}

/// In a data file, the product of the sizes and the end of a segment overflowed.
#[test]
fn data_files_that_wrap() {
    assert!(ExternalData::parse(EXTERNAL).is_ok());
    let mut file = Edit::new(EXTERNAL, &FLAT_TENSOR);
    let layout = "named_data[0].tensor_layout";
    assert_eq!(file.get(&format!("{layout}.sizes#")), 2);
    file.set(&format!("{layout}.sizes[0]"), i64::from(i32::MAX));
    file.set(&format!("{layout}.sizes[1]"), i64::from(i32::MAX));
    let numel = file.get(&format!("{layout}.sizes[0]")).pow(2);
    assert!(numel.checked_mul(4).is_some_and(|bytes| i64::try_from(bytes).is_err()));
    let message = "entry 0: TensorLayout.sizes exceeds the address space";
    assert_eq!(ExternalData::parse(file.bytes()).unwrap_err().to_string(), message);

    let mut file = Edit::new(EXTERNAL, &FLAT_TENSOR);
    file.set("segments[1].offset", -16);
    assert!(file.get("segments[1].offset").checked_add(file.get("segments[1].size")).is_none());
    let error = ExternalData::parse(file.bytes()).unwrap_err().to_string();
    assert!(error.contains("DataSegment.size needs"), "{error}");
}

/// Thousands of references to one table made a small file describe a huge program.
#[test]
fn one_table_under_many_names() {
    let mut file = valid();
    let values: Vec<usize> = (0..5_000).map(|value| if value == 0 { 0 } else { 16 }).collect();
    file.set_tables("execution_plan[0].values", &values);
    file.set_items("execution_plan[0].values[1].val.items", &[0; 5_000]);
    let items = file.get("execution_plan[0].values[4999].val.items#");
    assert_eq!(items * file.get("execution_plan[0].values#"), 25_000_000);
    assert!(file.bytes().len() < 100_000);
    let error = Program::parse(file.bytes()).unwrap_err().to_string();
    assert!(error.contains("is referenced more often than the size of the file"), "{error}");
}

/// The elements of a bundled tensor were copied without a bounds check.
#[test]
fn bundled_data_shorter_than_its_sizes() {
    let bundled = &seeds("model.bpte")[0].bytes;
    assert!(BundledProgram::parse(bundled).is_ok());
    let mut file = Edit::new(bundled, &BUNDLED_PROGRAM);
    let tensor = "method_test_suites[0].test_cases[0].inputs[0].val";
    let (size, len) = (format!("{tensor}.sizes[0]"), format!("{tensor}.data#"));
    let (rows, bytes) = (file.get(&size), file.get(&len));
    file.set(&size, 1 << 20);
    assert!(file.get(&size) > rows && file.get(&len) == bytes, "the sizes exceed the data");
    let error = BundledProgram::parse(file.bytes()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("needs"), "{error}");
    file.set(&size, rows as i64).set(&len, 3);
    let error = BundledProgram::parse(file.bytes()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("but only 3 bytes"), "{error}");
}

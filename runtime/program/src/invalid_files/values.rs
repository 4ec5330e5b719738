//! Checks of values and tensors.

use super::*;

fn check_i32(path: &[Step], target: Target, new: [u8; 4], message: &str) {
    check(EVERY_FIELD, path, target, new, message);
}

fn check_byte(path: &[Step], target: Target, new: u8, message: &str) {
    check(EVERY_FIELD, path, target, [new], message);
}

#[test]
fn types_and_lists() {
    let evalue = plan(&[Entry(PLAN_VALUES, 9)]);
    let message = "method 0, value 9: EValue.val_type has the unknown code 12";
    check_byte(&evalue, field(EVALUE_TYPE), 12, message);
    let message = out_of_bounds("method 0, value 9: EValue.val", &evalue, field(EVALUE_VAL));
    check_i32(&evalue, field(EVALUE_VAL), le(-1), &message);
    let message = "method 0, value 12: String.string_val is not valid UTF-8";
    check_byte(&value(12), Element(STRING_VAL, 0, 1), 0xff, message);
    let message = "method 0, value 13: IntList.items is 18, out of range for 18 entries";
    check_byte(&value(13), Element(INT_LIST_ITEMS, 0, 8), 18, message);
    let message = "method 0, value 13: IntList.items refers to value 11, which is not an int";
    check_byte(&value(13), Element(INT_LIST_ITEMS, 1, 8), 11, message);
    let message = "method 0, value 16: TensorList.items refers to value 8, which is not a tensor";
    check_i32(&value(16), Element(TENSOR_LIST_ITEMS, 1, 4), le(8), message);
    let message = "method 0, value 16: TensorList.items is -1, out of range for 18 entries";
    check_i32(&value(16), Element(TENSOR_LIST_ITEMS, 1, 4), le(-1), message);
    let message = "method 0, value 17: OptionalTensorList.items refers to value 9, which is not a \
                   tensor or none";
    check_i32(&value(17), Element(OPTIONAL_TENSOR_LIST_ITEMS, 0, 4), le(9), message);
    let message = "method 0, value 17: OptionalTensorList.items is -2, out of range for 18 entries";
    check_i32(&value(17), Element(OPTIONAL_TENSOR_LIST_ITEMS, 0, 4), le(-2), message);
    for (index, items) in [(14, DOUBLE_LIST_ITEMS), (15, BOOL_LIST_ITEMS)] {
        let name = format!("method 0, value {index}: {}", items.1);
        let message = out_of_bounds(&name, &value(index), field(items));
        check_i32(&value(index), Length(items), le(i32::MAX), &message);
    }
}

#[test]
fn layouts() {
    let message = "method 0, value 0: Tensor.storage_offset is not supported: a storage offset \
                   other than 0";
    check_i32(&value(0), field(TENSOR_STORAGE_OFFSET), le(1), message);
    let message = "method 0, value 0: Tensor.scalar_type has the unknown code 30";
    check_byte(&value(0), field(TENSOR_SCALAR_TYPE), 30, message);
    let message = "method 0, value 0: Tensor.scalar_type has the unknown code 255";
    check_byte(&value(0), field(TENSOR_SCALAR_TYPE), 0xff, message);
    let message = "method 0, value 0: Tensor.shape_dynamism has the unknown code 3";
    check_byte(&value(0), field(TENSOR_SHAPE_DYNAMISM), 3, message);
    let message = "method 0, value 0: Tensor.sizes is negative";
    check_i32(&value(0), Element(TENSOR_SIZES, 1, 4), le(-3), message);
    let huge: [u8; 8] = [0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f];
    let message = "method 0, value 0: Tensor.sizes exceeds the address space";
    check(EVERY_FIELD, &value(0), Element(TENSOR_SIZES, 0, 4), huge, message);
    let message = "method 0, value 7: Tensor.sizes has more than 16 dimensions";
    check_i32(&value(7), Length(TENSOR_SIZES), le(17), message);
    let order = "method 0, value 0: Tensor.dim_order is not a permutation of the dimensions";
    check_i32(&value(0), Length(TENSOR_DIM_ORDER), le(1), order);
    check_byte(&value(0), Element(TENSOR_DIM_ORDER, 0, 1), 1, order);
    check_byte(&value(0), Element(TENSOR_DIM_ORDER, 0, 1), 2, order);
    check_byte(&value(0), Element(TENSOR_DIM_ORDER, 0, 1), 0xff, order);
}

#[test]
fn planned_memory() {
    let allocation = tensor(0, TENSOR_ALLOCATION_INFO);
    let message = "method 0, value 0: AllocationDetails.memory_id is 0, which is reserved";
    check_i32(&allocation, field(ALLOCATION_MEMORY_ID), le(0), message);
    let message = "method 0, value 0: AllocationDetails.memory_id is 3, out of range for 3 entries";
    check_i32(&allocation, field(ALLOCATION_MEMORY_ID), le(3), message);
    let message = "method 0, value 0: AllocationDetails.memory_offset_low needs 24 bytes at offset \
                   9, but only 32 bytes are available";
    check_i32(&allocation, field(ALLOCATION_OFFSET_LOW), le(9), message);
    let message = "method 0, value 0: AllocationDetails.memory_offset_low needs 24 bytes at offset \
                   4294967304, but only 32 bytes are available";
    check_i32(&allocation, field(ALLOCATION_OFFSET_HIGH), le(1), message);
    let message = "method 0, value 0: AllocationDetails.memory_offset_low needs 24 bytes at offset \
                   18446744069414584328, but only 32 bytes are available";
    check_i32(&allocation, field(ALLOCATION_OFFSET_HIGH), le(-1), message);
    // Larger sizes exceed the planned buffer.
    let message = "method 0, value 3: AllocationDetails.memory_offset_low needs 28 bytes at offset \
                   8, but only 32 bytes are available";
    let sizes = [7, 0, 0, 0, 1, 0, 0, 0];
    check(EVERY_FIELD, &value(3), Element(TENSOR_SIZES, 0, 4), sizes, message);
}

#[test]
fn tensor_data() {
    let message = "method 0, value 1: Tensor.data_buffer_idx is 2, out of range for 2 entries";
    check_i32(&value(1), field(TENSOR_DATA_BUFFER_IDX), le(2), message);
    let message = "method 0, value 1: SubsegmentOffsets.offsets needs 24 bytes at offset 1, but only \
                   24 bytes are available";
    let segment = [Child(PROGRAM_CONSTANT_SEGMENT)];
    check_byte(&segment, Element(SUBSEGMENT_OFFSETS, 1, 8), 1, message);
    let message = "method 0, value 1: SubsegmentOffsets.offsets needs 24 bytes at offset \
                   18446744073709551615, but only 24 bytes are available";
    check(EVERY_FIELD, &segment, Element(SUBSEGMENT_OFFSETS, 1, 8), [0xff; 8], message);
    let message = "method 0, value 2: ExtraTensorInfo.mutable_data_segments_idx is 1, out of \
                   range for 1 entries";
    let extra = |value| tensor(value, TENSOR_EXTRA_TENSOR_INFO);
    check_byte(&extra(2), field(EXTRA_MUTABLE_SEGMENTS_IDX), 1, message);
    let message = "method 0, value 2: ExtraTensorInfo.device_type has the unknown code 2";
    check_byte(&extra(2), field(EXTRA_DEVICE_TYPE), 2, message);
    let message = "method 0, value 5: ExtraTensorInfo.location has the unknown code 2";
    check_byte(&extra(5), field(EXTRA_LOCATION), 2, message);
    let message = "method 0, value 5: ExtraTensorInfo.fully_qualified_name is missing";
    check_i32(&extra(5), Length(EXTRA_FULLY_QUALIFIED_NAME), le(0), message);
    let mutable = [Entry(PROGRAM_MUTABLE_DATA_SEGMENTS, 0)];
    let message = "method 0, value 2: SubsegmentOffsets.offsets needs 8 bytes at offset 1, but only \
                   8 bytes are available";
    check_byte(&mutable, Element(SUBSEGMENT_OFFSETS, 1, 8), 1, message);
}

#[test]
fn work_on_shared_objects_is_limited() {
    // 4000 values share one EValue, a list of 4000 absent tensors.
    const COUNT: i32 = 4000;
    let vtables = [8, 0, 12, 0, 8, 0, 4, 0, 6, 0, 8, 0, 4, 0, 0, 0];
    let mut list = vtables.to_vec();
    // EValue: offset of the vtable, of the list, type. List: offset of the vtable, of the items.
    for number in [16, 8, 11, 20, 4, COUNT] {
        list.extend(le(number));
    }
    list.extend([0xff; 4 * COUNT as usize]);
    let mut file = ADD.to_vec();
    let reference = position(&file, &plan(&[]), field(PLAN_VALUES));
    let vector = file.len();
    file[reference..reference + 4].copy_from_slice(&le((vector - reference) as i32));
    file.extend(le(COUNT));
    for left in (1..=COUNT).rev() {
        file.extend(le(4 * left + 16));
    }
    file.extend(list);
    let error = Program::parse(&file).unwrap_err().to_string();
    let message = "OptionalTensorList.items is referenced more often than the size of the file \
                   allows";
    assert!(error.ends_with(message), "{error}");
}

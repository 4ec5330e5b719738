//! The checks of values and tensors.

use super::*;

fn every(path: &[Step], spot: Spot, new: [u8; 4], message: &str) {
    check(EVERY_FIELD, path, spot, new, message);
}

fn byte(path: &[Step], spot: Spot, new: u8, message: &str) {
    check(EVERY_FIELD, path, spot, [new], message);
}

#[test]
fn kinds_and_lists() {
    let evalue = plan(&[Entry(PLAN_VALUES, 9)]);
    let message = "method 0, value 9: EValue.val_type has the unknown code 12";
    byte(&evalue, field(EVALUE_TYPE), 12, message);
    let message = out_of_file("method 0, value 9: EValue.val", &evalue, field(EVALUE_VAL));
    every(&evalue, field(EVALUE_VAL), le(-1), &message);
    let message = "method 0, value 12: String.string_val is not UTF-8";
    byte(&value(12), Item(STRING_VAL, 0, 1), 0xff, message);
    let message = "method 0, value 13: IntList.items is 18, but there are 18 entries";
    byte(&value(13), Item(INT_LIST_ITEMS, 0, 8), 18, message);
    let message = "method 0, value 13: IntList.items names value 11, which is not an int";
    byte(&value(13), Item(INT_LIST_ITEMS, 1, 8), 11, message);
    let message = "method 0, value 16: TensorList.items names value 8, which is not a tensor";
    every(&value(16), Item(TENSOR_LIST_ITEMS, 1, 4), le(8), message);
    let message = "method 0, value 16: TensorList.items is -1, but there are 18 entries";
    every(&value(16), Item(TENSOR_LIST_ITEMS, 1, 4), le(-1), message);
    let message = "method 0, value 17: OptionalTensorList.items names value 9, which is not a \
                   tensor or none";
    every(&value(17), Item(OPTIONAL_TENSOR_LIST_ITEMS, 0, 4), le(9), message);
    let message = "method 0, value 17: OptionalTensorList.items is -2, but there are 18 entries";
    every(&value(17), Item(OPTIONAL_TENSOR_LIST_ITEMS, 0, 4), le(-2), message);
    for (index, items) in [(14, DOUBLE_LIST_ITEMS), (15, BOOL_LIST_ITEMS)] {
        let name = format!("method 0, value {index}: {}", items.1);
        let message = out_of_file(&name, &value(index), field(items));
        every(&value(index), Len(items), le(i32::MAX), &message);
    }
}

#[test]
fn layouts() {
    let message = "method 0, value 0: Tensor.storage_offset is not supported: a storage offset \
                   other than 0";
    every(&value(0), field(TENSOR_STORAGE_OFFSET), le(1), message);
    let message = "method 0, value 0: Tensor.scalar_type has the unknown code 30";
    byte(&value(0), field(TENSOR_SCALAR_TYPE), 30, message);
    let message = "method 0, value 0: Tensor.scalar_type has the unknown code 255";
    byte(&value(0), field(TENSOR_SCALAR_TYPE), 0xff, message);
    let message = "method 0, value 0: Tensor.shape_dynamism has the unknown code 3";
    byte(&value(0), field(TENSOR_SHAPE_DYNAMISM), 3, message);
    let message = "method 0, value 0: Tensor.sizes is negative";
    every(&value(0), Item(TENSOR_SIZES, 1, 4), le(-3), message);
    let huge: [u8; 8] = [0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f];
    let message = "method 0, value 0: Tensor.sizes need more bytes than can be counted";
    check(EVERY_FIELD, &value(0), Item(TENSOR_SIZES, 0, 4), huge, message);
    let message = "method 0, value 7: Tensor.sizes has more than 16 dimensions";
    every(&value(7), Len(TENSOR_SIZES), le(17), message);
    let order = "method 0, value 0: Tensor.dim_order is not a permutation of the dimensions";
    every(&value(0), Len(TENSOR_DIM_ORDER), le(1), order);
    byte(&value(0), Item(TENSOR_DIM_ORDER, 0, 1), 1, order);
    byte(&value(0), Item(TENSOR_DIM_ORDER, 0, 1), 2, order);
    byte(&value(0), Item(TENSOR_DIM_ORDER, 0, 1), 0xff, order);
}

#[test]
fn planned_memory() {
    let place = tensor(0, TENSOR_ALLOCATION_INFO);
    let message = "method 0, value 0: AllocationDetails.memory_id is 0, which is reserved";
    every(&place, field(ALLOCATION_MEMORY_ID), le(0), message);
    let message = "method 0, value 0: AllocationDetails.memory_id is 3, but there are 3 entries";
    every(&place, field(ALLOCATION_MEMORY_ID), le(3), message);
    let message = "method 0, value 0: AllocationDetails.memory_offset_low needs 24 bytes from byte \
                   9 on, but there are 32";
    every(&place, field(ALLOCATION_OFFSET_LOW), le(9), message);
    let message = "method 0, value 0: AllocationDetails.memory_offset_low needs 24 bytes from byte \
                   4294967304 on, but there are 32";
    every(&place, field(ALLOCATION_OFFSET_HIGH), le(1), message);
    let message = "method 0, value 0: AllocationDetails.memory_offset_low needs 24 bytes from byte \
                   18446744069414584328 on, but there are 32";
    every(&place, field(ALLOCATION_OFFSET_HIGH), le(-1), message);
    // The sizes grow beyond the memory.
    let message = "method 0, value 3: AllocationDetails.memory_offset_low needs 28 bytes from byte \
                   8 on, but there are 32";
    let sizes = [7, 0, 0, 0, 1, 0, 0, 0];
    check(EVERY_FIELD, &value(3), Item(TENSOR_SIZES, 0, 4), sizes, message);
}

#[test]
fn data() {
    let message = "method 0, value 1: Tensor.data_buffer_idx is 2, but there are 2 entries";
    every(&value(1), field(TENSOR_DATA_BUFFER_IDX), le(2), message);
    let message = "method 0, value 1: SubsegmentOffsets.offsets needs 24 bytes from byte 1 on, but \
                   there are 24";
    let segment = [To(PROGRAM_CONSTANT_SEGMENT)];
    byte(&segment, Item(SUBSEGMENT_OFFSETS, 1, 8), 1, message);
    let message = "method 0, value 1: SubsegmentOffsets.offsets needs 24 bytes from byte \
                   18446744073709551615 on, but there are 24";
    check(EVERY_FIELD, &segment, Item(SUBSEGMENT_OFFSETS, 1, 8), [0xff; 8], message);
    let message = "method 0, value 2: ExtraTensorInfo.mutable_data_segments_idx is 1, but there \
                   are 1 entries";
    let extra = |value| tensor(value, TENSOR_EXTRA_TENSOR_INFO);
    byte(&extra(2), field(EXTRA_MUTABLE_SEGMENTS_IDX), 1, message);
    let message = "method 0, value 2: ExtraTensorInfo.device_type is not supported: a tensor in \
                   the memory of another device than the CPU";
    byte(&extra(2), field(EXTRA_DEVICE_TYPE), 1, message);
    let message = "method 0, value 5: ExtraTensorInfo.location has the unknown code 2";
    byte(&extra(5), field(EXTRA_LOCATION), 2, message);
    let message = "method 0, value 5: ExtraTensorInfo.fully_qualified_name is missing";
    every(&extra(5), Len(EXTRA_FULLY_QUALIFIED_NAME), le(0), message);
    let mutable = [Entry(PROGRAM_MUTABLE_DATA_SEGMENTS, 0)];
    let message = "method 0, value 2: SubsegmentOffsets.offsets needs 8 bytes from byte 1 on, but \
                   there are 8";
    byte(&mutable, Item(SUBSEGMENT_OFFSETS, 1, 8), 1, message);
}

#[test]
fn shared_objects_do_not_multiply_the_work() {
    // An EValue that is a list of 4000 absent tensors, to which 4000 values refer.
    const COUNT: i32 = 4000;
    let vtables = [8, 0, 12, 0, 8, 0, 4, 0, 6, 0, 8, 0, 4, 0, 0, 0];
    let mut list = vtables.to_vec();
    // The EValue: back to its vtable, on to the list, its kind; the list: back, on to the items.
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
    let message = "OptionalTensorList.items is referred to more often than the size of the file \
                   allows";
    assert!(error.ends_with(message), "{error}");
}

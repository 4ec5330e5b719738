//! Fields of the ExecuTorch schemas `program.fbs`, `flat_tensor.fbs` and
//! `bundled_program_schema.fbs`.
//!
//! The number of a field is its vtable slot. A union takes two slots, the type and the table.

use afferent_flatbuffer::Field;

pub(crate) const PROGRAM_VERSION: Field = Field(0, "Program.version");
pub(crate) const PROGRAM_EXECUTION_PLAN: Field = Field(1, "Program.execution_plan");
pub(crate) const PROGRAM_CONSTANT_BUFFER: Field = Field(2, "Program.constant_buffer");
pub(crate) const PROGRAM_BACKEND_DELEGATE_DATA: Field = Field(3, "Program.backend_delegate_data");
pub(crate) const PROGRAM_SEGMENTS: Field = Field(4, "Program.segments");
pub(crate) const PROGRAM_CONSTANT_SEGMENT: Field = Field(5, "Program.constant_segment");
pub(crate) const PROGRAM_MUTABLE_DATA_SEGMENTS: Field = Field(6, "Program.mutable_data_segments");
pub(crate) const PROGRAM_NAMED_DATA: Field = Field(7, "Program.named_data");

pub(crate) const BUFFER_STORAGE: Field = Field(0, "Buffer.storage");
pub(crate) const INLINE_DATA_DATA: Field = Field(0, "BackendDelegateInlineData.data");

pub(crate) const DATA_SEGMENT_OFFSET: Field = Field(0, "DataSegment.offset");
pub(crate) const DATA_SEGMENT_SIZE: Field = Field(1, "DataSegment.size");

pub(crate) const SUBSEGMENT_INDEX: Field = Field(0, "SubsegmentOffsets.segment_index");
pub(crate) const SUBSEGMENT_OFFSETS: Field = Field(1, "SubsegmentOffsets.offsets");

pub(crate) const NAMED_DATA_KEY: Field = Field(0, "NamedData.key");
pub(crate) const NAMED_DATA_SEGMENT_INDEX: Field = Field(1, "NamedData.segment_index");
pub(crate) const NAMED_DATA_TENSOR_LAYOUT: Field = Field(2, "NamedData.tensor_layout");

pub(crate) const PLAN_NAME: Field = Field(0, "ExecutionPlan.name");
pub(crate) const PLAN_CONTAINER_META_TYPE: Field = Field(1, "ExecutionPlan.container_meta_type");
pub(crate) const PLAN_VALUES: Field = Field(2, "ExecutionPlan.values");
pub(crate) const PLAN_INPUTS: Field = Field(3, "ExecutionPlan.inputs");
pub(crate) const PLAN_OUTPUTS: Field = Field(4, "ExecutionPlan.outputs");
pub(crate) const PLAN_CHAINS: Field = Field(5, "ExecutionPlan.chains");
pub(crate) const PLAN_OPERATORS: Field = Field(6, "ExecutionPlan.operators");
pub(crate) const PLAN_DELEGATES: Field = Field(7, "ExecutionPlan.delegates");
pub(crate) const PLAN_BUFFER_SIZES: Field = Field(8, "ExecutionPlan.non_const_buffer_sizes");
pub(crate) const PLAN_BUFFER_DEVICE: Field = Field(9, "ExecutionPlan.non_const_buffer_device");

pub(crate) const CONTAINER_ENCODED_INP_STR: Field = Field(0, "ContainerMetadata.encoded_inp_str");
pub(crate) const CONTAINER_ENCODED_OUT_STR: Field = Field(1, "ContainerMetadata.encoded_out_str");

pub(crate) const BUFFER_DEVICE_TYPE: Field = Field(1, "NonConstBufferDevice.device_type");

pub(crate) const CHAIN_INSTRUCTIONS: Field = Field(2, "Chain.instructions");

pub(crate) const OPERATOR_NAME: Field = Field(0, "Operator.name");
pub(crate) const OPERATOR_OVERLOAD: Field = Field(1, "Operator.overload");

pub(crate) const DELEGATE_ID: Field = Field(0, "BackendDelegate.id");
pub(crate) const DELEGATE_PROCESSED: Field = Field(1, "BackendDelegate.processed");
pub(crate) const DELEGATE_COMPILE_SPECS: Field = Field(2, "BackendDelegate.compile_specs");

pub(crate) const DATA_REFERENCE_LOCATION: Field = Field(0, "BackendDelegateDataReference.location");
pub(crate) const DATA_REFERENCE_INDEX: Field = Field(1, "BackendDelegateDataReference.index");

pub(crate) const COMPILE_SPEC_KEY: Field = Field(0, "CompileSpec.key");
pub(crate) const COMPILE_SPEC_VALUE: Field = Field(1, "CompileSpec.value");

pub(crate) const INSTRUCTION_TYPE: Field = Field(0, "Instruction.instr_args_type");
pub(crate) const INSTRUCTION_ARGS: Field = Field(1, "Instruction.instr_args");

pub(crate) const KERNEL_CALL_OP_INDEX: Field = Field(0, "KernelCall.op_index");
pub(crate) const KERNEL_CALL_ARGS: Field = Field(1, "KernelCall.args");
pub(crate) const DELEGATE_CALL_DELEGATE_INDEX: Field = Field(0, "DelegateCall.delegate_index");
pub(crate) const DELEGATE_CALL_ARGS: Field = Field(1, "DelegateCall.args");
pub(crate) const MOVE_CALL_FROM: Field = Field(0, "MoveCall.move_from");
pub(crate) const MOVE_CALL_TO: Field = Field(1, "MoveCall.move_to");
pub(crate) const JUMP_FALSE_CONDITION: Field = Field(0, "JumpFalseCall.cond_value_index");
pub(crate) const JUMP_FALSE_DESTINATION: Field = Field(1, "JumpFalseCall.destination_instruction");
pub(crate) const FREE_CALL_VALUE: Field = Field(0, "FreeCall.value_index");

pub(crate) const EVALUE_TYPE: Field = Field(0, "EValue.val_type");
pub(crate) const EVALUE_VAL: Field = Field(1, "EValue.val");

pub(crate) const INT_VAL: Field = Field(0, "Int.int_val");
pub(crate) const BOOL_VAL: Field = Field(0, "Bool.bool_val");
pub(crate) const DOUBLE_VAL: Field = Field(0, "Double.double_val");
pub(crate) const STRING_VAL: Field = Field(0, "String.string_val");
pub(crate) const INT_LIST_ITEMS: Field = Field(0, "IntList.items");
pub(crate) const DOUBLE_LIST_ITEMS: Field = Field(0, "DoubleList.items");
pub(crate) const BOOL_LIST_ITEMS: Field = Field(0, "BoolList.items");
pub(crate) const TENSOR_LIST_ITEMS: Field = Field(0, "TensorList.items");
pub(crate) const OPTIONAL_TENSOR_LIST_ITEMS: Field = Field(0, "OptionalTensorList.items");

pub(crate) const TENSOR_SCALAR_TYPE: Field = Field(0, "Tensor.scalar_type");
pub(crate) const TENSOR_STORAGE_OFFSET: Field = Field(1, "Tensor.storage_offset");
pub(crate) const TENSOR_SIZES: Field = Field(2, "Tensor.sizes");
pub(crate) const TENSOR_DIM_ORDER: Field = Field(3, "Tensor.dim_order");
pub(crate) const TENSOR_DATA_BUFFER_IDX: Field = Field(5, "Tensor.data_buffer_idx");
pub(crate) const TENSOR_ALLOCATION_INFO: Field = Field(6, "Tensor.allocation_info");
pub(crate) const TENSOR_SHAPE_DYNAMISM: Field = Field(8, "Tensor.shape_dynamism");
pub(crate) const TENSOR_EXTRA_TENSOR_INFO: Field = Field(9, "Tensor.extra_tensor_info");

pub(crate) const ALLOCATION_MEMORY_ID: Field = Field(0, "AllocationDetails.memory_id");
pub(crate) const ALLOCATION_OFFSET_LOW: Field = Field(1, "AllocationDetails.memory_offset_low");
pub(crate) const ALLOCATION_OFFSET_HIGH: Field = Field(2, "AllocationDetails.memory_offset_high");

pub(crate) const EXTRA_MUTABLE_SEGMENTS_IDX: Field =
    Field(0, "ExtraTensorInfo.mutable_data_segments_idx");
pub(crate) const EXTRA_FULLY_QUALIFIED_NAME: Field =
    Field(1, "ExtraTensorInfo.fully_qualified_name");
pub(crate) const EXTRA_LOCATION: Field = Field(2, "ExtraTensorInfo.location");
pub(crate) const EXTRA_DEVICE_TYPE: Field = Field(3, "ExtraTensorInfo.device_type");

pub(crate) const FLAT_TENSOR_VERSION: Field = Field(0, "FlatTensor.version");
pub(crate) const FLAT_TENSOR_SEGMENTS: Field = Field(1, "FlatTensor.segments");
pub(crate) const FLAT_TENSOR_NAMED_DATA: Field = Field(2, "FlatTensor.named_data");

pub(crate) const LAYOUT_SCALAR_TYPE: Field = Field(0, "TensorLayout.scalar_type");
pub(crate) const LAYOUT_SIZES: Field = Field(1, "TensorLayout.sizes");
pub(crate) const LAYOUT_DIM_ORDER: Field = Field(2, "TensorLayout.dim_order");

pub(crate) const BUNDLED_SUITES: Field = Field(1, "BundledProgram.method_test_suites");
pub(crate) const BUNDLED_PROGRAM: Field = Field(2, "BundledProgram.program");

pub(crate) const SUITE_METHOD_NAME: Field = Field(0, "BundledMethodTestSuite.method_name");
pub(crate) const SUITE_TEST_CASES: Field = Field(1, "BundledMethodTestSuite.test_cases");

pub(crate) const CASE_INPUTS: Field = Field(0, "BundledMethodTestCase.inputs");
pub(crate) const CASE_EXPECTED_OUTPUTS: Field = Field(1, "BundledMethodTestCase.expected_outputs");

pub(crate) const BUNDLED_VALUE_TYPE: Field = Field(0, "Value.val_type");
pub(crate) const BUNDLED_VALUE_VAL: Field = Field(1, "Value.val");

pub(crate) const BUNDLED_TENSOR_SCALAR_TYPE: Field = Field(0, "Tensor.scalar_type");
pub(crate) const BUNDLED_TENSOR_SIZES: Field = Field(1, "Tensor.sizes");
pub(crate) const BUNDLED_TENSOR_DATA: Field = Field(2, "Tensor.data");
pub(crate) const BUNDLED_TENSOR_DIM_ORDER: Field = Field(3, "Tensor.dim_order");
pub(crate) const BUNDLED_INT_VAL: Field = Field(0, "Int.int_val");
pub(crate) const BUNDLED_BOOL_VAL: Field = Field(0, "Bool.bool_val");
pub(crate) const BUNDLED_DOUBLE_VAL: Field = Field(0, "Double.double_val");

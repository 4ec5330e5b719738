//! Fields of the FlatBuffers schema of a Vulkan blob.
//!
//! Source: ExecuTorch `backends/vulkan/serialization/schema.fbs`, file identifier `VK00`.

use afferent_flatbuffer::Field;

pub(super) const GRAPH_CHAIN: Field = Field(1, "VkGraph.chain");
pub(super) const GRAPH_VALUES: Field = Field(2, "VkGraph.values");
pub(super) const GRAPH_INPUTS: Field = Field(3, "VkGraph.input_ids");
pub(super) const GRAPH_OUTPUTS: Field = Field(4, "VkGraph.output_ids");
pub(super) const GRAPH_CONSTANTS: Field = Field(5, "VkGraph.constants");

pub(super) const CALL_NAME: Field = Field(1, "OperatorCall.name");
pub(super) const CALL_ARGS: Field = Field(2, "OperatorCall.args");

pub(super) const BYTES_OFFSET: Field = Field(0, "VkBytes.offset");
pub(super) const BYTES_LENGTH: Field = Field(1, "VkBytes.length");
pub(super) const BYTES_KEY: Field = Field(2, "VkBytes.named_key");

pub(super) const VALUE_TYPE: Field = Field(0, "VkValue.value_type");
pub(super) const VALUE: Field = Field(1, "VkValue.value");

pub(super) const TENSOR_DATATYPE: Field = Field(0, "VkTensor.datatype");
pub(super) const TENSOR_DIMS: Field = Field(1, "VkTensor.dims");
pub(super) const TENSOR_CONSTANT: Field = Field(2, "VkTensor.constant_id");

/// The only field of the tables of numbers, lists and strings.
pub(super) const CONTENT: Field = Field(0, "VkValue content");

pub(super) const NULL: u8 = 1;
pub(super) const INT: u8 = 2;
pub(super) const DOUBLE: u8 = 3;
pub(super) const BOOL: u8 = 4;
pub(super) const TENSOR: u8 = 5;
pub(super) const INT_LIST: u8 = 6;
pub(super) const DOUBLE_LIST: u8 = 7;
pub(super) const BOOL_LIST: u8 = 8;
pub(super) const VALUE_LIST: u8 = 9;
pub(super) const STRING: u8 = 10;
pub(super) const SYM_INT: u8 = 11;

/// Offset of constant data that is named.
pub(super) const NAMED: u64 = u64::MAX;

//! Field and type numbers of ExecuTorch `backends/xnnpack/serialization/schema.fbs`.

use afferent_flatbuffer::Field;

/// Value id that means "no value" (`XNN_INVALID_VALUE_ID`).
pub(super) const INVALID_VALUE_ID: u32 = u32::MAX;

/// Maximum number of arguments of a delegate.
pub(super) const MAX_ARGUMENTS: usize = 4096;

macro_rules! fields {
    ($($name:ident = $slot:literal $text:literal;)*) => {
        $(pub(super) const $name: Field = Field($slot, $text);)*
    };
}

fields! {
    GRAPH_NODES = 1 "xnodes";
    GRAPH_VALUES = 2 "xvalues";
    GRAPH_CONSTANT_BUFFERS = 6 "constant_buffer";
    GRAPH_CONSTANT_DATA = 8 "constant_data";
    BUFFER_STORAGE = 0 "storage";
    CONSTANT_OFFSET = 0 "offset";
    CONSTANT_SIZE = 1 "size";
    CONSTANT_KEY = 2 "named_key";
    UNION_TYPE = 0 "union type";
    UNION_VALUE = 1 "union";
    NODE_MIN_MAX = 3 "output_min_max";
    MIN = 0 "output_min";
    MAX = 1 "output_max";
    VALUE_DATATYPE = 0 "datatype";
    VALUE_DIMS = 2 "dims";
    VALUE_BUFFER = 3 "constant_buffer_idx";
    VALUE_EXTERNAL = 4 "external_id";
    VALUE_FLAGS = 5 "flags";
    VALUE_ID = 6 "id_out";
    VALUE_DYNAMIC = 7 "dq_datatype";
    QUANTIZED_VALUE = 0 "tensor_value";
    QUANTIZED_TYPE = 1 "quant_params type";
    QUANTIZED_PARAMS = 2 "quant_params";
    QUANT_SCALE = 0 "scale";
    QUANT_ZERO_POINT = 1 "zero_point";
    QUANT_DIM = 1 "channel_dim";
    CHANNEL_BUFFER = 2 "scale_buffer_idx";
    CHANNEL_COUNT = 3 "num_scales";
    GROUP_SIZE = 2 "group_size";
    GROUP_BUFFER = 4 "scale_buffer_idx";
    GROUP_COUNT = 5 "num_scales";
    TOKEN_DIMS = 0 "num_nonbatch_dims";
}

/// Names of the node types, by their number in the union `XNodeUnion`.
pub(super) const NODE_TYPES: [&str; 48] = [
    "NONE",
    "XNNAdd",
    "XNNFullyConnected",
    "XNNSoftmax",
    "XNNSigmoid",
    "XNNStaticTranspose",
    "XNNClamp",
    "XNNConv2d",
    "XNNDiv",
    "XNNStaticResizeBilinear2D",
    "XNNStaticConstantPad",
    "XNNAvgPooling2d",
    "XNNMinimum",
    "XNNDepthwiseConv2d",
    "XNNMaxPooling2d",
    "XNNMultiply",
    "XNNSubtract",
    "XNNFloor",
    "XNNConvert",
    "XNNGlobalAvgPooling2d",
    "XNNStaticReshape",
    "XNNArgMaxPooling2d",
    "XNNSquareRoot",
    "XNNCeiling",
    "XNNHardswish",
    "XNNLeakyReLU",
    "XNNMaximum",
    "XNNNegate",
    "XNNSquare",
    "XNNELU",
    "XNNAbs",
    "XNNPReLU",
    "XNNConcatenate2",
    "XNNConcatenate3",
    "XNNConcatenate4",
    "XNNStaticSlice",
    "XNNScaledDotProductAttention",
    "XNNBatchMatrixMultiply",
    "XNNConcatenate5",
    "XNNConvTranspose2d",
    "XNNReciprocalSquareRoot",
    "XNNLog",
    "XNNGelu",
    "XNNTanh",
    "XNNExp",
    "XNNSin",
    "XNNCopy",
    "XNNCos",
];

/// Names of the datatypes, by their number in the enum `XNNDatatype`.
pub(super) const DATATYPES: [&str; 15] = [
    "invalid", "fp32", "fp16", "qint8", "quint8", "qint32", "qcint8", "qcint32", "qcint4",
    "qdint8", "qbint4", "qpint8", "int32", "pfp32", "bf16",
];

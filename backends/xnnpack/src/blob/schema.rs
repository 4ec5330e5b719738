//! Numbers of the fields and unions of the schema.

use afferent_flatbuffer::Field;

macro_rules! fields {
    ($($name:ident = $slot:literal $text:literal;)*) => {
        $(pub(super) const $name: Field = Field($slot, $text);)*
    };
}

fields! {
    GRAPH_NODES = 1 "xnodes";
    GRAPH_VALUES = 2 "xvalues";
    GRAPH_BUFFERS = 6 "constant_buffer";
    GRAPH_CONSTANTS = 8 "constant_data";
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
    QUANTISED_VALUE = 0 "tensor_value";
    QUANTISED_TYPE = 1 "quant_params type";
    QUANTISED_PARAMS = 2 "quant_params";
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

/// Names of the nodes, at the number of each in the union.
pub(super) const NODE_NAMES: [&str; 48] = [
    "no node",
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

/// Names of the datatypes, at the number of each.
pub(super) const DATATYPES: [&str; 15] = [
    "the datatype invalid",
    "the datatype fp32",
    "the datatype fp16",
    "the datatype qint8",
    "the datatype quint8",
    "the datatype qint32",
    "the datatype qcint8",
    "the datatype qcint32",
    "the datatype qcint4",
    "the datatype qdint8",
    "the datatype qbint4",
    "the datatype qpint8",
    "the datatype int32",
    "the datatype pfp32",
    "the datatype bf16",
];

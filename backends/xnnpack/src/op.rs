//! Operators, one file for each node type and datatype.
//!
//! `_q8` operators work on int8 tensors, `_q4` on 4-bit weights, all others on f32.
//!
//! | file                     | node types                                              |
//! |--------------------------|---------------------------------------------------------|
//! | `argmax_pooling2d`       | `XNNArgMaxPooling2d`                                    |
//! | `avg_pooling2d`          | `XNNAvgPooling2d`                                       |
//! | `batch_matrix_multiply`  | `XNNBatchMatrixMultiply`, fully connected with computed weights or bias |
//! | `binary`                 | `XNNAdd`, `XNNMultiply`, … with broadcasting            |
//! | `binary_q8`              | `XNNAdd`, `XNNSubtract`, `XNNMultiply`                  |
//! | `concatenate`            | `XNNConcatenate2` to `XNNConcatenate5`                  |
//! | `conv2d`                 | `XNNConv2d`, `XNNConvTranspose2d`                       |
//! | `conv2d_few_channels`    | `XNNConv2d` with up to 8 input channels, f32 and q8     |
//! | `conv2d_q8`              | `XNNConv2d`, `XNNConvTranspose2d`                       |
//! | `convert`                | `XNNConvert` between f32 and int8                       |
//! | `copy`                   | `XNNCopy`, `XNNStaticReshape`                           |
//! | `depthwise_conv2d`       | `XNNDepthwiseConv2d`                                    |
//! | `depthwise_conv2d_q8`    | `XNNDepthwiseConv2d`                                    |
//! | `f32_fallback`           | any f32 operator, on int8 tensors                       |
//! | `fully_connected`        | `XNNFullyConnected`                                     |
//! | `fully_connected_q4`     | `XNNFullyConnected`, dynamically quantized              |
//! | `fully_connected_q8`     | `XNNFullyConnected`, statically or dynamically quantized |
//! | `global_avg_pooling2d`   | `XNNGlobalAvgPooling2d`                                 |
//! | `global_avg_pooling2d_q8`| `XNNGlobalAvgPooling2d`                                 |
//! | `grouped_conv2d`         | `XNNConv2d`, `XNNDepthwiseConv2d`, `XNNConvTranspose2d` with small groups |
//! | `inverted_bottleneck`    | expand, depthwise, project: two or three convolutions   |
//! | `max_pooling2d`          | `XNNMaxPooling2d`, f32 and int8                         |
//! | `softmax`                | `XNNSoftmax`                                            |
//! | `static_constant_pad`    | `XNNStaticConstantPad`                                  |
//! | `static_resize_bilinear2d` | `XNNStaticResizeBilinear2D`                           |
//! | `static_slice`           | `XNNStaticSlice`                                        |
//! | `static_transpose`       | `XNNStaticTranspose`                                    |
//! | `unary`                  | `XNNSigmoid`, `XNNClamp`, …                             |
//! | `unary_q8`               | any unary operator as a lookup table; `XNNClamp`        |

pub(crate) mod argmax_pooling2d;
pub(crate) mod avg_pooling2d;
pub(crate) mod batch_matrix_multiply;
pub(crate) mod binary;
pub(crate) mod binary_q8;
pub(crate) mod concatenate;
pub(crate) mod conv2d;
pub(crate) mod conv2d_few_channels;
pub(crate) mod conv2d_q8;
pub(crate) mod convert;
pub(crate) mod copy;
pub(crate) mod depthwise_conv2d;
pub(crate) mod depthwise_conv2d_q8;
pub(crate) mod f32_fallback;
pub(crate) mod fully_connected;
pub(crate) mod fully_connected_q4;
pub(crate) mod fully_connected_q8;
pub(crate) mod global_avg_pooling2d;
pub(crate) mod global_avg_pooling2d_q8;
pub(crate) mod grouped_conv2d;
pub(crate) mod inverted_bottleneck;
pub(crate) mod max_pooling2d;
pub(crate) mod softmax;
pub(crate) mod static_constant_pad;
pub(crate) mod static_resize_bilinear2d;
pub(crate) mod static_slice;
pub(crate) mod static_transpose;
pub(crate) mod unary;
pub(crate) mod unary_q8;

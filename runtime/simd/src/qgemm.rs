//! Quantized GEMM with exact int32 accumulation.
//!
//! | module         | contents                                                              |
//! |----------------|-----------------------------------------------------------------------|
//! | [`q8`]         | int8 rows × int8 weights, dense or through an indirection buffer      |
//! | [`q4`]         | int8 rows × int4 weights, blockwise scales                            |
//! | [`requantize`] | epilogues: int32 accumulators to int8 or `f32`                        |

pub mod q4;
pub mod q8;
pub mod requantize;

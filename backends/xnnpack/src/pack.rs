//! Packed weights, and the weight cache that shares them between delegates.
//!
//! | file           | contents                                                          |
//! |----------------|-------------------------------------------------------------------|
//! | `constant`     | constants of the subgraph as f32 or int8                          |
//! | `depthwise`    | weights of depthwise convolutions, f32 and q8                     |
//! | `f32`          | weights of f32 GEMMs, stored in 32, 24 or 16 bits                 |
//! | `q4`           | 4-bit weights, per-channel or blockwise                           |
//! | `q8`           | int8 weights, per-channel                                         |
//! | `weight_cache` | reuse of packed weights within a process and between processes    |

pub(crate) mod constant;
pub(crate) mod depthwise;
pub(crate) mod f32;
pub(crate) mod q4;
pub(crate) mod q8;
pub(crate) mod weight_cache;

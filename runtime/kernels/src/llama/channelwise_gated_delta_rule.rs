//! `llama::channelwise_gated_delta_rule.out`: former name of `gated_delta_rule`.
//!
//! Source: ExecuTorch `op_sdpa.cpp`, which keeps it for older programs.

use afferent_core::Kernel;

use crate::llama::gated_delta_rule::{ARGS, gated_delta_rule};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("llama::channelwise_gated_delta_rule.out", ARGS, gated_delta_rule)];

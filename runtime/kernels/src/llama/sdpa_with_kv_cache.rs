//! `llama::sdpa_with_kv_cache.out`: writes keys and values to a cache, then attends over it.
//!
//! | argument                   | type                   | shape                                |
//! |----------------------------|------------------------|--------------------------------------|
//! | `query`                    | `f32`, `f16` or `bf16` | `[batch, queries, heads, width]`     |
//! | `key`, `value`             | as `query`             | `[batch, queries, key heads, width]` |
//! | `key_cache`, `value_cache` | as `query`             | `[batch, length, key heads, width]`  |
//! | `start_pos`                | int                    | where they are written               |
//! | `seq_len`                  | int                    | `queries`                            |
//! | `attn_mask`, `drpout_p`, `is_causal`, `scale` | as `custom_sdpa` |                         |
//! | `out`                      | as `query`             | as `query`                           |
//!
//! Computes `update_cache` for both and then `custom_sdpa`. Tolerance: 1e-5.
//! Errors: those of both; nothing is written then.
//! Source: ExecuTorch `op_sdpa.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::{
    attention::{Operand, Options, attend},
    llama::update_cache::positions,
    strided::{Part, copy},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "llama::sdpa_with_kv_cache.out",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::Tensor,
        Arg::InOut,
        Arg::InOut,
        Arg::Int,
        Arg::Int,
        Arg::OptTensor,
        Arg::Double,
        Arg::Bool,
        Arg::OptDouble,
        Arg::Out,
    ],
    sdpa_with_kv_cache,
)];

fn sdpa_with_kv_cache(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = Options::of(args, 5, 7)?;
    let (query, start) = (args.tensor(0)?, args.int(5)?);
    let (new, len) = ([args.tensor(1)?, args.tensor(2)?], args.int(6)?);
    let [mut keys, mut values, mut out] = args.outs([3, 4, 11])?;
    let parts = [
        positions((&keys, 3), (&new[0], 1), (start, 5))?,
        positions((&values, 4), (&new[1], 2), (start, 5))?,
    ];
    let has_len = |sizes: &[usize]| sizes.get(1).copied() == usize::try_from(len).ok();
    if !has_len(query.sizes()) || !new.iter().all(|new| has_len(new.sizes())) {
        let expected = "the number of queries, keys and values";
        return Err(Error::InvalidArgument { index: 6, expected });
    }
    for ((cache, part), new) in [&mut keys, &mut values].into_iter().zip(parts).zip(new) {
        copy(cache, &part, &new, &Part::all(&new))?;
    }
    let operand = |tensor, index| Operand { tensor, index, quantization: None };
    let operands = [operand(query, 0), operand(keys.view()?, 3), operand(values.view()?, 4)];
    attend(cx, operands, false, &options, (&mut out, 11))
}

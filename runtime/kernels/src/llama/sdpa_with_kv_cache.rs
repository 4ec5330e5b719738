//! `llama::sdpa_with_kv_cache.out`: update of a KV cache, then attention over it.
//!
//! | argument                   | type                 | shape                                   |
//! |----------------------------|----------------------|-----------------------------------------|
//! | `query`                    | `f32`, `f16`, `bf16` | `[batch, queries, heads, head_dim]`     |
//! | `key`, `value`             | as `query`           | `[batch, queries, key_heads, head_dim]` |
//! | `key_cache`, `value_cache` | as `query`           | `[batch, max_len, key_heads, head_dim]` |
//! | `start_pos`                | int                  | first position to write                 |
//! | `seq_len`                  | int                  | `queries`                               |
//! | `attn_mask` … `scale`      | as `custom_sdpa`     |                                         |
//! | `out`                      | as `query`           | as `query`                              |
//!
//! Computes `update_cache` for keys and values, then `custom_sdpa`. Tolerance: 1e-5.
//! Errors: as these operators. Nothing is written on error.
//! Source: ExecuTorch `op_sdpa.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, TensorMut, TensorView};

use crate::{
    llama::update_cache::cache_view,
    shared::{
        attention::{SdpaOperand, SdpaOptions, prepare_sdpa, sdpa},
        strided_view::{StridedView, copy_view},
    },
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
    let options = SdpaOptions::new(args, 5, 7)?;
    let (query, start) = (args.tensor(0)?, args.int(5)?);
    let (new, len) = ([args.tensor(1)?, args.tensor(2)?], args.int(6)?);
    let [mut keys, mut values, mut out] = args.outs([3, 4, 11])?;
    let views = [
        cache_view((&keys, 3), (&new[0], 1), (start, 5))?,
        cache_view((&values, 4), (&new[1], 2), (start, 5))?,
    ];
    let has_len = |sizes: &[usize]| sizes.get(1).copied() == usize::try_from(len).ok();
    if !has_len(query.sizes()) || !new.iter().all(|new| has_len(new.sizes())) {
        let expected = "the number of queries, keys and values";
        return Err(Error::InvalidArgument { index: 6, expected });
    }
    // All checks come before the caches are written.
    prepare_sdpa(cx, &operands(query, [&keys, &values])?, false, &options, (&mut out, 11))?;
    for ((cache, view), new) in [&mut keys, &mut values].into_iter().zip(views).zip(new) {
        copy_view(cache, &view, &new, &StridedView::of(&new))?;
    }
    sdpa(cx, &operands(query, [&keys, &values])?, false, &options, (&mut out, 11))
}

/// Query, key cache and value cache as operands.
fn operands<'t>(
    query: TensorView<'t>,
    [keys, values]: [&'t TensorMut<'_, '_>; 2],
) -> Result<[SdpaOperand<'t>; 3], Error> {
    let operand = |tensor, index| SdpaOperand { tensor, index, quantization: None };
    Ok([operand(query, 0), operand(keys.view()?, 3), operand(values.view()?, 4)])
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    /// Runs one query with a mask of `columns` columns. Returns the result and both caches.
    fn run(columns: usize) -> (Result<f32, Error>, [Vec<f32>; 2]) {
        let zero = Tensor::zeros(ScalarType::Float, &[1, 1, 1, 1]);
        let value = Tensor::new(&[1, 1, 1, 1], &[4.0_f32]).unwrap();
        let mask = Tensor::zeros(ScalarType::Float, &[1, columns]);
        let mut caches = [(); 2].map(|()| Tensor::new(&[1, 2, 1, 1], &[6.0_f32, 2.0]).unwrap());
        let [keys, values] = &mut caches;
        let mut out = Tensor::zeros(ScalarType::Float, &[0; 4]);
        let mut arguments = [
            Argument::Tensor(&zero),
            Argument::Tensor(&zero),
            Argument::Tensor(&value),
            Argument::Out(keys),
            Argument::Out(values),
            Argument::Scalar(Scalar::Int(1)),
            Argument::Scalar(Scalar::Int(1)),
            Argument::Tensor(&mask),
            Argument::Scalar(Scalar::Double(0.0)),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::None,
            Argument::Out(&mut out),
        ];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        let caches = caches.map(|cache| cache.data().unwrap().to_vec());
        (result.map(|()| out.data().unwrap()[0]), caches)
    }

    #[test]
    fn caches_are_written_only_without_errors() {
        assert_eq!(run(2), (Ok(5.0), [vec![6.0, 0.0], vec![6.0, 4.0]]));
        let expected = "a row-major mask of sizes [queries, keys]";
        let error = Error::InvalidArgument { index: 7, expected };
        assert_eq!(run(3), (Err(error), [vec![6.0, 2.0], vec![6.0, 2.0]]));
    }
}

//! `llama::custom_sdpa.out`: attention of queries over a KV cache.
//!
//! | argument       | type                   | shape                                   |
//! |----------------|------------------------|-----------------------------------------|
//! | `query`        | `f32`, `f16` or `bf16` | `[batch, queries, heads, head_dim]`     |
//! | `key`, `value` | as `query`             | `[batch, keys, key_heads, head_dim]`    |
//! | `start_pos`    | int                    | position of the first query in the keys |
//! | `attn_mask`    | `f32` tensor, optional | `[queries, keys]`                       |
//! | `drpout_p`     | 0                      |                                         |
//! | `is_causal`    | bool                   |                                         |
//! | `scale`        | number, optional       | default `1 / √head_dim`                 |
//! | `out`          | as `query`             | as `query`                              |
//!
//! All tensors are row-major, and `key_heads` divides `heads`. Computes
//! `softmax(scale · query · keyᵀ + attn_mask) · value` for each head. Without a mask, only the
//! first `start_pos + queries` keys are used, and with `is_causal`, each query uses no keys after
//! its own position. A query with all keys masked gives zeros, as in PyTorch; ExecuTorch's kernel
//! gives NaN. Half types compute in `f32`. Scratch memory grows with `head_dim` and, for up to 16
//! queries per head, with `heads`. Tolerance: 1e-5.
//! Errors: other sizes and dim orders, dropout, and a mask with `is_causal` are
//! [`Error::InvalidArgument`]; other dtypes are [`Error::InvalidType`].
//! Source: ExecuTorch `op_sdpa.cpp`; PyTorch `scaled_dot_product_attention`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::attention::{SdpaOperand, SdpaOptions, sdpa};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "llama::custom_sdpa.out",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::Tensor,
        Arg::Int,
        Arg::OptTensor,
        Arg::Double,
        Arg::Bool,
        Arg::OptDouble,
        Arg::Out,
    ],
    custom_sdpa,
)];

fn custom_sdpa(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = SdpaOptions::new(args, 3, 4)?;
    let operand = |index: u8| {
        let tensor = args.tensor(usize::from(index))?;
        Ok(SdpaOperand { tensor, index, quantization: None })
    };
    let operands = [operand(0)?, operand(1)?, operand(2)?];
    sdpa(cx, &operands, false, &options, (&mut args.out(8)?, 8))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    struct Case {
        start: i64,
        mask: Option<Tensor>,
        dropout: f64,
        is_causal: bool,
        scale: f64,
    }

    const PLAIN: Case = Case { start: 0, mask: None, dropout: 0.0, is_causal: false, scale: 1.0 };

    /// One head with `head_dim` 1, two zero queries, whose attention weights are uniform, and three
    /// values.
    #[track_caller]
    fn check(case: Case, expected: Result<&[f32], Error>) {
        let query = Tensor::zeros(ScalarType::Float, &[1, 2, 1, 1]);
        let key = Tensor::zeros(ScalarType::Float, &[1, 3, 1, 1]);
        let value = Tensor::new(&[1, 3, 1, 1], &[1.0_f32, 2.0, 6.0]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &[0; 4]);
        let mut arguments = [
            Argument::Tensor(&query),
            Argument::Tensor(&key),
            Argument::Tensor(&value),
            Argument::Scalar(Scalar::Int(case.start)),
            case.mask.as_ref().map_or(Argument::None, Argument::Tensor),
            Argument::Scalar(Scalar::Double(case.dropout)),
            Argument::Scalar(Scalar::Bool(case.is_causal)),
            Argument::Scalar(Scalar::Double(case.scale)),
            Argument::Out(&mut out),
        ];
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        assert_eq!(result.map(|()| out.data().unwrap()), expected);
    }

    #[test]
    fn keys_in_use() {
        check(PLAIN, Ok(&[1.5, 1.5]));
        check(Case { start: 1, ..PLAIN }, Ok(&[3.0, 3.0]));
        check(Case { is_causal: true, ..PLAIN }, Ok(&[1.0, 1.5]));
        check(Case { start: 1, is_causal: true, ..PLAIN }, Ok(&[1.5, 3.0]));
        let hidden = f32::NEG_INFINITY;
        let mask = [hidden, 0.0, 0.0, hidden, hidden, hidden];
        let mask = Some(Tensor::new(&[2, 3], &mask).unwrap());
        check(Case { mask, ..PLAIN }, Ok(&[4.0, 0.0]));
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let wrong = |index, expected| Err(Error::InvalidArgument { index, expected });
        let position = "a position, not a negative number";
        check(Case { start: -1, ..PLAIN }, wrong(3, position));
        let late = "at least `start_pos` + queries keys";
        check(Case { start: 2, ..PLAIN }, wrong(1, late));
        check(Case { start: i64::MAX, ..PLAIN }, wrong(1, late));
        check(Case { dropout: 0.5, ..PLAIN }, wrong(5, "0: dropout is not supported"));
        let mask = || Some(Tensor::zeros(ScalarType::Float, &[3, 2]));
        let shape = "a row-major mask of sizes [queries, keys]";
        check(Case { mask: mask(), ..PLAIN }, wrong(4, shape));
        let both = "no mask when `is_causal` is true";
        check(Case { mask: mask(), is_causal: true, ..PLAIN }, wrong(4, both));
    }
}

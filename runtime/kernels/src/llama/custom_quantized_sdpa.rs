//! `llama::custom_quantized_sdpa.out`: attention over quantized queries, keys and values.
//!
//! | argument                    | type                | shape                                |
//! |-----------------------------|---------------------|--------------------------------------|
//! | `query`                     | `i8` tensor         | `[batch, queries, heads, head_dim]`  |
//! | `key`, `value`              | `i8` tensor         | `[batch, keys, key_heads, head_dim]` |
//! | `start_pos` … `scale`       | as `custom_sdpa`    |                                      |
//! | `q_zero_points`, `q_scales` | `i8`, `f32` tensors | as `query`, last size 1              |
//! | `k_zero_points`, `k_scales` | `i8`, `f32` tensors | as `key`, last size 1                |
//! | `v_zero_points`, `v_scales` | `i8`, `f32` tensors | as `value`, last size 1              |
//! | `is_seq_at_dim_2`           | bool                | heads before positions               |
//! | `out`                       | `f32` tensor        | as `query`                           |
//!
//! Computes `custom_sdpa` of the dequantized tensors `(q - zero_point) · scale`. Tolerance: 1e-5.
//! Errors: as `custom_sdpa`; missing scales or zero points are [`Error::InvalidArgument`].
//! Source: ExecuTorch `op_sdpa.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::check_dtype,
    attention::{Quantization, SdpaOperand, SdpaOptions, sdpa},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "llama::custom_quantized_sdpa.out",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::Tensor,
        Arg::Int,
        Arg::OptTensor,
        Arg::Double,
        Arg::Bool,
        Arg::OptDouble,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::OptTensor,
        Arg::Bool,
        Arg::Out,
    ],
    custom_quantized_sdpa,
)];

fn custom_quantized_sdpa(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = SdpaOptions::new(args, 3, 4)?;
    let operand = |index: u8| {
        let tensor = args.tensor(usize::from(index))?;
        check_dtype(tensor.dtype(), ScalarType::Char, index)?;
        let quantization = Quantization::new(args, 8 + 2 * index, &tensor)?;
        Ok(SdpaOperand { tensor, index, quantization: Some(quantization) })
    };
    let operands = [operand(0)?, operand(1)?, operand(2)?];
    let heads_first = args.bool(14)?;
    sdpa(cx, &operands, heads_first, &options, (&mut args.out(15)?, 15))
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[test]
    fn a_0d_tensor_is_rejected() {
        let x = Tensor::zeros(ScalarType::Char, &[]);
        let zero_points = Tensor::zeros(ScalarType::Char, &[1]);
        let scales = Tensor::zeros(ScalarType::Float, &[1]);
        let mut out = Tensor::zeros(ScalarType::Float, &[0; 4]);
        let (number, pair) = (Argument::Scalar, [&zero_points, &scales].map(Argument::Tensor));
        let mut arguments: Vec<_> = [&x; 3].map(Argument::Tensor).into_iter().collect();
        arguments.extend([number(Scalar::Int(0)), Argument::None, number(Scalar::Double(0.0))]);
        arguments.extend([number(Scalar::Bool(false)), Argument::None]);
        arguments.extend(pair);
        arguments.extend([const { Argument::None }; 4]);
        arguments.extend([number(Scalar::Bool(false)), Argument::Out(&mut out)]);
        let expected = "row-major, with one parameter for each row of the tensor";
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        assert_eq!(result, Err(Error::InvalidArgument { index: 8, expected }));
    }
}

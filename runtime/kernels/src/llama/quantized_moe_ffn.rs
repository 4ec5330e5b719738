//! `llama::quantized_moe_ffn.out`: mixture-of-experts feed-forward layer with quantized weights.
//!
//! | argument                           | type                       | shape                     |
//! |------------------------------------|----------------------------|---------------------------|
//! | `x`                                | `f32` tensor               | `[tokens, dim]`           |
//! | `gate_weight`                      | `f32` tensor               | `[num_experts, dim]`      |
//! | `expert_bias`                      | `f32` tensor               | `[num_experts]`, or empty |
//! | `packed_w13`                       | `u8` tensor                | `[num_experts, bytes]`    |
//! | `packed_w2`                        | `u8` tensor                | `[num_experts, bytes]`    |
//! | `num_activated_experts`            | int                        | experts per token         |
//! | `num_experts`, `hidden_dim`, `dim` | ints                       |                           |
//! | `group_size`                       | int, a multiple of 16      | columns per scale         |
//! | `weight_nbit`                      | 4 or 8                     |                           |
//! | `score_func`                       | `"sigmoid"` or `"softmax"` |                           |
//! | `route_scale`                      | number                     |                           |
//! | `out`                              | `f32` tensor               | as `x`                    |
//!
//! All tensors are row-major. The packed tensors are matrices of sizes `[2 · hidden_dim, dim]` and
//! `[dim, hidden_dim]` for each expert. Scores are `gate_weight · x`.
//!
//! With `"sigmoid"`, a token activates the experts with the largest `sigmoid(score) + expert_bias`.
//! Their weights are `sigmoid(score)`, divided by their sum, times `route_scale`. With `"softmax"`,
//! it activates the experts with the largest scores; their weights are the softmax of these scores.
//! Ties prefer the first expert, and NaN comes last. An expert computes `w2 · (silu(u) · g)`, where
//! `u` and `g` are the halves of `w13 · x`. Activations stay `f32`, as in ExecuTorch's kernel on
//! x86.
//!
//! Scratch memory: scores and one hidden row. Tolerance: 1e-4 relative.
//! Errors: other sizes, dim orders and values are [`Error::InvalidArgument`]; other dtypes are
//! [`Error::DtypeMismatch`].
//! Source: ExecuTorch `op_moe.cpp`.

use core::cmp::Ordering;

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, TensorView};

use crate::shared::{
    accumulator::{check_dtype, sum},
    packed_weights::{Format, PackedWeights},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "llama::quantized_moe_ffn.out",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::Tensor,
        Arg::Tensor,
        Arg::Tensor,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Str,
        Arg::Double,
        Arg::Out,
    ],
    quantized_moe_ffn_out,
)];

fn quantized_moe_ffn_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let layer = Layer::new(args)?;
    let x = args.tensor(0)?;
    let mut out = args.out(13)?;
    check_dtype(out.dtype(), x.dtype(), 13)?;
    out.resize(x.sizes())?;
    let experts = layer.experts();
    let len = layer.hidden.checked_mul(2).and_then(|len| len.checked_add(experts.checked_mul(3)?));
    let scratch = cx.scratch::<f32>(len.ok_or(Error::OutOfResources { bytes: usize::MAX })?)?;
    let (scores, rest) = scratch.split_at_mut(experts);
    let (order, rest) = rest.split_at_mut(experts);
    let (ranking, hidden) = rest.split_at_mut(experts);
    let order: &mut [u32] = bytemuck::cast_slice_mut(order);
    let rows = x.data::<f32>()?.chunks(layer.dim).zip(out.data_mut::<f32>()?.chunks_mut(layer.dim));
    for (x, out) in rows {
        for (score, weight) in scores.iter_mut().zip(layer.gate.chunks(layer.dim)) {
            *score = dot(weight, x);
        }
        layer.route(scores, ranking, order);
        out.fill(0.0);
        for (&expert, &weight) in order.iter().zip(&*scores).take(layer.activated) {
            layer.add_expert(expert as usize, x, hidden, weight, out)?;
        }
    }
    Ok(())
}

/// Score function of the router.
#[derive(Clone, Copy)]
enum Scoring<'a> {
    Sigmoid { bias: &'a [f32], route_scale: f32 },
    Softmax,
}

/// Checked arguments.
struct Layer<'a> {
    dim: usize,
    hidden: usize,
    activated: usize,
    gate: &'a [f32],
    up: (Format, TensorView<'a>),
    down: (Format, TensorView<'a>),
    scoring: Scoring<'a>,
}

impl<'a> Layer<'a> {
    fn new(args: &Args<'a>) -> Result<Self, Error> {
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let positive = |index: u8| {
            let value = usize::try_from(args.int(usize::from(index))?).ok();
            value.filter(|&value| value > 0).ok_or(wrong(index, "a positive number"))
        };
        let tensor = |index: u8| {
            let tensor = args.tensor(usize::from(index))?;
            if tensor.is_contiguous() {
                Ok(tensor)
            } else {
                Err(wrong(index, "a row-major tensor"))
            }
        };
        let (activated, experts, hidden, dim) =
            (positive(5)?, positive(6)?, positive(7)?, positive(8)?);
        let (group_size, bits) = (positive(9)?, positive(10)?);
        if activated > experts {
            return Err(wrong(5, "at most `num_experts`"));
        }
        if !matches!(*tensor(0)?.sizes(), [_, last] if last == dim) {
            return Err(wrong(0, "sizes [tokens, dim]"));
        }
        if *tensor(1)?.sizes() != [experts, dim] || u32::try_from(experts).is_err() {
            return Err(wrong(1, "sizes [num_experts, dim]"));
        }
        let bias = tensor(2)?.data::<f32>()?;
        if !bias.is_empty() && *tensor(2)?.sizes() != [experts] {
            return Err(wrong(2, "sizes [num_experts], or an empty tensor"));
        }
        let scoring = match args.opt_str(11)? {
            Some("sigmoid") => Scoring::Sigmoid { bias, route_scale: args.double(12)? as f32 },
            Some("softmax") if bias.is_empty() => Scoring::Softmax,
            Some("softmax") => {
                return Err(wrong(2, "an empty tensor with the score function \"softmax\""));
            }
            _ => return Err(wrong(11, "\"sigmoid\" or \"softmax\"")),
        };
        let twice = hidden.checked_mul(2).ok_or(wrong(7, "a smaller size"))?;
        let packed = |index, rows, columns| {
            let format = Format { rows, columns, group_size, bits };
            let pair = (format, tensor(index)?);
            let len = pair.1.sizes().last().copied().unwrap_or(0);
            let is_packed = *pair.1.sizes() == [experts, len] && expert_weights(&pair, 0).is_ok();
            if is_packed { Ok(pair) } else { Err(wrong(index, NOT_PACKED)) }
        };
        let (up, down) = (packed(3, twice, dim)?, packed(4, dim, hidden)?);
        let gate = tensor(1)?.data::<f32>()?;
        Ok(Self { dim, hidden, activated, gate, up, down, scoring })
    }

    fn experts(&self) -> usize {
        self.gate.len() / self.dim
    }

    /// Sorts the experts by rank into `order` and replaces the first `scores` by the weights of the
    /// activated experts. `ranking` is scratch memory.
    fn route(&self, scores: &mut [f32], ranking: &mut [f32], order: &mut [u32]) {
        if let Scoring::Sigmoid { bias, .. } = self.scoring {
            scores.iter_mut().for_each(|score| *score = sigmoid(*score));
            ranking.copy_from_slice(scores);
            ranking.iter_mut().zip(bias).for_each(|(rank, bias)| *rank += bias);
        } else {
            ranking.copy_from_slice(scores);
        }
        order.iter_mut().zip(0..).for_each(|(entry, expert)| *entry = expert);
        order.sort_unstable_by(|&a, &b| {
            let (x, y) = (ranking[a as usize], ranking[b as usize]);
            let nan_last = x.is_nan().cmp(&y.is_nan());
            let descending = y.partial_cmp(&x).unwrap_or(Ordering::Equal);
            nan_last.then(descending).then(a.cmp(&b))
        });
        for (rank, &expert) in ranking.iter_mut().zip(&*order).take(self.activated) {
            *rank = scores[expert as usize];
        }
        let weights = &mut scores[..self.activated];
        weights.copy_from_slice(&ranking[..self.activated]);
        let scale = match self.scoring {
            Scoring::Sigmoid { route_scale, .. } => {
                let total = sum(weights);
                route_scale / if total < f32::MIN_POSITIVE { f32::MIN_POSITIVE } else { total }
            }
            Scoring::Softmax => {
                let max =
                    weights.iter().fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max });
                weights.iter_mut().for_each(|weight| *weight = libm::expf(*weight - max));
                1.0 / sum(weights)
            }
        };
        weights.iter_mut().for_each(|weight| *weight *= scale);
    }

    /// Adds the output of expert `expert`, times `weight`, to `out`.
    fn add_expert(
        &self,
        expert: usize,
        x: &[f32],
        hidden: &mut [f32],
        weight: f32,
        out: &mut [f32],
    ) -> Result<(), Error> {
        hidden.fill(0.0);
        expert_weights(&self.up, expert)?.add_product(x, hidden);
        let (up, gate) = hidden.split_at_mut(self.hidden);
        for (up, gate) in up.iter_mut().zip(&*gate) {
            *up = *up * sigmoid(*up) * gate * weight;
        }
        expert_weights(&self.down, expert)?.add_product(up, out);
        Ok(())
    }
}

/// Packed weights of one expert.
fn expert_weights<'a>(
    &(format, packed): &(Format, TensorView<'a>),
    expert: usize,
) -> Result<PackedWeights<'a>, Error> {
    let len = packed.sizes().last().copied().unwrap_or(0);
    let bytes = packed.data::<u8>()?.chunks(len.max(1)).nth(expert);
    bytes
        .and_then(|bytes| format.parse(bytes))
        .ok_or(Error::InvalidArgument { index: 3, expected: NOT_PACKED })
}

const NOT_PACKED: &str = "packed weights of these sizes, group size and bits";

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(scoring: &str, values: [i64; 6], packed: &Tensor, expected: Error) {
        let x = Tensor::zeros(ScalarType::Float, &[1, 16]);
        let gate = Tensor::zeros(ScalarType::Float, &[2, 16]);
        let bias = Tensor::zeros(ScalarType::Float, &[0]);
        let mut out = Tensor::zeros(ScalarType::Float, &[1, 16]);
        let mut arguments: Vec<_> =
            [&x, &gate, &bias, packed, packed].map(Argument::Tensor).into_iter().collect();
        arguments.extend(values.map(|value| Argument::Scalar(Scalar::Int(value))));
        arguments.extend([
            Argument::Str(scoring),
            Argument::Scalar(Scalar::Double(1.0)),
            Argument::Out(&mut out),
        ]);
        assert_eq!(Call::new(&KERNELS[0]).run(&mut arguments), Err(expected));
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let packed = Tensor::zeros(ScalarType::Byte, &[2, 8]);
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        check("sigmoid", [1, 2, 16, 16, 16, 4], &packed, wrong(3, NOT_PACKED));
        check("top", [1, 2, 16, 16, 16, 4], &packed, wrong(11, "\"sigmoid\" or \"softmax\""));
        check("softmax", [3, 2, 16, 16, 16, 4], &packed, wrong(5, "at most `num_experts`"));
        for at in 0..6 {
            for value in [0, -1, i64::MIN] {
                let mut values = [1, 2, 16, 16, 16, 4];
                values[at] = value;
                let index = 5 + u8::try_from(at).unwrap();
                check("softmax", values, &packed, wrong(index, "a positive number"));
            }
        }
    }
}

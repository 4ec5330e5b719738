//! `llama::quantized_moe_ffn.out`: a layer of experts, some of which each token chooses.
//!
//! | argument                | type                      | shape                              |
//! |-------------------------|---------------------------|------------------------------------|
//! | `x`                     | `f32` tensor              | `[tokens, dim]`                    |
//! | `gate_weight`           | `f32` tensor              | `[num_experts, dim]`               |
//! | `expert_bias`           | `f32` tensor              | `[num_experts]`, or empty          |
//! | `packed_w13`            | `u8` tensor               | `[num_experts, bytes]`             |
//! | `packed_w2`             | `u8` tensor               | `[num_experts, bytes]`             |
//! | `num_activated_experts` | int                       | of a token                         |
//! | `num_experts`, `hidden_dim`, `dim` | ints           |                                    |
//! | `group_size`            | int, a multiple of 16     | columns that share a scale         |
//! | `weight_nbit`           | 4 or 8                    |                                    |
//! | `score_func`            | `"sigmoid"` or `"softmax"` |                                   |
//! | `route_scale`           | number                    |                                    |
//! | `out`                   | `f32` tensor              | as `x`                             |
//!
//! All tensors are row-major; the packed ones hold matrices of `[2 · hidden_dim, dim]` and
//! `[dim, hidden_dim]`. Scores are `gate_weight · x`. With `"sigmoid"` a token takes the experts
//! with the largest `sigmoid(score) + expert_bias` and weighs them by `sigmoid(score)`, divided by
//! their sum, times `route_scale`; with `"softmax"` those with the largest scores, weighed by the
//! softmax over these. Of equal ones the first is taken; NaN comes last. An expert computes
//! `w2 · (silu(u) · g)`, where `u` and `g` are the halves of `w13 · x`. Activations stay `f32`, as
//! in the official kernel on x86. Takes scratch memory for the scores and one hidden row.
//! Tolerance: 1e-4 relative. Errors: other sizes, dim orders and values are
//! [`Error::InvalidArgument`], other dtypes [`Error::DtypeMismatch`].
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
    let layer = Layer::of(args)?;
    let x = args.tensor(0)?;
    let mut out = args.out(13)?;
    check_dtype(out.dtype(), x.dtype(), 13)?;
    out.resize(x.sizes())?;
    let experts = layer.experts();
    let len = layer.hidden.checked_mul(2).and_then(|len| len.checked_add(experts.checked_mul(3)?));
    let scratch = cx.scratch::<f32>(len.ok_or(Error::OutOfResources { bytes: usize::MAX })?)?;
    let (scores, rest) = scratch.split_at_mut(experts);
    let (order, rest) = rest.split_at_mut(experts);
    let (chances, hidden) = rest.split_at_mut(experts);
    let order: &mut [u32] = bytemuck::cast_slice_mut(order);
    let rows = x.data::<f32>()?.chunks(layer.dim).zip(out.data_mut::<f32>()?.chunks_mut(layer.dim));
    for (x, out) in rows {
        for (score, weight) in scores.iter_mut().zip(layer.gate.chunks(layer.dim)) {
            *score = dot(weight, x);
        }
        layer.choose(scores, chances, order);
        out.fill(0.0);
        for (&expert, &share) in order.iter().zip(&*scores).take(layer.chosen) {
            layer.expert(expert as usize, x, hidden, share, out)?;
        }
    }
    Ok(())
}

/// How tokens choose experts.
#[derive(Clone, Copy)]
enum Scoring<'a> {
    Sigmoid { bias: &'a [f32], route_scale: f32 },
    Softmax,
}

/// The arguments, which fit together.
struct Layer<'a> {
    dim: usize,
    hidden: usize,
    chosen: usize,
    gate: &'a [f32],
    up: (Format, TensorView<'a>),
    down: (Format, TensorView<'a>),
    scoring: Scoring<'a>,
}

impl<'a> Layer<'a> {
    fn of(args: &Args<'a>) -> Result<Self, Error> {
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
        let (chosen, experts, hidden, dim) =
            (positive(5)?, positive(6)?, positive(7)?, positive(8)?);
        let (group, bits) = (positive(9)?, positive(10)?);
        if chosen > experts {
            return Err(wrong(5, "no more experts than there are"));
        }
        if !matches!(*tensor(0)?.sizes(), [_, last] if last == dim) {
            return Err(wrong(0, "rows of the size that argument 8 gives"));
        }
        if *tensor(1)?.sizes() != [experts, dim] || u32::try_from(experts).is_err() {
            return Err(wrong(1, "a row for each expert"));
        }
        let bias = tensor(2)?.data::<f32>()?;
        if !bias.is_empty() && *tensor(2)?.sizes() != [experts] {
            return Err(wrong(2, "an element for each expert, or none"));
        }
        let scoring = match args.opt_str(11)? {
            Some("sigmoid") => Scoring::Sigmoid { bias, route_scale: args.double(12)? as f32 },
            Some("softmax") if bias.is_empty() => Scoring::Softmax,
            Some("softmax") => return Err(wrong(2, "no element when the scoring is softmax")),
            _ => return Err(wrong(11, "\"sigmoid\" or \"softmax\"")),
        };
        let twice = hidden.checked_mul(2).ok_or(wrong(7, "a smaller number"))?;
        let packed = |index, rows, columns| {
            let format = Format { rows, columns, group_size: group, bits };
            let pair = (format, tensor(index)?);
            let len = pair.1.sizes().last().copied().unwrap_or(0);
            let fits = *pair.1.sizes() == [experts, len] && matrix(&pair, 0).is_ok();
            if fits { Ok(pair) } else { Err(wrong(index, NOT_PACKED)) }
        };
        let (up, down) = (packed(3, twice, dim)?, packed(4, dim, hidden)?);
        let gate = tensor(1)?.data::<f32>()?;
        Ok(Self { dim, hidden, chosen, gate, up, down, scoring })
    }

    fn experts(&self) -> usize {
        self.gate.len() / self.dim
    }

    /// Sorts the experts so that the chosen ones are the first of `order`, and replaces the first
    /// of `scores` by their shares.
    fn choose(&self, scores: &mut [f32], chances: &mut [f32], order: &mut [u32]) {
        if let Scoring::Sigmoid { bias, .. } = self.scoring {
            scores.iter_mut().for_each(|score| *score = sigmoid(*score));
            chances.copy_from_slice(scores);
            chances.iter_mut().zip(bias).for_each(|(chance, bias)| *chance += bias);
        } else {
            chances.copy_from_slice(scores);
        }
        order.iter_mut().zip(0..).for_each(|(place, expert)| *place = expert);
        order.sort_unstable_by(|&a, &b| {
            let (x, y) = (chances[a as usize], chances[b as usize]);
            let worse = x.is_nan().cmp(&y.is_nan());
            let larger = y.partial_cmp(&x).unwrap_or(Ordering::Equal);
            worse.then(larger).then(a.cmp(&b))
        });
        for (chance, &expert) in chances.iter_mut().zip(&*order).take(self.chosen) {
            *chance = scores[expert as usize];
        }
        let shares = &mut scores[..self.chosen];
        shares.copy_from_slice(&chances[..self.chosen]);
        let scale = match self.scoring {
            Scoring::Sigmoid { route_scale, .. } => {
                let total = sum(shares);
                route_scale / if total < f32::MIN_POSITIVE { f32::MIN_POSITIVE } else { total }
            }
            Scoring::Softmax => {
                let max =
                    shares.iter().fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max });
                shares.iter_mut().for_each(|share| *share = libm::expf(*share - max));
                1.0 / sum(shares)
            }
        };
        shares.iter_mut().for_each(|share| *share *= scale);
    }

    /// Adds the result of an expert, times its share, to `out`.
    fn expert(
        &self,
        expert: usize,
        x: &[f32],
        hidden: &mut [f32],
        share: f32,
        out: &mut [f32],
    ) -> Result<(), Error> {
        hidden.fill(0.0);
        matrix(&self.up, expert)?.add_product(x, hidden);
        let (up, gate) = hidden.split_at_mut(self.hidden);
        for (up, gate) in up.iter_mut().zip(&*gate) {
            *up = *up * sigmoid(*up) * gate * share;
        }
        matrix(&self.down, expert)?.add_product(up, out);
        Ok(())
    }
}

/// The matrix of one expert.
fn matrix<'a>(
    &(format, packed): &(Format, TensorView<'a>),
    expert: usize,
) -> Result<PackedWeights<'a>, Error> {
    let len = packed.sizes().last().copied().unwrap_or(0);
    let bytes = packed.data::<u8>()?.chunks(len.max(1)).nth(expert);
    bytes
        .and_then(|bytes| format.parse(bytes))
        .ok_or(Error::InvalidArgument { index: 3, expected: NOT_PACKED })
}

const NOT_PACKED: &str = "packed weights of the sizes, groups and bits that the call names";

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
    fn what_does_not_fit_is_refused() {
        let packed = Tensor::zeros(ScalarType::Byte, &[2, 8]);
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        check("sigmoid", [1, 2, 16, 16, 16, 4], &packed, wrong(3, NOT_PACKED));
        check("top", [1, 2, 16, 16, 16, 4], &packed, wrong(11, "\"sigmoid\" or \"softmax\""));
        check(
            "softmax",
            [3, 2, 16, 16, 16, 4],
            &packed,
            wrong(5, "no more experts than there are"),
        );
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

//! `llama::gated_delta_rule.out`: linear attention with the gated delta rule.
//!
//! | argument          | type         | shape                                             |
//! |-------------------|--------------|---------------------------------------------------|
//! | `query`           | `f32` tensor | `[batch, heads, time, k]`                         |
//! | `key`             | `f32` tensor | `[batch, key_heads, time, k]`                     |
//! | `value`           | `f32` tensor | `[batch, key_heads, time, v]`                     |
//! | `decay`           | `f32` tensor | `[batch, key_heads, time, k]`, last size optional |
//! | `beta`            | `f32` tensor | `[batch, key_heads, time]`                        |
//! | `initial_state`   | `f32` tensor | `[batch, key_heads, k, v]`                        |
//! | `out`             | `f32` tensor | `[batch, heads, time, v]`                         |
//! | `final_state_out` | `f32` tensor | as `initial_state`                                |
//!
//! All tensors are row-major, and `key_heads` divides `heads`. `S` starts as the initial state.
//! Each time step computes `S = diag(decay) S`, then `S = S + key ⊗ beta (value - Sᵀ key)`, and
//! `out = Sᵀ query`. Scratch memory: one row of the state. Tolerance: 1e-4, because ExecuTorch's
//! kernel computes 32 time steps at once.
//! Errors: other sizes or dim orders are [`Error::InvalidArgument`]; other dtypes are
//! [`Error::InvalidType`].
//! Source: Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464; ExecuTorch `op_sdpa.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, TensorView};

use crate::shared::accumulator::check_dtype;

pub(super) const ARGS: &[Arg] = &[
    Arg::Tensor,
    Arg::Tensor,
    Arg::Tensor,
    Arg::Tensor,
    Arg::Tensor,
    Arg::Tensor,
    Arg::Out,
    Arg::Out,
];

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("llama::gated_delta_rule.out", ARGS, gated_delta_rule)];

pub(super) fn gated_delta_rule(
    cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
) -> Result<(), Error> {
    let sizes = Sizes::new(args)?;
    let Sizes { batch, heads, key_heads, time, k, v, .. } = sizes;
    let read = |index| args.tensor(index)?.data::<f32>();
    let [query, key, value, decay, beta] = [read(0)?, read(1)?, read(2)?, read(3)?, read(4)?];
    let initial = read(5)?;
    let [mut out, mut state] = args.outs([6, 7])?;
    for (tensor, index) in [(&out, 6), (&state, 7)] {
        check_dtype(tensor.dtype(), afferent_core::ScalarType::Float, index)?;
        if !tensor.is_contiguous() {
            return Err(Error::InvalidArgument { index, expected: "a row-major tensor" });
        }
    }
    out.resize(&[batch, heads, time, v])?;
    state.resize(&[batch, key_heads, k, v])?;
    let error = cx.scratch::<f32>(v)?;
    let (out, state) = (out.data_mut::<f32>()?, state.data_mut::<f32>()?);
    state.copy_from_slice(initial);
    if out.is_empty() && state.is_empty() {
        return Ok(());
    }
    let heads_per_key = heads / key_heads;
    for head in 0..batch * key_heads {
        let state = &mut state[head * k * v..][..k * v];
        for t in 0..time {
            let row = head * time + t;
            let decay = &decay[row * sizes.decays..][..sizes.decays];
            let key = &key[row * k..][..k];
            let update = Update { decay, key, value: &value[row * v..][..v], beta: beta[row] };
            update.apply(state, error);
            for head in head * heads_per_key..(head + 1) * heads_per_key {
                let row = head * time + t;
                multiply_query(state, &query[row * k..][..k], &mut out[row * v..][..v]);
            }
        }
    }
    Ok(())
}

/// Sizes of the arguments.
struct Sizes {
    batch: usize,
    heads: usize,
    key_heads: usize,
    time: usize,
    k: usize,
    v: usize,
    /// Decays per time step: 1, or one for each row of the state.
    decays: usize,
}

impl Sizes {
    fn new(args: &Args<'_>) -> Result<Self, Error> {
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let tensor = |index: u8| {
            let tensor: TensorView<'_> = args.tensor(usize::from(index))?;
            check_dtype(tensor.dtype(), afferent_core::ScalarType::Float, index)?;
            if tensor.is_contiguous() {
                Ok(tensor.sizes())
            } else {
                Err(wrong(index, "a row-major tensor"))
            }
        };
        let &[batch, heads, time, k] = tensor(0)? else {
            return Err(wrong(0, "a tensor [batch, heads, time, size]"));
        };
        let &[.., v] = tensor(2)? else {
            return Err(wrong(2, "a tensor [batch, heads, time, size]"));
        };
        let key_heads = tensor(1)?.get(1).copied().unwrap_or(0);
        if key_heads == 0 || !heads.is_multiple_of(key_heads) {
            return Err(wrong(1, "a number of heads that divides that of the query"));
        }
        let decays = match tensor(3)?.len() {
            3 => 1,
            _ => k,
        };
        let expected: [(u8, &[usize]); 5] = [
            (1, &[batch, key_heads, time, k]),
            (2, &[batch, key_heads, time, v]),
            (3, &[batch, key_heads, time, k][..if tensor(3)?.len() == 3 { 3 } else { 4 }]),
            (4, &[batch, key_heads, time]),
            (5, &[batch, key_heads, k, v]),
        ];
        for (index, sizes) in expected {
            if tensor(index)? != sizes {
                return Err(wrong(index, "sizes that match the query, the key and the value"));
            }
        }
        Ok(Self { batch, heads, key_heads, time, k, v, decays })
    }
}

/// Update of a state in one time step. The state has one row for each element of the key.
struct Update<'a> {
    decay: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
    beta: f32,
}

impl Update<'_> {
    /// Applies the update to `state`. `error` is scratch memory for one row.
    fn apply(&self, state: &mut [f32], error: &mut [f32]) {
        let width = error.len().max(1);
        let decay = |row: usize| self.decay[row.min(self.decay.len() - 1)];
        error.copy_from_slice(self.value);
        for (row, (state, &key)) in state.chunks_mut(width).zip(self.key).enumerate() {
            let decay = decay(row);
            for (state, error) in state.iter_mut().zip(&mut *error) {
                *state *= decay;
                *error -= *state * key;
            }
        }
        for (state, &key) in state.chunks_mut(width).zip(self.key) {
            let factor = self.beta * key;
            state.iter_mut().zip(&*error).for_each(|(state, error)| *state += factor * error);
        }
    }
}

/// Computes `out = stateᵀ query`.
fn multiply_query(state: &[f32], query: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    for (state, query) in state.chunks(out.len().max(1)).zip(query) {
        out.iter_mut().zip(state).for_each(|(out, state)| *out += query * state);
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(decay: &Tensor, expected: Result<(&[f32], &[f32]), Error>) {
        let tensor = |sizes: &[usize], data: &[f32]| Tensor::new(sizes, data).unwrap();
        let query = tensor(&[1, 1, 2, 2], &[1.0, 0.0, 1.0, 1.0]);
        let key = tensor(&[1, 1, 2, 2], &[1.0, 0.0, 0.0, 1.0]);
        let value = tensor(&[1, 1, 2, 1], &[3.0, 5.0]);
        let beta = tensor(&[1, 1, 2], &[1.0, 0.5]);
        let state = tensor(&[1, 1, 2, 1], &[2.0, 4.0]);
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0, 0]);
        let mut last = Tensor::zeros(ScalarType::Float, &[0, 0, 0, 0]);
        let mut arguments =
            [&query, &key, &value, decay, &beta, &state].map(Argument::Tensor).into_iter();
        let mut arguments: Vec<_> = arguments.by_ref().collect();
        arguments.extend([Argument::Out(&mut out), Argument::Out(&mut last)]);
        let result = Call::new(&KERNELS[0]).run(&mut arguments);
        drop(arguments);
        assert_eq!(result.map(|()| (out.data().unwrap(), last.data().unwrap())), expected);
    }

    #[test]
    fn values() {
        // First time step: S = [1, 2], plus 1 · (3 - 1) in row 0. Second: S = [1.5, 1], plus
        // 0.5 · (5 - 1) in row 1.
        let decay = Tensor::new(&[1, 1, 2], &[0.5_f32, 0.5]).unwrap();
        check(&decay, Ok((&[3.0, 4.5], &[1.5, 3.0])));
        let decay = Tensor::new(&[1, 1, 2, 2], &[0.5_f32, 0.0, 1.0, 1.0]).unwrap();
        check(&decay, Ok((&[3.0, 5.5], &[3.0, 2.5])));
    }

    #[test]
    fn other_sizes_are_rejected() {
        let expected = "sizes that match the query, the key and the value";
        let decay = Tensor::new(&[1, 1, 1], &[0.5_f32]).unwrap();
        check(&decay, Err(Error::InvalidArgument { index: 3, expected }));
    }
}

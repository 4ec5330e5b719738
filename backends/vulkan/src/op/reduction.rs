//! Reductions over dimensions.

use super::{Operator, rows};
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::Shader,
    shape::{product, strides, wrap_dim},
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.mean.dim", 5, |r, c| reduce(r, c, &MEAN)),
    Operator::new("aten.sum.dim_IntList", 5, |r, c| reduce(r, c, &SUM)),
    Operator::new("aten.amax.default", 4, |r, c| reduce(r, c, &MAX)),
    Operator::new("aten.amin.default", 4, |r, c| reduce(r, c, &MIN)),
    Operator::new("aten.argmax.default", 4, |r, c| reduce(r, c, &ARGMAX)),
    Operator::new("aten.argmin.default", 4, |r, c| reduce(r, c, &ARGMIN)),
];

/// Source of a reduction.
struct Reduction {
    start: &'static str,
    /// Statement that adds element `v` with number `k` to the state.
    step: &'static str,
    /// Expression of the result.
    end: &'static str,
}

const SUM: Reduction =
    Reduction { start: "var s = 0.0;", step: "s += v;", end: "sum_lanes(s, lane)" };
const MEAN: Reduction =
    Reduction { start: "var s = 0.0;", step: "s += v;", end: "sum_lanes(s, lane) / f32(count)" };
const MAX: Reduction = Reduction {
    start: "var s = -3.4028234e38;",
    step: "s = max(s, v);",
    end: "max_lanes(s, lane)",
};
const MIN: Reduction = Reduction {
    start: "var s = 3.4028234e38;",
    step: "s = min(s, v);",
    end: "-max_lanes(-s, lane)",
};
const ARGMAX: Reduction = Reduction {
    start: "var s = -3.4028234e38;\nvar at = 0u;",
    step: "if k == lane || v > s { s = v; at = k; }",
    end: "-max_lanes(select(-3e38, -f32(at), s == max_lanes(s, lane)), lane)",
};
const ARGMIN: Reduction = Reduction {
    start: "var s = 3.4028234e38;\nvar at = 0u;",
    step: "if k == lane || v < s { s = v; at = k; }",
    end: "-max_lanes(select(-3e38, -f32(at), -s == max_lanes(-s, lane)), lane)",
};

/// Largest number of elements whose numbers `f32` holds.
const MAX_INDEX: usize = 1 << 24;

/// Args: tensor, dims, keepdim, a dtype for some, out.
fn reduce(recorder: &mut Recorder<'_, '_>, call: &Call, reduction: &Reduction) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    let dims = if recorder.is_null(call, 1) { vec![] } else { recorder.ints(call, 1)? };
    let mut is_reduced = vec![dims.is_empty(); sizes.len()];
    for dim in dims {
        if let Some(is_reduced) = is_reduced.get_mut(wrap_dim(dim, sizes.len())?) {
            *is_reduced = true;
        }
    }
    let keep = recorder.bool(call, 2)?;
    let own: Vec<i64> = strides(&sizes).into_iter().map(|stride| stride as i64).collect();
    let split = |wanted: bool| -> (Vec<usize>, Vec<i64>) {
        let dims = (0..sizes.len()).filter(|dim| is_reduced[*dim] == wanted);
        dims.map(|dim| (sizes[dim], own[dim])).unzip()
    };
    let (reduced, reduced_strides) = split(true);
    let (kept, kept_strides) = split(false);
    let out = if keep {
        let size = |(size, is_reduced): (&usize, &bool)| if *is_reduced { 1 } else { *size };
        sizes.iter().zip(&is_reduced).map(size).collect()
    } else {
        kept.clone()
    };
    recorder.set_sizes(output, &out)?;
    let count = product(&reduced);
    if count >= MAX_INDEX && reduction.start.contains("at") {
        return Err("searches more than 16,777,216 elements");
    }
    let ty = recorder.ty(output)?;
    if ty.is_packed() {
        return Err("has a result of one-byte elements");
    }
    let target = recorder.target(output);
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("base + offset(k)");
    shader.output_at(target, ty);
    let offset = shader.index(&reduced, &[("o", reduced_strides, 0)]);
    shader.declare(&format!("fn offset(i: u32) -> u32 {{\n{offset}return o;\n}}"));
    let base = shader.index(&kept, &[("o", kept_strides, 0)]);
    shader.declare(&format!("fn first(i: u32) -> u32 {{\n{base}return o;\n}}"));
    let n = shader.u32(count);
    let Reduction { start, step, end } = reduction;
    let element = if ty == DeviceType::F32 { "f32" } else { "i32" };
    let body = format!(
        "let count = {n};
    let base = first(row);
    {start}
    for (var k = lane; k < count; k += LANES) {{ let v = {x}; {step} }}
    let result = {end};
    if lane == 0u {{ y[row] = {element}(result); }}"
    );
    rows::finish(shader, product(&kept), &body)
}

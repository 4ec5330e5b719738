//! Attention, caches of keys and values, and rotary embeddings.

use super::{
    Operator,
    matmul::{self, Destination, Sizes},
    rows,
};
use crate::{
    graph::{Call, DeviceType, Value},
    recorder::{OpResult, Recorder, Target},
    shader::Shader,
    shape::{broadcast, broadcast_strides, product},
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("sdpa_with_kv_cache.default", 12, sdpa_with_cache).writing(&[3, 4]),
    Operator::new("llama.sdpa_with_kv_cache.default", 12, sdpa_with_cache).writing(&[3, 4]),
    Operator::new("update_cache.default", 4, update_cache).writing(&[1]),
    Operator::new("llama.update_cache.default", 4, update_cache).writing(&[1]),
    Operator::new("custom_sdpa.default", 9, custom_sdpa),
    Operator::new("llama.custom_sdpa.default", 9, custom_sdpa),
    Operator::new("et_vk.sdpa.default", 6, sdpa),
    Operator::new("et_vk.apply_rotary_emb.default", 5, rotary),
    Operator::new("et_vk.apply_rotary_emb_hf.default", 6, rotary_hf),
    Operator::new("et_vk.apply_rotary_emb_interleaved.default", 3, rotary_interleaved),
];

/// Writes `value` `[1, s, heads, d]` into `cache` `[1, c, heads, d]` from position `position` on.
fn write_cache(
    recorder: &mut Recorder<'_, '_>,
    value: usize,
    cache: usize,
    position: i64,
) -> OpResult {
    let (sizes, cache_sizes) = (recorder.sizes(value)?, recorder.sizes(cache)?);
    let ([1, s, rest @ ..], [1, c, cache_rest @ ..]) = (&sizes[..], &cache_sizes[..]) else {
        return Err("has a cache of more than one batch");
    };
    let position = usize::try_from(position).map_err(|_| "has a negative position")?;
    if rest != cache_rest || position.checked_add(*s).is_none_or(|end| end > *c) {
        return Err("writes past the end of its cache");
    }
    if recorder.ty(cache)? != DeviceType::F32 || recorder.ty(value)? != DeviceType::F32 {
        return Err("has a cache that does not hold floating-point numbers");
    }
    let (count, target) = (product(&sizes), recorder.target(cache));
    let mut shader = Shader::new(recorder);
    let x = shader.input(value)?.f32("id");
    shader.output_at(target, DeviceType::F32);
    let (first, total) = (shader.u32(position * product(rest)), shader.u32(count));
    shader.threads(count, &format!("if id < {total} {{ y[{first} + id] = {x}; }}"))
}

/// Args: value, cache, position, out, which no call reads.
fn update_cache(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (value, cache) = (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?);
    write_cache(recorder, value, cache, recorder.int(call, 2)?)?;
    if let Value::Tensor(_) = recorder.value(call, 3) {
        let output = call.args[3];
        if recorder.is_read(output) {
            return Err("has an output that a node reads");
        }
        let dims = recorder.spec(output)?.dims.clone();
        recorder.set_sizes(output, &dims)?;
    }
    Ok(())
}

/// Layout of the tensors of an attention.
struct Attention {
    query: usize,
    key: usize,
    value: usize,
    mask: Option<usize>,
    batch: usize,
    /// Heads of the queries, and of keys and values.
    heads: [usize; 2],
    /// Rows of the queries, and of keys and values.
    rows: [usize; 2],
    /// Rows of the memory of keys and values.
    capacity: usize,
    depth: usize,
    scale: f64,
    /// Position of the first query, if each sees only the keys up to its own position.
    causal: Option<usize>,
    /// True for tensors `[batch, rows, heads, depth]`, false for `[batch, heads, rows, depth]`.
    rows_first: bool,
}

/// Args: query, key, value, caches, position, length, mask, dropout, causal, scale, out.
fn sdpa_with_cache(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let position = recorder.int(call, 5)?;
    for (value, cache) in [(1, 3), (2, 4)] {
        let (value, cache) = (recorder.tensor(call, value)?, recorder.tensor(call, cache)?);
        write_cache(recorder, value, cache, position)?;
    }
    with_cache(recorder, call, [0, 3, 4], position, [7, 9, 10])
}

/// Args: query, caches, position, mask, dropout, causal, scale, out.
fn custom_sdpa(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let position = recorder.int(call, 3)?;
    with_cache(recorder, call, [0, 1, 2], position, [4, 6, 7])
}

/// Attention of queries at `position` over caches; `options` are the arguments mask, causal, scale.
fn with_cache(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    [query, key, value]: [usize; 3],
    position: i64,
    options: [usize; 3],
) -> OpResult {
    let (query, key, value) =
        (recorder.tensor(call, query)?, recorder.tensor(call, key)?, recorder.tensor(call, value)?);
    let (sizes, cache) = (recorder.sizes(query)?, recorder.sizes(key)?);
    let (&[1, s, hq, d], &[1, c, hkv, cache_d]) = (&sizes[..], &cache[..]) else {
        return Err("has queries or caches of another rank or batch");
    };
    let position = usize::try_from(position).map_err(|_| "has a negative position")?;
    let keys = position.saturating_add(s);
    if d != cache_d || hkv == 0 || hq % hkv != 0 || keys > c || recorder.sizes(value)? != cache {
        return Err("has caches that do not fit its queries");
    }
    let attention = Attention {
        query,
        key,
        value,
        mask: recorder.opt_tensor(call, options[0])?,
        batch: 1,
        heads: [hq, hkv],
        rows: [s, keys],
        capacity: c,
        depth: d,
        scale: recorder.opt_double(call, options[2])?.unwrap_or(1.0 / (d as f64).sqrt()),
        causal: recorder.bool(call, options[1])?.then_some(position),
        rows_first: true,
    };
    let output = recorder.output(call)?;
    recorder.set_sizes(output, &sizes)?;
    record(recorder, &attention, output)
}

/// Args: query, key, value, mask, scale, out; tensors `[.., rows, depth]`.
fn sdpa(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (query, key, value) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.tensor(call, 2)?);
    let (sizes, keys) = (recorder.sizes(query)?, recorder.sizes(key)?);
    let ([batch @ .., s, d], [key_batch @ .., t, key_d]) = (&sizes[..], &keys[..]) else {
        return Err("has queries that are no matrices");
    };
    if batch != key_batch || d != key_d || recorder.sizes(value)? != keys {
        return Err("has keys or values that do not fit its queries");
    }
    let heads = product(batch);
    let attention = Attention {
        query,
        key,
        value,
        mask: recorder.opt_tensor(call, 3)?,
        batch: 1,
        heads: [heads, heads],
        rows: [*s, *t],
        capacity: *t,
        depth: *d,
        scale: recorder.opt_double(call, 4)?.unwrap_or(1.0 / (*d as f64).sqrt()),
        causal: None,
        rows_first: false,
    };
    let output = recorder.output(call)?;
    recorder.set_sizes(output, &sizes)?;
    record(recorder, &attention, output)
}

/// A block of queries.
#[derive(Clone, Copy)]
struct Rows {
    first: usize,
    count: usize,
}

/// Records scores, their softmax, and their product with the values, block by block.
fn record(recorder: &mut Recorder<'_, '_>, attention: &Attention, output: usize) -> OpResult {
    for tensor in [attention.query, attention.key, attention.value, output] {
        if recorder.ty(tensor)? != DeviceType::F32 {
            return Err("has tensors that do not hold floating-point numbers");
        }
    }
    let Attention { batch, heads: [heads, _], rows: [s, _], .. } = *attention;
    // The temporary has the size of the longest keys, so that a longer sequence needs no more.
    let row = batch * heads * attention.capacity;
    let block = (recorder.limits.max_scores / row.max(1)).clamp(1, s.max(1));
    if block * row > 1 << 30 {
        return Err("has scores of more than four gigabytes");
    }
    let scores = recorder.temporary(block * row);
    for first in (0..s).step_by(block) {
        let rows = Rows { first, count: block.min(s - first) };
        score(recorder, attention, rows, scores)?;
        softmax(recorder, attention, rows, scores)?;
        weigh(recorder, attention, rows, scores, output)?;
    }
    Ok(())
}

/// Products of the softmax in `scores` with the values.
fn weigh(
    recorder: &mut Recorder<'_, '_>,
    attention: &Attention,
    rows: Rows,
    scores: Target,
    output: usize,
) -> OpResult {
    let Attention { batch, heads: [heads, _], rows: [s, t], depth, .. } = *attention;
    let mut shader = Shader::new(recorder);
    let (count, t_name) = (shader.u32(rows.count), shader.u32(t));
    let p =
        shader.input_at(scores, DeviceType::F32).f32(&format!("(b * {count} + m) * {t_name} + k"));
    let at = attention.location(&mut shader, attention.capacity, true, "k", "n");
    let v = shader.input(attention.value)?.f32(&at);
    shader.declare(&format!(
        "fn a_at(b: u32, m: u32, k: u32) -> f32 {{ return {p}; }}
fn w_at(b: u32, k: u32, n: u32) -> f32 {{ return {v}; }}
fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 {{ return s; }}"
    ));
    let (first, s) = (shader.u32(rows.first), shader.u32(s));
    let location = match attention.rows_first {
        true => format!("((m + {first}) * BATCH + b) * N + n0"),
        false => format!("(b * {s} + m + {first}) * N + n0"),
    };
    let target = shader.recorder.target(output);
    let to = Destination { target, ty: DeviceType::F32, call: None, location: location.into() };
    let sizes = Sizes { batch: batch * heads, m: rows.count, n: depth, k: t };
    matmul::record_to(shader, &to, sizes, "f32", "w_at")
}

impl Attention {
    /// Expression of the index of element `column` of row `row` of head `b`, in a tensor with
    /// `count` rows. Keys and values share heads.
    fn location(
        &self,
        shader: &mut Shader<'_, '_, '_>,
        count: usize,
        is_key: bool,
        row: &str,
        column: &str,
    ) -> String {
        let [heads, key_heads] = self.heads;
        let head = if is_key && heads != key_heads {
            format!("b / {}", shader.u32(heads / key_heads))
        } else {
            "b".to_owned()
        };
        let depth = shader.u32(self.depth);
        if self.rows_first {
            let heads = shader.u32(if is_key { key_heads } else { heads });
            format!("({row} * {heads} + {head}) * {depth} + {column}")
        } else {
            let count = shader.u32(count);
            format!("({head} * {count} + {row}) * {depth} + {column}")
        }
    }
}

/// Scores of the queries in `rows`.
fn score(
    recorder: &mut Recorder<'_, '_>,
    attention: &Attention,
    rows: Rows,
    scores: Target,
) -> OpResult {
    let Attention { batch, heads: [heads, _], rows: [s, t], depth, .. } = *attention;
    let mut shader = Shader::new(recorder);
    let m = format!("(m + {})", shader.u32(rows.first));
    let at = attention.location(&mut shader, s, false, &m, "k");
    let q = shader.input(attention.query)?.f32(&at);
    let at = attention.location(&mut shader, attention.capacity, true, "n", "k");
    let k = shader.input(attention.key)?.f32(&at);
    let scale = shader.f32(attention.scale);
    let mut result = format!("s * {scale}");
    if let Some(mask) = attention.mask {
        let sizes = shader.recorder.sizes(mask)?;
        let out = [heads, s, t];
        if sizes.len() > 4 || (sizes.len() == 4 && sizes[0] != 1) {
            return Err("has a mask of more than one batch");
        }
        let sizes = &sizes[sizes.len().saturating_sub(3)..];
        if broadcast(sizes, &out).as_deref() != Some(&out[..]) {
            return Err("has a mask that does not fit its scores");
        }
        let strides = broadcast_strides(sizes, &out);
        let [b, row, n] = [strides[0], strides[1], strides[2]].map(|stride| shader.u32(stride));
        let is_bool = shader.recorder.ty(mask)? == DeviceType::Bool;
        let value = shader.input(mask)?.f32(&format!("b * {b} + {m} * {row} + n * {n}"));
        result = if is_bool {
            format!("select(-3.4028234e38, {result}, {value} != 0.0)")
        } else {
            format!("{result} + {value}")
        };
    }
    if let Some(position) = attention.causal {
        let position = shader.u32(position);
        result = format!("select({result}, -3.4028234e38, n > {m} + {position})");
    }
    shader.declare(&format!(
        "fn a_at(b: u32, m: u32, k: u32) -> f32 {{ return {q}; }}
fn w_at(b: u32, k: u32, n: u32) -> f32 {{ return {k}; }}
fn finish(b: u32, m: u32, n: u32, s: f32) -> f32 {{ return {result}; }}"
    ));
    let location = "(b * M + m) * N + n0".into();
    let to = Destination { target: scores, ty: DeviceType::F32, call: None, location };
    matmul::record_to(
        shader,
        &to,
        Sizes { batch: batch * heads, m: rows.count, n: t, k: depth },
        "f32",
        "w_at",
    )
}

/// Softmax of the rows of scores, in location.
fn softmax(
    recorder: &mut Recorder<'_, '_>,
    attention: &Attention,
    rows: Rows,
    scores: Target,
) -> OpResult {
    let Attention { batch, heads: [heads, _], rows: [_, t], .. } = *attention;
    let mut shader = Shader::new(recorder);
    shader.output_at(scores, DeviceType::F32);
    let n = shader.u32(t);
    let body = format!(
        "let n = {n};
    let base = row * n;
    var largest = -3.4028234e38;
    for (var k = lane; k < n; k += LANES) {{ largest = max(largest, y[base + k]); }}
    largest = max_lanes(largest, lane);
    var total = 0.0;
    for (var k = lane; k < n; k += LANES) {{
        let e = exp(y[base + k] - largest);
        y[base + k] = e;
        total += e;
    }}
    total = sum_lanes(total, lane);
    for (var k = lane; k < n; k += LANES) {{ y[base + k] = y[base + k] / total; }}"
    );
    rows::finish(shader, batch * heads * rows.count, &body)
}

/// Args: queries, keys, cosines, sines, outputs; pairs of elements turn.
fn rotary(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    turn(
        recorder,
        call,
        0,
        "let other = x(i ^ 1u);
let at = s * (d / 2u) + k / 2u;
return x(i) * cosine(at) + select(other, -other, k % 2u == 0u) * sine(at);",
        2,
    )
}

/// Args: queries, keys, cosines, sines, position, outputs; halves of the elements turn.
fn rotary_hf(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let position = recorder.int(call, 4)?;
    turn(
        recorder,
        call,
        position,
        "let half = d / 2u;
var other = 0.0;
if k < half { other = -x(i + half); } else { other = x(i - half); }
let at = s * d + k;
return x(i) * cosine(at) + other * sine(at);",
        1,
    )
}

/// Records rotations of queries and keys `[b, s, heads, d]`. The tables have `d / divisor` columns;
/// the first row is at `position`.
fn turn(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    position: i64,
    body: &str,
    divisor: usize,
) -> OpResult {
    let (cosines, sines) = (recorder.tensor(call, 2)?, recorder.tensor(call, 3)?);
    let position = usize::try_from(position).map_err(|_| "has a negative position")?;
    for (arg, output) in recorder.list(call, call.args.len() - 1)?.into_iter().enumerate().take(2) {
        let input = recorder.tensor(call, arg)?;
        let sizes = recorder.sizes(input)?;
        let &[_, s, heads, d] = &sizes[..] else { return Err("has queries of another rank") };
        let needed = position.saturating_add(s).saturating_mul(d / divisor);
        if d % 2 != 0 || recorder.numel(cosines)?.min(recorder.numel(sines)?) < needed {
            return Err("has tables that do not fit its queries");
        }
        recorder.set_sizes(output, &sizes)?;
        let mut shader = Shader::new(recorder);
        let x = shader.input(input)?.f32("i");
        let (cosine, sine) = (shader.input(cosines)?.f32("i"), shader.input(sines)?.f32("i"));
        shader.declare(&format!(
            "fn x(i: u32) -> f32 {{ return {x}; }}
fn cosine(i: u32) -> f32 {{ return {cosine}; }}
fn sine(i: u32) -> f32 {{ return {sine}; }}"
        ));
        let (d, heads, s) = (shader.u32(d), shader.u32(heads), shader.u32(s));
        let position = shader.u32(position);
        let body = format!(
            "let d = {d};\nlet k = i % d;\nlet s = i / d / {heads} % {s} + {position};\n{body}"
        );
        shader.elements(call, output, &body)?;
    }
    Ok(())
}

/// Args: tensor `[b, n, c]`, pairs of cosine and sine for each element pair, out.
fn rotary_interleaved(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, table, output) =
        (recorder.tensor(call, 0)?, recorder.tensor(call, 1)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    let &[_, n, c] = &sizes[..] else { return Err("has a tensor of another rank") };
    if c % 2 != 0 || recorder.numel(table)? != n * c {
        return Err("has a table that does not fit its tensor");
    }
    recorder.set_sizes(output, &sizes)?;
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?;
    let f = shader.input(table)?;
    let count = shader.u32(n * c);
    let body = format!(
        "let at = i % {count} & ~1u;
let cosine = {};
let sine = {};
let other = {};
return {} * cosine + select(other, -other, i % 2u == 0u) * sine;",
        f.f32("at"),
        f.f32("at + 1u"),
        x.f32("i ^ 1u"),
        x.f32("i")
    );
    shader.elements(call, output, &body)
}

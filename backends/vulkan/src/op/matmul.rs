//! Matrix products: one template for all types and layouts of the operands.
//!
//! An operator declares three functions: `a_at(b, m, k)` and `w_at(b, k, n)`, the elements of the
//! operands, and `finish(b, m, n, sum)`, the element of the result. The template has a form for CPU
//! devices, in which a thread computes 4 × 4 elements in registers, a form for GPUs, in which a
//! workgroup shares tiles of 64 × 64 elements, and one for few rows.

use std::borrow::Cow;

use afferent_gpu::DeviceKind;

use super::rows;
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Target},
    shader::Shader,
};

/// Rows up to which a GPU reduces each element in a workgroup of its own.
const FEW_ROWS: usize = 4;

/// Side of the tile of a result that a workgroup computes.
const TILE: usize = 64;

/// Sizes of a product of `batch` matrices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

/// Memory of a product and the order of its elements.
pub(super) struct Destination<'c> {
    pub(super) target: Target,
    pub(super) ty: DeviceType,
    /// Call whose epilogue applies to the result.
    pub(super) call: Option<&'c Call>,
    /// Expression of the index of the element in row `m` and column `n0` of matrix `b`.
    pub(super) location: Cow<'static, str>,
}

impl<'c> Destination<'c> {
    /// Row-major output of a call.
    pub(super) fn output(
        shader: &Shader<'_, '_, '_>,
        call: &'c Call,
        output: usize,
    ) -> OpResult<Self> {
        let (target, ty) = (shader.recorder.target(output), shader.recorder.ty(output)?);
        Ok(Self { target, ty, call: Some(call), location: "(b * M + m) * N + n0".into() })
    }
}

/// Finishes a shader that has `a_at`, `w_at` and `finish`. `accumulator` is `f32` or `i32`.
pub(super) fn record(
    shader: Shader<'_, '_, '_>,
    call: &Call,
    output: usize,
    sizes: Sizes,
    accumulator: &str,
) -> OpResult {
    let destination = Destination::output(&shader, call, output)?;
    record_to(shader, &destination, sizes, accumulator, "w_at")
}

/// As [`record`], with another destination and name of the function `w_at`.
pub(super) fn record_to(
    mut shader: Shader<'_, '_, '_>,
    to: &Destination<'_>,
    sizes: Sizes,
    accumulator: &str,
    second: &str,
) -> OpResult {
    let Sizes { batch, m, n, k } = sizes;
    shader.recorder.count_work(&[batch, m, n, k])?;
    shader.declare(&format!(
        "fn second_at(b: u32, k: u32, n: u32) -> {accumulator} {{ return {second}(b, k, n); }}"
    ));
    let names = [("BATCH", batch), ("M", m), ("N", n), ("K", k)];
    let names = names.map(|(name, size)| (name, shader.u32(size)));
    let lets: String =
        names.iter().map(|(name, value)| format!("let {name} = {value};\n")).collect();
    if to.ty.is_packed() && n % 4 != 0 {
        return one_by_one(shader, to, batch * m * n, &lets, accumulator);
    }
    shader.output_at(to.target, to.ty);
    match to.call {
        Some(call) if to.ty == DeviceType::F32 => shader.epilogue(call)?,
        _ => shader.declare("fn epilogue(x: f32) -> f32 { return x; }"),
    }
    let is_gpu = shader.recorder.limits.kind == DeviceKind::Gpu;
    if is_gpu && m <= FEW_ROWS && accumulator == "f32" && to.ty == DeviceType::F32 {
        return few_rows(shader, to, sizes, &lets);
    }
    let tiles = [n.div_ceil(TILE), m.div_ceil(TILE), batch];
    let most = shader.recorder.limits.max_workgroups as usize;
    if is_gpu && m > FEW_ROWS && tiles.iter().all(|count| *count <= most) {
        return shared_tiles(shader, to, tiles, &lets, accumulator);
    }
    register_tiles(shader, to, sizes, &lets, accumulator)
}

/// Statement that stores the four elements of the vector `s` in row `m` from column `n0`.
fn store(to: &Destination<'_>) -> String {
    let (ty, location) = (to.ty, &to.location);
    if ty.is_packed() {
        let part = |j: usize| {
            let name = ["x", "y", "z", "w"][j];
            format!("(bitcast<u32>(finish(b, m, n0 + {j}u, s.{name})) & 255u) << {}u", 8 * j)
        };
        let word = (0..4).map(part).collect::<Vec<_>>().join(" | ");
        return format!("if n0 < N {{ y[({location}) / 4u] = {word}; }}");
    }
    let part = |j: usize| {
        let name = ["x", "y", "z", "w"][j];
        let value = format!("finish(b, m, n0 + {j}u, s.{name})");
        let value = if ty == DeviceType::F32 { format!("epilogue({value})") } else { value };
        format!("if n0 + {j}u < N {{ y[{location} + {j}u] = {value}; }}\n")
    };
    (0..4).map(part).collect()
}

fn register_tiles(
    mut shader: Shader<'_, '_, '_>,
    to: &Destination<'_>,
    sizes: Sizes,
    lets: &str,
    accumulator: &str,
) -> OpResult {
    let Sizes { batch, m, n, .. } = sizes;
    let rows = if m == 1 { 1 } else { 4 };
    let each = |text: &dyn Fn(usize) -> String| (0..rows).map(text).collect::<String>();
    let vector = format!("vec4<{accumulator}>");
    shader.declare(&format!(
        "fn put(b: u32, m: u32, n0: u32, s: {vector}, M: u32, N: u32, BATCH: u32) {{\n\
         if m >= M {{ return; }}\n{}\n}}",
        store(to)
    ));
    let body = format!(
        "{lets}let columns = (N + 3u) / 4u;
    let tiles = (M + {rows}u - 1u) / {rows}u;
    let n0 = id % columns * 4u;
    let m0 = id / columns % tiles * {rows}u;
    let b = id / columns / tiles;
    if b >= BATCH {{ return; }}
    let n1 = min(n0 + 1u, N - 1u);
    let n2 = min(n0 + 2u, N - 1u);
    let n3 = min(n0 + 3u, N - 1u);
    {}{}for (var k = 0u; k < K; k++) {{
        let w = {vector}(second_at(b, k, n0), second_at(b, k, n1), second_at(b, k, n2), second_at(b, k, n3));
        {}}}
    {}",
        each(&|i| format!("let m{i}r = min(m0 + {i}u, M - 1u);\n")),
        each(&|i| format!("var s{i} = {vector}();\n")),
        each(&|i| format!("s{i} += a_at(b, m{i}r, k) * w;\n")),
        each(&|i| format!("put(b, m0 + {i}u, n0, s{i}, M, N, BATCH);\n")),
    );
    shader.threads(batch * m.div_ceil(rows) * n.div_ceil(4), &body)
}

/// A workgroup reduces one element.
fn few_rows(
    shader: Shader<'_, '_, '_>,
    to: &Destination<'_>,
    sizes: Sizes,
    lets: &str,
) -> OpResult {
    let location = &to.location;
    let Sizes { batch, m, n, .. } = sizes;
    let body = format!(
        "{lets}let n0 = row % N;
    let m = row / N % M;
    let b = row / N / M;
    var s = 0.0;
    for (var k = lane; k < K; k += LANES) {{ s += a_at(b, m, k) * second_at(b, k, n0); }}
    s = sum_lanes(s, lane);
    if lane == 0u {{ y[{location}] = epilogue(finish(b, m, n0, s)); }}"
    );
    rows::finish(shader, batch * m * n, &body)
}

fn shared_tiles(
    mut shader: Shader<'_, '_, '_>,
    to: &Destination<'_>,
    tiles: [usize; 3],
    lets: &str,
    accumulator: &str,
) -> OpResult {
    let vector = format!("vec4<{accumulator}>");
    shader.declare(&format!(
        "var<workgroup> ta: array<{accumulator}, 1024>;
var<workgroup> tw: array<{vector}, 256>;
fn put(b: u32, m: u32, n0: u32, s: {vector}, M: u32, N: u32, BATCH: u32) {{
if m >= M {{ return; }}\n{}\n}}
fn load_a(b: u32, m: u32, k: u32, M: u32, K: u32) -> {accumulator} {{
    if m < M && k < K {{ return a_at(b, m, k); }}
    return 0;
}}
fn load_w(b: u32, k: u32, n: u32, K: u32, N: u32) -> {accumulator} {{
    if k < K && n < N {{ return second_at(b, k, n); }}
    return 0;
}}",
        store(to)
    ));
    let main = format!(
        "@compute @workgroup_size(16, 16) fn main(@builtin(workgroup_id) group: vec3<u32>, \
         @builtin(local_invocation_id) l: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
    {lets}let b = group.z;
    let m0 = group.y * 64u;
    let n0 = group.x * 64u + l.x * 4u;
    var s0 = {vector}();
    var s1 = {vector}();
    var s2 = {vector}();
    var s3 = {vector}();
    for (var k0 = 0u; k0 < K; k0 += 16u) {{
        for (var i = 0u; i < 4u; i++) {{
            let e = li + i * 256u;
            ta[e] = load_a(b, m0 + e / 16u, k0 + e % 16u, M, K);
        }}
        let kw = k0 + l.y;
        tw[li] = {vector}(load_w(b, kw, n0, K, N), load_w(b, kw, n0 + 1u, K, N), \
         load_w(b, kw, n0 + 2u, K, N), load_w(b, kw, n0 + 3u, K, N));
        workgroupBarrier();
        for (var k = 0u; k < 16u; k++) {{
            let w = tw[k * 16u + l.x];
            let at = l.y * 64u + k;
            s0 += ta[at] * w;
            s1 += ta[at + 16u] * w;
            s2 += ta[at + 32u] * w;
            s3 += ta[at + 48u] * w;
        }}
        workgroupBarrier();
    }}
    let m = m0 + l.y * 4u;
    put(b, m, n0, s0, M, N, BATCH);
    put(b, m + 1u, n0, s1, M, N, BATCH);
    put(b, m + 2u, n0, s2, M, N, BATCH);
    put(b, m + 3u, n0, s3, M, N, BATCH);
}}"
    );
    shader.finish(tiles, &main)
}

/// Packed rows that share words: each thread computes the elements of a word.
fn one_by_one(
    shader: Shader<'_, '_, '_>,
    to: &Destination<'_>,
    numel: usize,
    lets: &str,
    accumulator: &str,
) -> OpResult {
    let body = format!(
        "{lets}let n = i % N;
    let m = i / N % M;
    let b = i / N / M;
    var s = {accumulator}();
    for (var k = 0u; k < K; k++) {{ s += a_at(b, m, k) * second_at(b, k, n); }}
    return finish(b, m, n, s);"
    );
    shader.elements_at(to.target, to.ty, numel, &body)
}

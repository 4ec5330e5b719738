//! Normalizations.

use super::{Operator, rows};
use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder},
    shader::{Input, Shader},
    shape::product,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("aten.native_layer_norm.default", 6, layer_norm),
    Operator::new("aten.native_group_norm.default", 9, group_norm),
    Operator::new("aten._native_batch_norm_legit_no_training.default", 8, batch_norm),
    Operator::new("et_vk.rms_norm.default", 4, rms_norm),
];

/// Tensors and sizes of a normalization of rows.
struct Norm {
    input: usize,
    weight: Option<usize>,
    bias: Option<usize>,
    epsilon: f64,
    /// Elements of a row.
    row: usize,
    /// Index of weight and bias for element `k` of a row.
    channel: String,
}

/// Args: tensor, normalized shape, weight, bias, epsilon, outputs.
fn layer_norm(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let input = recorder.tensor(call, 0)?;
    let sizes = recorder.sizes(input)?;
    let shape = recorder.dims(call, 1)?;
    if !sizes.ends_with(&shape) {
        return Err("normalizes other sizes than those of its tensor");
    }
    let norm = Norm {
        input,
        weight: recorder.opt_tensor(call, 2)?,
        bias: recorder.opt_tensor(call, 3)?,
        epsilon: recorder.double(call, 4)?,
        row: product(&shape),
        channel: "k".to_owned(),
    };
    check_parameters(recorder, &norm, norm.row)?;
    let mut statistics = sizes.clone();
    statistics[sizes.len() - shape.len()..].fill(1);
    record(recorder, call, 5, &norm, &sizes, &statistics)
}

/// Args: tensor, weight, bias, N, C, `HxW`, groups, epsilon, outputs.
fn group_norm(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let input = recorder.tensor(call, 0)?;
    let sizes = recorder.sizes(input)?;
    let groups = usize::try_from(recorder.int(call, 6)?).unwrap_or(0);
    let (&[n, c], inner) = sizes.split_first_chunk::<2>().ok_or("has a tensor without channels")?;
    let inner = product(inner);
    if groups == 0 || c % groups != 0 {
        return Err("has channels that its groups do not divide");
    }
    let mut norm = Norm {
        input,
        weight: recorder.opt_tensor(call, 1)?,
        bias: recorder.opt_tensor(call, 2)?,
        epsilon: recorder.double(call, 7)?,
        row: c / groups * inner,
        channel: String::new(),
    };
    check_parameters(recorder, &norm, c)?;
    norm.channel = format!("row % {groups}u * {}u + k / {}u", c / groups, inner.max(1));
    record(recorder, call, 8, &norm, &sizes, &[n, groups])
}

/// Args: tensor, weight, epsilon, out.
fn rms_norm(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let (input, output) = (recorder.tensor(call, 0)?, recorder.output(call)?);
    let sizes = recorder.sizes(input)?;
    let weight = recorder.tensor(call, 1)?;
    let row = recorder.numel(weight)?;
    if sizes.last() != Some(&row) {
        return Err("has a weight of another size than its rows");
    }
    let epsilon = recorder.double(call, 2)?;
    recorder.set_sizes(output, &sizes)?;
    expect_floats(recorder, &[input, output])?;
    let target = recorder.target(output);
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("base + k");
    let weight = shader.input(weight)?.f32("k");
    shader.output_at(target, DeviceType::F32);
    let (n, epsilon) = (shader.u32(row), shader.f32(epsilon));
    let body = format!(
        "let n = {n};
    let base = row * n;
    var total = 0.0;
    for (var k = lane; k < n; k += LANES) {{ let v = {x}; total += v * v; }}
    let scale = 1.0 / sqrt(sum_lanes(total, lane) / f32(n) + {epsilon});
    for (var k = lane; k < n; k += LANES) {{ y[base + k] = {x} * scale * {weight}; }}"
    );
    rows::finish(shader, product(&sizes).checked_div(row).unwrap_or(0), &body)
}

fn check_parameters(recorder: &Recorder<'_, '_>, norm: &Norm, count: usize) -> OpResult {
    for parameter in [norm.weight, norm.bias].into_iter().flatten() {
        if recorder.numel(parameter)? != count {
            return Err("has a weight or bias of another size than its tensor");
        }
    }
    Ok(())
}

fn expect_floats(recorder: &Recorder<'_, '_>, tensors: &[usize]) -> OpResult {
    for tensor in tensors {
        if recorder.ty(*tensor)? != DeviceType::F32 {
            return Err("has a tensor that does not hold floating-point numbers");
        }
    }
    Ok(())
}

/// Records result, mean and inverse deviation; the latter two only if a call reads them.
fn record(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    outputs: usize,
    norm: &Norm,
    sizes: &[usize],
    statistics: &[usize],
) -> OpResult {
    let outputs = recorder.list(call, outputs)?;
    let rows = product(sizes).checked_div(norm.row).unwrap_or(0);
    let results = [sizes, statistics, statistics];
    let writes = ["", "if lane == 0u { y[row] = mean; }", "if lane == 0u { y[row] = scale; }"];
    for ((&output, sizes), write) in outputs.iter().zip(results).zip(writes) {
        recorder.set_sizes(output, sizes)?;
        expect_floats(recorder, &[norm.input, output])?;
        if !write.is_empty() && !recorder.is_read(output) {
            continue;
        }
        let target = recorder.target(output);
        let mut shader = Shader::new(recorder);
        let x = shader.input(norm.input)?.f32("base + k");
        let channel = &norm.channel;
        let mut factor = |value: Option<usize>, symbol: &str| -> OpResult<String> {
            let input = value.map(|value| shader.input(value)).transpose()?;
            let read = |input: Input| format!(" {symbol} {}", input.f32("channel"));
            Ok(input.map_or(String::new(), read))
        };
        let (weight, bias) = (factor(norm.weight, "*")?, factor(norm.bias, "+")?);
        shader.output_at(target, DeviceType::F32);
        let (n, epsilon) = (shader.u32(norm.row), shader.f32(norm.epsilon));
        let result = format!(
            "for (var k = lane; k < n; k += LANES) {{
        let channel = {channel};
        y[base + k] = ({x} - mean) * scale{weight}{bias};
    }}"
        );
        let write = if write.is_empty() { &result[..] } else { write };
        let body = format!(
            "let n = {n};
    let base = row * n;
    var total = 0.0;
    for (var k = lane; k < n; k += LANES) {{ total += {x}; }}
    let rough = sum_lanes(total, lane) / f32(n);
    // The sum of the differences has the rounding errors of the first sum.
    total = 0.0;
    var square = 0.0;
    for (var k = lane; k < n; k += LANES) {{ let d = {x} - rough; total += d; square += d * d; }}
    let rest = sum_lanes(total, lane) / f32(n);
    let mean = rough + rest;
    let variance = max(sum_lanes(square, lane) / f32(n) - rest * rest, 0.0);
    let scale = 1.0 / sqrt(variance + {epsilon});
    {write}"
        );
        rows::finish(shader, rows, &body)?;
    }
    Ok(())
}

/// Args: tensor, weight, bias, mean, variance, momentum, epsilon, outputs.
fn batch_norm(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let input = recorder.tensor(call, 0)?;
    let sizes = recorder.sizes(input)?;
    let (&[_, c], inner) = sizes.split_first_chunk::<2>().ok_or("has a tensor without channels")?;
    let outputs = recorder.list(call, 7)?;
    let (&output, rest) = outputs.split_first().ok_or("has no output")?;
    recorder.set_sizes(output, &sizes)?;
    for &output in rest {
        let dims = recorder.spec(output)?.dims.clone();
        // Without training, the statistics of the batch are empty.
        if recorder.is_read(output) && product(&dims) != 0 {
            return Err("has statistics that a node reads");
        }
        recorder.set_sizes(output, &dims)?;
    }
    let parameters = [recorder.opt_tensor(call, 1)?, recorder.opt_tensor(call, 2)?];
    let (mean, variance) = (recorder.tensor(call, 3)?, recorder.tensor(call, 4)?);
    let epsilon = recorder.double(call, 6)?;
    for parameter in parameters.into_iter().flatten().chain([mean, variance]) {
        if recorder.numel(parameter)? != c {
            return Err("has a parameter of another size than its channels");
        }
    }
    let mut shader = Shader::new(recorder);
    let x = shader.input(input)?.f32("i");
    let mean = shader.input(mean)?.f32("c");
    let variance = shader.input(variance)?.f32("c");
    let [weight, bias] = parameters.map(|value| value.map(|value| shader.input(value)));
    let weight = weight.transpose()?.map_or("1.0".to_owned(), |weight| weight.f32("c"));
    let bias = bias.transpose()?.map_or("0.0".to_owned(), |bias| bias.f32("c"));
    let (inner, c, epsilon) = (shader.u32(product(inner)), shader.u32(c), shader.f32(epsilon));
    let body = format!(
        "let c = i / {inner} % {c};\n\
         return ({x} - {mean}) / sqrt({variance} + {epsilon}) * {weight} + {bias};"
    );
    shader.elements(call, output, &body)
}

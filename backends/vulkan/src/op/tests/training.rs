//! Operators of training against their formulas, in both forms of the shaders.

use afferent_core::{Error, ScalarType, Tensor};
use afferent_gpu::DeviceKind;

use super::tensor;
use crate::{
    graph::{DataType, Value},
    testing::{Net, Runner, close, floats, gpu, run},
};

/// Packed weights `[n, k / 2]` and scales `[groups, n]`.
fn packed(n: usize, k: usize, groups: usize) -> (Vec<u8>, Vec<f32>) {
    let bytes = (0..n * k / 2).map(|at| (at * 37 + 11) as u8).collect();
    (bytes, floats(groups * n).iter().map(|x| x.abs() + 0.1).collect())
}

/// Element `[row, column]` of packed weights.
fn unpacked(bytes: &[u8], k: usize, row: usize, column: usize) -> i32 {
    let byte = i32::from(bytes[(row * k + column) / 2]);
    (if column.is_multiple_of(2) { byte & 15 } else { byte >> 4 }) - 8
}

#[test]
fn gradient_of_the_input_of_a_4_bit_linear() {
    for (m, n, k, group) in [(1, 5, 16, 8), (7, 6, 32, 16), (70, 12, 8, 8)] {
        let (bytes, scales) = packed(n, k, k / group);
        let net = || {
            let mut net = Net::default();
            let x = net.input(DataType::F32, &[m, n]);
            let weight = net.constant(DataType::U8, &[n, k / 2], &bytes);
            let scales = net.constant(DataType::F32, &[k / group, n], &scales);
            let (group, out) = (net.int(group as i64), net.output(DataType::F32, &[m, k]));
            net.call("et_vk.linear_q4gsw_backward.default", &[x, weight, scales, group, out]);
            net
        };
        let Some((_, found)) = run::<f32>(net, &[tensor(&[m, n])], 2) else { return };
        let x = floats(m * n);
        let expected = (0..m * k).map(|i| {
            let (row, column) = (i / k, i % k);
            let weight = |at: usize| {
                unpacked(&bytes, k, at, column) as f32 * scales[column / group * n + at]
            };
            (0..n).map(|at| x[row * n + at] * weight(at)).sum()
        });
        close("linear_q4gsw_backward", &found, &expected.collect::<Vec<f32>>(), 1e-5);
    }
}

#[test]
fn gradient_of_the_weights_of_a_linear() {
    for (m, n, k) in [(6, 5, 7), (13, 10, 18), (2, 70, 66), (0, 2, 3)] {
        let net = || {
            let mut net = Net::default();
            // The leading dimensions may differ.
            let (d, x) = (net.input(DataType::F32, &[m, n]), net.input(DataType::F32, &[1, m, k]));
            let out = net.output(DataType::F32, &[n, k]);
            net.call("et_vk.linear_dW.default", &[d, x, out]);
            net
        };
        let Some((_, found)) = run::<f32>(net, &[tensor(&[m, n]), tensor(&[1, m, k])], 2) else {
            return;
        };
        let (d, x) = (floats(m * n), floats(m * k));
        let sum = |i: usize| (0..m).map(|at| d[at * n + i / k] * x[at * k + i % k]).sum::<f32>();
        close("linear_dW", &found, &(0..n * k).map(sum).collect::<Vec<f32>>(), 1e-5);
    }
}

#[test]
fn quantization_of_updated_weights() {
    // Odd columns, a last group with fewer of them, and scales with padded rows.
    for (n, k, group, columns) in [(3, 8, 4, 3), (5, 13, 4, 8), (6, 1, 64, 6)] {
        let groups = usize::div_ceil(k, group);
        let mut scales: Vec<f32> =
            floats(groups * columns).iter().map(|x| x.abs() / 8.0 + 0.01).collect();
        scales[1] = 0.0;
        let net = || {
            let mut net = Net::default();
            let weight = net.input(DataType::F32, &[n, k]);
            let scales = net.constant(DataType::F32, &[groups, columns], &scales);
            let (group, out) =
                (net.int(group as i64), net.output(DataType::U8, &[n, k.div_ceil(2)]));
            net.call("et_vk.q4gsw_requant.default", &[weight, scales, group, out]);
            net
        };
        let Some((_, found)) = run::<u8>(net, &[tensor(&[n, k])], 2) else { return };
        let weights = floats(n * k);
        let code = |row: usize, column: usize| {
            let scale = scales[column / group * columns + row];
            let quanta = weights[row * k + column] / scale;
            if scale == 0.0 { 8 } else { quanta.round_ties_even().clamp(-8.0, 7.0) as i32 + 8 }
        };
        let expected = (0..n).flat_map(|row| {
            (0..k).step_by(2).map(move |column| {
                let high = if column + 1 < k { code(row, column + 1) } else { 0 };
                (high << 4 | code(row, column)) as u8
            })
        });
        assert_eq!(found, expected.collect::<Vec<u8>>(), "{n} {k} {group}");
    }
}

/// Loads and runs a graph in both forms; all outputs are `f32` of the ranks `ranks`.
fn outputs(net: &dyn Fn() -> Net, inputs: &[Tensor], ranks: &[usize]) -> Vec<Vec<Vec<f32>>> {
    let Some(gpu) = gpu() else { return vec![] };
    let kinds = [DeviceKind::Cpu, DeviceKind::Gpu].into_iter();
    let results = kinds.map(|kind| {
        let runner = Runner::new(gpu.clone(), net().graph(), kind).expect("a valid graph");
        let outs = ranks.iter().map(|rank| Tensor::zeros(ScalarType::Float, &vec![0; *rank]));
        let mut outs: Vec<Tensor> = outs.collect();
        runner.run(inputs, &mut outs).1.expect("a run");
        outs.iter().map(|out| out.data::<f32>().expect("f32").to_vec()).collect()
    });
    results.collect()
}

fn cross_entropy(n: usize, classes: usize, valid: f64) -> Net {
    let mut net = Net::default();
    let logits = net.input(DataType::F32, &[n, classes]);
    let labels = net.input(DataType::I32, &[n]);
    let valid = net.double(valid);
    let (loss, gradient) =
        (net.output(DataType::F32, &[]), net.output(DataType::F32, &[n, classes]));
    let outs = net.value(Value::List(vec![loss, gradient]));
    net.call("et_vk.fused_ce.default", &[logits, labels, valid, outs]);
    net
}

#[test]
fn cross_entropy_and_its_gradient() {
    // The largest label is no class, and counts as the last.
    let (n, classes) = (5, 77);
    let labels = [3, -1, 76, 0, i32::MAX];
    // Large logits, so that sums of their exponentials need the largest.
    let logits: Vec<f32> = floats(n * classes).iter().map(|x| x * 200.0).collect();
    let inputs = [Tensor::new(&[n, classes], &logits).unwrap(), Tensor::from_slice(&labels)];
    for found in outputs(&|| cross_entropy(n, classes, 4.0), &inputs, &[0, 2]) {
        let (mut loss, mut gradient) = (0.0_f64, vec![]);
        for (row, label) in logits.chunks(classes).zip(labels) {
            let label = label.min(76);
            let total: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            for (at, x) in row.iter().enumerate() {
                let target = f64::from(u8::from(at as i32 == label));
                let element = (f64::from(*x).exp() / total - target) / 4.0;
                gradient.push(if label < 0 { 0.0 } else { element as f32 });
            }
            if label >= 0 {
                loss += (total.ln() - f64::from(row[label as usize])) / 4.0;
            }
        }
        close("loss", &found[0], &[loss as f32], 1e-5);
        close("gradient", &found[1], &gradient, 1e-5);
    }
    let none = [tensor(&[0, 3]), Tensor::from_slice(&[] as &[i32])];
    for found in outputs(&|| cross_entropy(0, 3, 1.0), &none, &[0, 2]) {
        assert_eq!(found, [vec![0.0], vec![]]);
    }
}

/// Values and results of AdamW in `f64`: learning rate 0.01, decays 0.9 and 0.99, eps 1e-6, weight
/// decay 0.1.
fn adamw_step([p, m, v, g]: [f64; 4], step: i32) -> [f64; 3] {
    let m = 0.9 * m + 0.1 * g;
    let v = 0.99 * v + 0.01 * g * g;
    let (first, second) = (m / (1.0 - 0.9_f64.powi(step)), v / (1.0 - 0.99_f64.powi(step)));
    [p * (1.0 - 0.01 * 0.1) - 0.01 * first / (second.sqrt() + 1e-6), m, v]
}

/// Adds a call with numbers of the step `step`; returns its outputs.
fn add_adamw(net: &mut Net, tensors: [usize; 4], step: i32, dims: &[usize]) -> Vec<usize> {
    let corrections = [1.0 - 0.9_f64.powi(step), 1.0 - 0.99_f64.powi(step)];
    let numbers = [0.01, 0.9, 0.99, 1e-6, 0.1, corrections[0], corrections[1]];
    let mut args = tensors.to_vec();
    args.extend(numbers.map(|number| net.double(number)));
    let outs: Vec<usize> = (0..3).map(|_| net.tensor(DataType::F32, dims)).collect();
    args.push(net.value(Value::List(outs.clone())));
    net.call("et_vk.adamw_step.default", &args);
    outs
}

#[test]
fn adamw_changes_its_parameter_and_moments() {
    let n = 70;
    let start = |at: usize, x: f32| [x, 0.5 * x, x.abs(), 1.0 - x][at];
    let values = |at: usize| floats(n).iter().map(|x| start(at, *x)).collect::<Vec<f32>>();
    let inputs = [0, 1, 2, 3].map(|at| Tensor::from_slice(&values(at)));
    // The second step reads the outputs of the first.
    let net = || {
        let mut net = Net::default();
        let tensors = [(); 4].map(|()| net.input(DataType::F32, &[n]));
        let outs = add_adamw(&mut net, tensors, 1, &[n]);
        let outs = add_adamw(&mut net, [outs[0], outs[1], outs[2], tensors[3]], 2, &[n]);
        // Outputs of the delegate: the inputs that have changed, and the other names of two of them.
        for output in [tensors[0], tensors[1], outs[1], outs[2]] {
            net.return_value(output);
        }
        net
    };
    for found in outputs(&net, &inputs, &[1, 1, 1, 1]) {
        let results = (0..n).map(|i| {
            let [p, m, v, g] = [0, 1, 2, 3].map(|at| f64::from(values(at)[i]));
            let [p, m, v] = adamw_step([p, m, v, g], 1);
            adamw_step([p, m, v, g], 2)
        });
        let results: Vec<[f64; 3]> = results.collect();
        for (found, which) in found.iter().zip([0, 1, 1, 2]) {
            let expected: Vec<f32> = results.iter().map(|result| result[which] as f32).collect();
            close("adamw", found, &expected, 1e-6);
        }
    }
}

#[test]
fn state_of_the_optimizer_lasts() {
    let Some(gpu) = gpu() else { return };
    // The parameter is read before it changes, under another name.
    let net = || {
        let mut net = Net::default();
        let g = net.input(DataType::F32, &[2]);
        let state = [[1.0_f32, -1.0], [0.0, 0.0], [0.0, 0.0]];
        let [p, m, v] = state.map(|values| net.constant(DataType::F32, &[2], &values));
        let (ints, view) = (net.ints(&[2, 1]), net.output(DataType::F32, &[2, 1]));
        net.call("aten.view_copy.default", &[p, ints, view]);
        add_adamw(&mut net, [p, m, v, g], 1, &[2]);
        net.return_value(p);
        net
    };
    for kind in [DeviceKind::Cpu, DeviceKind::Gpu] {
        let mut runner = Runner::new(gpu.clone(), net().graph(), kind).expect("a valid graph");
        let mut state = [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]];
        for _ in 0..3 {
            let before = state.map(|[p, ..]| p as f32);
            let mut outs = [2, 1].map(|rank| Tensor::zeros(ScalarType::Float, &vec![0; rank]));
            let (kept, result) = runner.run(&[Tensor::from_slice(&[0.5_f32, 2.0])], &mut outs);
            result.expect("a run");
            runner = kept;
            state[0] = adamw_step([state[0][0], state[0][1], state[0][2], 0.5], 1);
            state[1] = adamw_step([state[1][0], state[1][1], state[1][2], 2.0], 1);
            close("before", outs[0].data::<f32>().unwrap(), &before, 1e-6);
            close("after", outs[1].data::<f32>().unwrap(), &state.map(|[p, ..]| p as f32), 1e-6);
        }
    }
}

#[test]
fn a_view_that_changes_does_not_change_its_tensor() {
    let n = 4;
    let net = || {
        let mut net = Net::default();
        let tensors = [(); 4].map(|()| net.input(DataType::F32, &[n]));
        let (ints, view) = (net.ints(&[n as i64]), net.tensor(DataType::F32, &[n]));
        net.call("aten.view_copy.default", &[tensors[0], ints, view]);
        add_adamw(&mut net, [view, tensors[1], tensors[2], tensors[3]], 1, &[n]);
        net.return_value(tensors[0]);
        net.return_value(view);
        net
    };
    let inputs = [(); 4].map(|()| Tensor::from_slice(&floats(n)));
    let inputs = [&inputs[..2], &[Tensor::from_slice(&[0.5_f32; 4])], &inputs[3..]].concat();
    for found in outputs(&net, &inputs, &[1, 1]) {
        let x = floats(n);
        let changed = x.iter().map(|x| {
            let x = f64::from(*x);
            adamw_step([x, x, 0.5, x], 1)[0] as f32
        });
        assert_eq!(found[0], x);
        close("view", &found[1], &changed.collect::<Vec<f32>>(), 1e-6);
    }
}

/// Asserts that a graph is refused with `clause`.
fn refuses(name: &str, clause: &str, make: impl Fn(&mut Net) -> Vec<usize>) {
    let Some(gpu) = gpu() else { return };
    let mut net = Net::default();
    let args = make(&mut net);
    net.call(name, &args);
    let refused = Runner::new(gpu, net.graph(), DeviceKind::Cpu);
    let error = refused.err().map(|error: Error| error.to_string()).unwrap_or_default();
    assert!(error.contains(clause), "{name}: {error:?} does not say {clause:?}");
}

#[test]
fn other_sizes_and_types_are_refused() {
    let f32s = |net: &mut Net, dims: &[usize]| net.input(DataType::F32, dims);
    let bytes = |net: &mut Net, dims: &[usize]| net.input(DataType::U8, dims);
    let backward = |gradient: usize, weight: (DataType, usize), group: i64| {
        move |net: &mut Net| {
            let (d, w) = (f32s(net, &[2, gradient]), net.input(weight.0, &[3, weight.1]));
            let (s, group) = (f32s(net, &[2, 3]), net.int(group));
            vec![d, w, s, group, net.output(DataType::F32, &[2, 8])]
        }
    };
    let name = "et_vk.linear_q4gsw_backward.default";
    refuses(name, "whose columns are not the rows", backward(4, (DataType::U8, 4), 4));
    refuses(name, "no matrix of bytes", backward(3, (DataType::I8, 4), 4));
    refuses(name, "groups that do not divide", backward(3, (DataType::U8, 4), 0));
    refuses(name, "groups that do not divide", backward(3, (DataType::U8, 4), -4));
    refuses(name, "fewer scales than groups", backward(3, (DataType::U8, 4), 2));
    let name = "et_vk.linear_dW.default";
    let out = |net: &mut Net| net.output(DataType::F32, &[2, 3]);
    refuses(name, "different numbers of rows", |net| {
        vec![f32s(net, &[4, 2]), f32s(net, &[5, 3]), out(net)]
    });
    refuses(name, "multiplies a scalar", |net| vec![f32s(net, &[]), f32s(net, &[1, 3]), out(net)]);
    refuses(name, "floating-point", |net| vec![bytes(net, &[4, 2]), f32s(net, &[4, 3]), out(net)]);
    let name = "et_vk.q4gsw_requant.default";
    let requantize = |sizes: &'static [usize], scales: usize, group: i64, out: DataType| {
        move |net: &mut Net| {
            let (w, s) = (f32s(net, sizes), f32s(net, &[scales, 2]));
            vec![w, s, net.int(group), net.output(out, &[2, 4])]
        }
    };
    refuses(name, "no matrix", requantize(&[2, 8, 1], 2, 4, DataType::U8));
    refuses(name, "without elements", requantize(&[2, 8], 2, 0, DataType::U8));
    refuses(name, "fewer scales than groups", requantize(&[2, 8], 1, 4, DataType::U8));
    refuses(name, "fewer scales than groups", requantize(&[3, 8], 2, 4, DataType::U8));
    refuses(name, "does not hold bytes", requantize(&[2, 8], 2, 4, DataType::I32));
    let name = "et_vk.fused_ce.default";
    let entropy = |labels: (DataType, usize), classes: usize, outs: usize| {
        move |net: &mut Net| {
            let (logits, labels) = (f32s(net, &[4, classes]), net.input(labels.0, &[labels.1]));
            let valid = net.double(4.0);
            let dims: [&[usize]; 2] = [&[], &[4, classes]];
            let items = (0..outs).map(|at| net.output(DataType::F32, dims[at])).collect();
            vec![logits, labels, valid, net.value(Value::List(items))]
        }
    };
    refuses(name, "no 32-bit integers", entropy((DataType::F32, 4), 3, 2));
    refuses(name, "another number of labels", entropy((DataType::I32, 5), 3, 2));
    refuses(name, "without classes", entropy((DataType::I32, 4), 0, 2));
    refuses(name, "other outputs", entropy((DataType::I32, 4), 3, 1));
    let name = "et_vk.adamw_step.default";
    let adamw = |moment: usize, is_same: bool, correction: f64| {
        move |net: &mut Net| {
            let (p, m) = (f32s(net, &[4]), f32s(net, &[moment]));
            let (v, g) = (f32s(net, &[4]), f32s(net, &[4]));
            let mut args = vec![p, m, v, if is_same { p } else { g }];
            let numbers = [0.01, 0.9, 0.99, 1e-6, 0.1, correction, 0.1];
            args.extend(numbers.map(|number| net.double(number)));
            args.push(net.null());
            args
        }
    };
    refuses(name, "other sizes than its parameter", adamw(3, false, 0.1));
    refuses(name, "one tensor as two", adamw(4, true, 0.1));
    refuses(name, "bias correction of zero", adamw(4, false, 0.0));
}

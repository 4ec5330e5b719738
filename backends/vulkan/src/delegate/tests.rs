//! Runs of small graphs: state, live sizes, constants, memory.

use afferent_core::{Error, Tensor};
use afferent_gpu::{DeviceKind, Gpu, GpuOptions};

use crate::{
    graph::{DataType, Value},
    testing::{Net, Runner, floats, gpu},
};

#[test]
fn caches_keep_their_rows_between_runs() {
    let Some(gpu) = gpu() else { return };
    let mut net = Net::default();
    let value = net.input(DataType::F32, &[1, 2, 1, 2]);
    let position = net.input(DataType::I32, &[1]);
    let cache = net.constant(DataType::F32, &[1, 4, 1, 2], &[0.0_f32; 8]);
    let (zero, symint) = (net.int(0), net.value(Value::SymInt(0)));
    net.call("et_vk.select_as_symint.default", &[position, zero, zero, symint]);
    let nothing = net.tensor(DataType::F32, &[1]);
    net.call("update_cache.default", &[value, cache, symint, nothing]);
    let (out, null) = (net.output(DataType::F32, &[1, 4, 1, 2]), net.null());
    net.call("aten.clone.default", &[cache, null, out]);
    let mut runner = Runner::new(gpu, net.graph(), DeviceKind::Cpu).unwrap();
    let mut outs = [Tensor::zeros(afferent_core::ScalarType::Float, &[0; 4])];
    let mut step = |runner: Runner, at: i64, rows: &[f32]| {
        let value = Tensor::new(&[1, rows.len() / 2, 1, 2], rows).unwrap();
        let position = Tensor::from_slice(&[at]);
        let (runner, result) = runner.run(&[value, position], &mut outs);
        (runner, result.map(|()| outs[0].data::<f32>().unwrap().to_vec()))
    };
    let (next, found) = step(runner, 0, &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(found.unwrap(), [1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
    let (next, found) = step(next, 2, &[5.0, 6.0]);
    assert_eq!(found.unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0]);
    // A position past the end is refused and changes nothing.
    let (next, found) = step(next, 3, &[7.0, 8.0, 9.0, 9.0]);
    assert!(matches!(found, Err(Error::InvalidBlob { .. })), "{found:?}");
    (runner, _) = step(next, 3, &[7.0, 8.0]);
    let (_, found) = step(runner, 0, &[0.0, 1.0]);
    assert_eq!(found.unwrap(), [0.0, 1.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
}

#[test]
fn live_sizes_follow_the_inputs() {
    let Some(gpu) = gpu() else { return };
    let mut net = Net::default();
    let x = net.input(DataType::F32, &[4, 6]);
    let (rows, zero) = (net.value(Value::SymInt(4)), net.int(0));
    net.call("sym_size.int", &[x, zero, rows]);
    let two = net.int(2);
    let (half, three) = (net.int(3), net.int(3));
    let shape = net.value(Value::List(vec![rows, half, two]));
    let view = net.tensor(DataType::F32, &[4, 3, 2]);
    net.call("aten.view_copy.default", &[x, shape, view]);
    let out = net.output(DataType::F32, &[4, 2, 3]);
    let dims = net.ints(&[0, 2, 1]);
    net.call("aten.permute_copy.default", &[view, dims, out]);
    let _ = three;
    let mut runner = Runner::new(gpu, net.graph(), DeviceKind::Cpu).unwrap();
    for rows in [4, 1, 3, 4] {
        let x = floats(rows * 6);
        let mut outs = [Tensor::zeros(afferent_core::ScalarType::Float, &[0; 3])];
        let (next, result) = runner.run(&[Tensor::new(&[rows, 6], &x).unwrap()], &mut outs);
        result.unwrap();
        assert_eq!(outs[0].sizes(), [rows, 2, 3]);
        let expected: Vec<f32> =
            (0..rows * 6).map(|i| x[i / 6 * 6 + i % 3 * 2 + i / 3 % 2]).collect();
        assert_eq!(outs[0].data::<f32>().unwrap(), expected);
        runner = next;
    }
    let mut outs = [Tensor::zeros(afferent_core::ScalarType::Float, &[0; 3])];
    let (_, result) = runner.run(&[Tensor::new(&[5, 6], &floats(30)).unwrap()], &mut outs);
    let expected = "a tensor of at most the sizes of the export";
    assert_eq!(result, Err(Error::InvalidArgument { index: 0, expected }));
}

#[test]
fn packed_weights_serve_all_sizes() {
    let Some(gpu) = gpu() else { return };
    let mut net = Net::default();
    let (x, out) = (net.input(DataType::F32, &[1, 1, 6]), net.output(DataType::F32, &[1, 5, 6]));
    let weights: Vec<f32> = (0..5).map(|o| o as f32).flat_map(|o| [0.0, o, -1.0]).collect();
    let weights = net.constant(DataType::F32, &[5, 1, 3], &weights);
    let (null, zero, one) = (net.null(), net.ints(&[0]), net.ints(&[1]));
    let (transposed, groups) = (net.value(Value::Bool(false)), net.int(1));
    let args = [x, weights, null, one, one, one, transposed, zero, groups, out];
    net.call("aten.convolution.default", &args);
    let mut runner = Runner::new(gpu, net.graph(), DeviceKind::Cpu).unwrap();
    for len in [6, 2, 5] {
        let x = floats(len);
        let mut outs = [Tensor::zeros(afferent_core::ScalarType::Float, &[0; 3])];
        let (next, result) = runner.run(&[Tensor::new(&[1, 1, len], &x).unwrap()], &mut outs);
        result.unwrap();
        // One run for the convolution: the weights were packed at load.
        assert_eq!(next.delegate.dispatches(), 1);
        let right = |i: usize| x.get(i + 1).copied().unwrap_or_default();
        let rows = (0..5).flat_map(|o| (0..len).map(move |i| (o as f32, i)));
        let expected: Vec<f32> = rows.map(|(o, i)| o * x[i] - right(i)).collect();
        assert_eq!(outs[0].data::<f32>().unwrap(), expected);
        runner = next;
    }
}

#[test]
fn constants_in_half_precision_stay_so() {
    let Some(gpu) = gpu() else { return };
    let halves: Vec<u16> = [0.5_f32, -2.0, 0.25].map(|x| half::f16::from_f32(x).to_bits()).into();
    let mut net = Net::default();
    let x = net.input(DataType::F16, &[2, 3]);
    let weights = net.constant(DataType::F16, &[3], &halves);
    let (sum, view) = (net.output(DataType::F16, &[2, 3]), net.output(DataType::F16, &[3, 1]));
    let (one, sizes) = (net.int(1), net.ints(&[3, 1]));
    net.call("aten.add.Tensor", &[x, weights, one, sum]);
    net.call("aten.view_copy.default", &[weights, sizes, view]);
    let runner = Runner::new(gpu, net.graph(), DeviceKind::Cpu).unwrap();
    // Input, sum, and copy have 6, 6, and 3 words; the constant of three elements has two.
    assert_eq!(runner.delegate.words(), 6 + 6 + 3 + 2);
    let float = afferent_core::ScalarType::Float;
    let mut outs = [Tensor::zeros(float, &[0; 2]), Tensor::zeros(float, &[0; 2])];
    let x = Tensor::new(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    runner.run(&[x], &mut outs).1.unwrap();
    assert_eq!(outs[0].data::<f32>().unwrap(), [1.5, 0.0, 3.25, 4.5, 3.0, 6.25]);
    assert_eq!(outs[1].data::<f32>().unwrap(), [0.5, -2.0, 0.25]);
}

#[test]
fn constant_calls_run_at_load_and_functions_are_fused() {
    let Some(gpu) = gpu() else { return };
    let mut net = Net::default();
    let x = net.input(DataType::F32, &[1, 4]);
    let weights = net.constant(DataType::I8, &[2, 4], &[1_i8, 2, 3, 4, -1, -2, -3, -4]);
    let scale = net.constant(DataType::F32, &[2, 1], &[0.5_f32, 2.0]);
    let zero = net.constant(DataType::I8, &[2, 1], &[0_i8, 1]);
    let (block, null) = (net.ints(&[1, 4]), net.null());
    let floats = net.tensor(DataType::F32, &[2, 4]);
    let args = [weights, block, scale, zero, null, null, null, null, floats];
    net.call("torchao.dequantize_affine.default", &args);
    let product = net.tensor(DataType::F32, &[1, 2]);
    net.call("aten.linear.default", &[x, floats, null, product]);
    let (shape, view) = (net.ints(&[2, 1]), net.tensor(DataType::F32, &[2, 1]));
    net.call("aten.view_copy.default", &[product, shape, view]);
    let out = net.output(DataType::F32, &[2, 1]);
    net.call("aten.relu.default", &[view, out]);
    let runner = Runner::new(gpu, net.graph(), DeviceKind::Cpu).unwrap();
    let mut outs = [Tensor::zeros(afferent_core::ScalarType::Float, &[0; 2])];
    let x = Tensor::new(&[1, 4], &[1.0_f32, 1.0, 1.0, 1.0]).unwrap();
    let (runner, result) = runner.run(&[x], &mut outs);
    result.unwrap();
    assert_eq!(outs[0].data::<f32>().unwrap(), [5.0, 0.0]);
    assert_eq!(runner.delegate.dispatches(), 1);
    assert_eq!(runner.delegate.constant_calls(), 1);
}

#[test]
fn a_lost_device_fails_the_run_that_it_hits() {
    if gpu().is_none() {
        return;
    }
    // A device of its own: the other tests share theirs.
    let gpu = Gpu::new(GpuOptions::from_env());
    let net = || {
        let mut net = Net::default();
        let (x, out) = (net.input(DataType::F32, &[4]), net.output(DataType::F32, &[4]));
        net.call("aten.relu.default", &[x, out]);
        net.graph()
    };
    let mut runner = Runner::new(gpu.clone(), net(), DeviceKind::Cpu).unwrap();
    let x = Tensor::from_slice(&[1.0_f32, -1.0, 2.0, 3.0]);
    let mut outs = [Tensor::zeros(afferent_core::ScalarType::Float, &[0])];
    let (next, result) = runner.run(std::slice::from_ref(&x), &mut outs);
    assert_eq!((result, outs[0].data::<f32>().unwrap()), (Ok(()), &[1.0, 0.0, 2.0, 3.0][..]));
    gpu.device().unwrap().destroy();
    runner = next;
    let lost = Error::DeviceFailed { reason: "the GPU was lost; restart the program" };
    for _ in 0..2 {
        let (next, result) = runner.run(std::slice::from_ref(&x), &mut outs);
        assert_eq!(result, Err(lost));
        runner = next;
    }
    assert_eq!(Runner::new(gpu, net(), DeviceKind::Cpu).err(), Some(lost));
}

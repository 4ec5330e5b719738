//! Operators against references that the tests compute, in both forms of the shaders.

mod training;

use afferent_core::{Element, Tensor};

use crate::{
    graph::{DataType, Value},
    testing::{Net, close, floats, run},
};

fn tensor(sizes: &[usize]) -> Tensor {
    Tensor::new(sizes, &floats(sizes.iter().product())).unwrap()
}

/// Runs an operator with `f32` tensors of `sizes` and the arguments that `more` adds.
fn f32_call<T: Element>(
    name: &str,
    sizes: &[&[usize]],
    out: (DataType, &[usize]),
    more: impl Fn(&mut Net) -> Vec<usize>,
) -> Option<Vec<T>> {
    let net = || {
        let mut net = Net::default();
        let mut args: Vec<usize> =
            sizes.iter().map(|sizes| net.input(DataType::F32, sizes)).collect();
        args.extend(more(&mut net));
        args.push(net.output(out.0, out.1));
        net.call(name, &args);
        net
    };
    let inputs: Vec<Tensor> = sizes.iter().map(|sizes| tensor(sizes)).collect();
    let (found_sizes, found) = run::<T>(net, &inputs, out.1.len())?;
    assert_eq!(found_sizes, out.1, "{name}");
    Some(found)
}

#[test]
fn unary_functions() {
    let check = |name: &str, more: &dyn Fn(&mut Net) -> Vec<usize>, expected: fn(f64) -> f64| {
        let Some(found) = f32_call::<f32>(name, &[&[3, 7]], (DataType::F32, &[3, 7]), more) else {
            return;
        };
        let expected: Vec<f32> =
            floats(21).iter().map(|x| expected(f64::from(*x)) as f32).collect();
        close(name, &found, &expected, 2e-6);
    };
    let none = |_: &mut Net| vec![];
    check("aten.abs.default", &none, f64::abs);
    check("aten.cos.default", &none, f64::cos);
    check("aten.exp.default", &none, f64::exp);
    check("aten.neg.default", &none, |x| -x);
    check("aten.relu.default", &none, |x| x.max(0.0));
    check("aten.sigmoid.default", &none, |x| 1.0 / (1.0 + (-x).exp()));
    check("aten.sin.default", &none, f64::sin);
    check("aten.sqrt.default", &none, f64::sqrt);
    check("aten.tanh.default", &none, f64::tanh);
    check("aten.round.default", &none, f64::round_ties_even);
    check("aten.hardswish.default", &none, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0);
    check("aten.leaky_relu.default", &|net| vec![net.double(0.1)], |x| x.max(0.1 * x));
    check("aten.hardshrink.default", &|net| vec![net.double(0.5)], |x| {
        if x.abs() <= 0.5 { 0.0 } else { x }
    });
    // Plain ReLU has the largest double as its maximum; an equal integer stands for a double.
    check("aten.clamp.default", &|net| vec![net.int(0), net.double(f64::MAX)], |x| x.max(0.0));
    check("aten.hardtanh.default", &|net| vec![net.double(-0.5), net.double(0.25)], |x| {
        x.clamp(-0.5, 0.25)
    });
    check("aten.pow.Tensor_Scalar", &|net| vec![net.int(2)], |x| x * x);
    check("aten.pow.Tensor_Scalar", &|net| vec![net.int(5)], |x| x.powi(5));
    check("aten.gelu.default", &|net| vec![net.null()], |x| x * normal(x));
    check("aten.gelu.default", &|net| vec![net.value(Value::Str("tanh"))], |x| {
        0.5 * x * (1.0 + (0.797_884_560_802_865 * (x + 0.044_715 * x * x * x)).tanh())
    });
}

/// Normal distribution function by Simpson's rule.
fn normal(x: f64) -> f64 {
    let f = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let n = 200;
    let h = x / f64::from(n);
    let sum = (0..=n).map(|i| {
        let weight = if i == 0 || i == n {
            1.0
        } else if i % 2 == 1 {
            4.0
        } else {
            2.0
        };
        weight * f(f64::from(i) * h)
    });
    0.5 + sum.sum::<f64>() * h / 3.0
}

#[test]
fn binary_functions_broadcast() {
    let a: Vec<f32> = floats(24);
    let check = |name: &str, alpha: Option<f64>, expected: fn(f32, f32) -> f32| {
        let sizes: [&[usize]; 2] = [&[2, 3, 4], &[3, 1]];
        let more = |net: &mut Net| alpha.map(|alpha| net.double(alpha)).into_iter().collect();
        let Some(found) = f32_call::<f32>(name, &sizes, (DataType::F32, &[2, 3, 4]), more) else {
            return;
        };
        let expected: Vec<f32> = (0..24).map(|i| expected(a[i], a[i / 4 % 3])).collect();
        close(name, &found, &expected, 1e-6);
    };
    check("aten.add.Tensor", Some(2.0), |a, b| a + 2.0 * b);
    check("aten.sub.Tensor", Some(1.0), |a, b| a - b);
    check("aten.mul.Tensor", None, |a, b| a * b);
    check("aten.div.Tensor", None, |a, b| a / b);
    check("aten.minimum.default", None, f32::min);
}

#[test]
fn comparisons_pack_four_results_in_a_word() {
    let more = |net: &mut Net| vec![net.double(0.1)];
    let out = (DataType::Bool, &[7][..]);
    let Some(found) = f32_call::<afferent_core::Bool>("aten.gt.Scalar", &[&[7]], out, more) else {
        return;
    };
    let expected: Vec<bool> = floats(7).iter().map(|x| *x > 0.1).collect();
    assert_eq!(found.iter().map(|x| x.get()).collect::<Vec<_>>(), expected);
    let infinity = |net: &mut Net| vec![net.double(f64::NEG_INFINITY)];
    let found = f32_call::<afferent_core::Bool>("aten.eq.Scalar", &[&[7]], out, infinity);
    assert!(found.unwrap().iter().all(|x| !x.get()));
}

#[test]
fn matrix_products_of_any_size() {
    // The last one has more matrices than a device has workgroups in a dimension.
    let sizes = [
        [2, 1, 5, 3],
        [2, 2, 64, 70],
        [2, 5, 3, 9],
        [2, 65, 17, 66],
        [2, 9, 1, 4],
        [70_000, 5, 1, 2],
    ];
    for [batch, m, k, n] in sizes {
        let (a, b) = (floats(batch * m * k), floats(batch * k * n));
        let sizes: [&[usize]; 2] = [&[batch, m, k], &[batch, k, n]];
        let out = (DataType::F32, &[batch, m, n][..]);
        let Some(found) = f32_call::<f32>("aten.bmm.default", &sizes, out, |_| vec![]) else {
            return;
        };
        let expected = (0..batch * m * n).map(|i| {
            let (matrix, row, column) = (i / (m * n), i / n % m, i % n);
            (0..k)
                .map(|at| a[(matrix * m + row) * k + at] * b[(matrix * k + at) * n + column])
                .sum()
        });
        close("bmm", &found, &expected.collect::<Vec<f32>>(), 1e-5);
    }
}

/// Convolution of NCHW tensors by the definition.
fn convolution(
    x: &[f32],
    [c, h, w]: [usize; 3],
    weights: &[f32],
    [o, k]: [usize; 2],
    [stride, padding, groups]: [usize; 3],
) -> Vec<f32> {
    let (oh, ow) = ((h + 2 * padding - k) / stride + 1, (w + 2 * padding - k) / stride + 1);
    let (ic, oc) = (c / groups, o / groups);
    let mut out = vec![];
    for (channel, y, column) in
        (0..o).flat_map(|o| (0..oh).flat_map(move |y| (0..ow).map(move |x| (o, y, x))))
    {
        let mut sum = 0.0;
        for (i, ky, kx) in
            (0..ic).flat_map(|i| (0..k).flat_map(move |y| (0..k).map(move |x| (i, y, x))))
        {
            let (yy, xx) = (y * stride + ky, column * stride + kx);
            if (padding..h + padding).contains(&yy) && (padding..w + padding).contains(&xx) {
                let at = ((channel / oc * ic + i) * h + yy - padding) * w + xx - padding;
                sum += x[at] * weights[((channel * ic + i) * k + ky) * k + kx];
            }
        }
        out.push(sum);
    }
    out
}

#[test]
fn convolutions() {
    // Channels, outputs, kernel, stride, padding, groups; sizes of the input.
    let cases = [
        ([3, 5, 3, 1, 1, 1], [7, 9]),
        ([4, 4, 3, 2, 1, 4], [7, 9]),
        ([8, 8, 1, 1, 0, 1], [7, 9]),
        ([8, 16, 3, 2, 0, 2], [7, 9]),
        ([6, 3, 5, 1, 2, 3], [7, 9]),
        ([2, 3, 3, 1, 1, 1], [8, 5]),
        ([4, 8, 3, 1, 0, 2], [5, 8]),
        ([4, 6, 3, 1, 1, 2], [5, 8]),
        ([1, 12, 3, 1, 1, 1], [3, 3]),
        // Large images: a thread computes eight pixels.
        ([2, 20, 3, 1, 1, 1], [67, 65]),
        ([2, 9, 2, 2, 0, 1], [130, 131]),
    ];
    for ([c, o, k, stride, padding, groups], [h, w]) in cases {
        let weights = floats(o * c / groups * k * k);
        let expected =
            convolution(&floats(c * h * w), [c, h, w], &weights, [o, k], [stride, padding, groups]);
        let (oh, ow) = ((h + 2 * padding - k) / stride + 1, (w + 2 * padding - k) / stride + 1);
        let out = (DataType::F32, &[1, o, oh, ow][..]);
        let w_sizes = [o, c / groups, k, k];
        let window = |net: &mut Net| {
            let pair = |net: &mut Net, n: usize| net.ints(&[n as i64, n as i64]);
            vec![
                net.null(),
                pair(net, stride),
                pair(net, padding),
                pair(net, 1),
                net.value(Value::Bool(false)),
                pair(net, 0),
                net.int(groups as i64),
            ]
        };
        let more = |net: &mut Net| {
            let weights = net.constant(DataType::F32, &w_sizes, &weights);
            [vec![weights], window(net)].concat()
        };
        let (name, x_sizes) = ("aten.convolution.default", [1, c, h, w]);
        let Some(found) = f32_call::<f32>(name, &[&x_sizes], out, more) else { return };
        let case = format!("{c} {o} {k} {stride} {padding} {groups}");
        close(&case, &found, &expected, 1e-5);
        // The same weights as an input.
        let Some(found) = f32_call::<f32>(name, &[&x_sizes, &w_sizes], out, window) else { return };
        close(&case, &found, &expected, 1e-5);
    }
}

#[test]
fn more_inputs_than_a_shader_joins() {
    let net = || {
        let mut net = Net::default();
        let inputs: Vec<usize> = (1..8).map(|n| net.input(DataType::I8, &[2, n])).collect();
        let (list, dim) = (net.value(Value::List(inputs)), net.int(-1));
        let out = net.output(DataType::I8, &[2, 28]);
        net.call("aten.cat.default", &[list, dim, out]);
        net
    };
    let part = |n: usize| -> Vec<i8> { (0..2 * n).map(|at| (10 * n + at) as i8).collect() };
    let inputs: Vec<Tensor> = (1..8).map(|n| Tensor::new(&[2, n], &part(n)).unwrap()).collect();
    let Some((_, found)) = run::<i8>(net, &inputs, 2) else { return };
    let row = |row: usize| (1..8).flat_map(move |n| part(n)[row * n..][..n].to_vec());
    assert_eq!(found, row(0).chain(row(1)).collect::<Vec<i8>>());
}

#[test]
fn a_clamp_after_an_int8_sum_is_fused() {
    let net = || {
        let mut net = Net::default();
        let x = net.input(DataType::I8, &[6]);
        let (scale, zero) = (net.double(0.1), net.int(-3));
        let (one, min, max, null) = (net.int(1), net.int(-128), net.int(127), net.null());
        let (low, high) = (net.int(0), net.double(0.55));
        let sum = net.tensor(DataType::I8, &[6]);
        net.call(
            "et_vk.q8ta_add.default",
            &[x, x, scale, zero, scale, zero, scale, zero, one, sum],
        );
        let [a, b] = [(); 2].map(|()| net.tensor(DataType::F32, &[6]));
        let args = [sum, scale, zero, min, max, null, null, a];
        net.call("quantized_decomposed.dequantize_per_tensor.default", &args);
        net.call("aten.hardtanh.default", &[a, low, high, b]);
        let out = net.output(DataType::I8, &[6]);
        let args = [b, scale, zero, min, max, null, out];
        net.call("quantized_decomposed.quantize_per_tensor.default", &args);
        net
    };
    let graph = net().graph();
    assert_eq!(graph.calls.len(), 1);
    // 0.55 / 0.1 in f32 rounds to 5 or 6 quanta, as in the separate calls.
    let high = (0.55_f32 / 0.1_f32).round_ties_even() as i32 - 3;
    assert_eq!(graph.calls[0].clamp, Some((-3, high)));
    let values = [-128_i8, -5, -3, -1, 0, 127];
    let Some((_, found)) = run::<i8>(net, &[Tensor::from_slice(&values)], 1) else { return };
    let expected = values.map(|x| (2 * (i32::from(x) + 3) - 3).clamp(-3, high) as i8);
    assert_eq!(found, expected);
}

/// Runs an operator with a result like its reference; more inputs follow those in `f32`.
fn check(
    name: &str,
    sizes: &[&[usize]],
    out: &[usize],
    more: &dyn Fn(&mut Net) -> Vec<usize>,
    expected: &[f32],
) {
    let found = f32_call::<f32>(name, sizes, (DataType::F32, out), more);
    let Some(found) = found else { return };
    close(name, &found, expected, 1e-5);
}

#[test]
fn moves_of_elements() {
    let x = floats(24);
    let at = |indices: &[usize]| indices.iter().map(|i| x[*i]).collect::<Vec<f32>>();
    let s = &[&[2, 3, 4][..]];
    check("aten.flip.default", s, &[2, 3, 4], &|net| vec![net.ints(&[0, -1])], &{
        at(&(0..24).map(|i| (1 - i / 12) * 12 + i / 4 % 3 * 4 + 3 - i % 4).collect::<Vec<_>>())
    });
    check("aten.select_copy.int", s, &[2, 4], &|net| vec![net.int(1), net.int(-1)], &{
        at(&[8, 9, 10, 11, 20, 21, 22, 23])
    });
    let slice = |net: &mut Net| vec![net.int(2), net.int(1), net.int(i64::MAX), net.int(2)];
    check("aten.slice_copy.Tensor", s, &[2, 3, 2], &slice, &{
        at(&[1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23])
    });
    let unfold = |net: &mut Net| vec![net.int(2), net.int(2), net.int(2)];
    check("aten.unfold_copy.default", s, &[2, 3, 2, 2], &unfold, &x);
    check("aten.repeat.default", &[&[3]], &[2, 6], &|net| vec![net.ints(&[2, 2])], &{
        at(&[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])
    });
    let expand = |net: &mut Net| vec![net.ints(&[2, -1, 2]), net.int(0)];
    check("aten.expand_copy.default", &[&[3, 1]], &[2, 3, 2], &expand, &{
        at(&[0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2])
    });
    check("aten.t_copy.default", &[&[2, 3]], &[3, 2], &|_| vec![], &at(&[0, 3, 1, 4, 2, 5]));
    let pad = |net: &mut Net| vec![net.ints(&[1, 0, 0, 1]), net.double(9.0)];
    check("aten.constant_pad_nd.default", &[&[1, 2]], &[2, 3], &pad, &{
        [9.0, x[0], x[1], 9.0, 9.0, 9.0]
    });
    let shuffle = |net: &mut Net| vec![net.int(2)];
    check("aten.pixel_shuffle.default", &[&[1, 4, 1, 2]], &[1, 1, 2, 4], &shuffle, &{
        at(&[0, 2, 1, 3, 4, 6, 5, 7])
    });
}

#[test]
fn reads_at_indices() {
    let x = floats(12);
    let at = |indices: &[usize]| indices.iter().map(|i| x[*i]).collect::<Vec<f32>>();
    let index =
        |net: &mut Net, dims: &[usize], values: &[i32]| net.constant(DataType::I32, dims, values);
    let gather = |net: &mut Net| {
        vec![net.int(1), index(net, &[3, 2], &[0, -1, 1, 1, 3, 2]), net.value(Value::Bool(false))]
    };
    check("aten.gather.default", &[&[3, 4]], &[3, 2], &gather, &at(&[0, 3, 5, 5, 11, 10]));
    let select = |net: &mut Net| vec![net.int(0), index(net, &[2], &[2, 0])];
    check(
        "aten.index_select.default",
        &[&[3, 4]],
        &[2, 4],
        &select,
        &at(&[8, 9, 10, 11, 0, 1, 2, 3]),
    );
    let both = |net: &mut Net| {
        let items = vec![index(net, &[2, 1], &[0, 2]), index(net, &[2], &[1, 3])];
        vec![net.value(Value::List(items))]
    };
    check("aten.index.Tensor", &[&[3, 4]], &[2, 2], &both, &at(&[1, 3, 9, 11]));
    let last = |net: &mut Net| {
        let items = vec![net.null(), index(net, &[2], &[3, 0])];
        vec![net.value(Value::List(items))]
    };
    check("aten.index.Tensor", &[&[3, 4]], &[3, 2], &last, &at(&[3, 0, 7, 4, 11, 8]));
    let words = |net: &mut Net| {
        let (one, no) = (net.int(-1), net.value(Value::Bool(false)));
        vec![index(net, &[1, 2], &[2, 1]), one, no, no]
    };
    check(
        "aten.embedding.default",
        &[&[3, 4]],
        &[1, 2, 4],
        &words,
        &at(&[8, 9, 10, 11, 4, 5, 6, 7]),
    );
}

#[test]
fn reductions_and_norms() {
    let x = floats(24);
    let rows = |f: &dyn Fn(&[f32]) -> f32| x.chunks(12).map(f).collect::<Vec<f32>>();
    let sum = |row: &[f32]| row.iter().sum::<f32>();
    let s = &[&[2, 3, 4][..]];
    let dims = |net: &mut Net| vec![net.ints(&[1, 2]), net.value(Value::Bool(false)), net.null()];
    check("aten.sum.dim_IntList", s, &[2], &dims, &rows(&sum));
    check("aten.mean.dim", s, &[2], &dims, &rows(&|row| sum(row) / 12.0));
    let keep = |net: &mut Net| vec![net.ints(&[1, -1]), net.value(Value::Bool(true))];
    check(
        "aten.amax.default",
        s,
        &[2, 1, 1],
        &keep,
        &rows(&|row| row.iter().copied().fold(-9.0, f32::max)),
    );
    check(
        "aten.amin.default",
        s,
        &[2, 1, 1],
        &keep,
        &rows(&|row| row.iter().copied().fold(9.0, f32::min)),
    );
    let softmax = |log: bool| {
        let columns = (0..24).map(|i| {
            let column = |y: usize| x[i / 12 * 12 + y * 4 + i % 4];
            let total: f32 = (0..3).map(|y| column(y).exp()).sum();
            if log { x[i] - total.ln() } else { x[i].exp() / total }
        });
        columns.collect::<Vec<f32>>()
    };
    let dim = |net: &mut Net| vec![net.int(1), net.value(Value::Bool(false))];
    check("aten._softmax.default", s, &[2, 3, 4], &dim, &softmax(false));
    check("aten._log_softmax.default", s, &[2, 3, 4], &dim, &softmax(true));
    let rms = x.chunks(4).flat_map(|row| {
        let scale = (row.iter().map(|v| v * v).sum::<f32>() / 4.0 + 1e-5).sqrt();
        row.iter().zip([1.0, 2.0, 3.0, 4.0]).map(move |(v, w)| v / scale * w)
    });
    let weight = |net: &mut Net| {
        vec![net.constant(DataType::F32, &[4], &[1.0_f32, 2.0, 3.0, 4.0]), net.double(1e-5)]
    };
    check("et_vk.rms_norm.default", s, &[2, 3, 4], &weight, &rms.collect::<Vec<f32>>());
}

#[test]
fn largest_positions_count_from_zero() {
    let more = |net: &mut Net| vec![net.int(-1), net.value(Value::Bool(false))];
    let out = (DataType::I32, &[2][..]);
    let Some(found) = f32_call::<i32>("aten.argmax.default", &[&[2, 100]], out, more) else {
        return;
    };
    let expected: Vec<i32> = floats(200)
        .chunks(100)
        .map(|row| (0..100).fold(0, |best, i| if row[i] > row[best] { i } else { best }) as i32)
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn pools_and_resampling() {
    let x = floats(16);
    let image = &[&[1, 1, 4, 4][..]];
    let pair = |net: &mut Net, n: i64| net.ints(&[n, n]);
    let no = |net: &mut Net| net.value(Value::Bool(false));
    let max =
        |net: &mut Net| vec![pair(net, 2), net.ints(&[]), pair(net, 0), pair(net, 1), no(net)];
    let window = |f: &dyn Fn([f32; 4]) -> f32| {
        [0, 2, 8, 10].map(|i| f([x[i], x[i + 1], x[i + 4], x[i + 5]]))
    };
    check(
        "aten.max_pool2d.default",
        image,
        &[1, 1, 2, 2],
        &max,
        &window(&|w| w.into_iter().fold(-9.0, f32::max)),
    );
    let mean = |net: &mut Net| {
        vec![
            pair(net, 2),
            pair(net, 2),
            pair(net, 0),
            no(net),
            net.value(Value::Bool(true)),
            net.null(),
        ]
    };
    check(
        "aten.avg_pool2d.default",
        image,
        &[1, 1, 2, 2],
        &mean,
        &window(&|w| w.iter().sum::<f32>() / 4.0),
    );
    let twice = |net: &mut Net| vec![net.null(), net.value(Value::DoubleList(vec![2.0, 2.0]))];
    let nearest: Vec<f32> = (0..64).map(|i| x[i / 16 * 4 + i % 8 / 2]).collect();
    check("aten.upsample_nearest2d.vec", image, &[1, 1, 8, 8], &twice, &nearest);
    let corners = |net: &mut Net| vec![net.ints(&[7, 7]), net.value(Value::Bool(true)), net.null()];
    let bilinear = (0..49).map(|i| {
        let (y, x0) = (i / 7, i % 7);
        let load = |y: usize, column: usize| x[y.min(3) * 4 + column.min(3)];
        let row = |y: usize| (load(y, x0 / 2) + load(y, x0.div_ceil(2))) / 2.0;
        (row(y / 2) + row(y.div_ceil(2))) / 2.0
    });
    check(
        "aten.upsample_bilinear2d.vec",
        image,
        &[1, 1, 7, 7],
        &corners,
        &bilinear.collect::<Vec<f32>>(),
    );
    let priors = |net: &mut Net| vec![net.int(8), net.double(0.5)];
    check("et_vk.grid_priors.default", &[&[1, 1, 2, 2]], &[4, 2], &priors, &{
        [4.0, 4.0, 12.0, 4.0, 4.0, 12.0, 12.0, 12.0]
    });
}

#[test]
fn filled_tensors() {
    let zeros = |n: usize| vec![0.0; n];
    let options = |net: &mut Net, n: usize| (0..n).map(|_| net.null()).collect::<Vec<_>>();
    let full = |net: &mut Net| [vec![net.ints(&[3]), net.double(1.5)], options(net, 4)].concat();
    check("aten.full.default", &[], &[3], &full, &[1.5; 3]);
    let like = |net: &mut Net| options(net, 5);
    check("aten.zeros_like.default", &[&[3]], &[3], &like, &zeros(3));
    let range =
        |net: &mut Net| [vec![net.int(1), net.int(8), net.int(2)], options(net, 4)].concat();
    check("aten.arange.start_step", &[], &[4], &range, &[1.0, 3.0, 5.0, 7.0]);
}

#[test]
fn attention_over_heads() {
    // Three blocks of queries.
    let (s, t, d) = (7, 5, 4);
    let (q, k) = (floats(2 * s * d), floats(2 * t * d));
    let expected = (0..2 * s * d).map(|i| {
        let (head, row, column) = (i / (s * d), i / d % s, i % d);
        let score = |at: usize| -> f32 {
            let dot = (0..d).map(|c| q[(head * s + row) * d + c] * k[(head * t + at) * d + c]);
            (dot.sum::<f32>() / 2.0).exp()
        };
        let total: f32 = (0..t).map(score).sum();
        (0..t).map(|at| score(at) * k[(head * t + at) * d + column]).sum::<f32>() / total
    });
    let sizes: [&[usize]; 3] = [&[1, 2, s, d], &[1, 2, t, d], &[1, 2, t, d]];
    let more = |net: &mut Net| vec![net.null(), net.null()];
    check("et_vk.sdpa.default", &sizes, &[1, 2, s, d], &more, &expected.collect::<Vec<f32>>());
}

#[test]
fn causal_attention_over_caches() {
    let (position, s, c, heads, d) = (1, 5, 8, 4, 4);
    let (q, cache) = (floats(s * heads * d), floats(c * heads / 2 * d));
    let row = |at: usize, head: usize| &cache[(at * heads / 2 + head / 2) * d..][..d];
    let expected = (0..s * heads * d).map(|i| {
        let (m, head, column) = (i / (heads * d), i / d % heads, i % d);
        let query = &q[(m * heads + head) * d..][..d];
        let score = |at: usize| -> f32 {
            let dot = query.iter().zip(row(at, head)).map(|(q, k)| q * k);
            (dot.sum::<f32>() / 2.0).exp()
        };
        let seen = 0..=m + position;
        let total: f32 = seen.clone().map(score).sum();
        seen.map(|at| score(at) * row(at, head)[column]).sum::<f32>() / total
    });
    let sizes: [&[usize]; 3] = [&[1, s, heads, d], &[1, c, heads / 2, d], &[1, c, heads / 2, d]];
    let more = |net: &mut Net| {
        let causal = net.value(Value::Bool(true));
        vec![net.int(position as i64), net.null(), net.double(0.0), causal, net.null()]
    };
    let expected: Vec<f32> = expected.collect();
    check("llama.custom_sdpa.default", &sizes, &[1, s, heads, d], &more, &expected);
}

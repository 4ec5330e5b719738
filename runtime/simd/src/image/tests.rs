//! Plans compared with plain code for each pixel, on every instruction set of this machine.

use afferent_core::f16;

use super::*;

/// Pseudorandom numbers.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.bits() >> 20) as usize % end
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.below(1 << 30) as f64 / (1_u64 << 30) as f64)
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

const FORMATS: [Format; 8] = [
    Format::Mono8,
    Format::Rgb8,
    Format::Bgr8,
    Format::Rgba8,
    Format::Yuyv,
    Format::Uyvy,
    Format::Nv12,
    Format::I420,
];

/// An image, its strides, and what is made of it.
#[derive(Debug)]
struct Case {
    source: Source,
    target: Target,
    to_source: [[f64; 3]; 2],
    sampling: Sampling,
    strides: Vec<usize>,
    planes: Vec<Vec<u8>>,
}

impl Case {
    fn new(random: &mut Random, sampling: Sampling) -> Self {
        let format = random.pick(&FORMATS);
        let side = random.pick(&[3, 9, 40, 90]);
        let [width, height] = [(); 2].map(|()| 2 * (1 + random.below(side)));
        let yuv = Yuv {
            weights: random.pick(&[[0.299, 0.114], [0.2126, 0.0722], [0.2627, 0.0593]]),
            is_full_range: random.below(2) == 0,
        };
        let source = Source { format, width, height, yuv };
        let channels = random.pick(&[Channels::Rgb, Channels::Bgr, Channels::Gray]);
        let target = Target {
            width: 1 + random.below(side),
            height: 1 + random.below(side),
            channels,
            order: random.pick(&[Order::Nchw, Order::Nhwc]),
            pad: random.pick(&[0.0, 114.0, 255.0]),
            scale: random.pick(&[1.0, 1.0 / 255.0]),
            mean: random.pick(&[[0.0; 3], [0.485, 0.456, 0.406]]),
            std: random.pick(&[[1.0; 3], [0.229, 0.224, 0.225]]),
        };
        let is_upright =
            matches!(sampling, Sampling::AntialiasBilinear | Sampling::AntialiasBicubic)
                || random.below(2) == 0;
        let to_source = transform(random, &source, &target, is_upright);
        let (mut strides, mut planes) = (Vec::new(), Vec::new());
        for plane in 0..format.planes() {
            let [row, rows] = source.plane_size(plane);
            let stride = row + random.below(20);
            strides.push(stride);
            planes.push((0..stride * (rows - 1) + row).map(|_| random.bits() as u8).collect());
        }
        Self { source, target, to_source, sampling, strides, planes }
    }

    fn run<E: Element + PartialEq>(&self, isa: Isa, zero: E) -> Vec<E> {
        let mut plan = Plan::new(self.source, self.target, self.to_source, self.sampling).unwrap();
        let planes: Vec<Plane<'_>> = self
            .planes
            .iter()
            .zip(&self.strides)
            .map(|(bytes, &row_stride)| Plane { bytes, row_stride })
            .collect();
        let mut outs = [(); 2].map(|()| vec![zero; self.target.elements().unwrap()]);
        for out in &mut outs {
            plan.run(isa, &planes, out).unwrap();
        }
        let [first, second] = outs;
        assert!(first == second, "a plan can be used again: {self:?}");
        first
    }

    /// Component `part` of a pixel.
    fn value(&self, part: usize, x: usize, y: usize) -> i32 {
        use Format as F;
        let at = |plane: usize, x: usize, y: usize| {
            i32::from(self.planes[plane][y * self.strides[plane] + x])
        };
        match (self.source.format, part) {
            (F::Mono8, _) | (F::Nv12 | F::I420, 0) => at(0, x, y),
            (F::Rgb8, _) => at(0, 3 * x + part, y),
            (F::Bgr8, _) => at(0, 3 * x + 2 - part, y),
            (F::Rgba8, _) => at(0, 4 * x + part, y),
            (F::Yuyv, 0) => at(0, 2 * x, y),
            (F::Yuyv, _) => at(0, x / 2 * 4 + 2 * part - 1, y),
            (F::Uyvy, 0) => at(0, 2 * x + 1, y),
            (F::Uyvy, _) => at(0, x / 2 * 4 + 2 * part - 2, y),
            (F::Nv12, _) => at(1, x / 2 * 2 + part - 1, y / 2),
            (F::I420, _) => at(part, x / 2, y / 2),
        }
    }

    /// Components of an output pixel for white of 255, or `None` outside of the source.
    fn components(&self, column: usize, row: usize) -> Option<[f32; 3]> {
        const ONE: f64 = 4_294_967_296.0;
        let Source { width, height, format, .. } = self.source;
        let [x, y] = self.to_source.map(|[a, b, c]| {
            let fixed = |value: f64| (value * ONE).round() as i64;
            fixed(a / 2.0 + b / 2.0 + c) + fixed(a) * column as i64 + fixed(b) * row as i64
        });
        let is_inside = |at: i64, size: usize| at >= 0 && at < (size as i64) << 32;
        if !is_inside(x, width) || !is_inside(y, height) {
            return None;
        }
        let limit = |at: i64, size: usize| at.clamp(0, size as i64 - 1) as usize;
        let parts = if format == Format::Mono8 { 1 } else { 3 };
        let mut all = [0.0; 3];
        for (part, out) in all.iter_mut().enumerate().take(parts) {
            let value = |x, y| self.value(part, limit(x, width), limit(y, height));
            if self.sampling == Sampling::Nearest {
                *out = value(x >> 32, y >> 32) as f32;
                continue;
            }
            let [x, y] = [x, y].map(|at| at - (1 << 31) + (1 << 17));
            let [wx, wy] = [x, y].map(|at| (at >> 18 & 0x3fff) as i32);
            let line =
                |y| (value(x >> 32, y) * (16_384 - wx) + value((x >> 32) + 1, y) * wx) as f32;
            let (first, second) = (line(y >> 32), line((y >> 32) + 1));
            *out = ((second - first) * (wy as f32 / 16_384.0) + first) / 16_384.0;
        }
        Some(all)
    }

    /// The normalized channels of an output pixel.
    fn pixel(&self, column: usize, row: usize) -> [f32; 3] {
        let Target { channels, pad, scale, mean, std, .. } = self.target;
        let colors = match self.components(column, row) {
            None => [pad; 3],
            Some(components) => self.colors(components),
        };
        std::array::from_fn(|at| {
            let color = if channels == Channels::Bgr { colors[2 - at] } else { colors[at] };
            color * ((scale / std[at]) as f32) + (-mean[at] / std[at]) as f32
        })
    }

    /// Red, green and blue, or luma three times.
    fn colors(&self, [a, b, c]: [f32; 3]) -> [f32; 3] {
        let Source { format, yuv, .. } = self.source;
        let is_gray = self.target.channels == Channels::Gray;
        let sum = |[p, q, r]: [f64; 3], constant: f64| {
            let sum = a * p as f32 + b * q as f32 + c * r as f32 + constant as f32;
            sum.clamp(0.0, 255.0)
        };
        if format == Format::Mono8 {
            return [a; 3];
        }
        if !format.is_yuv() {
            return if is_gray { [sum([0.299, 0.587, 0.114], 0.0); 3] } else { [a, b, c] };
        }
        let [red, blue] = yuv.weights;
        let green = 1.0 - red - blue;
        let (luma, black, chroma) =
            if yuv.is_full_range { (1.0, 0.0, 1.0) } else { (255.0 / 219.0, 16.0, 255.0 / 224.0) };
        if is_gray {
            return [sum([luma, 0.0, 0.0], -black * luma); 3];
        }
        let (from_u, from_v) = (2.0 * (1.0 - blue) * chroma, 2.0 * (1.0 - red) * chroma);
        [
            [luma, 0.0, from_v],
            [luma, -from_u * blue / green, -from_v * red / green],
            [luma, from_u, 0.0],
        ]
        .map(|row| sum(row, -black * luma - 128.0 * (row[1] + row[2])))
    }

    /// All channels of all pixels, in the order of the output.
    fn expected(&self) -> Vec<f32> {
        let Target { width, height, channels, order, .. } = self.target;
        let count = channels.count();
        let mut out = vec![f32::NAN; width * height * count];
        for (at, (row, column)) in
            (0..height).flat_map(|row| (0..width).map(move |column| (row, column))).enumerate()
        {
            for (channel, value) in self.pixel(column, row).into_iter().enumerate().take(count) {
                match order {
                    Order::Nchw => out[channel * width * height + at] = value,
                    Order::Nhwc => out[at * count + channel] = value,
                }
            }
        }
        out
    }
}

/// A random transform that maps most pixels into the source.
fn transform(
    random: &mut Random,
    source: &Source,
    target: &Target,
    is_upright: bool,
) -> [[f64; 3]; 2] {
    let sizes = [(source.width, target.width), (source.height, target.height)];
    let [sx, sy] = sizes.map(|(from, to)| {
        let exact = from as f64 / to as f64;
        let other = exact * random.between(0.3, 1.5);
        let scale = random.pick(&[exact, 1.0, 2.0, other]);
        if random.below(6) == 0 { -scale } else { scale }
    });
    let center = |from: usize, random: &mut Random| {
        if random.below(3) == 0 { from as f64 / 2.0 } else { random.between(0.0, from as f64) }
    };
    let [cx, cy] = sizes.map(|(from, _)| center(from, random));
    let (sin, cos) = if is_upright { (0.0, 1.0) } else { random.between(0.0, 6.3).sin_cos() };
    [[sx * cos, -sy * sin, cx], [sx * sin, sy * cos, cy]]
        .map(|[a, b, c]| [a, b, c - (a * target.width as f64 + b * target.height as f64) / 2.0])
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_instruction_set_computes_the_documented_values() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..1500 {
        let sampling = random.pick(&[Sampling::Nearest, Sampling::Bilinear, Sampling::Bilinear]);
        let case = Case::new(&mut random, sampling);
        let expected = case.expected();
        for isa in Isa::available() {
            let found = case.run(isa, 0.0_f32);
            if let Some(at) =
                (0..found.len()).find(|&at| found[at].to_bits() != expected[at].to_bits())
            {
                let Case { source, target, to_source, .. } = &case;
                panic!(
                    "{isa:?}, round {round}, element {at}: {} instead of {}\n{source:?}\n\
                     {target:?}\n{to_source:?}, {sampling:?}",
                    found[at], expected[at]
                );
            }
            let halves: Vec<f16> = expected.iter().copied().map(f16::from_f32).collect();
            assert_eq!(case.run(isa, f16::ZERO), halves);
            let bytes: Vec<u8> =
                expected.iter().map(|value| value.round_ties_even() as u8).collect();
            assert_eq!(case.run(isa, 0_u8), bytes);
        }
    }
}

/// The mean of all pixels under a filter, by the definition.
fn filtered(case: &Case, column: usize, row: usize, part: usize) -> f64 {
    let is_cubic = case.sampling == Sampling::AntialiasBicubic;
    let weights = |[scale, shift]: [f64; 2], at: usize, size: usize| {
        let (center, scale) = ((at as f64 + 0.5) * scale + shift, scale.abs().max(1.0));
        let weights = (0..size).map(|at| {
            let x = ((at as f64 + 0.5 - center) / scale).abs();
            match (is_cubic, x) {
                (false, _) => (1.0 - x).max(0.0),
                (true, ..1.0) => 1.5 * x * x * x - 2.5 * x * x + 1.0,
                (true, ..2.0) => -0.5 * x * x * x + 2.5 * x * x - 4.0 * x + 2.0,
                (true, _) => 0.0,
            }
        });
        let weights: Vec<f64> = weights.collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(move |weight| weight / total).collect::<Vec<_>>()
    };
    let [[sx, _, tx], [_, sy, ty]] = case.to_source;
    let columns = weights([sx, tx], column, case.source.width);
    let rows = weights([sy, ty], row, case.source.height);
    let mut sum = 0.0;
    for (y, row) in rows.iter().enumerate().filter(|(_, row)| **row != 0.0) {
        for (x, column) in columns.iter().enumerate().filter(|(_, column)| **column != 0.0) {
            sum += row * column * f64::from(case.value(part, x, y));
        }
    }
    sum
}

#[test]
fn filters_are_weighted_means() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for round in 0..300 {
        let sampling = random.pick(&[Sampling::AntialiasBilinear, Sampling::AntialiasBicubic]);
        let case = Case::new(&mut random, sampling);
        let Target { width, height, channels, order, .. } = case.target;
        let first = case.run(Isa::SCALAR, 0.0_f32);
        for isa in Isa::available() {
            assert_eq!(bits(&case.run(isa, 0.0_f32)), bits(&first), "{isa:?}");
        }
        let parts = if case.source.format == Format::Mono8 { 1 } else { 3 };
        for (row, column) in [(0, 0), (height / 2, width / 2), (height - 1, width - 1)] {
            let pad = case.pixel(column, row);
            let is_inside = case.components(column, row).is_some();
            let mut components = [0.0; 3];
            for (part, out) in components.iter_mut().enumerate().take(parts) {
                *out = filtered(&case, column, row, part) as f32;
            }
            let Target { scale, mean, std, .. } = case.target;
            let colors = case.colors(components);
            for channel in 0..channels.count() {
                let color = if channels == Channels::Bgr { 2 - channel } else { channel };
                let normalized = f64::from(colors[color].clamp(0.0, 255.0)) * scale;
                let normalized = (normalized - mean[channel]) / std[channel];
                let wanted = if is_inside { normalized as f32 } else { pad[channel] };
                let at = row * width + column;
                let found = match order {
                    Order::Nchw => first[channel * width * height + at],
                    Order::Nhwc => first[at * channels.count() + channel],
                };
                let tolerance = (scale / std[channel] * 2e-3) as f32;
                assert!(
                    (found - wanted).abs() <= tolerance,
                    "round {round}, {row} {column} {channel}: {found} instead of {wanted}"
                );
            }
        }
    }
}

#[test]
fn a_map_of_an_affine_transform_is_the_transform() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..200 {
        let sampling = random.pick(&[Sampling::Nearest, Sampling::Bilinear]);
        let mut case = Case::new(&mut random, sampling);
        // Binary fractions, so that both forms of positions are exact; all pixels in the source.
        let Case { source, target, .. } = case;
        let scale = |from: usize, to: usize| (from as f64 / to as f64 * 64.0).floor() / 64.0;
        let [x, y] = [scale(source.width, target.width), scale(source.height, target.height)];
        case.to_source = [[x, 0.0, 0.0], [0.0, y, 0.0]];
        let wanted = case.run(Isa::SCALAR, 0.0_f32);
        let planes: Vec<Plane<'_>> = case
            .planes
            .iter()
            .zip(&case.strides)
            .map(|(bytes, &row_stride)| Plane { bytes, row_stride })
            .collect();
        let position =
            |[column, row]: [usize; 2]| [(column as f64 + 0.5) * x, (row as f64 + 0.5) * y];
        let mut plan = Plan::with_map(source, target, sampling, position).unwrap();
        for isa in Isa::available() {
            let mut found = vec![0.0; wanted.len()];
            plan.run(isa, &planes, &mut found).unwrap();
            assert_eq!(bits(&found), bits(&wanted), "{isa:?} {source:?} {target:?} {sampling:?}");
        }
        // Far positions are limited to the last pixel.
        let far = |_| [f64::INFINITY, 1e300];
        let mut plan = Plan::with_map(source, target, sampling, far).unwrap();
        let mut found = vec![0.0; wanted.len()];
        plan.run(Isa::best(), &planes, &mut found).unwrap();
        let last = |part| case.value(part, source.width - 1, source.height - 1) as f32;
        let parts = if source.format == Format::Mono8 { [0; 3] } else { [0, 1, 2] };
        let color = case.colors(parts.map(last));
        let color = if target.channels == Channels::Bgr { color[2] } else { color[0] };
        let wanted = color * ((target.scale / target.std[0]) as f32)
            + (-target.mean[0] / target.std[0]) as f32;
        assert_eq!(found[0].to_bits(), wanted.to_bits());
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let source = Source { format: Format::Nv12, width: 8, height: 6, yuv: Yuv::BT601 };
    let target = Target {
        width: 4,
        height: 3,
        channels: Channels::Rgb,
        order: Order::Nchw,
        pad: 114.0,
        scale: 1.0,
        mean: [0.0; 3],
        std: [1.0; 3],
    };
    const HALF: [[f64; 3]; 2] = [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]];
    let check = |source, target, to_source, sampling, expected: &str| {
        let error = Plan::new(source, target, to_source, sampling).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let odd = |source| {
        check(
            source,
            target,
            HALF,
            Sampling::Bilinear,
            match source {
                Source { width: 7, .. } => {
                    "`source.width` must be even, because pixels share their chroma"
                }
                Source { height: 5, .. } => {
                    "`source.height` must be even, because pixels share their chroma"
                }
                _ => "`source.width` must be from 1 to 65536",
            },
        )
    };
    odd(Source { width: 7, ..source });
    odd(Source { height: 5, ..source });
    odd(Source { width: 0, ..source });
    let weights = Source { yuv: Yuv { weights: [0.5, 0.5], is_full_range: true }, ..source };
    let expected = "`source.yuv.weights` must be positive with a sum below 1";
    check(weights, target, HALF, Sampling::Bilinear, expected);
    let zero = Target { std: [1.0, 0.0, 1.0], ..target };
    check(source, zero, HALF, Sampling::Bilinear, "`target.std` must be finite and not zero");
    let pad = Target { pad: f32::NAN, ..target };
    check(source, pad, HALF, Sampling::Bilinear, "`target.pad` must be from 0 to 255");
    let turned = [[0.0, 2.0, 0.0], [2.0, 0.0, 0.0]];
    let expected = "`to_source` must be without rotation for antialiased sampling";
    check(source, target, turned, Sampling::AntialiasBilinear, expected);

    let map = Plan::with_map(source, target, Sampling::AntialiasBilinear, |_| [0.0; 2]);
    let expected = "`sampling` must be nearest or bilinear for a map";
    assert_eq!(map.unwrap_err().to_string(), expected);

    let mut plan = Plan::new(source, target, HALF, Sampling::Bilinear).unwrap();
    let mut run = |luma: usize, chroma: usize, row_stride: usize, out: usize| {
        let bytes = [vec![0; luma], vec![0; chroma]];
        let planes = [0, 1].map(|at| Plane { bytes: &bytes[at], row_stride });
        let result = plan.run(Isa::SCALAR, &planes, &mut vec![0.0; out]);
        result.map_err(|error| error.to_string())
    };
    let refused = |expected: &str| Err(expected.to_owned());
    assert_eq!(run(48, 24, 8, 36), Ok(()));
    assert_eq!(
        run(47, 24, 8, 36),
        refused("`planes.bytes` holds 47 elements; the sizes require 48")
    );
    assert_eq!(
        run(48, 23, 8, 36),
        refused("`planes.bytes` holds 23 elements; the sizes require 24")
    );
    assert_eq!(
        run(48, 24, 7, 36),
        refused("`planes.row_stride` holds 7 elements; the sizes require 8")
    );
    assert_eq!(run(48, 24, 8, 35), refused("`out` holds 35 elements; the sizes require 36"));
    let error = plan.run(Isa::SCALAR, &[], &mut [0.0; 36]).unwrap_err().to_string();
    assert_eq!(error, "`planes` holds 0 elements; the sizes require 2");
}

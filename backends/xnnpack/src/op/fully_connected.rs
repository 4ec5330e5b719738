//! Fully connected layer, f32, with constant weights.

use afferent_core::Error;
use afferent_simd::{
    Activation,
    igemm::{InputRows, OutputRows, WeightShape},
};

use crate::{
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    pack::f32::{GemmInput, PackedF32},
    shape::Shape,
};

pub(crate) struct FullyConnected {
    pub(crate) packed: PackedF32,
    pub(crate) activation: Activation,
}

impl Operator for FullyConnected {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let WeightShape { inner, cols } = self.packed.shape;
        unary_input(inputs)?.fully_connected(inner, cols)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (x, data) = (unary_input(inputs)?.data::<f32>()?, output_as::<f32>(out)?);
        let WeightShape { inner, cols } = self.packed.shape;
        let input_rows = InputRows::Strided { stride: inner };
        let rows = data.len() / cols.max(1);
        let input = GemmInput { x, rows, input_rows, zeros: &[] };
        self.packed.gemm(
            cx,
            input,
            self.activation,
            OutputRows { data, offset: 0, row_stride: cols },
        )
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{bf16, f16};
    use afferent_simd::{Isa, igemm::HalfFormat};

    use super::*;
    use crate::{
        pack::{
            f32::{FIXED24_MIN_LANES, FullyConnectedFilter, Storage},
            weight_cache::WeightPacker,
        },
        subgraph::UNCLAMPED,
        testing::run_reshaped,
    };

    /// Storage format of weights.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Format {
        F32,
        F16(HalfFormat),
        Fixed24,
    }

    #[test]
    fn weights_are_stored_in_the_smallest_exact_format() {
        use Format::{F16, F32, Fixed24};
        let value = |at: usize| (at as f32 * 0.7 + 0.1).sin();
        let cols = 100;
        // Maximum rows, input channels, value of one weight.
        for (max_rows, inner, outlier, expected) in [
            (1, 5, 1.0, F32),
            (1, 300, 1.0, Fixed24),
            (512, 300, 1.0, Fixed24),
            (20, 300, 1.0, F32),
            (1, 300, 1e5, F32),
            (1, 300, f32::NAN, F32),
            (1, 5, 1.0, F16(HalfFormat::Bf16)),
            (20, 300, 1.0, F16(HalfFormat::F16)),
        ] {
            let expected = match expected {
                Fixed24 if Isa::best().lanes() < FIXED24_MIN_LANES => F32,
                expected => expected,
            };
            let rounded = |x: f32| match expected {
                F32 | Fixed24 => x,
                F16(HalfFormat::Bf16) => bf16::from_f32(x).to_f32(),
                F16(HalfFormat::F16) => f16::from_f32(x).to_f32(),
            };
            for transposed in [false, true] {
                let mut weights: Vec<f32> =
                    (0..inner * cols).map(|at| rounded(value(at))).collect();
                weights[inner * cols / 2] = outlier;
                let bias = Some(&[0.5; 100][..]);
                let shape = WeightShape { inner, cols };
                let filter =
                    FullyConnectedFilter { weights: &weights, transposed, shape, max_rows };
                let packed =
                    PackedF32::pack_fully_connected(&WeightPacker::default(), filter, bias)
                        .unwrap();
                let format = match packed.storage {
                    Storage::F32(_) => F32,
                    Storage::F16(half, _) => F16(half),
                    Storage::Fixed24(_) => Fixed24,
                };
                assert_eq!(format, expected);
                let activation = Activation::from(UNCLAMPED);
                let mut layer = FullyConnected { packed, activation };
                for (rows, threads) in [(1, 1), (1, 2), (3, 1), (40, 1), (40, 3)] {
                    let x: Vec<f32> = (0..rows * inner).map(|at| value(at + 9)).collect();
                    let shape = Shape::of([rows, inner]);
                    let to = layer.reshape(&[shape], &mut MemoryBudget::new(usize::MAX)).unwrap();
                    let out = run_reshaped(&layer, &x, [shape, to], f32::NAN, threads);
                    for (at, found) in out.iter().enumerate() {
                        let (row, col) = (at / cols, at % cols);
                        let weight = |k: usize| {
                            weights[if transposed { k * cols + col } else { col * inner + k }]
                        };
                        let wanted =
                            0.5 + (0..inner).map(|k| x[row * inner + k] * weight(k)).sum::<f32>();
                        let is_close = (found - wanted).abs() <= 2e-5 * wanted.abs().max(5.0);
                        let is_equal = is_close || found.is_nan() && wanted.is_nan();
                        assert!(is_equal, "{expected:?}, {rows} rows: {found}, {wanted}");
                    }
                }
            }
        }
    }
}

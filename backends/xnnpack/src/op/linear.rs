//! Fully connected layers and products of matrices, of `f32`.

use afferent_core::{Error, Workers};
use afferent_simd::{
    Activation, Isa,
    epilogue::BiasActivation,
    gemm::{Addend, Dim, Gemm, MatrixStrides, Output, StridedOperand},
    igemm::{
        Fixed24, HalfFormat, Igemm, InputRows, OutputRows, PackedWeights, WeightShape, pack,
        pack_columns, packed_len, panel_cols,
    },
};

use super::{
    Cx, Input, Op, both, elements,
    keep::{Form, Keep, Kept},
    only, some,
};
use crate::shape::{MISFIT, Room, Shape, TOO_LARGE, advance};

/// Weights in panels, and a bias for each column of whole panels.
pub(crate) struct Packed {
    weights: Stored,
    pub(crate) bias: Vec<f32>,
    inner: usize,
    cols: usize,
}

enum Stored {
    Numbers(Kept<f32>),
    Halves(HalfFormat, Kept<u32>),
    Fixed(Kept<u32>),
}

impl Packed {
    /// Packs `weight(k, col)`, of a group of weights that lie in this form.
    pub(crate) fn new(
        keep: &Keep<'_>,
        (form, group): (Form, usize),
        (inner, cols): (usize, usize),
        weight: impl Fn(usize, usize) -> f32,
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let isa = Isa::best();
        let len = packed_len(isa, WeightShape { inner, cols }).ok_or(TOO_LARGE)?;
        let weights = keep.numbers(form, &[group, inner, cols], len, |to| {
            pack(isa, WeightShape { inner, cols }, &weight, to);
            Ok(())
        })?;
        Self::of(keep, Stored::Numbers(weights), (inner, cols), bias)
    }

    /// Packs columns that lie one after the other, the first at `first`.
    pub(crate) fn of_columns(
        keep: &Keep<'_>,
        (inner, cols): (usize, usize),
        first: usize,
        columns: &[f32],
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let isa = Isa::best();
        let len = packed_len(isa, WeightShape { inner, cols }).ok_or(TOO_LARGE)?;
        let column = |col: usize| &columns[first + col * inner..][..inner];
        let weights = keep.numbers(Form::Columns, &[first, inner, cols], len, |to| {
            pack_columns(isa, WeightShape { inner, cols }, column, to);
            Ok(())
        })?;
        Self::of(keep, Stored::Numbers(weights), (inner, cols), bias)
    }

    /// Packs the weights of a fully connected layer: in 16 bits if those can hold them, else in 24 if
    /// that rounds little and is worth it.
    pub(crate) fn of_layer(
        keep: &Keep<'_>,
        layer: Layer<'_>,
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let Layer { weights, transposed, inner, cols, .. } = layer;
        let narrow = match layer.halves(keep)? {
            None => layer.fixed(keep)?,
            halves => halves,
        };
        if let Some(stored) = narrow {
            Self::of(keep, stored, (inner, cols), bias)
        } else if transposed {
            let weight = |k: usize, col: usize| weights[k * cols + col];
            Self::new(keep, (Form::Rows, 0), (inner, cols), weight, bias)
        } else {
            Self::of_columns(keep, (inner, cols), 0, weights, bias)
        }
    }

    fn of(
        keep: &Keep<'_>,
        weights: Stored,
        (inner, cols): (usize, usize),
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        Ok(Self { weights, bias: padded(keep, cols, bias)?, inner, cols })
    }

    /// The weights, where they are numbers of 32 bits.
    pub(crate) fn numbers(&self) -> Result<&[f32], Error> {
        match &self.weights {
            Stored::Numbers(numbers) => Ok(numbers),
            Stored::Halves(..) | Stored::Fixed(_) => Err(MISFIT),
        }
    }

    fn weights(&self) -> Result<PackedWeights<'_>, Error> {
        Ok(match &self.weights {
            Stored::Numbers(numbers) => PackedWeights::F32(numbers),
            Stored::Halves(half, words) => PackedWeights::Half(*half, words),
            Stored::Fixed(packed) => {
                let sizes = WeightShape { inner: self.inner, cols: self.cols };
                PackedWeights::Fixed24(Fixed24::new(Isa::best(), sizes, packed).ok_or(MISFIT)?)
            }
        })
    }

    /// The product of rows of `x` with the weights.
    fn product<'p>(
        &'p self,
        (x, rows, places): (&'p [f32], usize, InputRows<'p>),
        zeros: &'p [f32],
    ) -> Result<Igemm<'p>, Error> {
        let taps = if let InputRows::Indirect { taps, .. } = places { taps } else { 1 };
        let channels = self.inner / taps.max(1);
        let (weights, cols) = (self.weights()?, self.cols);
        Ok(Igemm {
            x,
            zeros,
            input_rows: places,
            rows,
            channels,
            weights,
            cols,
            reverse_panels: false,
        })
    }

    /// The product of rows of `x` with the weights, written to `out`.
    pub(crate) fn write(
        &self,
        cx: &mut Cx<'_>,
        rows: (&[f32], usize, InputRows<'_>),
        zeros: &[f32],
        then: Activation,
        out: OutputRows<'_, f32>,
    ) -> Result<(), Error> {
        let epilogue = BiasActivation { bias: &self.bias, activation: then };
        let product = Igemm { reverse_panels: cx.from_end, ..self.product(rows, zeros)? };
        let len = product.scratch_len(cx.isa, cx.workers.map_or(1, Workers::threads));
        let scratch = some(&mut cx.scratch.floats, len, &mut cx.scratch.room)?;
        product.run(cx.isa, epilogue, out, scratch, cx.workers).or(Err(MISFIT))
    }

    /// The product of some rows of `x`, part of a larger one, with weights of 32 bits.
    pub(crate) fn write_part(
        &self,
        workers: Option<&dyn Workers>,
        rows: (&[f32], usize, InputRows<'_>),
        zeros: &[f32],
        then: Activation,
        out: OutputRows<'_, f32>,
    ) -> Result<(), Error> {
        let epilogue = BiasActivation { bias: &self.bias, activation: then };
        let product = self.product(rows, zeros)?;
        product.run(Isa::best(), epilogue, out, &mut [], workers).or(Err(MISFIT))
    }
}

/// The weights of a fully connected layer.
#[derive(Clone, Copy)]
pub(crate) struct Layer<'w> {
    pub(crate) weights: &'w [f32],
    /// Whether they lie row after row.
    pub(crate) transposed: bool,
    pub(crate) inner: usize,
    pub(crate) cols: usize,
    /// The most rows of an input, as far as the blob says it.
    pub(crate) rows: usize,
}

/// Lanes of vectors with which weights of 24 bits were measured to be faster.
const WIDE: usize = 8;

impl Layer<'_> {
    /// The weights in 16 bits, if those can hold them.
    fn halves(&self, keep: &Keep<'_>) -> Result<Option<Stored>, Error> {
        let Self { weights, transposed, inner, cols, .. } = *self;
        let isa = Isa::best();
        let Some(len) = HalfFormat::packed_len(isa, WeightShape { inner, cols }) else {
            return Ok(None);
        };
        let Some(half) = HalfFormat::exact_for(weights) else { return Ok(None) };
        let form = if transposed { Form::HalfRows } else { Form::HalfColumns };
        let words = keep.numbers(form, &[half as usize, inner, cols], len, |to| {
            let width = panel_cols(isa, cols);
            let len = to.len() / cols.div_ceil(width);
            let mut numbers = vec![0.0; inner * width];
            let write = self.panels();
            for (at, to) in to.chunks_exact_mut(len).enumerate() {
                write(at * width, &mut numbers);
                half.pack(isa, &numbers, to);
            }
            Ok(())
        })?;
        Ok(Some(Stored::Halves(half, words)))
    }

    /// The weights in 24 bits, if those round little and are worth it.
    fn fixed(&self, keep: &Keep<'_>) -> Result<Option<Stored>, Error> {
        /// Fewer numbers stay in the first-level cache, from which they come as fast in 32 bits.
        const FAR: usize = 16 * 1024;
        /// An input with so many rows may have one at other times, as prompts of language models;
        /// fewer do not make up for what it takes to unpack the weights.
        const MANY: usize = 64;
        let Self { transposed, inner, cols, rows, .. } = *self;
        let isa = Isa::best();
        let sizes = (
            Fixed24::packed_len(isa, WeightShape { inner, cols }),
            packed_len(isa, WeightShape { inner, cols }),
        );
        let (Some(len), Some(numbers)) = sizes else { return Ok(None) };
        let few = (2..MANY).contains(&rows);
        if isa.lanes() < WIDE || numbers < FAR || len >= numbers || few {
            return Ok(None);
        }
        let form = if transposed { Form::FixedRows } else { Form::FixedColumns };
        let mut packs = true;
        let words = keep.numbers(form, &[inner, cols], len, |to| {
            let mut scratch = vec![0.0; Fixed24::scratch_len(isa, inner)];
            packs =
                Fixed24::pack(isa, WeightShape { inner, cols }, self.panels(), &mut scratch, to);
            if packs { Ok(()) } else { Err(MISFIT) }
        });
        if packs { Ok(Some(Stored::Fixed(words?))) } else { Ok(None) }
    }

    /// Writes the panel from a column on.
    fn panels(&self) -> impl Fn(usize, &mut [f32]) {
        let Self { weights, transposed, inner, cols, .. } = *self;
        let isa = Isa::best();
        let width = panel_cols(isa, cols);
        let none = vec![0.0; inner];
        move |first, to| {
            if transposed {
                let row = |k: usize| weights[k * cols..][..cols].get(first..).unwrap_or_default();
                let weight = |k: usize, col: usize| row(k).get(col).copied().unwrap_or(0.0);
                pack(isa, WeightShape { inner, cols: width }, weight, to);
            } else {
                let column = |col: usize| {
                    weights.get((first + col) * inner..).and_then(|all| all.get(..inner))
                };
                pack_columns(
                    isa,
                    WeightShape { inner, cols: width },
                    |col| column(col).unwrap_or(&none),
                    to,
                );
            }
        }
    }
}

/// `bias` with zeros up to whole panels of columns; none is all zeros.
fn padded(keep: &Keep<'_>, cols: usize, bias: Option<&[f32]>) -> Result<Vec<f32>, Error> {
    let len = cols.next_multiple_of(panel_cols(Isa::best(), cols));
    keep.take::<f32>(len)?;
    let mut all = vec![0.0; len];
    all.iter_mut().zip(bias.unwrap_or_default()).for_each(|(to, from)| *to = *from);
    Ok(all)
}

/// The shape of a fully connected layer with so many inputs and outputs.
pub(crate) fn connected(input: &Shape, inner: usize, cols: usize) -> Result<Shape, Error> {
    let last = input.len().checked_sub(1).ok_or(MISFIT)?;
    if input[last] != inner {
        return Err(MISFIT);
    }
    let out = input.with(last, cols);
    out.numel()?;
    Ok(out)
}

/// A fully connected layer whose weights are constant.
pub(crate) struct Linear {
    pub(crate) packed: Packed,
    pub(crate) then: Activation,
}

impl Op for Linear {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        connected(only(inputs)?, self.packed.inner, self.packed.cols)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let (x, data) = (only(inputs)?.data::<f32>()?, elements::<f32>(out)?);
        let Packed { inner, cols, .. } = self.packed;
        let places = InputRows::Strided { stride: inner };
        let rows = data.len() / cols.max(1);
        let out = OutputRows { data, offset: 0, row_stride: cols };
        self.packed.write(cx, (x, rows, places), &[], self.then, out)
    }
}

/// A product of matrices, each pair of a batch by itself, and perhaps a bias; a fully connected
/// layer whose weights are computed.
pub(crate) struct Product {
    /// Whether the right operand is columns by rows.
    pub(crate) transposed: bool,
    /// Whether the right operand has no batch.
    pub(crate) shared: bool,
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) clamp: (f32, f32),
    sizes: Sizes,
}

/// Sizes of the matrices.
#[derive(Default, Clone, Copy)]
struct Sizes {
    rows: usize,
    inner: usize,
    cols: usize,
    /// Matrices, and of each operand those after which it starts again, by dimension.
    batch: [(usize, [usize; 2]); 4],
}

impl Product {
    pub(crate) fn new(
        transposed: bool,
        shared: bool,
        bias: Option<Vec<f32>>,
        clamp: (f32, f32),
    ) -> Self {
        Self { transposed, shared, bias, clamp, sizes: Sizes::default() }
    }
}

impl Op for Product {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        let [a, b] = both(inputs)?;
        let (&[.., rows, inner], &[.., m, n]) = (&**a, &**b) else {
            return self.vector(a, b);
        };
        let (k, cols) = if self.transposed { (n, m) } else { (m, n) };
        if k != inner || (self.shared && b.len() != 2) {
            return Err(MISFIT);
        }
        let mut sizes = Sizes { rows, inner, cols, batch: [(1, [0; 2]); 4] };
        if self.shared {
            let (all, ..) = a.around(a.len() - 1);
            self.sizes = Sizes { rows: all, ..sizes };
            return connected(a, inner, cols);
        }
        let rank = a.len().max(b.len());
        let mut out = [1; 6];
        let size = |shape: &Shape, dim: usize| {
            (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim])
        };
        let mut steps = [rows * inner, m * n];
        for dim in (0..rank - 2).rev() {
            let (i, j) = (size(a, dim), size(b, dim));
            if i != j && i != 1 && j != 1 {
                return Err(MISFIT);
            }
            out[dim] = if i == 1 { j } else { i };
            let here = [if i == 1 { 0 } else { steps[0] }, if j == 1 { 0 } else { steps[1] }];
            sizes.batch[dim + 6 - rank] = (out[dim], here);
            steps = [steps[0] * i, steps[1] * j];
        }
        (out[rank - 2], out[rank - 1]) = (rows, cols);
        self.sizes = sizes;
        let out = Shape::new(&out[..rank]).ok_or(MISFIT)?;
        out.numel()?;
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let [a, b] = both(inputs)?;
        let (a, b, out) = (a.data::<f32>()?, b.data::<f32>()?, elements::<f32>(out)?);
        let Sizes { rows, inner, cols, batch } = self.sizes;
        if out.is_empty() {
            return Ok(());
        }
        let mut at = [0; 4];
        let mut start = [0, 0];
        for out in out.chunks_exact_mut(rows * cols) {
            let (a, b) = (a.get(start[0]..).ok_or(MISFIT)?, b.get(start[1]..).ok_or(MISFIT)?);
            let (col, k) = if self.transposed { (inner, 1) } else { (1, cols) };
            let addend = self.bias.as_deref();
            let product = Gemm {
                a: StridedOperand::new(
                    a,
                    Dim { len: rows, stride: inner },
                    Dim { len: inner, stride: 1 },
                )
                .ok_or(MISFIT)?,
                b: StridedOperand::new(
                    b,
                    Dim { len: cols, stride: col },
                    Dim { len: inner, stride: k },
                )
                .ok_or(MISFIT)?,
                rows,
                inner,
                cols,
                alpha: 1.0,
                addend: addend.map(|data| Addend {
                    data,
                    strides: MatrixStrides { row: 0, col: 1 },
                    beta: 1.0,
                }),
                clamp: Some(self.clamp),
            };
            let strides = MatrixStrides { row: cols, col: 1 };
            let (product, strides) = product.oriented(cx.isa, strides);
            let threads = cx.workers.map_or(1, |workers| workers.threads());
            let len = product.scratch_len(cx.isa, threads);
            let scratch = some(&mut cx.scratch.floats, len, &mut cx.scratch.room)?;
            let out = Output { data: out, strides };
            product.run(cx.isa, out, scratch, cx.workers).or(Err(MISFIT))?;
            advance(&batch, &mut at, &mut start);
        }
        Ok(())
    }
}

impl Product {
    /// A vector as the left operand.
    fn vector(&mut self, a: &Shape, b: &Shape) -> Result<Shape, Error> {
        let (&[inner], &[m, n]) = (&**a, &**b) else { return Err(MISFIT) };
        let (k, cols) = if self.transposed { (n, m) } else { (m, n) };
        if k != inner {
            return Err(MISFIT);
        }
        self.sizes = Sizes { rows: 1, inner, cols, batch: [(1, [0; 2]); 4] };
        Ok(Shape::of([cols]))
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{bf16, f16};

    use super::*;
    use crate::{
        graph::OPEN,
        op::trial::{computed, computed_of},
    };

    /// How weights are stored.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Bits {
        Numbers,
        Halves(HalfFormat),
        Fixed,
    }

    #[test]
    fn weights_lie_in_as_many_bits_as_they_need() {
        use Bits::{Fixed, Halves, Numbers};
        let whole = |at: usize| (at as f32 * 0.7 + 0.1).sin();
        let cols = 100;
        for (most, inner, lonely, expected) in [
            (1, 5, 1.0, Numbers),
            (1, 300, 1.0, Fixed),
            (512, 300, 1.0, Fixed),
            (20, 300, 1.0, Numbers),
            (1, 300, 1e5, Numbers),
            (1, 300, f32::NAN, Numbers),
            (1, 5, 1.0, Halves(HalfFormat::Bf16)),
            (20, 300, 1.0, Halves(HalfFormat::F16)),
        ] {
            let expected = match expected {
                Fixed if Isa::best().lanes() < WIDE => Numbers,
                expected => expected,
            };
            let rounded = |x: f32| match expected {
                Numbers | Fixed => x,
                Halves(HalfFormat::Bf16) => bf16::from_f32(x).to_f32(),
                Halves(HalfFormat::F16) => f16::from_f32(x).to_f32(),
            };
            for transposed in [false, true] {
                let mut weights: Vec<f32> =
                    (0..inner * cols).map(|at| rounded(whole(at))).collect();
                weights[inner * cols / 2] = lonely;
                let bias = Some(&[0.5; 100][..]);
                let keep = Keep::default();
                let layer = Layer { weights: &weights, transposed, inner, cols, rows: most };
                let packed = Packed::of_layer(&keep, layer, bias).unwrap();
                let found = match packed.weights {
                    Stored::Numbers(_) => Numbers,
                    Stored::Halves(half, _) => Halves(half),
                    Stored::Fixed(_) => Fixed,
                };
                assert_eq!(found, expected);
                let then = Activation::from(OPEN);
                let mut layer = Linear { packed, then };
                for (rows, threads) in [(1, 1), (1, 2), (3, 1), (40, 1), (40, 3)] {
                    let x: Vec<f32> = (0..rows * inner).map(|at| whole(at + 9)).collect();
                    let shape = Shape::of([rows, inner]);
                    let to = layer.shape(&[shape], &mut Room::of(usize::MAX)).unwrap();
                    let out = computed(&layer, &x, [shape, to], f32::NAN, threads);
                    for (at, found) in out.iter().enumerate() {
                        let (row, col) = (at / cols, at % cols);
                        let weight = |k: usize| {
                            weights[if transposed { k * cols + col } else { col * inner + k }]
                        };
                        let wanted =
                            0.5 + (0..inner).map(|k| x[row * inner + k] * weight(k)).sum::<f32>();
                        let near = (found - wanted).abs() <= 2e-5 * wanted.abs().max(5.0);
                        let same = near || found.is_nan() && wanted.is_nan();
                        assert!(same, "{expected:?}, {rows} rows: {found}, {wanted}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_of_nothing_are_the_bias_within_bounds() {
        for transposed in [false, true] {
            let bias = vec![-3.0, 1.0, 9.0];
            let mut product = Product::new(transposed, true, Some(bias), (-1.0, 5.0));
            let right = if transposed { [3, 0] } else { [0, 3] };
            let shapes = [Shape::of([2, 0]), Shape::of(right)];
            let to = product.shape(&shapes, &mut Room::of(usize::MAX)).unwrap();
            let none: &[f32] = &[];
            let inputs =
                shapes.each_ref().map(|shape| Input { shape, bytes: bytemuck::cast_slice(none) });
            let found = computed_of(&product, &inputs, to, f32::NAN, 1);
            assert_eq!(found, [-1.0, 1.0, 5.0, -1.0, 1.0, 5.0]);
        }
    }
}

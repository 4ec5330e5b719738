//! Some tiles of a convolution: their inputs are transformed, then multiplied panel by panel.

#![expect(unsafe_code, reason = "writes tiles of a picture that several threads write")]

use super::{APART, BLOCK, IN, OUT, PLACES, Plan, Sizes, TAPS, Winograd, transform};
use crate::{
    Routine, Simd,
    gemm::tile::{Start, Strips},
    parallel::Shared,
};

/// How many numbers parts of the memory take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lens {
    /// Channels of a block.
    pub(super) channels: usize,
    /// Columns of a panel.
    pub(super) width: usize,
    /// A place of transformed inputs, in a block.
    pub(super) input: usize,
    /// A place of transformed weights.
    pub(super) weight: usize,
    /// A place of products.
    pub(super) product: usize,
    /// A block of transformed inputs.
    pub(super) block: usize,
    /// Transformed inputs.
    pub(super) inputs: usize,
}

impl Lens {
    /// Of strips of so many tiles; `channels` are whole vectors.
    pub(super) fn new(channels: usize, tiles: usize, width: usize) -> Option<Self> {
        let (blocks, of_block) = (channels.div_ceil(BLOCK), channels.min(BLOCK));
        let input = tiles.checked_mul(of_block)?.checked_add(APART)?;
        let weight = of_block * width + APART;
        let product = tiles.checked_mul(width)?.checked_add(APART)?;
        product.checked_mul(PLACES)?;
        let block = input.checked_mul(PLACES)?;
        let inputs = block.checked_mul(blocks)?;
        Some(Self { channels: of_block, width, input, weight, product, block, inputs })
    }

    /// Transformed weights of a panel and a block, and products of a panel.
    pub(super) fn own(&self) -> Option<usize> {
        (self.weight + self.product).checked_mul(PLACES)
    }
}

/// Tiles `from..to` of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Strip<'c> {
    pub(super) conv: &'c Winograd<'c>,
    pub(super) plan: &'c Plan,
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Strip<'_> {
    /// Picture, row and column of the first output of a tile.
    #[inline(always)]
    fn place(&self, tile: usize) -> (usize, usize, usize) {
        let [rows, cols] = self.plan.grid;
        (tile / cols / rows, tile / cols % rows * OUT, tile % cols * OUT)
    }

    /// Where the channels of each place of a tile's input are.
    #[inline(always)]
    fn lines(&self, tile: usize) -> [[*const f32; IN]; IN] {
        let Winograd { x, zeros, sizes, .. } = self.conv;
        let Sizes { input, before, channels, .. } = *sizes;
        let (item, top, left) = self.place(tile);
        let inside =
            |dim: usize, at: usize| at.checked_sub(before[dim]).filter(|at| *at < input[dim]);
        let mut lines = [[zeros.as_ptr(); IN]; IN];
        for (i, lines) in lines.iter_mut().enumerate() {
            let Some(row) = inside(0, top + i) else { continue };
            for (j, line) in lines.iter_mut().enumerate() {
                let Some(col) = inside(1, left + j) else { continue };
                let at = ((item * input[0] + row) * input[1] + col) * channels;
                *line = x.as_ptr().wrapping_add(at);
            }
        }
        lines
    }
}

/// Transforms the inputs of a strip: some channels of them.
pub(super) struct Gather<'c, 'm> {
    pub(super) strip: Strip<'c>,
    pub(super) block: usize,
    /// Places of tiles of channels.
    pub(super) to: &'m mut [f32],
}

impl Routine for Gather<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { strip, block, to } = self;
        let (lens, channels) = (strip.plan.lens, strip.conv.sizes.channels);
        let first = block * lens.channels;
        let last = channels.min(first + lens.channels);
        let tiles = strip.to - strip.from;
        assert!((PLACES - 1) * lens.input + tiles * lens.channels <= to.len());
        for tile in 0..tiles {
            let lines = strip.lines(strip.from + tile);
            let to = to.as_mut_ptr().wrapping_add(tile * lens.channels);
            let mut channel = first;
            while channel < last {
                let to = to.wrapping_add(channel - first);
                // SAFETY: `write` saw that the lines have all channels, and the assertion that
                // there are places for all tiles, of whole vectors of channels.
                unsafe { square::<S>(simd, &lines, (channel, last), to, lens.input) };
                channel += S::LANES;
            }
        }
    }
}

/// Transforms a vector of channels of a tile, and writes places `step` apart.
///
/// # Safety
/// The lines have all channels below `last`, and a vector can be written at each place.
#[inline(always)]
unsafe fn square<S: Simd>(
    simd: S,
    lines: &[[*const f32; IN]; IN],
    (channel, last): (usize, usize),
    to: *mut f32,
    step: usize,
) {
    let mut tile = [[simd.zero(); IN]; IN];
    if channel + S::LANES <= last {
        for (tile, lines) in tile.iter_mut().zip(lines) {
            for (x, line) in tile.iter_mut().zip(lines) {
                // SAFETY: demanded of the caller.
                *x = unsafe { simd.load_at(line.wrapping_add(channel)) };
            }
        }
    } else {
        for (tile, lines) in tile.iter_mut().zip(lines) {
            for (x, line) in tile.iter_mut().zip(lines) {
                // SAFETY: demanded of the caller.
                *x = unsafe { simd.load_first_at(line.wrapping_add(channel), last - channel) };
            }
        }
    }
    // SAFETY: demanded of the caller.
    unsafe { scatter(simd, &transform::inputs(simd, tile), to, step) };
}

/// Writes the vectors of a square, places `step` apart.
///
/// # Safety
/// A vector can be written at each place.
#[inline(always)]
unsafe fn scatter<S: Simd>(
    simd: S,
    square: &transform::Square<S, IN, IN>,
    to: *mut f32,
    step: usize,
) {
    for (i, row) in square.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            let to = to.wrapping_add((i * IN + j) * step);
            // SAFETY: demanded of the caller.
            unsafe { simd.store_at(*value, to) };
        }
    }
}

/// What a strip is multiplied in.
pub(super) struct Memory<'m> {
    /// Transformed inputs.
    pub(super) inputs: &'m [f32],
    /// For transformed weights and products.
    pub(super) own: &'m mut [f32],
}

/// Multiplies the transformed inputs of a strip with those weights that are in the panels `panels`.
pub(super) struct Multiply<'c, 'm> {
    pub(super) strip: Strip<'c>,
    pub(super) panels: (usize, usize),
    pub(super) memory: Memory<'m>,
    pub(super) out: &'m Shared<'m, f32>,
}

impl Routine for Multiply<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.strip.plan.lens.width == S::LANES {
            self.panels::<S, 1>(simd);
        } else {
            self.panels::<S, 2>(simd);
        }
    }
}

impl Multiply<'_, '_> {
    /// Panels of `C` vectors.
    #[inline(always)]
    fn panels<S: Simd, const C: usize>(self, simd: S) {
        let Self { strip, panels, memory: Memory { inputs, own }, out } = self;
        let Lens { channels, width, input, weight, product, block: block_len, .. } =
            strip.plan.lens;
        let tiles = strip.to - strip.from;
        let (weights, products) = own.split_at_mut(weight * PLACES);
        for panel in panels.0..panels.1 {
            for (block, inputs) in inputs.chunks_exact(block_len).enumerate() {
                let depth = channels.min(strip.conv.sizes.channels - block * channels);
                strip.weights::<S, C>(simd, panel, (block * channels, depth), weights);
                let places = Shared::new(products);
                for place in 0..PLACES {
                    let product = Strips {
                        a: &inputs[place * input..],
                        a_row: channels,
                        a_k: 1,
                        b: &weights[place * weight..],
                        b_k: width,
                        depth,
                        rows: tiles,
                        cols: width,
                        width,
                        out: &places,
                        at: place * product,
                        steps: (width, 1),
                        start: if block == 0 { Start::Zero } else { Start::Target },
                        late: None,
                        clamp: None,
                    };
                    product.run(simd);
                }
            }
            for c in 0..C {
                let from = panel * width + c * S::LANES;
                strip.outputs(simd, from, &products[c * S::LANES..], out);
            }
        }
    }
}

impl Strip<'_> {
    /// Transforms the weights of a panel and of so many channels from one on.
    #[inline(always)]
    fn weights<S: Simd, const C: usize>(
        &self,
        simd: S,
        panel: usize,
        (first, count): (usize, usize),
        to: &mut [f32],
    ) {
        let (lens, channels) = (self.plan.lens, self.conv.sizes.channels);
        let size = lens.width * channels;
        let from = &self.conv.weights[panel * size * TAPS..][..size * TAPS];
        assert!(first + count <= channels && PLACES * lens.weight <= to.len());
        for k in 0..count {
            for c in 0..C {
                let at = (first + k) * lens.width + c * S::LANES;
                let mut kernel = [[simd.zero(); 3]; 3];
                for (i, kernel) in kernel.iter_mut().enumerate() {
                    for (j, weight) in kernel.iter_mut().enumerate() {
                        let from = from.as_ptr().wrapping_add((i * 3 + j) * size + at);
                        // SAFETY: the panel has `C` vectors for each channel of each tap.
                        *weight = unsafe { simd.load_at(from) };
                    }
                }
                let to = to.as_mut_ptr().wrapping_add(k * lens.width + c * S::LANES);
                // SAFETY: each place has `C` vectors for each channel of a block.
                unsafe { scatter(simd, &transform::weights(simd, kernel), to, lens.weight) };
            }
        }
    }

    /// Transforms products to the outputs of a vector of columns, from column `col` on.
    #[inline(always)]
    fn outputs<S: Simd>(&self, simd: S, col: usize, products: &[f32], out: &Shared<'_, f32>) {
        let Winograd { sizes: Sizes { output, cols, .. }, bias, then, .. } = *self.conv;
        let Some(len) = cols.checked_sub(col).filter(|len| *len > 0) else { return };
        let len = len.min(S::LANES);
        let bias = simd.load(&bias[col..]);
        let lens = self.plan.lens;
        let tiles = self.to - self.from;
        assert!(
            (PLACES - 1) * lens.product + (tiles - 1) * lens.width + S::LANES <= products.len()
        );
        for tile in self.from..self.to {
            let from = products.as_ptr().wrapping_add((tile - self.from) * lens.width);
            let mut square = [[simd.zero(); IN]; IN];
            for (i, row) in square.iter_mut().enumerate() {
                for (j, product) in row.iter_mut().enumerate() {
                    let from = from.wrapping_add((i * IN + j) * lens.product);
                    // SAFETY: the assertion saw that the last vector of the last tile is inside.
                    *product = unsafe { simd.load_at(from) };
                }
            }
            let square = transform::outputs(simd, square);
            let (item, top, left) = self.place(tile);
            for (row, values) in (top..output[0]).zip(&square) {
                let at = ((item * output[0] + row) * output[1] + left) * cols + col;
                for (column, value) in values.iter().enumerate().take(output[1] - left) {
                    let value = then.of(simd, *value + bias);
                    // SAFETY: `write` saw that the target holds all pictures; each tile and each
                    // column belongs to one thread.
                    let to = unsafe { out.pointer(at + column * cols) };
                    if len == S::LANES {
                        // SAFETY: as above.
                        unsafe { simd.store_at(value, to) };
                    } else {
                        // SAFETY: as above.
                        unsafe { simd.store_first_at(value, to, len) };
                    }
                }
            }
        }
    }
}

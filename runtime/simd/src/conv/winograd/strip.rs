//! Some tiles of a convolution: their inputs are transformed, then multiplied panel by panel.

#![expect(unsafe_code, reason = "writes tiles of an image from several threads")]

use super::{APART, BLOCK, ConvShape, IN, Kind, OUT, PLACES, Plan};
use crate::{
    Routine, Simd,
    gemm::tile::{self, Start, Strips},
    parallel::SharedSlice,
};

/// The channels of each place of a tile's input.
pub(super) type Lines<T> = [[*const T; IN]; IN];

/// What is convolved, with which weights, and what becomes of it.
///
/// Transformed inputs, weights and products are words of the same scratch memory, whatever they
/// are.
pub(super) trait Numbers: Sync {
    const KIND: Kind;
    /// Input channels in a word.
    const IN_WORD: usize;
    type In: Copy;
    type Out: Send;
    /// How words are multiplied.
    type Product: tile::Multiply;

    /// The pictures, and as many zeros as they have channels, or more.
    fn input(&self) -> (&[Self::In], &[Self::In]);

    /// Transforms channels `from..to` of a tile, and writes places `step` apart.
    ///
    /// # Safety
    /// The lines have all these channels, and those of a block, in whole vectors, can be written at
    /// each place.
    unsafe fn inputs<S: Simd>(
        &self,
        simd: S,
        lines: &Lines<Self::In>,
        channels: (usize, usize),
        to: *mut f32,
        step: usize,
    );

    /// Transforms the weights of a panel for channels `from..to`, of so many: to `C` vectors for
    /// each word, and places as `lens` says.
    ///
    /// # Safety
    /// These can be written, and the convolution has such a panel.
    unsafe fn weights<S: Simd, const C: usize>(
        &self,
        simd: S,
        panel: usize,
        channels: (usize, usize, usize),
        to: *mut f32,
        lens: &Lens,
    );

    /// Transforms the products of a tile, `C` vectors at each place as `lens` says, to outputs.
    ///
    /// # Safety
    /// These can be read, and the target holds the outputs, which belong to this thread.
    unsafe fn outputs<S: Simd, const C: usize>(
        &self,
        simd: S,
        products: *const f32,
        lens: &Lens,
        tile: &Tile,
        out: &SharedSlice<'_, Self::Out>,
    );
}

/// Where outputs of a tile go.
pub(super) struct Tile {
    /// The first pixel.
    pub(super) pixel: usize,
    /// Pixels from one row to the next.
    pub(super) step: usize,
    /// Rows and columns that are inside the picture.
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// The first channel, and all channels of a pixel.
    pub(super) col: usize,
    pub(super) cols: usize,
}

/// How many words parts of the memory take.
///
/// The places of a tile, or of a kernel, lie together: what is transformed is written and read in
/// one piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lens {
    /// Channels of a block, which is a place of a transformed input.
    pub(super) channels: usize,
    /// Columns of a panel, which is a place of transformed weights, and of products.
    pub(super) width: usize,
    /// The places of a tile of the input.
    pub(super) input: usize,
    /// The places of the weights of a channel, and of the products of a tile.
    pub(super) row: usize,
    /// A block of transformed inputs.
    pub(super) block: usize,
    /// Transformed inputs.
    pub(super) inputs: usize,
    /// Products of a panel.
    products: usize,
}

impl Lens {
    /// Of strips of so many tiles; `channels` are words of whole vectors.
    pub(super) fn new(channels: usize, tiles: usize, width: usize) -> Option<Self> {
        let (blocks, channels) = (channels.div_ceil(BLOCK), channels.min(BLOCK));
        let (input, row) = (PLACES * channels + APART, PLACES * width + APART);
        let block = tiles.checked_mul(input)?;
        let (inputs, products) = (block.checked_mul(blocks)?, tiles.checked_mul(row)?);
        Some(Self { channels, width, input, row, block, inputs, products })
    }

    /// Transformed weights of a panel and a block.
    fn weights(&self) -> usize {
        self.channels * self.row
    }

    /// Transformed weights of a panel and a block, and products of a panel.
    pub(super) fn own(&self) -> Option<usize> {
        self.weights().checked_add(self.products)
    }
}

/// Tiles `from..to` of a convolution.
pub(super) struct Strip<'c, N> {
    pub(super) numbers: &'c N,
    pub(super) sizes: &'c ConvShape,
    pub(super) plan: &'c Plan,
    pub(super) from: usize,
    pub(super) to: usize,
}

impl<N: Numbers> Strip<'_, N> {
    /// Picture, row and column of the first output of a tile.
    #[inline(always)]
    fn place(&self, tile: usize) -> (usize, usize, usize) {
        let [rows, cols] = self.plan.grid;
        (tile / cols / rows, tile / cols % rows * OUT, tile % cols * OUT)
    }

    /// Where the channels of each place of a tile's input are.
    #[inline(always)]
    fn lines(&self, tile: usize) -> Lines<N::In> {
        let ConvShape { input, padding: before, in_channels: channels, .. } = *self.sizes;
        let (x, zeros) = self.numbers.input();
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

    /// The channels of a block.
    #[inline(always)]
    fn channels(&self, block: usize) -> (usize, usize) {
        let of_block = self.plan.lens.channels * N::IN_WORD;
        let first = block * of_block;
        (first, self.sizes.in_channels.min(first + of_block))
    }
}

/// Transforms the inputs of a strip: some channels of them.
pub(super) struct Gather<'c, 'm, N> {
    pub(super) strip: Strip<'c, N>,
    pub(super) block: usize,
    /// InputRows of tiles of channels.
    pub(super) to: &'m mut [f32],
}

impl<N: Numbers> Routine for Gather<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { strip, block, to } = self;
        let lens = strip.plan.lens;
        let channels = strip.channels(block);
        let tiles = strip.to - strip.from;
        assert!(tiles * lens.input <= to.len());
        for tile in 0..tiles {
            let lines = strip.lines(strip.from + tile);
            let to = to.as_mut_ptr().wrapping_add(tile * lens.input);
            // SAFETY: it was seen that the numbers fit, so that lines have all channels, and the
            // assertion that there are places for all tiles, of whole vectors of channels.
            unsafe { strip.numbers.inputs(simd, &lines, channels, to, lens.channels) };
        }
    }
}

/// Writes the vectors of a square, places `step` apart.
///
/// # Safety
/// A vector can be written at each place.
#[inline(always)]
pub(super) unsafe fn scatter<S: Simd>(
    simd: S,
    square: &[[S::F32; IN]; IN],
    to: *mut f32,
    step: usize,
) {
    for (i, row) in square.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            let to = to.wrapping_add((i * IN + j) * step);
            // SAFETY: demanded of the caller.
            unsafe { simd.store_ptr(*value, to) };
        }
    }
}

/// Reads the vectors of a square, places `step` apart.
///
/// # Safety
/// A vector can be read at each place.
#[inline(always)]
pub(super) unsafe fn collect<S: Simd>(
    simd: S,
    from: *const f32,
    step: usize,
) -> [[S::F32; IN]; IN] {
    let mut square = [[simd.zero(); IN]; IN];
    for (i, row) in square.iter_mut().enumerate() {
        for (j, value) in row.iter_mut().enumerate() {
            let from = from.wrapping_add((i * IN + j) * step);
            // SAFETY: demanded of the caller.
            *value = unsafe { simd.load_ptr(from) };
        }
    }
    square
}

/// What a strip is multiplied in.
pub(super) struct Memory<'m> {
    /// Transformed inputs.
    pub(super) inputs: &'m [f32],
    /// For transformed weights and products.
    pub(super) own: &'m mut [f32],
}

/// Multiplies the transformed inputs of a strip with those weights that are in the panels `panels`.
pub(super) struct Multiply<'c, 'm, N: Numbers> {
    pub(super) strip: Strip<'c, N>,
    pub(super) panels: (usize, usize),
    pub(super) memory: Memory<'m>,
    pub(super) out: &'m SharedSlice<'m, N::Out>,
}

impl<N: Numbers> Routine for Multiply<'_, '_, N> {
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

impl<N: Numbers> Multiply<'_, '_, N> {
    /// Panels of `C` vectors.
    #[inline(always)]
    fn panels<S: Simd, const C: usize>(self, simd: S) {
        let Self { strip, panels, memory: Memory { inputs, own }, out } = self;
        let lens = strip.plan.lens;
        let tiles = strip.to - strip.from;
        let (weights, products) = own.split_at_mut(lens.weights());
        assert!(tiles * lens.row <= products.len());
        for panel in panels.0..panels.1 {
            for (block, inputs) in inputs.chunks_exact(lens.block).enumerate() {
                let (first, last) = strip.channels(block);
                let (all, to) = (strip.sizes.in_channels, weights.as_mut_ptr());
                // SAFETY: it was seen that the numbers fit, and there is room for as many words as
                // a block has at each place.
                unsafe {
                    strip.numbers.weights::<S, C>(simd, panel, (first, last, all), to, &lens);
                }
                let places = SharedSlice::new(products);
                for place in 0..PLACES {
                    let product = Strips {
                        a: &inputs[place * lens.channels..],
                        a_row: lens.input,
                        a_k: 1,
                        b: &weights[place * lens.width..],
                        b_k: lens.row,
                        depth: (last - first) / N::IN_WORD,
                        rows: tiles,
                        cols: lens.width,
                        width: lens.width,
                        out: &places,
                        at: place * lens.width,
                        steps: (lens.row, 1),
                        start: if block == 0 { Start::Zero } else { Start::Target },
                        late: None,
                        clamp: None,
                    };
                    product.run_as::<S, N::Product>(simd);
                }
            }
            let ConvShape { output, out_channels: cols, .. } = *strip.sizes;
            for tile in 0..tiles {
                let (item, top, left) = strip.place(strip.from + tile);
                let to = Tile {
                    pixel: (item * output[0] + top) * output[1] + left,
                    step: output[1],
                    rows: OUT.min(output[0] - top),
                    columns: OUT.min(output[1] - left),
                    col: panel * lens.width,
                    cols,
                };
                let from = products.as_ptr().wrapping_add(tile * lens.row);
                // SAFETY: the assertion saw that the products of the last tile are inside. It was
                // seen that the target holds all pictures; each tile and each panel belongs to one
                // thread.
                unsafe { strip.numbers.outputs::<S, C>(simd, from, &lens, &to, out) };
            }
        }
    }
}

//! Strips: tiles whose inputs are transformed together and then multiplied panel by panel.

#![expect(unsafe_code, reason = "writes tiles of an image from several threads")]

use core::ops::Range;

use super::{
    BLOCK_WORDS, ConvShape, IN_TILE, Kind, OUT_TILE, Plan, TILE_ELEMENTS, TILE_PADDING_WORDS,
};
use crate::{
    Routine, Simd,
    gemm::{
        MatrixStrides,
        tile::{AccumulatorInit, MultiplyAdd, PanelProduct},
    },
    parallel::SharedSlice,
};

/// Pointer to the channels of each pixel of an input tile.
pub(super) type InputTile<T> = [[*const T; IN_TILE]; IN_TILE];

/// A convolution of one data type: input, weights, transforms and epilogue.
///
/// Transformed inputs, weights and products are 32-bit words in one scratch buffer of type `f32`.
pub(super) trait Convolution: Sync {
    const KIND: Kind;
    /// Input channels per word.
    const CHANNELS_PER_WORD: usize;
    type In: Copy;
    type Out: Send;
    /// Multiply-accumulate operation of words.
    type MultiplyAdd: MultiplyAdd;

    /// Input, and a pixel of padding: one value per channel or more.
    fn input(&self) -> (&[Self::In], &[Self::In]);

    /// Transforms `channels` of an input tile. Elements of the transformed tile are written
    /// `stride` words apart.
    ///
    /// # Safety
    /// The pixels are valid for reads of all these channels. Each element of `to` is valid for
    /// writes of the words of a block, in whole vectors.
    unsafe fn transform_inputs<S: Simd>(
        &self,
        simd: S,
        tile: &InputTile<Self::In>,
        channels: Range<usize>,
        to: *mut f32,
        stride: usize,
    );

    /// Transforms the weights of a panel for `channels` of `in_channels` input channels: `C`
    /// vectors per word, with the strides of `layout`.
    ///
    /// # Safety
    /// The convolution has such a panel, and `to` is valid for writes of its transformed weights.
    unsafe fn transform_weights<S: Simd, const C: usize>(
        &self,
        simd: S,
        panel: usize,
        channels: Range<usize>,
        in_channels: usize,
        to: *mut f32,
        layout: &BufferLayout,
    );

    /// Transforms the products of a tile, `C` vectors per element with the strides of `layout`,
    /// applies the epilogue and stores the outputs.
    ///
    /// # Safety
    /// `products` is valid for reads of the tile. The outputs are inside `out` and belong to this
    /// thread.
    unsafe fn store_outputs<S: Simd, const C: usize>(
        &self,
        simd: S,
        products: *const f32,
        layout: &BufferLayout,
        region: &OutputRegion,
        out: &SharedSlice<'_, Self::Out>,
    );
}

/// Pixels and channels of the output that a tile covers.
pub(super) struct OutputRegion {
    /// Index of the first pixel.
    pub(super) pixel: usize,
    /// Pixels from one row to the next.
    pub(super) row_stride: usize,
    /// Rows and columns inside the image.
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// First channel of the panel.
    pub(super) channel: usize,
    /// Channels of a pixel.
    pub(super) channels: usize,
}

/// Layout of the scratch buffers, in words.
///
/// The elements of a transformed tile or kernel are adjacent, so that each transform reads and
/// writes one contiguous piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct BufferLayout {
    /// Words of a block of channels: length of an element of a transformed input tile.
    pub(super) block_words: usize,
    /// Columns of a panel: length of an element of transformed weights, and of products.
    pub(super) panel_cols: usize,
    /// Words from one transformed input tile to the next.
    pub(super) input_tile_stride: usize,
    /// Words from the transformed weights of one channel word to the next, and from the products of
    /// one tile to the next.
    pub(super) panel_tile_stride: usize,
    /// Transformed inputs of one block of channels.
    pub(super) block_len: usize,
    /// Transformed inputs of all blocks.
    pub(super) inputs_len: usize,
    /// Products of a panel.
    products_len: usize,
}

impl BufferLayout {
    /// Layout for strips of `tiles` tiles with `words` words per pixel, in whole vectors; `None` if
    /// a length overflows.
    pub(super) fn new(words: usize, tiles: usize, panel_cols: usize) -> Option<Self> {
        let (blocks, block_words) = (words.div_ceil(BLOCK_WORDS), words.min(BLOCK_WORDS));
        let input_tile_stride = TILE_ELEMENTS * block_words + TILE_PADDING_WORDS;
        let panel_tile_stride = TILE_ELEMENTS * panel_cols + TILE_PADDING_WORDS;
        let block_len = tiles.checked_mul(input_tile_stride)?;
        let inputs_len = block_len.checked_mul(blocks)?;
        let products_len = tiles.checked_mul(panel_tile_stride)?;
        Some(Self {
            block_words,
            panel_cols,
            input_tile_stride,
            panel_tile_stride,
            block_len,
            inputs_len,
            products_len,
        })
    }

    /// Transformed weights of a panel and a block.
    fn weights_len(&self) -> usize {
        self.block_words * self.panel_tile_stride
    }

    /// Private buffer of a task: transformed weights of a panel and a block, and products of a
    /// panel.
    pub(super) fn private_len(&self) -> Option<usize> {
        self.weights_len().checked_add(self.products_len)
    }
}

/// One call of a convolution.
pub(super) struct Call<'c, C> {
    pub(super) conv: &'c C,
    pub(super) shape: &'c ConvShape,
    pub(super) plan: &'c Plan,
}

/// Tiles `first_tile..end_tile` of a convolution.
pub(super) struct Strip<'c, C> {
    pub(super) conv: &'c C,
    pub(super) shape: &'c ConvShape,
    pub(super) plan: &'c Plan,
    pub(super) first_tile: usize,
    pub(super) end_tile: usize,
}

/// First output pixel of a tile.
struct TileOrigin {
    image: usize,
    row: usize,
    col: usize,
}

impl<C: Convolution> Strip<'_, C> {
    #[inline(always)]
    fn origin(&self, tile: usize) -> TileOrigin {
        let [rows, cols] = self.plan.tile_grid;
        TileOrigin {
            image: tile / cols / rows,
            row: tile / cols % rows * OUT_TILE,
            col: tile % cols * OUT_TILE,
        }
    }

    /// Input tile of an output tile; pixels outside the image point to the padding.
    #[inline(always)]
    fn input_tile(&self, tile: usize) -> InputTile<C::In> {
        let ConvShape { input, padding, in_channels, .. } = *self.shape;
        let (x, zeros) = self.conv.input();
        let origin = self.origin(tile);
        let inside =
            |dim: usize, at: usize| at.checked_sub(padding[dim]).filter(|at| *at < input[dim]);
        let mut pixels = [[zeros.as_ptr(); IN_TILE]; IN_TILE];
        for (i, pixels) in pixels.iter_mut().enumerate() {
            let Some(row) = inside(0, origin.row + i) else { continue };
            for (j, pixel) in pixels.iter_mut().enumerate() {
                let Some(col) = inside(1, origin.col + j) else { continue };
                let start = ((origin.image * input[0] + row) * input[1] + col) * in_channels;
                *pixel = x.as_ptr().wrapping_add(start);
            }
        }
        pixels
    }

    /// Channels of a block.
    #[inline(always)]
    fn block_channels(&self, block: usize) -> Range<usize> {
        let block_channels = self.plan.layout.block_words * C::CHANNELS_PER_WORD;
        let first = block * block_channels;
        first..self.shape.in_channels.min(first + block_channels)
    }
}

/// Transforms the inputs of a strip for one block of channels.
pub(super) struct TransformInputs<'c, 'm, C> {
    pub(super) strip: Strip<'c, C>,
    pub(super) block: usize,
    /// Transformed inputs of the block.
    pub(super) to: &'m mut [f32],
}

impl<C: Convolution> Routine for TransformInputs<'_, '_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { strip, block, to } = self;
        let layout = strip.plan.layout;
        let channels = strip.block_channels(block);
        let tiles = strip.end_tile - strip.first_tile;
        assert!(tiles * layout.input_tile_stride <= to.len());
        for tile in 0..tiles {
            let pixels = strip.input_tile(strip.first_tile + tile);
            let to = to.as_mut_ptr().wrapping_add(tile * layout.input_tile_stride);
            // SAFETY: the length of the input has been checked, so that pixels have all channels.
            // The assertion verified that all tiles fit, with whole vectors of channels.
            unsafe {
                strip.conv.transform_inputs(
                    simd,
                    &pixels,
                    channels.clone(),
                    to,
                    layout.block_words,
                );
            }
        }
    }
}

/// Stores the elements of a transformed tile, `stride` words apart.
///
/// # Safety
/// Each element is valid for writes of a vector.
#[inline(always)]
pub(super) unsafe fn store_tile<S: Simd>(
    simd: S,
    tile: &[[S::F32; IN_TILE]; IN_TILE],
    to: *mut f32,
    stride: usize,
) {
    for (i, row) in tile.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            let to = to.wrapping_add((i * IN_TILE + j) * stride);
            // SAFETY: guaranteed by the caller.
            unsafe { simd.store_ptr(*value, to) };
        }
    }
}

/// Loads the elements of a transformed tile, `stride` words apart.
///
/// # Safety
/// Each element is valid for reads of a vector.
#[inline(always)]
pub(super) unsafe fn load_tile<S: Simd>(
    simd: S,
    from: *const f32,
    stride: usize,
) -> [[S::F32; IN_TILE]; IN_TILE] {
    let mut tile = [[simd.zero(); IN_TILE]; IN_TILE];
    for (i, row) in tile.iter_mut().enumerate() {
        for (j, value) in row.iter_mut().enumerate() {
            let from = from.wrapping_add((i * IN_TILE + j) * stride);
            // SAFETY: guaranteed by the caller.
            *value = unsafe { simd.load_ptr(from) };
        }
    }
    tile
}

/// Scratch buffers of a strip.
pub(super) struct Buffers<'m> {
    /// Transformed inputs.
    pub(super) inputs: &'m [f32],
    /// Transformed weights and products.
    pub(super) private: &'m mut [f32],
}

/// Multiplies the transformed inputs of a strip with the weights of `panels`, and stores the
/// outputs.
pub(super) struct MultiplyPanels<'c, 'm, C: Convolution> {
    pub(super) strip: Strip<'c, C>,
    pub(super) panels: Range<usize>,
    pub(super) buffers: Buffers<'m>,
    pub(super) out: &'m SharedSlice<'m, C::Out>,
}

impl<C: Convolution> Routine for MultiplyPanels<'_, '_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.strip.plan.layout.panel_cols == S::LANES {
            self.run_panels::<S, 1>(simd);
        } else {
            self.run_panels::<S, 2>(simd);
        }
    }
}

impl<C: Convolution> MultiplyPanels<'_, '_, C> {
    /// Computes panels of `V` vectors.
    #[inline(always)]
    fn run_panels<S: Simd, const V: usize>(self, simd: S) {
        let Self { strip, panels, buffers: Buffers { inputs, private }, out } = self;
        let layout = strip.plan.layout;
        let tiles = strip.end_tile - strip.first_tile;
        let (weights, products) = private.split_at_mut(layout.weights_len());
        assert!(tiles * layout.panel_tile_stride <= products.len());
        for panel in panels {
            for (block, inputs) in inputs.chunks_exact(layout.block_len).enumerate() {
                let channels = strip.block_channels(block);
                let depth = channels.len() / C::CHANNELS_PER_WORD;
                let (in_channels, to) = (strip.shape.in_channels, weights.as_mut_ptr());
                // SAFETY: the length of the weights has been checked, and the buffer holds the
                // words of a block for each element.
                unsafe {
                    strip.conv.transform_weights::<S, V>(
                        simd,
                        panel,
                        channels,
                        in_channels,
                        to,
                        &layout,
                    );
                }
                let shared_products = SharedSlice::new(products);
                for element in 0..TILE_ELEMENTS {
                    let product = PanelProduct {
                        a: &inputs[element * layout.block_words..],
                        a_row_stride: layout.input_tile_stride,
                        a_k_stride: 1,
                        b: &weights[element * layout.panel_cols..],
                        b_row_stride: layout.panel_tile_stride,
                        depth,
                        rows: tiles,
                        cols: layout.panel_cols,
                        panel_cols: layout.panel_cols,
                        out: &shared_products,
                        out_start: element * layout.panel_cols,
                        out_strides: MatrixStrides { row: layout.panel_tile_stride, col: 1 },
                        init: if block == 0 {
                            AccumulatorInit::Zero
                        } else {
                            AccumulatorInit::Output
                        },
                        scaling: None,
                        clamp: None,
                    };
                    product.run_with::<S, C::MultiplyAdd>(simd);
                }
            }
            let ConvShape { output, out_channels, .. } = *strip.shape;
            for tile in 0..tiles {
                let origin = strip.origin(strip.first_tile + tile);
                let region = OutputRegion {
                    pixel: (origin.image * output[0] + origin.row) * output[1] + origin.col,
                    row_stride: output[1],
                    rows: OUT_TILE.min(output[0] - origin.row),
                    cols: OUT_TILE.min(output[1] - origin.col),
                    channel: panel * layout.panel_cols,
                    channels: out_channels,
                };
                let from = products.as_ptr().wrapping_add(tile * layout.panel_tile_stride);
                // SAFETY: the assertion verified that the products of the last tile are inside. The
                // length of the output has been checked; each tile and panel belongs to one thread.
                unsafe { strip.conv.store_outputs::<S, V>(simd, from, &layout, &region, out) };
            }
        }
    }
}

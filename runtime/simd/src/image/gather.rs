//! Interpolation at any positions: all components of a pixel from one window of each of two rows.

#![expect(unsafe_code, reason = "loads windows of a plane at checked offsets")]

use super::{
    Plane, Source,
    format::Component,
    position::{ONE, Tap},
    taps::{WINDOW, ZERO},
};
use crate::{Float, Int, Isa, Routine, Simd};

/// Lanes of a pixel: one for each component of a plane, and unused ones.
const PIXEL: usize = 4;

/// Tables of the planes, and memory for a row.
#[derive(Debug, Clone)]
pub(super) struct Gather {
    /// Tables of each plane; `None` if its rows are shorter than a window.
    planes: Vec<Option<PlaneTable>>,
    row: Row,
}

/// The components of a plane.
#[derive(Debug, Clone)]
struct PlaneTable {
    parts: Vec<(usize, Component)>,
    /// Binary logarithm of the rows that share a value.
    shift: u32,
    columns: Vec<Column>,
}

/// Bytes of a source column and the next one.
#[derive(Debug, Clone)]
struct Column {
    /// Offset of the window in its row.
    offset: u32,
    /// For each component: index of the byte of this column, of a zero, of the next, of a zero.
    indices: [u8; WINDOW],
}

/// The pixels of a row.
#[derive(Debug, Clone, Default)]
struct Row {
    /// Offsets of the windows of both rows.
    offsets: [Vec<u32>; 2],
    indices: Vec<[u8; WINDOW]>,
    /// Weights of both columns: the first in the lower 16 bits.
    weights: Vec<[i32; PIXEL]>,
    /// Weight of the second row.
    shares: Vec<[f32; PIXEL]>,
    values: Vec<[f32; PIXEL]>,
}

impl Gather {
    pub(super) fn new(source: &Source) -> Self {
        let planes = (0..source.format.planes()).map(|plane| PlaneTable::new(source, plane));
        Self { planes: planes.collect(), row: Row::default() }
    }

    /// Interpolates each component at `positions`, x and y, which are fixed-point numbers.
    pub(super) fn interpolate(
        &mut self,
        isa: Isa,
        source: &Source,
        planes: &[Plane<'_>],
        positions: &[[i32; 2]],
        out: &mut [Vec<f32>; 3],
    ) {
        for (at, (plane, table)) in planes.iter().zip(&self.planes).enumerate() {
            match table.as_ref().filter(|_| u32::try_from(plane.bytes.len()).is_ok()) {
                Some(table) => {
                    let size = [source.width, source.height];
                    self.row.interpolate(isa, table, plane, (positions, size), out);
                }
                None => {
                    let parts = source.format.components().iter().zip(&mut *out);
                    for (part, out) in parts.filter(|(part, _)| part.plane == at) {
                        one_by_one(source, part, plane, positions, out);
                    }
                }
            }
        }
    }
}

impl PlaneTable {
    fn new(source: &Source, plane: usize) -> Option<Self> {
        let [row_bytes, _] = source.plane_size(plane);
        let last_offset = row_bytes.checked_sub(WINDOW)?;
        let parts = source.format.components().iter().copied().enumerate();
        let parts: Vec<_> = parts.filter(|(_, part)| part.plane == plane).collect();
        let shift = parts.first()?.1.shift[1];
        let columns = (0..source.width).map(|column| {
            let next = (column + 1).min(source.width - 1);
            let bytes = |part: &Component| [part.byte(column), part.byte(next)];
            let first = parts.iter().flat_map(|(_, part)| bytes(part)).min().unwrap_or(0);
            let offset = first.min(last_offset);
            let mut indices = [ZERO; WINDOW];
            for ((_, part), to) in parts.iter().zip(indices.as_chunks_mut::<4>().0) {
                let [first, second] = bytes(part).map(|byte| (byte - offset) as u8);
                *to = [first, ZERO, second, ZERO];
            }
            Column { offset: offset as u32, indices }
        });
        let columns = columns.collect();
        Some(Self { parts, shift, columns })
    }
}

impl Row {
    fn interpolate(
        &mut self,
        isa: Isa,
        table: &PlaneTable,
        plane: &Plane<'_>,
        (positions, size): (&[[i32; 2]], [usize; 2]),
        out: &mut [Vec<f32>; 3],
    ) {
        self.fill(table, plane.row_stride, positions, size);
        let last = self.offsets.iter().flatten().max().copied().unwrap_or(0) as usize;
        // Windows lie within the rows of the image, which `plane` holds.
        isa.run(Interpolate { bytes: &plane.bytes[..last + WINDOW], row: self });
        for (lane, (component, _)) in table.parts.iter().enumerate() {
            for (value, out) in self.values.iter().zip(&mut out[*component]) {
                *out = value[lane];
            }
        }
    }

    /// Looks up the windows and weights of the pixels, and makes their number a multiple of that of
    /// a vector.
    fn fill(
        &mut self,
        table: &PlaneTable,
        row_stride: usize,
        positions: &[[i32; 2]],
        [width, height]: [usize; 2],
    ) {
        let Self { offsets: [first, second], indices, weights, shares, values } = self;
        let len = positions.len().next_multiple_of(PIXEL);
        for offsets in [&mut *first, &mut *second] {
            offsets.clear();
            offsets.resize(len, 0);
        }
        indices.resize(len, [ZERO; WINDOW]);
        weights.resize(len, [0; PIXEL]);
        shares.resize(len, [0.0; PIXEL]);
        values.resize(len, [0.0; PIXEL]);
        let offsets = first.iter_mut().zip(second);
        let pixels = offsets.zip(indices).zip(weights.iter_mut().zip(shares));
        for (position, (((first, second), indices), (weights, shares))) in
            positions.iter().zip(pixels)
        {
            let (x, y) = (Tap::at(position[0], width), Tap::at(position[1], height));
            let column = &table.columns[x.first];
            let row = |row: usize| ((row >> table.shift) * row_stride) as u32 + column.offset;
            (*first, *second, *indices) = (row(y.first), row(y.second), column.indices);
            // At the edge, both columns are the first one.
            let weight = if x.first == x.second { 0 } else { x.weight };
            *weights = [(ONE - weight) | weight << 16; PIXEL];
            *shares = [y.share(); PIXEL];
        }
    }
}

/// Interpolates all pixels of the row.
struct Interpolate<'a> {
    bytes: &'a [u8],
    row: &'a mut Row,
}

impl Routine for Interpolate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { bytes, row } = self;
        let Row { offsets: [first, second], indices, weights, shares, values } = row;
        let len = values.len();
        let (first, second) = (&first[..len], &second[..len]);
        let indices = indices[..len].as_flattened();
        let (weights, shares) = (weights[..len].as_flattened(), shares[..len].as_flattened());
        for (at, out) in values.as_flattened_mut().chunks_exact_mut(S::LANES).enumerate() {
            let lane = at * S::LANES;
            let load = [first, second].map(|offsets| (offsets.as_ptr(), lane / PIXEL));
            let [first, second] = load.map(|(offsets, pixel)| offsets.wrapping_add(pixel));
            let indices = indices.as_ptr().wrapping_add(4 * lane);
            // SAFETY: `bytes` ends at or after the last window; there are a window, and indices
            // below 16 or 128, for each pixel.
            let first = unsafe { simd.load_windows_ptr(bytes.as_ptr(), first, indices) };
            // SAFETY: as above.
            let second = unsafe { simd.load_windows_ptr(bytes.as_ptr(), second, indices) };
            // SAFETY: there are weights for each lane.
            let weights = unsafe { simd.load_ptr(weights.as_ptr().wrapping_add(lane).cast()) };
            let zero = simd.splat_i32(0);
            let first = zero.add_dot2(first, weights.to_bits()).to_f32();
            let second = zero.add_dot2(second, weights.to_bits()).to_f32();
            let share = simd.load(&shares[lane..]);
            simd.store((second - first) * share + first, out);
        }
    }
}

/// Interpolates a component of rows that are shorter than a window.
fn one_by_one(
    source: &Source,
    part: &Component,
    plane: &Plane<'_>,
    positions: &[[i32; 2]],
    out: &mut [f32],
) {
    for ([x, y], out) in positions.iter().zip(out) {
        let (x, y) = (Tap::at(*x, source.width), Tap::at(*y, source.height));
        let [left, right] = [x.first, x.second].map(|column| part.byte(column));
        let line = |row: usize| {
            let line = &plane.bytes[(row >> part.shift[1]) * plane.row_stride..];
            let (left, right) = (i32::from(line[left]), i32::from(line[right]));
            (left * (ONE - x.weight) + right * x.weight) as f32
        };
        let (first, second) = (line(y.first), line(y.second));
        *out = (second - first) * y.share() + first;
    }
}

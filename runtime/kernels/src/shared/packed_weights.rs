//! Packed 4-bit and 8-bit weight matrices of torchao, in the format of its `universal` kernels.
//!
//! The header has sixteen `i32`: 6712, the format 1, bits, 0 (no zero points), 0 (no bias), 8, 16,
//! 2, and zeros. Blocks follow, for each 8 rows (padded with zero rows) and for each group of
//! columns: the weights in chunks of 16 columns, 8 scales (`f32`), and 8 sums of weights (`i32`).
//!
//! A chunk has columns 0 to 7 of all 8 rows, then columns 8 to 15. With 4 bits, a byte has the
//! weights `i` (low) and `i + 16` (high) of each 32, plus 8.
//!
//! Source: torchao `packed_weights_header.h`, `weight_packing.h`, `bitpacking/uint4.h`.

const HEADER_BYTES: usize = 64;
const BLOCK_ROWS: usize = 8;
const CHUNK_COLS: usize = 16;

/// Sizes of a matrix, columns per scale, and bits per weight.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) group_size: usize,
    pub(crate) bits: usize,
}

/// Packed weight matrix with the size that its format needs.
#[derive(Clone, Copy)]
pub(crate) struct PackedWeights<'a> {
    bytes: &'a [u8],
    format: Format,
}

impl Format {
    /// Bytes of one block: one group of columns in 8 rows.
    fn block_bytes(&self) -> Option<usize> {
        let weight_bytes = self.group_size.checked_mul(self.bits)?; // 8 rows, 8 bits in a byte
        weight_bytes.checked_add(BLOCK_ROWS * 8)
    }

    /// Checks the header and the length of `bytes`; `None` if they do not match the format.
    pub(crate) fn parse(self, bytes: &[u8]) -> Option<PackedWeights<'_>> {
        let is_supported = [4, 8].contains(&self.bits) && self.group_size > 0;
        if !is_supported
            || !self.group_size.is_multiple_of(CHUNK_COLS)
            || !self.columns.is_multiple_of(self.group_size)
        {
            return None;
        }
        let (header, bytes) = bytes.split_at_checked(HEADER_BYTES)?;
        let expected = [6712, 1, i32::try_from(self.bits).ok()?, 0, 0, 8, 16, 2];
        let found = header.as_chunks::<4>().0.iter().map(|field| i32::from_le_bytes(*field));
        if !found.take(expected.len()).eq(expected) {
            return None;
        }
        let blocks =
            (self.columns / self.group_size).checked_mul(self.rows.div_ceil(BLOCK_ROWS))?;
        let len = blocks.checked_mul(self.block_bytes()?)?;
        Some(PackedWeights { bytes: bytes.get(..len)?, format: self })
    }
}

impl PackedWeights<'_> {
    /// Adds the product of the matrix and the vector `x` of its columns to `out`.
    pub(crate) fn add_product(&self, x: &[f32], out: &mut [f32]) {
        let Format { columns, group_size, bits, .. } = self.format;
        let (groups, weight_bytes) = (columns / group_size, group_size * bits);
        let Some(block_bytes) = self.format.block_bytes() else { return };
        for (rows, out) in
            self.bytes.chunks_exact(block_bytes * groups.max(1)).zip(out.chunks_mut(BLOCK_ROWS))
        {
            let mut totals = [0.0; BLOCK_ROWS];
            for (block, x) in rows.chunks_exact(block_bytes).zip(x.chunks_exact(group_size)) {
                let (weights, rest) = block.split_at(weight_bytes);
                let mut sums = [0.0; BLOCK_ROWS];
                for (chunk, x) in
                    weights.chunks_exact(CHUNK_COLS * bits).zip(x.as_chunks::<CHUNK_COLS>().0)
                {
                    if bits == 4 {
                        add_4bit(chunk, x, &mut sums);
                    } else {
                        add_8bit(chunk, x, &mut sums);
                    }
                }
                let scales = rest.as_chunks::<4>().0.iter().map(|scale| f32::from_le_bytes(*scale));
                for ((total, sum), scale) in totals.iter_mut().zip(sums).zip(scales) {
                    *total += sum * scale;
                }
            }
            out.iter_mut().zip(totals).for_each(|(out, total)| *out += total);
        }
    }
}

/// Adds the products of 8 rows of 16 8-bit weights and `x` to `sums`.
fn add_8bit(chunk: &[u8], x: &[f32; CHUNK_COLS], sums: &mut [f32; BLOCK_ROWS]) {
    for (half, x) in chunk.chunks_exact(CHUNK_COLS / 2 * BLOCK_ROWS).zip(x.as_chunks::<8>().0) {
        for (row, sum) in half.as_chunks::<8>().0.iter().zip(&mut *sums) {
            for (&q, x) in row.iter().zip(x) {
                *sum += f32::from(q.cast_signed()) * x;
            }
        }
    }
}

/// Like [`add_8bit`], with 4-bit weights. Each 16 bytes have 8 columns of rows r and r + 1 (low
/// nibbles) and r + 2 and r + 3 (high nibbles).
fn add_4bit(chunk: &[u8], x: &[f32; CHUNK_COLS], sums: &mut [f32; BLOCK_ROWS]) {
    for (half, x) in chunk.chunks_exact(2 * CHUNK_COLS).zip(x.as_chunks::<8>().0) {
        for (part, sums) in half.chunks_exact(CHUNK_COLS).zip(sums.as_chunks_mut::<4>().0) {
            for (row, part) in part.as_chunks::<8>().0.iter().enumerate() {
                for (&pair, x) in part.iter().zip(x) {
                    sums[row] += (f32::from(pair & 15) - 8.0) * x;
                    sums[row + 2] += (f32::from(pair >> 4) - 8.0) * x;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs `weight(row, column)`, all with the scale 0.5.
    fn pack(format: Format, weight: impl Fn(usize, usize) -> i8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let fields = [6712, 1, i32::try_from(format.bits).unwrap(), 0, 0, 8, 16, 2];
        fields.iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        bytes.resize(HEADER_BYTES, 0);
        let at = |row, column| if row < format.rows { weight(row, column) } else { 0 };
        for row in (0..format.rows).step_by(BLOCK_ROWS) {
            for group in (0..format.columns).step_by(format.group_size) {
                for half in (group..group + format.group_size).step_by(8) {
                    let weights: Vec<i8> = (0..64).map(|i| at(row + i / 8, half + i % 8)).collect();
                    for part in weights.chunks(32) {
                        let low = |i: usize| part[i].wrapping_add(8).cast_unsigned();
                        match format.bits {
                            4 => bytes.extend((0..16).map(|i| low(i) | low(i + 16) << 4)),
                            _ => bytes.extend(part.iter().map(|q| q.cast_unsigned())),
                        }
                    }
                }
                bytes.extend([0.5_f32; BLOCK_ROWS].iter().flat_map(|scale| scale.to_le_bytes()));
                bytes.extend([0; 4 * BLOCK_ROWS]);
            }
        }
        bytes
    }

    #[test]
    fn matrix_vector_products() {
        let number = |row: usize, column: usize| ((row * 5 + column * 3) % 16) as i8 - 8;
        let x: Vec<f32> = (0..32).map(|i| (i % 7) as f32 - 3.0).collect();
        for bits in [4, 8] {
            let format = Format { rows: 11, columns: 32, group_size: 16, bits };
            let bytes = pack(format, number);
            let mut out = [0.0; 11];
            format.parse(&bytes).unwrap().add_product(&x, &mut out);
            for (row, &found) in out.iter().enumerate() {
                let terms = x.iter().enumerate().map(|(c, x)| f32::from(number(row, c)) * 0.5 * x);
                assert_eq!(found, terms.sum::<f32>(), "{bits} bits, row {row}");
            }
        }
    }

    #[test]
    fn malformed_weights_are_rejected() {
        let format = Format { rows: 8, columns: 16, group_size: 16, bits: 4 };
        let bytes = pack(format, |_, _| 1);
        assert!(format.parse(&bytes).is_some());
        assert!(format.parse(&bytes[..bytes.len() - 1]).is_none());
        assert!(format.parse(&[]).is_none());
        for other in [
            Format { bits: 8, ..format },
            Format { bits: 3, ..format },
            Format { group_size: 8, ..format },
            Format { group_size: 0, ..format },
            Format { columns: 24, ..format },
            Format { rows: usize::MAX, ..format },
            Format { group_size: usize::MAX & !15, columns: usize::MAX & !15, ..format },
        ] {
            assert!(other.parse(&bytes).is_none());
        }
    }
}

//! Weight matrices of 4 or 8 bits as torchao packs them for its `universal` kernels.
//!
//! A header of sixteen `i32`: 6712, the kind 1, bits, 0 (no zero points), 0 (no bias), 8, 16, 2,
//! and zeros. Then for each 8 rows, the last ones filled up with zeros, and for each group of
//! columns: the numbers in chunks of 16 columns, 8 scales (`f32`), 8 sums of numbers (`i32`). A
//! chunk holds first the columns 0 to 7 of all rows, then 8 to 15; with 4 bits a byte holds, plus
//! 8, the numbers at i and i + 16 of each 32.
//!
//! Source: torchao `packed_weights_header.h`, `weight_packing.h`, `bitpacking/uint4.h`.

const HEADER: usize = 64;
const ROWS: usize = 8;
const CHUNK: usize = 16;

/// Extents of a matrix and of the groups of columns that share a scale.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) group: usize,
    pub(crate) bits: usize,
}

/// A matrix whose bytes are as many as its format needs.
#[derive(Clone, Copy)]
pub(crate) struct PackedWeights<'a> {
    bytes: &'a [u8],
    format: Format,
}

impl Format {
    /// Bytes of one group of columns in 8 rows.
    fn block(&self) -> Option<usize> {
        let numbers = self.group.checked_mul(self.bits)?; // for 8 rows, in bytes
        numbers.checked_add(ROWS * 8)
    }

    /// The matrix that `bytes` hold; `None` when they are too few, or say to be something else.
    pub(crate) fn weights(self, bytes: &[u8]) -> Option<PackedWeights<'_>> {
        let known = [4, 8].contains(&self.bits) && self.group > 0;
        if !known || !self.group.is_multiple_of(CHUNK) || !self.columns.is_multiple_of(self.group) {
            return None;
        }
        let (header, bytes) = bytes.split_at_checked(HEADER)?;
        let wanted = [6712, 1, i32::try_from(self.bits).ok()?, 0, 0, 8, 16, 2];
        let found = header.as_chunks::<4>().0.iter().map(|field| i32::from_le_bytes(*field));
        if !found.take(wanted.len()).eq(wanted) {
            return None;
        }
        let blocks = (self.columns / self.group).checked_mul(self.rows.div_ceil(ROWS))?;
        let len = blocks.checked_mul(self.block()?)?;
        Some(PackedWeights { bytes: bytes.get(..len)?, format: self })
    }
}

impl PackedWeights<'_> {
    /// Adds the product with `x`, which has an element for each column.
    pub(crate) fn add_product(&self, x: &[f32], out: &mut [f32]) {
        let Format { columns, group, bits, .. } = self.format;
        let (groups, numbers) = (columns / group, group * bits);
        let Some(block) = self.format.block() else { return };
        for (rows, out) in self.bytes.chunks_exact(block * groups.max(1)).zip(out.chunks_mut(ROWS))
        {
            let mut totals = [0.0; ROWS];
            for (block, x) in rows.chunks_exact(block).zip(x.chunks_exact(group)) {
                let (numbers, rest) = block.split_at(numbers);
                let mut sums = [0.0; ROWS];
                for (chunk, x) in numbers.chunks_exact(CHUNK * bits).zip(x.as_chunks::<CHUNK>().0) {
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

/// Adds 8 rows of 16 numbers times `x` to `sums`.
fn add_8bit(chunk: &[u8], x: &[f32; CHUNK], sums: &mut [f32; ROWS]) {
    for (half, x) in chunk.chunks_exact(CHUNK / 2 * ROWS).zip(x.as_chunks::<8>().0) {
        for (row, sum) in half.as_chunks::<8>().0.iter().zip(&mut *sums) {
            for (&q, x) in row.iter().zip(x) {
                *sum += f32::from(q.cast_signed()) * x;
            }
        }
    }
}

/// As [`add_8bit`]; a part of 16 bytes holds 8 columns of the rows r, r + 1 (low) and r + 2, r + 3.
fn add_4bit(chunk: &[u8], x: &[f32; CHUNK], sums: &mut [f32; ROWS]) {
    for (half, x) in chunk.chunks_exact(2 * CHUNK).zip(x.as_chunks::<8>().0) {
        for (part, sums) in half.chunks_exact(CHUNK).zip(sums.as_chunks_mut::<4>().0) {
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

    /// Packs `numbers`, all with the scale 0.5, in the order that the format describes.
    fn pack(format: Format, number: impl Fn(usize, usize) -> i8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let fields = [6712, 1, i32::try_from(format.bits).unwrap(), 0, 0, 8, 16, 2];
        fields.iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        bytes.resize(HEADER, 0);
        let at = |row, column| if row < format.rows { number(row, column) } else { 0 };
        for row in (0..format.rows).step_by(ROWS) {
            for group in (0..format.columns).step_by(format.group) {
                for half in (group..group + format.group).step_by(8) {
                    let numbers: Vec<i8> = (0..64).map(|i| at(row + i / 8, half + i % 8)).collect();
                    for part in numbers.chunks(32) {
                        let low = |i: usize| part[i].wrapping_add(8).cast_unsigned();
                        match format.bits {
                            4 => bytes.extend((0..16).map(|i| low(i) | low(i + 16) << 4)),
                            _ => bytes.extend(part.iter().map(|q| q.cast_unsigned())),
                        }
                    }
                }
                bytes.extend([0.5_f32; ROWS].iter().flat_map(|scale| scale.to_le_bytes()));
                bytes.extend([0; 4 * ROWS]);
            }
        }
        bytes
    }

    #[test]
    fn products() {
        let number = |row: usize, column: usize| ((row * 5 + column * 3) % 16) as i8 - 8;
        let x: Vec<f32> = (0..32).map(|i| (i % 7) as f32 - 3.0).collect();
        for bits in [4, 8] {
            let format = Format { rows: 11, columns: 32, group: 16, bits };
            let bytes = pack(format, number);
            let mut out = [0.0; 11];
            format.weights(&bytes).unwrap().add_product(&x, &mut out);
            for (row, &found) in out.iter().enumerate() {
                let terms = x.iter().enumerate().map(|(c, x)| f32::from(number(row, c)) * 0.5 * x);
                assert_eq!(found, terms.sum::<f32>(), "{bits} bits, row {row}");
            }
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let format = Format { rows: 8, columns: 16, group: 16, bits: 4 };
        let bytes = pack(format, |_, _| 1);
        assert!(format.weights(&bytes).is_some());
        assert!(format.weights(&bytes[..bytes.len() - 1]).is_none());
        assert!(format.weights(&[]).is_none());
        for other in [
            Format { bits: 8, ..format },
            Format { bits: 3, ..format },
            Format { group: 8, ..format },
            Format { group: 0, ..format },
            Format { columns: 24, ..format },
            Format { rows: usize::MAX, ..format },
            Format { group: usize::MAX & !15, columns: usize::MAX & !15, ..format },
        ] {
            assert!(other.weights(&bytes).is_none());
        }
    }
}

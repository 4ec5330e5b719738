//! Embedding lookup in a quantized table.

use afferent_core::{Args, Dims, Error, ScalarType, TensorView};

use crate::shared::{
    accumulator::check_dtype,
    elements::{CHUNK, Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// Quantized embedding table. Each row is divided into groups with their own scale and zero point.
struct Table<'a> {
    weight: TensorView<'a>,
    scales: TensorView<'a>,
    zero_points: Option<TensorView<'a>>,
    /// Weights per byte: 1, 2 or 4.
    weights_per_byte: usize,
    rows: usize,
    row_len: usize,
    groups: usize,
}

impl<'a> Table<'a> {
    /// Reads the weight (argument 0), the scales (1), the optional zero points (2), and checks
    /// `weight_quant_min` (3) and `weight_quant_max` (4).
    fn new(args: &Args<'a>, weights_per_byte: usize) -> Result<Self, Error> {
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let (weight, scales, zero_points) = (args.tensor(0)?, args.tensor(1)?, args.opt_tensor(2)?);
        let is_packed = weights_per_byte > 1;
        match weight.dtype() {
            ScalarType::Byte => {}
            ScalarType::Char if !is_packed => {}
            found => return Err(Error::InvalidType { index: 0, found }),
        }
        let &[rows, bytes] = weight.sizes() else { return Err(wrong(0, "a matrix")) };
        let row_len = bytes.checked_mul(weights_per_byte).ok_or(wrong(0, "shorter rows"))?;
        let groups = match *scales.sizes() {
            [count] if count == rows => 1,
            [count, groups] if count == rows && groups > 0 && row_len.is_multiple_of(groups) => {
                groups
            }
            _ => {
                return Err(wrong(
                    1,
                    "sizes [rows] or [rows, groups], with groups that divide the row",
                ));
            }
        };
        if zero_points.is_some_and(|zero_points| zero_points.sizes() != scales.sizes()) {
            return Err(wrong(2, "the sizes of the scales"));
        }
        for (index, tensor) in [(1, Some(scales)), (2, zero_points)] {
            if let Some(found) = tensor.map(|tensor| tensor.dtype()).filter(|d| !d.is_float()) {
                return Err(Error::InvalidType { index, found });
            }
        }
        if args.int(3)? > args.int(4)? {
            return Err(wrong(3, "at most `weight_quant_max`"));
        }
        Ok(Self { weight, scales, zero_points, weights_per_byte, rows, row_len, groups })
    }
}

/// Unpacks the weights of `bytes` to `values`, which begin with weight `skip` of the first byte.
fn unpack(weights_per_byte: usize, bytes: &[u8], skip: usize, values: &mut [f32]) {
    let mut fill = |bits: fn(u8) -> [f32; 4], count: usize| {
        let (first, rest) = values.split_at_mut(((count - skip) % count).min(values.len()));
        let mut bytes = bytes;
        if skip > 0
            && let Some((&byte, others)) = bytes.split_first()
        {
            first.copy_from_slice(&bits(byte)[skip..][..first.len()]);
            bytes = others;
        }
        for (values, &byte) in rest.chunks_mut(count).zip(bytes) {
            values.copy_from_slice(&bits(byte)[..values.len()]);
        }
    };
    if weights_per_byte == 2 {
        fill(|byte| [f32::from(byte >> 4) - 8.0, f32::from(byte & 15) - 8.0, 0.0, 0.0], 2);
    } else {
        fill(|byte| [0, 2, 4, 6].map(|shift| f32::from(byte >> shift & 3) - 2.0), 4);
    }
}

/// Looks up the indices (argument 5) in a table with `weights_per_byte` weights per byte. The next
/// arguments are an optional dtype, if `has_dtype` is true, and the output.
pub(crate) fn lookup(
    args: &mut Args<'_>,
    weights_per_byte: usize,
    has_dtype: bool,
) -> Result<(), Error> {
    let table = Table::new(args, weights_per_byte)?;
    let indices = args.tensor(5)?;
    if !matches!(indices.dtype(), ScalarType::Int | ScalarType::Long) {
        return Err(Error::InvalidType { index: 5, found: indices.dtype() });
    }
    let index = Reader::<i64>::new(indices, 5)?;
    let row_at = |at| usize::try_from(index.get(at)).ok().filter(|&row| row < table.rows);
    if (0..indices.numel()).any(|at| row_at(at).is_none()) {
        return Err(Error::InvalidArgument { index: 5, expected: "indices in range" });
    }
    let expected_dtype = if has_dtype { args.opt_dtype(6)? } else { None };
    let out_index: u8 = if has_dtype { 7 } else { 6 };
    let expected = "fewer dimensions";
    let mut sizes =
        Dims::new(indices.sizes()).ok_or(Error::InvalidArgument { index: 5, expected })?;
    sizes.push(table.row_len)?;
    let mut out = args.out(usize::from(out_index))?;
    let dtype = out.dtype();
    check_dtype(dtype, expected_dtype.unwrap_or(dtype), out_index)?;
    if !dtype.is_float() {
        return Err(Error::InvalidType { index: out_index, found: dtype });
    }
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (from, to) = (strides_of(&indices), out_strides(&out));
    let mut loops = LoopNest::<2>::new();
    for (dim, &size) in indices.sizes().iter().enumerate() {
        loops.push(size, [from[dim], to[dim]])?;
    }
    let mut out = Writer::<f32>::new(&mut out, out_index)?;
    write_rows(&table, loops, to[indices.rank()], |at| row_at(at).unwrap_or(0), &mut out)
}

/// Writes the row `row_at(offset)` of the table for each index in `loops`. `out_stride` is the stride
/// of a row in the output.
fn write_rows(
    table: &Table<'_>,
    loops: LoopNest<2>,
    out_stride: usize,
    row_at: impl Fn(usize) -> usize,
    out: &mut Writer<'_, f32>,
) -> Result<(), Error> {
    let weight = Reader::<f32>::new(table.weight, 0)?;
    let scales = Reader::<f32>::new(table.scales, 1)?;
    let zero_points = table.zero_points.map(|tensor| Reader::<f32>::new(tensor, 2)).transpose()?;
    let [weight_strides, scale_strides] = [strides_of(&table.weight), strides_of(&table.scales)];
    let zero_point_strides = table.zero_points.map(|tensor| strides_of(&tensor));
    let param_offset = |strides: &Dims, row: usize, group: usize| {
        row * strides[0] + group * strides.get(1).copied().unwrap_or(0)
    };
    let group_len = table.row_len / table.groups;
    let (mut chunk, mut bytes) = ([0.0; CHUNK], [0; CHUNK]);
    loops.for_each([0, 0], |[at, to]| {
        let row = row_at(at);
        for group in 0..table.groups {
            let scale = scales.get(param_offset(&scale_strides, row, group));
            let zero_point = match (&zero_points, &zero_point_strides) {
                (Some(values), Some(strides)) => values.get(param_offset(strides, row, group)),
                _ => 0.0,
            };
            for start in (0..group_len).step_by(CHUNK) {
                let values = &mut chunk[..CHUNK.min(group_len - start)];
                let first = group * group_len + start;
                let (per_byte, row) = (table.weights_per_byte, row * weight_strides[0]);
                let (first_byte, skip) = (first / per_byte, first % per_byte);
                let (from, stride) = (row + first_byte * weight_strides[1], weight_strides[1]);
                if per_byte == 1 {
                    weight.read(from, stride, values);
                } else {
                    let packed = table.weight.bytes().get(from..).unwrap_or(&[]);
                    let count = (skip + values.len()).div_ceil(per_byte);
                    for (to, &byte) in
                        bytes[..count].iter_mut().zip(packed.iter().step_by(stride.max(1)))
                    {
                        *to = byte;
                    }
                    unpack(per_byte, &bytes[..count], skip, values);
                }
                values.iter_mut().for_each(|value| *value = (*value - zero_point) * scale);
                out.write(to + first * out_stride, out_stride, values);
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_unpacked() {
        let check = |per_byte: usize, bytes: &[u8], skip: usize, expected: &[f32]| {
            let mut values = vec![0.0; expected.len()];
            unpack(per_byte, bytes, skip, &mut values);
            assert_eq!(values, expected);
        };
        check(2, &[0xf0, 0x9a], 0, &[7.0, -8.0, 1.0, 2.0]);
        check(2, &[0xf0, 0x9a], 1, &[-8.0, 1.0, 2.0]);
        check(2, &[0xf0, 0x9a], 1, &[-8.0, 1.0]);
        check(4, &[0b11_10_01_00], 0, &[-2.0, -1.0, 0.0, 1.0]);
        check(4, &[0b11_10_01_00, 0b10], 3, &[1.0, 0.0]);
        check(4, &[0b11_10_01_00], 2, &[0.0]);
    }
}

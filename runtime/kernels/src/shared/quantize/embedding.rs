//! Rows of a quantized table.

use afferent_core::{Args, Dims, Error, ScalarType, TensorView};

use crate::shared::{
    accumulator::check_dtype,
    elements::{CHUNK, Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// A quantized table: rows of integers in groups, each with a scale and a zero point.
struct Table<'a> {
    weight: TensorView<'a>,
    scales: TensorView<'a>,
    zero_points: Option<TensorView<'a>>,
    /// Integers in a byte: 1, 2 or 4.
    packed: usize,
    rows: usize,
    len: usize,
    groups: usize,
}

impl<'a> Table<'a> {
    /// The weight at 0, scales at 1, zero points or none at 2.
    fn new(args: &Args<'a>, packed: usize) -> Result<Self, Error> {
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let (weight, scales, zero_points) = (args.tensor(0)?, args.tensor(1)?, args.opt_tensor(2)?);
        let is_packed = packed > 1;
        match weight.dtype() {
            ScalarType::Byte => {}
            ScalarType::Char if !is_packed => {}
            found => return Err(Error::InvalidType { index: 0, found }),
        }
        let &[rows, bytes] = weight.sizes() else { return Err(wrong(0, "a matrix")) };
        let len = bytes.checked_mul(packed).ok_or(wrong(0, "shorter rows"))?;
        let groups = match *scales.sizes() {
            [count] if count == rows => 1,
            [count, groups] if count == rows && groups > 0 && len.is_multiple_of(groups) => groups,
            _ => return Err(wrong(1, "scales for each row, in groups that divide it")),
        };
        if zero_points.is_some_and(|zero_points| zero_points.sizes() != scales.sizes()) {
            return Err(wrong(2, "as many zero points as scales"));
        }
        for (index, tensor) in [(1, Some(scales)), (2, zero_points)] {
            if let Some(found) = tensor.map(|tensor| tensor.dtype()).filter(|d| !d.is_float()) {
                return Err(Error::InvalidType { index, found });
            }
        }
        if args.int(3)? > args.int(4)? {
            return Err(wrong(3, "not more than the largest integer"));
        }
        Ok(Self { weight, scales, zero_points, packed, rows, len, groups })
    }
}

/// The integer at `at` of a row whose bytes are read by `byte`.
fn unpack(packed: usize, at: usize, byte: impl Fn(usize) -> f32) -> f32 {
    let bits = |at: usize| byte(at) as u8;
    match packed {
        2 if at.is_multiple_of(2) => f32::from(bits(at / 2) >> 4) - 8.0,
        2 => f32::from(bits(at / 2) & 15) - 8.0,
        4 => f32::from(bits(at / 4) >> (at % 4 * 2) & 3) - 2.0,
        _ => byte(at),
    }
}

/// Looks the indices at 5 up in a table with `packed` integers in a byte. The arguments behind them
/// are a dtype or none, where `has_dtype`, and `out`.
pub(crate) fn lookup(args: &mut Args<'_>, packed: usize, has_dtype: bool) -> Result<(), Error> {
    let table = Table::new(args, packed)?;
    let indices = args.tensor(5)?;
    if !matches!(indices.dtype(), ScalarType::Int | ScalarType::Long) {
        return Err(Error::InvalidType { index: 5, found: indices.dtype() });
    }
    let index = Reader::<i64>::new(indices, 5)?;
    let row_at = |at| usize::try_from(index.get(at)).ok().filter(|&row| row < table.rows);
    if (0..indices.numel()).any(|at| row_at(at).is_none()) {
        return Err(Error::InvalidArgument { index: 5, expected: "rows that the table has" });
    }
    let wanted = if has_dtype { args.opt_dtype(6)? } else { None };
    let out_index: u8 = if has_dtype { 7 } else { 6 };
    let expected = "fewer dimensions";
    let mut sizes =
        Dims::new(indices.sizes()).ok_or(Error::InvalidArgument { index: 5, expected })?;
    sizes.push(table.len)?;
    let mut out = args.out(usize::from(out_index))?;
    let dtype = out.dtype();
    check_dtype(dtype, wanted.unwrap_or(dtype), out_index)?;
    if !dtype.is_float() {
        return Err(Error::InvalidType { index: out_index, found: dtype });
    }
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (from, to) = (strides_of(&indices), out_strides(&out));
    let mut places = LoopNest::<2>::new();
    for (dim, &size) in indices.sizes().iter().enumerate() {
        places.push(size, [from[dim], to[dim]])?;
    }
    let mut out = Writer::<f32>::new(&mut out, out_index)?;
    write_rows(&table, places, to[indices.rank()], |at| row_at(at).unwrap_or(0), &mut out)
}

/// Writes the row that `row_at` names for each of `places`, with `step` between its elements.
fn write_rows(
    table: &Table<'_>,
    places: LoopNest<2>,
    step: usize,
    row_at: impl Fn(usize) -> usize,
    out: &mut Writer<'_, f32>,
) -> Result<(), Error> {
    let weight = Reader::<f32>::new(table.weight, 0)?;
    let scales = Reader::<f32>::new(table.scales, 1)?;
    let zero_points = table.zero_points.map(|tensor| Reader::<f32>::new(tensor, 2)).transpose()?;
    let [from, by_scale] = [strides_of(&table.weight), strides_of(&table.scales)];
    let by_zero = table.zero_points.map(|tensor| strides_of(&tensor));
    let of_group = |strides: &Dims, row: usize, group: usize| {
        row * strides[0] + group * strides.get(1).copied().unwrap_or(0)
    };
    let len = table.len / table.groups;
    let mut chunk = [0.0; CHUNK];
    places.for_each([0, 0], |[at, to]| {
        let row = row_at(at);
        let byte = |at: usize| weight.get(row * from[0] + at * from[1]);
        for group in 0..table.groups {
            let scale = scales.get(of_group(&by_scale, row, group));
            let zero_point = match (&zero_points, &by_zero) {
                (Some(values), Some(strides)) => values.get(of_group(strides, row, group)),
                _ => 0.0,
            };
            for start in (0..len).step_by(CHUNK) {
                let part = &mut chunk[..CHUNK.min(len - start)];
                let first = group * len + start;
                for (at, number) in (first..).zip(part.iter_mut()) {
                    *number = (unpack(table.packed, at, byte) - zero_point) * scale;
                }
                out.write(to + first * step, step, part);
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_in_a_byte() {
        let unpacked = |packed: usize, byte: u8| {
            (0..packed).map(|at| unpack(packed, at, |_| f32::from(byte))).collect::<Vec<_>>()
        };
        assert_eq!(unpacked(1, 200), [200.0]);
        assert_eq!(unpacked(2, 0xF0), [7.0, -8.0]);
        assert_eq!(unpacked(4, 0b11_10_01_00), [-2.0, -1.0, 0.0, 1.0]);
    }
}

//! `aten::tril_indices.out`, `aten::triu_indices.out`: positions in a triangle of a matrix.
//!
//! | argument | type                                       | shape                         |
//! |----------|--------------------------------------------|-------------------------------|
//! | `row`    | int: rows of the matrix                    |                               |
//! | `col`    | int: columns of the matrix                 |                               |
//! | `offset` | int: diagonal, negative below the main one |                               |
//! | `out`    | i32 or i64 tensor                          | `[2, n]`, `n` in the triangle |
//!
//! Writes the rows, then the columns of all elements of the lower or upper triangle in row-major
//! order. Tolerance: exact.
//! Errors: negative sizes, too many elements, other dtypes.
//! Source: ATen `tril_indices`, `triu_indices`.

use core::ops::Range;

use afferent_core::{Arg, Args, Error, Kernel, ScalarType};

use crate::shared::{elements::Writer, loop_nest::out_strides};

const ARGS: &[Arg] = &[Arg::Int, Arg::Int, Arg::Int, Arg::Out];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::tril_indices.out", ARGS, |_, args| indices(args, false)),
    Kernel::new("aten::triu_indices.out", ARGS, |_, args| indices(args, true)),
];

fn indices(args: &mut Args<'_>, is_upper: bool) -> Result<(), Error> {
    let negative =
        |index| Error::InvalidArgument { index, expected: "a size that is not negative" };
    let rows = usize::try_from(args.int(0)?).map_err(|_| negative(0))?;
    let columns = usize::try_from(args.int(1)?).map_err(|_| negative(1))?;
    let offset = args.int(2)?;
    let mut out = args.out(3)?;
    if !matches!(out.dtype(), ScalarType::Int | ScalarType::Long) {
        return Err(Error::InvalidType { index: 3, found: out.dtype() });
    }
    let too_many = Error::InvalidArgument { index: 0, expected: "a smaller matrix" };
    // No longer sum overflows.
    if rows.checked_mul(columns).is_none_or(|elements| elements > isize::MAX as usize) {
        return Err(too_many);
    }
    let count = count(rows, columns, offset, is_upper).ok_or(too_many)?;
    out.resize(&[2, count])?;
    let strides = out_strides(&out);
    let (mut out, mut to) = (Writer::<i64>::new(&mut out, 3)?, 0);
    for row in filled_rows(rows, columns, offset, is_upper) {
        for column in in_triangle(row, columns, offset, is_upper) {
            out.set(to, row as i64);
            out.set(strides[0] + to, column as i64);
            to += strides[1];
        }
    }
    Ok(())
}

/// Number of elements in the triangle; `None` if it exceeds `usize`.
fn count(rows: usize, columns: usize, offset: i64, is_upper: bool) -> Option<usize> {
    let (rows, columns) = (rows as i128, columns as i128);
    // Row `r` has `r + shift` elements below the bound, at least none and at most all columns.
    let shift = i128::from(offset) + i128::from(!is_upper);
    let first = (-shift).clamp(0, rows);
    let full = (columns - shift).clamp(first, rows);
    let partial = (full - first) * (first + full - 1) / 2 + shift * (full - first);
    let below = partial + (rows - full) * columns;
    let count = if is_upper { rows * columns - below } else { below };
    usize::try_from(count).ok()
}

/// Rows with at least one element in the triangle.
fn filled_rows(rows: usize, columns: usize, offset: i64, is_upper: bool) -> Range<usize> {
    if columns == 0 {
        return 0..0;
    }
    let bounded = |row: i128| row.clamp(0, rows as i128) as usize;
    match is_upper {
        true => 0..bounded(columns as i128 - i128::from(offset)),
        false => bounded(-i128::from(offset))..rows,
    }
}

/// Columns of `row` in the triangle.
fn in_triangle(row: usize, columns: usize, offset: i64, is_upper: bool) -> Range<usize> {
    let diagonal = (row as i64).saturating_add(offset);
    let bound = if is_upper { diagonal } else { diagonal.saturating_add(1) };
    let bound = usize::try_from(bound.max(0)).unwrap_or(usize::MAX).min(columns);
    if is_upper { bound..columns } else { 0..bound }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::check;

    #[test]
    fn counts_are_those_of_the_rows() {
        for is_upper in [false, true] {
            for (rows, columns) in [(0, 3), (3, 0), (1, 1), (4, 7), (7, 4), (5, 5)] {
                for offset in [i64::MIN, -9, -2, -1, 0, 1, 2, 9, i64::MAX] {
                    let len = |row| in_triangle(row, columns, offset, is_upper).len();
                    let sum: usize = (0..rows).map(len).sum();
                    assert_eq!(count(rows, columns, offset, is_upper), Some(sum));
                    let filled = filled_rows(rows, columns, offset, is_upper);
                    assert!((0..rows).all(|row| filled.contains(&row) == (len(row) > 0)));
                }
            }
        }
    }

    #[test]
    fn positions() {
        let run =
            |kernel: usize, numbers: [i64; 3], expected: Result<(&[usize], &[i32]), Error>| {
                let inputs = numbers.map(|number| Argument::Scalar(Scalar::Int(number))).into();
                check(&KERNELS[kernel], inputs, expected);
            };
        run(0, [2, 3, 0], Ok((&[2, 3], &[0, 1, 1, 0, 0, 1])));
        run(1, [2, 3, 1], Ok((&[2, 3], &[0, 0, 1, 1, 2, 2])));
        run(0, [2, 2, i64::MIN], Ok((&[2, 0], &[])));
        run(1, [2, 2, i64::MIN], Ok((&[2, 4], &[0, 0, 1, 1, 0, 1, 0, 1])));
        run(0, [0, 3, 0], Ok((&[2, 0], &[])));
        // Rows without an element take no time.
        run(0, [i64::MAX, 0, 0], Ok((&[2, 0], &[])));
        run(1, [i64::MAX, 1, 0], Ok((&[2, 1], &[0, 0])));
        let expected = "a size that is not negative";
        run(0, [-1, 3, 0], Err(Error::InvalidArgument { index: 0, expected }));
    }
}

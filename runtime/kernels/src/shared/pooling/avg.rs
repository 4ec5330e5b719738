//! Average pooling.

use afferent_core::{Args, Error, ScalarType};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{CHUNK, Reader, Writer},
    pooling::{PoolDim, PoolGeometry, SpatialStrides, plane_loops},
};

/// Average pooling over the last `spatial_dims` dimensions. The arguments are `self`,
/// `kernel_size`, `stride`, `padding`, `ceil_mode`, `count_include_pad`, `divisor_override` if
/// `has_divisor` is true, and `out`.
pub(crate) fn avg_pool(
    args: &mut Args<'_>,
    spatial_dims: usize,
    has_divisor: bool,
) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if !dtype.is_float() && dtype != ScalarType::Long {
        return Err(Error::InvalidType { index: 0, found: dtype });
    }
    let divisor = if has_divisor { args.opt_int(6)? } else { None };
    if divisor == Some(0) {
        return Err(Error::InvalidArgument { index: 6, expected: "a divisor that is not zero" });
    }
    let out = if has_divisor { 7 } else { 6 };
    check_dtype(args.out(usize::from(out))?.dtype(), dtype, out)?;
    with_accumulator!(dtype, A => avg_pool_in::<A>(args, spatial_dims, divisor, out))
}

fn avg_pool_in<A: Accumulator>(
    args: &mut Args<'_>,
    spatial_dims: usize,
    divisor: Option<i64>,
    out_index: u8,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let windows = PoolGeometry::new(args, (&x, spatial_dims), 1, None, args.bool(4)?)?;
    let count_include_pad = args.bool(5)?;
    let mut out = args.out(usize::from(out_index))?;
    out.resize(&windows.out_sizes(x.sizes())?)?;
    let (planes, strides) = plane_loops(&x, &out, spatial_dims)?;
    let (reader, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, out_index)?);
    let [depths, rows, columns] = windows.dims;
    let window_len = |dim: PoolDim, at: usize| {
        let ([start, end], [first, last]) = dim.bounds(at);
        if count_include_pad { end - start } else { last.saturating_sub(first) }
    };
    planes.for_each([0, 0], |[from, to]| {
        windows.for_each_row(|[depth, row]| {
            let area = window_len(depths, depth).saturating_mul(window_len(rows, row));
            let to = to + depth * strides.to[0] + row * strides.to[1];
            for start in (0..columns.output).step_by(columns.max_windows()) {
                let len = columns.max_windows().min(columns.output - start);
                let mut sums =
                    sum_of_row(&windows, &reader, (from, strides), [depth, row], (start, len));
                for (column, sum) in (start..).zip(&mut sums[..len]) {
                    let volume = area.saturating_mul(window_len(columns, column));
                    let count = divisor.unwrap_or(i64::try_from(volume).unwrap_or(i64::MAX));
                    // The average of a window without elements is zero.
                    *sum = sum.div(A::from_double(if count == 0 { 1.0 } else { count as f64 }));
                }
                out.write(to + start * strides.to[2], strides.to[2], &sums[..len]);
            }
        });
    });
    Ok(())
}

/// Sums of `len` windows of a row from `start` on.
fn sum_of_row<A: Accumulator>(
    windows: &PoolGeometry,
    x: &Reader<'_, A>,
    (from, strides): (usize, SpatialStrides),
    [depth, row]: [usize; 2],
    (start, len): (usize, usize),
) -> [A; CHUNK] {
    let [depths, rows, columns] = windows.dims;
    let (mut sums, mut buffer) = ([A::default(); CHUNK], [A::default(); CHUNK]);
    for tap in depths.taps(depth, depth) {
        let Some(z) = depths.input_position(tap, depth) else { continue };
        for tap in rows.taps(row, row) {
            let Some(y) = rows.input_position(tap, row) else { continue };
            let from = from + z * strides.from[0] + y * strides.from[1];
            for tap in columns.taps(start, start + len - 1) {
                let span = columns.tap_span(tap, start, len);
                let terms = &mut buffer[..span.count];
                let at = from + span.from * strides.from[2];
                x.read(at, columns.stride.saturating_mul(strides.from[2]), terms);
                for (sum, &term) in sums[span.to..].iter_mut().zip(&*terms) {
                    *sum = sum.add(term);
                }
            }
        }
    }
    sums
}

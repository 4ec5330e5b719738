//! Means of windows: the average pools.

use afferent_core::{Args, Error, ScalarType};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{CHUNK, Reader, Writer},
    pooling::{PoolDim, PoolGeometry, SpatialStrides, plane_loops},
};

/// Pools over `dims` dimensions. The arguments are `self`, `kernel_size`, `stride`, `padding`,
/// `ceil_mode`, `count_include_pad`, `divisor_override` where `has_divisor`, `out`.
pub(crate) fn avg_pool(args: &mut Args<'_>, dims: usize, has_divisor: bool) -> Result<(), Error> {
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
    with_accumulator!(dtype, A => means::<A>(args, dims, divisor, out))
}

fn means<A: Accumulator>(
    args: &mut Args<'_>,
    dims: usize,
    divisor: Option<i64>,
    out_index: u8,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let windows = PoolGeometry::new(args, (&x, dims), 1, None, args.bool(4)?)?;
    let counts_padding = args.bool(5)?;
    let mut out = args.out(usize::from(out_index))?;
    out.resize(&windows.out_sizes(x.sizes())?)?;
    let (pictures, steps) = plane_loops(&x, &out, dims)?;
    let (reader, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, out_index)?);
    let [depths, rows, columns] = windows.axes;
    let length = |axis: PoolDim, at: usize| {
        let ([start, end], [first, last]) = axis.ends(at);
        if counts_padding { end - start } else { last.saturating_sub(first) }
    };
    pictures.for_each([0, 0], |[from, to]| {
        windows.rows(|[depth, row]| {
            let area = length(depths, depth).saturating_mul(length(rows, row));
            let to = to + depth * steps.to[0] + row * steps.to[1];
            for start in (0..columns.output).step_by(columns.together()) {
                let len = columns.together().min(columns.output - start);
                let mut sums =
                    sums_of_row(&windows, &reader, (from, steps), [depth, row], (start, len));
                for (column, sum) in (start..).zip(&mut sums[..len]) {
                    let volume = area.saturating_mul(length(columns, column));
                    let count = divisor.unwrap_or(i64::try_from(volume).unwrap_or(i64::MAX));
                    // A window without elements has the mean zero.
                    *sum = sum.div(A::from_double(if count == 0 { 1.0 } else { count as f64 }));
                }
                out.write(to + start * steps.to[2], steps.to[2], &sums[..len]);
            }
        });
    });
    Ok(())
}

/// The sums of `len` windows of a row from `start` on.
fn sums_of_row<A: Accumulator>(
    windows: &PoolGeometry,
    x: &Reader<'_, A>,
    (from, steps): (usize, SpatialStrides),
    [depth, row]: [usize; 2],
    (start, len): (usize, usize),
) -> [A; CHUNK] {
    let [depths, rows, columns] = windows.axes;
    let (mut sums, mut buffer) = ([A::default(); CHUNK], [A::default(); CHUNK]);
    for tap in depths.taps(depth, depth) {
        let Some(z) = depths.source(tap, depth) else { continue };
        for tap in rows.taps(row, row) {
            let Some(y) = rows.source(tap, row) else { continue };
            let from = from + z * steps.from[0] + y * steps.from[1];
            for tap in columns.taps(start, start + len - 1) {
                let meeting = columns.meeting(tap, start, len);
                let terms = &mut buffer[..meeting.count];
                let at = from + meeting.from * steps.from[2];
                x.read(at, columns.stride.saturating_mul(steps.from[2]), terms);
                for (sum, &term) in sums[meeting.to..].iter_mut().zip(&*terms) {
                    *sum = sum.add(term);
                }
            }
        }
    }
    sums
}

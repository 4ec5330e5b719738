//! Largest elements of windows and their places: the max pools.

use afferent_core::{Args, Error, ScalarType};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{CHUNK, Reader, Writer},
    loop_nest::out_strides,
    pooling::{PoolGeometry, SpatialStrides, plane_loops},
};

/// Pools over `dims` dimensions. The arguments are `self`, `kernel_size`, `stride`, `padding`,
/// `dilation`, `ceil_mode`, `out`, `indices`.
pub(crate) fn max_pool(args: &mut Args<'_>, dims: usize) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if matches!(dtype, ScalarType::Bool | ScalarType::UInt64) {
        return Err(Error::InvalidType { index: 0, found: dtype });
    }
    check_dtype(args.out(6)?.dtype(), dtype, 6)?;
    check_dtype(args.out(7)?.dtype(), ScalarType::Long, 7)?;
    with_accumulator!(dtype, A => largest::<A>(args, dims))
}

fn largest<A: Accumulator>(args: &mut Args<'_>, dims: usize) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dtype = x.dtype();
    let windows = PoolGeometry::new(args, (&x, dims), 1, Some(4), args.bool(5)?)?;
    let sizes = windows.out_sizes(x.sizes())?;
    let [mut out, mut indices] = args.outs([6, 7])?;
    out.resize(&sizes)?;
    indices.resize(&sizes)?;
    if out_strides(&out) != out_strides(&indices) {
        return Err(Error::NotSupported { what: "outputs of different dim orders" });
    }
    let (pictures, steps) = plane_loops(&x, &out, dims)?;
    let reader = Reader::<A>::new(x, 0)?;
    let (mut out, mut indices) = (Writer::new(&mut out, 6)?, Writer::new(&mut indices, 7)?);
    let [depths, rows, columns] = windows.axes;
    let lowest = lowest::<A>(dtype);
    pictures.for_each([0, 0], |[from, to]| {
        windows.rows(|[depth, row]| {
            let to = to + depth * steps.to[0] + row * steps.to[1];
            for start in (0..columns.output).step_by(columns.together()) {
                let len = columns.together().min(columns.output - start);
                let mut best =
                    best_of_row(&windows, &reader, (from, steps), [depth, row], (start, len));
                let found = best.0[..len].iter_mut().zip(&mut best.1);
                for (column, (best, place)) in (start..).zip(found) {
                    if *place < 0 {
                        // A dilated window may meet the padding only.
                        let line = depths.first(depth) * rows.input + rows.first(row);
                        let at = line * columns.input + columns.first(column);
                        (*best, *place) = (lowest, i64::try_from(at).unwrap_or(i64::MAX));
                    }
                }
                let to = to + start * steps.to[2];
                out.write(to, steps.to[2], &best.0[..len]);
                indices.write(to, steps.to[2], &best.1[..len]);
            }
        });
    });
    Ok(())
}

/// The least element of a dtype.
fn lowest<A: Accumulator>(dtype: ScalarType) -> A {
    match dtype {
        ScalarType::Byte | ScalarType::UInt16 | ScalarType::UInt32 => A::default(),
        ScalarType::Char => A::from_double(f64::from(i8::MIN)),
        ScalarType::Short => A::from_double(f64::from(i16::MIN)),
        ScalarType::Int => A::from_double(f64::from(i32::MIN)),
        _ => A::LOWEST,
    }
}

/// The best elements of `len` windows of a row from `start` on, and their positions.
fn best_of_row<A: Accumulator>(
    windows: &PoolGeometry,
    x: &Reader<'_, A>,
    (from, steps): (usize, SpatialStrides),
    [depth, row]: [usize; 2],
    (start, len): (usize, usize),
) -> ([A; CHUNK], [i64; CHUNK]) {
    let [depths, rows, columns] = windows.axes;
    let (mut best, mut places) = ([A::LOWEST; CHUNK], [-1_i64; CHUNK]);
    let mut buffer = [A::default(); CHUNK];
    for tap in depths.taps(depth, depth) {
        let Some(z) = depths.source(tap, depth) else { continue };
        for tap in rows.taps(row, row) {
            let Some(y) = rows.source(tap, row) else { continue };
            let (from, line) = (from + z * steps.from[0] + y * steps.from[1], z * rows.input + y);
            for tap in columns.taps(start, start + len - 1) {
                let meeting = columns.meeting(tap, start, len);
                let candidates = &mut buffer[..meeting.count];
                let at = from + meeting.from * steps.from[2];
                x.read(at, columns.stride.saturating_mul(steps.from[2]), candidates);
                let first = line * columns.input + meeting.from;
                let places = (first..).step_by(columns.stride).zip(&mut places[meeting.to..]);
                let winners = best[meeting.to..].iter_mut().zip(places);
                for (&mut x, (best, (at, place))) in candidates.iter_mut().zip(winners) {
                    if x > *best || x.is_nan() || *place < 0 {
                        (*best, *place) = (x, i64::try_from(at).unwrap_or(i64::MAX));
                    }
                }
            }
        }
    }
    (best, places)
}

//! Max pooling with indices.

use afferent_core::{Args, Error, ScalarType};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{CHUNK, Reader, Writer},
    loop_nest::out_strides,
    pooling::{PoolGeometry, SpatialStrides, plane_loops},
};

/// Max pooling over the last `spatial_dims` dimensions. The arguments are `self`, `kernel_size`,
/// `stride`, `padding`, `dilation`, `ceil_mode`, `out`, `indices`.
pub(crate) fn max_pool(args: &mut Args<'_>, spatial_dims: usize) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    if matches!(dtype, ScalarType::Bool | ScalarType::UInt64) {
        return Err(Error::InvalidType { index: 0, found: dtype });
    }
    check_dtype(args.out(6)?.dtype(), dtype, 6)?;
    check_dtype(args.out(7)?.dtype(), ScalarType::Long, 7)?;
    with_accumulator!(dtype, A => max_pool_in::<A>(args, spatial_dims))
}

fn max_pool_in<A: Accumulator>(args: &mut Args<'_>, spatial_dims: usize) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dtype = x.dtype();
    let windows = PoolGeometry::new(args, (&x, spatial_dims), 1, Some(4), args.bool(5)?)?;
    let sizes = windows.out_sizes(x.sizes())?;
    let [mut out, mut indices] = args.outs([6, 7])?;
    out.resize(&sizes)?;
    indices.resize(&sizes)?;
    if out_strides(&out) != out_strides(&indices) {
        return Err(Error::NotSupported { what: "outputs with different dim orders" });
    }
    let (planes, strides) = plane_loops(&x, &out, spatial_dims)?;
    let reader = Reader::<A>::new(x, 0)?;
    let (mut out, mut indices) = (Writer::new(&mut out, 6)?, Writer::new(&mut indices, 7)?);
    let [depths, rows, columns] = windows.dims;
    let min_value = min_value::<A>(dtype);
    planes.for_each([0, 0], |[from, to]| {
        windows.for_each_row(|[depth, row]| {
            let to = to + depth * strides.to[0] + row * strides.to[1];
            for start in (0..columns.output).step_by(columns.max_windows()) {
                let len = columns.max_windows().min(columns.output - start);
                let mut best =
                    max_of_row(&windows, &reader, (from, strides), [depth, row], (start, len));
                let found = best.0[..len].iter_mut().zip(&mut best.1);
                for (column, (best, index)) in (start..).zip(found) {
                    if *index < 0 {
                        // A dilated window may be entirely in the padding.
                        let row_index =
                            depths.first_position(depth) * rows.input + rows.first_position(row);
                        let at = row_index * columns.input + columns.first_position(column);
                        (*best, *index) = (min_value, i64::try_from(at).unwrap_or(i64::MAX));
                    }
                }
                let to = to + start * strides.to[2];
                out.write(to, strides.to[2], &best.0[..len]);
                indices.write(to, strides.to[2], &best.1[..len]);
            }
        });
    });
    Ok(())
}

/// Minimum value of a dtype.
fn min_value<A: Accumulator>(dtype: ScalarType) -> A {
    match dtype {
        ScalarType::Byte | ScalarType::UInt16 | ScalarType::UInt32 => A::default(),
        ScalarType::Char => A::from_double(f64::from(i8::MIN)),
        ScalarType::Short => A::from_double(f64::from(i16::MIN)),
        ScalarType::Int => A::from_double(f64::from(i32::MIN)),
        _ => A::LOWEST,
    }
}

/// Maxima of `len` windows of a row from `start` on, and their indices in the plane.
fn max_of_row<A: Accumulator>(
    windows: &PoolGeometry,
    x: &Reader<'_, A>,
    (from, strides): (usize, SpatialStrides),
    [depth, row]: [usize; 2],
    (start, len): (usize, usize),
) -> ([A; CHUNK], [i64; CHUNK]) {
    let [depths, rows, columns] = windows.dims;
    let (mut best, mut indices) = ([A::LOWEST; CHUNK], [-1_i64; CHUNK]);
    let mut buffer = [A::default(); CHUNK];
    for tap in depths.taps(depth, depth) {
        let Some(z) = depths.input_position(tap, depth) else { continue };
        for tap in rows.taps(row, row) {
            let Some(y) = rows.input_position(tap, row) else { continue };
            let (from, row_index) =
                (from + z * strides.from[0] + y * strides.from[1], z * rows.input + y);
            for tap in columns.taps(start, start + len - 1) {
                let span = columns.tap_span(tap, start, len);
                let candidates = &mut buffer[..span.count];
                let at = from + span.from * strides.from[2];
                x.read(at, columns.stride.saturating_mul(strides.from[2]), candidates);
                let first = row_index * columns.input + span.from;
                let indices = (first..).step_by(columns.stride).zip(&mut indices[span.to..]);
                let outputs = best[span.to..].iter_mut().zip(indices);
                for (&mut x, (best, (at, index))) in candidates.iter_mut().zip(outputs) {
                    if x > *best || x.is_nan() || *index < 0 {
                        (*best, *index) = (x, i64::try_from(at).unwrap_or(i64::MAX));
                    }
                }
            }
        }
    }
    (best, indices)
}

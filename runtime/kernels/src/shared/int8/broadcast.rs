//! Elementwise operators on two i8 tensors.

use afferent_core::{Args, Dims, Error, TensorView, numel};

use super::arguments::{check_int8, elements, invalid, same_order};

/// Computes `f` of elements of the tensors at `a` and `b`, as many as there are of the result. The
/// tensors have equal sizes, or one of them has one element for each channel of the other, whose
/// channels are last in memory.
pub(crate) fn channelwise(
    args: &mut Args<'_>,
    [a, b, out]: [u8; 3],
    f: impl Fn(&[i8], &[i8], &mut [i8]),
) -> Result<(), Error> {
    let (left, right) = (args.tensor(a.into())?, args.tensor(b.into())?);
    let (left_data, right_data) = (elements(left, a)?, elements(right, b)?);
    let large = if left.numel() >= right.numel() { left } else { right };
    let mut target = args.out(out.into())?;
    check_int8(&target, out)?;
    let is_same = left.sizes() == right.sizes()
        && same_order(left.sizes(), left.dim_order(), right.dim_order());
    if !is_same && !has_channels_of(&left, &right) && !has_channels_of(&right, &left) {
        return Err(invalid(b.into(), "the sizes of the first tensor, or one element a channel"));
    }
    if !same_order(large.sizes(), large.dim_order(), target.dim_order()) {
        return Err(invalid(out.into(), "the dim order of the larger input"));
    }
    target.resize(large.sizes())?;
    let period = left_data.len().min(right_data.len()).max(1);
    let repeats = |data: &[i8]| data.len() == period;
    let (mut lefts, mut rights) = (left_data.chunks(period), right_data.chunks(period));
    for target in target.data_mut::<i8>()?.chunks_mut(period) {
        let left = if repeats(left_data) { Some(left_data) } else { lefts.next() };
        let right = if repeats(right_data) { Some(right_data) } else { rights.next() };
        f(left.unwrap_or_default(), right.unwrap_or_default(), target);
    }
    Ok(())
}

/// `f` of each pair of elements.
pub(crate) fn each(left: &[i8], right: &[i8], out: &mut [i8], f: impl Fn(i8, i8) -> i8) {
    for (out, (&left, &right)) in out.iter_mut().zip(left.iter().zip(right)) {
        *out = f(left, right);
    }
}

/// Returns true if `small` has one element for each channel of image `large`.
fn has_channels_of(small: &TensorView<'_>, large: &TensorView<'_>) -> bool {
    let channels_last = same_order(large.sizes(), large.dim_order(), &[0, 2, 3, 1]);
    let (&[_, few, ..], &[_, channels, _, _]) = (small.sizes(), large.sizes()) else {
        return false;
    };
    channels_last && small.rank() == 4 && few == channels && small.numel() == channels
}

/// Computes `f` for each pair of elements of the tensors at 0 and 1, which broadcast, into the
/// output at 2.
pub(crate) fn broadcast(args: &mut Args<'_>, f: fn(i8, i8) -> i8) -> Result<(), Error> {
    let (a, b) = (args.tensor(0)?, args.tensor(1)?);
    let (left, right) = (elements(a, 0)?, elements(b, 1)?);
    let rank = a.rank().max(b.rank());
    let mut sizes = Dims::filled(rank, 1);
    let mut strides = [Dims::filled(rank, 0), Dims::filled(rank, 0)];
    for (tensor, strides) in [a, b].iter().zip(&mut strides) {
        let skip = rank - tensor.rank();
        let own = tensor.strides();
        for (dim, (&size, &stride)) in tensor.sizes().iter().zip(own.iter()).enumerate() {
            if size == 1 {
                continue;
            }
            if sizes[skip + dim] != 1 && sizes[skip + dim] != size {
                return Err(invalid(1, "a tensor that broadcasts with the first"));
            }
            (sizes[skip + dim], strides[skip + dim]) = (size, stride);
        }
    }
    let mut out = args.out(2)?;
    check_int8(&out, 2)?;
    out.resize(&sizes)?;
    let order = out.dim_order();
    if numel(&sizes) == Some(0) {
        return Ok(());
    }
    let mut position = Dims::filled(rank, 0);
    let mut at = [0_usize; 2];
    for out in out.data_mut::<i8>()? {
        let value = |data: &[i8], at: usize| data.get(at).copied().unwrap_or_default();
        *out = f(value(left, at[0]), value(right, at[1]));
        for &dim in order.iter().rev() {
            let dim = usize::from(dim);
            position[dim] += 1;
            let wraps = position[dim] == sizes[dim];
            for (at, strides) in at.iter_mut().zip(&strides) {
                *at += strides[dim];
                if wraps {
                    *at -= strides[dim] * sizes[dim];
                }
            }
            if !wraps {
                break;
            }
            position[dim] = 0;
        }
    }
    Ok(())
}

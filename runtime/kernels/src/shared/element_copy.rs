//! Copies of single elements. They depend on the element size, not on the dtype.

use afferent_core::{Dims, Error, TensorMut, TensorView};

use crate::shared::loop_nest::LoopNest;

/// Copies the elements of `input` to `out`, which has the same dtype and number of dimensions.
/// `strides` are those of `input` in the dimensions of `out`, from element `start` on. In little
/// code, one element at a time.
pub(crate) fn copy_permuted(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
    strides: &[usize],
    start: usize,
) -> Result<(), Error> {
    let rank = out.rank();
    let missing = Error::Internal { reason: "a tensor has at most 16 dimensions" };
    let sizes = Dims::new(out.sizes()).ok_or(missing)?;
    let (order, width, mut at) = (out.dim_order(), input.dtype().size(), start);
    let mut position = Dims::filled(rank, 0);
    for out in out.bytes_mut()?.chunks_exact_mut(width) {
        if let Some(element) = input.bytes().get(at * width..(at + 1) * width) {
            out.copy_from_slice(element);
        }
        for &dim in order.iter().rev() {
            let dim = usize::from(dim);
            (position[dim], at) = (position[dim] + 1, at + strides[dim]);
            if position[dim] < sizes[dim] {
                break;
            }
            (position[dim], at) = (0, at - strides[dim] * sizes[dim]);
        }
    }
    Ok(())
}

/// Copies one element of `element_size` bytes in each iteration of `loops`.
pub(crate) fn copy_elements(loops: LoopNest<2>, from: &[u8], to: &mut [u8], element_size: usize) {
    match element_size {
        1 => copy::<1>(loops, from, to),
        2 => copy::<2>(loops, from, to),
        4 => copy::<4>(loops, from, to),
        8 => copy::<8>(loops, from, to),
        _ => copy::<16>(loops, from, to),
    }
}

fn copy<const W: usize>(mut loops: LoopNest<2>, from: &[u8], to: &mut [u8]) {
    let (from, to) = (from.as_chunks::<W>().0, to.as_chunks_mut::<W>().0);
    let (run, [from_step, to_step]) = loops.pop();
    loops.for_each([0, 0], |[source, target]| {
        let source = from.get(source..).unwrap_or(&[]).iter().step_by(from_step.max(1));
        let target = to.get_mut(target..).unwrap_or(&mut []).iter_mut().step_by(to_step.max(1));
        target.zip(source).take(run).for_each(|(to, from)| *to = *from);
    });
}

//! Copies of single elements. They depend on the element size, not on the dtype.

use crate::shared::loop_nest::LoopNest;

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

//! Distances between vectors.

use crate::shared::{
    accumulator::Float,
    elements::{CHUNK, Reader},
};

/// Where a vector begins, and the step between its elements.
#[derive(Clone, Copy)]
pub(crate) struct Vector<'r, 'a, A> {
    pub(crate) data: &'r Reader<'a, A>,
    pub(crate) start: usize,
    pub(crate) step: usize,
}

/// The `p`-norm of the difference of two vectors of `len` elements: for 0 how many elements
/// differ, for infinity the largest difference.
pub(crate) fn distance<A: Float>(
    a: Vector<'_, '_, A>,
    b: Vector<'_, '_, A>,
    len: usize,
    p: f64,
) -> A {
    let zero = A::default();
    let (mut total, mut second, mut done) = (zero, [zero; CHUNK], 0);
    let exponent = A::from_double(p);
    a.data.for_each_chunk(a.start, a.step, len, |first| {
        let second = &mut second[..first.len()];
        b.data.read(b.start + done * b.step, b.step, second);
        done += first.len();
        for (&x, &y) in first.iter().zip(&*second) {
            let gap = (x - y).abs();
            total = if p == 0.0 {
                total + if gap == zero { zero } else { A::ONE }
            } else if p == 1.0 {
                total + gap
            } else if p == 2.0 {
                total + gap * gap
            } else if p == f64::INFINITY {
                if gap > total || gap.is_nan() { gap } else { total }
            } else {
                total + gap.powf(exponent)
            };
        }
    });
    if p == 2.0 {
        total.sqrt()
    } else if p == 0.0 || p == 1.0 || p == f64::INFINITY {
        total
    } else {
        total.powf(A::from_double(1.0 / p))
    }
}

//! Distances between vectors, for `cdist` and `pdist`.

use crate::shared::{
    accumulator::Float,
    elements::{CHUNK, Reader},
};

/// Strided vector: the offset of its first element and its stride.
#[derive(Clone, Copy)]
pub(crate) struct Vector<'r, 'a, A> {
    pub(crate) data: &'r Reader<'a, A>,
    pub(crate) start: usize,
    pub(crate) stride: usize,
}

/// `p`-norm of the difference of two vectors of `len` elements. For `p` = 0: the number of elements
/// that differ; for infinity: the largest absolute difference.
pub(crate) fn distance<A: Float>(
    a: Vector<'_, '_, A>,
    b: Vector<'_, '_, A>,
    len: usize,
    p: f64,
) -> A {
    let zero = A::default();
    let (mut total, mut buffer, mut done) = (zero, [zero; CHUNK], 0);
    let exponent = A::from_double(p);
    a.data.for_each_chunk(a.start, a.stride, len, |first| {
        let second = &mut buffer[..first.len()];
        b.data.read(b.start + done * b.stride, b.stride, second);
        done += first.len();
        for (&x, &y) in first.iter().zip(&*second) {
            let diff = (x - y).abs();
            total = if p == 0.0 {
                total + if diff == zero { zero } else { A::ONE }
            } else if p == 1.0 {
                total + diff
            } else if p == 2.0 {
                total + diff * diff
            } else if p == f64::INFINITY {
                if diff > total || diff.is_nan() { diff } else { total }
            } else {
                total + diff.powf(exponent)
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

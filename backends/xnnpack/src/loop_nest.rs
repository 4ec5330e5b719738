//! Nested loops over two tensors.

/// One loop of a nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) len: usize,
    /// Elements from one iteration to the next, in each of the two tensors.
    pub(crate) strides: [usize; 2],
}

impl Loop {
    /// Loop with a single iteration.
    pub(crate) const ONCE: Self = Self { len: 1, strides: [0; 2] };

    /// One loop over the iterations of `outer` and `self`; `None` if they do not continue each
    /// other.
    pub(crate) fn extended_by(self, outer: Self) -> Option<Self> {
        if outer.len == 1 {
            return Some(self);
        }
        if self.len == 1 {
            return Some(outer);
        }
        let continues =
            |side: usize| self.strides[side].checked_mul(self.len) == Some(outer.strides[side]);
        let len = self.len.checked_mul(outer.len).filter(|_| continues(0) && continues(1))?;
        Some(Self { len, ..self })
    }
}

/// Advances to the next iteration; returns false after the last one.
///
/// `loops` starts with the outermost loop, `indices` holds its iteration numbers, and `offsets`
/// the element offsets in both tensors.
pub(crate) fn advance(loops: &[Loop], indices: &mut [usize], offsets: &mut [usize; 2]) -> bool {
    for (Loop { len, strides }, index) in loops.iter().zip(indices).rev() {
        *index += 1;
        *offsets = [offsets[0] + strides[0], offsets[1] + strides[1]];
        if *index < *len {
            return true;
        }
        *offsets = [offsets[0] - strides[0] * len, offsets[1] - strides[1] * len];
        *index = 0;
    }
    false
}

//! Copies between strided tensors, by size of element and not by dtype.

use afferent_core::{Error, MAX_DIMS};

/// A dimension of a block: its extent, and the elements between neighbours on either side.
///
/// Steps add up in wrapping arithmetic, so that a step backwards is a wrapped negative number.
#[derive(Clone, Copy, Default)]
struct Axis {
    size: usize,
    to: usize,
    from: usize,
}

impl Axis {
    /// Whether `self` continues where `inner` ends, on both sides.
    fn extends(self, inner: Self) -> bool {
        self.to == inner.to.wrapping_mul(inner.size)
            && self.from == inner.from.wrapping_mul(inner.size)
    }
}

/// The dimensions of a copy: sorted so that what is written lies close together, and as few as
/// possible.
pub(crate) struct StridedCopy {
    axes: [Axis; 2 * MAX_DIMS],
    len: usize,
    is_empty: bool,
}

/// A row of a copy: its length, and the step between neighbours on either side.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) len: usize,
    pub(crate) to: usize,
    pub(crate) from: usize,
}

impl StridedCopy {
    /// One element.
    pub(crate) fn scalar() -> Self {
        Self { axes: [Axis::default(); 2 * MAX_DIMS], len: 0, is_empty: false }
    }

    /// `sizes` elements with the strides `to` on the written and `from` on the read side.
    pub(crate) fn new(sizes: &[usize], to: &[usize], from: &[usize]) -> Result<Self, Error> {
        let mut block = Self::scalar();
        for ((&size, &to), &from) in sizes.iter().zip(to).zip(from).rev() {
            block.push(size, to, from)?;
        }
        Ok(block)
    }

    /// Adds a dimension.
    ///
    /// # Errors
    /// [`Error::NotSupported`] when there are 32 that do not merge.
    pub(crate) fn push(&mut self, size: usize, to: usize, from: usize) -> Result<(), Error> {
        self.is_empty |= size == 0;
        if size <= 1 {
            return Ok(());
        }
        let new = Axis { size, to, from };
        let at = self.axes[..self.len].iter().position(|axis| axis.to < to).unwrap_or(self.len);
        if self.len == self.axes.len() {
            return Err(Error::NotSupported { what: "a copy over more than 32 dimensions" });
        }
        self.axes[at..=self.len].rotate_right(1);
        self.axes[at] = new;
        self.len += 1;
        self.merge(at);
        if at > 0 {
            self.merge(at - 1);
        }
        Ok(())
    }

    /// Makes the axis at `outer` and the one inside it one, if they can be.
    fn merge(&mut self, outer: usize) {
        let [a, b] = match self.axes[..self.len].get(outer..outer + 2) {
            Some(&[a, b]) if a.extends(b) => [a, b],
            _ => return,
        };
        self.axes[outer] = Axis { size: a.size.saturating_mul(b.size), ..b };
        self.axes[outer + 1..self.len].rotate_left(1);
        self.len -= 1;
    }

    /// Calls `each` for every row, with the positions of its first element on either side.
    pub(crate) fn rows(
        &self,
        to: usize,
        from: usize,
        mut each: impl FnMut(Row, usize, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.is_empty {
            return Ok(());
        }
        let Some((inner, outer)) = self.axes().split_last() else {
            return each(Row { len: 1, to: 1, from: 1 }, to, from);
        };
        let row = Row { len: inner.size, to: inner.to, from: inner.from };
        walk(outer, to, from, |to, from| each(row, to, from))
    }

    /// Copies elements of `element` bytes: from the one at `from` of `src` on, to the one at `to`
    /// of `dst` on.
    ///
    /// # Errors
    /// [`Error::Internal`] when the block leaves either side.
    pub(crate) fn run(
        &self,
        element: usize,
        (dst, to): (&mut [u8], usize),
        (src, from): (&[u8], usize),
    ) -> Result<(), Error> {
        with_element_size!(element, N => {
            let dst = dst.as_chunks_mut::<N>().0;
            let src = src.as_chunks::<N>().0;
            match self.tiles() {
                Some((tiles, outer)) => walk(outer.axes(), to, from, |to, from| {
                    copy_tiles(tiles, dst, to, src, from).ok_or(OUT_OF_BOUNDS)
                }),
                None => self.rows(to, from, |row, to, from| {
                    copy_row(row, dst, to, src, from).ok_or(OUT_OF_BOUNDS)
                }),
            }
        })
    }

    fn axes(&self) -> &[Axis] {
        &self.axes[..self.len]
    }

    /// The axes of a transposition, and the block around it: what is written close together is
    /// read far apart, but elements along another axis lie side by side.
    fn tiles(&self) -> Option<([Axis; 2], Self)> {
        let (inner, outer) = self.axes().split_last()?;
        if self.is_empty || inner.from == 1 || inner.from == 0 {
            return None;
        }
        let at = outer.iter().position(|axis| axis.from == 1)?;
        let mut rest = Self { axes: self.axes, len: self.len - 2, is_empty: false };
        rest.axes[at..outer.len()].rotate_left(1);
        Some(([outer[at], *inner], rest))
    }
}

/// Calls `each` for every position of `axes`, with the places on either side.
fn walk(
    axes: &[Axis],
    mut to: usize,
    mut from: usize,
    mut each: impl FnMut(usize, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut position = [0_usize; 2 * MAX_DIMS];
    loop {
        each(to, from)?;
        let mut dim = axes.len();
        loop {
            let Some(next) = dim.checked_sub(1) else { return Ok(()) };
            dim = next;
            let axis = axes[dim];
            position[dim] += 1;
            to = to.wrapping_add(axis.to);
            from = from.wrapping_add(axis.from);
            if position[dim] < axis.size {
                break;
            }
            position[dim] = 0;
            to = to.wrapping_sub(axis.to.wrapping_mul(axis.size));
            from = from.wrapping_sub(axis.from.wrapping_mul(axis.size));
        }
    }
}

/// A block that does not fit the tensors that it copies between.
pub(crate) const OUT_OF_BOUNDS: Error =
    Error::Internal { reason: "a copy stays inside its tensors" };

/// Runs `$body` with the constant `$N` standing for `$size`, the bytes of an element.
macro_rules! with_element_size {
    ($size:expr, $N:ident => $body:expr) => {
        $crate::shared::strided_copy::with_element_size!(@match $size, $N => $body, 1 2 4 8 16)
    };
    (@match $size:expr, $N:ident => $body:expr, $($bytes:literal)*) => {
        match $size {
            $($bytes => {
                const $N: usize = $bytes;
                $body
            })*
            _ => Err(afferent_core::Error::NotSupported { what: "elements of this size" }),
        }
    };
}

pub(crate) use with_element_size;

/// Copies a transposition in tiles, so that the lines of memory that a tile reads stay in cache
/// until all of their elements are used; `None` when it leaves either side.
fn copy_tiles<T: Copy>(
    [outer, inner]: [Axis; 2],
    dst: &mut [T],
    to: usize,
    src: &[T],
    from: usize,
) -> Option<()> {
    const TILE: usize = 16;
    for first in (0..outer.size).step_by(TILE) {
        for start in (0..inner.size).step_by(TILE) {
            let len = TILE.min(inner.size - start);
            let row = Row { len, to: inner.to, from: inner.from };
            for at in first..outer.size.min(first + TILE) {
                let place = |begin: usize, outer: usize, inner: usize| {
                    let begin = begin.wrapping_add(at.wrapping_mul(outer));
                    begin.wrapping_add(start.wrapping_mul(inner))
                };
                let (to, from) =
                    (place(to, outer.to, inner.to), place(from, outer.from, inner.from));
                copy_row(row, dst, to, src, from)?;
            }
        }
    }
    Some(())
}

/// Copies one row; `None` when it leaves either side.
fn copy_row<T: Copy>(row: Row, dst: &mut [T], to: usize, src: &[T], from: usize) -> Option<()> {
    match row {
        Row { to: 1, from: 1, len } => {
            let src = src.get(from..from.checked_add(len)?)?;
            dst.get_mut(to..to.checked_add(len)?)?.copy_from_slice(src);
        }
        Row { to: 1, from: 0, len } => {
            dst.get_mut(to..to.checked_add(len)?)?.fill(*src.get(from)?);
        }
        Row { to: 1, from: step, len } => {
            let mut at = from;
            for element in dst.get_mut(to..to.checked_add(len)?)? {
                *element = *src.get(at)?;
                at = at.wrapping_add(step);
            }
        }
        Row { to: step, from: step_from, len } => {
            let (mut to, mut at) = (to, from);
            for _ in 0..len {
                *dst.get_mut(to)? = *src.get(at)?;
                to = to.wrapping_add(step);
                at = at.wrapping_add(step_from);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(axes: &[(usize, usize, usize)], from: usize, rank: usize, expected: &[u8]) {
        let mut block = StridedCopy::scalar();
        for &(size, to, from) in axes {
            block.push(size, to, from).unwrap();
        }
        assert_eq!(block.len, rank);
        let mut dst = [0; 6];
        block.run(1, (&mut dst, 0), (&[1, 2, 3, 4, 5, 6], from)).unwrap();
        assert_eq!(dst[..expected.len()], *expected);
    }

    #[test]
    fn dimensions_merge_in_whatever_order_they_come() {
        check(&[(2, 3, 3), (3, 1, 1)], 0, 1, &[1, 2, 3, 4, 5, 6]);
        check(&[(3, 1, 1), (1, 7, 9), (2, 3, 3)], 0, 1, &[1, 2, 3, 4, 5, 6]);
        check(&[(3, 2, 1), (2, 1, 3)], 0, 2, &[1, 4, 2, 5, 3, 6]);
        check(&[], 4, 0, &[5]);
    }

    #[test]
    fn steps_may_be_zero_or_backwards() {
        check(&[(6, 1, 0)], 2, 1, &[3; 6]);
        check(&[(6, 1, 0_usize.wrapping_sub(1))], 5, 1, &[6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn a_block_that_leaves_its_tensors_is_refused() {
        let block = StridedCopy::new(&[3], &[1], &[3]).unwrap();
        assert_eq!(block.run(1, (&mut [0; 3], 0), (&[0; 6], 0)), Err(OUT_OF_BOUNDS));
        let empty = StridedCopy::new(&[0, 9], &[1, 1], &[1, 1]).unwrap();
        assert_eq!(empty.run(1, (&mut [], 5), (&[], 7)), Ok(()));
    }

    #[test]
    fn a_transposition_in_tiles_reaches_every_element() {
        let (rows, columns) = (35, 20);
        let src: Vec<u16> = (0..35 * 20).collect();
        let mut dst = vec![0_u16; src.len()];
        let block = StridedCopy::new(&[columns, rows], &[rows, 1], &[1, columns]).unwrap();
        assert!(block.tiles().is_some());
        let (to, from) = (bytemuck::cast_slice_mut(&mut dst), bytemuck::cast_slice(&src));
        block.run(2, (to, 0), (from, 0)).unwrap();
        for (at, &element) in dst.iter().enumerate() {
            assert_eq!(element, src[at % rows * columns + at / rows]);
        }
    }
}

//! Copies between strided tensors. They depend on the element size, not on the dtype.

use afferent_core::{Error, MAX_DIMS};

/// Dimension of a copy: its size, and its strides in the destination and in the source.
///
/// Offsets use wrapping arithmetic: a negative stride is a wrapped negative number.
#[derive(Clone, Copy, Default)]
struct CopyDim {
    size: usize,
    to_stride: usize,
    from_stride: usize,
}

impl CopyDim {
    /// Returns true if `self` and the dimension `inner` inside it are one dimension on both sides.
    fn is_mergeable(self, inner: Self) -> bool {
        self.to_stride == inner.to_stride.wrapping_mul(inner.size)
            && self.from_stride == inner.from_stride.wrapping_mul(inner.size)
    }
}

/// Copy of a strided block. Mergeable dimensions are merged, and the dimension with the smallest
/// stride in the destination is innermost.
pub(crate) struct StridedCopy {
    dims: [CopyDim; 2 * MAX_DIMS],
    len: usize,
    is_empty: bool,
}

/// Innermost dimension of a copy: its length, and its strides on both sides.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) len: usize,
    pub(crate) to_stride: usize,
    pub(crate) from_stride: usize,
}

impl StridedCopy {
    /// Copy of one element.
    pub(crate) fn scalar() -> Self {
        Self { dims: [CopyDim::default(); 2 * MAX_DIMS], len: 0, is_empty: false }
    }

    /// Copy of `sizes` elements with the strides `to` in the destination and `from` in the source.
    pub(crate) fn new(sizes: &[usize], to: &[usize], from: &[usize]) -> Result<Self, Error> {
        let mut copy = Self::scalar();
        for ((&size, &to), &from) in sizes.iter().zip(to).zip(from).rev() {
            copy.push(size, to, from)?;
        }
        Ok(copy)
    }

    /// Adds a dimension.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if there are already 32 dimensions that do not merge.
    pub(crate) fn push(&mut self, size: usize, to: usize, from: usize) -> Result<(), Error> {
        self.is_empty |= size == 0;
        if size <= 1 {
            return Ok(());
        }
        let new = CopyDim { size, to_stride: to, from_stride: from };
        let at =
            self.dims[..self.len].iter().position(|other| other.to_stride < to).unwrap_or(self.len);
        if self.len == self.dims.len() {
            return Err(Error::NotSupported { what: "a copy over more than 32 dimensions" });
        }
        self.dims[at..=self.len].rotate_right(1);
        self.dims[at] = new;
        self.len += 1;
        self.merge(at);
        if at > 0 {
            self.merge(at - 1);
        }
        Ok(())
    }

    /// Merges the dimension at `outer` with the one inside it, if possible.
    fn merge(&mut self, outer: usize) {
        let [a, b] = match self.dims[..self.len].get(outer..outer + 2) {
            Some(&[a, b]) if a.is_mergeable(b) => [a, b],
            _ => return,
        };
        self.dims[outer] = CopyDim { size: a.size.saturating_mul(b.size), ..b };
        self.dims[outer + 1..self.len].rotate_left(1);
        self.len -= 1;
    }

    /// Calls `f` for each row, with the offsets of its first element in the destination and in the
    /// source.
    pub(crate) fn for_each_row(
        &self,
        to: usize,
        from: usize,
        mut f: impl FnMut(Row, usize, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.is_empty {
            return Ok(());
        }
        let Some((inner, outer)) = self.dims().split_last() else {
            return f(Row { len: 1, to_stride: 1, from_stride: 1 }, to, from);
        };
        let row =
            Row { len: inner.size, to_stride: inner.to_stride, from_stride: inner.from_stride };
        for_each_index(outer, to, from, |to, from| f(row, to, from))
    }

    /// Copies elements of `element_size` bytes from `src` to `dst`. The first ones are at the
    /// offsets `from` and `to`, in elements.
    ///
    /// # Errors
    /// [`Error::Internal`] if an element is outside `src` or `dst`.
    pub(crate) fn run(
        &self,
        element_size: usize,
        (dst, to): (&mut [u8], usize),
        (src, from): (&[u8], usize),
    ) -> Result<(), Error> {
        with_element_size!(element_size, N => {
            let dst = dst.as_chunks_mut::<N>().0;
            let src = src.as_chunks::<N>().0;
            match self.transposed_dims() {
                Some((dims, outer)) => for_each_index(outer.dims(), to, from, |to, from| {
                    copy_tiles(dims, dst, to, src, from).ok_or(OUT_OF_BOUNDS)
                }),
                None => self.for_each_row(to, from, |row, to, from| {
                    copy_row(row, dst, to, src, from).ok_or(OUT_OF_BOUNDS)
                }),
            }
        })
    }

    fn dims(&self) -> &[CopyDim] {
        &self.dims[..self.len]
    }

    /// The two dimensions of a transposition, and the copy over the other dimensions; `None` if
    /// this is no transposition. In a transposition, the dimension that is contiguous in the
    /// source is not the innermost one of the destination.
    fn transposed_dims(&self) -> Option<([CopyDim; 2], Self)> {
        let (inner, outer) = self.dims().split_last()?;
        if self.is_empty || inner.from_stride == 1 || inner.from_stride == 0 {
            return None;
        }
        let at = outer.iter().position(|other| other.from_stride == 1)?;
        let mut rest = Self { dims: self.dims, len: self.len - 2, is_empty: false };
        rest.dims[at..outer.len()].rotate_left(1);
        Some(([outer[at], *inner], rest))
    }
}

/// Calls `f` for each index of `dims`, with the offsets in the destination and in the source.
fn for_each_index(
    dims: &[CopyDim],
    mut to: usize,
    mut from: usize,
    mut f: impl FnMut(usize, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut index = [0_usize; 2 * MAX_DIMS];
    loop {
        f(to, from)?;
        let mut dim = dims.len();
        loop {
            let Some(next) = dim.checked_sub(1) else { return Ok(()) };
            dim = next;
            let current = dims[dim];
            index[dim] += 1;
            to = to.wrapping_add(current.to_stride);
            from = from.wrapping_add(current.from_stride);
            if index[dim] < current.size {
                break;
            }
            index[dim] = 0;
            to = to.wrapping_sub(current.to_stride.wrapping_mul(current.size));
            from = from.wrapping_sub(current.from_stride.wrapping_mul(current.size));
        }
    }
}

/// An element of a copy is outside its tensor.
pub(crate) const OUT_OF_BOUNDS: Error = Error::Internal { reason: "a copy exceeds its tensors" };

/// Evaluates `$body` with the constant `$N` equal to `$size`, the bytes of an element.
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

/// Copies a transposition in tiles: the cache lines that a tile reads stay in cache until all their
/// elements are used. `None` if an element is out of bounds.
fn copy_tiles<T: Copy>(
    [outer, inner]: [CopyDim; 2],
    dst: &mut [T],
    to: usize,
    src: &[T],
    from: usize,
) -> Option<()> {
    const TILE: usize = 16;
    for first in (0..outer.size).step_by(TILE) {
        for start in (0..inner.size).step_by(TILE) {
            let len = TILE.min(inner.size - start);
            let row = Row { len, to_stride: inner.to_stride, from_stride: inner.from_stride };
            for at in first..outer.size.min(first + TILE) {
                let offset = |begin: usize, outer: usize, inner: usize| {
                    let begin = begin.wrapping_add(at.wrapping_mul(outer));
                    begin.wrapping_add(start.wrapping_mul(inner))
                };
                let (to, from) = (
                    offset(to, outer.to_stride, inner.to_stride),
                    offset(from, outer.from_stride, inner.from_stride),
                );
                copy_row(row, dst, to, src, from)?;
            }
        }
    }
    Some(())
}

/// Copies one row; `None` if an element is out of bounds.
fn copy_row<T: Copy>(row: Row, dst: &mut [T], to: usize, src: &[T], from: usize) -> Option<()> {
    match row {
        Row { to_stride: 1, from_stride: 1, len } => {
            let src = src.get(from..from.checked_add(len)?)?;
            dst.get_mut(to..to.checked_add(len)?)?.copy_from_slice(src);
        }
        Row { to_stride: 1, from_stride: 0, len } => {
            dst.get_mut(to..to.checked_add(len)?)?.fill(*src.get(from)?);
        }
        Row { to_stride: 1, from_stride, len } => {
            let mut at = from;
            for element in dst.get_mut(to..to.checked_add(len)?)? {
                *element = *src.get(at)?;
                at = at.wrapping_add(from_stride);
            }
        }
        Row { to_stride, from_stride, len } => {
            let (mut to, mut at) = (to, from);
            for _ in 0..len {
                *dst.get_mut(to)? = *src.get(at)?;
                to = to.wrapping_add(to_stride);
                at = at.wrapping_add(from_stride);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dims: &[(usize, usize, usize)], from: usize, rank: usize, expected: &[u8]) {
        let mut copy = StridedCopy::scalar();
        for &(size, to, from) in dims {
            copy.push(size, to, from).unwrap();
        }
        assert_eq!(copy.len, rank);
        let mut dst = [0; 6];
        copy.run(1, (&mut dst, 0), (&[1, 2, 3, 4, 5, 6], from)).unwrap();
        assert_eq!(dst[..expected.len()], *expected);
    }

    #[test]
    fn dimensions_merge_in_any_order() {
        check(&[(2, 3, 3), (3, 1, 1)], 0, 1, &[1, 2, 3, 4, 5, 6]);
        check(&[(3, 1, 1), (1, 7, 9), (2, 3, 3)], 0, 1, &[1, 2, 3, 4, 5, 6]);
        check(&[(3, 2, 1), (2, 1, 3)], 0, 2, &[1, 4, 2, 5, 3, 6]);
        check(&[], 4, 0, &[5]);
    }

    #[test]
    fn strides_may_be_zero_or_negative() {
        check(&[(6, 1, 0)], 2, 1, &[3; 6]);
        check(&[(6, 1, 0_usize.wrapping_sub(1))], 5, 1, &[6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn an_out_of_bounds_copy_is_rejected() {
        let copy = StridedCopy::new(&[3], &[1], &[3]).unwrap();
        assert_eq!(copy.run(1, (&mut [0; 3], 0), (&[0; 6], 0)), Err(OUT_OF_BOUNDS));
        let empty = StridedCopy::new(&[0, 9], &[1, 1], &[1, 1]).unwrap();
        assert_eq!(empty.run(1, (&mut [], 5), (&[], 7)), Ok(()));
    }

    #[test]
    fn a_tiled_transposition_copies_every_element() {
        let (rows, columns) = (35, 20);
        let src: Vec<u16> = (0..35 * 20).collect();
        let mut dst = vec![0_u16; src.len()];
        let copy = StridedCopy::new(&[columns, rows], &[rows, 1], &[1, columns]).unwrap();
        assert!(copy.transposed_dims().is_some());
        let (to, from) = (bytemuck::cast_slice_mut(&mut dst), bytemuck::cast_slice(&src));
        copy.run(2, (to, 0), (from, 0)).unwrap();
        for (at, &element) in dst.iter().enumerate() {
            assert_eq!(element, src[at % rows * columns + at / rows]);
        }
    }
}

//! Sizes of tensors, and windows that move over pictures.

use std::ops::Deref;

use afferent_core::Error;

/// The most dimensions of a tensor.
pub(crate) const MOST_DIMS: usize = 6;

/// The most bytes that the results of all steps may take.
pub(crate) const MOST_BYTES: usize = 1 << 32;

/// The sizes of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    sizes: [usize; MOST_DIMS],
    rank: usize,
}

/// Sizes do not fit each other.
pub(crate) const MISFIT: Error =
    Error::InvalidTensor { reason: "sizes of tensors in the delegate do not fit each other" };

/// There is no room for what the delegate needs.
pub(crate) const NO_ROOM: Error =
    Error::InvalidTensor { reason: "the delegate needs more memory than its limit allows" };

/// What a step needs is more than any step may have.
pub(crate) const TOO_LARGE: Error =
    Error::InvalidTensor { reason: "a tensor in the delegate is too large" };

/// How many bytes a delegate may still ask for.
#[derive(Debug, Default)]
pub(crate) struct Room(usize);

impl Room {
    pub(crate) fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Takes the bytes of `len` items.
    ///
    /// # Errors
    /// When they are not there.
    pub(crate) fn take<T>(&mut self, len: usize) -> Result<(), Error> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(TOO_LARGE)?;
        self.0 = self.0.checked_sub(bytes).ok_or(NO_ROOM)?;
        Ok(())
    }

    /// Gives back bytes that were taken.
    pub(crate) fn give(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes);
    }
}

/// Loops around each other, the outermost first: how often, and how far each round moves in two
/// tensors.
pub(crate) type Loops = [(usize, [usize; 2])];

/// Goes on to the next round of `loops`, of which `at` counts the rounds and `start` is the place
/// in both tensors; false when there is none.
pub(crate) fn advance(loops: &Loops, at: &mut [usize], start: &mut [usize; 2]) -> bool {
    for ((len, steps), at) in loops.iter().zip(at).rev() {
        *at += 1;
        *start = [start[0] + steps[0], start[1] + steps[1]];
        if *at < *len {
            return true;
        }
        *start = [start[0] - steps[0] * len, start[1] - steps[1] * len];
        *at = 0;
    }
    false
}

impl Shape {
    /// That of a single number.
    pub(crate) const NONE: Self = Self { sizes: [0; MOST_DIMS], rank: 0 };

    /// `None` when there are too many sizes.
    pub(crate) fn new(sizes: &[usize]) -> Option<Self> {
        let mut shape = Self { sizes: [0; MOST_DIMS], rank: sizes.len() };
        shape.sizes.get_mut(..sizes.len())?.copy_from_slice(sizes);
        Some(shape)
    }

    /// The shape of `sizes`, which are not too many.
    pub(crate) fn of<const N: usize>(sizes: [usize; N]) -> Self {
        const { assert!(N <= MOST_DIMS) };
        Self::new(&sizes).unwrap_or_default()
    }

    /// Number of elements. The product of some sizes is below [`MOST_BYTES`] too, whatever others
    /// are 0.
    pub(crate) fn numel(&self) -> Result<usize, Error> {
        let most = self.iter().try_fold(1_usize, |most, size| most.checked_mul((*size).max(1)));
        most.filter(|most| *most < MOST_BYTES).ok_or(TOO_LARGE)?;
        Ok(self.iter().product())
    }

    /// The same with another size at `dim`.
    pub(crate) fn with(mut self, dim: usize, size: usize) -> Self {
        if let Some(place) = self.sizes[..self.rank].get_mut(dim) {
            *place = size;
        }
        self
    }

    /// Product of the sizes before `dim`, the size there, product of the sizes after.
    pub(crate) fn around(&self, dim: usize) -> (usize, usize, usize) {
        let (before, rest) = self.split_at(dim.min(self.rank));
        let after = rest.get(1..).unwrap_or_default();
        (before.iter().product(), rest.first().copied().unwrap_or(1), after.iter().product())
    }

    /// Batch, height, width and channels.
    pub(crate) fn picture(&self) -> Result<[usize; 4], Error> {
        <[usize; 4]>::try_from(&**self).map_err(|_| MISFIT)
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.sizes[..self.rank]
    }
}

/// A window that moves over a picture; pairs are of rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    /// Above and on the left.
    pub(crate) before: [usize; 2],
    /// Below and on the right.
    pub(crate) after: [usize; 2],
}

impl Window {
    /// Positions of the kernel.
    pub(crate) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Rows and columns that the kernel covers.
    pub(crate) fn span(&self, dim: usize) -> usize {
        (self.kernel[dim] - 1) * self.dilation[dim] + 1
    }

    /// Rows and columns of the result over a picture of `input`.
    pub(crate) fn output(&self, input: [usize; 2]) -> Result<[usize; 2], Error> {
        let mut output = [0; 2];
        for dim in 0..2 {
            let padded = input[dim] + self.before[dim] + self.after[dim];
            let room = padded.checked_sub(self.span(dim)).ok_or(MISFIT)?;
            output[dim] = room / self.stride[dim] + 1;
        }
        Ok(output)
    }

    /// The result of a pool of pictures.
    pub(crate) fn pooled(&self, pictures: Shape) -> Result<Shape, Error> {
        let [batch, height, width, channels] = pictures.picture()?;
        let [rows, cols] = self.output([height, width])?;
        let out = Shape::of([batch, rows, cols, channels]);
        out.numel()?;
        Ok(out)
    }

    /// Rows and columns of the result of the transposed convolution, `more` added at the end.
    pub(crate) fn transposed(
        &self,
        input: [usize; 2],
        more: [usize; 2],
    ) -> Result<[usize; 2], Error> {
        let mut output = [0; 2];
        for dim in 0..2 {
            let steps = input[dim].checked_sub(1).ok_or(MISFIT)?;
            let all = steps * self.stride[dim] + self.span(dim) + more[dim];
            output[dim] = all.checked_sub(self.before[dim] + self.after[dim]).ok_or(MISFIT)?;
        }
        Ok(output)
    }

    /// The position that the tap `tap` of the result at `at` meets, along `dim`.
    pub(crate) fn source(&self, dim: usize, at: usize, tap: usize, size: usize) -> Option<usize> {
        let padded = at * self.stride[dim] + tap * self.dilation[dim];
        padded.checked_sub(self.before[dim]).filter(|at| *at < size)
    }

    /// The same in the transposed convolution.
    pub(crate) fn back(&self, dim: usize, at: usize, tap: usize, size: usize) -> Option<usize> {
        let from = (at + self.before[dim]).checked_sub(tap * self.dilation[dim])?;
        let source = from / self.stride[dim];
        (from.is_multiple_of(self.stride[dim]) && source < size).then_some(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_hide_no_product_that_overflows() {
        assert_eq!(Shape::of([3, 0, 5]).numel(), Ok(0));
        assert_eq!(Shape::of([0, 1 << 20, 1 << 20]).numel(), Err(TOO_LARGE));
        assert_eq!(Shape::of([1 << 20, 1 << 20, 0]).numel(), Err(TOO_LARGE));
    }
}

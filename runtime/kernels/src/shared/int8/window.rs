//! Windows of convolutions and pools.

use afferent_core::{Args, Error};

use super::arguments::{invalid, pair};

/// Window in height and width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) padding: [usize; 2],
    pub(crate) dilation: [usize; 2],
}

impl Window {
    /// Window of a convolution: stride, padding and dilation are the arguments from `index`.
    pub(crate) fn of_conv(
        args: &Args<'_>,
        index: usize,
        kernel: [usize; 2],
    ) -> Result<Self, Error> {
        let (stride, padding) = (pair(args, index, 1)?, pair(args, index + 1, 0)?);
        Ok(Self { kernel, stride, padding, dilation: pair(args, index + 2, 1)? })
    }

    /// Window of a pool: kernel, stride and padding are the arguments from `index`.
    pub(crate) fn of_pool(args: &Args<'_>, index: usize) -> Result<Self, Error> {
        let (kernel, stride) = (pair(args, index, 1)?, pair(args, index + 1, 1)?);
        let padding = pair(args, index + 2, 0)?;
        if kernel.iter().zip(padding).any(|(kernel, padding)| 2 * padding > *kernel) {
            return Err(invalid(index + 2, "at most half the window"));
        }
        Ok(Self { kernel, stride, padding, dilation: [1, 1] })
    }

    /// Distance from the first to the last tap along `dim`.
    fn extent(&self, dim: usize) -> Option<usize> {
        self.dilation[dim].checked_mul(self.kernel[dim].checked_sub(1)?)
    }

    /// Size of the output of a convolution or pool on `input`.
    pub(crate) fn output(&self, input: [usize; 2], ceil_mode: bool) -> Option<[usize; 2]> {
        let along = |dim: usize| {
            let (stride, padding) = (self.stride[dim].max(1), self.padding[dim]);
            let padded = input[dim].checked_add(2 * padding)?;
            let room = padded.checked_sub(self.extent(dim)?)?.checked_sub(1)?;
            let size = if ceil_mode { room.div_ceil(stride) } else { room / stride } + 1;
            // As in PyTorch, the last window begins inside of the input or its left padding.
            let begins_outside = ceil_mode && (size - 1) * stride >= input[dim] + padding;
            Some(size - usize::from(begins_outside))
        };
        Some([along(0)?, along(1)?])
    }

    /// Size of the output of a transposed convolution on `input`.
    pub(crate) fn transposed_output(
        &self,
        input: [usize; 2],
        output_padding: [usize; 2],
    ) -> Option<[usize; 2]> {
        let along = |dim: usize| {
            let size = input[dim].checked_sub(1)?.checked_mul(self.stride[dim])?;
            let size = size.checked_add(self.extent(dim)?)?.checked_add(output_padding[dim] + 1)?;
            size.checked_sub(2 * self.padding[dim])
        };
        Some([along(0)?, along(1)?])
    }

    /// Input position that tap `tap` of output position `at` reads; `None` in the padding.
    #[inline]
    pub(crate) fn source(&self, dim: usize, at: usize, tap: usize, size: usize) -> Option<usize> {
        let position = at * self.stride[dim] + tap * self.dilation[dim];
        position.checked_sub(self.padding[dim]).filter(|&position| position < size)
    }

    /// As [`Window::source`], of a transposed convolution.
    #[inline]
    pub(crate) fn transposed_source(
        &self,
        dim: usize,
        at: usize,
        tap: usize,
        size: usize,
    ) -> Option<usize> {
        let shifted = (at + self.padding[dim]).checked_sub(tap * self.dilation[dim])?;
        let position = shifted.checked_div(self.stride[dim])?;
        (position * self.stride[dim] == shifted && position < size).then_some(position)
    }

    /// Taps along `dim` that read the input: those from the first to before the second number.
    #[inline]
    pub(crate) fn taps(&self, dim: usize, at: usize, size: usize) -> [usize; 2] {
        let (start, dilation) = (at * self.stride[dim], self.dilation[dim].max(1));
        let (padding, kernel) = (self.padding[dim], self.kernel[dim]);
        if dilation == 1 {
            let first = padding.saturating_sub(start).min(kernel);
            let end = (size + padding).saturating_sub(start).min(kernel);
            return [first, end.max(first)];
        }
        let first = padding.saturating_sub(start).div_ceil(dilation).min(kernel);
        let end = (size + padding).saturating_sub(start).div_ceil(dilation).min(kernel);
        [first, end.max(first)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_are_those_with_a_source() {
        for (kernel, stride, padding, dilation, size) in
            [(3, 1, 1, 1, 5), (5, 2, 4, 2, 3), (1, 1, 0, 1, 2), (4, 3, 7, 1, 2), (2, 1, 3, 3, 1)]
        {
            let [kernel, stride, padding, dilation] =
                [kernel, stride, padding, dilation].map(|value| [value; 2]);
            let window = Window { kernel, stride, padding, dilation };
            for at in 0..6 {
                let [first, end] = window.taps(0, at, size);
                let inside = |tap: &usize| window.source(0, at, *tap, size).is_some();
                let expected: Vec<usize> = (0..kernel[0]).filter(inside).collect();
                let found: Vec<usize> = (first..end).collect();
                assert_eq!(found, expected, "{window:?} {at}");
            }
        }
    }
}

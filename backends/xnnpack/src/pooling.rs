//! Traversal of pooling windows.

use afferent_core::{Element, Error};
use afferent_simd::Isa;

use crate::{error::SHAPE_MISMATCH, operator::Input, window::Window};

/// Visits the window of each output pixel, without its padding.
///
/// For each input pixel, `add` receives the channels of the output pixel and of the input pixel,
/// its window index, counted column by column, and true for the first pixel. At the end of a
/// window, `finish` receives the channels of the output pixel and the number of input pixels.
pub(crate) fn for_each_tap<T: Element, U>(
    window: &Window,
    isa: Isa,
    input: &Input<'_>,
    out: &mut [U],
    mut add: impl FnMut(&mut [U], &[T], i32, bool),
    finish: impl Fn(&mut [U], usize),
) -> Result<(), Error> {
    let [_, height, width, channels] = input.shape.nhwc()?;
    let x = input.data::<T>()?;
    let [rows, cols] = window.output_size([height, width])?;
    if channels == 0 {
        return Ok(());
    }
    let [kernel_rows, kernel_cols] = window.kernel;
    for (pixel, to) in out.chunks_exact_mut(channels).enumerate() {
        let (image, row, col) = (pixel / (rows * cols), pixel / cols % rows, pixel % cols);
        let mut count = 0;
        for i in 0..kernel_rows {
            let Some(y) = window.input_index(0, row, i, height) else { continue };
            for j in 0..kernel_cols {
                let Some(at) = window.input_index(1, col, j, width) else { continue };
                let start = ((image * height + y) * width + at) * channels;
                let from = x.get(start..start + channels).ok_or(SHAPE_MISMATCH)?;
                let tap = (j * kernel_rows + i) as i32;
                isa.call(|| add(to, from, tap, count == 0));
                count += 1;
            }
        }
        finish(to, count);
    }
    Ok(())
}

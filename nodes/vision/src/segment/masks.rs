//! Values of masks from the outputs of a model.

use std::fmt::Display;

use afferent_core::{ScalarType, TensorView};

use crate::boxes::Edges;

/// Index of the largest logit of each pixel; of equal ones, the first. `logits` are planes of the
/// classes.
pub(super) fn largest(logits: &[f32], mask: &mut [u8]) {
    let mut best = vec![f32::NEG_INFINITY; mask.len()];
    mask.fill(0);
    for (class, plane) in (0..=u8::MAX).zip(logits.chunks_exact(mask.len())) {
        for ((best, value), logit) in best.iter_mut().zip(mask.iter_mut()).zip(plane) {
            if *logit > *best {
                (*best, *value) = (*logit, class);
            }
        }
    }
}

/// Indices of classes.
///
/// # Errors
/// An index that a mask cannot hold.
pub(super) fn indices(tensor: &TensorView<'_>, mask: &mut [u8]) -> Result<(), String> {
    fn copy<T: Copy + TryInto<u8> + Display>(from: &[T], mask: &mut [u8]) -> Result<(), String> {
        if from.len() != mask.len() {
            return Err(format!("its output has {} pixels instead of {}", from.len(), mask.len()));
        }
        for (value, index) in mask.iter_mut().zip(from) {
            let small: Result<u8, _> = (*index).try_into();
            *value = small.map_err(|_| {
                format!("its output has the class {index}; it must be from 0 to 255")
            })?;
        }
        Ok(())
    }
    let failed = |error: afferent_core::Error| error.to_string();
    match tensor.dtype() {
        ScalarType::Byte => copy(tensor.data::<u8>().map_err(failed)?, mask),
        ScalarType::Int => copy(tensor.data::<i32>().map_err(failed)?, mask),
        _ => copy(tensor.data::<i64>().map_err(failed)?, mask),
    }
}

/// Opacity from 0 to 1 as 0 to 255.
///
/// # Errors
/// A value that is no opacity.
pub(super) fn matte(values: &[f32], are_logits: bool, mask: &mut [u8]) -> Result<(), String> {
    for (pixel, value) in mask.iter_mut().zip(values) {
        let opacity = if are_logits { 1.0 / (1.0 + (-value).exp()) } else { *value };
        // Resizing inside of a model may exceed the range a little.
        if !(-0.5..=1.5).contains(&opacity) {
            return Err(format!(
                "its output has the value {value}, but an opacity is from 0 to 1; for logits, set \
                 `contract: matte_logits` in model.yaml"
            ));
        }
        *pixel = (opacity.clamp(0.0, 1.0) * 255.0).round() as u8;
    }
    Ok(())
}

/// Marks the pixels of an object with `number` that no other object has. `logit` gives the logit of a
/// pixel of the mask; only pixels within `edges`, in pixels of the mask, are asked.
pub(super) fn mark(
    mask: &mut [u8],
    [width, height]: [usize; 2],
    edges: Edges,
    number: u8,
    logit: impl Fn(usize) -> f32,
) {
    let [left, top, right, bottom] = edges.0;
    // As `crop_mask` of Ultralytics: from the first whole pixel on.
    let range = |from: f32, to: f32, size: usize| {
        let limit = |edge: f32| edge.ceil().clamp(0.0, size as f32) as usize;
        limit(from)..limit(to)
    };
    let columns = range(left, right, width);
    for row in range(top, bottom, height) {
        for index in columns.clone().map(|column| row * width + column) {
            if mask[index] == 0 && logit(index) > 0.0 {
                mask[index] = number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_classes_counts() {
        let mut mask = [9; 3];
        largest(&[1.0, -2.0, f32::NAN, 1.0, -1.0, f32::NAN, 0.0, -3.0, f32::NAN], &mut mask);
        assert_eq!(mask, [0, 1, 0]);
    }

    #[test]
    fn indices_must_fit() {
        let mut mask = [0; 2];
        let view = TensorView::new(&[1, 2], &[3_i64, 255]).unwrap();
        indices(&view, &mut mask).unwrap();
        assert_eq!(mask, [3, 255]);
        let view = TensorView::new(&[1, 2], &[3_i32, -1]).unwrap();
        assert!(indices(&view, &mut mask).unwrap_err().contains("the class -1"));
        let view = TensorView::new(&[1, 2], &[7_u8, 8]).unwrap();
        indices(&view, &mut mask).unwrap();
        assert_eq!(mask, [7, 8]);
        let view = TensorView::new(&[1, 1], &[7_u8]).unwrap();
        assert!(indices(&view, &mut mask).unwrap_err().contains("1 pixels instead of 2"));
    }

    #[test]
    fn opacity_is_rounded_and_checked() {
        let mut mask = [0; 4];
        matte(&[0.0, 0.5, 1.0, 1.02], false, &mut mask).unwrap();
        assert_eq!(mask, [0, 128, 255, 255]);
        matte(&[-100.0, 0.0, 100.0, 2.0], true, &mut mask).unwrap();
        assert_eq!(mask, [0, 128, 255, 225]);
        let told = matte(&[0.0, 7.5], false, &mut mask).unwrap_err();
        assert!(told.contains("7.5") && told.contains("matte_logits"), "{told}");
        assert!(matte(&[f32::NAN], true, &mut mask).is_err());
    }

    #[test]
    fn objects_do_not_cover_more_probable_ones() {
        let mut mask = [0; 12];
        mark(&mut mask, [4, 3], Edges([0.5, -3.0, 2.5, 1.5]), 1, |_| 1.0);
        mark(&mut mask, [4, 3], Edges([0.0, 0.0, 9.0, 9.0]), 2, |index| index as f32 - 3.0);
        assert_eq!(mask, [0, 1, 1, 0, 2, 1, 1, 2, 2, 2, 2, 2]);
        mark(&mut mask, [4, 3], Edges([f32::NAN; 4]), 3, |_| 1.0);
        assert_eq!(mask[0], 0);
    }
}

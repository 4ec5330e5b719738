//! Floating-point values from and to tensors of any floating-point type and dim order.

use alloc::vec::Vec;
use core::ops::Range;

use crate::{Element, Error, ScalarType, Tensor, TensorView, bf16, f16};

/// Row-major tensor of `values` with the type `dtype`: f32, f16 or bf16.
///
/// # Errors
/// [`Error::InvalidTensor`] if the number of values does not fit `sizes`, [`Error::DtypeMismatch`] for
/// another type.
pub fn tensor_of(values: &[f32], sizes: &[usize], dtype: ScalarType) -> Result<Tensor, Error> {
    fn convert<T: Element>(
        values: &[f32],
        sizes: &[usize],
        of: fn(f32) -> T,
    ) -> Result<Tensor, Error> {
        Tensor::new(sizes, &values.iter().map(|&value| of(value)).collect::<Vec<T>>())
    }
    match dtype {
        ScalarType::Float => Tensor::new(sizes, values),
        ScalarType::Half => convert(values, sizes, f16::from_f32),
        ScalarType::BFloat16 => convert(values, sizes, bf16::from_f32),
        found => Err(Error::DtypeMismatch { expected: ScalarType::Float, found }),
    }
}

/// Writes the elements of a tensor of f32, f16 or bf16 to `out`, in row-major order whatever the dim
/// order of the tensor.
///
/// # Errors
/// [`Error::DtypeMismatch`] if the tensor has another type.
pub fn read_floats(tensor: &TensorView<'_>, out: &mut Vec<f32>) -> Result<(), Error> {
    read_float_range(tensor, 0..tensor.numel(), out)
}

/// As [`read_floats`], for the elements `range` of the row-major order.
///
/// # Errors
/// As [`read_floats`], and [`Error::InvalidTensor`] if the tensor has fewer elements.
pub fn read_float_range(
    tensor: &TensorView<'_>,
    range: Range<usize>,
    out: &mut Vec<f32>,
) -> Result<(), Error> {
    fn read<T: Element>(
        tensor: &TensorView<'_>,
        range: Range<usize>,
        out: &mut Vec<f32>,
        to_f32: fn(T) -> f32,
    ) -> Result<(), Error> {
        let data = tensor.data::<T>()?;
        let reason = "the range exceeds the elements of the tensor";
        let elements = data.get(range.clone()).ok_or(Error::InvalidTensor { reason })?;
        if tensor.is_contiguous() {
            out.extend(elements.iter().map(|&value| to_f32(value)));
        } else {
            let (sizes, strides) = (tensor.sizes(), tensor.strides());
            out.extend(range.map(|index| to_f32(data[offset(sizes, &strides, index)])));
        }
        Ok(())
    }
    out.clear();
    match tensor.dtype() {
        ScalarType::Half => read(tensor, range, out, f16::to_f32),
        ScalarType::BFloat16 => read(tensor, range, out, bf16::to_f32),
        _ => read(tensor, range, out, |value: f32| value),
    }
}

/// Index in memory of the element `index` of the row-major order.
fn offset(sizes: &[usize], strides: &[usize], mut index: usize) -> usize {
    let mut offset = 0;
    for (size, stride) in sizes.iter().zip(strides).rev() {
        offset += index % size * stride;
        index /= size;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [1, 2, 2, 3] in row-major order.
    const ROWS: [f32; 12] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0];

    #[test]
    fn elements_are_in_row_major_order_for_each_type_and_dim_order() {
        // The same elements with the channels last in memory.
        let last = [0.0, 6.0, 1.0, 7.0, 2.0, 8.0, 3.0, 9.0, 4.0, 10.0, 5.0, 11.0];
        let sizes = [1, 2, 2, 3];
        for dtype in [ScalarType::Float, ScalarType::Half, ScalarType::BFloat16] {
            for (order, memory) in [([0, 1, 2, 3], ROWS), ([0, 2, 3, 1], last)] {
                let mut tensor = tensor_of(&memory, &sizes, dtype).unwrap();
                tensor.set_dim_order(&order).unwrap();
                let mut found = Vec::new();
                read_floats(&tensor.view(), &mut found).unwrap();
                assert_eq!(found, ROWS, "{dtype} {order:?}");
                read_float_range(&tensor.view(), 5..9, &mut found).unwrap();
                assert_eq!(found, ROWS[5..9], "{dtype} {order:?}");
            }
        }
    }

    #[test]
    fn other_types_and_ranges_are_errors() {
        let (mut found, integers) = (Vec::new(), Tensor::from_slice(&[1_i64]));
        let error = read_floats(&integers.view(), &mut found).unwrap_err();
        let (expected, other) = (ScalarType::Float, ScalarType::Long);
        assert_eq!(error, Error::DtypeMismatch { expected, found: other });
        let error = tensor_of(&[1.0], &[1], other).unwrap_err();
        assert_eq!(error, Error::DtypeMismatch { expected, found: other });
        let tensor = Tensor::from_slice(&ROWS);
        assert!(read_float_range(&tensor.view(), 10..13, &mut found).is_err());
        assert!(tensor_of(&ROWS, &[5], ScalarType::Half).is_err());
    }
}

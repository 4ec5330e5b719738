//! Elements of arguments and constants to elements on the device, and back.

use std::borrow::Cow;

use afferent_core::{Error, ScalarType, TensorMut, TensorView};
use half::{bf16, f16};

use crate::graph::{DataType, DeviceType, TensorSpec};

/// Elements of a constant on the device.
pub(crate) fn constant<'a>(spec: &TensorSpec<'a>, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match spec.datatype {
        DataType::F16 => widen::<2>(bytes, |half| f16::from_le_bytes(half).to_f32().to_le_bytes()),
        DataType::Bool => bytes.iter().map(|byte| u8::from(*byte != 0)).collect(),
        _ => Cow::Borrowed(bytes),
    }
}

fn widen<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> [u8; 4]) -> Cow<'static, [u8]> {
    let (chunks, _) = bytes.as_chunks::<N>();
    Cow::Owned(chunks.iter().flat_map(|chunk| convert(*chunk)).collect())
}

/// Elements of an argument as elements of type `ty` on the device, in row-major order.
///
/// # Errors
/// [`Error::InvalidType`] if there is no conversion.
pub(crate) fn argument<'v>(
    index: usize,
    view: &TensorView<'v>,
    ty: DeviceType,
) -> Result<Cow<'v, [u8]>, Error> {
    let bytes = if view.is_contiguous() {
        Cow::Borrowed(view.bytes())
    } else {
        Cow::Owned(row_major(view))
    };
    let converted = match (view.dtype(), ty) {
        (ScalarType::Float, DeviceType::F32)
        | (ScalarType::Int, DeviceType::I32)
        | (ScalarType::Char, DeviceType::I8)
        | (ScalarType::Byte, DeviceType::U8) => return Ok(bytes),
        (ScalarType::Bool, DeviceType::Bool) => {
            Cow::Owned(bytes.iter().map(|byte| u8::from(*byte != 0)).collect())
        }
        (ScalarType::Long, DeviceType::I32) => {
            widen::<8>(&bytes, |long| (i64::from_le_bytes(long) as i32).to_le_bytes())
        }
        (ScalarType::Double, DeviceType::F32) => {
            widen::<8>(&bytes, |double| (f64::from_le_bytes(double) as f32).to_le_bytes())
        }
        (ScalarType::Half, DeviceType::F32) => {
            widen::<2>(&bytes, |half| f16::from_le_bytes(half).to_f32().to_le_bytes())
        }
        (ScalarType::BFloat16, DeviceType::F32) => {
            widen::<2>(&bytes, |half| bf16::from_le_bytes(half).to_f32().to_le_bytes())
        }
        (found, _) => {
            return Err(Error::InvalidType {
                index: u8::try_from(index).unwrap_or(u8::MAX),
                found,
            });
        }
    };
    Ok(converted)
}

/// Integers of an argument.
///
/// # Errors
/// [`Error::InvalidType`] if it holds none.
pub(crate) fn integers(index: usize, view: &TensorView<'_>) -> Result<Vec<i64>, Error> {
    let bytes = argument(index, view, DeviceType::I32)?;
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().map(|word| i32::from_le_bytes(*word).into()).collect())
}

/// Index in row-major order of each element in memory order.
fn row_major_indices(sizes: &[usize], order: &[u8]) -> Vec<usize> {
    let strides = crate::shape::strides(sizes);
    let mut indices = vec![0];
    for dim in order {
        let (size, stride) = (sizes[usize::from(*dim)], strides[usize::from(*dim)]);
        let next = |index: usize| (0..size).map(move |at| index + at * stride);
        indices = indices.into_iter().flat_map(next).collect();
    }
    indices
}

fn row_major(view: &TensorView<'_>) -> Vec<u8> {
    let width = view.dtype().size();
    let mut bytes = vec![0; view.bytes().len()];
    let indices = row_major_indices(view.sizes(), view.dim_order());
    for (element, index) in view.bytes().chunks_exact(width).zip(indices) {
        bytes[index * width..][..width].copy_from_slice(element);
    }
    bytes
}

/// Writes elements of type `ty` on the device, in row-major order, to an output argument.
///
/// # Errors
/// [`Error::InvalidType`] if there is no conversion.
pub(crate) fn output(
    index: usize,
    elements: &[u8],
    ty: DeviceType,
    out: &mut TensorMut<'_, '_>,
) -> Result<(), Error> {
    let dtype = out.dtype();
    let (words, _) = elements.as_chunks::<4>();
    let floats = || words.iter().map(|word| f32::from_le_bytes(*word));
    let bytes: Cow<'_, [u8]> = match (ty, dtype) {
        (DeviceType::F32, ScalarType::Float)
        | (DeviceType::I32, ScalarType::Int)
        | (DeviceType::I8, ScalarType::Char)
        | (DeviceType::U8, ScalarType::Byte)
        | (DeviceType::Bool, ScalarType::Bool) => Cow::Borrowed(elements),
        (DeviceType::F32, ScalarType::Half) => {
            floats().flat_map(|float| f16::from_f32(float).to_le_bytes()).collect()
        }
        (DeviceType::F32, ScalarType::BFloat16) => {
            floats().flat_map(|float| bf16::from_f32(float).to_le_bytes()).collect()
        }
        (DeviceType::F32, ScalarType::Double) => {
            floats().flat_map(|float| f64::from(float).to_le_bytes()).collect()
        }
        (DeviceType::I32, ScalarType::Long) => {
            let int = |word: &[u8; 4]| i64::from(i32::from_le_bytes(*word)).to_le_bytes();
            words.iter().flat_map(int).collect()
        }
        (_, found) => {
            return Err(Error::InvalidType {
                index: u8::try_from(index).unwrap_or(u8::MAX),
                found,
            });
        }
    };
    let indices = (!out.is_contiguous()).then(|| row_major_indices(out.sizes(), out.dim_order()));
    let to = out.bytes_mut()?;
    let missing = Error::Internal { reason: "a result has the elements of its output" };
    let Some(indices) = indices else {
        to.copy_from_slice(bytes.get(..to.len()).ok_or(missing)?);
        return Ok(());
    };
    let width = dtype.size();
    for (element, index) in to.chunks_exact_mut(width).zip(indices) {
        element.copy_from_slice(bytes.get(index * width..(index + 1) * width).ok_or(missing)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_other_types_and_orders_are_converted() {
        let longs = [1_i64, -2];
        let view = TensorView::new(&[2], &longs).unwrap();
        assert_eq!(integers(0, &view).unwrap(), [1, -2]);
        let error = Error::InvalidType { index: 3, found: ScalarType::Long };
        assert_eq!(argument(3, &view, DeviceType::F32).map(drop), Err(error));
        let bytes: Vec<u8> = (0..6).collect();
        // Columns follow each other in memory.
        let view = TensorView::with_dim_order(ScalarType::Byte, &[2, 3], &[1, 0], &bytes).unwrap();
        assert_eq!(*argument(0, &view, DeviceType::U8).unwrap(), [0, 2, 4, 1, 3, 5]);
    }
}

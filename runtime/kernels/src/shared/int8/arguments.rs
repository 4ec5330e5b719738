//! Arguments of operators on 8-bit tensors.

use afferent_core::{Args, Error, Scalar, ScalarType, TensorMut, TensorView};

/// Error about the argument at `index`.
#[cold]
pub(crate) fn invalid(index: usize, expected: &'static str) -> Error {
    Error::InvalidArgument { index: u8::try_from(index).unwrap_or(u8::MAX), expected }
}

/// Integer of 32 bits at `index`.
pub(crate) fn int32(args: &Args<'_>, index: usize) -> Result<i32, Error> {
    i32::try_from(args.int(index)?).map_err(|_| invalid(index, "a 32-bit int"))
}

/// Number at `index` as f32.
pub(crate) fn float32(args: &Args<'_>, index: usize) -> Result<f32, Error> {
    match args.scalar(index)? {
        Scalar::Double(value) => Ok(value as f32),
        _ => int32(args, index).map(|value| value as f32),
    }
}

/// Height and width at `index`: two integers, or one for both, of at least `min`.
pub(crate) fn pair(args: &Args<'_>, index: usize, min: usize) -> Result<[usize; 2], Error> {
    let list = args.int_list(index)?;
    let expected = || invalid(index, "one or two ints, neither negative nor too small");
    let at = |item| {
        let value = list.get(item).and_then(|value| usize::try_from(value).ok());
        value.filter(|&value| value >= min && value <= MAX_EXTENT).ok_or_else(expected)
    };
    match list.len() {
        1 => at(0).map(|value| [value; 2]),
        2 => Ok([at(0)?, at(1)?]),
        _ => Err(expected()),
    }
}

/// Largest stride, padding, dilation or window. Sums of them cannot overflow.
const MAX_EXTENT: usize = 1 << 15;

/// Elements of the i8 tensor at `index`, in memory order.
pub(crate) fn elements<'a>(tensor: TensorView<'a>, index: u8) -> Result<&'a [i8], Error> {
    tensor.data().map_err(|_| Error::InvalidType { index, found: tensor.dtype() })
}

/// Elements of the row-major i32 tensor at `index`, `len` of them.
pub(crate) fn parameters<'a>(
    tensor: TensorView<'a>,
    index: u8,
    len: usize,
) -> Result<&'a [i32], Error> {
    let data: &[i32] =
        tensor.data().map_err(|_| Error::InvalidType { index, found: tensor.dtype() })?;
    if data.len() != len || !tensor.is_contiguous() {
        return Err(invalid(index.into(), "one number for each output channel"));
    }
    Ok(data)
}

/// Checks that the output at `index` has dtype i8.
pub(crate) fn check_int8(out: &TensorMut<'_, '_>, index: u8) -> Result<(), Error> {
    match out.dtype() {
        ScalarType::Char => Ok(()),
        found => Err(Error::InvalidType { index, found }),
    }
}

/// Returns true if a tensor of `sizes` has the same strides in dim orders `a` and `b`.
/// Dimensions of size one do not matter.
pub(crate) fn same_order(sizes: &[usize], a: &[u8], b: &[u8]) -> bool {
    let matters = |dim: &&u8| sizes.get(usize::from(**dim)).is_some_and(|&size| size != 1);
    a.iter().filter(matters).eq(b.iter().filter(matters))
}

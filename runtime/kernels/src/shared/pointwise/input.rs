//! Inputs of pointwise operators and their type promotion.

use afferent_core::{Args, Dims, Error, Scalar, ScalarType, TensorView};

use crate::shared::dtype::{Number, promote, with_dtype};

/// Input of a pointwise operator.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    /// A tensor.
    Tensor(TensorView<'a>),
    /// A tensor narrowed along one dimension.
    Narrow(TensorView<'a>, DimRange),
    /// A scalar.
    Scalar(Scalar),
}

/// Indices `start..start + len` of dimension `dim`.
#[derive(Clone, Copy)]
pub(crate) struct DimRange {
    pub(crate) dim: usize,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl<'a> From<TensorView<'a>> for Input<'a> {
    fn from(view: TensorView<'a>) -> Self {
        Self::Tensor(view)
    }
}

impl From<Scalar> for Input<'_> {
    fn from(scalar: Scalar) -> Self {
        Self::Scalar(scalar)
    }
}

impl<'a> Input<'a> {
    /// Reads the tensor or scalar argument `index`.
    pub(crate) fn arg(args: &Args<'a>, index: usize) -> Result<Self, Error> {
        match args.scalar(index) {
            Ok(scalar) => Ok(Self::Scalar(scalar)),
            Err(_) => args.tensor(index).map(Self::from),
        }
    }

    /// Reads the optional tensor or scalar argument `index`.
    pub(crate) fn opt_arg(args: &Args<'a>, index: usize) -> Result<Option<Self>, Error> {
        match args.opt_scalar(index) {
            Ok(scalar) => Ok(scalar.map(Self::Scalar)),
            Err(_) => Ok(args.opt_tensor(index)?.map(Self::from)),
        }
    }

    /// Dtype; of a scalar, the dtype that PyTorch promotes it with.
    pub(crate) fn dtype(&self) -> ScalarType {
        match self {
            Self::Tensor(view) | Self::Narrow(view, _) => view.dtype(),
            Self::Scalar(Scalar::Int(_)) => ScalarType::Long,
            Self::Scalar(Scalar::Double(_)) => ScalarType::Float,
            Self::Scalar(Scalar::Bool(_)) => ScalarType::Bool,
        }
    }

    /// Sizes.
    pub(super) fn sizes(&self) -> Dims {
        let none = Dims::filled(0, 0);
        let (Self::Tensor(view) | Self::Narrow(view, _)) = self else {
            return none;
        };
        let mut sizes = Dims::new(view.sizes()).unwrap_or(none);
        if let Self::Narrow(_, range) = self {
            sizes[range.dim] = range.len;
        }
        sizes
    }

    /// Number of dimensions.
    pub(crate) fn rank(&self) -> usize {
        match self {
            Self::Tensor(view) | Self::Narrow(view, _) => view.rank(),
            Self::Scalar(_) => 0,
        }
    }

    /// Sizes, strides and offset of a non-empty input.
    pub(super) fn layout(&self) -> Layout {
        let sizes = self.sizes();
        match self {
            Self::Scalar(_) => Layout { sizes, strides: Dims::filled(0, 0), offset: 0 },
            Self::Tensor(view) => Layout { sizes, strides: view.strides(), offset: 0 },
            Self::Narrow(view, range) => {
                let strides = view.strides();
                Layout { sizes, strides, offset: range.start * strides[range.dim] }
            }
        }
    }

    /// Priority in type promotion: 0 for a tensor with dimensions, 1 for a 0-d tensor, 2 for a
    /// scalar.
    fn promotion_category(&self) -> usize {
        match self {
            Self::Scalar(_) => 2,
            _ => usize::from(self.rank() == 0),
        }
    }
}

/// Sizes and strides of an input, and the offset of its first element.
pub(super) struct Layout {
    pub(super) sizes: Dims,
    pub(super) strides: Dims,
    pub(super) offset: usize,
}

/// Promoted dtype of `inputs`.
///
/// Within a kind (`bool`, integer, floating point), a 0-d tensor does not widen the dtype of
/// tensors with dimensions, and a scalar does not widen the dtype of any tensor.
///
/// # Errors
/// [`Error::NotSupported`] for dtypes without a promotion.
///
/// Source: `torch.result_type`.
pub(crate) fn result_type(inputs: &[Input<'_>]) -> Result<ScalarType, Error> {
    if let [first, rest @ ..] = inputs
        && rest.iter().all(|input| input.dtype() == first.dtype())
    {
        return Ok(first.dtype());
    }
    let mut found: [Option<ScalarType>; 3] = [None; 3];
    for input in inputs {
        let slot = &mut found[input.promotion_category()];
        *slot = Some(slot.map_or(Ok(input.dtype()), |other| promote(other, input.dtype()))?);
    }
    let combine = |higher: Option<ScalarType>, lower: Option<ScalarType>| match (higher, lower) {
        (Some(h), Some(l)) if !h.is_float() && (h == ScalarType::Bool || l.is_float()) => {
            promote(h, l).map(Some)
        }
        (higher, lower) => Ok(higher.or(lower)),
    };
    let lower = combine(found[1], found[2])?;
    combine(found[0], lower)?.ok_or(Error::Internal { reason: "an operator has no input" })
}

/// Converts `scalar`, argument `index`, to an integer.
///
/// # Errors
/// [`Error::InvalidArgument`] if it is floating point and `dtype`, the compute dtype, is not.
pub(crate) fn integer_scalar(scalar: Scalar, dtype: ScalarType, index: u8) -> Result<i64, Error> {
    match scalar {
        Scalar::Double(_) if !dtype.is_float() => {
            Err(Error::InvalidArgument { index, expected: "an integer for integer results" })
        }
        scalar => Ok(scalar.to_i64()),
    }
}

/// Checks that `dtype`, if it is an integer dtype, can represent `scalar`, argument `index`.
///
/// # Errors
/// [`Error::InvalidArgument`] if it cannot.
pub(crate) fn check_range(scalar: Scalar, dtype: ScalarType, index: u8) -> Result<(), Error> {
    if !dtype.is_integer() {
        return Ok(());
    }
    let is_representable =
        |value: i64| with_dtype!(int, dtype, index, T => Ok(T::from_i64(value).to_i64() == value));
    // As in PyTorch, an unsigned dtype also accepts the negative of a number that it represents.
    let value = scalar.to_i64();
    let is_unsigned = !is_representable(-1)?;
    let is_in_i64 = match scalar {
        Scalar::Double(value) => value.abs() < -(i64::MIN as f64),
        _ => true,
    };
    if is_in_i64
        && (is_representable(value)? || (is_unsigned && is_representable(value.saturating_neg())?))
    {
        Ok(())
    } else {
        Err(Error::InvalidArgument { index, expected: "a number that the dtype can represent" })
    }
}

/// Reads the fill value for elements of `dtype` from argument `index`: a scalar that `dtype` can
/// represent, or a 0-d tensor.
///
/// # Errors
/// [`Error::InvalidArgument`] for any other argument.
pub(crate) fn fill_value<'a>(
    args: &Args<'a>,
    index: u8,
    dtype: ScalarType,
) -> Result<Input<'a>, Error> {
    let value = Input::arg(args, usize::from(index))?;
    match value {
        Input::Scalar(scalar) => check_range(scalar, dtype, index)?,
        _ if value.rank() == 0 => {}
        _ => {
            let expected = "a 0-d tensor";
            return Err(Error::InvalidArgument { index, expected });
        }
    }
    // `bool` is computed as an integer, but a fraction below 1 is true.
    Ok(match value {
        Input::Scalar(scalar) if dtype == ScalarType::Bool => {
            Input::Scalar(Scalar::Bool(scalar.to_bool()))
        }
        Input::Tensor(view) if dtype == ScalarType::Bool && view.dtype().is_float() => {
            let is_true = with_dtype!(float, view.dtype(), index, T => {
                Ok(view.data::<T>()?.first().is_some_and(|element| element.to_f64() != 0.0))
            })?;
            Input::Scalar(Scalar::Bool(is_true))
        }
        value => value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(inputs: &[(ScalarType, &[usize])], number: Option<Scalar>, expected: ScalarType) {
        let bytes = [0_u64; 2];
        let bytes: &[u8] = bytemuck::cast_slice(&bytes);
        let mut all = Vec::new();
        for &(dtype, sizes) in inputs {
            let len = dtype.size() * sizes.iter().product::<usize>();
            all.push(TensorView::from_bytes(dtype, sizes, &bytes[..len]).unwrap().into());
        }
        all.extend(number.map(Input::Scalar));
        assert_eq!(result_type(&all), Ok(expected));
    }

    #[test]
    fn promotion_by_kind_and_dimensions() {
        use ScalarType as S;
        check(&[(S::Char, &[2]), (S::Short, &[1])], None, S::Short);
        check(&[(S::Half, &[2]), (S::BFloat16, &[1])], None, S::Float);
        check(&[(S::Char, &[2]), (S::Long, &[])], None, S::Char);
        check(&[(S::Half, &[2]), (S::Double, &[])], None, S::Half);
        check(&[(S::Long, &[2]), (S::Half, &[])], None, S::Half);
        check(&[(S::Bool, &[2]), (S::Byte, &[])], None, S::Byte);
        check(&[(S::Bool, &[2])], Some(Scalar::Int(1)), S::Long);
        check(&[(S::UInt16, &[2])], Some(Scalar::Double(1.0)), S::Float);
        check(&[(S::UInt16, &[2]), (S::Half, &[1])], None, S::Half);
        check(&[(S::Double, &[2]), (S::UInt32, &[2])], None, S::Double);
        check(&[(S::Byte, &[2])], Some(Scalar::Double(1.0)), S::Float);
        check(&[(S::Half, &[])], Some(Scalar::Double(1.0)), S::Half);
        check(&[(S::Char, &[])], Some(Scalar::Int(1)), S::Char);
    }

    #[test]
    fn representable_scalars() {
        let check = |value, dtype, holds| {
            assert_eq!(check_range(value, dtype, 0).is_ok(), holds, "{value:?} as {dtype}");
        };
        check(Scalar::Int(255), ScalarType::Byte, true);
        check(Scalar::Int(256), ScalarType::Byte, false);
        check(Scalar::Int(-255), ScalarType::Byte, true);
        check(Scalar::Int(-129), ScalarType::Char, false);
        check(Scalar::Int(i64::MIN), ScalarType::Int, false);
        for none in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e19] {
            check(Scalar::Double(none), ScalarType::Long, false);
            check(Scalar::Double(none), ScalarType::Byte, false);
        }
        check(Scalar::Double(-2.5), ScalarType::Long, true);
        check(Scalar::Double(1e9), ScalarType::Short, false);
        check(Scalar::Double(1e300), ScalarType::Float, true);
    }
}

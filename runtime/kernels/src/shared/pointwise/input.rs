//! What a pointwise operator reads, and the dtype that it computes in.

use afferent_core::{Args, Dims, Error, Scalar, ScalarType, TensorView};

use crate::shared::dtype::{Number, promote, with_dtype};

/// What an operator reads.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    /// A tensor.
    Tensor(TensorView<'a>),
    /// Some indices of a tensor along one dimension.
    Narrow(TensorView<'a>, DimRange),
    /// A number.
    Scalar(Scalar),
}

/// The indices `start..start + len` along `dim`.
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
    /// The tensor or the number at `index`.
    pub(crate) fn arg(args: &Args<'a>, index: usize) -> Result<Self, Error> {
        match args.scalar(index) {
            Ok(scalar) => Ok(Self::Scalar(scalar)),
            Err(_) => args.tensor(index).map(Self::from),
        }
    }

    /// The tensor or the number at `index`, unless it is none.
    pub(crate) fn opt_arg(args: &Args<'a>, index: usize) -> Result<Option<Self>, Error> {
        match args.opt_scalar(index) {
            Ok(scalar) => Ok(scalar.map(Self::Scalar)),
            Err(_) => Ok(args.opt_tensor(index)?.map(Self::from)),
        }
    }

    /// The dtype; of a number the one that PyTorch gives it.
    pub(crate) fn dtype(&self) -> ScalarType {
        match self {
            Self::Tensor(view) | Self::Narrow(view, _) => view.dtype(),
            Self::Scalar(Scalar::Int(_)) => ScalarType::Long,
            Self::Scalar(Scalar::Double(_)) => ScalarType::Float,
            Self::Scalar(Scalar::Bool(_)) => ScalarType::Bool,
        }
    }

    /// Extent of each dimension.
    pub(super) fn sizes(&self) -> Dims {
        let none = Dims::filled(0, 0);
        let (Self::Tensor(view) | Self::Narrow(view, _)) = self else {
            return none;
        };
        let mut sizes = Dims::new(view.sizes()).unwrap_or(none);
        if let Self::Narrow(_, part) = self {
            sizes[part.dim] = part.len;
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

    /// Where the elements lie; there are some.
    pub(super) fn layout(&self) -> Layout {
        let sizes = self.sizes();
        match self {
            Self::Scalar(_) => Layout { sizes, strides: Dims::filled(0, 0), start: 0 },
            Self::Tensor(view) => Layout { sizes, strides: view.strides(), start: 0 },
            Self::Narrow(view, part) => {
                let strides = view.strides();
                Layout { sizes, strides, start: part.start * strides[part.dim] }
            }
        }
    }

    /// 0 for a tensor with dimensions, 1 for one without, 2 for a number.
    fn category(&self) -> usize {
        match self {
            Self::Scalar(_) => 2,
            _ => usize::from(self.rank() == 0),
        }
    }
}

/// Sizes and strides of what an operator reads, and the place of its first element.
pub(super) struct Layout {
    pub(super) sizes: Dims,
    pub(super) strides: Dims,
    pub(super) start: usize,
}

/// The dtype that PyTorch computes `inputs` in.
///
/// A tensor without dimensions, and still less a number, does not widen a dtype of its own kind.
///
/// # Errors
/// [`Error::NotSupported`] for dtypes that do not mix.
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
        let slot = &mut found[input.category()];
        *slot = Some(slot.map_or(Ok(input.dtype()), |other| promote(other, input.dtype()))?);
    }
    let combine = |higher: Option<ScalarType>, lower: Option<ScalarType>| match (higher, lower) {
        (Some(h), Some(l)) if !h.is_float() && (h == ScalarType::Bool || l.is_float()) => {
            promote(h, l).map(Some)
        }
        (higher, lower) => Ok(higher.or(lower)),
    };
    let lower = combine(found[1], found[2])?;
    combine(found[0], lower)?.ok_or(Error::Internal { reason: "an operator has an input" })
}

/// The number of argument `index` as an integer.
///
/// # Errors
/// [`Error::InvalidArgument`] when it is a fraction by type and `dtype`, which the operator
/// computes in, is not floating point.
pub(crate) fn integer(scalar: Scalar, dtype: ScalarType, index: u8) -> Result<i64, Error> {
    match scalar {
        Scalar::Double(_) if !dtype.is_float() => {
            Err(Error::InvalidArgument { index, expected: "an integer for integer results" })
        }
        scalar => Ok(scalar.to_i64()),
    }
}

/// Refuses the number of argument `index` when `dtype` is an integer dtype and cannot hold it.
///
/// # Errors
/// [`Error::InvalidArgument`].
pub(crate) fn check_range(scalar: Scalar, dtype: ScalarType, index: u8) -> Result<(), Error> {
    if !dtype.is_integer() {
        return Ok(());
    }
    let hold =
        |value: i64| with_dtype!(int, dtype, index, T => Ok(T::from_i64(value).to_i64() == value));
    // As in PyTorch, an unsigned dtype takes the negative of a number that it holds.
    let value = scalar.to_i64();
    let is_unsigned = !hold(-1)?;
    let counts = match scalar {
        Scalar::Double(value) => value.abs() < -(i64::MIN as f64),
        _ => true,
    };
    if counts && (hold(value)? || (is_unsigned && hold(value.saturating_neg())?)) {
        Ok(())
    } else {
        Err(Error::InvalidArgument { index, expected: "a number that the dtype can hold" })
    }
}

/// The value with which an operator fills elements of `dtype`: a number that `dtype` holds, or a
/// tensor without dimensions.
///
/// # Errors
/// [`Error::InvalidArgument`] when the argument at `index` is neither.
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
            let expected = "a tensor without dimensions";
            return Err(Error::InvalidArgument { index, expected });
        }
    }
    // Truth values are computed as integers, and a fraction is true.
    Ok(match value {
        Input::Scalar(scalar) if dtype == ScalarType::Bool => {
            Input::Scalar(Scalar::Bool(scalar.to_bool()))
        }
        Input::Tensor(view) if dtype == ScalarType::Bool && view.dtype().is_float() => {
            let truth = with_dtype!(float, view.dtype(), index, T => {
                Ok(view.data::<T>()?.first().is_some_and(|number| number.to_f64() != 0.0))
            })?;
            Input::Scalar(Scalar::Bool(truth))
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
    fn dtypes_meet_by_kind_then_by_dimensions() {
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
    fn numbers_are_held_or_not() {
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

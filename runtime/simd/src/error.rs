//! The error of this crate: sizes of a call that its slices do not match.

/// Sizes of a call that its slices do not match.
///
/// A kernel checks all sizes before it writes. If it returns this error, no output was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// A slice has the wrong length.
    #[error("`{slice}` holds {len} elements; the sizes require {required}")]
    Length {
        /// Name of the argument or field.
        slice: &'static str,
        /// Elements that it holds.
        len: usize,
        /// Elements that the sizes require: the minimum, or the exact number for an indirection
        /// buffer or a dense output.
        required: usize,
    },
    /// A product of sizes exceeds `usize`.
    #[error("the size of `{slice}` overflows")]
    Overflow {
        /// Name of the argument or field.
        slice: &'static str,
    },
    /// A parameter has a value that the kernel does not support.
    #[error("`{parameter}` must be {expected}")]
    Parameter {
        /// Name of the argument or field.
        parameter: &'static str,
        /// Values that are accepted.
        expected: &'static str,
    },
}

impl SizeError {
    /// Checks that `slice` holds at least `required` elements; `None` stands for an overflow.
    pub(crate) fn check_min(
        slice: &'static str,
        len: usize,
        required: Option<usize>,
    ) -> Result<(), Self> {
        let required = required.ok_or(Self::Overflow { slice })?;
        if required <= len { Ok(()) } else { Err(Self::Length { slice, len, required }) }
    }

    /// Checks that `slice` holds exactly `required` elements; `None` stands for an overflow.
    pub(crate) fn check_exact(
        slice: &'static str,
        len: usize,
        required: Option<usize>,
    ) -> Result<(), Self> {
        let required = required.ok_or(Self::Overflow { slice })?;
        if required == len { Ok(()) } else { Err(Self::Length { slice, len, required }) }
    }

    /// Checks the value of a parameter.
    pub(crate) fn check_parameter(
        parameter: &'static str,
        expected: &'static str,
        is_valid: bool,
    ) -> Result<(), Self> {
        if is_valid { Ok(()) } else { Err(Self::Parameter { parameter, expected }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_slice() {
        let short = SizeError::check_min("weights", 3, Some(12)).unwrap_err();
        assert_eq!(short.to_string(), "`weights` holds 3 elements; the sizes require 12");
        let overflow = SizeError::check_exact("out", 3, None).unwrap_err();
        assert_eq!(overflow.to_string(), "the size of `out` overflows");
        assert_eq!(SizeError::check_min("weights", 12, Some(12)), Ok(()));
    }
}

//! `aten::_to_copy.out`: a copy of another dtype or layout.
//!
//! | argument        | type              | shape     |
//! |-----------------|-------------------|-----------|
//! | `self`          | tensor, any dtype | any       |
//! | `non_blocking`  | ignored           |           |
//! | `memory_format` | ignored           |           |
//! | `out`           | any dtype         | as `self` |
//!
//! Elements are converted to the dtype of `out`; `out` keeps its dim order.
//! Integers wrap, floats truncate to integers, as a cast in PyTorch does. Exact.
//! Source: ATen `_to_copy`.

use afferent_core::{Arg, Kernel};

use crate::strided::convert_to;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_to_copy.out",
    &[Arg::Tensor, Arg::Ignored, Arg::Ignored, Arg::Out],
    |_, args| convert_to(args, 3),
)];

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Tensor};

    use super::*;
    use crate::testing::{check, iota};

    #[test]
    fn elements_are_converted() {
        let run = |x: &Tensor, expected| {
            let inputs = vec![Argument::Tensor(x), Argument::None, Argument::None];
            check(&KERNELS[0], inputs, Ok((&[3], expected)));
        };
        run(&Tensor::from_slice(&[1.5_f32, -1.5, 1e10]), &[1, -1, 1_410_065_408]);
        run(&Tensor::from_slice(&[1_i64 << 32, -1, 5]), &[0, -1, 5]);
        run(&Tensor::from_slice(&[true, false, true].map(Bool::from)), &[1, 0, 1]);
        run(&iota(&[3]), &[0, 1, 2]);
    }
}

//! `aten::embedding.out`: lookup of rows in a table.
//!
//! | argument             | type              | shape           |
//! |----------------------|-------------------|-----------------|
//! | `weight`             | tensor, any dtype | `[rows, k]`     |
//! | `indices`            | i32 or i64 tensor | any             |
//! | `padding_idx`        | int, ignored      |                 |
//! | `scale_grad_by_freq` | bool, ignored     |                 |
//! | `sparse`             | bool, ignored     |                 |
//! | `out`                | as `weight`       | `[indices…, k]` |
//!
//! Tolerance: exact.
//! Errors: an index out of range, other ranks or dtypes.
//! Source: ATen `embedding`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::check_dtype,
    element_copy::copy_elements,
    elements::Reader,
    loop_nest::{LoopNest, out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::embedding.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Int, Arg::Bool, Arg::Bool, Arg::Out],
    embedding_out,
)];

fn embedding_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (weight, indices) = (args.tensor(0)?, args.tensor(1)?);
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    let &[rows, len] = weight.sizes() else { return Err(wrong(0, "a matrix")) };
    if !matches!(indices.dtype(), ScalarType::Int | ScalarType::Long) {
        return Err(Error::InvalidType { index: 1, found: indices.dtype() });
    }
    let reader = Reader::<i64>::new(indices, 1)?;
    let row_at = |at| usize::try_from(reader.get(at)).ok().filter(|&row| row < rows);
    if (0..indices.numel()).any(|at| row_at(at).is_none()) {
        return Err(wrong(1, "indices in range"));
    }
    let mut sizes = Dims::new(indices.sizes()).ok_or(wrong(1, "fewer dimensions"))?;
    sizes.push(len)?;
    let mut out = args.out(5)?;
    check_dtype(out.dtype(), weight.dtype(), 5)?;
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (at_steps, to, from) = (strides_of(&indices), out_strides(&out), strides_of(&weight));
    let mut places = LoopNest::new();
    for (dim, &size) in indices.sizes().iter().enumerate() {
        places.push(size, [at_steps[dim], to[dim]])?;
    }
    let mut row = LoopNest::new();
    row.push(len, [from[1], to[indices.rank()]])?;
    let (width, source, target) = (weight.dtype().size(), weight.bytes(), out.bytes_mut()?);
    places.for_each([0, 0], |[at, to]| {
        let first = row_at(at).unwrap_or(0) * from[0] * width;
        let source = source.get(first..).unwrap_or(&[]);
        let target = target.get_mut(to * width..).unwrap_or(&mut []);
        copy_elements(row, source, target, width);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    fn run(indices: &[i64]) -> Result<Vec<i16>, Error> {
        let weight = Tensor::new(&[3, 2], &[1_i16, 2, 3, 4, 5, 6]).unwrap();
        let indices = Tensor::from_slice(indices);
        let mut out = Tensor::zeros(ScalarType::Short, &[0, 0]);
        let mut arguments = [
            Argument::Tensor(&weight),
            Argument::Tensor(&indices),
            Argument::Scalar(Scalar::Int(-1)),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn rows() {
        assert_eq!(run(&[2, 0]), Ok(vec![5, 6, 1, 2]));
        assert_eq!(run(&[]), Ok(vec![]));
        for outside in [-1, 3, i64::MIN] {
            assert!(run(&[outside]).is_err());
        }
    }
}

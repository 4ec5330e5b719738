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
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let &[rows, row_len] = weight.sizes() else { return Err(invalid(0, "a matrix")) };
    if !matches!(indices.dtype(), ScalarType::Int | ScalarType::Long) {
        return Err(Error::InvalidType { index: 1, found: indices.dtype() });
    }
    let reader = Reader::<i64>::new(indices, 1)?;
    let row_at = |offset| usize::try_from(reader.get(offset)).ok().filter(|&row| row < rows);
    if (0..indices.numel()).any(|offset| row_at(offset).is_none()) {
        return Err(invalid(1, "indices in range"));
    }
    let mut sizes = Dims::new(indices.sizes()).ok_or(invalid(1, "fewer dimensions"))?;
    sizes.push(row_len)?;
    let mut out = args.out(5)?;
    check_dtype(out.dtype(), weight.dtype(), 5)?;
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (index_strides, weight_strides) = (strides_of(&indices), strides_of(&weight));
    let to_strides = out_strides(&out);
    let mut index_loops = LoopNest::new();
    for (dim, &size) in indices.sizes().iter().enumerate() {
        index_loops.push(size, [index_strides[dim], to_strides[dim]])?;
    }
    let mut row = LoopNest::new();
    row.push(row_len, [weight_strides[1], to_strides[indices.rank()]])?;
    let (element_size, source, target) = (weight.dtype().size(), weight.bytes(), out.bytes_mut()?);
    let is_contiguous = weight_strides[1] == 1 && to_strides[indices.rank()] == 1;
    let row_bytes = row_len * element_size;
    index_loops.for_each([0, 0], |[index, to]| {
        let from = row_at(index).unwrap_or(0) * weight_strides[0];
        if is_contiguous {
            let [from, to] = [from, to].map(|offset| offset * element_size);
            target[to..][..row_bytes].copy_from_slice(&source[from..][..row_bytes]);
            return;
        }
        let source = source.get(from * element_size..).unwrap_or(&[]);
        let target = target.get_mut(to * element_size..).unwrap_or(&mut []);
        copy_elements(row, source, target, element_size);
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
    fn values() {
        assert_eq!(run(&[2, 0]), Ok(vec![5, 6, 1, 2]));
        assert_eq!(run(&[]), Ok(vec![]));
        for out_of_range in [-1, 3, i64::MIN] {
            assert!(run(&[out_of_range]).is_err());
        }
    }
}

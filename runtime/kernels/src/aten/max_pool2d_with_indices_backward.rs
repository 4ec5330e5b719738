//! `aten::max_pool2d_with_indices_backward.grad_input`: gradient of 2D max pooling.
//!
//! | argument      | type                                 | shape                    |
//! |---------------|--------------------------------------|--------------------------|
//! | `grad_output` | as `self`                            | `[…, h', w']`            |
//! | `self`        | floating-point tensor                | `[…, h, w]`, rank 3 or 4 |
//! | `kernel_size` | 1 or 2 ints                          |                          |
//! | `stride`      | 1 or 2 ints; default `kernel_size`   |                          |
//! | `padding`     | 1 or 2 ints, at most half the window |                          |
//! | `dilation`    | 1 or 2 ints                          |                          |
//! | `ceil_mode`   | bool                                 |                          |
//! | `indices`     | i64 tensor: `row · w + column`       | as `grad_output`         |
//! | `grad_input`  | as `self`                            | as `self`                |
//!
//! Adds each output gradient to the input element that was the maximum, in the dtype of the
//! tensors. Tolerance: exact.
//! Errors: sizes other than those of the forward pass, an index out of range, other dtypes.
//! Source: ATen `max_pool2d_with_indices_backward`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::check_dtype,
    dtype::{Number, with_dtype},
    loop_nest::{LoopNest, out_strides, strides_of},
    pooling::PoolGeometry,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::max_pool2d_with_indices_backward.grad_input",
    &[
        Arg::Tensor,
        Arg::Tensor,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::IntList,
        Arg::Bool,
        Arg::Tensor,
        Arg::Out,
    ],
    max_pool2d_backward,
)];

fn max_pool2d_backward(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(1)?;
    check_dtype(args.tensor(0)?.dtype(), x.dtype(), 0)?;
    check_dtype(args.tensor(7)?.dtype(), ScalarType::Long, 7)?;
    check_dtype(args.out(8)?.dtype(), x.dtype(), 8)?;
    let geometry = PoolGeometry::new(args, (&x, 2), 2, Some(5), args.bool(6)?)?;
    let sizes = geometry.out_sizes(x.sizes())?;
    for index in [0, 7] {
        if args.tensor(usize::from(index))?.sizes() != &*sizes {
            return Err(Error::InvalidArgument {
                index,
                expected: "the output sizes of the pooling",
            });
        }
    }
    with_dtype!(float, x.dtype(), 1, T => accumulate_gradients::<T>(args))
}

/// Adds each output gradient to the input element at its index.
fn accumulate_gradients<T: Number>(args: &mut Args<'_>) -> Result<(), Error> {
    let (grad, x, indices) = (args.tensor(0)?, args.tensor(1)?, args.tensor(7)?);
    let leading = x.rank() - 2;
    let &[height, width] = &x.sizes()[leading..] else { return Ok(()) };
    let mut out = args.out(8)?;
    out.resize(x.sizes())?;
    let strides = [strides_of(&grad), strides_of(&indices), out_strides(&out)];
    let mut planes = LoopNest::<3>::new();
    for (dim, &size) in x.sizes()[..leading].iter().enumerate() {
        planes.push(size, strides.each_ref().map(|strides| strides[dim]))?;
    }
    let mut outputs = LoopNest::<2>::new();
    for (dim, &size) in grad.sizes().iter().enumerate().skip(leading) {
        outputs.push(size, [strides[0][dim], strides[1][dim]])?;
    }
    let [row_stride, col_stride] = [strides[2][leading], strides[2][leading + 1]];
    let (grad, indices) = (grad.data::<T>()?, indices.data::<i64>()?);
    let out = out.data_mut::<T>()?;
    out.fill(T::default());
    let mut is_out_of_range = false;
    planes.for_each([0; 3], |[from, index_offset, to]| {
        outputs.for_each([from, index_offset], |[from, index_offset]| {
            let index = indices.get(index_offset).and_then(|&index| usize::try_from(index).ok());
            // The width is not zero: `PoolGeometry` rejects empty spatial dimensions.
            let index = index.filter(|&index| index / width < height);
            let offset = |index| to + index / width * row_stride + index % width * col_stride;
            let sum = index.and_then(|index| out.get_mut(offset(index)));
            match (sum, grad.get(from)) {
                (Some(sum), Some(grad)) => *sum = T::from_f64(sum.to_f64() + grad.to_f64()),
                _ => is_out_of_range = true,
            }
        });
    });
    if is_out_of_range {
        return Err(Error::InvalidArgument { index: 7, expected: "indices in range" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    fn run(indices: [i64; 2]) -> Result<Vec<f32>, Error> {
        let x = Tensor::zeros(ScalarType::Float, &[1, 2, 3]);
        let grad = Tensor::new(&[1, 1, 2], &[1.0_f32, 10.0]).unwrap();
        backward(&x, [&[2], &[1], &[0]], &grad, &Tensor::new(&[1, 1, 2], &indices).unwrap())
    }

    /// Runs the kernel with `params`: kernel size, stride and padding.
    fn backward(
        x: &Tensor,
        params: [&[i64]; 3],
        grad: &Tensor,
        indices: &Tensor,
    ) -> Result<Vec<f32>, Error> {
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0]);
        let [kernel, stride, padding] = params.map(|param| Argument::Ints(param.to_vec()));
        let mut arguments = [
            Argument::Tensor(grad),
            Argument::Tensor(x),
            kernel,
            stride,
            padding,
            Argument::Ints(vec![1]),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Tensor(indices),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        Ok(out.data()?.to_vec())
    }

    #[test]
    fn gradients_accumulate() {
        assert_eq!(run([4, 4]), Ok(vec![0.0, 0.0, 0.0, 0.0, 11.0, 0.0]));
        assert_eq!(run([0, 5]), Ok(vec![1.0, 0.0, 0.0, 0.0, 0.0, 10.0]));
    }

    #[test]
    fn indices_out_of_range_are_rejected() {
        for out_of_range in [-1, 6, i64::MAX, i64::MIN] {
            assert!(run([0, out_of_range]).is_err());
        }
    }

    #[test]
    fn errors_name_the_argument() {
        let check = |x: &[usize], params, index, expected| {
            let x = Tensor::zeros(ScalarType::Float, x);
            let grad = Tensor::zeros(ScalarType::Float, &[1, 3, 1]);
            let indices = Tensor::zeros(ScalarType::Long, &[1, 3, 1]);
            let found = backward(&x, params, &grad, &indices);
            assert_eq!(found, Err(Error::InvalidArgument { index, expected }));
        };
        check(&[1, 3, 0], [&[1, 2], &[1, 1], &[0, 1]], 1, "spatial sizes that are not zero");
        check(&[1, 3, 1], [&[2], &[1], &[0]], 1, "an input at least as large as the window");
        check(
            &[1, 3, 1],
            [&[0], &[1], &[0]],
            2,
            "one value, or one for each spatial dimension, not below its minimum",
        );
        check(&[1, 3, 1], [&[1], &[i64::MAX], &[0]], 0, "the output sizes of the pooling");
        check(&[1, 3, 1], [&[1], &[1], &[1]], 4, "at most half of the dilated kernel");
    }
}

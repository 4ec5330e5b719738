//! `aten::_unique2.out`: sorted unique elements, with their positions and counts.
//!
//! | argument         | type                  | shape                                       |
//! |------------------|-----------------------|---------------------------------------------|
//! | `self`           | real tensor, not u64  | any                                         |
//! | `sorted`         | bool, ignored         |                                             |
//! | `return_inverse` | bool                  |                                             |
//! | `return_counts`  | bool                  |                                             |
//! | `out0`           | as `self`: elements   | `[n]`, `n` unique elements                  |
//! | `out1`           | i64 tensor: positions | as `self` with `return_inverse`, else empty |
//! | `out2`           | i64 tensor: counts    | `[n]` with `return_counts`, else empty      |
//!
//! `out1` has the position in `out0` of each element of `self`. Each NaN is a different element.
//! Tolerance: exact.
//! Scratch: all elements and their indices.
//! Errors: other dtypes. Source: ATen `_unique2`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{Reader, Writer},
    order::{by_element, check_ordered, fill_indices, slice_scratch},
    strided_copy::OUT_OF_BOUNDS,
    strided_view::{StridedView, for_each_position, offset_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_unique2.out",
    &[Arg::Tensor, Arg::Bool, Arg::Bool, Arg::Bool, Arg::Out, Arg::Out, Arg::Out],
    unique2,
)];

fn unique2(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_ordered(dtype, 0)?;
    check_dtype(args.out(4)?.dtype(), dtype, 4)?;
    for index in [5, 6] {
        check_dtype(args.out(usize::from(index))?.dtype(), ScalarType::Long, index)?;
    }
    with_accumulator!(dtype, A => unique::<A>(cx, args))
}

fn unique<A: Accumulator>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (x, return_inverse, return_counts) = (args.tensor(0)?, args.bool(2)?, args.bool(3)?);
    let (elements, order) = slice_scratch::<A>(cx, x.numel())?;
    let (reader, mut position) = (Reader::<A>::new(x, 0)?, 0);
    for_each_position(x.sizes(), [0], [&x.strides()], |[offset]| {
        *elements.get_mut(position).ok_or(OUT_OF_BOUNDS)? = reader.get(offset);
        position += 1;
        Ok(())
    })?;
    fill_indices(order);
    order.sort_unstable_by(by_element(elements, false));
    let runs = || order.chunk_by(|&a, &b| elements[a as usize] == elements[b as usize]);
    let count = runs().count();
    let [mut values, mut inverse, mut counts] = args.outs([4, 5, 6])?;
    values.resize(&[count])?;
    inverse.resize(if return_inverse { x.sizes() } else { &[0] })?;
    counts.resize(&[if return_counts { count } else { 0 }])?;
    let (to, is_contiguous) = (StridedView::of_out(&inverse), inverse.is_contiguous());
    let mut values = Writer::<A>::new(&mut values, 4)?;
    let (inverse, counts) = (inverse.data_mut::<i64>()?, counts.data_mut::<i64>()?);
    for (at, run) in runs().enumerate() {
        values.set(at, elements[run[0] as usize]);
        if let Some(count) = counts.get_mut(at) {
            *count = run.len() as i64;
        }
        for &position in run.iter().filter(|_| return_inverse) {
            let position = position as usize;
            let offset = if is_contiguous { position } else { offset_of(&to, position) };
            *inverse.get_mut(offset).ok_or(OUT_OF_BOUNDS)? = at as i64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[track_caller]
    fn check(x: &Tensor, expected: (&[i64], &[i64])) {
        let (mut values, mut counts) =
            (Tensor::zeros(x.dtype(), &[0]), Tensor::zeros(ScalarType::Long, &[0]));
        let mut inverse = Tensor::zeros(ScalarType::Long, &vec![0; x.sizes().len()]);
        let mut arguments = [
            Argument::Tensor(x),
            Argument::Scalar(Scalar::Bool(true)),
            Argument::Scalar(Scalar::Bool(true)),
            Argument::Scalar(Scalar::Bool(true)),
            Argument::Out(&mut values),
            Argument::Out(&mut inverse),
            Argument::Out(&mut counts),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!((inverse.data().unwrap(), counts.data().unwrap()), expected);
        assert_eq!(values.sizes(), counts.sizes());
        assert_eq!(inverse.sizes(), x.sizes());
    }

    #[test]
    fn positions_and_counts() {
        let x = Tensor::new(&[2, 3], &[3_i32, 1, 3, -2, 1, 3]).unwrap();
        check(&x, (&[2, 1, 2, 0, 1, 2], &[1, 2, 3]));
        let nan = f32::NAN;
        check(&Tensor::from_slice(&[nan, 0.0, nan, -0.0]), (&[1, 0, 2, 0], &[2, 1, 1]));
        check(&Tensor::from_slice::<f32>(&[]), (&[], &[]));
        check(&Tensor::new(&[], &[5_u8]).unwrap(), (&[0], &[1]));
        let columns = [1_i64, 2, 2, 1];
        let bytes = bytemuck::cast_slice(&columns);
        let x = Tensor::from_bytes(ScalarType::Long, &[2, 2], &[1, 0], bytes).unwrap();
        check(&x, (&[0, 1, 1, 0], &[2, 2]));
    }
}

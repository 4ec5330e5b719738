//! Operators of the network that move bytes: `aten::cat.out`, `aten::view_copy.out`.
//!
//! The kernels of `runtime/kernels` convert between all dtypes and memory orders, which takes 15 kB
//! of code. These need what the network has: one dtype, and elements that keep their order in
//! memory. Anything else is an error.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

/// The kernels. In a list before the others they override them.
pub(crate) static KERNELS: [Kernel; 2] = [
    Kernel::new("aten::cat.out", &[Arg::TensorList, Arg::Int, Arg::Out], cat),
    Kernel::new("aten::view_copy.out", &[Arg::Tensor, Arg::IntList, Arg::Out], view_copy),
];

/// Concatenates tensors along the only dimension outside of the channels, which are last in memory.
fn cat(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let invalid = |expected| Error::InvalidArgument { index: 0, expected };
    let tensors = args.tensor_list(0)?;
    let dim = args.int(1)?;
    let mut out = args.out(2)?;
    let order = out.dim_order();
    // The dimension is the outermost one in memory if those before it have one element.
    let before = order.iter().take_while(|&&at| i64::from(at) != dim);
    if !before.clone().all(|&at| out.sizes().get(usize::from(at)) == Some(&1)) {
        return Err(invalid("tensors that follow each other in memory"));
    }
    let mut rest = out.bytes_mut()?;
    for item in 0..tensors.len() {
        let bytes = tensors.get(item)?.bytes();
        let (part, after) =
            rest.split_at_mut_checked(bytes.len()).ok_or(invalid("the bytes of the output"))?;
        copy(part, bytes);
        rest = after;
    }
    if rest.is_empty() { Ok(()) } else { Err(invalid("the bytes of the output")) }
}

/// Copies elements to a tensor of other sizes. Dimensions of one element may be anywhere in memory.
fn view_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let invalid = |expected| Error::InvalidArgument { index: 0, expected };
    let tensor = args.tensor(0)?;
    let long = |&&at: &&u8| tensor.sizes().get(usize::from(at)).is_some_and(|&size| size > 1);
    let is_row_major = tensor.dim_order().iter().filter(long).is_sorted();
    let bytes = tensor.bytes();
    let mut out = args.out(2)?;
    let to = out.bytes_mut()?;
    if !is_row_major || to.len() != bytes.len() {
        return Err(invalid("a row-major tensor with the bytes of the output"));
    }
    copy(to, bytes);
    Ok(())
}

fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor, find_kernel};

    use super::*;

    /// Tensor of small numbers with channels last in memory.
    fn image(sizes: &[usize], first: i8) -> Tensor {
        let mut tensor = Tensor::zeros(ScalarType::Char, sizes);
        tensor.set_dim_order(&[0, 2, 3, 1]).unwrap();
        for (value, number) in tensor.data_mut::<i8>().unwrap().iter_mut().zip(first..) {
            *value = number;
        }
        tensor
    }

    /// Runs a kernel of this file, and the general one if it succeeds; returns the elements.
    fn run(
        at: usize,
        inputs: impl Fn() -> Vec<Argument<'static>>,
        mut out: Tensor,
    ) -> Result<Vec<i8>, Error> {
        let mut run = |kernel: &Kernel| {
            let mut arguments = inputs();
            arguments.push(Argument::Out(&mut out));
            Call::new(kernel).run(&mut arguments)?;
            drop(arguments);
            out.data::<i8>().map(<[i8]>::to_vec)
        };
        let found = run(&KERNELS[at])?;
        let general = find_kernel(afferent_kernels::KERNELS, KERNELS[at].name, "").unwrap();
        assert_eq!(run(general).as_ref(), Ok(&found));
        Ok(found)
    }

    fn leak(tensor: Tensor) -> &'static Tensor {
        Box::leak(Box::new(tensor))
    }

    #[test]
    fn results_are_those_of_the_general_kernels() {
        let (a, b) = (leak(image(&[1, 3, 1, 2], 1)), leak(image(&[1, 3, 1, 1], 50)));
        let list = |dim: i64| {
            move || {
                let tensors = Argument::Tensors(vec![Some(a), Some(b)]);
                vec![tensors, Argument::Scalar(Scalar::Int(dim))]
            }
        };
        let found = run(0, list(3), image(&[1, 3, 1, 3], 0));
        assert_eq!(found, Ok(vec![1, 2, 3, 4, 5, 6, 50, 51, 52]));
        assert!(run(0, list(1), image(&[1, 6, 1, 2], 0)).is_err(), "channels");
        assert!(run(0, list(3), image(&[1, 3, 1, 4], 0)).is_err(), "a larger output");
        let view = |tensor: &'static Tensor, sizes: [i64; 2]| {
            move || vec![Argument::Tensor(tensor), Argument::Ints(sizes.to_vec())]
        };
        let row = || Tensor::zeros(ScalarType::Char, &[1, 3]);
        assert_eq!(run(1, view(b, [1, 3]), row()), Ok(vec![50, 51, 52]));
        assert!(run(1, view(a, [1, 6]), row()).is_err(), "elements in another order");
    }
}

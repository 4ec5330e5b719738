//! Calls with one huge integer among typical arguments.

use afferent_core::{Arg, Argument, Error, Scalar, ScalarType, Tensor};

use super::{OwnedArgument, find, run_owned};

/// Sizes of all tensors of a call. An output that is empty needs no memory for its other sizes.
const SHAPES: &[&[usize]] =
    &[&[], &[4], &[0], &[2, 3], &[0, 2], &[2, 0], &[2, 1, 2, 2], &[0, 1, 2, 2]];

const HUGE: [i64; 4] = [1 << 40, 1 << 60, i64::MAX, i64::MIN];

/// Arguments of a call other than the huge integer.
#[derive(Clone, Copy)]
struct Typical {
    dtype: ScalarType,
    sizes: &'static [usize],
    number: i64,
    /// Length of integer lists.
    list_len: usize,
}

/// Calls the operator `name` with a huge integer in place of each integer or list of integers.
/// Returns the results.
///
/// # Panics
/// If there is no such operator.
pub fn call_with_huge_integers(name: &str) -> Vec<Result<(), Error>> {
    let kernel = find(name);
    let is_integer = |arg: &Arg| {
        matches!(arg, Arg::Int | Arg::OptInt | Arg::Scalar | Arg::IntList | Arg::OptIntList)
    };
    let calls = kernel.args.iter().enumerate().filter(|(_, arg)| is_integer(arg)).flat_map(
        |(position, _)| {
            Typical::all().flat_map(move |typical| HUGE.map(|huge| (position, typical, huge)))
        },
    );
    let results = calls.map(|(position, typical, huge)| {
        let args = kernel.args.iter().enumerate();
        let owned = args.map(|(at, &arg)| typical.argument(arg, (at == position).then_some(huge)));
        run_owned(kernel, owned.collect())
    });
    results.collect()
}

impl Typical {
    fn all() -> impl Iterator<Item = Self> {
        let numbers = [(ScalarType::Float, 1), (ScalarType::Float, 0), (ScalarType::Long, 1)];
        SHAPES.iter().flat_map(move |&sizes| {
            numbers.into_iter().flat_map(move |(dtype, number)| {
                [1, 2, sizes.len()].map(|list_len| Self { dtype, sizes, number, list_len })
            })
        })
    }

    /// Argument for `arg`; `huge` replaces its integers.
    fn argument(self, arg: Arg, huge: Option<i64>) -> OwnedArgument {
        let number = huge.unwrap_or(self.number);
        let zeros = |dtype| Tensor::zeros(dtype, self.sizes);
        OwnedArgument::Value(match arg {
            Arg::Tensor => return OwnedArgument::Tensor(zeros(self.dtype)),
            Arg::TensorList | Arg::OptTensorList => {
                return OwnedArgument::Tensors(vec![Some(zeros(self.dtype)); 2]);
            }
            Arg::Out | Arg::InOut | Arg::View => return OwnedArgument::Out(zeros(self.dtype)),
            Arg::OutList => return OwnedArgument::Outs(vec![zeros(self.dtype); 2]),
            Arg::OutScalar => return OwnedArgument::OutScalar(Scalar::Int(0)),
            Arg::IntList => Argument::Ints(vec![number; self.list_len]),
            Arg::OptIntList if huge.is_some() => Argument::Ints(vec![number; self.list_len]),
            Arg::OptInt if huge.is_some() => Argument::Scalar(Scalar::Int(number)),
            Arg::Int | Arg::Scalar | Arg::Double => Argument::Scalar(Scalar::Int(number)),
            Arg::Bool => Argument::Scalar(Scalar::Bool(self.number != 0)),
            Arg::BoolList => Argument::Bools(vec![self.number != 0; self.list_len]),
            Arg::Str => Argument::Str("mean"),
            _ => Argument::None,
        })
    }
}

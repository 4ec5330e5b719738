//! Calls an operator with arguments that are derived from bytes, valid and invalid ones.

mod huge;

use afferent_core::{Arg, Argument, Call, Error, Kernel, Scalar, ScalarType, Tensor, numel};

pub use self::huge::call_with_huge_integers;

/// Memory limit of a call, in bytes.
const MEMORY_LIMIT: usize = 4 << 20;

/// Maximum elements of a generated tensor.
const MAX_ELEMENTS: usize = 1024;

/// Sizes of dimensions, typical ones first.
const SIZES: &[usize] = &[2, 3, 1, 4, 5, 8, 0, 7, 17, 64, 256, 1 << 31, 1 << 62, usize::MAX];

/// Integers, typical ones first.
const INTS: &[i64] = &[
    1,
    0,
    2,
    -1,
    3,
    -2,
    4,
    5,
    -3,
    7,
    17,
    -17,
    100,
    1 << 31,
    -(1 << 31),
    1 << 40,
    1 << 62,
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
];

/// Floating-point numbers, typical ones first.
const DOUBLES: &[f64] = &[
    1.0,
    0.5,
    0.0,
    -1.0,
    2.0,
    -0.0,
    1e-5,
    3.7,
    -2.5,
    1e300,
    -1e300,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MIN_POSITIVE,
    5e-324,
    1e19,
];

/// Dtypes, typical ones first.
const DTYPES: &[ScalarType] = &[
    ScalarType::Float,
    ScalarType::Long,
    ScalarType::Bool,
    ScalarType::Int,
    ScalarType::Byte,
    ScalarType::Half,
    ScalarType::Double,
    ScalarType::BFloat16,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::ComplexDouble,
];

/// Strings that operators accept, and one that they do not.
const STRINGS: &[&str] = &["none", "tanh", "trunc", "floor", "mean", "sum", "amax", "prod", "?"];

/// Choices, one byte each; 0 after the last byte.
struct Choices<'b>(&'b [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first.into()
    }

    fn below(&mut self, limit: usize) -> usize {
        let high = if limit > 256 { self.byte() << 8 } else { 0 };
        (high + self.byte()) % limit.max(1)
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// Argument that owns its tensors.
enum OwnedArgument {
    Value(Argument<'static>),
    Tensor(Tensor),
    Tensors(Vec<Option<Tensor>>),
    Out(Tensor),
    Outs(Vec<Tensor>),
    OutScalar(Scalar),
}

/// Calls an operator that `bytes` select, with arguments that they determine.
///
/// # Errors
/// Errors of the operator.
pub fn call(bytes: &[u8]) -> Result<(), Error> {
    let mut choices = Choices(bytes);
    let key = (0..4).fold(0, |key, _| key << 8 | choices.byte() as u32);
    // Selection by name: the same bytes select the same operator after others are added.
    let kernel = kernels().min_by_key(|kernel| hash(kernel.name) ^ key);
    run(kernel.expect("there are operators"), &mut choices)
}

/// As [`call`], for the operator `name`.
///
/// # Errors
/// As [`call`].
///
/// # Panics
/// If there is no such operator.
pub fn call_named(name: &str, bytes: &[u8]) -> Result<(), Error> {
    run(find(name), &mut Choices(bytes))
}

/// Finds the operator `name`.
fn find(name: &str) -> &'static Kernel {
    kernels().find(|kernel| kernel.name == name).expect("the operator exists")
}

/// Names of all operators.
pub fn names() -> impl Iterator<Item = &'static str> {
    kernels().map(|kernel| kernel.name)
}

fn kernels() -> impl Iterator<Item = &'static Kernel> {
    afferent_kernels::KERNELS.iter().copied().flatten().copied().flatten()
}

/// FNV-1a hash of a name.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn run(kernel: &Kernel, choices: &mut Choices<'_>) -> Result<(), Error> {
    let dtype = choices.of(DTYPES);
    let mut base: Vec<usize> = (0..choices.below(6)).map(|_| choices.of(SIZES)).collect();
    shrink(&mut base);
    let args = kernel.args.iter().map(|&arg| argument(arg, dtype, &base, choices));
    run_owned(kernel, args.collect())
}

fn run_owned(kernel: &Kernel, mut owned: Vec<OwnedArgument>) -> Result<(), Error> {
    let mut arguments: Vec<Argument<'_>> =
        owned.iter_mut().map(OwnedArgument::as_argument).collect();
    let result = Call::with_memory_limit(kernel, MEMORY_LIMIT).run(&mut arguments);
    if let Err(error) = result {
        assert!(!matches!(error, Error::Internal { .. }), "{}: {error}", kernel.name);
    }
    result
}

impl OwnedArgument {
    fn as_argument(&mut self) -> Argument<'_> {
        match self {
            Self::Value(value) => std::mem::replace(value, Argument::None),
            Self::Tensor(tensor) => Argument::Tensor(tensor),
            Self::Tensors(list) => Argument::Tensors(list.iter().map(Option::as_ref).collect()),
            Self::Out(tensor) => Argument::Out(tensor),
            Self::Outs(list) => Argument::Outs(list.iter_mut().collect()),
            Self::OutScalar(scalar) => Argument::OutScalar(scalar),
        }
    }
}

fn argument(
    arg: Arg,
    dtype: ScalarType,
    base: &[usize],
    choices: &mut Choices<'_>,
) -> OwnedArgument {
    if is_optional(arg) && choices.below(3) == 0 {
        return OwnedArgument::Value(Argument::None);
    }
    match arg {
        Arg::Tensor | Arg::OptTensor => OwnedArgument::Tensor(tensor(dtype, base, choices)),
        Arg::TensorList | Arg::OptTensorList => {
            let may_be_none = arg == Arg::OptTensorList;
            let mut item =
                |_| (!may_be_none || choices.below(3) > 0).then(|| tensor(dtype, base, choices));
            OwnedArgument::Tensors((0..3).map(&mut item).collect())
        }
        Arg::Out | Arg::InOut | Arg::View => OwnedArgument::Out(tensor(dtype, base, choices)),
        Arg::OutList => OwnedArgument::Outs((0..3).map(|_| tensor(dtype, base, choices)).collect()),
        Arg::OutScalar => OwnedArgument::OutScalar(Scalar::Int(0)),
        Arg::Str | Arg::OptStr => OwnedArgument::Value(Argument::Str(choices.of(STRINGS))),
        Arg::IntList | Arg::OptIntList => OwnedArgument::Value(Argument::Ints(ints(base, choices))),
        Arg::OptDoubleList => {
            let len = choices.below(4);
            OwnedArgument::Value(Argument::Doubles((0..len).map(|_| choices.of(DOUBLES)).collect()))
        }
        Arg::BoolList => {
            let len = choices.below(4);
            OwnedArgument::Value(Argument::Bools((0..len).map(|_| choices.below(2) == 0).collect()))
        }
        Arg::OptDtype => {
            let code = if choices.below(2) == 0 { dtype as i64 } else { choices.of(INTS) };
            OwnedArgument::Value(Argument::Scalar(Scalar::Int(code)))
        }
        Arg::Scalar
        | Arg::OptScalar
        | Arg::Int
        | Arg::OptInt
        | Arg::Double
        | Arg::OptDouble
        | Arg::Bool
        | Arg::OptBool
        | Arg::Ignored => {
            let scalar = match (arg, choices.below(4)) {
                (Arg::Double | Arg::OptDouble, _) | (_, 3) => Scalar::Double(choices.of(DOUBLES)),
                (Arg::Bool | Arg::OptBool, _) | (_, 2) => Scalar::Bool(choices.below(2) == 0),
                _ => Scalar::Int(choices.of(INTS)),
            };
            OwnedArgument::Value(Argument::Scalar(scalar))
        }
    }
}

fn is_optional(arg: Arg) -> bool {
    matches!(
        arg,
        Arg::OptTensor
            | Arg::OptScalar
            | Arg::OptInt
            | Arg::OptDouble
            | Arg::OptBool
            | Arg::OptStr
            | Arg::OptIntList
            | Arg::OptDoubleList
            | Arg::OptDtype
            | Arg::Ignored
    )
}

/// List of integers, often one per dimension.
fn ints(base: &[usize], choices: &mut Choices<'_>) -> Vec<i64> {
    let len = match choices.below(5) {
        0 => base.len(),
        1 => base.len() * 2,
        2 => 2,
        3 => 1,
        _ => choices.below(18),
    };
    if choices.below(4) == 0 {
        return base.iter().cycle().take(len).map(|&size| size as i64).collect();
    }
    (0..len).map(|_| choices.of(INTS)).collect()
}

/// Tensor with the base sizes of the call, or with a variation of them.
fn tensor(dtype: ScalarType, base: &[usize], choices: &mut Choices<'_>) -> Tensor {
    let mut sizes = base.to_vec();
    match choices.below(12) {
        1 => sizes.reverse(),
        2 => drop(sizes.pop()),
        3 => sizes.insert(0, choices.of(SIZES)),
        4 if !sizes.is_empty() => {
            let at = choices.below(sizes.len());
            sizes[at] = choices.of(SIZES);
        }
        5 => sizes = vec![choices.of(SIZES)],
        6 => sizes = base.last().copied().into_iter().collect(),
        7 => sizes = (0..choices.below(5)).map(|_| choices.of(SIZES)).collect(),
        _ => {}
    }
    shrink(&mut sizes);
    let dtype = if choices.below(6) == 1 { choices.of(DTYPES) } else { dtype };
    let mut order: Vec<u8> = (0..sizes.len() as u8).collect();
    if choices.below(6) == 1 && !order.is_empty() {
        let (a, b) = (choices.below(order.len()), choices.below(order.len()));
        order.swap(a, b);
    }
    let len = numel(&sizes).unwrap_or(0) * dtype.size();
    let fill = [choices.byte() as u8, choices.byte() as u8, choices.byte() as u8];
    let bytes: Vec<u8> = match choices.below(4) {
        0 => vec![0; len],
        // Small numbers in any dtype.
        1 => (0..len).map(|at| u8::from(at % dtype.size() == 0) * fill[at % 3]).collect(),
        2 => vec![fill[0]; len],
        _ => (0..len).map(|at| fill[at % 3].wrapping_add((at / 3) as u8)).collect(),
    };
    Tensor::from_bytes(dtype, &sizes, &order, &bytes).expect("the parts describe a tensor")
}

/// Reduces the sizes to at most [`MAX_ELEMENTS`] elements. An empty tensor keeps its sizes.
fn shrink(sizes: &mut Vec<usize>) {
    sizes.truncate(16);
    while numel(sizes).is_none_or(|numel| numel > MAX_ELEMENTS) {
        let largest = sizes.iter_mut().max();
        largest.into_iter().for_each(|size| *size = (*size / 2).min(MAX_ELEMENTS));
    }
}

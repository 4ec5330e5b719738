//! Operators that compute each element of the result from one element of each input.
//!
//! An operator describes its inputs with [`Pointwise`] and its arithmetic with `numbers!` or
//! `floats!`. Inputs broadcast, have any dim order and any mix of dtypes. Elements are computed in
//! one of three number types: `i64` for `bool` and the integers, `f32` for it and the half types,
//! `f64`. Blocks of elements are converted on the way in and out; where the tensors hold the
//! number type already, the arithmetic runs on their memory. So the arithmetic is compiled three
//! times an operator and the conversions once for all.

#[cfg(test)]
pub(crate) mod check;
mod convert;
mod walk;

use afferent_core::{
    Args, Dims, Error, Scalar, ScalarType, TensorMut, TensorView, broadcast_shapes,
};

use crate::{
    dtype::{Number, promote, with_dtype},
    pointwise::{
        convert::{BLOCK, Compute, Source, Target},
        walk::Walk,
    },
};

/// What an operator reads.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    /// A tensor or a part of one.
    Tensor(Strided<'a>),
    /// A number.
    Scalar(Scalar),
}

/// A tensor or a part of one.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    dtype: ScalarType,
    bytes: &'a [u8],
    sizes: Dims,
    strides: Dims,
    start: usize,
}

impl<'a> Strided<'a> {
    /// The indices `start..start + len` along `dim`, if there are so many.
    pub(crate) fn narrow(mut self, dim: usize, start: usize, len: usize) -> Option<Self> {
        let size = *self.sizes.get(dim)?;
        if start.checked_add(len)? > size {
            return None;
        }
        self.sizes[dim] = len;
        self.start += start.checked_mul(self.strides[dim])?;
        Some(self)
    }
}

impl<'a> From<TensorView<'a>> for Strided<'a> {
    fn from(view: TensorView<'a>) -> Self {
        let sizes = Dims::new(view.sizes()).unwrap_or(Dims::filled(0, 0));
        let (dtype, bytes) = (view.dtype(), view.bytes());
        Self { dtype, bytes, sizes, strides: view.strides(), start: 0 }
    }
}

impl<'a> From<TensorView<'a>> for Input<'a> {
    fn from(view: TensorView<'a>) -> Self {
        Self::Tensor(view.into())
    }
}

impl From<Scalar> for Input<'_> {
    fn from(scalar: Scalar) -> Self {
        Self::Scalar(scalar)
    }
}

impl<'a> Input<'a> {
    /// The tensor or the number at `index`.
    pub(crate) fn at(args: &Args<'a>, index: usize) -> Result<Self, Error> {
        match args.scalar(index) {
            Ok(scalar) => Ok(Self::Scalar(scalar)),
            Err(_) => args.tensor(index).map(Self::from),
        }
    }

    /// The tensor or the number at `index`, unless it is none.
    pub(crate) fn opt(args: &Args<'a>, index: usize) -> Result<Option<Self>, Error> {
        match args.opt_scalar(index) {
            Ok(scalar) => Ok(scalar.map(Self::Scalar)),
            Err(_) => Ok(args.opt_tensor(index)?.map(Self::from)),
        }
    }

    /// The dtype; of a number the one that PyTorch gives it.
    pub(crate) fn dtype(&self) -> ScalarType {
        match self {
            Self::Tensor(tensor) => tensor.dtype,
            Self::Scalar(Scalar::Int(_)) => ScalarType::Long,
            Self::Scalar(Scalar::Double(_)) => ScalarType::Float,
            Self::Scalar(Scalar::Bool(_)) => ScalarType::Bool,
        }
    }

    fn sizes(&self) -> &[usize] {
        match self {
            Self::Tensor(tensor) => &tensor.sizes,
            Self::Scalar(_) => &[],
        }
    }

    /// 0 for a tensor with dimensions, 1 for one without, 2 for a number.
    fn category(&self) -> usize {
        match self {
            Self::Tensor(tensor) if tensor.sizes.is_empty() => 1,
            Self::Tensor(_) => 0,
            Self::Scalar(_) => 2,
        }
    }
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

/// The arithmetic of an operator for each number type, over blocks of elements; made by
/// `numbers!` and `floats!`.
pub(crate) struct Function<I, F, D> {
    /// For `bool` and integers.
    pub(crate) int: I,
    /// For `f32` and the half types.
    pub(crate) float: F,
    /// For `f64`.
    pub(crate) double: D,
}

/// Arithmetic for every dtype: a closure from an array with one `i64` of each input to `i64`, and
/// one that is compiled for `f32` and `f64`, with `$F` standing for the type.
macro_rules! numbers {
    ($int:expr, $F:ident => $float:expr) => {
        $crate::pointwise::Function {
            int: $crate::pointwise::each::<i64, _, _>($int),
            float: {
                #[allow(dead_code, reason = "not every closure names its type")]
                type $F = f32;
                $crate::pointwise::each::<f32, _, _>($float)
            },
            double: {
                #[allow(dead_code, reason = "not every closure names its type")]
                type $F = f64;
                $crate::pointwise::each::<f64, _, _>($float)
            },
        }
    };
}

/// Arithmetic for floating-point dtypes only, as in `numbers!`.
macro_rules! floats {
    ($F:ident => $float:expr) => {
        $crate::pointwise::numbers!(|x| x[0], $F => $float)
    };
}

/// Arithmetic for `bool` and integers only, as in `numbers!`.
macro_rules! integers {
    ($int:expr) => {
        $crate::pointwise::numbers!($int, F => |x| x[0])
    };
}

pub(crate) use {floats, integers, numbers};

/// `f` over blocks of elements.
pub(crate) fn each<C, const K: usize, F>(f: F) -> impl Fn([&[C]; K], &mut [C])
where
    C: Copy,
    F: Fn([C; K]) -> C,
{
    move |inputs, out| {
        let inputs = inputs.map(|input| &input[..out.len()]);
        for (i, y) in out.iter_mut().enumerate() {
            *y = f(inputs.map(|input| input[i]));
        }
    }
}

/// The number at `index` as an integer.
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
pub(crate) fn check_range(scalar: Scalar, dtype: ScalarType, index: u8) -> Result<(), Error> {
    if !dtype.is_integer() {
        return Ok(());
    }
    let value = scalar.to_i64();
    let held = with_dtype!(int, dtype, index, T => Ok(T::from_i64(value).to_i64()))?;
    if held == value {
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
    let value = Input::at(args, usize::from(index))?;
    match value {
        Input::Scalar(scalar) => check_range(scalar, dtype, index)?,
        Input::Tensor(tensor) if tensor.sizes.is_empty() => {}
        Input::Tensor(_) => {
            let expected = "a tensor without dimensions";
            return Err(Error::InvalidArgument { index, expected });
        }
    }
    Ok(value)
}

/// One call of an operator: what it reads and the dtypes that it computes in and gives.
pub(crate) struct Pointwise<'a, const K: usize> {
    inputs: [Input<'a>; K],
    compute: ScalarType,
    result: ScalarType,
    /// Whether numbers and tensors without dimensions keep their precision beside half types.
    wide_scalars: bool,
}

impl<'a, const K: usize> Pointwise<'a, K> {
    /// Computes in the common dtype of `inputs`.
    pub(crate) fn new(inputs: [Input<'a>; K]) -> Result<Self, Error> {
        let dtype = result_type(&inputs)?;
        Ok(Self::in_dtype(inputs, dtype))
    }

    /// Computes in `dtype`, to which every input is converted.
    pub(crate) fn in_dtype(inputs: [Input<'a>; K], dtype: ScalarType) -> Self {
        Self { inputs, compute: dtype, result: dtype, wide_scalars: false }
    }

    /// Computes in floating point; `bool` and integers as `f32`.
    pub(crate) fn in_float(self) -> Self {
        let compute = if self.compute.is_float() { self.compute } else { ScalarType::Float };
        Self { compute, result: compute, ..self }
    }

    /// Gives truth values, for which the arithmetic returns zero or another number.
    pub(crate) fn to_bool(self) -> Self {
        Self { result: ScalarType::Bool, ..self }
    }

    /// Does not round numbers and tensors without dimensions to a half type, as PyTorch for the
    /// four basic operations.
    pub(crate) fn with_wide_scalars(self) -> Self {
        Self { wide_scalars: true, ..self }
    }

    /// The dtype that elements are computed in.
    pub(crate) fn dtype(&self) -> ScalarType {
        self.compute
    }

    /// Refuses to compute in floating point.
    pub(crate) fn not_float(self) -> Result<Self, Error> {
        self.refuse(ScalarType::is_float)
    }

    /// Refuses to compute in `bool`.
    pub(crate) fn not_bool(self) -> Result<Self, Error> {
        self.refuse(|dtype| dtype == ScalarType::Bool)
    }

    /// Refuses to compute in anything but floating point.
    pub(crate) fn only_float(self) -> Result<Self, Error> {
        self.refuse(|dtype| !dtype.is_float())
    }

    /// Refuses to compute in some dtypes, on behalf of the first input that has one of them.
    fn refuse(self, refused: impl Fn(ScalarType) -> bool) -> Result<Self, Error> {
        if !refused(self.compute) {
            return Ok(self);
        }
        let mut inputs = (0_u8..).zip(&self.inputs);
        let found = inputs.find(|(_, input)| refused(input.dtype()));
        let (index, found) = found.map_or((0, self.compute), |(i, input)| (i, input.dtype()));
        Err(Error::InvalidType { index, found })
    }

    /// Computes the output at `index` of `args`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the shapes do not broadcast, [`Error::InvalidType`] when
    /// the output cannot hold the result or a dtype is not a number, those of
    /// [`TensorMut::resize`].
    pub(crate) fn run<I, F, D>(
        &self,
        args: &mut Args<'_>,
        index: usize,
        function: Function<I, F, D>,
    ) -> Result<(), Error>
    where
        I: Fn([&[i64]; K], &mut [i64]),
        F: Fn([&[f32]; K], &mut [f32]),
        D: Fn([&[f64]; K], &mut [f64]),
    {
        let mut out = args.out(index)?;
        self.prepare(&mut out, index)?;
        match self.compute {
            ScalarType::Double => self.compute::<f64>(&mut out, index, &function.double),
            dtype if dtype.is_float() => self.compute::<f32>(&mut out, index, &function.float),
            _ => self.compute::<i64>(&mut out, index, &function.int),
        }
    }

    /// Sizes the output and checks dtypes.
    fn prepare(&self, out: &mut TensorMut<'_, '_>, index: usize) -> Result<(), Error> {
        use ScalarType as S;
        let index = u8::try_from(index).unwrap_or(u8::MAX);
        let number = |dtype: S| dtype.is_float() || dtype.is_integer() || dtype == S::Bool;
        // Elements are computed in `i64`, which cannot hold every `u64`.
        if !number(self.compute) || self.compute == S::UInt64 {
            return Err(Error::InvalidType { index: 0, found: self.compute });
        }
        let fits = match out.dtype() {
            to if to.is_float() => true,
            S::Bool => self.result == S::Bool,
            to => number(to) && !self.result.is_float(),
        };
        if !fits {
            return Err(Error::InvalidType { index, found: out.dtype() });
        }
        let mut sizes = Dims::filled(0, 0);
        for (at, input) in (0_u8..).zip(&self.inputs) {
            let expected = "a tensor that broadcasts with the others";
            sizes = broadcast_shapes(&sizes, input.sizes())
                .ok_or(Error::InvalidArgument { index: at, expected })?;
        }
        out.resize(&sizes)
    }

    fn compute<C: Compute>(
        &self,
        out: &mut TensorMut<'_, '_>,
        index: usize,
        function: &dyn Fn([&[C]; K], &mut [C]),
    ) -> Result<(), Error> {
        if out.numel() == 0 {
            return Ok(());
        }
        let walk = Walk::new(
            out.sizes(),
            out.dim_order(),
            self.inputs.each_ref().map(|input| match input {
                Input::Tensor(tensor) => (&*tensor.sizes, &*tensor.strides, tensor.start),
                Input::Scalar(_) => (&[][..], &[][..], 0),
            }),
        );
        let mut sources = [Source::<C>::nothing(); K];
        for (at, (source, input)) in sources.iter_mut().zip(&self.inputs).enumerate() {
            let keeps = self.wide_scalars && self.compute.is_float() && input.sizes().is_empty();
            let dtype = if keeps { C::DTYPE } else { self.compute };
            *source = match input {
                Input::Tensor(tensor) => Source::tensor(tensor.dtype, tensor.bytes, dtype, at)?,
                Input::Scalar(scalar) => Source::constant(*scalar, dtype, at)?,
            };
        }
        let mut target = Target::<C>::new(out, index)?;
        evaluate(&walk, &mut sources, &mut target, function);
        Ok(())
    }
}

/// Calls `function` for every block of elements.
fn evaluate<C: Compute, const K: usize>(
    walk: &Walk<K>,
    sources: &mut [Source<'_, C>; K],
    target: &mut Target<'_, C>,
    function: &dyn Fn([&[C]; K], &mut [C]),
) {
    let run = walk.run_len();
    let strides = walk.run_strides();
    let direct = target.is_direct()
        && sources.iter().zip(strides).all(|(source, stride)| source.is_direct(stride));
    let step = if direct { run } else { BLOCK.min(run) };
    let mut buffers = [[C::default(); BLOCK]; K];
    let mut result = [C::default(); BLOCK];
    walk.for_each_run(|out_at, at| {
        for done in (0..run).step_by(step) {
            let len = step.min(run - done);
            let mut blocks: [&[C]; K] = [&[]; K];
            let parts = sources.iter_mut().zip(&mut buffers).zip(&mut blocks);
            for (((source, buffer), block), (at, stride)) in parts.zip(at.into_iter().zip(strides))
            {
                *block = source.block(at + done * stride, stride, done == 0, len, buffer);
            }
            target.write(out_at + done, len, &mut result, |out| function(blocks, out));
        }
    });
}

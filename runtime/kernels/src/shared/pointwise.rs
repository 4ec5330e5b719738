//! Operators that compute each element of the result from one element of each input.
//!
//! An operator describes its inputs with [`Pointwise`] and its arithmetic with `numbers!` or
//! `floats!`. Inputs broadcast, have any dim order and any mix of dtypes. Elements are computed in
//! one of three number types: `i64` for `bool` and the integers, `f32` for it and the half types,
//! `f64`. Blocks of elements are converted on the way in and out; where the tensors hold the
//! number type already, the arithmetic runs on their memory. So the arithmetic is compiled three
//! times an operator and the conversions once for all.

mod input;
mod iterator;
mod load_store;
#[cfg(test)]
pub(crate) mod testing;

use afferent_core::{Args, Dims, Error, ScalarType, TensorMut, broadcast_shapes, same};
use afferent_simd::math;

use crate::shared::{
    pointwise::{
        iterator::Walk,
        load_store::{BLOCK, Compute, Source, Target},
    },
    simd::isa,
};

pub(crate) use crate::shared::pointwise::input::{
    DimRange, Input, check_range, fill_value, integer, result_type,
};

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
        $crate::shared::pointwise::Function {
            int: $crate::shared::pointwise::each::<i64, _, _>($int),
            float: {
                #[allow(dead_code, reason = "not every closure names its type")]
                type $F = f32;
                $crate::shared::pointwise::each::<f32, _, _>($float)
            },
            double: {
                #[allow(dead_code, reason = "not every closure names its type")]
                type $F = f64;
                $crate::shared::pointwise::each::<f64, _, _>($float)
            },
        }
    };
}

/// Arithmetic for floating-point dtypes only, as in `numbers!`.
macro_rules! floats {
    ($F:ident => $float:expr) => {
        $crate::shared::pointwise::numbers!(|x| x[0], $F => $float)
    };
}

/// Arithmetic for `bool` and integers only, as in `numbers!`.
macro_rules! integers {
    ($int:expr) => {
        $crate::shared::pointwise::numbers!($int, F => |x| x[0])
    };
}

pub(crate) use {floats, integers, numbers};

/// Computes a block of elements from one of each input.
type BlockFn<'f, C, const K: usize> = dyn Fn([&[C]; K], &mut [C]) + 'f;

/// `f` over blocks of elements.
pub(crate) fn each<C, const K: usize, F>(f: F) -> impl Fn([&[C]; K], &mut [C])
where
    C: Copy,
    F: Fn([C; K]) -> C,
{
    move |inputs, out| {
        let inputs = cut(inputs, out.len());
        for (i, y) in out.iter_mut().enumerate() {
            *y = f(pick(&inputs, i));
        }
    }
}

/// The first `len` elements of each input.
fn cut<C, const K: usize>(mut inputs: [&[C]; K], len: usize) -> [&[C]; K] {
    for input in &mut inputs {
        *input = &input[..len];
    }
    inputs
}

/// The element at `i` of each input.
///
/// A function of its own, and not `inputs.map`, which would be compiled again for each operator.
#[inline(always)]
fn pick<C: Copy, const K: usize>(inputs: &[&[C]; K], i: usize) -> [C; K] {
    core::array::from_fn(|k| inputs[k][i])
}

/// One call of an operator: what it reads and the dtypes that it computes in and gives.
pub(crate) struct Pointwise<'a, const K: usize> {
    inputs: [Input<'a>; K],
    /// Which arguments of the call the inputs are.
    places: [u8; K],
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
        let places = core::array::from_fn(|at| at as u8);
        Self { inputs, places, compute: dtype, result: dtype, wide_scalars: false }
    }

    /// The same with inputs that are the arguments `places`, and not the first ones.
    pub(crate) fn at_args(self, places: [u8; K]) -> Self {
        Self { places, ..self }
    }

    /// Computes in floating point; `bool` and integers as `f32`.
    pub(crate) fn promoting_ints_to_float(self) -> Self {
        let compute = if self.compute.is_float() { self.compute } else { ScalarType::Float };
        Self { compute, result: compute, ..self }
    }

    /// Gives truth values, for which the arithmetic returns zero or another number.
    pub(crate) fn with_bool_result(self) -> Self {
        Self { result: ScalarType::Bool, ..self }
    }

    /// Does not round numbers and tensors without dimensions to a half type, as PyTorch for the
    /// four basic operations.
    pub(crate) fn with_unrounded_scalars(self) -> Self {
        Self { wide_scalars: true, ..self }
    }

    /// The dtype that elements are computed in.
    pub(crate) fn dtype(&self) -> ScalarType {
        self.compute
    }

    /// Refuses to compute in floating point.
    pub(crate) fn reject_float(self) -> Result<Self, Error> {
        self.refuse(ScalarType::is_float)
    }

    /// Refuses to compute in `bool`.
    pub(crate) fn reject_bool(self) -> Result<Self, Error> {
        self.refuse(|dtype| dtype == ScalarType::Bool)
    }

    /// Refuses to compute in anything but floating point.
    pub(crate) fn require_float(self) -> Result<Self, Error> {
        self.refuse(|dtype| !dtype.is_float())
    }

    /// Refuses to compute in some dtypes, on behalf of the first input that has one of them.
    fn refuse(self, refused: fn(ScalarType) -> bool) -> Result<Self, Error> {
        self.check_dtype(refused).map(|()| self)
    }

    fn check_dtype(&self, refused: fn(ScalarType) -> bool) -> Result<(), Error> {
        if !refused(self.compute) {
            return Ok(());
        }
        let mut inputs = self.places.iter().zip(self.inputs.iter().map(Input::dtype));
        let found = inputs.find(|&(_, dtype)| refused(dtype));
        let (&index, found) = found.unwrap_or((&0, self.compute));
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
        match self.compute {
            ScalarType::Double => self.compute::<f64>(&mut out, index, &function.double),
            dtype if dtype.is_float() => self.compute::<f32>(&mut out, index, &function.float),
            _ => self.compute::<i64>(&mut out, index, &function.int),
        }
    }

    /// The elements of the inputs, if all are tensors of the number type and layout of `out`.
    fn alike<C: Compute>(&self, out: &TensorMut<'_, '_>) -> Option<(&'a [usize], [&'a [C]; K])> {
        if self.compute != C::DTYPE || out.dtype() != C::DTYPE {
            return None;
        }
        let Some(Input::Tensor(first)) = self.inputs.first() else { return None };
        let sizes = first.sizes();
        let mut data: [&[C]; K] = [&[]; K];
        for (data, input) in data.iter_mut().zip(&self.inputs) {
            let Input::Tensor(view) = input else { return None };
            if !same(view.sizes(), sizes) || !same(view.dim_order(), out.dim_order()) {
                return None;
            }
            *data = view.data().ok()?;
        }
        Some((sizes, data))
    }

    /// Sizes the output and checks dtypes.
    fn prepare(&self, out: &mut TensorMut<'_, '_>, index: usize) -> Result<(), Error> {
        use ScalarType as S;
        let index = u8::try_from(index).unwrap_or(u8::MAX);
        // Elements are computed in `i64`, which cannot hold every `u64`.
        self.check_dtype(|dtype| !is_number(dtype) || dtype == S::UInt64)?;
        let fits = match out.dtype() {
            to if to.is_float() => true,
            S::Bool => self.result == S::Bool,
            to => is_number(to) && !self.result.is_float(),
        };
        if !fits {
            return Err(Error::InvalidType { index, found: out.dtype() });
        }
        let mut sizes = Dims::filled(0, 0);
        for (&index, input) in self.places.iter().zip(&self.inputs) {
            let expected = "a tensor that broadcasts with the others";
            sizes = broadcast_shapes(&sizes, &input.sizes())
                .ok_or(Error::InvalidArgument { index, expected })?;
        }
        out.resize(&sizes)
    }

    fn compute<C: Compute>(
        &self,
        out: &mut TensorMut<'_, '_>,
        index: usize,
        function: &BlockFn<'_, C, K>,
    ) -> Result<(), Error> {
        if let Some((sizes, inputs)) = self.alike(out) {
            out.resize(sizes)?;
            function(inputs, out.data_mut()?);
            return Ok(());
        }
        self.prepare(out, index)?;
        if out.numel() == 0 {
            return Ok(());
        }
        let layouts = self.inputs.each_ref().map(Input::layout);
        let walk = Walk::new(out.sizes(), out.dim_order(), layouts);
        let mut sources = [Source::<C>::nothing(); K];
        for ((source, input), &place) in sources.iter_mut().zip(&self.inputs).zip(&self.places) {
            let at = usize::from(place);
            let keeps = self.wide_scalars && self.compute.is_float() && input.rank() == 0;
            let dtype = if keeps { C::DTYPE } else { self.compute };
            *source = match input {
                Input::Tensor(view) | Input::Narrow(view, _) => Source::tensor(view, dtype, at)?,
                Input::Scalar(scalar) => Source::constant(*scalar, dtype, at)?,
            };
        }
        let mut target = Target::<C>::new(out, self.result, index)?;
        evaluate(&walk, &mut sources, &mut target, function);
        Ok(())
    }
}

fn is_number(dtype: ScalarType) -> bool {
    dtype.is_float() || dtype.is_integer() || dtype == ScalarType::Bool
}

impl Pointwise<'_, 1> {
    /// As [`Pointwise::run`], but `f32` is computed by `vectors` where there are any.
    pub(crate) fn run_simd<I, F, D>(
        &self,
        args: &mut Args<'_>,
        index: usize,
        function: Function<I, F, D>,
        vectors: impl math::Function,
    ) -> Result<(), Error>
    where
        I: Fn([&[i64]; 1], &mut [i64]),
        F: Fn([&[f32]; 1], &mut [f32]),
        D: Fn([&[f64]; 1], &mut [f64]),
    {
        let Function { int, float, double } = function;
        let float = |x: [&[f32]; 1], out: &mut [f32]| match isa() {
            Some(isa) => math::map(isa, vectors, x[0], out),
            None => float(x, out),
        };
        self.run(args, index, Function { int, float, double })
    }
}

/// Calls `function` for every block of elements.
fn evaluate<C: Compute, const K: usize>(
    walk: &Walk<K>,
    sources: &mut [Source<'_, C>; K],
    target: &mut Target<'_, C>,
    function: &BlockFn<'_, C, K>,
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

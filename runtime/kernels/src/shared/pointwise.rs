//! Pointwise operators: each element of the output depends on one element of each input.
//!
//! An operator describes its inputs with [`Pointwise`] and its arithmetic with `numbers!` or
//! `floats!`. Inputs broadcast and have any dim orders and dtypes. The compute type is `i64` for
//! `bool` and integers, `f32` for `f32` and the half types, and `f64` for `f64`. Blocks of elements
//! are converted to the compute type and back. The arithmetic runs directly on tensors that already
//! have it. The arithmetic of an operator is compiled three times, and the conversions once for all
//! operators.

mod input;
mod iterator;
mod load_store;
#[cfg(test)]
pub(crate) mod testing;

use afferent_core::{Args, Dims, Error, ScalarType, TensorMut, broadcast_shapes, dims_equal};
use afferent_simd::math;

use crate::shared::{
    dtype::is_built,
    pointwise::{
        iterator::BroadcastIterator,
        load_store::{BLOCK, Compute, LONG_BLOCK, Source, Target},
    },
    simd::isa,
};

pub(crate) use crate::shared::pointwise::input::{
    DimRange, Input, check_range, fill_value, integer_scalar, result_type,
};

/// Arithmetic of an operator over blocks of elements, for each compute type. Built by `numbers!`,
/// `floats!` and `integers!`.
pub(crate) struct Function<I, F, D> {
    /// `bool` and integers.
    pub(crate) int: I,
    /// `f32` and the half types.
    pub(crate) float: F,
    /// `f64`.
    pub(crate) double: D,
}

/// Arithmetic for all dtypes: a closure from an array with one `i64` of each input to `i64`, and
/// one that is compiled for `f32` and `f64` as `$F`.
macro_rules! numbers {
    ($int:expr, $F:ident => $float:expr) => {
        $crate::shared::pointwise::Function {
            int: $crate::shared::pointwise::each::<i64, _, _>($int),
            float: {
                #[allow(dead_code, reason = "some closures do not name their type")]
                type $F = f32;
                $crate::shared::pointwise::each::<f32, _, _>($float)
            },
            double: {
                #[allow(dead_code, reason = "some closures do not name their type")]
                type $F = f64;
                $crate::shared::pointwise::each::<f64, _, _>($float)
            },
        }
    };
}

/// Like `numbers!`, for floating-point dtypes only.
macro_rules! floats {
    ($F:ident => $float:expr) => {
        $crate::shared::pointwise::numbers!(|x| x[0], $F => $float)
    };
}

/// Like `numbers!`, for `bool` and integers only.
macro_rules! integers {
    ($int:expr) => {
        $crate::shared::pointwise::numbers!($int, F => |x| x[0])
    };
}

pub(crate) use {floats, integers, numbers};

/// Function from a block of each input to a block of outputs.
type BlockFn<'f, C, const K: usize> = dyn Fn([&[C]; K], &mut [C]) + 'f;

/// Applies `f` to each element of a block.
pub(crate) fn each<C, const K: usize, F>(f: F) -> impl Fn([&[C]; K], &mut [C])
where
    C: Copy,
    F: Fn([C; K]) -> C,
{
    move |inputs, out| {
        let inputs = truncate(inputs, out.len());
        for (i, y) in out.iter_mut().enumerate() {
            *y = f(pick(&inputs, i));
        }
    }
}

/// The first `len` elements of each input.
fn truncate<C, const K: usize>(mut inputs: [&[C]; K], len: usize) -> [&[C]; K] {
    for input in &mut inputs {
        *input = &input[..len];
    }
    inputs
}

/// Element `i` of each input.
///
/// `inputs.map` would be compiled again for each operator.
#[inline(always)]
fn pick<C: Copy, const K: usize>(inputs: &[&[C]; K], i: usize) -> [C; K] {
    core::array::from_fn(|k| inputs[k][i])
}

/// Call of a pointwise operator: its inputs, the dtype to compute in, and the dtype of the result.
pub(crate) struct Pointwise<'a, const K: usize> {
    inputs: [Input<'a>; K],
    /// Argument indices of the inputs.
    arg_indices: [u8; K],
    compute: ScalarType,
    result: ScalarType,
    /// True if scalars and 0-d tensors are not rounded to a half compute dtype.
    unrounded_scalars: bool,
}

impl<'a, const K: usize> Pointwise<'a, K> {
    /// Computes in the promoted dtype of `inputs`.
    pub(crate) fn new(inputs: [Input<'a>; K]) -> Result<Self, Error> {
        let dtype = result_type(&inputs)?;
        Ok(Self::in_dtype(inputs, dtype))
    }

    /// Computes in `dtype`. All inputs are converted to it.
    pub(crate) fn in_dtype(inputs: [Input<'a>; K], dtype: ScalarType) -> Self {
        let arg_indices = core::array::from_fn(|at| at as u8);
        Self { inputs, arg_indices, compute: dtype, result: dtype, unrounded_scalars: false }
    }

    /// Sets the argument indices of the inputs. The default is `0..K`.
    pub(crate) fn at_args(self, arg_indices: [u8; K]) -> Self {
        Self { arg_indices, ..self }
    }

    /// Promotes `bool` and integer inputs to `f32`.
    pub(crate) fn promoting_ints_to_float(self) -> Self {
        let compute = if self.compute.is_float() { self.compute } else { ScalarType::Float };
        Self { compute, result: compute, ..self }
    }

    /// Sets the result dtype to `bool`: true for any result that is not zero.
    pub(crate) fn with_bool_result(self) -> Self {
        Self { result: ScalarType::Bool, ..self }
    }

    /// Does not round scalars and 0-d tensors to a half compute dtype, as PyTorch in `add`, `sub`,
    /// `mul` and `div`.
    pub(crate) fn with_unrounded_scalars(self) -> Self {
        Self { unrounded_scalars: true, ..self }
    }

    /// Dtype to compute in.
    pub(crate) fn dtype(&self) -> ScalarType {
        self.compute
    }

    /// Returns an error if the compute dtype is floating point.
    pub(crate) fn reject_float(self) -> Result<Self, Error> {
        self.reject(ScalarType::is_float)
    }

    /// Returns an error if the compute dtype is `bool`.
    pub(crate) fn reject_bool(self) -> Result<Self, Error> {
        self.reject(|dtype| dtype == ScalarType::Bool)
    }

    /// Returns an error unless the compute dtype is floating point.
    pub(crate) fn require_float(self) -> Result<Self, Error> {
        self.reject(|dtype| !dtype.is_float())
    }

    /// Returns an error if the compute dtype is one of `rejected`. It names the first input with
    /// such a dtype.
    fn reject(self, rejected: fn(ScalarType) -> bool) -> Result<Self, Error> {
        self.check_dtype(rejected).map(|()| self)
    }

    fn check_dtype(&self, rejected: fn(ScalarType) -> bool) -> Result<(), Error> {
        if !rejected(self.compute) {
            return Ok(());
        }
        let mut inputs = self.arg_indices.iter().zip(self.inputs.iter().map(Input::dtype));
        let found = inputs.find(|&(_, dtype)| rejected(dtype));
        let (&index, found) = found.unwrap_or((&0, self.compute));
        Err(Error::InvalidType { index, found })
    }

    /// Computes argument `index`, the output.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the shapes do not broadcast, [`Error::InvalidType`] if the
    /// output cannot hold the result dtype or a dtype is not supported, and the errors of
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
            ScalarType::Double if is_built(ScalarType::Double) => {
                self.compute::<f64>(&mut out, index, &function.double)
            }
            dtype if dtype.is_float() && is_built(dtype) => {
                self.compute::<f32>(&mut out, index, &function.float)
            }
            dtype if !dtype.is_float() && is_built(ScalarType::Long) => {
                self.compute::<i64>(&mut out, index, &function.int)
            }
            found => Err(Error::InvalidType { index: 0, found }),
        }
    }

    /// Sizes and elements of the inputs if all are tensors with the compute type `C` and the dim
    /// order of `out`, and have equal sizes.
    fn direct_inputs<C: Compute>(
        &self,
        out: &TensorMut<'_, '_>,
    ) -> Option<(&'a [usize], [&'a [C]; K])> {
        if self.compute != C::DTYPE || out.dtype() != C::DTYPE {
            return None;
        }
        let Some(Input::Tensor(first)) = self.inputs.first() else { return None };
        let sizes = first.sizes();
        let mut data: [&[C]; K] = [&[]; K];
        for (data, input) in data.iter_mut().zip(&self.inputs) {
            let Input::Tensor(view) = input else { return None };
            if !dims_equal(view.sizes(), sizes) || !dims_equal(view.dim_order(), out.dim_order()) {
                return None;
            }
            *data = view.data().ok()?;
        }
        Some((sizes, data))
    }

    /// Sizes of the inputs if all inputs with dimensions have the same sizes and the dim order of
    /// `out`. Then all tensors have the same order of elements, and the others are constants.
    fn flat_sizes(&self, out: &TensorMut<'_, '_>) -> Option<&'a [usize]> {
        let mut sizes: Option<&[usize]> = None;
        for input in &self.inputs {
            match input {
                Input::Tensor(view) if view.rank() > 0 => {
                    if !dims_equal(view.dim_order(), out.dim_order())
                        || sizes.is_some_and(|sizes| !dims_equal(view.sizes(), sizes))
                    {
                        return None;
                    }
                    sizes = Some(view.sizes());
                }
                Input::Narrow(..) => return None,
                Input::Tensor(_) | Input::Scalar(_) => {}
            }
        }
        sizes
    }

    /// Checks the compute dtype, and that the output can hold the result dtype.
    fn check_dtypes(&self, out: &TensorMut<'_, '_>, index: usize) -> Result<(), Error> {
        use ScalarType as S;
        let index = u8::try_from(index).unwrap_or(u8::MAX);
        // `u64` would be computed in `i64`, which cannot hold all of its values.
        self.check_dtype(|dtype| !is_supported(dtype) || dtype == S::UInt64)?;
        let can_store = match out.dtype() {
            to if to.is_float() => true,
            S::Bool => self.result == S::Bool,
            to => is_supported(to) && !self.result.is_float(),
        };
        if can_store { Ok(()) } else { Err(Error::InvalidType { index, found: out.dtype() }) }
    }

    /// Broadcast shape of the inputs.
    fn broadcast_sizes(&self) -> Result<Dims, Error> {
        let mut sizes = Dims::filled(0, 0);
        for (&index, input) in self.arg_indices.iter().zip(&self.inputs) {
            let expected = "a tensor that broadcasts with the others";
            sizes = broadcast_shapes(&sizes, &input.sizes())
                .ok_or(Error::InvalidArgument { index, expected })?;
        }
        Ok(sizes)
    }

    fn compute<C: Compute>(
        &self,
        out: &mut TensorMut<'_, '_>,
        index: usize,
        function: &BlockFn<'_, C, K>,
    ) -> Result<(), Error> {
        if let Some((sizes, inputs)) = self.direct_inputs(out) {
            out.resize(sizes)?;
            function(inputs, out.data_mut()?);
            return Ok(());
        }
        self.check_dtypes(out, index)?;
        let flat_sizes = self.flat_sizes(out);
        match flat_sizes {
            Some(sizes) => out.resize(sizes)?,
            None => out.resize(&self.broadcast_sizes()?)?,
        }
        let numel = out.numel();
        if numel == 0 {
            return Ok(());
        }
        let mut sources = [Source::<C>::empty(); K];
        for ((source, input), &index) in sources.iter_mut().zip(&self.inputs).zip(&self.arg_indices)
        {
            *source = self.source(input, usize::from(index))?;
        }
        if flat_sizes.is_some() {
            let target = Target::<C>::new(out, self.result, index)?;
            let strides = self.inputs.each_ref().map(|input| usize::from(input.rank() > 0));
            evaluate((numel, strides), sources, target, function, |inner| inner(0, [0; K]));
            return Ok(());
        }
        let layouts = self.inputs.each_ref().map(Input::layout);
        let iterator = BroadcastIterator::new(out.sizes(), out.dim_order(), layouts);
        let target = Target::<C>::new(out, self.result, index)?;
        let inner = (iterator.inner_len(), iterator.inner_strides());
        evaluate(inner, sources, target, function, |inner| iterator.for_each_inner(inner));
        Ok(())
    }

    /// Elements of `input`, argument `index`, in the compute type.
    fn source<C: Compute>(&self, input: &Input<'a>, index: usize) -> Result<Source<'a, C>, Error> {
        let is_unrounded = self.unrounded_scalars && self.compute.is_float() && input.rank() == 0;
        let dtype = if is_unrounded { C::DTYPE } else { self.compute };
        match input {
            Input::Tensor(view) | Input::Narrow(view, _) => Source::tensor(view, dtype, index),
            Input::Scalar(scalar) => Source::constant(*scalar, dtype, index),
        }
    }
}

/// Returns true if pointwise operators support `dtype`.
fn is_supported(dtype: ScalarType) -> bool {
    dtype.is_float() || dtype.is_integer() || dtype == ScalarType::Bool
}

impl Pointwise<'_, 1> {
    /// Like [`Pointwise::run`], with the SIMD function `simd` for `f32` if there is an instruction
    /// set.
    pub(crate) fn run_simd<I, F, D>(
        &self,
        args: &mut Args<'_>,
        index: usize,
        function: Function<I, F, D>,
        simd: impl math::Function,
    ) -> Result<(), Error>
    where
        I: Fn([&[i64]; 1], &mut [i64]),
        F: Fn([&[f32]; 1], &mut [f32]),
        D: Fn([&[f64]; 1], &mut [f64]),
    {
        let Function { int, float, double } = function;
        let float = |x: [&[f32]; 1], out: &mut [f32]| match isa() {
            Some(isa) => math::map(isa, simd, x[0], out),
            None => float(x, out),
        };
        self.run(args, index, Function { int, float, double })
    }
}

/// Inner loop: offset of its first element in the output and in each input.
type InnerLoop<'f, const K: usize> = &'f mut dyn FnMut(usize, [usize; K]);

/// Calls `function` for each block of elements. `iterate` calls its argument for each inner loop,
/// which has a length and a stride for each input.
fn evaluate<C: Compute, const K: usize>(
    inner: (usize, [usize; K]),
    sources: [Source<'_, C>; K],
    target: Target<'_, C>,
    function: &BlockFn<'_, C, K>,
    iterate: impl FnOnce(InnerLoop<'_, K>),
) {
    if inner.0 <= BLOCK {
        evaluate_blocks::<C, K, BLOCK>(inner, sources, target, function, iterate);
    } else {
        evaluate_blocks::<C, K, LONG_BLOCK>(inner, sources, target, function, iterate);
    }
}

fn evaluate_blocks<C: Compute, const K: usize, const N: usize>(
    (inner_len, strides): (usize, [usize; K]),
    sources: [Source<'_, C>; K],
    mut target: Target<'_, C>,
    function: &BlockFn<'_, C, K>,
    iterate: impl FnOnce(InnerLoop<'_, K>),
) {
    let is_direct = target.is_direct()
        && sources.iter().zip(strides).all(|(source, stride)| source.is_direct(stride));
    let block_len = if is_direct { inner_len } else { N.min(inner_len) };
    let mut buffers = [[C::default(); N]; K];
    let mut result = [C::default(); N];
    iterate(&mut |out_offset, offsets| {
        for done in (0..inner_len).step_by(block_len) {
            let len = block_len.min(inner_len - done);
            let mut blocks: [&[C]; K] = [&[]; K];
            let parts = sources.iter().zip(&mut buffers).zip(&mut blocks);
            for (((source, buffer), block), (offset, stride)) in
                parts.zip(offsets.into_iter().zip(strides))
            {
                *block = source.block(offset + done * stride, stride, done == 0, len, buffer);
            }
            target.write(out_offset + done, len, &mut result, |out| function(blocks, out));
        }
    });
}

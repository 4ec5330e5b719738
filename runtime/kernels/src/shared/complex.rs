//! Complex numbers as pairs of floating-point accumulators.

use afferent_core::{Args, Error, ScalarType, TensorMut, TensorView, broadcast_shapes};

use crate::shared::{
    accumulator::Float,
    elements::{Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
    pointwise::Input,
    reduce::ReducedDims,
    strided_view::StridedView,
};

/// Real and imaginary part.
pub(crate) type Complex<A> = [A; 2];

pub(crate) fn add<A: Float>(a: Complex<A>, b: Complex<A>) -> Complex<A> {
    [a[0] + b[0], a[1] + b[1]]
}

pub(crate) fn mul<A: Float>(a: Complex<A>, b: Complex<A>) -> Complex<A> {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// Quotient by Smith's method, in which no intermediate square overflows.
pub(crate) fn div<A: Float>(a: Complex<A>, b: Complex<A>) -> Complex<A> {
    if b[0].abs() >= b[1].abs() {
        if b == [A::default(); 2] {
            return [a[0] / b[0], a[1] / b[0]];
        }
        let ratio = b[1] / b[0];
        let scale = A::ONE / (b[0] + b[1] * ratio);
        [(a[0] + a[1] * ratio) * scale, (a[1] - a[0] * ratio) * scale]
    } else {
        let ratio = b[0] / b[1];
        let scale = A::ONE / (b[0] * ratio + b[1]);
        [(a[0] * ratio + a[1]) * scale, (a[1] * ratio - a[0]) * scale]
    }
}

pub(crate) fn conj<A: Float>([re, im]: Complex<A>) -> Complex<A> {
    [re, A::default() - im]
}

/// Evaluates `$body` with `$A` as the accumulator type of the complex dtype `$dtype`.
macro_rules! with_complex {
    ($dtype:expr, $A:ident => $body:expr) => {
        if !cfg!(feature = "complex") {
            Err(afferent_core::Error::InvalidType { index: 0, found: $dtype })
        } else if $dtype == afferent_core::ScalarType::ComplexDouble {
            type $A = f64;
            $body
        } else {
            type $A = f32;
            $body
        }
    };
}

pub(crate) use with_complex;

const MISALIGNED: Error = Error::Internal { reason: "complex elements are misaligned" };

/// Parts of the elements of a complex tensor: real, imaginary, real and so on. `A` is their dtype.
pub(crate) fn numbers<'a, A: Float>(tensor: &TensorView<'a>) -> Result<&'a [A], Error> {
    bytemuck::try_cast_slice(tensor.bytes()).map_err(|_| MISALIGNED)
}

/// As [`numbers`], mutable.
pub(crate) fn numbers_mut<'s, A: Float>(
    tensor: &'s mut TensorMut<'_, '_>,
) -> Result<&'s mut [A], Error> {
    bytemuck::try_cast_slice_mut(tensor.bytes_mut()?).map_err(|_| MISALIGNED)
}

/// Dtype of the real and imaginary parts of a complex dtype.
pub(crate) fn component_dtype(dtype: ScalarType) -> Option<ScalarType> {
    match dtype {
        ScalarType::ComplexHalf => Some(ScalarType::Half),
        ScalarType::ComplexFloat => Some(ScalarType::Float),
        ScalarType::ComplexDouble => Some(ScalarType::Double),
        _ => None,
    }
}

/// Widest complex dtype of `dtypes`; `None` if none is complex.
pub(crate) fn common_complex(dtypes: &[ScalarType]) -> Option<ScalarType> {
    dtypes.iter().copied().filter(|&dtype| component_dtype(dtype).is_some()).max()
}

/// Complex dtype that can represent a floating-point or complex dtype.
fn to_complex_dtype(dtype: ScalarType) -> Option<ScalarType> {
    match component_dtype(dtype).unwrap_or(dtype) {
        ScalarType::Half => Some(ScalarType::ComplexHalf),
        ScalarType::BFloat16 | ScalarType::Float => Some(ScalarType::ComplexFloat),
        ScalarType::Double => Some(ScalarType::ComplexDouble),
        _ => None,
    }
}

/// Result dtype of two tensors, at least one of them complex; `None` for other inputs. A 0-d tensor
/// does not widen the other one, unless that has an integer dtype.
///
/// Source: `torch.result_type`.
pub(crate) fn complex_result_type(inputs: &[Input<'_>; 2]) -> Option<ScalarType> {
    if inputs.iter().any(|input| matches!(input, Input::Scalar(_))) {
        return None;
    }
    common_complex(&inputs.each_ref().map(Input::dtype))?;
    let [a, b] = inputs.each_ref().map(|input| to_complex_dtype(input.dtype()));
    match inputs.each_ref().map(|input| input.rank() == 0) {
        [true, false] => b.or(a),
        [false, true] => a.or(b),
        _ => a.max(b),
    }
}

/// Reads elements of a tensor by offset, as complex numbers.
#[derive(Clone, Copy)]
pub(crate) struct ComplexReader<'a, A> {
    reader: Reader<'a, A>,
    is_complex: bool,
}

impl<'a, A: Float> ComplexReader<'a, A> {
    /// Reads `tensor`, argument `index`.
    pub(crate) fn new(tensor: TensorView<'a>, index: u8) -> Result<Self, Error> {
        let is_complex = component_dtype(tensor.dtype()).is_some();
        Ok(Self { reader: Reader::of_components(tensor, index)?, is_complex })
    }

    /// Element at `offset`.
    pub(crate) fn get(&self, offset: usize) -> Complex<A> {
        if !self.is_complex {
            return [self.reader.get(offset), A::default()];
        }
        let mut parts = [A::default(); 2];
        self.reader.read(2 * offset, 1, &mut parts);
        parts
    }
}

/// Writes complex elements of a tensor by offset. A real tensor takes the real part.
pub(crate) struct ComplexWriter<'a, A> {
    writer: Writer<'a, A>,
    is_complex: bool,
}

impl<'a, A: Float> ComplexWriter<'a, A> {
    /// Writes `tensor`, argument `index`.
    pub(crate) fn new(tensor: &'a mut TensorMut<'_, '_>, index: u8) -> Result<Self, Error> {
        let is_complex = component_dtype(tensor.dtype()).is_some();
        Ok(Self { writer: Writer::of_components(tensor, index)?, is_complex })
    }

    /// Writes the element at `offset`.
    pub(crate) fn set(&mut self, offset: usize, value: Complex<A>) {
        if self.is_complex {
            self.writer.write(2 * offset, 1, &value);
        } else {
            self.writer.set(offset, value[0]);
        }
    }
}

/// Writes `f` of the elements of arguments `0..N`, which broadcast, to argument `out`.
pub(crate) fn map<A: Float, const N: usize>(
    args: &mut Args<'_>,
    out: u8,
    f: impl Fn([Complex<A>; N]) -> Complex<A>,
) -> Result<(), Error> {
    let mut sizes = StridedView::of(&args.tensor(0)?).sizes;
    for index in 1..N {
        let expected = "a tensor that broadcasts with the others";
        let wrong = Error::InvalidArgument { index: index as u8, expected };
        sizes = broadcast_shapes(&sizes, args.tensor(index)?.sizes()).ok_or(wrong)?;
    }
    let first = args.tensor(0)?;
    let mut readers = [(ComplexReader::<A>::new(first, 0)?, StridedView::of(&first)); N];
    for (index, reader) in (0_u8..).zip(&mut readers) {
        let tensor = args.tensor(usize::from(index))?;
        *reader = (ComplexReader::new(tensor, index)?, StridedView::of(&tensor));
        reader.1.expand(&sizes, index)?;
    }
    let mut out_tensor = args.out(usize::from(out))?;
    out_tensor.resize(&sizes)?;
    let to = out_strides(&out_tensor);
    let mut writer = ComplexWriter::<A>::new(&mut out_tensor, out)?;
    let mut loops = LoopNest::<3>::new();
    for dim in 0..sizes.len() {
        let stride = |index: usize| readers.get(index).map_or(0, |(_, view)| view.strides[dim]);
        loops.push(sizes[dim], [to[dim], stride(0), stride(1)])?;
    }
    loops.for_each([0; 3], |[at, first, second]| {
        let mut values = [[A::default(); 2]; N];
        for ((value, (reader, _)), from) in values.iter_mut().zip(&readers).zip([first, second]) {
            *value = reader.get(from);
        }
        writer.set(at, f(values));
    });
    Ok(())
}

/// Writes the sums of argument 0 over the dimensions `reduced` to argument 4.
pub(crate) fn sum<A: Float>(
    args: &mut Args<'_>,
    reduced: ReducedDims,
    keepdim: bool,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let mut out = args.out(4)?;
    out.resize(&reduced.out_sizes(x.sizes(), keepdim)?)?;
    let (from, to) = (strides_of(&x), out_strides(&out));
    let (mut kept, mut terms, mut at) = (LoopNest::<2>::new(), LoopNest::<1>::new(), 0);
    for (dim, &size) in x.sizes().iter().enumerate() {
        if reduced.contains(dim) {
            terms.push(size, [from[dim]])?;
            at += usize::from(keepdim);
        } else {
            kept.push(size, [from[dim], to.get(at).copied().unwrap_or(0)])?;
            at += 1;
        }
    }
    let (x, mut out) = (ComplexReader::<A>::new(x, 0)?, ComplexWriter::<A>::new(&mut out, 4)?);
    kept.for_each([0, 0], |[from, to]| {
        let mut sum = [A::default(); 2];
        terms.for_each([from], |[from]| sum = add(sum, x.get(from)));
        out.set(to, sum);
    });
    Ok(())
}

/// Writes the batched matrix product of arguments 0 and 1, of checked sizes, to argument 2.
pub(crate) fn bmm<A: Float>(
    args: &mut Args<'_>,
    [rows, inner, cols]: [usize; 3],
) -> Result<(), Error> {
    let (a, b, mut out) = (args.tensor(0)?, args.tensor(1)?, args.out(2)?);
    if out.numel() == 0 {
        return Ok(());
    }
    let batch = out.sizes().first().copied().unwrap_or(0);
    let (a_strides, b_strides, strides) = (strides_of(&a), strides_of(&b), out_strides(&out));
    let (a, b) = (ComplexReader::<A>::new(a, 0)?, ComplexReader::<A>::new(b, 1)?);
    let mut out = ComplexWriter::<A>::new(&mut out, 2)?;
    for item in 0..batch {
        for i in 0..rows {
            for j in 0..cols {
                let mut sum = [A::default(); 2];
                for k in 0..inner {
                    let a = a.get(item * a_strides[0] + i * a_strides[1] + k * a_strides[2]);
                    let b = b.get(item * b_strides[0] + k * b_strides[1] + j * b_strides[2]);
                    sum = add(sum, mul(a, b));
                }
                out.set(item * strides[0] + i * strides[1] + j * strides[2], sum);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients() {
        let check = |a: Complex<f64>, b, expected: Complex<f64>| {
            let found = div(a, b);
            let distance = (found[0] - expected[0]).abs() + (found[1] - expected[1]).abs();
            assert!(distance < 1e-12, "{a:?} by {b:?} is {found:?}");
        };
        check([1.0, 2.0], [3.0, -1.0], [0.1, 0.7]);
        check([1.0, 2.0], [0.0, 2.0], [1.0, -0.5]);
        check([1e300, 1e300], [1e300, 1e300], [1.0, 0.0]);
        assert!(div([1.0_f32, 0.0], [0.0, 0.0])[0].is_infinite());
    }

    #[test]
    fn common_dtypes() {
        use ScalarType as S;
        assert_eq!(common_complex(&[S::Float, S::ComplexHalf]), Some(S::ComplexHalf));
        assert_eq!(common_complex(&[S::ComplexDouble, S::ComplexFloat]), Some(S::ComplexDouble));
        assert_eq!(common_complex(&[S::Float, S::Double]), None);
    }

    #[test]
    fn result_types() {
        use ScalarType as S;
        let check = |inputs: [(S, &[usize]); 2], expected| {
            let bytes = [0_u64; 4];
            let inputs = inputs.map(|(dtype, sizes)| {
                let len = dtype.size() * sizes.iter().product::<usize>();
                let bytes = &bytemuck::cast_slice(&bytes)[..len];
                TensorView::from_bytes(dtype, sizes, bytes).unwrap().into()
            });
            assert_eq!(complex_result_type(&inputs), expected);
        };
        check([(S::ComplexFloat, &[2]), (S::Double, &[2])], Some(S::ComplexDouble));
        check([(S::ComplexHalf, &[]), (S::BFloat16, &[])], Some(S::ComplexFloat));
        check([(S::ComplexFloat, &[2]), (S::ComplexDouble, &[])], Some(S::ComplexFloat));
        check([(S::ComplexFloat, &[]), (S::Double, &[2])], Some(S::ComplexDouble));
        check([(S::ComplexDouble, &[]), (S::Half, &[2])], Some(S::ComplexHalf));
        check([(S::Long, &[2]), (S::ComplexDouble, &[])], Some(S::ComplexDouble));
        check([(S::Float, &[2]), (S::Double, &[2])], None);
    }
}

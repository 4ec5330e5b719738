//! Blocks of elements on their way between tensors and arithmetic.

use afferent_core::{Error, Scalar, ScalarType, TensorMut, TensorView};

use crate::shared::dtype::{Number, with_dtype};

/// Elements that are converted at a time.
pub(super) const BLOCK: usize = 64;

/// A number type in which elements are computed.
pub(super) trait Compute: Number {
    /// From an element.
    fn get<T: Number>(element: T) -> Self;
    /// To an element.
    fn put<T: Number>(self) -> T;
}

impl Compute for i64 {
    fn get<T: Number>(element: T) -> Self {
        element.to_i64()
    }
    fn put<T: Number>(self) -> T {
        T::from_i64(self)
    }
}

impl Compute for f32 {
    fn get<T: Number>(element: T) -> Self {
        element.to_f32()
    }
    fn put<T: Number>(self) -> T {
        T::from_f32(self)
    }
}

impl Compute for f64 {
    fn get<T: Number>(element: T) -> Self {
        element.to_f64()
    }
    fn put<T: Number>(self) -> T {
        T::from_f64(self)
    }
}

/// Reads every `stride`-th element from the given one on.
type Load<C> = fn(bytes: &[u8], at: usize, stride: usize, block: &mut [C]);
/// Writes adjacent elements from the given one on.
type Store<C> = fn(bytes: &mut [u8], at: usize, block: &[C]);

fn load<T: Number, C: Compute>(bytes: &[u8], at: usize, stride: usize, block: &mut [C]) {
    let data: &[T] = bytemuck::try_cast_slice(bytes).unwrap_or_default();
    let data = data.get(at..).unwrap_or_default();
    match stride {
        0 => block.fill(data.first().map_or(C::default(), |&element| C::get(element))),
        1 => block.iter_mut().zip(data).for_each(|(c, &element)| *c = C::get(element)),
        _ => {
            let steps = block.iter_mut().zip(data.iter().step_by(stride));
            steps.for_each(|(c, &element)| *c = C::get(element));
        }
    }
}

fn store<T: Number, C: Compute>(bytes: &mut [u8], at: usize, block: &[C]) {
    let data: &mut [T] = bytemuck::try_cast_slice_mut(bytes).unwrap_or_default();
    for (element, &c) in data.iter_mut().skip(at).zip(block) {
        *element = c.put();
    }
}

fn load_of<C: Compute>(dtype: ScalarType, index: usize) -> Result<Load<C>, Error> {
    let index = u8::try_from(index).unwrap_or(u8::MAX);
    with_dtype!(all, dtype, index, T => Ok(load::<T, C>))
}

fn store_of<C: Compute>(dtype: ScalarType, index: usize) -> Result<Store<C>, Error> {
    let index = u8::try_from(index).unwrap_or(u8::MAX);
    with_dtype!(all, dtype, index, T => Ok(store::<T, C>))
}

/// Where blocks come from: a tensor or one number.
#[derive(Clone, Copy)]
pub(super) struct Source<'a, C> {
    bytes: &'a [u8],
    /// The elements, when they need no conversion.
    direct: Option<&'a [C]>,
    load: Load<C>,
    /// Takes a block through another dtype.
    round: Option<(Store<C>, Load<C>)>,
    constant: Option<C>,
}

impl<'a, C: Compute> Source<'a, C> {
    /// Nothing at all.
    pub(super) fn nothing() -> Self {
        Self { bytes: &[], direct: None, load: |_, _, _, _| {}, round: None, constant: None }
    }

    /// The number that is argument `index`, converted to `compute`.
    pub(super) fn constant(
        scalar: Scalar,
        compute: ScalarType,
        index: usize,
    ) -> Result<Self, Error> {
        let mut source = Self::nothing();
        let mut value = [C::from_scalar(scalar)];
        if compute != C::DTYPE {
            source.round = Some((store_of(compute, index)?, load_of(compute, index)?));
            round(source.round, &mut value);
        }
        source.constant = Some(value[0]);
        Ok(source)
    }

    /// The elements of argument `index`, converted to `compute`.
    pub(super) fn tensor(
        view: &TensorView<'a>,
        compute: ScalarType,
        index: usize,
    ) -> Result<Self, Error> {
        let (dtype, bytes) = (view.dtype(), view.bytes());
        let mut source = Self { bytes, load: load_of(dtype, index)?, ..Self::nothing() };
        if dtype == C::DTYPE {
            source.direct = bytemuck::try_cast_slice(bytes).ok();
        }
        if dtype != compute && compute != C::DTYPE {
            source.round = Some((store_of(compute, index)?, load_of(compute, index)?));
            source.direct = None;
        }
        Ok(source)
    }

    /// Whether blocks with this stride need no conversion.
    pub(super) fn is_direct(&self, stride: usize) -> bool {
        self.direct.is_some() && stride == 1
    }

    /// The `len` elements from `at` on; `buffer` keeps what the previous block of the run left.
    pub(super) fn block<'b>(
        &self,
        at: usize,
        stride: usize,
        is_first: bool,
        len: usize,
        buffer: &'b mut [C; BLOCK],
    ) -> &'b [C]
    where
        'a: 'b,
    {
        if let (Some(direct), 1) = (self.direct, stride) {
            return &direct[at..at + len];
        }
        let block = &mut buffer[..len];
        match self.constant {
            Some(value) => {
                if is_first {
                    block.fill(value);
                }
            }
            None if stride == 0 && !is_first => {}
            None => {
                (self.load)(self.bytes, at, stride, block);
                round(self.round, block);
            }
        }
        block
    }
}

/// Takes a block through another dtype, if there is one.
fn round<C: Compute>(through: Option<(Store<C>, Load<C>)>, block: &mut [C]) {
    if let Some((store, load)) = through {
        let mut rounded = [0_u64; BLOCK];
        store(bytemuck::cast_slice_mut(&mut rounded), 0, block);
        load(bytemuck::cast_slice(&rounded), 0, 1, block);
    }
}

/// Where blocks go.
pub(super) struct Target<'a, C> {
    bytes: &'a mut [u8],
    is_direct: bool,
    store: Store<C>,
    /// Takes a block through the dtype of the result, where the output has another.
    round: Option<(Store<C>, Load<C>)>,
}

impl<'a, C: Compute> Target<'a, C> {
    /// The output at `index`, for numbers of the dtype `result`.
    pub(super) fn new(
        out: &'a mut TensorMut<'_, '_>,
        result: ScalarType,
        index: usize,
    ) -> Result<Self, Error> {
        let (dtype, store) = (out.dtype(), store_of(out.dtype(), index)?);
        let converts = dtype != result && result != C::DTYPE;
        let round =
            if converts { Some((store_of(result, index)?, load_of(result, index)?)) } else { None };
        let is_direct = dtype == C::DTYPE && !converts;
        Ok(Self { bytes: out.bytes_mut()?, is_direct, store, round })
    }

    /// Whether blocks need no conversion.
    pub(super) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Lets `f` compute `len` elements from `at` on.
    pub(super) fn write(
        &mut self,
        at: usize,
        len: usize,
        buffer: &mut [C; BLOCK],
        f: impl FnOnce(&mut [C]),
    ) {
        if self.is_direct {
            let data: &mut [C] = bytemuck::try_cast_slice_mut(self.bytes).unwrap_or_default();
            f(&mut data[at..at + len]);
        } else {
            let block = &mut buffer[..len];
            f(block);
            round(self.round, block);
            (self.store)(self.bytes, at, block);
        }
    }
}

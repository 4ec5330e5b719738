//! Loads and stores of blocks of elements with conversion to and from the compute type.

use afferent_core::{Error, Scalar, ScalarType, TensorMut, TensorView};

use crate::shared::dtype::{Number, with_dtype};

/// Elements converted at a time.
pub(super) const BLOCK: usize = 64;

/// Elements converted at a time in long inner loops.
pub(super) const LONG_BLOCK: usize = 512;

/// Compute type.
pub(super) trait Compute: Number {
    /// Converts from an element.
    fn get<T: Number>(element: T) -> Self;
    /// Converts to an element.
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

/// Loads every `stride`-th element from offset `at` on.
type Load<C> = fn(bytes: &[u8], at: usize, stride: usize, block: &mut [C]);
/// Stores contiguous elements from offset `at` on.
type Store<C> = fn(bytes: &mut [u8], at: usize, block: &[C]);

fn load<T: Number, C: Compute>(bytes: &[u8], at: usize, stride: usize, block: &mut [C]) {
    let data: &[T] = bytemuck::try_cast_slice(bytes).unwrap_or_default();
    let data = data.get(at..).unwrap_or_default();
    match stride {
        0 => block.fill(data.first().map_or(C::default(), |&element| C::get(element))),
        1 => block.iter_mut().zip(data).for_each(|(c, &element)| *c = C::get(element)),
        _ => {
            let strided = block.iter_mut().zip(data.iter().step_by(stride));
            strided.for_each(|(c, &element)| *c = C::get(element));
        }
    }
}

fn store<T: Number, C: Compute>(bytes: &mut [u8], at: usize, block: &[C]) {
    let data: &mut [T] = bytemuck::try_cast_slice_mut(bytes).unwrap_or_default();
    for (element, &c) in data.iter_mut().skip(at).zip(block) {
        *element = c.put();
    }
}

fn load_fn<C: Compute>(dtype: ScalarType, index: usize) -> Result<Load<C>, Error> {
    let index = u8::try_from(index).unwrap_or(u8::MAX);
    with_dtype!(all, dtype, index, T => Ok(load::<T, C>))
}

fn store_fn<C: Compute>(dtype: ScalarType, index: usize) -> Result<Store<C>, Error> {
    let index = u8::try_from(index).unwrap_or(u8::MAX);
    with_dtype!(all, dtype, index, T => Ok(store::<T, C>))
}

/// Source of blocks: a tensor or a constant.
#[derive(Clone, Copy)]
pub(super) struct Source<'a, C> {
    bytes: &'a [u8],
    /// Elements that need no conversion.
    direct: Option<&'a [C]>,
    load: Load<C>,
    /// Rounds a block to another dtype.
    round: Option<(Store<C>, Load<C>)>,
    constant: Option<C>,
}

impl<'a, C: Compute> Source<'a, C> {
    /// Placeholder without elements.
    pub(super) fn empty() -> Self {
        Self { bytes: &[], direct: None, load: |_, _, _, _| {}, round: None, constant: None }
    }

    /// Constant from a scalar, argument `index`, converted to `compute`.
    pub(super) fn constant(
        scalar: Scalar,
        compute: ScalarType,
        index: usize,
    ) -> Result<Self, Error> {
        let mut source = Self::empty();
        let mut value = [C::from_scalar(scalar)];
        if compute != C::DTYPE {
            source.round = Some((store_fn(compute, index)?, load_fn(compute, index)?));
            round(source.round, &mut value);
        }
        source.constant = Some(value[0]);
        Ok(source)
    }

    /// Elements of a tensor, argument `index`, converted to `compute`.
    pub(super) fn tensor(
        view: &TensorView<'a>,
        compute: ScalarType,
        index: usize,
    ) -> Result<Self, Error> {
        let (dtype, bytes) = (view.dtype(), view.bytes());
        let mut source = Self { bytes, load: load_fn(dtype, index)?, ..Self::empty() };
        if dtype == C::DTYPE {
            source.direct = bytemuck::try_cast_slice(bytes).ok();
        }
        if dtype != compute && compute != C::DTYPE {
            source.round = Some((store_fn(compute, index)?, load_fn(compute, index)?));
            source.direct = None;
        }
        Ok(source)
    }

    /// Returns true if blocks with this stride need no conversion.
    pub(super) fn is_direct(&self, stride: usize) -> bool {
        self.direct.is_some() && stride == 1
    }

    /// Block of `len` elements from `at` on. A constant or broadcast block is written to `buffer`
    /// only if it is the first one of an inner loop.
    pub(super) fn block<'b>(
        &self,
        at: usize,
        stride: usize,
        is_first: bool,
        len: usize,
        buffer: &'b mut [C],
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

/// Rounds a block to another dtype and back, if there is one.
fn round<C: Compute>(through: Option<(Store<C>, Load<C>)>, block: &mut [C]) {
    if let Some((store, load)) = through {
        let mut rounded = [0_u64; BLOCK];
        for block in block.chunks_mut(BLOCK) {
            store(bytemuck::cast_slice_mut(&mut rounded), 0, block);
            load(bytemuck::cast_slice(&rounded), 0, 1, block);
        }
    }
}

/// Destination of blocks.
pub(super) struct Target<'a, C> {
    bytes: &'a mut [u8],
    is_direct: bool,
    store: Store<C>,
    /// Rounds a block to the result dtype if the output has another dtype.
    round: Option<(Store<C>, Load<C>)>,
}

impl<'a, C: Compute> Target<'a, C> {
    /// Output argument `index` for results of the dtype `result`.
    pub(super) fn new(
        out: &'a mut TensorMut<'_, '_>,
        result: ScalarType,
        index: usize,
    ) -> Result<Self, Error> {
        let (dtype, store) = (out.dtype(), store_fn(out.dtype(), index)?);
        let needs_rounding = dtype != result && result != C::DTYPE;
        let round = if needs_rounding {
            Some((store_fn(result, index)?, load_fn(result, index)?))
        } else {
            None
        };
        let is_direct = dtype == C::DTYPE && !needs_rounding;
        Ok(Self { bytes: out.bytes_mut()?, is_direct, store, round })
    }

    /// Returns true if blocks need no conversion.
    pub(super) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Writes `len` elements, computed by `f`, from offset `at` on.
    pub(super) fn write(
        &mut self,
        at: usize,
        len: usize,
        buffer: &mut [C],
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

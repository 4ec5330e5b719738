//! The tensors of a method: layout, and where their elements are.

use afferent_core::{Dims, Dynamism, MAX_DIMS, ScalarType, is_dim_order, numel};

use crate::{
    error::{Fault, Read},
    plan::MethodPlan,
    schema::*,
};
use afferent_flatbuffer::{Field, List, Table, to_usize};

/// A tensor of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorMeta<'a> {
    /// Its elements.
    pub layout: TensorLayout<'a>,
    /// How its sizes may change.
    pub dynamism: Dynamism,
    /// Where its elements are.
    pub data: TensorData<'a>,
    /// Its name in the exported module, where the exporter kept it.
    pub fully_qualified_name: Option<&'a str>,
}

/// The elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorLayout<'a> {
    /// Their dtype.
    pub dtype: ScalarType,
    /// Extent of each dimension; of a tensor that may change, the largest extent.
    pub sizes: List<'a, usize>,
    /// The dimensions from the outermost in memory to the innermost, a permutation.
    pub dim_order: &'a [u8],
    /// Bytes that the sizes need.
    pub nbytes: usize,
}

/// Where the elements of a tensor are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TensorData<'a> {
    /// In the program: exactly as many bytes as the sizes need.
    Constant(&'a [u8]),
    /// In planned memory.
    Planned {
        /// The part of the memory.
        placement: Placement,
        /// What it holds at first, exactly as many bytes as the sizes need; zeros otherwise.
        initial: Option<&'a [u8]>,
    },
    /// In another file, or in the program's named data.
    External {
        /// The key, not empty.
        name: &'a str,
        /// Of a tensor that the method changes: the planned memory that starts as a copy.
        placement: Option<Placement>,
    },
    /// Nowhere until the method runs: an input, an output or a placeholder.
    Unplanned,
}

/// A part of planned memory; the bytes that the sizes need lie within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Which of [`MethodPlan::planned_buffer_sizes`]; the file counts from 1.
    pub memory_id: usize,
    /// Bytes from its start.
    pub offset: usize,
}

impl<'a> TensorMeta<'a> {
    pub(crate) fn read(plan: &MethodPlan<'a>, table: &Table<'a>) -> Read<Self> {
        if table.number::<i32>(TENSOR_STORAGE_OFFSET)? != 0 {
            let what = "a storage offset other than 0";
            return Err(TENSOR_STORAGE_OFFSET.fault(Fault::NotSupported { what }));
        }
        let layout = TensorLayout::read(table, &TENSOR_LAYOUT)?;
        let dynamism = match table.number::<u8>(TENSOR_SHAPE_DYNAMISM)? {
            0 => Dynamism::Static,
            1 => Dynamism::Bounded,
            2 => Dynamism::Unbounded,
            code => {
                let fault = Fault::UnknownCode { code: code.into() };
                return Err(TENSOR_SHAPE_DYNAMISM.fault(fault));
            }
        };
        let extra = match table.table(TENSOR_EXTRA_TENSOR_INFO)? {
            Some(extra) => Extra::read(&extra)?,
            None => Extra { external: false, name: None, mutable_segment: 0 },
        };
        let placement = match table.table(TENSOR_ALLOCATION_INFO)? {
            Some(allocation) => Some(Placement::read(plan, &allocation, layout.nbytes)?),
            None => None,
        };
        let index = table.number::<u32>(TENSOR_DATA_BUFFER_IDX)?;
        let len = layout.nbytes as u64;
        let data = match placement {
            placement if extra.external => {
                let name = extra.name.filter(|name| !name.is_empty());
                let name = EXTRA_FULLY_QUALIFIED_NAME.required(name)?;
                TensorData::External { name, placement }
            }
            Some(placement) if index > 0 => {
                let initial = plan.program().mutable_data(extra.mutable_segment, index, len)?;
                TensorData::Planned { placement, initial: Some(initial) }
            }
            Some(placement) => TensorData::Planned { placement, initial: None },
            None if index > 0 => TensorData::Constant(plan.program().constant(index, len)?),
            None => TensorData::Unplanned,
        };
        Ok(Self { layout, dynamism, data, fully_qualified_name: extra.name })
    }

    /// Whether its elements never change.
    pub fn is_constant(&self) -> bool {
        matches!(self.data, TensorData::Constant(_) | TensorData::External { placement: None, .. })
    }
}

/// The fields of a table that describe a layout.
pub(crate) struct LayoutFields {
    pub(crate) dtype: Field,
    pub(crate) sizes: Field,
    pub(crate) dim_order: Field,
}

const TENSOR_LAYOUT: LayoutFields =
    LayoutFields { dtype: TENSOR_SCALAR_TYPE, sizes: TENSOR_SIZES, dim_order: TENSOR_DIM_ORDER };

impl<'a> TensorLayout<'a> {
    pub(crate) fn read(table: &Table<'a>, fields: &LayoutFields) -> Read<Self> {
        let code = i64::from(table.number::<u8>(fields.dtype)?);
        let dtype = ScalarType::from_code(code);
        let dtype = dtype.ok_or(fields.dtype.fault(Fault::UnknownCode { code }))?;
        let sizes: List<'a, i32> = fields.sizes.required(table.list(fields.sizes)?)?;
        if sizes.len() > MAX_DIMS {
            return Err(fields.sizes.invalid("has more than 16 dimensions"));
        }
        let mut dims = Dims::filled(sizes.len(), 0);
        for (dim, size) in dims.iter_mut().zip(sizes.iter()) {
            *dim = usize::try_from(size).map_err(|_| fields.sizes.invalid("is negative"))?;
        }
        let nbytes = numel(&dims).and_then(|numel| numel.checked_mul(dtype.size()));
        let nbytes = nbytes.filter(|&nbytes| isize::try_from(nbytes).is_ok());
        let nbytes = nbytes.ok_or(fields.sizes.invalid("need more bytes than can be counted"))?;
        let dim_order = fields.dim_order.required(table.bytes(fields.dim_order)?)?;
        if !is_dim_order(dim_order, dims.len()) {
            return Err(fields.dim_order.invalid("is not a permutation of the dimensions"));
        }
        Ok(Self { dtype, sizes: sizes.convert(to_usize), dim_order, nbytes })
    }
}

impl Placement {
    fn read(plan: &MethodPlan<'_>, table: &Table<'_>, nbytes: usize) -> Read<Self> {
        let id = table.number::<u32>(ALLOCATION_MEMORY_ID)?;
        if id == 0 {
            return Err(ALLOCATION_MEMORY_ID.invalid("is 0, which is reserved"));
        }
        let id = ALLOCATION_MEMORY_ID.index(id, plan.buffer_sizes().len())? as usize;
        let limit = plan.buffer_sizes().get(id).and_then(|size| u64::try_from(size).ok());
        let limit = limit.unwrap_or_default();
        let low = table.number::<u32>(ALLOCATION_OFFSET_LOW)?;
        let high = table.number::<u32>(ALLOCATION_OFFSET_HIGH)?;
        let (start, len) = (u64::from(high) << 32 | u64::from(low), nbytes as u64);
        if start.checked_add(len).is_none_or(|end| end > limit) {
            return Err(ALLOCATION_OFFSET_LOW.fault(Fault::Range { start, len, limit }));
        }
        Ok(Self { memory_id: id - 1, offset: ALLOCATION_OFFSET_LOW.to_usize(start)? })
    }
}

/// What only some tensors have.
struct Extra<'a> {
    external: bool,
    name: Option<&'a str>,
    mutable_segment: u64,
}

impl<'a> Extra<'a> {
    fn read(table: &Table<'a>) -> Read<Self> {
        if table.number::<u8>(EXTRA_DEVICE_TYPE)? != 0 {
            let what = "a tensor in the memory of another device than the CPU";
            return Err(EXTRA_DEVICE_TYPE.fault(Fault::NotSupported { what }));
        }
        let external = match table.number::<u8>(EXTRA_LOCATION)? {
            0 => false,
            1 => true,
            code => {
                return Err(EXTRA_LOCATION.fault(Fault::UnknownCode { code: code.into() }));
            }
        };
        Ok(Self {
            external,
            name: table.name(EXTRA_FULLY_QUALIFIED_NAME)?,
            mutable_segment: table.number(EXTRA_MUTABLE_SEGMENTS_IDX)?,
        })
    }
}

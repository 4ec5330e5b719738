//! Tensors of a method: layout and storage.

use afferent_core::{Dims, Dynamism, MAX_DIMS, ScalarType, is_dim_order, numel};

use crate::{
    error::{ErrorKind, FieldResult},
    plan::MethodPlan,
    schema::*,
};
use afferent_flatbuffer::{Field, Table, Vector, to_usize};

/// Tensor of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorMeta<'a> {
    /// Dtype, sizes and dim order.
    pub layout: TensorLayout<'a>,
    /// Static, bounded or unbounded sizes.
    pub dynamism: Dynamism,
    /// Storage of the elements.
    pub data: TensorData<'a>,
    /// Name in the exported module, if the exporter recorded it.
    pub fully_qualified_name: Option<&'a str>,
}

/// Layout of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorLayout<'a> {
    /// Element type.
    pub dtype: ScalarType,
    /// Size of each dimension; the maximum size if the tensor is dynamic.
    pub sizes: Vector<'a, usize>,
    /// Permutation of the dimensions, outermost in memory first.
    pub dim_order: &'a [u8],
    /// Size of the data in bytes.
    pub nbytes: usize,
}

/// Storage of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TensorData<'a> {
    /// Data in the program, exactly `nbytes` bytes.
    Constant(&'a [u8]),
    /// Planned memory.
    Planned {
        /// Location in planned memory.
        allocation: Allocation,
        /// Initial value, exactly `nbytes` bytes; `None` for zeros.
        initial: Option<&'a [u8]>,
    },
    /// External data, or named data of the program.
    External {
        /// Key, not empty.
        name: &'a str,
        /// Planned memory of a mutable tensor; it is initialized with a copy of the data.
        allocation: Option<Allocation>,
    },
    /// No storage before the method runs: an input, an output or a placeholder.
    Unplanned,
}

/// Location of a tensor in planned memory, as ExecuTorch `AllocationDetails`.
///
/// All bytes of the tensor are within the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Index in [`MethodPlan::planned_buffer_sizes`], which is the `memory_id` of the file minus 1.
    pub buffer_index: usize,
    /// Offset in the buffer, in bytes.
    pub offset: usize,
}

impl<'a> TensorMeta<'a> {
    pub(crate) fn read(plan: &MethodPlan<'a>, table: &Table<'a>) -> FieldResult<Self> {
        if table.scalar::<i32>(TENSOR_STORAGE_OFFSET)? != 0 {
            let feature = "a storage offset other than 0";
            return Err(TENSOR_STORAGE_OFFSET.error(ErrorKind::NotSupported { feature }));
        }
        let layout = TensorLayout::read(table, &TENSOR_LAYOUT)?;
        let dynamism = match table.scalar::<u8>(TENSOR_SHAPE_DYNAMISM)? {
            0 => Dynamism::Static,
            1 => Dynamism::Bounded,
            2 => Dynamism::Unbounded,
            code => {
                let kind = ErrorKind::UnknownCode { code: code.into() };
                return Err(TENSOR_SHAPE_DYNAMISM.error(kind));
            }
        };
        let extra = match table.table(TENSOR_EXTRA_TENSOR_INFO)? {
            Some(extra) => ExtraInfo::read(&extra)?,
            None => ExtraInfo { is_external: false, name: None, mutable_segment: 0 },
        };
        let allocation = match table.table(TENSOR_ALLOCATION_INFO)? {
            Some(allocation) => Some(Allocation::read(plan, &allocation, layout.nbytes)?),
            None => None,
        };
        let index = table.scalar::<u32>(TENSOR_DATA_BUFFER_IDX)?;
        let len = layout.nbytes as u64;
        let data = match allocation {
            allocation if extra.is_external => {
                let name = extra.name.filter(|name| !name.is_empty());
                let name = EXTRA_FULLY_QUALIFIED_NAME.required(name)?;
                TensorData::External { name, allocation }
            }
            Some(allocation) if index > 0 => {
                let initial = plan.program().mutable_data(extra.mutable_segment, index, len)?;
                TensorData::Planned { allocation, initial: Some(initial) }
            }
            Some(allocation) => TensorData::Planned { allocation, initial: None },
            None if index > 0 => TensorData::Constant(plan.program().constant(index, len)?),
            None => TensorData::Unplanned,
        };
        Ok(Self { layout, dynamism, data, fully_qualified_name: extra.name })
    }

    /// True if the elements never change.
    pub fn is_constant(&self) -> bool {
        matches!(self.data, TensorData::Constant(_) | TensorData::External { allocation: None, .. })
    }
}

/// Fields of a table that describe a layout.
pub(crate) struct LayoutFields {
    pub(crate) dtype: Field,
    pub(crate) sizes: Field,
    pub(crate) dim_order: Field,
}

const TENSOR_LAYOUT: LayoutFields =
    LayoutFields { dtype: TENSOR_SCALAR_TYPE, sizes: TENSOR_SIZES, dim_order: TENSOR_DIM_ORDER };

impl<'a> TensorLayout<'a> {
    pub(crate) fn read(table: &Table<'a>, fields: &LayoutFields) -> FieldResult<Self> {
        let code = i64::from(table.scalar::<u8>(fields.dtype)?);
        let dtype = ScalarType::from_code(code);
        let dtype = dtype.ok_or(fields.dtype.error(ErrorKind::UnknownCode { code }))?;
        let sizes: Vector<'a, i32> = fields.sizes.required(table.vector(fields.sizes)?)?;
        if sizes.len() > MAX_DIMS {
            return Err(fields.sizes.invalid("has more than 16 dimensions"));
        }
        let mut dims = Dims::filled(sizes.len(), 0);
        for (dim, size) in dims.iter_mut().zip(sizes.iter()) {
            *dim = usize::try_from(size).map_err(|_| fields.sizes.invalid("is negative"))?;
        }
        let nbytes = numel(&dims).and_then(|numel| numel.checked_mul(dtype.size()));
        let nbytes = nbytes.filter(|&nbytes| isize::try_from(nbytes).is_ok());
        let nbytes = nbytes.ok_or(fields.sizes.invalid("exceeds the address space"))?;
        let dim_order = fields.dim_order.required(table.bytes(fields.dim_order)?)?;
        if !is_dim_order(dim_order, dims.len()) {
            return Err(fields.dim_order.invalid("is not a permutation of the dimensions"));
        }
        Ok(Self { dtype, sizes: sizes.convert(to_usize), dim_order, nbytes })
    }
}

impl Allocation {
    fn read(plan: &MethodPlan<'_>, table: &Table<'_>, nbytes: usize) -> FieldResult<Self> {
        let id = table.scalar::<u32>(ALLOCATION_MEMORY_ID)?;
        if id == 0 {
            return Err(ALLOCATION_MEMORY_ID.invalid("is 0, which is reserved"));
        }
        let id = ALLOCATION_MEMORY_ID.index(id, plan.buffer_sizes().len())? as usize;
        let limit = plan.buffer_sizes().get(id).and_then(|size| u64::try_from(size).ok());
        let limit = limit.unwrap_or_default();
        let low = table.scalar::<u32>(ALLOCATION_OFFSET_LOW)?;
        let high = table.scalar::<u32>(ALLOCATION_OFFSET_HIGH)?;
        let (start, len) = (u64::from(high) << 32 | u64::from(low), nbytes as u64);
        if start.checked_add(len).is_none_or(|end| end > limit) {
            return Err(ALLOCATION_OFFSET_LOW.error(ErrorKind::RangeOutOfBounds {
                start,
                len,
                limit,
            }));
        }
        Ok(Self { buffer_index: id - 1, offset: ALLOCATION_OFFSET_LOW.to_usize(start)? })
    }
}

/// Checks an ExecuTorch `DeviceType`: CPU or CUDA.
///
/// The executor plans memory of every device on the host, and a delegate decides where the elements
/// are. So the device of a tensor changes nothing.
pub(crate) fn check_device(field: Field, code: u8) -> FieldResult<()> {
    match code {
        0 | 1 => Ok(()),
        code => Err(field.error(ErrorKind::UnknownCode { code: code.into() })),
    }
}

/// ExecuTorch `ExtraTensorInfo`.
struct ExtraInfo<'a> {
    is_external: bool,
    name: Option<&'a str>,
    mutable_segment: u64,
}

impl<'a> ExtraInfo<'a> {
    fn read(table: &Table<'a>) -> FieldResult<Self> {
        check_device(EXTRA_DEVICE_TYPE, table.scalar(EXTRA_DEVICE_TYPE)?)?;
        let is_external = match table.scalar::<u8>(EXTRA_LOCATION)? {
            0 => false,
            1 => true,
            code => {
                return Err(EXTRA_LOCATION.error(ErrorKind::UnknownCode { code: code.into() }));
            }
        };
        Ok(Self {
            is_external,
            name: table.name(EXTRA_FULLY_QUALIFIED_NAME)?,
            mutable_segment: table.scalar(EXTRA_MUTABLE_SEGMENTS_IDX)?,
        })
    }
}

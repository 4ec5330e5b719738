//! Tensors to NumPy arrays and back.

use std::borrow::Cow;

use afferent_core::{Dims, ScalarType, Tensor, TensorView};
use afferent_runtime::Input;
use bytemuck::{NoUninit, Pod};
use half::{bf16, f16};
use numpy::{
    Element, IxDyn, PyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyTuple},
};

use crate::error;

/// Memory that arrays of NumPy use without a copy: NumPy keeps the object as long as there is one.
#[pyclass(frozen, module = "afferent")]
pub(crate) struct Memory {
    /// Owner of the bytes.
    _holder: Box<dyn Send + Sync>,
    /// Address of the first byte.
    address: usize,
    shape: Vec<usize>,
    /// Bytes from one element to the next, of each dimension.
    strides: Vec<usize>,
    /// Type of the elements, as NumPy writes it.
    element: Cow<'static, str>,
    is_writable: bool,
}

impl Memory {
    /// Elements at `address` to read, which `holder` keeps.
    pub(crate) fn new(
        holder: Box<dyn Send + Sync>,
        address: *const u8,
        (shape, strides): (Vec<usize>, Vec<usize>),
        element: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (address, element) = (address as usize, element.into());
        Self { _holder: holder, address, shape, strides, element, is_writable: false }
    }

    /// The same memory, for arrays that may be written to.
    pub(crate) fn writable(self) -> Self {
        Self { is_writable: true, ..self }
    }

    /// Array over the memory.
    pub(crate) fn into_array(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let memory = Bound::new(py, self)?;
        py.import("numpy")?.call_method1("asarray", (memory,))
    }
}

#[pymethods]
impl Memory {
    /// Description of the memory, by the array interface of NumPy, version 3.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("version", 3)?;
        dict.set_item("data", (self.address, !self.is_writable))?;
        dict.set_item("typestr", &*self.element)?;
        dict.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        dict.set_item("strides", PyTuple::new(py, &self.strides)?)?;
        Ok(dict)
    }
}

/// Name of the type of NumPy arrays that hold elements of `dtype`; `None` if there is none.
pub(crate) fn numpy_name(dtype: ScalarType) -> Option<&'static str> {
    Some(match dtype {
        ScalarType::Byte => "uint8",
        ScalarType::Char => "int8",
        ScalarType::Short => "int16",
        ScalarType::Int => "int32",
        ScalarType::Long => "int64",
        ScalarType::Half => "float16",
        ScalarType::Float => "float32",
        ScalarType::Double => "float64",
        ScalarType::Bool => "bool",
        ScalarType::UInt16 => "uint16",
        ScalarType::UInt32 => "uint32",
        ScalarType::UInt64 => "uint64",
        // NumPy has no such type.
        ScalarType::BFloat16 => "float32",
        _ => return None,
    })
}

/// A new array with the elements of `view`. Elements of bfloat16 become float32, which is exact.
pub(crate) fn copied<'py>(py: Python<'py>, view: &TensorView<'_>) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! copy {
        ($($dtype:ident => $element:ty,)*) => {
            match view.dtype() {
                $(ScalarType::$dtype => copied_as::<$element>(py, view),)*
                ScalarType::BFloat16 => widened(py, view),
                ScalarType::Bool => copied_as::<u8>(py, view)?.call_method1("view", ("bool",)),
                other => Err(error::argument(format!("NumPy has no arrays of {other}"))),
            }
        };
    }
    copy! {
        Byte => u8,
        Char => i8,
        Short => i16,
        Int => i32,
        Long => i64,
        Half => f16,
        Float => f32,
        Double => f64,
        UInt16 => u16,
        UInt32 => u32,
        UInt64 => u64,
    }
}

fn copied_as<'py, T: Element + Pod>(
    py: Python<'py>,
    view: &TensorView<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let elements = match bytemuck::try_cast_slice::<u8, T>(view.bytes()) {
        Ok(elements) => PyArray::from_slice(py, elements),
        Err(_) => PyArray::from_vec(py, bytemuck::pod_collect_to_vec(view.bytes())),
    };
    shaped(py, elements.to_dyn(), view)
}

fn widened<'py>(py: Python<'py>, view: &TensorView<'_>) -> PyResult<Bound<'py, PyAny>> {
    let elements: Vec<bf16> = bytemuck::pod_collect_to_vec(view.bytes());
    let elements = PyArray::from_iter(py, elements.into_iter().map(bf16::to_f32));
    shaped(py, elements.to_dyn(), view)
}

/// Gives elements in memory order the sizes and the dim order of `view`.
fn shaped<'py, T: Element>(
    py: Python<'py>,
    elements: &Bound<'py, PyArrayDyn<T>>,
    view: &TensorView<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let order = view.dim_order();
    let in_memory: Vec<usize> = order.iter().map(|dim| view.sizes()[usize::from(*dim)]).collect();
    let array = elements.reshape(IxDyn(&in_memory))?;
    if view.is_contiguous() {
        return Ok(array.into_any());
    }
    let mut axes = vec![0; order.len()];
    order.iter().enumerate().for_each(|(position, dim)| axes[usize::from(*dim)] = position);
    array.call_method1("transpose", (PyTuple::new(py, axes)?,))
}

/// Argument of a call of a model.
pub(crate) enum Argument<'py> {
    U8(PyReadonlyArrayDyn<'py, u8>),
    I8(PyReadonlyArrayDyn<'py, i8>),
    I16(PyReadonlyArrayDyn<'py, i16>),
    I32(PyReadonlyArrayDyn<'py, i32>),
    I64(PyReadonlyArrayDyn<'py, i64>),
    F16(PyReadonlyArrayDyn<'py, f16>),
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
    Bool(PyReadonlyArrayDyn<'py, bool>),
    U16(PyReadonlyArrayDyn<'py, u16>),
    U32(PyReadonlyArrayDyn<'py, u32>),
    U64(PyReadonlyArrayDyn<'py, u64>),
    /// A tensor that NumPy has no type for, with converted elements.
    Converted(Tensor),
    /// Not a tensor.
    Scalar(Input<'static>),
}

macro_rules! each_array {
    ($argument:expr, $array:ident => $then:expr, $($rest:tt)*) => {
        match $argument {
            Argument::U8($array) => $then,
            Argument::I8($array) => $then,
            Argument::I16($array) => $then,
            Argument::I32($array) => $then,
            Argument::I64($array) => $then,
            Argument::F16($array) => $then,
            Argument::F32($array) => $then,
            Argument::F64($array) => $then,
            Argument::Bool($array) => $then,
            Argument::U16($array) => $then,
            Argument::U32($array) => $then,
            Argument::U64($array) => $then,
            $($rest)*
        }
    };
}

impl<'py> Argument<'py> {
    /// Reads `value`, which an input of type `wanted` takes: an array, an object that NumPy makes an
    /// array of, a number, or `None`. An array that is not contiguous is copied.
    pub(crate) fn read(value: &Bound<'py, PyAny>, wanted: Option<ScalarType>) -> PyResult<Self> {
        if wanted.is_none() {
            return scalar(value).map(Self::Scalar);
        }
        let array = match value.cast::<PyUntypedArray>() {
            Ok(array) => array.clone(),
            Err(_) => array_of(value, wanted)?,
        };
        let array = match array.is_c_contiguous() {
            true => array,
            false => array.call_method1("copy", ("C",))?.cast_into()?,
        };
        Self::of_array(&array, wanted)
    }

    fn of_array(array: &Bound<'py, PyUntypedArray>, wanted: Option<ScalarType>) -> PyResult<Self> {
        macro_rules! typed {
            ($($variant:ident: $element:ty,)*) => {
                $(if let Ok(array) = array.cast::<PyArrayDyn<$element>>() {
                    return Ok(Self::$variant(array.try_readonly()?));
                })*
            };
        }
        if wanted == Some(ScalarType::BFloat16)
            && let Ok(array) = array.cast::<PyArrayDyn<f32>>()
        {
            return narrowed(&array.try_readonly()?).map(Self::Converted);
        }
        typed! {
            F32: f32,
            I64: i64,
            U8: u8,
            F64: f64,
            I32: i32,
            Bool: bool,
            F16: f16,
            I8: i8,
            I16: i16,
            U16: u16,
            U32: u32,
            U64: u64,
        }
        Err(error::argument(format!("an array of {} cannot be a tensor", array.dtype())))
    }

    /// Input of a run.
    pub(crate) fn input(&self) -> PyResult<Input<'_>> {
        each_array!(self, array => view(array).map(Input::Tensor),
            Self::Converted(tensor) => Ok(Input::Tensor(tensor.view())),
            Self::Scalar(input) => Ok(*input),
        )
    }

    /// Elements in memory order; `None` if there are none.
    pub(crate) fn bytes(&self) -> PyResult<&[u8]> {
        each_array!(self, array => Ok(bytemuck::cast_slice(array.as_slice()?)),
            Self::Converted(tensor) => Ok(tensor.view().bytes()),
            Self::Scalar(_) => Err(error::argument("a number is not an array")),
        )
    }

    /// Sizes of the array.
    pub(crate) fn sizes(&self) -> &[usize] {
        each_array!(self, array => array.shape(),
            Self::Converted(tensor) => tensor.sizes(),
            Self::Scalar(_) => &[],
        )
    }
}

/// An array with the elements of `value`. A list of Python, which has no type of its own, gets the
/// type `wanted`.
fn array_of<'py>(
    value: &Bound<'py, PyAny>,
    wanted: Option<ScalarType>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let numpy = value.py().import("numpy")?;
    let ty = wanted.and_then(numpy_name).filter(|_| !value.hasattr("dtype").unwrap_or(false));
    Ok(numpy.call_method1("asarray", (value, ty))?.cast_into()?)
}

/// Types of the elements of tensors that NumPy has, too.
trait Typed: Element + NoUninit {
    const DTYPE: ScalarType;
}

macro_rules! typed {
    ($($element:ty => $dtype:ident),*) => {
        $(impl Typed for $element {
            const DTYPE: ScalarType = ScalarType::$dtype;
        })*
    };
}

typed!(u8 => Byte, i8 => Char, i16 => Short, i32 => Int, i64 => Long, f16 => Half, f32 => Float,
    f64 => Double, bool => Bool, u16 => UInt16, u32 => UInt32, u64 => UInt64);

fn view<'a, T: Typed>(array: &'a PyReadonlyArrayDyn<'_, T>) -> PyResult<TensorView<'a>> {
    let bytes = bytemuck::cast_slice(array.as_slice()?);
    TensorView::from_bytes(T::DTYPE, array.shape(), bytes).map_err(error::argument)
}

/// Elements of float32 rounded to bfloat16, ties to even.
fn narrowed(array: &PyReadonlyArrayDyn<'_, f32>) -> PyResult<Tensor> {
    let elements = array.as_slice()?.iter();
    let elements: Vec<u8> =
        elements.flat_map(|value| bf16::from_f32(*value).to_bits().to_ne_bytes()).collect();
    let order: Vec<u8> = (0..array.ndim()).map(|dim| dim as u8).collect();
    Tensor::from_bytes(ScalarType::BFloat16, array.shape(), &order, &elements)
        .map_err(error::argument)
}

/// Reads a number or `None`.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<Input<'static>> {
    if value.is_none() {
        return Ok(Input::None);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Input::Bool(value.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Input::Int(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Input::Double(value.extract()?));
    }
    let ty = value.get_type().name()?;
    Err(error::argument(format!("a {ty}, but the method takes a number or None here")))
}

/// Bytes from one element to the next of an array in `dim_order`.
pub(crate) fn strides(shape: &[usize], dim_order: &[u8], element: usize) -> Vec<usize> {
    Dims::strides(shape, dim_order).iter().map(|stride| stride * element).collect()
}

//! Packets as Python objects.

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Mutex, OnceLock},
};

use afferent_core::{AlignedBytes, CONTIGUOUS_DIM_ORDER};
use afferent_graph::{AnyPayload, Dynamic, Header, Packet, PayloadType, Timestamp, WireCodec};
use afferent_messages::{PAYLOADS, payload_type};
use pyo3::{
    exceptions::PyAttributeError,
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{
    array::{Argument, Memory, strides},
    error, fields,
    layout::{Layout, Scalar},
    lock,
};

/// A payload type with its fields.
pub(crate) struct Described {
    pub(crate) ty: &'static PayloadType,
    pub(crate) wire: &'static dyn WireCodec,
    pub(crate) layout: Layout,
}

/// The payload type `name`.
pub(crate) fn described(name: &str) -> Option<&'static Described> {
    static ALL: OnceLock<BTreeMap<&'static str, Described>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let described = |ty: &'static PayloadType| {
            let wire = ty.wire?;
            let layout = Layout::parse(&wire.layout()).ok()?;
            Some((&*ty.name, Described { ty, wire, layout }))
        };
        PAYLOADS.iter().filter_map(described).collect()
    });
    all.get(name)
}

/// The payload type `name`, or an error with those that exist.
pub(crate) fn need(name: &str) -> PyResult<&'static Described> {
    let ty = payload_type(name).map_err(error::message)?;
    described(&ty.name).ok_or_else(|| error::message(format!("{name} has no fields for Python")))
}

/// Names of the payload types, with the definitions of their fields.
#[pyfunction]
pub(crate) fn payload_types(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for ty in PAYLOADS {
        let Some(wire) = ty.wire else { continue };
        let layout = wire.layout();
        let (_, definition) = layout.split_once('\n').unwrap_or_default();
        dict.set_item(&ty.name, definition)?;
    }
    Ok(dict)
}

/// A value with its timestamp. The fields of its type are attributes; `data` is the array of its
/// samples, pixels or rows, if it has one, without a copy and read-only.
#[pyclass(frozen, module = "afferent")]
pub(crate) struct Message {
    packet: Packet,
    fields: Mutex<Option<Py<PyDict>>>,
}

#[pymethods]
impl Message {
    /// A message of the payload type `type`. `data` are its samples, pixels or rows, `at` its
    /// timestamp in seconds. Fields that are not given are zero or empty.
    #[new]
    #[pyo3(signature = (r#type, *, at=None, data=None, **values))]
    fn new(
        r#type: &str,
        at: Option<f64>,
        data: Option<Bound<'_, PyAny>>,
        values: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let described = need(r#type)?;
        let header = Header { at: seconds(at.unwrap_or(0.0)), ..Header::default() };
        let parts = Parts::new(described, data.as_ref(), values)?;
        let bulk = AlignedBytes::from(parts.bulk()?).into();
        let packet = described.wire.decode(&parts.meta, bulk, header).map_err(error::message)?;
        Ok(Self::from(packet))
    }

    /// Payload type, such as "text/Text".
    #[getter]
    fn r#type(&self) -> String {
        self.type_name()
    }

    /// Timestamp in seconds since the start of the session.
    #[getter]
    fn at(&self) -> f64 {
        self.packet.header.at.0 as f64 / 1e9
    }

    /// Timestamp in nanoseconds since the start of the session.
    #[getter]
    fn at_ns(&self) -> i64 {
        self.packet.header.at.0
    }

    /// Sequence number in its stream.
    #[getter]
    fn sequence(&self) -> u64 {
        self.packet.header.sequence
    }

    /// Samples, pixels or rows as a read-only array that borrows the memory of the packet; None if
    /// the type has none. Hold it as long as you like; copy it to change it. Images in `nv12` and `i420`,
    /// whose planes differ in size, are their bytes.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let none = || Ok(py.None().into_bound(py));
        let Some(payload) = self.payload() else { return none() };
        if let Some(dynamic) = (payload as &dyn Any).downcast_ref::<Dynamic>() {
            return Ok(pyo3::types::PyBytes::new(py, &dynamic.bytes).into_any());
        }
        let Some(described) = described(payload.type_name()) else { return none() };
        let Some((_, scalar)) = &described.layout.bulk else { return none() };
        let bulk = described.wire.encode(payload, &mut Vec::new()).map_err(error::message)?;
        let (shape, strides) = shape(&self.fields(py)?, bulk.len(), *scalar)?;
        let element = match pixels(&self.fields(py)?)? {
            Some(Pixels { element, .. }) => element,
            None => scalar.numpy(),
        };
        let address = bulk.as_ptr();
        let holder = Box::new(self.packet.share());
        Memory::new(holder, address, (shape, strides), element).into_array(py)
    }

    /// All fields, as a dict.
    #[pyo3(name = "fields")]
    fn all_fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.fields(py)?.copy()
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let fields = self.fields(py)?;
        fields.get_item(name)?.ok_or_else(|| {
            let known: Vec<_> = fields.keys().iter().map(|key| key.to_string()).collect();
            let (ty, known) = (self.type_name(), known.join(", "));
            PyAttributeError::new_err(format!("{ty} has no field {name:?}; it has {known}"))
        })
    }

    fn __dir__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = PyList::new(py, ["type", "at", "at_ns", "sequence", "data", "fields"])?;
        self.fields(py)?.keys().iter().try_for_each(|name| names.append(name))?;
        Ok(names)
    }

    fn __repr__(&self) -> String {
        let fields = self.payload().map(AnyPayload::fields).unwrap_or_default();
        let fields: String = fields
            .iter()
            .map(|(name, value)| {
                format!(", {name}={}", serde_json::to_string(value).unwrap_or_default())
            })
            .collect();
        format!("Message({:?}, at={}{fields})", self.type_name(), self.at())
    }
}

impl From<Packet> for Message {
    fn from(packet: Packet) -> Self {
        Self { packet, fields: Mutex::new(None) }
    }
}

impl Message {
    pub(crate) fn packet(&self) -> &Packet {
        &self.packet
    }

    pub(crate) fn type_name(&self) -> String {
        self.payload().map_or(String::new(), |payload| payload.type_name().to_owned())
    }

    fn payload(&self) -> Option<&dyn AnyPayload> {
        self.packet.payload()
    }

    /// The fields, which are read once.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(fields) = &*lock(&self.fields) {
            return Ok(fields.bind(py).clone());
        }
        let Some(payload) = self.payload() else { return Ok(PyDict::new(py)) };
        let Some(described) = described(payload.type_name()) else { return Ok(PyDict::new(py)) };
        let mut meta = Vec::new();
        described.wire.encode(payload, &mut meta).map_err(error::message)?;
        let fields = fields::read(py, &described.layout, &meta)?;
        *lock(&self.fields) = Some(fields.clone().unbind());
        Ok(fields)
    }
}

/// Metadata and bulk bytes of a new message.
pub(crate) struct Parts<'py> {
    pub(crate) meta: Vec<u8>,
    data: Option<Argument<'py>>,
}

impl<'py> Parts<'py> {
    pub(crate) fn new(
        described: &Described,
        data: Option<&Bound<'py, PyAny>>,
        values: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let Described { ty, layout, .. } = described;
        let Some(data) = data else {
            let meta = Python::attach(|py| {
                fields::write(layout, &values.unwrap_or_else(|| PyDict::new(py)))
            })?;
            return Ok(Self { meta, data: None });
        };
        let Some((name, _)) = &layout.bulk else {
            return Err(error::message(format!("{} has no data, only fields", ty.name)));
        };
        let py = data.py();
        let values = values.unwrap_or_else(|| PyDict::new(py));
        let data = Argument::read(data, Some(afferent_core::ScalarType::Float))?;
        let sizes = data.sizes();
        let has = |name: &str| layout.fields.iter().any(|field| field.name == name);
        let set = |name: &str, value: Bound<'py, PyAny>| match values.contains(name)? {
            true => Ok(()),
            false => values.set_item(name, value),
        };
        if has("row_stride") {
            let [height, width, ..] = *sizes else {
                return Err(error::message(format!("{name}: pixels are an array of rows")));
            };
            let bytes = data.bytes()?.len();
            set("height", height.into_pyobject(py)?.into_any())?;
            set("width", width.into_pyobject(py)?.into_any())?;
            let stride = bytes.checked_div(height).unwrap_or(0);
            set("row_stride", stride.into_pyobject(py)?.into_any())?;
        } else if has("sizes") {
            set("sizes", sizes.into_pyobject(py)?.into_any())?;
        }
        if has("dim_order") {
            set("dim_order", [0_u8, 1].into_pyobject(py)?.into_any())?;
        }
        Ok(Self { meta: fields::write(layout, &values)?, data: Some(data) })
    }

    /// The bulk bytes.
    pub(crate) fn bulk(&self) -> PyResult<&[u8]> {
        self.data.as_ref().map_or(Ok(&[]), Argument::bytes)
    }
}

/// Time of `seconds` since the start of the session.
pub(crate) fn seconds(seconds: f64) -> Timestamp {
    Timestamp((seconds * 1e9).round() as i64)
}

/// Sizes of an array over bulk bytes, and the bytes from one element to the next.
fn shape(
    fields: &Bound<'_, PyDict>,
    bytes: usize,
    scalar: Scalar,
) -> PyResult<(Vec<usize>, Vec<usize>)> {
    let get = |name: &str| fields.get_item(name);
    if let Some(Pixels { element, channels }) = pixels(fields)? {
        let need =
            |name: &str| -> PyResult<usize> { get(name)?.map_or(Ok(0), |value| value.extract()) };
        let (width, height, stride) = (need("width")?, need("height")?, need("row_stride")?);
        let size: usize = element[2..].parse().unwrap_or(1);
        return Ok(match channels {
            1 => (vec![height, width], vec![stride, size]),
            channels => (vec![height, width, channels], vec![stride, channels * size, size]),
        });
    }
    if let Some(sizes) = get("sizes")? {
        let sizes: Vec<usize> = sizes.extract()?;
        let strides = match get("dim_order")? {
            Some(order) => strides(&sizes, &order.extract::<Vec<u8>>()?, scalar.size()),
            None => strides(&sizes, &CONTIGUOUS_DIM_ORDER, scalar.size()),
        };
        return Ok((sizes, strides));
    }
    Ok((vec![bytes / scalar.size()], vec![scalar.size()]))
}

/// Elements of the pixels of an image.
struct Pixels {
    /// Type of an element, as NumPy writes it.
    element: &'static str,
    channels: usize,
}

/// Elements of the pixels, of an image whose format has the same elements for each pixel.
fn pixels(fields: &Bound<'_, PyDict>) -> PyResult<Option<Pixels>> {
    let (Some(format), true) = (fields.get_item("format")?, fields.contains("row_stride")?) else {
        return Ok(None);
    };
    let format: String = format.extract()?;
    let (element, channels) = match format.as_str() {
        "mono8" => ("|u1", 1),
        "rgb8" | "bgr8" => ("|u1", 3),
        "rgba8" => ("|u1", 4),
        "mono16" | "16UC1" => ("<u2", 1),
        "32FC1" => ("<f4", 1),
        "yuyv" | "uyvy" => ("|u1", 2),
        _ => return Ok(None),
    };
    Ok(Some(Pixels { element, channels }))
}

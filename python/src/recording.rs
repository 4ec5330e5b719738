//! Streams of recordings.

use std::path::PathBuf;

use afferent_graph::Codec;
use afferent_messages::PAYLOADS;
use afferent_record::Recording as RecordedFile;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{error, message::Message};

/// An MCAP file that `afferent run --record` wrote.
#[pyclass(frozen, module = "afferent")]
pub(crate) struct Recording(RecordedFile);

#[pymethods]
impl Recording {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| RecordedFile::open(&path)).map(Self).map_err(error::recording)
    }

    /// The streams: `{"node.output": {"type": ..., "packets": ..., "last": seconds}}`. The type is None
    /// for messages that are not payloads of this package.
    #[getter]
    fn streams<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for stream in self.0.streams() {
            let item = PyDict::new(py);
            let ty = codec(&stream.message).map(|(ty, _)| ty);
            item.set_item("type", ty)?;
            item.set_item("message", &stream.message)?;
            item.set_item("packets", stream.packets)?;
            item.set_item("last", stream.last.0 as f64 / 1e9)?;
            dict.set_item(format!("{}.{}", stream.node, stream.output), item)?;
        }
        Ok(dict)
    }

    /// Why the file ends too early; None if it is complete.
    #[getter]
    fn cut(&self) -> Option<String> {
        self.0.cut().map(str::to_owned)
    }

    /// Messages of the stream `node.output`, in the order of the file; at most `limit`.
    #[pyo3(signature = (stream, *, limit=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        stream: &str,
        limit: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let found = stream
            .split_once('.')
            .and_then(|(node, output)| self.0.stream(node, output))
            .ok_or_else(|| self.unknown(stream))?;
        let (_, codec) = codec(&found.message).ok_or_else(|| {
            error::recording(format!(
                "stream {stream} holds {}, which is no payload of this package",
                found.message
            ))
        })?;
        let limit = limit.unwrap_or(usize::MAX);
        let mut packets = Vec::new();
        if limit > 0 {
            py.detach(|| {
                self.0.read((&found.node, &found.output), codec, |packet| {
                    packets.push(packet);
                    packets.len() < limit
                })
            })
            .map_err(error::recording)?;
        }
        let messages = packets.into_iter().map(|packet| Py::new(py, Message::from(packet)));
        PyList::new(py, messages.collect::<PyResult<Vec<_>>>()?)
    }

    fn __repr__(&self) -> String {
        let path = self.0.path().display().to_string();
        format!("Recording({path:?}, {} streams)", self.0.streams().len())
    }
}

impl Recording {
    fn unknown(&self, stream: &str) -> PyErr {
        let known = self.0.streams().iter();
        let known: Vec<_> =
            known.map(|stream| format!("{}.{}", stream.node, stream.output)).collect();
        error::recording(format!("there is no stream {stream:?}; there are {}", known.join(", ")))
    }
}

/// Name and codec of the payload type that is recorded as `message`.
fn codec(message: &str) -> Option<(&'static str, Codec)> {
    PAYLOADS.iter().find_map(|ty| {
        let codec = ty.record.filter(|codec| codec.message() == message)?;
        Some((&*ty.name, codec))
    })
}

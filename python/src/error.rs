//! Errors as Python exceptions, which `afferent/errors.py` declares.

use std::fmt::Display;

use afferent_engine::RunError;
use afferent_package::PackageError;
use afferent_runtime::ModelError;
use afferent_spec::{Diagnostics, Severity};
use afferent_text::TextError;
use pyo3::{prelude::*, types::PyDict};

/// Exception `class` of `afferent.errors` with the message `error`.
fn raise(class: &str, error: impl Display, code: &str) -> PyErr {
    Python::attach(|py| {
        let create = || {
            let class = py.import("afferent.errors")?.getattr(class)?;
            class.call1((error.to_string(), code))
        };
        create().map_or_else(|error| error, |value| PyErr::from_value(value))
    })
}

/// Name of a variant of an error: `MethodMissing` of `MethodMissing { .. }`.
fn code(error: &impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(|character| character.is_ascii_alphanumeric()).collect()
}

pub(crate) fn model(error: &ModelError) -> PyErr {
    raise("ModelError", error, &code(error))
}

pub(crate) fn package(error: &PackageError) -> PyErr {
    raise("ModelError", error, &code(error))
}

pub(crate) fn text(error: &TextError) -> PyErr {
    raise("ModelError", error, &code(error))
}

/// A wrong argument of a model.
pub(crate) fn argument(error: impl Display) -> PyErr {
    raise("ArgumentError", error, "Argument")
}

pub(crate) fn run(error: &RunError) -> PyErr {
    raise("RunError", error, &code(error))
}

pub(crate) fn recording(error: impl Display) -> PyErr {
    raise("RecordingError", error, "Recording")
}

pub(crate) fn message(error: impl Display) -> PyErr {
    raise("MessageError", error, "Message")
}

/// An exception with every fault of a graph.
pub(crate) fn graph(faults: &Diagnostics) -> PyErr {
    Python::attach(|py| {
        let create = || {
            let mut list = Vec::new();
            for fault in faults.iter() {
                let item = PyDict::new(py);
                let is_error = fault.severity == Severity::Error;
                item.set_item("severity", if is_error { "error" } else { "warning" })?;
                item.set_item("message", &fault.message)?;
                item.set_item("help", &fault.help)?;
                let location = fault.location.as_ref();
                item.set_item("file", location.map(|location| location.file()))?;
                item.set_item("line", location.map(|location| location.line()))?;
                item.set_item("column", location.map(|location| location.column()))?;
                list.push(item);
            }
            let class = py.import("afferent.errors")?.getattr("GraphError")?;
            class.call1((faults.render(false), list))
        };
        create().map_or_else(|error| error, |value| PyErr::from_value(value))
    })
}

//! Python module `afferent._afferent`, which the Python package `afferent` builds on.
//!
//! Begin with `model.rs`, and `message.rs`, which makes Python objects of packets.
//!
//! | module | holds |
//! |---|---|
//! | `array` | tensors to NumPy arrays and back |
//! | `error` | errors as Python exceptions |
//! | `layout` | the fields of a payload type, from the text that describes its wire form |
//! | `fields` | these fields as Python values, from and to CDR |
//! | `message` | packets as Python objects |
//! | `model` | programs and packages |
//! | `language_model` | tokenizers and text generation |
//! | `graph` | graphs, running graphs, and the streams that a program reads |
//! | `recording` | streams of recordings |
//! | `node_process` | the process of a node written in Python |

mod array;
mod error;
mod fields;
mod graph;
mod language_model;
mod layout;
mod message;
mod model;
mod node_process;
mod recording;

use std::sync::{
    OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use afferent::App;
use pyo3::prelude::*;

/// The program whose nodes, payload types and backends the module offers.
fn app() -> &'static App {
    static APP: OnceLock<App> = OnceLock::new();
    APP.get_or_init(App::new)
}

/// True in a process that was forked after the module was imported.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Tells the module that this process was forked. The threads of a graph or of a model stay in the
/// process that started them.
#[pyfunction]
fn forked() {
    IS_FORKED.store(true, Ordering::Relaxed);
}

/// Refuses to work in a forked process.
fn not_forked() -> PyResult<()> {
    match IS_FORKED.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(pyo3::exceptions::PyRuntimeError::new_err(
            "this process was forked after afferent was imported, and the threads of afferent are not \
             in it; start processes with multiprocessing.set_start_method(\"spawn\")",
        )),
    }
}

/// Locks `mutex`. A panic of another thread leaves the state consistent.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the command line with `arguments`, after the name of the program. Returns the exit status.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| app().clone().run_command(arguments))
}

#[pymodule]
fn _afferent(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(forked, module)?)?;
    module.add_function(wrap_pyfunction!(message::payload_types, module)?)?;
    module.add_function(wrap_pyfunction!(node_process::connect, module)?)?;
    module.add_class::<array::Memory>()?;
    module.add_class::<graph::Graph>()?;
    module.add_class::<graph::Run>()?;
    module.add_class::<graph::Stream>()?;
    module.add_class::<language_model::LanguageModel>()?;
    module.add_class::<language_model::Tokenizer>()?;
    module.add_class::<message::Message>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<node_process::NodeLink>()?;
    module.add_class::<recording::Recording>()?;
    Ok(())
}

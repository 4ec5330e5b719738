//! Graph files: from YAML to a checked graph.
//!
//! [`load()`] reads a file with its profile and overrides, [`check()`] finds every fault in one
//! pass and returns a [`CheckedGraph`], which the engine runs. Begin with `graph.rs` (a graph as
//! written) and `checked.rs` (a graph that can run).
//!
//! | module | holds |
//! |---|---|
//! | `graph`, `checked` | a graph before and after checking |
//! | `schedule`, `sync`, `supervision` | policies that a graph declares |
//! | `placement` | machines, processes, and edges between them |
//! | `yaml` | YAML trees that know file, line and column of each key and value |
//! | `load` | graph files, profiles, overrides, subgraphs |
//! | `check` | names, types, wiring, parameters |
//! | `diagnostic`, `suggest` | errors with a caret and "did you mean" |
//! | `draw` | Mermaid, DOT and SVG |
//! | `origin` | the files and values that a graph was made of |

mod address;
mod check;
mod checked;
mod diagnostic;
mod draw;
mod files;
mod graph;
mod load;
mod origin;
mod placement;
mod schedule;
mod suggest;
mod supervision;
mod sync;
pub mod yaml;

pub use address::Address;
pub use check::{Checked, check, load_and_check};
pub use checked::{CheckedBudget, CheckedGraph, CheckedNode, Edge, EdgePolicy, End};
pub use diagnostic::{Diagnostic, Diagnostics, Location, Severity, counted};
pub use draw::{DrawFormat, Labels, UnknownFormat, draw};
pub use files::FileUse;
pub use graph::{Budget, Graph, InputConfig, Interrupt, NodeConfig, PortRef};
pub use load::{LoadOptions, Loaded, Reader, change_node, load, parse};
pub use origin::Origin;
pub use placement::{Machine, MachineConfig, OnLoss, Partition, PlacementOptions, Remote};
pub use schedule::Schedule;
pub use supervision::{Degrade, OnError, Restart};
pub use sync::{OnTimeFault, SyncPolicy};

//! The one place where kernels, backends and nodes are put together.

use afferent_core::{Backend, KernelLists};
use afferent_graph::{NodeDef, OpenCx};

/// The operators, the preferred lists first.
pub(crate) const KERNELS: KernelLists<'static> = afferent_kernels::KERNELS;

/// The backends.
pub(crate) const BACKENDS: &[&dyn Backend] = &[afferent_backend_xnnpack::XNNPACK];

/// The nodes, one list a family.
pub(crate) const NODES: &[&[NodeDef]] = &[
    afferent_nodes_audio::NODES,
    afferent_nodes_device::NODES,
    afferent_nodes_io::NODES,
    afferent_nodes_speech::NODES,
];

/// What nodes may use.
pub(crate) fn services() -> OpenCx {
    OpenCx { kernels: KERNELS, backends: BACKENDS, ..OpenCx::default() }
}

//! The one place where kernels, backends and nodes are put together.

use std::{path::Path, sync::OnceLock};

use afferent_core::{Backend, KernelLists};
use afferent_graph::{NodeDef, OpenCx};

/// The operators, the preferred lists first.
pub(crate) const KERNELS: KernelLists<'static> = afferent_kernels::KERNELS;

/// The backends.
pub(crate) const BACKENDS: &[&dyn Backend] = &[afferent_backend_xnnpack::XNNPACK];

/// The nodes that come along, one list a family.
const NODES: &[&[NodeDef]] = &[
    afferent_nodes_audio::NODES,
    afferent_nodes_device::NODES,
    afferent_nodes_dialogue::NODES,
    afferent_nodes_io::NODES,
    afferent_nodes_speech::NODES,
];

/// Those of the program.
static ADDED: OnceLock<&'static [NodeDef]> = OnceLock::new();

/// Adds the nodes of the program, once.
pub(crate) fn add(nodes: &'static [NodeDef]) {
    let _ = ADDED.set(nodes);
}

/// All nodes; of two with one name the first counts, so that a program can replace one.
pub(crate) fn nodes() -> Vec<&'static [NodeDef]> {
    ADDED.get().copied().into_iter().chain(NODES.iter().copied()).collect()
}

/// A folder that models use as long as the program runs.
pub(crate) fn kept(folder: &Path) -> &'static Path {
    Box::leak(folder.to_owned().into_boxed_path())
}

/// What nodes may use; prepared weights are kept in the folder `weight_cache`, if there is one.
pub(crate) fn services(weight_cache: Option<&Path>) -> OpenCx {
    let weight_cache = weight_cache.map(kept);
    OpenCx { kernels: KERNELS, backends: BACKENDS, weight_cache, ..OpenCx::default() }
}

//! The entry of the list of backends.

use afferent_core::{Backend, DelegateHandle, DelegateSource, Error};
use afferent_simd::Isa;

use crate::{
    blob,
    delegate::Runner,
    op::keep::LAYOUT,
    plan::{Plan, fuse},
    shape::{MOST_BYTES, Room},
};

/// The backend `XnnpackBackend`.
pub const XNNPACK: &dyn Backend = &Xnnpack;

/// The backend.
pub struct Xnnpack;

impl Backend for Xnnpack {
    fn name(&self) -> &'static str {
        "XnnpackBackend"
    }

    fn is_available(&self) -> bool {
        true
    }

    fn layout(&self) -> (u32, &'static str) {
        (LAYOUT, Isa::best().name())
    }

    fn init<'a>(&self, source: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error> {
        let mut graph = blob::read(source.blob, source.named_data)?;
        fuse::nodes(&mut graph);
        let room = Room::of(source.memory_limit.min(MOST_BYTES));
        let plan = Plan::new(&graph, source.weight_cache, room)?;
        Ok(DelegateHandle::Owned(Box::new(Runner::new(plan, source.memory_limit)?)))
    }
}

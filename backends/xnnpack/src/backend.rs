//! The backend: availability and initialization.

use afferent_core::{Backend, DelegateHandle, DelegateSource, Error};
use afferent_simd::Isa;

use crate::{
    blob,
    delegate::XnnpackDelegate,
    memory::{MAX_MEMORY_BYTES, MemoryBudget},
    pack::weight_cache::PACKING_VERSION,
    plan::{Plan, fusion},
};

/// XNNPACK backend on the kernels of `afferent-simd`.
pub struct Xnnpack;

impl Backend for Xnnpack {
    fn name(&self) -> &'static str {
        "XnnpackBackend"
    }

    fn is_available(&self) -> bool {
        true
    }

    fn layout(&self) -> (u32, &'static str) {
        (PACKING_VERSION, Isa::best().name())
    }

    fn init<'a>(&self, source: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error> {
        let mut subgraph = blob::parse(source.blob, source.named_data)?;
        fusion::run(&mut subgraph);
        let budget = MemoryBudget::new(source.memory_limit.min(MAX_MEMORY_BYTES));
        let plan = Plan::compile(&subgraph, source.weight_cache, budget)?;
        let delegate = XnnpackDelegate::new(plan, source.memory_limit)?;
        Ok(DelegateHandle::Owned(Box::new(delegate)))
    }
}

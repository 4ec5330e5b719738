//! Typed map of objects that a program shares with its nodes.

use alloc::{collections::BTreeMap, sync::Arc};
use core::{
    any::{Any, TypeId},
    fmt,
};

/// Type that can be stored in [`Services`].
pub trait Service: Any + Send + Sync {
    /// Name in error messages.
    const NAME: &'static str;

    /// Instruction for the user to add the service: a feature, or a call of the builder.
    const HINT: &'static str;
}

/// Typed map of services. Clones share the services.
#[derive(Clone, Default)]
pub struct Services(Arc<BTreeMap<TypeId, Entry>>);

#[derive(Clone)]
struct Entry {
    name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

/// Error: a node needs a service that the program has not added.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceMissing {
    /// [`Service::NAME`].
    pub name: &'static str,
    /// [`Service::HINT`].
    pub hint: &'static str,
}

impl fmt::Display for ServiceMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "needs the service {}; {}", self.name, self.hint)
    }
}

impl core::error::Error for ServiceMissing {}

impl Services {
    /// Adds a service; replaces one of the same type.
    #[must_use]
    pub fn with<S: Service>(mut self, service: S) -> Self {
        let entry = Entry { name: S::NAME, value: Arc::new(service) };
        Arc::make_mut(&mut self.0).insert(TypeId::of::<S>(), entry);
        self
    }

    /// Service of type `S`.
    ///
    /// # Errors
    /// [`ServiceMissing`], with instructions to add it.
    pub fn need<S: Service>(&self) -> Result<&S, ServiceMissing> {
        let entry = self.0.get(&TypeId::of::<S>());
        let service = entry.and_then(|entry| entry.value.downcast_ref());
        service.ok_or(ServiceMissing { name: S::NAME, hint: S::HINT })
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.values().map(|entry| entry.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    struct GpuDevice(u32);
    impl Service for GpuDevice {
        const NAME: &'static str = "GpuDevice";
        const HINT: &'static str = "enable the feature `gpu` or add one with `App::service`";
    }

    #[test]
    fn a_missing_service_says_how_to_add_it() {
        let error = Services::default().need::<GpuDevice>().map(|_| ()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "needs the service GpuDevice; enable the feature `gpu` or add one with `App::service`"
        );
        let services = Services::default().with(GpuDevice(1)).with(GpuDevice(2));
        assert_eq!(services.need::<GpuDevice>().unwrap().0, 2);
    }
}

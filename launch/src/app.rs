//! A program that runs graphs: its nodes, payload types, backends and services.

use std::{path::Path, sync::Arc};

use afferent_core::Backend;
use afferent_engine::{RunError, RunOptions, Session};
use afferent_graph::{
    Catalog, NodeDef, NodeEntry, NodeFactory, OpenCx, PayloadType, Service, Services,
};
use afferent_runtime::ModelOptions;
use afferent_spec::{
    Checked, CheckedGraph, Diagnostics, Graph, LoadOptions, Loaded, PlacementOptions, check,
    load_and_check,
};

/// Lists of the shipped node crates.
const NODES: &[&[NodeEntry]] = &[
    afferent_nodes_audio::NODES,
    afferent_nodes_device::NODES,
    afferent_nodes_dialogue::NODES,
    afferent_nodes_io::NODES,
    afferent_nodes_python::NODES,
    afferent_nodes_ros2::NODES,
    afferent_nodes_spatial::NODES,
    afferent_nodes_speech::NODES,
    afferent_nodes_vision::NODES,
    afferent_nodes_web::NODES,
];

/// Builder of a program that runs graphs.
///
/// ```no_run
/// use afferent::{App, engine::RunOptions};
///
/// let app = App::new();
/// let graph = app.load("pipelines/wake_word.yaml")?;
/// let report = app.start(&graph, RunOptions::default())?.wait()?;
/// println!("{} packets", report.nodes[0].packets_out);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct App {
    catalog: Catalog,
    models: ModelOptions,
    services: Services,
}

impl App {
    /// Program with the shipped nodes and backends.
    pub fn new() -> Self {
        let app = NODES.iter().fold(Self::empty(), |app, list| app.nodes(list));
        let app = app
            .service(afferent_nodes_ros2::Sessions::default())
            .service(afferent_nodes_io::AppInputs::default())
            .service(afferent_nodes_web::Web::default());
        #[cfg(feature = "vulkan")]
        let app = {
            let options = afferent_gpu::GpuOptions::from_env();
            app.gpu(options.with_user_cache(afferent_package::user_cache()))
        };
        #[cfg(feature = "xnnpack")]
        let app = app.backend(afferent_backend_xnnpack::Xnnpack);
        app
    }

    /// Program with the shipped kernels, and without nodes and backends.
    pub fn empty() -> Self {
        Self {
            catalog: Catalog::default(),
            models: ModelOptions::new(afferent_kernels::KERNELS),
            services: Services::default(),
        }
    }

    /// Adds a node type. It replaces one of the same name.
    #[must_use]
    pub fn node(self, factory: impl NodeFactory) -> Self {
        let catalog = self.catalog.with_node(NodeDef::new(factory));
        Self { catalog, ..self }
    }

    /// Adds the list of a node crate.
    #[must_use]
    pub fn nodes(self, list: &[NodeEntry]) -> Self {
        Self { catalog: self.catalog.with_nodes(list), ..self }
    }

    /// Adds a payload type. Two different types of one name are an error of [`App::load`].
    #[must_use]
    pub fn payload(self, ty: PayloadType) -> Self {
        Self { catalog: self.catalog.with_payload(ty), ..self }
    }

    /// Adds a backend. It is preferred to those added before.
    #[must_use]
    pub fn backend(self, backend: impl Backend + 'static) -> Self {
        Self { models: self.models.with_backend(backend), ..self }
    }

    /// Adds the GPU that `options` choose, as a service, and the backend of programs for it. It is
    /// opened on first use.
    #[cfg(feature = "vulkan")]
    #[must_use]
    pub fn gpu(self, options: afferent_gpu::GpuOptions) -> Self {
        let gpu = afferent_gpu::Gpu::new(options);
        self.service(gpu.clone()).backend(afferent_backend_vulkan::Vulkan::new(gpu))
    }

    /// Adds a service, which nodes find in [`OpenCx::services`].
    #[must_use]
    pub fn service<S: Service>(self, service: S) -> Self {
        Self { services: self.services.with(service), ..self }
    }

    /// Keeps packed weights of models in `folder`, so that the next start maps them.
    #[must_use]
    pub fn weight_cache(self, folder: &Path) -> Self {
        let weight_cache = Some(Arc::from(folder));
        Self { models: ModelOptions { weight_cache, ..self.models }, ..self }
    }

    /// Loads the variants of models that `afferent model bench` has remembered in `folder`.
    #[must_use]
    pub fn variant_choices(self, folder: &Path) -> Self {
        let variant_choices = Some(Arc::from(folder));
        Self { models: ModelOptions { variant_choices, ..self.models }, ..self }
    }

    /// The choices of the user, unless the program has set a folder.
    pub(crate) fn with_user_choices(self) -> Self {
        match afferent_package::ModelPackage::user_choices() {
            Some(folder) if self.models.variant_choices.is_none() => self.variant_choices(&folder),
            _ => self,
        }
    }

    /// Node and payload types.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Kernels, backends and limits of every model.
    pub fn models(&self) -> &ModelOptions {
        &self.models
    }

    /// Context that nodes are opened with: the services, among them [`ModelOptions`].
    pub fn open_cx(&self) -> OpenCx {
        OpenCx { services: self.services.clone().with(self.models.clone()), ..OpenCx::default() }
    }

    /// Reads and checks a graph file.
    ///
    /// # Errors
    /// Every fault of the graph, each with file, line and column.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<CheckedGraph, Diagnostics> {
        Ok(self.load_with(path.as_ref(), &LoadOptions::default())?.graph)
    }

    /// As [`App::load`], with a profile, overrides or a placement; returns the warnings too.
    ///
    /// # Errors
    /// As [`App::load`].
    pub fn load_with(&self, path: &Path, options: &LoadOptions) -> Result<Checked, Diagnostics> {
        load_and_check(path, options, &self.catalog, &self.open_cx())
    }

    /// Checks a graph that was built in Rust.
    ///
    /// # Errors
    /// As [`App::load`], without positions.
    pub fn build(&self, graph: Graph) -> Result<CheckedGraph, Diagnostics> {
        self.build_with(graph, &PlacementOptions::default())
    }

    /// As [`App::build`], with the machine of this program and the addresses of the others.
    ///
    /// # Errors
    /// As [`App::build`].
    pub fn build_with(
        &self,
        graph: Graph,
        placement: &PlacementOptions,
    ) -> Result<CheckedGraph, Diagnostics> {
        let loaded = Loaded::from(graph).deployed(placement);
        Ok(check(&loaded, &self.catalog, &self.open_cx())?.graph)
    }

    /// Starts a graph.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn start(&self, graph: &CheckedGraph, options: RunOptions) -> Result<Session, RunError> {
        Session::start(graph, &self.open_cx(), options)
    }
}

impl Default for App {
    fn default() -> Self {
        Self::new()
    }
}

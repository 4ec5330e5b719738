//! What a node is.

use std::{borrow::Cow, path::PathBuf, sync::Arc};

use crate::{Cx, In, ParamError, Params, Payload, Port, Service, ServiceMissing, Services};

/// How much a call of a node costs, which decides where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Microseconds: it runs on the thread of the node before it.
    Light,
    /// More, such as a model: it gets a thread of its own.
    Heavy,
}

/// One step of a graph. Called from one thread at a time, in order of timestamps.
pub trait Node: Send + Sized + 'static {
    /// Settings, fixed for the life of the node.
    type Params: Params;

    /// Name in graph files.
    const NAME: &'static str;

    /// One sentence for the catalogue.
    const SUMMARY: &'static str;

    /// Every input and output. A node without inputs is a source.
    const PORTS: &'static [Port];

    /// What a call costs.
    const WEIGHT: Weight = Weight::Light;

    /// Whether it asks for calls without a packet, by [`Cx::resume`] or [`Cx::wake_at`], though it
    /// has inputs.
    const TIMED: bool = false;

    /// Time from an input to the output that follows from it, for the catalogue.
    const LATENCY: &'static str;

    /// Looks at files, models and devices without changing any, so that `check` can tell whether
    /// the node would start.
    ///
    /// # Errors
    /// As [`Node::open`].
    fn check(params: &Self::Params, cx: &OpenCx) -> Result<(), NodeError> {
        let _ = (params, cx);
        Ok(())
    }

    /// Builds the node. Files and devices are opened here and closed by `Drop`.
    ///
    /// # Errors
    /// [`NodeError`] when a setting, a file, a model or a device does not serve.
    fn open(params: Self::Params, cx: &OpenCx) -> Result<Self, NodeError>;

    /// Handles one packet, or makes what is due when it is called without one: a source always is,
    /// others when they ask for it.
    ///
    /// # Errors
    /// [`NodeError`] stops this node; the graph's error policy decides about the rest.
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError>;

    /// Called once when every input has ended, to send what is left.
    ///
    /// # Errors
    /// As [`Node::process`].
    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let _ = cx;
        Ok(())
    }

    /// Called when an interrupt has cancelled the work of the node, before its next packet: forgets
    /// what is half done and silences devices. The queues before it are empty by then.
    ///
    /// # Errors
    /// As [`Node::process`].
    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let _ = cx;
        Ok(())
    }
}

/// What a node may need to open.
#[derive(Clone, Default)]
pub struct OpenCx {
    /// Name of the node in its graph.
    pub name: String,
    /// Its inputs that something is connected to. Empty where that is not known, as in
    /// [`Node::check`].
    pub connected: Vec<Arc<str>>,
    /// Shared objects of the program: model options, devices, sessions.
    pub services: Services,
}

impl OpenCx {
    /// Context that offers one service.
    pub fn with_service<S: Service>(service: S) -> Self {
        Self { services: Services::default().with(service), ..Self::default() }
    }

    /// True if an edge enters `input`, or if that is not known.
    pub fn is_connected<T: Payload>(&self, input: In<T>) -> bool {
        self.has_input(input.name())
    }

    fn has_input(&self, name: &str) -> bool {
        self.connected.is_empty() || self.connected.iter().any(|known| **known == *name)
    }

    /// Checks that something is connected to the inputs `ports`, as far as that is known, since the
    /// parameter `name` needs them.
    ///
    /// # Errors
    /// [`NodeError::InvalidParam`] that names the first input that is missing and `who` gives it.
    ///
    /// ```
    /// use afferent_graph::OpenCx;
    ///
    /// let cx = OpenCx { connected: vec!["audio".into()], ..OpenCx::default() };
    /// assert!(cx.needs("model", &["audio"], "microphone").is_ok());
    /// let error = cx.needs("hold", &["turns"], "turn_detector").unwrap_err();
    /// assert_eq!(error.to_string(), "parameter hold: it needs the input turns, from turn_detector");
    /// ```
    pub fn needs(&self, name: &'static str, ports: &[&str], who: &str) -> Result<(), NodeError> {
        match ports.iter().find(|port| !self.has_input(port)) {
            None => Ok(()),
            Some(port) => Err(NodeError::InvalidParam {
                name: name.into(),
                reason: format!("it needs the input {port}, from {who}"),
            }),
        }
    }
}

/// Why a node could not start, or stopped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A setting is out of range or does not fit another one.
    #[error("parameter {name}: {reason}")]
    InvalidParam {
        /// Field of the params struct.
        name: Cow<'static, str>,
        /// What is wrong and what would be accepted.
        reason: String,
    },
    /// A packet is not what the node can use.
    #[error("input {port}: {reason}")]
    InvalidInput {
        /// The input.
        port: Cow<'static, str>,
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// A model cannot be loaded or run.
    #[error("model {}: {reason}", path.display())]
    Model {
        /// The package or program file.
        path: PathBuf,
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// A device cannot be opened, or went away.
    #[error("device {name:?}: {reason}")]
    Device {
        /// The device.
        name: String,
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// The call was given up because [`Cx::cancelled`] said so.
    #[error("the call was cancelled")]
    Cancelled,
    /// A tensor does not have the shape or dtype that the node needs.
    #[error(transparent)]
    Tensor(#[from] afferent_core::Error),
    /// A service is missing.
    #[error(transparent)]
    Service(#[from] ServiceMissing),
    /// A payload cannot be built or used.
    #[error("{0}")]
    Payload(String),
}

impl NodeError {
    /// Whether the call was given up because it was cancelled, which is no fault of the node.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Tensor(afferent_core::Error::Canceled))
    }
}

impl From<(&'static str, ParamError)> for NodeError {
    fn from((name, error): (&'static str, ParamError)) -> Self {
        Self::InvalidParam { name: name.into(), reason: error.to_string() }
    }
}

/// A node whose type is known only to its crate.
pub trait DynNode: Send {
    /// See [`Node::process`].
    ///
    /// # Errors
    /// As [`Node::process`].
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError>;

    /// See [`Node::finish`].
    ///
    /// # Errors
    /// As [`Node::process`].
    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError>;

    /// See [`Node::cancel`].
    ///
    /// # Errors
    /// As [`Node::process`].
    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError>;
}

impl<N: Node> DynNode for N {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        Node::process(self, cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        Node::finish(self, cx)
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        Node::cancel(self, cx)
    }
}

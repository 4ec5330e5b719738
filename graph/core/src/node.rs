//! The trait of nodes.

use std::{borrow::Cow, path::PathBuf, sync::Arc};

use crate::{Cx, ParamError, Params, Port, Service, ServiceMissing, Services};

/// Cost of a call, which decides where a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Microseconds: the node runs in the thread of the node ahead of it.
    Light,
    /// More, for example a model: the node gets its own thread.
    Heavy,
}

/// One step of a graph. Called by one thread at a time, in the order of timestamps.
pub trait Node: Send + Sized + 'static {
    /// Parameters, fixed while the node is open.
    type Params: Params;

    /// Name in graph files.
    const NAME: &'static str;

    /// One sentence for the catalog.
    const SUMMARY: &'static str;

    /// Every input and output. A node without inputs is a source.
    const PORTS: &'static [Port];

    /// Cost of a call.
    const WEIGHT: Weight = Weight::Light;

    /// True if a node with inputs asks for calls without a packet, by [`Cx::resume`] or
    /// [`Cx::wake_at`].
    const TIMED: bool = false;

    /// True if a call acts on the world beyond the graph and its files, such as a loudspeaker or a
    /// tool. A replay does not execute the node: it plays what the node had sent. Nodes that write a
    /// file of an [`OutputPath`](crate::OutputPath) parameter need not set it.
    const HAS_EFFECTS: bool = false;

    /// Time from an input to the output that derives from it, for the catalog.
    const LATENCY: &'static str;

    /// Checks files, models and devices without changing any, to find out whether the node would
    /// start.
    ///
    /// # Errors
    /// As [`Node::open`].
    fn check(params: &Self::Params, cx: &OpenCx) -> Result<(), NodeError> {
        let _ = (params, cx);
        Ok(())
    }

    /// Builds the node. It opens files and devices; `Drop` closes them.
    ///
    /// # Errors
    /// [`NodeError`] if a parameter, a file, a model or a device is not usable.
    fn open(params: Self::Params, cx: &OpenCx) -> Result<Self, NodeError>;

    /// Handles one packet, or a call without one: sources have only those, other nodes ask for
    /// them.
    ///
    /// # Errors
    /// [`NodeError`]; the error policy of the node decides how the run continues.
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError>;

    /// Called once after every input has ended, to send the remaining packets.
    ///
    /// # Errors
    /// As [`Node::process`].
    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let _ = cx;
        Ok(())
    }

    /// Called after an interrupt has canceled the work of the node, before its next packet:
    /// discards unfinished work and silences devices. Its queues are empty by then.
    ///
    /// # Errors
    /// As [`Node::process`].
    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let _ = cx;
        Ok(())
    }
}

/// Context for opening a node.
#[derive(Clone, Default)]
pub struct OpenCx {
    /// Name of the node in its graph.
    pub name: String,
    /// Connected inputs; empty if they are not known, as in [`Node::check`].
    pub connected: Vec<Arc<str>>,
    /// Shared objects of the program: model options, devices, sessions.
    pub services: Services,
}

impl OpenCx {
    /// Context that offers one service.
    pub fn with_service<S: Service>(service: S) -> Self {
        Self { services: Services::default().with(service), ..Self::default() }
    }

    /// True if something is connected to the input `port`; false if that is not known.
    ///
    /// ```
    /// use afferent_graph::OpenCx;
    ///
    /// let cx = OpenCx { connected: vec!["audio".into()], ..OpenCx::default() };
    /// assert!(cx.is_connected("audio") && !cx.is_connected("turns"));
    /// ```
    pub fn is_connected(&self, port: &str) -> bool {
        self.connected.iter().any(|known| **known == *port)
    }

    /// Checks that something is connected to the inputs `ports`, as far as that is known, since the
    /// parameter `name` needs them.
    ///
    /// # Errors
    /// [`NodeError::InvalidParam`] that names the first missing input and the node that `provider` says it comes from.
    ///
    /// ```
    /// use afferent_graph::OpenCx;
    ///
    /// let cx = OpenCx { connected: vec!["audio".into()], ..OpenCx::default() };
    /// assert!(cx.needs("model", &["audio"], "microphone").is_ok());
    /// let error = cx.needs("hold", &["turns"], "turn_detector").unwrap_err();
    /// assert_eq!(error.to_string(), "parameter hold: it needs the input turns, from turn_detector");
    /// ```
    pub fn needs(
        &self,
        name: &'static str,
        ports: &[&str],
        provider: &str,
    ) -> Result<(), NodeError> {
        let has_input = |port: &str| self.connected.is_empty() || self.is_connected(port);
        match ports.iter().find(|port| !has_input(port)) {
            None => Ok(()),
            Some(port) => Err(NodeError::InvalidParam {
                name: name.into(),
                reason: format!("it needs the input {port}, from {provider}"),
            }),
        }
    }
}

/// Error of a node.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A parameter is out of range or contradicts another one.
    #[error("parameter {name}: {reason}")]
    InvalidParam {
        /// Name of the parameter.
        name: Cow<'static, str>,
        /// Fault, and accepted values.
        reason: String,
    },
    /// The node cannot use a packet.
    #[error("input {port}: {reason}")]
    InvalidInput {
        /// Name of the input.
        port: Cow<'static, str>,
        /// Fault, and how to fix it.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Fault, and how to fix it.
        reason: String,
    },
    /// A model cannot be loaded or run.
    #[error("model {}: {reason}", path.display())]
    Model {
        /// The package or program file.
        path: PathBuf,
        /// Fault, and how to fix it.
        reason: String,
    },
    /// A device cannot be opened, or was disconnected.
    #[error("device {name:?}: {reason}")]
    Device {
        /// The device.
        name: String,
        /// Fault, and how to fix it.
        reason: String,
    },
    /// The call ended early because [`Cx::canceled`] returned true.
    #[error("the call was canceled")]
    Canceled,
    /// Nothing reads what the node writes any more, such as after `| head`. The node ends, which is
    /// not a fault.
    #[error("nothing reads the output any more")]
    Closed,
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
    /// True if the call ended early because it was canceled, which is not a fault.
    pub fn is_canceled(&self) -> bool {
        matches!(self, Self::Canceled | Self::Tensor(afferent_core::Error::Canceled))
    }
}

impl From<(&'static str, ParamError)> for NodeError {
    fn from((name, error): (&'static str, ParamError)) -> Self {
        Self::InvalidParam { name: name.into(), reason: error.to_string() }
    }
}

/// A node of a type that only its crate knows.
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
    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let _ = cx;
        Ok(())
    }

    /// See [`Node::cancel`].
    ///
    /// # Errors
    /// As [`Node::process`].
    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let _ = cx;
        Ok(())
    }
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

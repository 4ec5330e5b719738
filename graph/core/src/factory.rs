//! Node factories: contracts, and how nodes are built.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Deref, sync::Arc};

use crate::{
    Codec, DynNode, Node, NodeError, OnFull, OpenCx, Param, ParamError, ParamKind, ParamValue,
    ParamValues, Params, PayloadType, Port, PortId, PortKind, Weight, WireCodec, param::Rule,
};

/// Builds nodes of one kind. Implemented for every [`Node`] by [`Typed`]; implemented by hand where
/// the contract is known only at run time.
pub trait NodeFactory: Send + Sync + 'static {
    /// The contract. Read once, when the factory is registered.
    fn spec(&self) -> NodeSpec;

    /// The factory for these parameters, where they decide about ports: a Python file, a message
    /// type. The default is the factory itself.
    ///
    /// # Errors
    /// As [`NodeFactory::open`].
    fn specialize(&self, _: &ParamValues, _: &OpenCx) -> Result<Option<NodeDef>, NodeError> {
        Ok(None)
    }

    /// See [`Node::check`].
    ///
    /// # Errors
    /// As [`NodeFactory::open`].
    fn check(&self, _: &ParamValues, _: &OpenCx) -> Result<(), NodeError> {
        Ok(())
    }

    /// See [`Node::open`].
    ///
    /// # Errors
    /// [`NodeError`].
    fn open(&self, params: &ParamValues, cx: &OpenCx) -> Result<Box<dyn DynNode>, NodeError>;
}

/// The contract of a node, owned.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    /// Name in graph files.
    pub name: Arc<str>,
    /// One sentence.
    pub summary: Arc<str>,
    /// Latency, as text.
    pub latency: Arc<str>,
    /// Inputs, in the order of their [`PortId`].
    pub inputs: Vec<PortSpec>,
    /// Outputs, in the order of their [`PortId`].
    pub outputs: Vec<PortSpec>,
    /// Parameter schema.
    pub params: Vec<ParamSpec>,
    /// Cost of a call.
    pub weight: Weight,
    /// See [`Node::TIMED`].
    pub timed: bool,
    /// See [`Node::HAS_EFFECTS`].
    pub has_effects: bool,
}

/// Contract of a port, owned. Fields as in [`Port`].
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "as in Port")]
pub struct PortSpec {
    /// Index among the ports of its direction; set when the factory is registered.
    pub id: PortId,
    pub kind: PortKind,
    pub name: Arc<str>,
    pub ty: Arc<str>,
    pub on_full: OnFull,
    pub optional: bool,
    pub many: bool,
    pub interpolates: bool,
    pub in_step: bool,
    pub codec: Option<Codec>,
    pub wire: Option<&'static dyn WireCodec>,
    pub help: Arc<str>,
}

/// Declaration of a parameter, owned.
#[derive(Debug, Clone)]
pub struct ParamSpec {
    /// Name in graph files.
    pub name: Arc<str>,
    /// Unit, empty where there is none.
    pub unit: Arc<str>,
    /// Meaning.
    pub help: Arc<str>,
    /// Default as a graph file would write it.
    pub default: Option<Arc<str>>,
    /// True if it may be absent without a default.
    pub optional: bool,
    /// Least and greatest value.
    pub range: Option<(f64, f64)>,
    /// Type of the value.
    pub kind: ParamKind,
    /// Words of a choice that are known only at run time, besides those in `kind`.
    pub words: Vec<Arc<str>>,
}

impl From<&Port> for PortSpec {
    fn from(port: &Port) -> Self {
        let Port {
            name,
            kind,
            ty,
            on_full,
            optional,
            many,
            interpolates,
            in_step,
            codec,
            wire,
            help,
            ..
        } = *port;
        let [name, ty, help] = [name, ty, help].map(Arc::from);
        let (id, codec) = (PortId::at(0), codec.map(Codec::from));
        Self {
            id,
            kind,
            name,
            ty,
            on_full,
            optional,
            many,
            interpolates,
            in_step,
            codec,
            wire,
            help,
        }
    }
}

impl PortSpec {
    /// Port of a payload type that is known at run time. Its index is set at registration.
    pub fn new(kind: PortKind, name: &str, ty: &PayloadType) -> Self {
        Self {
            id: PortId::at(0),
            kind,
            name: name.into(),
            ty: (&*ty.name).into(),
            on_full: ty.on_full,
            optional: false,
            many: false,
            interpolates: ty.interpolates,
            in_step: false,
            codec: ty.record,
            wire: ty.wire,
            help: "".into(),
        }
    }

    /// True if packets of an output of type `ty` may enter this input.
    pub fn accepts(&self, ty: &str) -> bool {
        &*self.ty == Port::ANY || &*self.ty == ty
    }
}

impl From<&Param> for ParamSpec {
    fn from(param: &Param) -> Self {
        let Param { name, kind, default, optional, range, unit, help } = *param;
        let [name, unit, help] = [name, unit, help].map(Arc::from);
        let (default, words) = (default.map(Arc::from), Vec::new());
        Self { name, unit, help, default, optional, range, kind, words }
    }
}

impl ParamSpec {
    fn rule(&self) -> Rule<'_> {
        Rule { kind: self.kind, words: &self.words, range: self.range, unit: &self.unit }
    }

    /// Accepted words of a choice.
    pub fn choices(&self) -> Vec<&str> {
        self.rule().words().collect()
    }

    /// Checks a value of any origin, as [`Param::accept`].
    ///
    /// # Errors
    /// [`ParamError`].
    pub fn accept(&self, value: &ParamValue) -> Result<ParamValue, ParamError> {
        self.rule().accept(value)
    }

    /// Accepted range with its unit, if there is one.
    pub fn range_text(&self) -> Option<String> {
        self.rule().range_text()
    }
}

/// The factory of a [`Node`] type.
pub struct Typed<N>(PhantomData<fn() -> N>);

impl<N> Typed<N> {
    /// The factory.
    pub const NEW: Self = Self(PhantomData);
}

impl<N: Node> NodeFactory for Typed<N> {
    fn spec(&self) -> NodeSpec {
        NodeSpec {
            summary: N::SUMMARY.into(),
            latency: N::LATENCY.into(),
            params: N::Params::PARAMS.iter().map(ParamSpec::from).collect(),
            weight: N::WEIGHT,
            timed: N::TIMED,
            has_effects: N::HAS_EFFECTS,
            ..NodeSpec::new(N::NAME, N::PORTS)
        }
    }

    fn check(&self, params: &ParamValues, cx: &OpenCx) -> Result<(), NodeError> {
        N::check(&N::Params::from_values(params)?, cx)
    }

    fn open(&self, params: &ParamValues, cx: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        Ok(Box::new(N::open(N::Params::from_values(params)?, cx)?))
    }
}

/// A contract, and a closure that builds the nodes.
struct Closure<F> {
    spec: Arc<NodeSpec>,
    open: F,
}

impl<F> NodeFactory for Closure<F>
where
    F: Fn(&OpenCx) -> Result<Box<dyn DynNode>, NodeError> + Send + Sync + 'static,
{
    fn spec(&self) -> NodeSpec {
        (*self.spec).clone()
    }

    fn open(&self, _: &ParamValues, cx: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        (self.open)(cx)
    }
}

/// A registered factory with its contract.
#[derive(Clone)]
pub struct NodeDef {
    spec: Arc<NodeSpec>,
    factory: Arc<dyn NodeFactory>,
}

impl NodeDef {
    /// Reads the contract of `factory`.
    pub fn new(factory: impl NodeFactory) -> Self {
        Self { spec: Arc::new(factory.spec().numbered()), factory: Arc::new(factory) }
    }

    /// Definition of nodes that `open` builds.
    pub fn from_fn(
        spec: NodeSpec,
        open: impl Fn(&OpenCx) -> Result<Box<dyn DynNode>, NodeError> + Send + Sync + 'static,
    ) -> Self {
        let spec = Arc::new(spec.numbered());
        Self { spec: spec.clone(), factory: Arc::new(Closure { spec, open }) }
    }

    /// Definition of the node type `N`.
    pub fn of<N: Node>() -> Self {
        Self::new(Typed::<N>::NEW)
    }

    /// The contract.
    pub fn spec(&self) -> &Arc<NodeSpec> {
        &self.spec
    }

    /// The same contract with nodes that `open` builds, such as a recording in place of a
    /// microphone.
    #[must_use]
    pub fn with_open(
        &self,
        open: impl Fn(&OpenCx) -> Result<Box<dyn DynNode>, NodeError> + Send + Sync + 'static,
    ) -> Self {
        let factory = Closure { spec: self.spec.clone(), open };
        Self { spec: self.spec.clone(), factory: Arc::new(factory) }
    }

    /// Builds the nodes.
    pub fn factory(&self) -> &dyn NodeFactory {
        &*self.factory
    }
}

/// Entries of the list of a node crate: `NodeDef::of::<Aec>`.
pub type NodeEntry = fn() -> NodeDef;

impl Deref for NodeDef {
    type Target = NodeSpec;

    fn deref(&self) -> &NodeSpec {
        &self.spec
    }
}

impl fmt::Debug for NodeDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeDef({})", self.name)
    }
}

impl NodeSpec {
    /// Sets the index of each port.
    fn numbered(mut self) -> Self {
        for ports in [&mut self.inputs, &mut self.outputs] {
            ports.iter_mut().enumerate().for_each(|(at, port)| port.id = PortId::at(at));
        }
        self
    }

    /// Contract of a light node without parameters.
    pub fn new(name: &str, ports: &[Port]) -> Self {
        let of = |kind| ports.iter().filter(move |port| port.kind == kind).map(PortSpec::from);
        Self {
            name: name.into(),
            summary: "".into(),
            latency: "none".into(),
            inputs: of(PortKind::Input).collect(),
            outputs: of(PortKind::Output).collect(),
            params: Vec::new(),
            weight: Weight::Light,
            timed: false,
            has_effects: false,
        }
    }

    /// True if the node has no inputs.
    pub fn is_source(&self) -> bool {
        self.inputs.is_empty()
    }

    /// The input called `name`.
    pub fn input(&self, name: &str) -> Option<PortId> {
        position(&self.inputs, name)
    }

    /// The output called `name`.
    pub fn output(&self, name: &str) -> Option<PortId> {
        position(&self.outputs, name)
    }

    /// Ports of one direction.
    pub fn ports(&self, kind: PortKind) -> &[PortSpec] {
        match kind {
            PortKind::Input => &self.inputs,
            PortKind::Output => &self.outputs,
        }
    }

    /// Name of a port; `#` and its index if there is none.
    pub fn port_name(&self, kind: PortKind, id: PortId) -> Cow<'_, str> {
        let port = self.ports(kind).get(id.index());
        port.map_or(Cow::Owned(format!("#{}", id.index())), |port| Cow::Borrowed(&*port.name))
    }
}

fn position(ports: &[PortSpec], name: &str) -> Option<PortId> {
    ports.iter().position(|port| *port.name == *name).map(PortId::at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_the_properties_of_its_payload_type() {
        let dynamic = PayloadType::dynamic("my/Pose", OnFull::Latest);
        let ty = PayloadType { interpolates: true, ..dynamic };
        let port = PortSpec::new(PortKind::Output, "pose", &ty);
        assert_eq!((&*port.ty, port.on_full, port.interpolates), ("my/Pose", OnFull::Latest, true));
    }
}

//! Calls of a single node without an engine, for tests and for programs that need one step.

use std::sync::Arc;

use crate::{
    CallInfo, CallRequest, Cx, DynNode, Header, In, InputInfo, Joined, Node, NodeContext, NodeDef,
    NodeError, NodeSpec, OpenCx, Outbox, Packet, ParamValues, Payload, Pool, PortId, PortKind,
    Resume, Timestamp, Typed,
};

/// Context of the calls of one node.
struct Harness {
    spec: Arc<NodeSpec>,
    context: NodeContext,
    asked: CallRequest,
}

type Call = fn(&mut dyn DynNode, &mut Cx<'_>) -> Result<(), NodeError>;

impl Harness {
    fn new(spec: Arc<NodeSpec>) -> Self {
        let outputs = spec.outputs.iter().map(|port| (port.name.clone(), Pool::new(8))).collect();
        let context = NodeContext { outputs, ..NodeContext::default() };
        Self { spec, context, asked: CallRequest::default() }
    }

    fn name_of_input(&self, port: PortId) -> Arc<str> {
        self.spec.port_name(PortKind::Input, port).into()
    }

    fn join(&mut self, port: PortId, packet: Packet) {
        match self.context.joined.iter_mut().find(|joined| joined.port == port) {
            Some(joined) => joined.packets.push(packet),
            None => {
                let name = self.name_of_input(port);
                self.context.joined.push(Joined { port, name, packets: vec![packet] });
            }
        }
    }

    /// Calls the node once; returns the sent packets with their outputs.
    fn run(
        &mut self,
        node: &mut dyn DynNode,
        now: Timestamp,
        input: Option<(PortId, Packet)>,
        call: Call,
    ) -> Result<Vec<(PortId, Packet)>, NodeError> {
        let mut sent = Outbox::default();
        let origin = Header { at: now, ..Header::default() };
        self.context.origin = input.as_ref().map_or(origin, |(_, packet)| packet.header);
        let mut input = input.map(|(port, packet)| {
            let name = self.name_of_input(port);
            (InputInfo { port, name, source: String::new() }, packet)
        });
        let caller = CallInfo { now, real_ns: 0, restarted: false, context: &self.context };
        let input = input.as_mut().map(|(inbound, packet)| (&*inbound, packet));
        let mut cx = Cx::new(caller, input, &mut sent);
        call(node, &mut cx)?;
        let asked = cx.request();
        assert!(
            self.spec.timed || self.spec.is_source() || asked == CallRequest::default(),
            "{} asks for calls without a packet, so it must set Node::TIMED",
            self.spec.name
        );
        self.asked.resume = asked.resume;
        self.asked.wake = asked.wake.or(self.asked.wake);
        Ok(std::iter::from_fn(|| sent.pop())
            .map(|(index, packet)| (PortId::at(index), packet))
            .collect())
    }

    /// Calls the node with a packet.
    fn process(
        &mut self,
        node: &mut dyn DynNode,
        port: PortId,
        packet: Packet,
    ) -> Result<Vec<(PortId, Packet)>, NodeError> {
        let at = packet.header.at;
        let called = self.run(node, at, Some((port, packet)), |node, cx| node.process(cx));
        self.context.joined.clear();
        called
    }

    /// Calls the node without a packet; returns when it wants the next call too.
    fn poll(
        &mut self,
        node: &mut dyn DynNode,
        now: Timestamp,
    ) -> Result<(Vec<(PortId, Packet)>, Resume), NodeError> {
        self.asked = CallRequest::default();
        let sent = self.run(node, now, None, |node, cx| node.process(cx))?;
        let default = if self.spec.is_source() { Resume::Now } else { Resume::Done };
        Ok((sent, self.asked.resume.unwrap_or(default)))
    }
}

/// As [`NodeBench`], of a node that a program knows only by its definition.
pub struct DynBench {
    node: Box<dyn DynNode>,
    harness: Harness,
}

impl DynBench {
    /// Opens a node.
    ///
    /// # Errors
    /// Those of [`NodeFactory::open`](crate::NodeFactory::open).
    pub fn open(def: &NodeDef, params: &ParamValues, cx: &OpenCx) -> Result<Self, NodeError> {
        let node = def.factory().open(params, cx)?;
        Ok(Self { node, harness: Harness::new(def.spec().clone()) })
    }

    /// Calls the node with `packet` on `port`; returns the sent packets with their outputs.
    ///
    /// # Errors
    /// Those of the node.
    pub fn call(
        &mut self,
        port: PortId,
        packet: Packet,
    ) -> Result<Vec<(PortId, Packet)>, NodeError> {
        self.harness.process(&mut *self.node, port, packet)
    }

    /// Calls the node without a packet; returns the sent packets, and when the node wants to be
    /// called again.
    ///
    /// # Errors
    /// Those of the node.
    pub fn poll(&mut self, now: Timestamp) -> Result<(Vec<(PortId, Packet)>, Resume), NodeError> {
        self.harness.poll(&mut *self.node, now)
    }

    /// Ends the inputs of the node.
    ///
    /// # Errors
    /// Those of the node.
    pub fn finish(&mut self, now: Timestamp) -> Result<Vec<(PortId, Packet)>, NodeError> {
        self.harness.run(&mut *self.node, now, None, |node, cx| node.finish(cx))
    }
}

/// Runs single calls of a node, for its tests and its documentation.
///
/// ```
/// # use afferent_graph::*;
/// # #[derive(Clone, Default)] struct KeywordEvent;
/// # impl Payload for KeywordEvent { const TYPE: &'static str = "speech/Keyword"; }
/// # struct Count;
/// # ports! { impl Count {
/// #     /// Events.
/// #     in IN = "events": KeywordEvent;
/// #     /// The same events.
/// #     out OUT = "events": KeywordEvent;
/// # } }
/// # impl Node for Count {
/// #     type Params = (); const NAME: &'static str = "count"; const SUMMARY: &'static str = "";
/// #     const PORTS: &'static [Port] = Self::PORTS;
/// #     const LATENCY: &'static str = "none";
/// #     fn open(_: (), _: &OpenCx) -> Result<Self, NodeError> { Ok(Self) }
/// #     fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
/// #         let event = cx.get(Self::IN).cloned().unwrap_or_default(); cx.send(Self::OUT, event); Ok(())
/// #     }
/// # }
/// let mut bench = NodeBench::new(Count);
/// let sent = bench.call(Count::IN, Timestamp(5), KeywordEvent::default())?;
/// assert_eq!(sent[0].1.header.at, Timestamp(5));
/// # Ok::<(), NodeError>(())
/// ```
pub struct NodeBench<N> {
    node: N,
    harness: Harness,
}

/// Packets that a node sent, each with the name of its output.
pub type Sent = Vec<(&'static str, Packet)>;

impl<N: Node> NodeBench<N> {
    /// Bench for `node`.
    pub fn new(node: N) -> Self {
        let def = NodeDef::new(Typed::<N>::NEW);
        Self { node, harness: Harness::new(def.spec().clone()) }
    }

    /// The node itself.
    pub fn node_mut(&mut self) -> &mut N {
        &mut self.node
    }

    /// Calls the node with `value` on `port`, and again for as long as it asks for that at once.
    ///
    /// # Errors
    /// Those of the node.
    pub fn call<T: Payload>(
        &mut self,
        port: In<T>,
        at: Timestamp,
        value: T,
    ) -> Result<Sent, NodeError> {
        let packet = Packet::new(value, Header { at, ..Header::default() });
        let mut sent = named::<N>(self.harness.process(&mut self.node, port.id(), packet)?);
        while self.harness.asked.resume == Some(Resume::Now) {
            sent.append(&mut self.poll(at)?.0);
        }
        Ok(sent)
    }

    /// Adds `value` on `port` to the next call, as a synchronizer does; several values in the order
    /// of their timestamps make a window.
    pub fn join<T: Payload>(&mut self, port: In<T>, at: Timestamp, value: T) -> &mut Self {
        let packet = Packet::new(value, Header { at, ..Header::default() });
        self.harness.join(port.id(), packet);
        self
    }

    /// Calls the node without a packet at `now`; returns the sent packets, and when the node wants
    /// to be called again.
    ///
    /// # Errors
    /// Those of the node.
    pub fn poll(&mut self, now: Timestamp) -> Result<(Sent, Resume), NodeError> {
        let (sent, resume) = self.harness.poll(&mut self.node, now)?;
        Ok((named::<N>(sent), resume))
    }

    /// Advances time to `until`, with the calls that the node asked for; returns the sent packets
    /// and their times.
    ///
    /// # Errors
    /// Those of the node.
    pub fn advance(
        &mut self,
        until: Timestamp,
    ) -> Result<Vec<(Timestamp, &'static str, Packet)>, NodeError> {
        let mut sent = Vec::new();
        let mut now = Timestamp(i64::MIN);
        loop {
            let due = match self.asked().resume {
                Some(Resume::Now) => Some(now),
                Some(Resume::At(at)) => Some(at),
                Some(Resume::Done) | None => self.asked().wake,
            };
            let Some(due) = due.filter(|due| *due <= until) else { return Ok(sent) };
            now = now.max(due);
            let polled = self.poll(now)?.0;
            sent.extend(polled.into_iter().map(|(port, packet)| (now, port, packet)));
        }
    }

    /// The calls that the node asked for.
    pub fn asked(&self) -> CallRequest {
        self.harness.asked
    }

    /// Ends the inputs of the node.
    ///
    /// # Errors
    /// Those of the node.
    pub fn finish(&mut self, now: Timestamp) -> Result<Sent, NodeError> {
        Ok(named::<N>(self.harness.run(&mut self.node, now, None, |node, cx| node.finish(cx))?))
    }

    /// Interrupts the node.
    ///
    /// # Errors
    /// Those of the node.
    pub fn cancel(&mut self, now: Timestamp) -> Result<Sent, NodeError> {
        self.harness.asked = CallRequest::default();
        Ok(named::<N>(self.harness.run(&mut self.node, now, None, |node, cx| node.cancel(cx))?))
    }
}

/// Replaces port indices by the names of the ports.
fn named<N: Node>(sent: Vec<(PortId, Packet)>) -> Sent {
    let outputs = || N::PORTS.iter().filter(|port| port.kind == PortKind::Output);
    let named =
        |(port, packet): (PortId, Packet)| Some((outputs().nth(port.index())?.name, packet));
    sent.into_iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Port, ports, test_payload::Sample as Text};

    /// Appends the joined texts to the text of its packet.
    struct Append;

    ports! {
        impl Append {
            /// Text that the others are appended to.
            in IN: Text;
            /// Appended texts.
            in SIDE: Text, optional;
            /// The whole text.
            out OUT: Text;
        }
    }

    impl Node for Append {
        type Params = ();
        const NAME: &'static str = "append";
        const SUMMARY: &'static str = "";
        const PORTS: &'static [Port] = Self::PORTS;
        const LATENCY: &'static str = "none";

        fn open(_: (), _: &OpenCx) -> Result<Self, NodeError> {
            Ok(Self)
        }

        fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
            let mut text = cx.get(Self::IN).map_or_else(String::new, |text| text.text.clone());
            cx.all(Self::SIDE).for_each(|(at, side)| text += &format!(" {}@{}", side.text, at.0));
            cx.send(Self::OUT, Text { text });
            Ok(())
        }
    }

    #[test]
    fn what_is_joined_goes_with_one_call() {
        let text = |text: &str| Text { text: text.to_owned() };
        let mut bench = NodeBench::new(Append);
        bench.join(Append::SIDE, Timestamp(3), text("b")).join(
            Append::SIDE,
            Timestamp(4),
            text("c"),
        );
        for expected in ["a b@3 c@4", "a"] {
            let sent = bench.call(Append::IN, Timestamp(5), text("a")).expect("it cannot fail");
            let found: Option<&Text> = sent[0].1.get();
            assert_eq!(found.map(|found| found.text.as_str()), Some(expected));
        }
    }
}

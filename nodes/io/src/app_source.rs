//! Packets that the program which runs the graph sends into it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use afferent_graph::{
    Cx, DynNode, NodeDef, NodeError, NodeFactory, NodeSpec, OpenCx, Packet, ParamKind, ParamSpec,
    ParamValue, ParamValues, PayloadType, PortId, PortKind, PortSpec, Service, Timestamp,
};
use crossbeam::channel::{Receiver, SendTimeoutError, Sender, TryRecvError, bounded};

/// Source that sends the packets of the program which runs the graph.
///
/// A program that embeds a graph, in Rust or in Python, sends values into it by the name of the node:
/// see [`AppInputs::send`]. `type` is the payload type of the output, such as `text/Text`.
///
/// | port | direction | payload |
/// |---|---|---|
/// | `out` | output | that of `type` |
///
/// A packet without a timestamp gets the time at which the node sends it. Timestamps must not
/// decrease. The stream ends when the program closes the input.
///
/// Latency: up to 2 ms.
#[derive(Debug, Clone, Default)]
pub struct AppSource {
    /// Payload type; `None` until the parameters are known.
    ty: Option<&'static PayloadType>,
}

/// Packets that can wait for a node.
const CAPACITY: usize = 64;

/// Time between two looks for packets.
const POLL: Duration = Duration::from_millis(2);

/// Inputs of the nodes `app_source` of a graph, by the name of the node. Clones share them.
#[derive(Clone, Default)]
pub struct AppInputs(Arc<Mutex<BTreeMap<String, Input>>>);

/// Sending side of one node.
struct Input {
    ty: &'static PayloadType,
    /// `None` after the input was closed.
    sender: Option<Sender<AppPacket>>,
}

/// A packet, and whether it has a timestamp of its own.
struct AppPacket {
    packet: Packet,
    has_time: bool,
}

impl Service for AppInputs {
    const NAME: &'static str = "AppInputs";
    const HINT: &'static str = "add it with `App::service(AppInputs::default())`";
}

/// A packet that a node did not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppInputError {
    /// The graph has no such node.
    #[error("the graph has no node {node} of kind app_source; it has {}", known.join(", "))]
    NoNode {
        /// Name that was asked for.
        node: String,
        /// Names of the nodes of this kind.
        known: Vec<String>,
    },
    /// The value has another type than the node.
    #[error("node {node} sends {needed}, not {found}")]
    Type {
        /// Name of the node.
        node: String,
        /// Payload type of the value.
        found: String,
        /// Payload type of the node.
        needed: String,
    },
    /// The node takes no more packets.
    #[error("node {node} has ended")]
    Ended {
        /// Name of the node.
        node: String,
    },
    /// The graph is slower than the program.
    #[error("node {node} did not take the packet within {} ms; the graph is too slow", wait.as_millis())]
    Full {
        /// Name of the node.
        node: String,
        /// Time that was waited.
        wait: Duration,
    },
}

impl AppInputs {
    /// Sends `packet` through the node `node`, and waits at most for `wait` if the node has not taken
    /// 64 packets yet. Without `has_time`, the node replaces its timestamp by the present time.
    ///
    /// # Errors
    /// [`AppInputError`].
    pub fn send(
        &self,
        node: &str,
        packet: Packet,
        has_time: bool,
        wait: Duration,
    ) -> Result<(), AppInputError> {
        let node = node.to_owned();
        let sender = {
            let inputs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(input) = inputs.get(&node) else {
                return Err(AppInputError::NoNode {
                    node,
                    known: inputs.keys().cloned().collect(),
                });
            };
            let found = packet.payload().map_or("", |payload| payload.type_name());
            if *found != *input.ty.name {
                let (found, needed) = (found.to_owned(), input.ty.name.to_string());
                return Err(AppInputError::Type { node, found, needed });
            }
            input.sender.clone()
        };
        let Some(sender) = sender else { return Err(AppInputError::Ended { node }) };
        sender.send_timeout(AppPacket { packet, has_time }, wait).map_err(|error| match error {
            SendTimeoutError::Timeout(_) => AppInputError::Full { node, wait },
            SendTimeoutError::Disconnected(_) => AppInputError::Ended { node },
        })
    }

    /// Ends the stream of the node `node` after the packets that wait; of all nodes if it is `None`.
    pub fn close(&self, node: Option<&str>) {
        let mut inputs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = inputs.iter_mut().filter(|(name, _)| node.is_none_or(|node| node == **name));
        closed.for_each(|(_, input)| input.sender = None);
    }

    fn open(&self, node: &str, ty: &'static PayloadType) -> Receiver<AppPacket> {
        let (sender, receiver) = bounded(CAPACITY);
        let input = Input { ty, sender: Some(sender) };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned(), input);
        receiver
    }
}

impl AppSource {
    /// The definition of the node.
    pub fn def() -> NodeDef {
        NodeDef::new(Self::default())
    }
}

/// The payload type that the parameter `type` names.
fn payload_type(params: &ParamValues) -> Result<Option<&'static PayloadType>, NodeError> {
    let Some(ParamValue::Text(name)) = params.get("type") else { return Ok(None) };
    let found = afferent_messages::payload_type(name);
    found.map(Some).map_err(|reason| NodeError::InvalidParam { name: "type".into(), reason })
}

impl NodeFactory for AppSource {
    fn spec(&self) -> NodeSpec {
        let param = ParamSpec {
            name: "type".into(),
            unit: "".into(),
            help: "Payload type of the output, such as `text/Text`.".into(),
            default: None,
            optional: false,
            range: None,
            kind: ParamKind::Text,
            words: Vec::new(),
        };
        let outputs = self.ty.iter().map(|ty| PortSpec {
            help: "Packets of the program.".into(),
            ..PortSpec::new(PortKind::Output, "out", ty)
        });
        NodeSpec {
            summary: "Sends packets of the program that runs the graph.".into(),
            latency: "up to 2 ms".into(),
            outputs: outputs.collect(),
            params: vec![param],
            ..NodeSpec::new("app_source", &[])
        }
    }

    fn specialize(&self, params: &ParamValues, _: &OpenCx) -> Result<Option<NodeDef>, NodeError> {
        Ok(payload_type(params)?.map(|ty| NodeDef::new(Self { ty: Some(ty) })))
    }

    fn open(&self, params: &ParamValues, cx: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        let ty = payload_type(params)?.ok_or_else(|| NodeError::InvalidParam {
            name: "type".into(),
            reason: "it names a payload type, such as text/Text".into(),
        })?;
        let inputs = cx.services.need::<AppInputs>()?;
        Ok(Box::new(Source { packets: inputs.open(&cx.name, ty), last: Timestamp(i64::MIN) }))
    }
}

/// The open node.
struct Source {
    packets: Receiver<AppPacket>,
    last: Timestamp,
}

impl DynNode for Source {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        match self.packets.try_recv() {
            Ok(AppPacket { mut packet, has_time }) => {
                if !has_time {
                    packet.header.at = cx.now();
                }
                packet.header.at = packet.header.at.max(self.last);
                self.last = packet.header.at;
                cx.send_packet(PortId::at(0), packet);
                cx.resume();
            }
            Err(TryRecvError::Empty) => cx.resume_at(cx.now() + POLL),
            Err(TryRecvError::Disconnected) => cx.end(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::Header;
    use afferent_messages::Text;

    use super::*;

    fn packet(text: &str) -> Packet {
        let text = Text { text: text.to_owned(), ..Text::default() };
        Packet::new(text, Header::default())
    }

    #[test]
    fn packets_are_refused_with_a_reason() {
        let inputs = AppInputs::default();
        let wait = Duration::from_millis(1);
        let send = |node, packet| inputs.send(node, packet, false, wait).map_err(|e| e.to_string());
        let refused = |result: Result<(), String>, text| assert_eq!(result.unwrap_err(), text);
        refused(send("ear", packet("")), "the graph has no node ear of kind app_source; it has ");
        let ty = afferent_messages::payload_type("text/Text").unwrap();
        let receiver = inputs.open("say", ty);
        let word = Packet::new(afferent_messages::Word::default(), Header::default());
        refused(send("say", word), "node say sends text/Text, not speech/Word");
        for _ in 0..CAPACITY {
            send("say", packet("hello")).unwrap();
        }
        refused(
            send("say", packet("hello")),
            "node say did not take the packet within 1 ms; the graph is too slow",
        );
        inputs.close(Some("say"));
        assert_eq!(receiver.iter().count(), CAPACITY, "what waits is sent");
        refused(send("say", packet("hello")), "node say has ended");
    }

    #[test]
    fn the_type_is_a_payload_type() {
        let params = |ty: &str| {
            ParamValues::from_iter([("type".to_owned(), ParamValue::Text(ty.to_owned()))])
        };
        let cx = OpenCx::default();
        let def = AppSource::default().specialize(&params("audio/Block"), &cx).unwrap().unwrap();
        assert_eq!((&*def.outputs[0].name, &*def.outputs[0].ty), ("out", "audio/Block"));
        let error = AppSource::default().specialize(&params("audio"), &cx).err().unwrap();
        let error = error.to_string();
        assert!(
            error.starts_with("parameter type: there is no payload type \"audio\"; there are ")
        );
    }
}

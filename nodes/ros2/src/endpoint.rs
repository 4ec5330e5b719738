//! Parameters that all nodes of this crate have.

use std::time::Duration;

use afferent_graph::{NodeError, OpenCx, SessionStart, choices};

use crate::{Error, History, Qos, Reliability, key::TopicKey, msg::RosMessage};

choices! {
    /// Reliability of a topic, by its words in graph files.
    pub enum QosWord {
        /// Messages are sent again until they arrive.
        Reliable = "reliable",
        /// Messages may be lost.
        BestEffort = "best_effort",
    }
}

choices! {
    /// Origin of the timestamp of a received message.
    pub enum TimeOf {
        /// The stamp in the header of the message, or the time of sending if it has none.
        Sender = "sender",
        /// The arrival of the message.
        Arrival = "arrival",
    }
}

/// Largest `ROS_DOMAIN_ID`.
pub(crate) const MAX_DOMAIN: u32 = 232;

/// Variable of the environment with the default domain.
const DOMAIN_VARIABLE: &str = "ROS_DOMAIN_ID";

/// Declares the parameters of a node: its own, and those of every endpoint.
macro_rules! endpoint_params {
    ($(#[doc = $help:literal])* $name:ident { $($own:tt)* }) => {
        afferent_graph::params! {
            $(#[doc = $help])*
            pub struct $name {
                $($own)*
                /// Domain of the topic; `ROS_DOMAIN_ID` of the environment, or 0, if absent.
                pub domain: Option<u32>, range 0.0..=232.0;
                /// Reliability that the topic is announced with.
                pub qos: $crate::QosWord = "reliable";
                /// Messages that wait between node and connection; the oldest is dropped when more
                /// wait.
                pub depth: u32 = "10", range 1.0..=10000.0;
                /// Address of the zenoh router: `tcp/HOST:PORT`.
                pub router: String = "tcp/localhost:7447";
                /// Time that the start waits for the router.
                pub wait: std::time::Duration = "5s", range 0.0..=3600.0;
            }
        }

        impl $name {
            /// Endpoint for messages of type `M`.
            fn endpoint<M: $crate::msg::RosMessage>(
                &self,
                cx: &afferent_graph::OpenCx,
            ) -> Result<$crate::endpoint::Endpoint, afferent_graph::NodeError> {
                $crate::endpoint::EndpointParams {
                    topic: &self.topic,
                    domain: self.domain,
                    qos: self.qos,
                    depth: self.depth,
                    router: &self.router,
                    wait: self.wait,
                }
                .endpoint::<M>(cx)
            }
        }
    };
}
pub(crate) use endpoint_params;

/// The parameters of every endpoint.
pub(crate) struct EndpointParams<'p> {
    pub(crate) topic: &'p str,
    pub(crate) domain: Option<u32>,
    pub(crate) qos: QosWord,
    pub(crate) depth: u32,
    pub(crate) router: &'p str,
    pub(crate) wait: Duration,
}

/// A publisher or subscriber to be opened.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "zenoh"), expect(dead_code, reason = "the stub opens no connection"))]
pub(crate) struct Endpoint {
    pub(crate) key: TopicKey,
    pub(crate) qos: Qos,
    /// Messages that wait.
    pub(crate) depth: usize,
    pub(crate) router: String,
    pub(crate) wait: Duration,
    /// Name of the ROS node.
    pub(crate) node: String,
    /// Start of the session of the graph.
    pub(crate) start: SessionStart,
}

fn param_error(name: &'static str, reason: impl ToString) -> NodeError {
    NodeError::InvalidParam { name: name.into(), reason: reason.to_string() }
}

impl EndpointParams<'_> {
    /// Checks the parameters.
    pub(crate) fn endpoint<M: RosMessage>(&self, cx: &OpenCx) -> Result<Endpoint, NodeError> {
        check_router(self.router).map_err(|reason| param_error("router", reason))?;
        let domain = match self.domain {
            Some(domain) => domain,
            None => default_domain(std::env::var(DOMAIN_VARIABLE).ok().as_deref())
                .map_err(|reason| param_error("domain", reason))?,
        };
        let topic = match self.topic.strip_prefix('/') {
            Some(_) => self.topic.to_owned(),
            None => format!("/{}", self.topic),
        };
        let key = TopicKey::new::<M>(domain, &topic);
        let key = key.map_err(|error: Error| param_error("topic", error))?;
        let start = cx.services.need().copied().unwrap_or_else(|_| SessionStart::now());
        let reliability = match self.qos {
            QosWord::Reliable => Reliability::Reliable,
            QosWord::BestEffort => Reliability::BestEffort,
        };
        Ok(Endpoint {
            key,
            qos: Qos { reliability, history: History::KeepLast(self.depth), ..Qos::default() },
            depth: self.depth as usize,
            router: self.router.to_owned(),
            wait: self.wait,
            node: node_name(&cx.name),
            start,
        })
    }
}

/// Checks the address of a router.
fn check_router(router: &str) -> Result<(), &'static str> {
    let expected = "it must be `tcp/HOST:PORT`, such as `tcp/localhost:7447`";
    let (host, port) =
        router.strip_prefix("tcp/").and_then(|address| address.rsplit_once(':')).ok_or(expected)?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%".contains(c);
    let has_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    (!host.is_empty() && host.chars().all(is_host) && has_port).then_some(()).ok_or(expected)
}

/// Domain of the variable of the environment.
fn default_domain(variable: Option<&str>) -> Result<u32, String> {
    let Some(text) = variable.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(0) };
    let domain = text.parse().ok().filter(|domain| *domain <= MAX_DOMAIN);
    domain.ok_or_else(|| format!("{DOMAIN_VARIABLE} is {text:?}; accepted are 0 to {MAX_DOMAIN}"))
}

/// Name of a node of ROS for the node `name` of a graph.
fn node_name(name: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut name: String = name.chars().map(|c| if is_name(c) { c } else { '_' }).collect();
    if name.is_empty() {
        "afferent".clone_into(&mut name);
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key::check_node, msg::std_msgs::String as RosString};

    fn params(topic: &str) -> EndpointParams<'_> {
        EndpointParams {
            topic,
            domain: Some(7),
            qos: QosWord::BestEffort,
            depth: 5,
            router: "tcp/localhost:7447",
            wait: Duration::ZERO,
        }
    }

    #[test]
    fn an_endpoint_has_a_key_and_the_announced_quality_of_service() {
        let cx = OpenCx { name: "agent.text 1".to_owned(), ..OpenCx::default() };
        for topic in ["chatter", "/chatter"] {
            let endpoint = params(topic).endpoint::<RosString<'_>>(&cx).unwrap();
            assert_eq!((&*endpoint.key.topic, endpoint.key.domain), ("/chatter", 7));
            assert_eq!((endpoint.qos, &*endpoint.node), (Qos::SENSOR_DATA, "agent_text_1"));
        }
    }

    #[test]
    fn wrong_parameters_are_refused_with_their_name() {
        let check = |params: EndpointParams<'_>, expected: &str| {
            let endpoint = params.endpoint::<RosString<'_>>(&OpenCx::default());
            assert_eq!(endpoint.unwrap_err().to_string(), expected);
        };
        check(
            params("a-b"),
            "parameter topic: `/a-b` is not a valid topic name: only letters, digits and `_` are \
             accepted",
        );
        let router = "parameter router: it must be `tcp/HOST:PORT`, such as `tcp/localhost:7447`";
        for address in [
            "localhost:7447",
            "tls/localhost:7447",
            "tcp/localhost",
            "tcp/:7447",
            "tcp/localhost:0",
            "tcp/localhost:70000",
            "tcp/localhost:7447#iface=eth0",
            "tcp/a b:7447",
        ] {
            check(EndpointParams { router: address, ..params("a") }, router);
        }
        for address in ["tcp/[::1]:7447", "tcp/10.0.0.2:1", "tcp/my-robot.local:7447"] {
            assert_eq!(check_router(address), Ok(()));
        }
    }

    #[test]
    fn the_default_domain_is_that_of_the_environment() {
        assert_eq!(default_domain(None), Ok(0));
        assert_eq!(default_domain(Some("")), Ok(0));
        assert_eq!(default_domain(Some(" 42 ")), Ok(42));
        for wrong in ["233", "-1", "one"] {
            let error = default_domain(Some(wrong)).unwrap_err();
            assert_eq!(error, format!("ROS_DOMAIN_ID is {wrong:?}; accepted are 0 to 232"));
        }
    }

    #[test]
    fn names_of_graph_nodes_become_names_of_ros_nodes() {
        for (name, expected) in
            [("cam", "cam"), ("", "afferent"), ("a.b-c", "a_b_c"), ("1st", "_1st"), ("é", "_")]
        {
            assert_eq!(node_name(name), expected);
            assert_eq!(check_node(expected), Ok(()));
        }
    }
}

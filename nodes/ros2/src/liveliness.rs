//! Liveliness tokens of `rmw_zenoh`, by which nodes, publishers and subscribers are discovered.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{
    Error, Qos,
    key::{TopicKey, check_node, dds_type, ros_type},
};

/// First part of every token.
pub const ADMIN_SPACE: &str = "@ros2_lv";

/// A node of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeToken {
    /// `ROS_DOMAIN_ID`.
    pub domain: u32,
    /// Id of the zenoh session, in hexadecimal.
    pub session: String,
    /// Number of the node in its session.
    pub node: u32,
    /// Namespace, such as `/robot`; `/` for none.
    pub namespace: String,
    /// Name of the node.
    pub name: String,
}

/// Kind of an [`EndpointToken`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointKind {
    /// Publisher of a topic.
    Publisher,
    /// Subscriber of a topic.
    Subscriber,
}

/// A publisher or subscriber of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointToken {
    /// Node of the endpoint.
    pub node: NodeToken,
    /// Number of the endpoint in its session.
    pub endpoint: u32,
    /// Kind.
    pub kind: EndpointKind,
    /// Fully qualified name of the topic.
    pub topic: String,
    /// Name of the type, such as `sensor_msgs/msg/Image`.
    pub message: String,
    /// RIHS01 hash of the type.
    pub type_hash: String,
    /// Quality of service.
    pub qos: Qos,
}

/// A token of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A node.
    Node(NodeToken),
    /// A publisher or subscriber of a topic.
    Endpoint(EndpointToken),
    /// A server or client of a service. They are not supported.
    Service,
}

impl NodeToken {
    /// A node without a namespace.
    ///
    /// # Errors
    /// [`Error::Name`] if `name` is not a node name.
    pub fn new(domain: u32, session: &str, node: u32, name: &str) -> Result<Self, Error> {
        check_node(name)?;
        let (session, name) = (session.to_owned(), name.to_owned());
        Ok(Self { domain, session, node, namespace: "/".to_owned(), name })
    }

    /// A publisher or subscriber of this node.
    #[must_use]
    pub fn endpoint(
        &self,
        endpoint: u32,
        kind: EndpointKind,
        key: &TopicKey,
        qos: Qos,
    ) -> EndpointToken {
        let TopicKey { topic, message, type_hash, .. } = key.clone();
        EndpointToken { node: self.clone(), endpoint, kind, topic, message, type_hash, qos }
    }

    /// The token of entity number `entity` of this node.
    fn entity(&self, entity: u32, kind: &str) -> String {
        let Self { domain, session, node, namespace, name } = self;
        let namespace = mangle(namespace);
        // The enclave is the root.
        format!("{ADMIN_SPACE}/{domain}/{session}/{node}/{entity}/{kind}/%/{namespace}/{name}")
    }
}

impl fmt::Display for NodeToken {
    /// The key expression.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.entity(self.node, "NN"))
    }
}

impl EndpointToken {
    /// Identity of the endpoint, for [`Attachment::gid`](crate::Attachment::gid).
    pub fn gid(&self) -> [u8; 16] {
        let hash = Sha256::digest(self.to_string());
        std::array::from_fn(|at| hash[at])
    }
}

impl fmt::Display for EndpointToken {
    /// The key expression.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, endpoint, kind, topic, message, type_hash, qos } = self;
        let kind = match kind {
            EndpointKind::Publisher => "MP",
            EndpointKind::Subscriber => "MS",
        };
        let (entity, topic) = (node.entity(*endpoint, kind), mangle(topic));
        write!(f, "{entity}/{topic}/{}/{type_hash}/{}", dds_type(message), qos.text())
    }
}

impl Token {
    /// Reads the token of a peer.
    ///
    /// # Errors
    /// [`Error::Peer`] if it is not a token of this format.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fault =
            |reason| Error::Peer { part: "liveliness token", text: text.to_owned(), reason };
        let parts: Vec<&str> = text.split('/').collect();
        let [ADMIN_SPACE, domain, session, node, entity, kind, _, namespace, name, ref rest @ ..] =
            parts[..]
        else {
            return Err(fault("it must have at least nine parts, the first `@ros2_lv`"));
        };
        let number = |text: &str| text.parse().map_err(|_| fault("an id is no number"));
        let (domain, node, entity) = (number(domain)?, number(node)?, number(entity)?);
        let (session, namespace) = (session.to_owned(), demangle(namespace));
        let node = NodeToken { domain, session, node, namespace, name: name.to_owned() };
        let kind = match (kind, rest.len()) {
            ("NN", 0) => return Ok(Self::Node(node)),
            ("SS" | "SC", 4) => return Ok(Self::Service),
            ("MP", 4) => EndpointKind::Publisher,
            ("MS", 4) => EndpointKind::Subscriber,
            _ => return Err(fault("the kind is none of NN, MP, MS, SS, SC with their parts")),
        };
        let [topic, ty, hash, qos] = rest[..] else {
            return Err(fault("it must have thirteen parts"));
        };
        Ok(Self::Endpoint(EndpointToken {
            node,
            endpoint: entity,
            kind,
            topic: demangle(topic),
            message: ros_type(ty).ok_or(fault("the type is not `PACKAGE::msg::dds_::NAME_`"))?,
            type_hash: hash.to_owned(),
            qos: Qos::parse(qos)?,
        }))
    }
}

/// Key expression of the tokens of all publishers of `topic`.
#[cfg_attr(not(feature = "zenoh"), expect(dead_code, reason = "only a connection discovers"))]
pub(crate) fn publishers_of(domain: u32, topic: &str) -> String {
    format!("{ADMIN_SPACE}/{domain}/*/*/*/MP/*/*/*/{}/**", mangle(topic))
}

/// A name as one part of a key.
fn mangle(name: &str) -> String {
    if name.is_empty() { "%".to_owned() } else { name.replace('/', "%") }
}

/// Inverse of [`mangle`].
fn demangle(part: &str) -> String {
    part.replace('%', "/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::std_msgs::String as RosString;

    fn node() -> NodeToken {
        NodeToken::new(0, "a1b2", 3, "afferent").unwrap()
    }

    #[test]
    fn tokens_round_trip() {
        assert_eq!(node().to_string(), "@ros2_lv/0/a1b2/3/3/NN/%/%/afferent");
        let named = NodeToken { namespace: "/robot/arm".to_owned(), ..node() };
        assert_eq!(named.to_string(), "@ros2_lv/0/a1b2/3/3/NN/%/%robot%arm/afferent");
        for node in [node(), named] {
            assert_eq!(Token::parse(&node.to_string()), Ok(Token::Node(node)));
        }
        let key = TopicKey::new::<RosString<'_>>(0, "/a/chatter").unwrap();
        let expected = format!(
            "/%/%/afferent/%a%chatter/std_msgs::msg::dds_::String_/{}/2::,5:,:,:,,",
            key.type_hash
        );
        for (kind, word) in [(EndpointKind::Publisher, "MP"), (EndpointKind::Subscriber, "MS")] {
            let token = node().endpoint(4, kind, &key, Qos::SENSOR_DATA);
            assert_eq!(token.to_string(), format!("@ros2_lv/0/a1b2/3/4/{word}{expected}"));
            assert_eq!(Token::parse(&token.to_string()), Ok(Token::Endpoint(token)));
        }
        let service = format!("@ros2_lv/0/a1b2/3/4/SS{expected}");
        assert_eq!(Token::parse(&service), Ok(Token::Service));
    }

    #[test]
    fn endpoints_have_different_identities() {
        let key = TopicKey::new::<RosString<'_>>(0, "/chatter").unwrap();
        let endpoint = |number, kind| node().endpoint(number, kind, &key, Qos::default());
        let one = endpoint(1, EndpointKind::Publisher);
        assert_eq!(one.gid(), one.clone().gid());
        assert_ne!(one.gid(), endpoint(2, EndpointKind::Publisher).gid());
        assert_ne!(one.gid(), endpoint(1, EndpointKind::Subscriber).gid());
    }

    #[test]
    fn foreign_tokens_are_refused() {
        for token in [
            "",
            "@ros2_lv/0/a1b2/3/3/NN/%/%",
            "@other/0/a1b2/3/3/NN/%/%/afferent",
            "@ros2_lv/x/a1b2/3/3/NN/%/%/afferent",
            "@ros2_lv/0/a1b2/3/3/XX/%/%/afferent",
            "@ros2_lv/0/a1b2/3/3/NN/%/%/afferent/more",
            "@ros2_lv/0/a1b2/3/4/MP/%/%/afferent/%chatter/String/hash/::,10:,:,:,,",
            "@ros2_lv/0/a1b2/3/4/MP/%/%/afferent/%chatter/a::msg::dds_::S_/hash/::",
            "@ros2_lv/0/a1b2/3/4/MP/%/%/afferent/%chatter/a::msg::dds_::S_/hash",
        ] {
            assert!(Token::parse(token).is_err(), "{token}");
        }
    }
}

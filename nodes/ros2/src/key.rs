//! Keys of topics, and the names in them.

use crate::{Error, msg::RosMessage};

/// Hash of a topic's type in Humble, where types have none.
pub const NO_TYPE_HASH: &str = "TypeHashNotSupported";

/// Key of the messages of a topic in `rmw_zenoh`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicKey {
    /// `ROS_DOMAIN_ID`.
    pub domain: u32,
    /// Fully qualified name of the topic, such as `/camera/image_raw`.
    pub topic: String,
    /// Name of the type, such as `sensor_msgs/msg/Image`.
    pub message: String,
    /// RIHS01 hash of the type.
    pub type_hash: String,
}

impl TopicKey {
    /// Key of a topic with messages of type `M`.
    ///
    /// # Errors
    /// [`Error::Name`] if `topic` is not a fully qualified topic name.
    pub fn new<M: RosMessage>(domain: u32, topic: &str) -> Result<Self, Error> {
        check_topic(topic)?;
        let (topic, message) = (topic.to_owned(), M::NAME.to_owned());
        Ok(Self { domain, topic, message, type_hash: M::TYPE_HASH.to_owned() })
    }

    /// Key that messages are published under.
    pub fn publish(&self) -> String {
        format!("{}/{}", self.without_hash(), self.type_hash)
    }

    /// Key expression to subscribe to. It matches every hash, because Humble has none.
    pub fn subscribe(&self) -> String {
        format!("{}/*", self.without_hash())
    }

    fn without_hash(&self) -> String {
        let topic = self.topic.strip_prefix('/').unwrap_or(&self.topic);
        format!("{}/{topic}/{}", self.domain, dds_type(&self.message))
    }

    /// Reads the key of a message.
    ///
    /// # Errors
    /// [`Error::Peer`] if it is not the key of a topic.
    pub fn parse(key: &str) -> Result<Self, Error> {
        let fault = |reason| Error::Peer { part: "key", text: key.to_owned(), reason };
        let (domain, rest) = key.split_once('/').ok_or(fault("it has no topic"))?;
        let mut parts = rest.rsplitn(3, '/');
        let (Some(hash), Some(ty), Some(topic)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(fault("it must have a domain, a topic, a type and a hash"));
        };
        let topic = format!("/{topic}");
        check_topic(&topic).map_err(|_| fault("the topic has no valid name"))?;
        Ok(Self {
            domain: domain.parse().map_err(|_| fault("the domain is no number"))?,
            topic,
            message: ros_type(ty).ok_or(fault("the type is not `PACKAGE::msg::dds_::NAME_`"))?,
            type_hash: hash.to_owned(),
        })
    }
}

/// Name of the type `message` in DDS: `sensor_msgs::msg::dds_::Image_` for `sensor_msgs/msg/Image`.
pub(crate) fn dds_type(message: &str) -> String {
    let (scope, name) = message.rsplit_once('/').unwrap_or(("", message));
    format!("{}::dds_::{name}_", scope.replace('/', "::"))
}

/// Inverse of [`dds_type`].
pub(crate) fn ros_type(dds: &str) -> Option<String> {
    let (scope, name) = dds.strip_suffix('_')?.rsplit_once("::dds_::")?;
    let package = scope.strip_suffix("::msg")?;
    let is_valid = |name: &str| is_token(name).is_ok();
    (is_valid(package) && is_valid(name)).then(|| format!("{package}/msg/{name}"))
}

/// Checks a fully qualified name of a topic.
///
/// # Errors
/// [`Error::Name`] with the broken rule.
pub fn check_topic(topic: &str) -> Result<(), Error> {
    let fault = |reason| Error::Name { name: topic.to_owned(), kind: "topic name", reason };
    let tokens = topic.strip_prefix('/').ok_or(fault("it must start with `/`"))?;
    tokens.split('/').try_for_each(is_token).map_err(fault)
}

/// Checks the name of a node.
///
/// # Errors
/// [`Error::Name`] with the broken rule.
pub fn check_node(node: &str) -> Result<(), Error> {
    is_token(node).map_err(|reason| Error::Name {
        name: node.to_owned(),
        kind: "node name",
        reason,
    })
}

/// Checks a part of a name.
fn is_token(token: &str) -> Result<(), &'static str> {
    if token.is_empty() {
        return Err("a part of it is empty");
    }
    if token.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("a part of it starts with a digit");
    }
    if !token.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err("only letters, digits and `_` are accepted");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::sensor_msgs::Image;

    #[test]
    fn keys_round_trip() {
        let key = TopicKey::new::<Image<'_>>(7, "/camera/image_raw").unwrap();
        let expected = "7/camera/image_raw/sensor_msgs::msg::dds_::Image_/";
        assert_eq!(key.publish(), format!("{expected}{}", Image::TYPE_HASH));
        assert_eq!(key.subscribe(), format!("{expected}*"));
        assert_eq!(TopicKey::parse(&key.publish()), Ok(key.clone()));
        let humble = TopicKey::parse(&format!("{expected}{NO_TYPE_HASH}")).unwrap();
        assert_eq!(humble, TopicKey { type_hash: NO_TYPE_HASH.to_owned(), ..key });
    }

    #[test]
    fn foreign_keys_are_refused() {
        for key in [
            "",
            "7",
            "7/chatter",
            "7/chatter/std_msgs::msg::dds_::String_",
            "x/chatter/std_msgs::msg::dds_::String_/*",
            "7//std_msgs::msg::dds_::String_/*",
            "7/a//b/std_msgs::msg::dds_::String_/*",
            "7/chatter/std_msgs::msg::String/*",
            "7/chatter/std_msgs::srv::dds_::String_/*",
            "7/chatter/::msg::dds_::_/*",
        ] {
            assert!(TopicKey::parse(key).is_err(), "{key}");
        }
    }

    #[test]
    fn names_of_topics_and_nodes_are_checked() {
        for topic in ["/chatter", "/a/b_1/C", "/_hidden"] {
            assert_eq!(check_topic(topic), Ok(()));
        }
        for topic in ["", "/", "chatter", "/a/", "//a", "/1a", "/a b", "/a-b", "/é", "/a/*"] {
            assert!(check_topic(topic).is_err(), "{topic}");
        }
        assert_eq!(
            check_topic("/a-b").unwrap_err().to_string(),
            "`/a-b` is not a valid topic name: only letters, digits and `_` are accepted"
        );
        assert!(check_node("afferent").is_ok() && check_node("a/b").is_err());
    }
}

//! Node and payload types that graph files can name.

use std::collections::BTreeMap;

use crate::{NodeDef, NodeEntry, PayloadType};

/// Node and payload types that graph files can name.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    nodes: Vec<NodeDef>,
    payloads: BTreeMap<String, PayloadType>,
    conflicts: Vec<PayloadConflict>,
}

/// Two payload types of one name that differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the payload type `{name}` is registered with another Rust type; give one of them another name"
)]
pub struct PayloadConflict {
    /// [`PayloadType::name`].
    pub name: String,
}

impl Catalog {
    /// Adds the nodes of a list, such as the one of a node crate.
    #[must_use]
    pub fn with_nodes(self, list: &[NodeEntry]) -> Self {
        list.iter().fold(self, |catalog, entry| catalog.with_node(entry()))
    }

    /// Adds a node type. It replaces one of the same name.
    #[must_use]
    pub fn with_node(mut self, def: NodeDef) -> Self {
        match self.nodes.iter_mut().find(|known| known.name == def.name) {
            Some(known) => *known = def,
            None => self.nodes.push(def),
        }
        self
    }

    /// Adds a payload type. Another type of the same name is one of the [`Catalog::conflicts`].
    #[must_use]
    pub fn with_payload(mut self, ty: PayloadType) -> Self {
        match self.payloads.get(&*ty.name) {
            Some(known) if known.rust != ty.rust => {
                self.conflicts.push(PayloadConflict { name: ty.name.into_owned() });
            }
            _ => {
                self.payloads.insert(ty.name.to_string(), ty);
            }
        }
        self
    }

    /// Payload types that were refused. No graph passes the check with them.
    pub fn conflicts(&self) -> &[PayloadConflict] {
        &self.conflicts
    }

    /// Node type of this name.
    pub fn node(&self, name: &str) -> Option<&NodeDef> {
        self.nodes.iter().find(|def| *def.name == *name)
    }

    /// Every node type, in the order in which they were added.
    pub fn nodes(&self) -> &[NodeDef] {
        &self.nodes
    }
}

impl FromIterator<NodeDef> for Catalog {
    fn from_iter<I: IntoIterator<Item = NodeDef>>(nodes: I) -> Self {
        nodes.into_iter().fold(Self::default(), Self::with_node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeSpec, OnFull, Payload, test_payload::Sample};

    fn named(name: &str, summary: &str) -> NodeDef {
        let spec = NodeSpec { summary: summary.into(), ..NodeSpec::new(name, &[]) };
        NodeDef::from_fn(spec, |_| unreachable!("no graph runs here"))
    }

    #[test]
    fn a_later_node_replaces_one_of_the_same_name() {
        let nodes = [named("a", "first"), named("b", "other"), named("a", "second")];
        let catalog: Catalog = nodes.into_iter().collect();
        let summaries: Vec<_> = catalog.nodes().iter().map(|def| &*def.summary).collect();
        assert_eq!(summaries, ["second", "other"]);
        assert!(catalog.node("c").is_none());
    }

    #[test]
    fn a_payload_name_stands_for_one_rust_type() {
        let catalog = Catalog::default().with_payload(PayloadType::of::<Sample>());
        let catalog = catalog.with_payload(PayloadType::of::<Sample>());
        assert_eq!(catalog.conflicts(), []);
        let catalog = catalog.with_payload(PayloadType::dynamic(Sample::TYPE, OnFull::Block));
        let names: Vec<_> = catalog.conflicts().iter().map(|conflict| &*conflict.name).collect();
        assert_eq!(names, [Sample::TYPE]);
    }
}

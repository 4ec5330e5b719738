//! Rules of zenoh's access control for one machine, made from the edges of the graph.
//!
//! Everything is denied but, for each other machine, by the common name of its certificate: control
//! messages and the packets of its edges to this machine, what this machine sends to it, and the
//! subscriptions for both.

use afferent_spec::CheckedGraph;
use serde_json::{Value, json};

use super::{edges, keys, peers};
use crate::remote::CONTROL;

/// The value of `access_control` in zenoh's configuration for the machine `here`.
pub(super) fn rules(graph: &CheckedGraph, here: usize) -> Value {
    let (mut rules, mut subjects, mut policies) = (vec![], vec![], vec![]);
    for peer in peers(graph, here) {
        let name = &graph.machines[peer].name;
        let streams = |ends: [usize; 2]| -> Vec<String> {
            let edges = edges(graph, ends).filter_map(|edge| u16::try_from(edge).ok());
            edges.chain([CONTROL]).map(|stream| keys::stream(graph, ends, stream)).collect()
        };
        let (received, sent) = ([peer, here], [here, peer]);
        let mut allow = |flow: &str, message: &str, keys: Vec<String>| {
            rules.push(json!({
                "id": format!("{name} {flow} {message}"),
                "permission": "allow",
                "flows": [flow],
                "messages": [message],
                "key_exprs": keys,
            }));
        };
        allow("ingress", "put", streams(received));
        allow("egress", "put", streams(sent));
        allow("ingress", "declare_subscriber", vec![keys::from(graph, sent)]);
        allow("egress", "declare_subscriber", vec![keys::from(graph, received)]);
        subjects.push(json!({ "id": name, "cert_common_names": [name] }));
        let ids = [
            "ingress put",
            "egress put",
            "ingress declare_subscriber",
            "egress declare_subscriber",
        ];
        let ids: Vec<_> = ids.iter().map(|id| format!("{name} {id}")).collect();
        policies.push(json!({ "rules": ids, "subjects": [name] }));
    }
    json!({
        "enabled": true,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    })
}

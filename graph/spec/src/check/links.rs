//! Checks of edges between processes and machines.

use std::collections::{BTreeMap, BTreeSet};

use afferent_graph::{NodeDef, ParamValue, ParamValues, PortSpec};

use crate::{
    Diagnostic, Edge, InputConfig, Location, OnLoss, check::Checker,
    load::locations::InputLocations,
};

/// Payload type of images that are not encoded.
const RAW_IMAGE: &str = "vision/Image";
/// Bits of a pixel, by the names of ROS.
const PIXELS: [(&str, u32); 11] = [
    ("mono8", 8),
    ("nv12", 12),
    ("i420", 12),
    ("mono16", 16),
    ("16UC1", 16),
    ("yuyv", 16),
    ("uyvy", 16),
    ("rgb8", 24),
    ("bgr8", 24),
    ("rgba8", 32),
    ("32FC1", 32),
];

/// An edge between machines, or an interrupt.
pub(super) struct Link {
    /// Machines of the sender and the receiver.
    machines: [usize; 2],
    /// Location of the receiver's reference to the sender.
    location: Option<Location>,
    /// Sender and receiver of raw images.
    images: Option<(usize, usize)>,
}

impl Checker<'_> {
    /// Machine of a node; `None` if it is unknown.
    pub(super) fn machine_of(&self, node: usize) -> Option<usize> {
        let partition = (*self.partition_of.get(node)?)?;
        Some(self.partitions.get(partition)?.machine)
    }

    /// Checks an edge from an output `from` and notes it if it leads to another machine.
    pub(super) fn link(
        &mut self,
        edge: &Edge,
        input: &InputConfig,
        from: &PortSpec,
        locations: &InputLocations,
    ) {
        let (sender, receiver) = (edge.from.0, edge.to.0);
        let nodes = &self.graph.nodes;
        let what = format!(
            "of the stream from \"{}\" to \"{}\"",
            nodes[sender].name, nodes[receiver].name
        );
        if input.loss_timeout.is_some() && edge.on_loss != OnLoss::Wait {
            let message = format!("\"loss_timeout\" {what} needs \"on_loss: wait\"");
            let help = "it says after which time a wait becomes an end";
            self.error(locations.loss_timeout.as_ref(), message, Some(help.to_owned()));
        }
        if input.loss_timeout.is_some_and(|timeout| timeout.is_zero()) {
            let message = format!("\"loss_timeout\" {what} must be longer than none");
            self.error(locations.loss_timeout.as_ref(), message, None);
        }
        let ends = [sender, receiver].map(|node| self.partition_of.get(node).copied().flatten());
        let [Some(from_partition), Some(to_partition)] = ends else { return };
        let given = [
            ("on_loss", input.on_loss.is_some(), &locations.on_loss),
            ("loss_timeout", input.loss_timeout.is_some(), &locations.loss_timeout),
        ];
        if from_partition == to_partition && !self.here {
            for (key, _, location) in given.iter().filter(|(_, given, _)| *given) {
                let message =
                    format!("\"{key}\" {what} has no effect: both nodes run in the same process");
                self.faults.push(Diagnostic::warning(location.as_ref(), message));
            }
        }
        if from_partition != to_partition && from.wire.is_none() {
            let message = format!(
                "{} of \"{}.{}\" cannot leave its process: the payload type has no wire codec",
                from.ty, nodes[sender].name, from.name
            );
            let help = format!(
                "run both nodes in one process, or set `WIRE` of the payload type: \"{}\" is in {}, \
                 \"{}\" in {}",
                nodes[sender].name,
                self.partition_name(sender),
                nodes[receiver].name,
                self.partition_name(receiver)
            );
            self.error(locations.from.port.as_ref(), message, Some(help));
        }
        let images = (*from.ty == *RAW_IMAGE).then_some((sender, receiver));
        self.add_link(sender, receiver, locations.from.node.clone(), images);
    }

    fn add_link(
        &mut self,
        sender: usize,
        receiver: usize,
        location: Option<Location>,
        images: Option<(usize, usize)>,
    ) {
        if let (Some(from), Some(to)) = (self.machine_of(sender), self.machine_of(receiver))
            && from != to
        {
            self.machine_links.push(Link { machines: [from, to], location, images });
        }
    }

    /// Checks that machines with common edges can reach each other. `params` are those of the
    /// nodes.
    pub(super) fn links(&mut self, params: &[ParamValues]) {
        if let Some((on, _)) = self.interrupt {
            let location = self.locations.interrupt.0.node.clone();
            let canceled = self.graph.interrupt.iter().flat_map(|interrupt| &interrupt.cancels);
            let canceled = canceled.filter_map(|name| self.index.get(name.as_str()).copied());
            for node in canceled.collect::<Vec<_>>() {
                self.add_link(on, node, location.clone(), None);
            }
        }
        let links = std::mem::take(&mut self.machine_links);
        for (sender, receiver, link) in
            links.iter().filter_map(|link| link.images.map(|(from, to)| (from, to, link)))
        {
            self.warn_of_images(&params[sender], (sender, receiver), link);
        }
        let mut pairs: BTreeMap<[usize; 2], &Link> = BTreeMap::new();
        for link in &links {
            let mut pair = link.machines;
            pair.sort_unstable();
            pairs.entry(pair).or_insert(link);
        }
        let used = self.partition_of.iter().flatten().map(|index| self.partitions[*index].machine);
        let others: BTreeSet<_> = used.filter(|machine| *machine != 0).collect();
        let starts = others.iter().map(|machine| [0, *machine]).filter(|pair| {
            // Reported below with their edge.
            !pairs.contains_key(pair)
        });
        for [first, other] in starts.collect::<Vec<_>>() {
            let location = self.locations.machines.get(other);
            let location = location.and_then(|machine| machine.name.clone());
            self.need_listener([first, other], "share a session", location.as_ref());
        }
        for (pair, link) in pairs {
            self.need_listener(pair, "exchange packets", link.location.as_ref());
        }
    }

    /// Checks that one of two machines that `share` something listens.
    fn need_listener(&mut self, pair: [usize; 2], share: &str, location: Option<&Location>) {
        let [one, other] = pair.map(|machine| &self.graph.machines[machine]);
        if one.listen.is_some() || other.listen.is_some() {
            return;
        }
        let (one, other) = (&one.name, &other.name);
        let message = format!("machines \"{one}\" and \"{other}\" {share}, and neither listens");
        let help = format!(
            "let one of them listen: \"{one}: {{listen: quic/0.0.0.0:7450}}\" in \"machines\""
        );
        self.error(location, message, Some(help));
    }

    fn warn_of_images(
        &mut self,
        params: &ParamValues,
        (sender, receiver): (usize, usize),
        link: &Link,
    ) {
        let nodes = &self.graph.nodes;
        let (from, to) = (&nodes[sender].name, &nodes[receiver].name);
        let [machine, other] = link.machines.map(|machine| &self.graph.machines[machine].name);
        let rate = self.defs[sender].and_then(|def| image_rate(def, params));
        let rate = rate.map_or_else(String::new, |rate| format!(": {:.0} Mb/s", rate / 1e6));
        let message = format!(
            "raw images of \"{from}\" go from machine \"{machine}\" to machine \"{other}\"{rate}"
        );
        let help = format!("run \"{to}\" on \"{machine}\", or send smaller or encoded images");
        let warning = Diagnostic::warning(link.location.as_ref(), message);
        self.faults.push(warning.help(help));
    }
}

/// Bits per second of the images of a node, if its parameters give their size and rate.
fn image_rate(def: &NodeDef, params: &ParamValues) -> Option<f64> {
    let value = |name: &str| {
        let param = def.params.iter().find(|param| *param.name == *name)?;
        let default = || param.accept(&ParamValue::Text(param.default.as_deref()?.to_owned())).ok();
        params.get(name).cloned().or_else(default)
    };
    let number = |name: &str| match value(name)? {
        ParamValue::Int(value) => Some(value as f64),
        ParamValue::Float(value) => Some(value),
        _ => None,
    };
    let ParamValue::Text(format) = value("format")? else { return None };
    let (_, bits) = PIXELS.iter().find(|(name, _)| *name == format)?;
    Some(number("width")? * number("height")? * f64::from(*bits) * number("fps")?)
}

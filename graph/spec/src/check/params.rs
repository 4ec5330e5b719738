//! Checks of the parameters of a node.

use afferent_graph::{
    NodeDef, NodeError, OpenCx, ParamError, ParamKind, ParamSpec, ParamValue, ParamValues,
};

use crate::{Graph, Location, check::Checker, suggest};

impl<'a> Checker<'a> {
    /// Parameters of `node` with resolved paths. The node's own check runs if they are valid and the
    /// node may run on this machine, which has its files and devices.
    pub(super) fn params(&mut self, node: usize, services: &OpenCx) -> ParamValues {
        let Some(def) = self.defs[node] else { return ParamValues::new() };
        let before = self.faults.len();
        let mut values = ParamValues::new();
        let mut meant = Vec::new();
        for (name, value) in &self.graph.nodes[node].params {
            match def.params.iter().find(|param| *param.name == **name) {
                Some(param) => {
                    if let Some(value) = self.param(node, param, value) {
                        values.insert(name.clone(), value);
                    }
                }
                None => meant.extend(self.unknown_param(node, def, name)),
            }
        }
        let reported = self.node_locations(node).map(|locations| &locations.reported);
        for param in &def.params {
            if values.contains_key(&*param.name) {
                continue;
            }
            let told = reported
                .is_some_and(|told| told.all_params || told.params.contains(&*param.name))
                || meant.iter().any(|name| **name == *param.name)
                || self.graph.nodes[node].params.contains_key(&*param.name);
            match default_path(param) {
                Some(path) => {
                    let path = resolve(self.graph, self.name_location(node), path);
                    values.insert(param.name.to_string(), path);
                }
                None if param.default.is_none() && !param.optional && !told => {
                    self.missing_param(node, param);
                }
                None => {}
            }
        }
        let sound = reported.is_none_or(|told| !told.all_params && told.params.is_empty());
        let is_replaced = self.without_sources && def.is_source();
        let is_checked = !is_replaced && !self.wiring_only && !self.is_elsewhere(node);
        if sound && self.faults.len() == before && is_checked {
            let cx = OpenCx { name: self.graph.nodes[node].name.clone(), ..services.clone() };
            if let Err(error) = def.factory().check(&values, &cx) {
                self.refused(node, &values, &error);
            }
        }
        values
    }

    fn param(&mut self, node: usize, param: &ParamSpec, value: &ParamValue) -> Option<ParamValue> {
        let error = match param.accept(value) {
            Ok(value) => {
                return Some(resolve(self.graph, self.value_location(node, &param.name), value));
            }
            Err(error) => error,
        };
        let help = match (&error, param.kind) {
            (ParamError::Kind { found, .. }, ParamKind::Choice(_)) => {
                let found = suggest::closest(found, param.choices());
                found.map(|word| format!("did you mean \"{word}\"?"))
            }
            _ => None,
        };
        let message = format!("{}: {error}", self.param_words(node, &param.name));
        self.error(self.value_location(node, &param.name), message, help);
        None
    }

    /// Reports an unknown parameter; returns the one that was probably meant.
    fn unknown_param<'d>(&mut self, node: usize, def: &'d NodeDef, name: &str) -> Option<&'d str> {
        let known = def.params.iter().map(|param| &*param.name);
        let node_name = &self.graph.nodes[node].name;
        let message = format!("unknown parameter \"{name}\" of node \"{node_name}\"");
        let help = suggest::help(
            &self.faults,
            name,
            known.clone(),
            &format!("the parameters of {}", def.name),
        );
        let location = self.node_locations(node).and_then(|locations| locations.params.get(name));
        let location = location.map_or_else(|| self.name_location(node), |(key, _)| Some(key));
        self.error(location, message, help);
        suggest::closest(name, known)
    }

    fn missing_param(&mut self, node: usize, param: &ParamSpec) {
        let name = &self.graph.nodes[node].name;
        let message = format!("node \"{name}\" needs the parameter \"{}\"", param.name);
        let unit =
            if param.unit.is_empty() { String::new() } else { format!(" in {}", param.unit) };
        let meaning = format!("{}: {}{unit}. {}", param.name, param.kind, param.help.trim());
        self.error(self.name_location(node), message, Some(meaning.trim().to_owned()));
    }

    /// Reports an error of the node's own check, or of its definition.
    pub(super) fn refused(&mut self, node: usize, values: &ParamValues, error: &NodeError) {
        let (message, location) = match error {
            NodeError::InvalidParam { name, reason } => {
                let location = self.value_location(node, name);
                (format!("{}: {reason}", self.param_words(node, name)), location)
            }
            NodeError::File { path, .. } | NodeError::Model { path, .. } => {
                let params = self.defs[node].iter().flat_map(|def| &def.params);
                let mut names = params.map(|param| &*param.name);
                let name = names.find(|name| match values.get(*name) {
                    Some(ParamValue::Path(value)) => path.starts_with(value),
                    _ => false,
                });
                let location = name.map_or_else(
                    || self.name_location(node),
                    |name| self.value_location(node, name),
                );
                (format!("node \"{}\": {error}", self.graph.nodes[node].name), location)
            }
            // The kind of a node may be set elsewhere than its name, as in a profile.
            _ => {
                let kind = self.node_locations(node).and_then(|locations| locations.kind.as_ref());
                let message = format!("node \"{}\": {error}", self.graph.nodes[node].name);
                (message, kind.or_else(|| self.name_location(node)))
            }
        };
        self.error(location, message, None);
    }

    fn param_words(&self, node: usize, name: &str) -> String {
        format!("parameter \"{name}\" of node \"{}\"", self.graph.nodes[node].name)
    }

    /// Location of the value of a parameter, or else of the name of the node.
    pub(super) fn value_location(&self, node: usize, param: &str) -> Option<&'a Location> {
        self.node_locations(node)?.value(param)
    }
}

/// The default of `param`, if it is a path.
pub(super) fn default_path(param: &ParamSpec) -> Option<ParamValue> {
    let path = param.default.as_deref().filter(|_| param.kind.is_path())?;
    Some(ParamValue::Path(path.into()))
}

/// Resolves a path: against the folder of the file of `location`, or else of the graph. A path of
/// the command line that exists only in the current folder is taken from there. `~/` is the home
/// folder, and `-` is standard input or output.
pub(super) fn resolve(graph: &Graph, location: Option<&Location>, value: ParamValue) -> ParamValue {
    let ParamValue::Path(path) = value else { return value };
    if path.as_os_str() == "-" {
        return ParamValue::Path(path);
    }
    if let (Ok(rest), Some(home)) = (path.strip_prefix("~"), std::env::home_dir()) {
        return ParamValue::Path(home.join(rest));
    }
    let folder = location.and_then(Location::folder);
    let resolved = folder.unwrap_or(&graph.folder).join(&path);
    let is_typed = location.is_some_and(Location::is_command_line);
    if is_typed && !resolved.exists() && path.exists() {
        return ParamValue::Path(path);
    }
    ParamValue::Path(resolved)
}

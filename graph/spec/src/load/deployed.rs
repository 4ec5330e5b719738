//! Options of the start: addresses of machines, and the machine of this program.
//!
//! ```yaml
//! machines:                                # the file of `--machines`
//!   robot: {listen: quic/0.0.0.0:7450, address: quic/10.0.0.2:7450, ssh: me@10.0.0.2, dir: robot}
//! ```

use std::{path::Path, sync::Arc};

use crate::{
    Diagnostic, Graph, Location, PlacementOptions,
    diagnostic::Source,
    load::{locations::Locations, read_file, reader::Reader},
    yaml::Node,
};

/// Order of the diagnostics of `--machine`, and of the first `--at`: after those of `--set`.
const MACHINE_ORDER: usize = 1 << 30;
const AT_ORDER: usize = MACHINE_ORDER + 1;

/// Settings of a machine in the file of `--machines`.
const SETTINGS: [&str; 5] = ["listen", "address", "ssh", "dir", "program"];
/// The same, as words of a message.
const SETTINGS_WORDS: &str = "\"listen\", \"address\", \"ssh\", \"dir\" and \"program\"";

impl Reader {
    /// Applies `options` to `graph`. Returns the machine of this program: its index in the machines
    /// of the graph.
    pub(crate) fn deploy(
        &mut self,
        graph: &mut Graph,
        locations: &mut Locations,
        options: &PlacementOptions,
    ) -> Option<usize> {
        // Those of a graph built in Rust have no locations.
        locations.machines.resize_with(graph.machines.len(), Default::default);
        if let Some(path) = &options.machines {
            self.machines_file(path, graph, locations);
        }
        for (number, at) in options.at.iter().enumerate() {
            self.apply_at(at, number, graph, locations);
        }
        let name = options.machine.as_ref()?;
        let source = Source { name: "--machine".into(), text: name.clone(), order: MACHINE_ORDER };
        let location = Location::new(&Arc::new(source), 0..name.len());
        self.find_machine(name, &location, graph)
    }

    /// Index of the machine `name`; reports that there is none.
    fn find_machine(&mut self, name: &str, location: &Location, graph: &Graph) -> Option<usize> {
        let found = graph.machines.iter().position(|machine| machine.name == name);
        if found.is_none() {
            let known = graph.machines.iter().map(|machine| machine.name.as_str());
            let message = format!("unknown machine \"{name}\"");
            self.unknown(location, message, name, known, "the machines of the graph");
        }
        found
    }

    fn machines_file(&mut self, path: &Path, graph: &mut Graph, locations: &mut Locations) {
        let text = match read_file(path) {
            Ok(text) => text,
            Err(reason) => {
                let message = format!("--machines: cannot read {}: {reason}", path.display());
                self.faults.push(Diagnostic::error(None, message));
                return;
            }
        };
        self.origin.read(path.to_owned(), &text);
        self.files += 1;
        let (name, order) = (path.display().to_string(), Source::PARTS + self.files);
        let source = Arc::new(Source { name, text, order });
        let Some(tree) = self.tree(&source, 0..source.text.len()) else { return };
        let what = "the file of --machines";
        let Some(map) = self.map(&tree, what, "\"machines\"") else { return };
        let meant = self.keys(map, &["machines"], what);
        let Some(machines) = tree.get("machines") else {
            if meant.is_empty() {
                let start = Location::new(&source, 0..0);
                self.error(&start, format!("{what} has no \"machines\""));
            }
            return;
        };
        let machines = self.map(machines, &format!("\"machines\" of {what}"), "machines by name");
        for (key, value) in machines.into_iter().flatten() {
            let Some(at) = self.find_machine(&key.text, &key.location, graph) else { continue };
            let what = format!("machine \"{}\"", key.text);
            let Some(map) = self.map(value, &what, SETTINGS_WORDS) else { continue };
            self.keys(map, &SETTINGS, &what);
            let [listen, address, ssh, dir, program] =
                SETTINGS.map(|key| self.setting(value, key, &what));
            let (machine, found) = (&mut graph.machines[at], &mut locations.machines[at]);
            if let Some((text, location)) = listen {
                (machine.listen, found.listen) = (Some(text), Some(location));
            }
            if let Some((text, location)) = address {
                (machine.address, found.address) = (Some(text), Some(location));
            }
            let remote = &mut machine.remote;
            let settings =
                [(ssh, &mut remote.ssh), (dir, &mut remote.dir), (program, &mut remote.program)];
            for (given, setting) in settings {
                let Some((text, location)) = given else { continue };
                // Words that begin with "-" would be options of ssh or of a shell command.
                if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
                    self.error(
                        &location,
                        format!("\"{text}\" of {what} is no login, folder or program"),
                    );
                }
                *setting = Some(text);
            }
        }
    }

    fn setting(&mut self, node: &Node, key: &str, what: &str) -> Option<(String, Location)> {
        let value = node.get(key).filter(|value| !value.is_null())?;
        let text = self.text(value, &format!("\"{key}\" of {what}"))?;
        Some((text.to_owned(), value.location.clone()))
    }

    /// Applies `--at` number `number`: `NAME=ADDRESS`.
    fn apply_at(&mut self, at: &str, number: usize, graph: &mut Graph, locations: &mut Locations) {
        let order = AT_ORDER + number;
        let source = Arc::new(Source { name: "--at".into(), text: at.to_owned(), order });
        let Some((name, address)) = at.split_once('=') else {
            let message = format!("\"{at}\" is not written \"NAME=ADDRESS\"");
            let help = "such as \"robot=quic/10.0.0.2:7450\"".to_owned();
            let location = Location::new(&source, 0..at.len());
            self.faults.push(Diagnostic::error(Some(&location), message).help(help));
            return;
        };
        let location = Location::new(&source, 0..name.len());
        let Some(index) = self.find_machine(name, &location, graph) else { return };
        graph.machines[index].address = Some(address.to_owned());
        let location = Location::new(&source, name.len() + 1..at.len());
        locations.machines[index].address = Some(location);
    }
}

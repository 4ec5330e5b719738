//! Checks that no output of the graph overwrites one of its inputs, or another output.

use afferent_graph::ParamValues;

use crate::{
    FileUse, Origin,
    check::Checker,
    files::{files_of, graph_files},
};

impl Checker<'_> {
    /// Checks the files of all nodes; `params` are their checked parameters.
    pub(super) fn files(&mut self, origin: &Origin, params: &[ParamValues]) {
        let mut known: Vec<FileUse> = graph_files(origin).collect();
        let mut written = Vec::new();
        for (index, (node, values)) in self.graph.nodes.iter().zip(params).enumerate() {
            let Some(def) = self.defs[index] else { continue };
            for (param, file) in files_of(&node.name, def, values) {
                match file.is_written {
                    true => written.push((index, param, file)),
                    false => known.push(file),
                }
            }
        }
        for (node, param, file) in written {
            if let Some(other) = known.iter().find(|known| known.conflicts_with(&file)) {
                let (user, path, other_user) = (&file.user, file.path.display(), &other.user);
                let message = if other.is_written {
                    format!("{user} and {other_user} write the same file {path}")
                } else {
                    format!("{user} would overwrite {path}, which {other_user} reads")
                };
                let help = Some("give the output a file of its own".to_owned());
                self.error(self.value_location(node, param), message, help);
            }
            known.push(file);
        }
    }
}

//! `afferent new`: the beginnings of something new.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand)]
pub(crate) enum NewCommand {
    /// Write a node with its contract and a test, and put it into the list of its crate
    Node(NewNodeArgs),
}

#[derive(Args)]
pub(crate) struct NewNodeArgs {
    /// Name of the node in graph files, such as noise_gate
    name: String,
    /// What it does with packets
    #[arg(long, value_enum, default_value_t = Shape::Step)]
    shape: Shape,
    /// The crate that gets it
    #[arg(long = "crate", value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Makes packets
    Source,
    /// Makes packets of packets
    Step,
    /// Takes packets
    Sink,
}

pub(crate) fn new(command: &NewCommand) -> anyhow::Result<ExitCode> {
    let NewCommand::Node(args) = command;
    let NewNodeArgs { name, shape, folder } = args;
    ensure!(
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
        "{name:?} cannot be the name of a node: write it in small letters, digits and \"_\""
    );
    let roots = ["lib.rs", "main.rs"].map(|root| folder.join("src").join(root));
    let Some(root) = roots.iter().find(|root| root.exists()) else {
        bail!("there is no crate in {}: `cargo new` makes one", folder.display());
    };
    let file = folder.join("src").join(format!("{name}.rs"));
    ensure!(!file.exists(), "{} is there already", file.display());
    let text = fs::read_to_string(root).with_context(|| cannot("read", root))?;
    let listed = listed(&text, name)?;
    fs::write(&file, source(name, *shape)).with_context(|| cannot("write", &file))?;
    fs::write(root, listed).with_context(|| cannot("write", root))?;
    let type_name = type_name(name);
    crate::print(&format!(
        "wrote {}, and {type_name} into the list of {}\n\n\
         Next: say in the file what the node does, then `cargo test`. It needs the crates\n\
         afferent-graph and afferent-core. A program with the node is\n\n    \
         fn main() -> std::process::ExitCode {{ afferent::main(NODES) }}\n",
        file.display(),
        root.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn cannot(verb: &str, path: &Path) -> String {
    format!("cannot {verb} {}", path.display())
}

/// `noise_gate` as `NoiseGate`.
fn type_name(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars)
        })
        .collect()
}

/// The root `text` of a crate with the module `name` and its entry in the list of nodes, both in
/// the order of the alphabet.
fn listed(text: &str, name: &str) -> anyhow::Result<String> {
    let type_name = type_name(name);
    let module = format!("mod {name};");
    let entry = format!("    afferent_graph::NodeDef::of::<{name}::{type_name}>(),");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    ensure!(!lines.contains(&module), "the crate has a module {name} already");
    let is_module = |line: &String| line.starts_with("mod ") && line.ends_with(';');
    let after = lines.iter().rposition(|line| is_module(line) && *line < module);
    let before = lines.iter().position(is_module);
    let header = lines.iter().take_while(|line| line.starts_with("//!") || line.starts_with("#!"));
    let place = match (after, before) {
        (Some(after), _) => after + 1,
        (None, Some(before)) => before,
        (None, None) => header.count(),
    };
    lines.insert(place, module);
    if before.is_none() && place > 0 {
        lines.insert(place, String::new());
    }
    let begin = lines.iter().position(|line| line.contains("const NODES"));
    let Some(begin) = begin else {
        lines.extend([
            String::new(),
            "/// The nodes of this crate.".to_owned(),
            "pub const NODES: &[afferent_graph::NodeDef] = &[".to_owned(),
            entry,
            "];".to_owned(),
        ]);
        return Ok(lines.join("\n") + "\n");
    };
    let end = lines[begin..].iter().position(|line| line.trim_end() == "];");
    let Some(end) = end.map(|end| begin + end) else {
        bail!("the list NODES does not end with a line \"];\": add {type_name} by hand");
    };
    // Compared by the name of the type, whatever path stands before it.
    let key = |line: &str| {
        let inner = line.split_once("::<").map_or(line, |(_, inner)| inner);
        let path = inner.split('>').next().unwrap_or(inner);
        path.rsplit("::").next().unwrap_or(path).to_owned()
    };
    let place = lines[begin + 1..end].iter().position(|line| key(line) > type_name);
    lines.insert(place.map_or(end, |place| begin + 1 + place), entry);
    Ok(lines.join("\n") + "\n")
}

/// The file of a node.
fn source(name: &str, shape: Shape) -> String {
    let template = match shape {
        Shape::Source => include_str!("new/source.txt"),
        Shape::Step => include_str!("new/step.txt"),
        Shape::Sink => include_str!("new/sink.txt"),
    };
    template.replace("{name}", name).replace("{Name}", &type_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_listed_in_its_place() {
        let text = "//! A crate.\n\nmod alpha;\nmod gamma;\n\npub use alpha::Alpha;\n\nconst NODES: &[NodeDef] = &[\n    NodeDef::of::<Alpha>(),\n    NodeDef::of::<gamma::Gamma>(),\n];\n";
        let listed = listed(text, "beta").unwrap();
        assert!(listed.contains("mod alpha;\nmod beta;\nmod gamma;\n"), "{listed}");
        let entries = "::<Alpha>(),\n    afferent_graph::NodeDef::of::<beta::Beta>(),\n    NodeDef";
        assert!(listed.contains(entries), "{listed}");
        assert!(super::listed(&listed, "beta").is_err());
        let last = super::listed(text, "zeta_two").unwrap();
        assert!(last.contains("mod gamma;\nmod zeta_two;\n"), "{last}");
        assert!(last.contains("<zeta_two::ZetaTwo>(),\n];\n"), "{last}");
        let first = super::listed("fn main() {}\n", "one").unwrap();
        assert!(first.starts_with("mod one;\nfn main() {}\n"), "{first}");
        assert!(first.ends_with("    afferent_graph::NodeDef::of::<one::One>(),\n];\n"), "{first}");
    }

    #[test]
    fn names_become_types() {
        assert_eq!(type_name("noise_gate"), "NoiseGate");
    }
}

//! `afferent new`: writes the source code of a new node or project.

mod project;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};

use crate::App;

#[derive(Subcommand)]
pub(crate) enum NewCommand {
    /// Write a node with its contract and a test, and add it to the list of its crate
    Node(NewNodeArgs),
    /// Write a folder with a graph, a node, a program that runs them, and tests
    Project(project::NewProjectArgs),
}

#[derive(Args)]
pub(crate) struct NewNodeArgs {
    /// Name of the node in graph files, such as noise_gate
    name: String,
    /// Write it in Python: a file NAME.py for the node `python`
    #[arg(long, conflicts_with = "shape")]
    python: bool,
    /// Role of the node in a graph
    #[arg(long, value_enum, default_value_t = Shape::Step)]
    shape: Shape,
    /// Folder of the crate, or of the file in Python
    #[arg(long = "crate", value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Has outputs only
    Source,
    /// Has inputs and outputs
    Step,
    /// Has inputs only
    Sink,
}

pub(crate) fn new(app: &App, command: &NewCommand) -> anyhow::Result<ExitCode> {
    match command {
        NewCommand::Project(args) => project::new(args),
        NewCommand::Node(args) => new_node(app, args),
    }
}

fn new_node(app: &App, args: &NewNodeArgs) -> anyhow::Result<ExitCode> {
    let NewNodeArgs { name, shape, folder, python } = args;
    if *python {
        return new_python_node(name, folder);
    }
    check(name, *shape)?;
    if app.catalog().node(name).is_some() {
        crate::log::warning(format_args!(
            "{name} is also a shipped node, which the new one replaces in your program: \
             `afferent nodes {name}` shows it"
        ));
    }
    let roots = ["lib.rs", "main.rs"].map(|root| folder.join("src").join(root));
    let Some(root) = roots.iter().find(|root| root.exists()) else {
        bail!("there is no crate in {}; `cargo new` creates one", folder.display());
    };
    let file = folder.join("src").join(format!("{name}.rs"));
    ensure!(!file.exists(), "{} already exists", file.display());
    let text = fs::read_to_string(root).with_context(|| cannot("read", root))?;
    let with_node = add_to_root(&text, name)?;
    fs::write(&file, source(name, *shape)).with_context(|| cannot("write", &file))?;
    fs::write(root, with_node).with_context(|| cannot("write", root))?;
    let type_name = type_name(name);
    crate::print(&format!(
        "wrote {}, and added {type_name} to the list in {}\n\n\
         Next: describe the node in the file, then run `cargo test`. It needs the crate\n\
         afferent-graph, afferent-messages for payload types, and afferent-core for tensors. With\n\
         the crate afferent, a program with the node is\n\n    \
         fn main() -> std::process::ExitCode {{ afferent::App::new().nodes(NODES).main() }}\n",
        file.display(),
        root.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn new_python_node(name: &str, folder: &Path) -> anyhow::Result<ExitCode> {
    check_letters(name)?;
    let file = folder.join(format!("{name}.py"));
    ensure!(!file.exists(), "{} already exists", file.display());
    let text = include_str!("new/node.py.txt");
    let text = text.replace("{name}", name).replace("{Name}", &type_name(name));
    fs::write(&file, text).with_context(|| cannot("write", &file))?;
    let path = file.display();
    crate::print(&format!(
        "wrote {path}\n\nNext: change its ports, parameters and the method process, look at its contract \
         with\n`afferent nodes python --set file={path}`, and use it in a graph:\n\n    \
         {name}: {{use: python, params: {{file: {name}.py, gain: 0.5}}, in: microphone.audio}}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn cannot(verb: &str, path: &Path) -> String {
    format!("cannot {verb} {}", path.display())
}

/// Names that a module cannot have: Rust keywords, crate roots, and crates that the root of a node
/// crate refers to.
const RESERVED: &str = "abstract as async await become box break const continue crate do dyn else \
    enum extern false final fn for gen if impl in let loop macro match mod move mut override priv \
    pub ref return self static struct super trait true try type typeof unsafe unsized use virtual \
    where while yield lib main alloc core std afferent_core afferent_graph";

fn check_letters(name: &str) -> anyhow::Result<()> {
    ensure!(
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
        "{name:?} cannot be the name of a node: use lower-case letters, digits and \"_\""
    );
    Ok(())
}

fn check(name: &str, shape: Shape) -> anyhow::Result<()> {
    check_letters(name)?;
    ensure!(!is_reserved(name), "{name:?} cannot be the name of a node: it is reserved in Rust");
    let type_name = type_name(name);
    let code = template(shape).lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_word = |c: char| c.is_alphanumeric() || "_{}".contains(c);
    ensure!(
        !code.flat_map(|line| line.split(|c| !is_word(c))).any(|word| word == type_name),
        "{name:?} cannot be the name of a node: its file uses {type_name} for another type"
    );
    Ok(())
}

/// True for a name that Rust or a crate uses.
fn is_reserved(name: &str) -> bool {
    RESERVED.split_whitespace().any(|word| word == name)
}

/// Converts a node name to a type name: `noise_gate` to `NoiseGate`.
fn type_name(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars)
        })
        .collect()
}

/// Adds the module `name` and its entry in the list of nodes to the crate root `text`, both in
/// alphabetical order.
fn add_to_root(text: &str, name: &str) -> anyhow::Result<String> {
    let type_name = type_name(name);
    let module = format!("mod {name};");
    let entry = format!("    afferent_graph::NodeDef::of::<{name}::{type_name}>,");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    ensure!(!lines.contains(&module), "the crate already has a module {name}");
    let is_module = |line: &String| line.starts_with("mod ") && line.ends_with(';');
    let after = lines.iter().rposition(|line| is_module(line) && *line < module);
    let before = lines.iter().position(is_module);
    let at = match (after, before) {
        (Some(after), _) => after + 1,
        (None, Some(before)) => before,
        (None, None) => header_len(&lines),
    };
    lines.insert(at, module);
    if before.is_none() && at > 0 {
        lines.insert(at, String::new());
    }
    let begin = lines.iter().position(|line| line.contains("const NODES"));
    let Some(begin) = begin else {
        lines.extend([
            String::new(),
            "/// The nodes of this crate.".to_owned(),
            "pub const NODES: &[afferent_graph::NodeEntry] = &[".to_owned(),
            entry,
            "];".to_owned(),
        ]);
        return Ok(lines.join("\n") + "\n");
    };
    let Some((begin, end)) = nodes_list(&mut lines, begin) else {
        bail!("the list NODES is not written as \"&[…];\": add {type_name} by hand");
    };
    // Entries are ordered by type name, without the path.
    let key = |line: &str| {
        let inner = line.split_once("::<").map_or(line, |(_, inner)| inner);
        let path = inner.split('>').next().unwrap_or(inner);
        path.rsplit("::").next().unwrap_or(path).to_owned()
    };
    let next = lines[begin + 1..end].iter().position(|line| key(line) > type_name);
    lines.insert(next.map_or(end, |next| begin + 1 + next), entry);
    Ok(lines.join("\n") + "\n")
}

/// Finds the lines with the brackets of the list of nodes, whose item starts at line `item`. Splits
/// a list that `rustfmt` has put into one line, so that each entry has its own line.
fn nodes_list(lines: &mut Vec<String>, item: usize) -> Option<(usize, usize)> {
    let belongs = |line: &&String| line.starts_with([' ', '\t', ']']) || line.is_empty();
    let len = 1 + lines[item + 1..].iter().take_while(belongs).count();
    let end =
        item + lines[item..item + len].iter().position(|line| line.trim_end().ends_with("];"))?;
    let line = lines[end].trim_end();
    if line == "];" {
        return Some((item, end));
    }
    let (head, entries) = line.trim_end_matches("];").rsplit_once("&[")?;
    let entries = entries.split(", ").filter(|entry| !entry.is_empty());
    let entries = entries.map(|entry| format!("    {entry},"));
    let list: Vec<_> =
        [format!("{head}&[")].into_iter().chain(entries).chain(["];".to_owned()]).collect();
    let last = end + list.len() - 1;
    lines.splice(end..=end, list);
    Some((end, last))
}

/// Number of lines of the crate's doc comments and inner attributes, which precede all items.
fn header_len(lines: &[String]) -> usize {
    let (mut end, mut open) = (0, 0_usize);
    for (at, line) in lines.iter().enumerate() {
        let is_attribute = open > 0 || line.starts_with("#![");
        if is_attribute {
            let code = line.split_once("//").map_or(line.as_str(), |(code, _)| code);
            open += code.matches('[').count();
            open = open.saturating_sub(code.matches(']').count());
        }
        if is_attribute || line.starts_with("//!") {
            end = at + 1;
        } else if !line.trim().is_empty() && !line.starts_with("//") {
            break;
        }
    }
    end
}

/// Source template of a node, with placeholders `{name}` and `{Name}`.
fn template(shape: Shape) -> &'static str {
    match shape {
        Shape::Source => include_str!("new/source.txt"),
        Shape::Step => include_str!("new/step.txt"),
        Shape::Sink => include_str!("new/sink.txt"),
    }
}

fn source(name: &str, shape: Shape) -> String {
    template(shape).replace("{name}", name).replace("{Name}", &type_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_added_in_alphabetical_order() {
        let text = "//! A crate.\n\nmod alpha;\nmod gamma;\n\npub use alpha::Alpha;\n\nconst NODES: &[NodeEntry] = &[\n    NodeDef::of::<Alpha>,\n    NodeDef::of::<gamma::Gamma>,\n];\n";
        let root = add_to_root(text, "beta").unwrap();
        assert!(root.contains("mod alpha;\nmod beta;\nmod gamma;\n"), "{root}");
        let entries = "::<Alpha>,\n    afferent_graph::NodeDef::of::<beta::Beta>,\n    NodeDef";
        assert!(root.contains(entries), "{root}");
        assert!(add_to_root(&root, "beta").is_err());
        let last = add_to_root(text, "zeta_two").unwrap();
        assert!(last.contains("mod gamma;\nmod zeta_two;\n"), "{last}");
        assert!(last.contains("<zeta_two::ZetaTwo>,\n];\n"), "{last}");
        let first = add_to_root("fn main() {}\n", "one").unwrap();
        assert!(first.starts_with("mod one;\nfn main() {}\n"), "{first}");
        assert!(first.ends_with("    afferent_graph::NodeDef::of::<one::One>,\n];\n"), "{first}");
    }

    /// `rustfmt` writes a short list in one line, or after a line break.
    #[test]
    fn a_node_is_added_to_a_list_in_one_line() {
        let other = "\n\nconst OTHER: &[u8] = &[\n    1,\n];\n";
        let entry = "afferent_graph::NodeDef::of::<gate::Gate>";
        let added = "afferent_graph::NodeDef::of::<mute::Mute>";
        for head in ["pub const NODES: &[NodeEntry] = ", "const NODES: &[NodeEntry] =\n    "] {
            let check = |list: &str, entries: &str| {
                let root =
                    add_to_root(&format!("mod gate;\n\n{head}{list}{other}"), "mute").unwrap();
                let expected = format!("mod gate;\nmod mute;\n\n{head}&[\n{entries}];{other}");
                assert_eq!(root, expected);
            };
            check(&format!("&[{entry}];"), &format!("    {entry},\n    {added},\n"));
            check("&[];", &format!("    {added},\n"));
        }
        let error =
            add_to_root(&format!("const NODES: &[NodeEntry] = ALL;{other}"), "mute").unwrap_err();
        assert!(error.to_string().ends_with("add Mute by hand"), "{error}");
    }

    #[test]
    fn the_first_module_follows_the_crate_header() {
        let check = |header: &str, rest: &str| {
            let root = add_to_root(&format!("{header}{rest}"), "one").unwrap();
            assert!(root.starts_with(&format!("{header}\nmod one;\n{rest}")), "{root}");
        };
        check("//! Doc\n\n#![warn(missing_docs)]\n", "\nfn f() {}\n");
        check("// A license\n//! Doc\n", "\n// A note\nfn f() {}\n");
        check("#![y] // keep\n", "fn f() -> [u8; 2] {\n    [1, 2]\n}\n");
        check("#![cfg_attr(\n    x,\n    no_std\n)]\n#![y]\n", "fn f() {}\n");
    }

    #[test]
    fn names_become_types() {
        assert_eq!(type_name("noise_gate"), "NoiseGate");
    }

    #[test]
    fn names_that_would_not_compile_are_rejected() {
        let rejected =
            ["type", "match", "loop", "std", "main", "Gate", "2x", "", "node", "port", "cx"];
        for shape in [Shape::Source, Shape::Step, Shape::Sink] {
            for name in rejected {
                assert!(check(name, shape).is_err(), "{name}");
            }
            for name in ["noise_gate", "name", "x2", "sound", "types"] {
                check(name, shape).unwrap();
            }
        }
        assert!(check("duration", Shape::Source).is_err() && check("result", Shape::Sink).is_err());
    }
}

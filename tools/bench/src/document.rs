//! Measurements in a Markdown document: one section for each command.

use std::{fs, path::Path};

use anyhow::{Context, Result};

/// Writes the output of `command` to its section of the document, which it replaces or appends.
pub(crate) fn update(path: &Path, command: &str, output: &str) -> Result<()> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    fs::write(path, replaced(&text, command, output))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The command with these arguments, without `--update` and the paths of this machine.
pub(crate) fn command_line(args: impl IntoIterator<Item = String>) -> String {
    let mut words = vec!["afferent-bench".to_owned()];
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        match arg.split_once('=') {
            _ if arg == "--update" => drop(args.next()),
            Some(("--update", _)) => {}
            Some((name, value)) if name.starts_with("--") && value.contains('/') => {
                words.push(format!("{name}=PATH"));
            }
            _ if arg.contains('/') => words.push("PATH".to_owned()),
            _ => words.push(arg),
        }
    }
    words.join(" ")
}

fn replaced(text: &str, command: &str, output: &str) -> String {
    let heading = format!("## `{command}`\n");
    let section = format!("{heading}\n```text\n{}\n```\n", output.trim_end());
    let Some(start) = text.find(&heading) else {
        return format!("{}\n\n{section}", text.trim_end());
    };
    let body = start + heading.len();
    let end = text[body..].find("\n## ").map_or(text.len(), |len| body + len + 1);
    let rest = &text[end..];
    let gap = if rest.is_empty() { "" } else { "\n" };
    format!("{}{section}{gap}{rest}", &text[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_appended_and_then_replaced() {
        let first = replaced("# Performance\n", "bench hop", "24 ns\n");
        assert_eq!(first, "# Performance\n\n## `bench hop`\n\n```text\n24 ns\n```\n");
        let both = replaced(&first, "bench call", "50 ns");
        let new = replaced(&both, "bench hop", "23 ns");
        assert_eq!(new, both.replace("24 ns", "23 ns"));
    }

    #[test]
    fn a_command_line_names_no_files() {
        let check = |line: &str| {
            assert_eq!(
                command_line(line.split(' ').map(str::to_owned)),
                "afferent-bench hop --seconds=2 --peers PATH --dora=PATH",
                "{line}"
            );
        };
        check("hop --seconds=2 --peers a/b --dora=c/d --update docs/e.md");
        check("hop --seconds=2 --peers a/b --dora=c/d --update=e.md");
        check("--update docs/e.md hop --seconds=2 --peers a=b/c --dora=c/d");
    }
}

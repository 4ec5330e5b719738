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
}

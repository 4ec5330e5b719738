//! Text ahead of the input of a model.

use anyhow::{bail, ensure};

use super::companions::Companions;
use crate::App;

/// `prompt` of model.yaml for a model that the node `node` runs: the text `given`, or else that of the
/// files beside the program.
///
/// # Errors
/// The node takes none, or the files name several.
pub(super) fn of_model(
    app: &App,
    given: Option<&str>,
    node: Option<&str>,
    companions: &Companions,
) -> anyhow::Result<Option<String>> {
    let takes_one = node
        .and_then(|node| app.catalog().node(node))
        .is_some_and(|def| def.spec().params.iter().any(|param| &*param.name == "prefix"));
    if let Some(given) = given {
        let node = node.unwrap_or("of this contract");
        ensure!(takes_one, "--prompt: the node {node} takes no text ahead of its input");
        return Ok(Some(given.to_owned()));
    }
    let found = companions.prompt().filter(|_| takes_one);
    if takes_one && found.is_none() && !companions.prompts.is_empty() {
        let option = |(name, text): &(String, String)| format!("--prompt '{text}' ({name})");
        let options: Vec<String> = companions.prompts.iter().map(option).collect();
        bail!(
            "the model reads several kinds of text; choose one, or --prompt '' for none:\n  {}",
            options.join("\n  ")
        );
    }
    Ok(found.map(str::to_owned))
}

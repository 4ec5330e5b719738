//! `afferent package`: writes a model package from programs and the files beside them.

mod companions;
mod hub;
mod manifest;
mod preprocessor;
mod program;
mod prompt;
pub(crate) mod recognize;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::ExitCode,
};

use afferent_graph::ParamValue;
use afferent_nodes_speech::contracts::{VOICE_FOLDERS, voice_test};
use afferent_package::{Contract, ModelPackage, copy_and_hash};
use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::{App, log, output::cannot_write, table::aligned};
use companions::Companions;
use manifest::Manifest;
use program::Program;

/// Writes a model package: copies programs (.pte) and the files beside them to a folder, and writes
/// their model.yaml with size, SHA-256, backend and precision of each program.
///
/// The task and the contract are recognized by the inputs and outputs of the methods, among those that
/// the nodes of this build accept. Programs with the same methods are variants of one model, the ones
/// with delegates first; others are `programs` with the names of their files as roles.
#[derive(Args)]
#[command(after_help = "Files:
  *.pte                programs
  *.ptd                data of a program with the same name, or of the only program
  metadata.yaml        of an Ultralytics export: names of classes, task, license
  labels.txt           names of classes, one a line
  charset.txt          characters of a model that reads text, in one line
  config.json          of an optimum export: names of classes (id2label), prefixes of tasks
  config_sentence_transformers.json   texts ahead of queries and documents
  preprocessor_config.json   of an optimum export: preparation of images
  tokenizer.json       of a language model; also tokenizer.model
  voices/, voice_styles/, voice_embedding/   voices of a speech synthesizer, which may also be beside its programs
  other files          are copied

Examples:
  afferent package yolo11n_executorch_model -o models/yolo11n
  afferent package vad_xnnpack.pte vad_portable.pte -o models/vad --license MIT
  afferent package dinov2.pte -o models/dinov2 --task image_embedding --license Apache-2.0
  afferent package encoder.pte decoder.pte tokenizer.json -o models/whisper
  afferent package org/whisper-tiny@v1.1 -o models/whisper
  afferent package t5 -o models/t5_de --prompt 'translate English to German: '
  afferent package first.pte second.pte -o models/mine --task my_task --contract my_contract")]
pub(crate) struct PackageArgs {
    /// Programs, files beside them, folders with such files, and ORG/NAME[@REVISION] of models in the
    /// local cache of the Hugging Face hub
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder of the package; it must not have a model.yaml
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Name of the model; by default that of the folder
    #[arg(long)]
    name: Option<String>,
    /// Task of the model, such as detection; by default the recognized one
    #[arg(long)]
    task: Option<String>,
    /// Contract of the methods, such as inverse_depth; by default the recognized one
    #[arg(long)]
    contract: Option<String>,
    /// Text ahead of each text that the model reads, such as 'query: '; by default that of the
    /// configuration beside the program
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// SPDX license identifier
    #[arg(long, value_name = "SPDX")]
    license: Option<String>,
    /// Training data and training script, or address of the download
    #[arg(long, value_name = "TEXT")]
    provenance: Option<String>,
    /// Numeric precision of the programs, such as 8da4w; by default from the name of the file, or the
    /// type of the inputs and outputs
    #[arg(long)]
    precision: Option<String>,
}

pub(crate) fn package(app: &App, args: &PackageArgs) -> anyhow::Result<ExitCode> {
    let paths: Vec<PathBuf> =
        args.files.iter().map(|path| hub::resolve(path)).collect::<anyhow::Result<_>>()?;
    let files = all_files(&paths)?;
    one_folder_with_programs(&paths, &files)?;
    let companions = Companions::read(&files)?;
    let programs = Program::read_all(app, &files, args.precision.as_deref())?;
    let groups = program::groups(&programs);
    let contract = contract_of(args, &programs, &groups, &companions)?;
    let prompt = prompt::of_model(app, args.prompt.as_deref(), contract.node, &companions)?;
    let voices = voices(&contract.contract, &files);
    let target = args.output.join("model.yaml");
    ensure!(!target.exists(), "{} exists: remove it, or choose another folder", target.display());
    let name = match &args.name {
        Some(name) => name.clone(),
        None => {
            let folder = args.output.file_name().context("--output has no name; set --name")?;
            folder.to_string_lossy().into_owned()
        }
    };
    fs::create_dir_all(&args.output).with_context(|| cannot_write(&args.output))?;
    let mut hashes = BTreeMap::new();
    for file in &files {
        hashes.insert(file.clone(), copy(file, &args.output)?);
    }
    let license = args.license.clone().or_else(|| companions.license.clone());
    if license.is_none() {
        log::warning("the license is not known: set --license, or edit model.yaml");
    }
    let provenance = args.provenance.clone().or_else(|| companions.description.clone());
    let manifest = Manifest {
        name,
        contract: &contract,
        groups: &groups,
        hashes: &hashes,
        sample_rate: programs.iter().find_map(|program| program.file.metadata_int("sample_rate")),
        image: companions.image.as_deref(),
        labels: &companions.labels,
        tokenizer: companions.tokenizer.as_deref(),
        voices: &voices,
        prompt: prompt.as_deref(),
        license: license.unwrap_or_else(|| "NOASSERTION".to_owned()),
        provenance: provenance.unwrap_or_else(|| "not stated".to_owned()),
    };
    fs::write(&target, manifest.text()).with_context(|| cannot_write(&target))?;
    // A node reads the package in the same way.
    ModelPackage::open(&args.output)?.verify()?;
    report(&groups, &contract, &companions, &voices, &target)?;
    if let Some(node) = contract.node {
        check_with_node(app, node, &args.output);
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that there are programs; otherwise names the folders in `paths` that have some: publishers keep
/// one for each backend.
fn one_folder_with_programs(paths: &[PathBuf], files: &[PathBuf]) -> anyhow::Result<()> {
    let is_program = |path: &Path| path.extension().is_some_and(|end| end == "pte");
    if files.iter().any(|path| is_program(path)) {
        return Ok(());
    }
    let folders_in = |folder: &PathBuf| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let has_programs = |folder: &PathBuf| {
        let mut entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        entries.any(|entry| is_program(&entry.path()))
    };
    let mut found: Vec<PathBuf> =
        paths.iter().flat_map(folders_in).filter(|folder| has_programs(folder)).collect();
    found.sort();
    ensure!(!found.is_empty(), "there is no program: name a .pte file, or a folder with one");
    let names = found.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>();
    bail!(
        "the programs are in folders; name one of them, and the files beside them that it needs:\n  {}",
        names.join("\n  ")
    )
}

/// Opens the package with the node that runs it, and prints what is missing.
fn check_with_node(app: &App, node: &str, package: &Path) {
    let Some(def) = app.catalog().node(node) else { return };
    if !def.spec().params.iter().any(|param| &*param.name == "model") {
        return;
    }
    let values = [("model".to_owned(), ParamValue::Path(package.to_owned()))].into();
    match def.factory().check(&values, &app.open_cx()) {
        Ok(()) => log::note(format_args!("the node {node} opens it")),
        Err(error) => log::warning(format_args!("the node {node} does not open it yet: {error}")),
    }
}

/// Voices among `files` of a model with this contract: names and names of files, in the order of the
/// names.
fn voices(contract: &str, files: &[PathBuf]) -> Vec<(String, String)> {
    let Some(is_voice) = voice_test(contract) else { return Vec::new() };
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let voices = files.iter().filter(|path| is_voice(path));
    let mut found: Vec<_> = voices.map(|path| (name(path), file_name(path).to_owned())).collect();
    found.sort();
    // A voice may be there in two formats.
    found.dedup_by(|one, other| one.0 == other.0);
    found
}

/// Files, and those of folders and their folders of voices, without hidden ones.
fn all_files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let cannot_read = || format!("cannot read {}", path.display());
        if !fs::metadata(path).with_context(cannot_read)?.is_dir() {
            files.push(path.clone());
            continue;
        }
        let of_voices = VOICE_FOLDERS.iter().map(|name| path.join(name)).filter(|it| it.is_dir());
        for folder in std::iter::once(path.clone()).chain(of_voices) {
            for entry in fs::read_dir(folder).with_context(cannot_read)? {
                let path = entry.with_context(cannot_read)?.path();
                if path.is_file() && !file_name(&path).starts_with('.') {
                    files.push(path);
                }
            }
        }
    }
    files.sort();
    files.dedup();
    let mut names = BTreeMap::new();
    for file in &files {
        let name = file_name(file);
        ensure!(name != "model.yaml", "{} is of a package already", file.display());
        if let Some(other) = names.insert(name.to_owned(), file) {
            bail!("{} and {} have the same name", other.display(), file.display());
        }
    }
    Ok(files)
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Copies `file` to `folder`; returns its size and its SHA-256.
fn copy(file: &Path, folder: &Path) -> anyhow::Result<(u64, String)> {
    let target = folder.join(file_name(file));
    let cannot_copy = || format!("cannot copy {} to {}", file.display(), target.display());
    let mut from = File::open(file).with_context(cannot_copy)?;
    if target.exists() {
        let is_same = same_file::is_same_file(file, &target).with_context(cannot_copy)?;
        ensure!(is_same, "{} exists: remove it, or choose another folder", target.display());
        let hash = copy_and_hash(&mut from, &mut std::io::sink()).with_context(cannot_copy)?;
        return Ok((from.metadata()?.len(), hash));
    }
    let mut to = File::create(&target).with_context(cannot_copy)?;
    let hash = copy_and_hash(&mut from, &mut to).with_context(cannot_copy)?;
    Ok((to.metadata()?.len(), hash))
}

/// The contract of the model: the recognized one, limited by the options.
fn contract_of(
    args: &PackageArgs,
    programs: &[Program],
    groups: &[(String, Vec<&Program>)],
    companions: &Companions,
) -> anyhow::Result<recognize::Named> {
    let mut found: Vec<Contract> = recognize::contracts(groups, companions);
    let is_wanted = |option: &Option<String>, word: &str| option.as_ref().is_none_or(|o| o == word);
    let all = found.clone();
    found.retain(|one| is_wanted(&args.task, one.task) && is_wanted(&args.contract, one.contract));
    let options = |found: &[Contract]| {
        let option = |one: &Contract| {
            format!("--task {} --contract {} (node {})", one.task, one.contract, one.node)
        };
        found.iter().map(option).collect::<Vec<_>>().join("\n  ")
    };
    match (found.as_slice(), &args.task, &args.contract) {
        ([one], ..) => Ok(recognize::Named::of(one)),
        ([], Some(task), Some(contract)) => {
            log::warning(format_args!(
                "no node of this build is known to accept the contract {contract} of {task}"
            ));
            let (task, contract) = (task.clone(), contract.clone());
            Ok(recognize::Named { task, contract, node: None, has_labels: false })
        }
        ([], ..) if all.is_empty() => bail!(
            "{}\nset --task and --contract for a node of your own",
            recognize::explanation(programs, groups.len())
        ),
        ([], ..) => bail!("the model has another contract:\n  {}", options(&all)),
        (several, ..) => {
            bail!("the shapes fit several contracts; choose one:\n  {}", options(several))
        }
    }
}

fn report(
    groups: &[(String, Vec<&Program>)],
    contract: &recognize::Named,
    companions: &Companions,
    voices: &[(String, String)],
    target: &Path,
) -> anyhow::Result<()> {
    let mut rows = vec![["key", "program", "backend", "precision"].map(str::to_owned)];
    for (key, variants) in groups {
        for program in variants {
            rows.push([
                key.clone(),
                program.name().to_owned(),
                program.backend.clone(),
                program.precision.clone(),
            ]);
        }
    }
    crate::print(&aligned(&rows))?;
    let node = contract.node.map_or_else(String::new, |node| format!(", for the node {node}"));
    crate::print(&format!("\ntask {}, contract {}{node}\n", contract.task, contract.contract))?;
    match companions.labels.len() {
        0 if contract.has_labels => {
            log::note("the classes have no names: add a labels.txt with one a line");
        }
        0 => {}
        count => crate::print(&format!("{count} names of classes\n"))?,
    }
    if !voices.is_empty() {
        let names: Vec<&str> = voices.iter().map(|(name, _)| name.as_str()).collect();
        crate::print(&format!("voices {}\n", names.join(", ")))?;
    }
    crate::print(&format!("wrote {}\n", target.display()))?;
    if contract.task == "chat" {
        log::note("the node llm needs the templates of turns: add `chat` to model.yaml");
    }
    Ok(())
}

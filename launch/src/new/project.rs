//! `afferent new project`: a folder with a graph, a node, a program and tests.

use std::{fs, io::Cursor, path::PathBuf, process::ExitCode};

use anyhow::{Context, ensure};
use clap::Args;
use hound::{SampleFormat, WavSpec, WavWriter};

use super::{Shape, add_to_root, cannot, is_reserved, source};

#[derive(Args)]
pub(crate) struct NewProjectArgs {
    /// Folder of the project, such as kitchen_robot; its name is that of the project
    folder: PathBuf,
    /// Build against this checkout of Afferent instead of the published crates
    #[arg(long, value_name = "FOLDER")]
    checkout: Option<PathBuf>,
}

/// Files of a project, with placeholders `{name}`, `{crate}` and `{source}`.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("project/Cargo.toml.txt")),
    ("README.md", include_str!("project/README.md.txt")),
    ("graph.yaml", include_str!("project/graph.yaml.txt")),
    ("src/main.rs", include_str!("project/main.rs.txt")),
    ("tests/graph.rs", include_str!("project/graph.rs.txt")),
];

/// Name of the node of a new project.
const NODE: &str = "volume";

pub(super) fn new(args: &NewProjectArgs) -> anyhow::Result<ExitCode> {
    let NewProjectArgs { folder, checkout } = args;
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ensure!(
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c)),
        "{name:?} cannot be the name of a project: use lower-case letters, digits, \"_\" and \"-\""
    );
    let crate_name = name.replace('-', "_");
    ensure!(
        !is_reserved(&crate_name),
        "{name:?} cannot be the name of a project: it is reserved in Rust"
    );
    ensure!(!folder.exists(), "{} already exists", folder.display());
    let dependency = |crate_folder: &str| match checkout {
        None => Ok(format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))),
        Some(checkout) => {
            let path = checkout.join(crate_folder);
            let path = path.canonicalize().with_context(|| cannot("find", &path))?;
            anyhow::Ok(format!("path = {:?}", path.display().to_string()))
        }
    };
    let values = [
        ("{source}", dependency("launch")?),
        ("{source_graph}", dependency("graph/core")?),
        ("{source_messages}", dependency("graph/messages")?),
        ("{crate}", crate_name),
        ("{name}", name.to_owned()),
    ];
    let fill = |text: &str| {
        values.iter().fold(text.to_owned(), |text, (key, value)| text.replace(key, value))
    };
    let mut files: Vec<_> =
        FILES.iter().map(|(path, text)| ((*path).to_owned(), fill(text).into_bytes())).collect();
    let root = add_to_root(&format!("//! Nodes of {name}.\n"), NODE)?;
    files.push(("src/lib.rs".to_owned(), root.into_bytes()));
    files.push((format!("src/{NODE}.rs"), source(NODE, Shape::Step).into_bytes()));
    files.push(("sound.wav".to_owned(), tone()?));
    files.push((".gitignore".to_owned(), b"/target\n/out.wav\n".to_vec()));
    for (path, bytes) in files {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| cannot("create", parent))?;
        fs::write(&path, bytes).with_context(|| cannot("write", &path))?;
    }
    let path = folder.display();
    crate::print(&format!(
        "wrote {path}\n\nNext:\n\n    cd {path}\n    cargo run -- run graph.yaml --virtual\n    \
         cargo test\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// A WAV file with one second of a 440 Hz tone at 16 kHz.
fn tone() -> anyhow::Result<Vec<u8>> {
    const RATE: u32 = 16_000;
    let spec = WavSpec {
        channels: 1,
        sample_rate: RATE,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut file = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut file, spec)?;
    for sample in 0..RATE {
        let phase = f64::from(sample) * 440.0 / f64::from(RATE) * std::f64::consts::TAU;
        writer.write_sample((phase.sin() * 16_000.0) as i16)?;
    }
    writer.finalize()?;
    Ok(file.into_inner())
}

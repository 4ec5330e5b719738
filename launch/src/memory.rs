//! `afferent memory`: the entities in a file of a scene memory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use afferent_graph::Choice;
use afferent_nodes_spatial::memory::{EntityRecord, read};
use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::table::aligned;

#[derive(Args)]
pub(crate) struct MemoryArgs {
    /// File that the node scene_memory keeps
    file: PathBuf,
    /// Show only entities of this class or name
    #[arg(long, value_name = "WORD")]
    thing: Option<String>,
    /// Show only entities within --within of this point, in meters
    #[arg(
        long,
        value_name = "X,Y,Z",
        value_delimiter = ',',
        num_args = 1,
        allow_hyphen_values = true
    )]
    near: Option<Vec<f64>>,
    /// Distance of --near, in meters
    #[arg(long, value_name = "METERS", default_value_t = 1.0)]
    within: f64,
    /// Write what the entities looked like to this folder, as ID-CLASS.png
    #[arg(long, value_name = "FOLDER")]
    images: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn memory(args: &MemoryArgs) -> anyhow::Result<ExitCode> {
    let near = args.near.as_deref().map(<[f64; 3]>::try_from).transpose();
    let near = near.context("--near: expected three numbers, such as 1.5,-2,0")?;
    let content = read(&args.file).with_context(|| args.file.display().to_string())?;
    if content.cut_bytes > 0 {
        crate::log::note(format_args!(
            "{}: the last {} bytes were cut off by a crash and are ignored",
            args.file.display(),
            content.cut_bytes
        ));
    }
    let mut records = content.snapshot.records;
    records.retain(|record| {
        let is_thing = args.thing.as_ref().is_none_or(|thing| {
            let (class, name) = (class(record), name(record));
            thing.eq_ignore_ascii_case(class) || thing.eq_ignore_ascii_case(name)
        });
        let is_near = near.is_none_or(|point| {
            let apart = record.position.m.iter().zip(point).map(|(a, b)| (a - b) * (a - b));
            apart.sum::<f64>().sqrt() <= args.within
        });
        is_thing && is_near
    });
    if let Some(folder) = &args.images {
        write_images(folder, &records).with_context(|| folder.display().to_string())?;
    }
    if args.json {
        let all: Vec<Value> = records.iter().map(record_json).collect();
        crate::print(&format!("{}\n", json!({ "entities": all })))?;
    } else {
        crate::print(&table(&records))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_images(folder: &Path, records: &[EntityRecord]) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let shown = records.iter().filter_map(|record| Some((record, record.image.as_ref()?)));
    let mut count = 0;
    for (record, image) in shown {
        // A class is a word of a model, and may hold anything.
        let class = class(record).replace(|letter: char| !letter.is_alphanumeric(), "_");
        fs::write(folder.join(format!("{}-{class}.png", record.id)), &image.png)?;
        count += 1;
    }
    if count == 0 && !records.is_empty() {
        crate::log::note(format_args!(
            "no images are kept: connect `images` of the node scene_memory"
        ));
    }
    Ok(())
}

fn class(record: &EntityRecord) -> &str {
    if let Some(label) = &record.label {
        return &label.class;
    }
    match (&record.plane, &record.anchor, &record.keyframe) {
        (Some(plane), ..) => plane.label.word(),
        (None, Some(_), _) => "anchor",
        (None, None, Some(_)) => "keyframe",
        (None, None, None) => "position",
    }
}

fn name(record: &EntityRecord) -> &str {
    match (&record.name, &record.anchor) {
        (Some(name), _) => &name.0,
        (None, Some(anchor)) => &anchor.name,
        (None, None) => "",
    }
}

/// Probability that an object is still there.
fn probability(record: &EntityRecord) -> Option<f32> {
    record.label.as_ref().map(|label| 1.0 / (1.0 + (-label.log_odds).exp()))
}

/// Standard deviation of the position in meters: that of the worst axis.
fn sigma_m(record: &EntityRecord) -> f64 {
    let covariance = record.position.covariance_m2;
    (0..3).map(|axis| covariance[axis][axis]).fold(0.0, f64::max).sqrt()
}

fn date(ns: u64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn table(records: &[EntityRecord]) -> String {
    if records.is_empty() {
        return "no entities\n".to_owned();
    }
    let head = [
        "id",
        "class",
        "name",
        "x (m)",
        "y (m)",
        "z (m)",
        "± (m)",
        "size (m)",
        "seen",
        "last seen (UTC)",
        "still there",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(records.iter().map(|record| {
        let [x, y, z] = record.position.m.map(|value| format!("{value:.2}"));
        let size =
            record.bounds.map(|bounds| bounds.size_m.map(|size| format!("{size:.2}")).join(" x "));
        let size = size
            .or_else(|| Some(record.plane?.size_m.map(|size| format!("{size:.2}")).join(" x ")));
        let there = probability(record).map(|found| format!("{:.0} %", found * 100.0));
        [
            record.id.to_string(),
            class(record).to_owned(),
            name(record).to_owned(),
            x,
            y,
            z,
            format!("{:.2}", sigma_m(record)),
            size.unwrap_or_default(),
            record.seen.count.to_string(),
            date(record.seen.last_ns),
            there.unwrap_or_default(),
        ]
    }));
    match records.len() {
        1 => format!("{}\n1 entity\n", aligned(&rows)),
        count => format!("{}\n{count} entities\n", aligned(&rows)),
    }
}

fn record_json(record: &EntityRecord) -> Value {
    json!({
        "id": record.id,
        "class": class(record),
        "name": record.name.as_ref().map(|name| &name.0),
        "anchor": record.anchor.as_ref().map(|anchor| &anchor.name),
        "position_m": record.position.m,
        "covariance_m2": record.position.covariance_m2,
        "size_m": record.bounds.map(|bounds| bounds.size_m),
        "plane": record.plane.map(|plane| json!({
            "label": plane.label.word(),
            "alignment": plane.alignment.word(),
            "rotation_xyzw": plane.rotation_xyzw,
            "size_m": plane.size_m,
        })),
        "probability": probability(record),
        "seen": record.seen.count,
        "first_seen_ns": record.seen.first_ns,
        "last_seen_ns": record.seen.last_ns,
        "map": record.provenance.map,
        "has_image": record.image.is_some(),
    })
}

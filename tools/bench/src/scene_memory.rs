//! Time of a scene memory with many entities.

use std::time::{Duration, Instant};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, SessionStart, Timestamp};
use afferent_messages::{
    ToolMessage,
    vision::{Detection3d, Detections3d},
};
use afferent_nodes_spatial::{
    SceneMemoryNode, SceneMemoryParams,
    memory::{
        Bounded3d, EntityRecord, LastImage, MemoryFile, ObserveSettings, Position, SceneMemory,
        Seen, SemanticLabel, Snapshot,
    },
};
use anyhow::{Context, Result, anyhow, ensure};

use crate::{
    table::{Table, format_number},
    timing::{median, micros},
};

/// Time of a scene memory with many entities, on one thread.
///
/// | row | what is measured |
/// |---|---|
/// | where_is | a call of the node: from the tool call to its result |
/// | observe | a call of the node with the objects of an image |
/// | snapshot | a copy of all entities, which blocks the node |
/// | write | in the background: encoding, writing to the disk, and replacing the file |
/// | open | reading the file |
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of entities, of 80 classes, with images of 4 kB.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    entities: u64,
    /// Objects of an image.
    #[arg(long, default_value_t = 10)]
    objects: usize,
    /// Number of rounds; results are medians.
    #[arg(long, default_value_t = 21)]
    rounds: usize,
}

const CLASSES: u64 = 80;
/// Bytes of the image of an entity.
const IMAGE_BYTES: usize = 4096;
/// Distance between entities of the same class, in meters.
const SPACING_M: f64 = 0.7;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("scene.memory");
    let mut random = fastrand::Rng::with_seed(1);
    let records: Vec<_> = (1..=options.entities).map(|id| record(id, &mut random)).collect();
    let snapshot = Snapshot { next_id: options.entities + 1, records };
    let (file, _) = MemoryFile::open(&path)?;
    file.replace(snapshot)?;
    drop(file);
    let bytes = path.metadata()?.len();

    let mut rows: [Vec<f64>; 5] = Default::default();
    for _ in 0..options.rounds {
        let start = Instant::now();
        let (file, content) = MemoryFile::open(&path)?;
        rows[4].push(micros(start.elapsed()));
        let mut memory = SceneMemory::new(ObserveSettings::default(), 0);
        memory.restore(content.snapshot);
        let start = Instant::now();
        let copy = memory.snapshot();
        rows[2].push(micros(start.elapsed()));
        ensure!(copy.records.len() as u64 == options.entities, "an entity is missing");
        let start = Instant::now();
        file.replace(copy)?;
        drop(file);
        rows[3].push(micros(start.elapsed()));
    }

    let values = [("path".to_owned(), ParamValue::Path(path))].into();
    let params = SceneMemoryParams::from_values(&values).map_err(|error| anyhow!("{error:?}"))?;
    let cx = OpenCx::with_service(SessionStart::VIRTUAL);
    let mut bench = NodeBench::new(SceneMemoryNode::open(params, &cx)?);
    for round in 0..options.rounds {
        let at = Timestamp::ZERO + Duration::from_millis(200 * round as u64);
        let found: Vec<_> =
            (0..options.objects).map(|_| sighting(options.entities, &mut random)).collect();
        let found = Detections3d { detections: found, ..Detections3d::default() };
        let start = Instant::now();
        bench.call(SceneMemoryNode::OBJECTS, at, found)?;
        rows[1].push(micros(start.elapsed()));
        let json = format!("{{\"thing\": \"class {}\"}}", random.u64(0..CLASSES));
        let call = ToolMessage { turn: 1, tool: "where_is".into(), json };
        let start = Instant::now();
        let sent = bench.call(SceneMemoryNode::CALLS, at, call)?;
        rows[0].push(micros(start.elapsed()));
        let (_, packet) = sent.first().context("no result")?;
        let result = packet.get::<ToolMessage>().context("no result")?;
        ensure!(result.json.contains("\"found\":true"), "{}", result.json);
    }
    let title = format!("Scene memory with {} entities", options.entities);
    let mut table = Table::new(title, &["step", "time (ms)"]);
    for (name, times) in ["where_is", "observe", "snapshot", "write", "open"].into_iter().zip(rows)
    {
        table.row([name.to_owned(), format_number(median(times) / 1000.0)]);
    }
    table.note(format!(
        "observe: {} objects; file of {:.1} MB",
        options.objects,
        bytes as f64 / 1e6
    ));
    Ok(vec![table])
}

fn position(id: u64) -> [f64; 3] {
    let cell = id / CLASSES;
    let (column, row) = (cell % 32, cell / 32);
    [column as f64 * SPACING_M, row as f64 * SPACING_M, (id % CLASSES) as f64 * 0.02]
}

fn class(id: u64) -> String {
    format!("class {}", id % CLASSES)
}

fn record(id: u64, random: &mut fastrand::Rng) -> EntityRecord {
    let seen_ns = SessionStart::VIRTUAL.unix_ns;
    let position = Position { m: position(id), covariance_m2: diagonal(0.01) };
    let png: Vec<u8> = (0..IMAGE_BYTES).map(|_| random.u8(..)).collect();
    EntityRecord {
        seen: Seen { first_ns: seen_ns, last_ns: seen_ns, count: 9 },
        label: Some(SemanticLabel { class: class(id).into(), log_odds: 4.0 }),
        bounds: Some(Bounded3d { size_m: [0.2; 3] }),
        image: Some(LastImage { at_ns: seen_ns, png: png.into() }),
        ..EntityRecord::new(id, position, seen_ns, 0)
    }
}

/// An object near a known one.
fn sighting(entities: u64, random: &mut fastrand::Rng) -> Detection3d {
    let id = random.u64(1..=entities);
    Detection3d {
        label: class(id).into(),
        score: 0.8,
        position_m: position(id).map(|axis| axis + 0.1 * (random.f64() - 0.5)),
        covariance_m2: diagonal(0.04),
        size_m: [0.2; 3],
    }
}

fn diagonal(value: f64) -> [[f64; 3]; 3] {
    [[value, 0.0, 0.0], [0.0, value, 0.0], [0.0, 0.0, value]]
}

//! Tests of files: damage, crashes, and processes that are killed.

use std::{
    process::{Command as Process, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use super::*;
use crate::memory::{Bounded3d, Position, Seen, SemanticLabel};

fn record(id: u64, at_ns: u64) -> EntityRecord {
    let position = Position { m: [id as f64, 0.5, -1.0], covariance_m2: [[0.25; 3]; 3] };
    EntityRecord {
        seen: Seen { first_ns: 1, last_ns: at_ns, count: 3 },
        label: Some(SemanticLabel { class: "cup".into(), log_odds: 1.5 }),
        bounds: Some(Bounded3d { size_m: [0.1; 3] }),
        ..EntityRecord::new(id, position, at_ns, 0)
    }
}

fn put(id: u64, at_ns: u64) -> Change {
    Change::Put(Box::new(record(id, at_ns)))
}

/// Bytes of a file with a snapshot and two lists of changes.
fn file() -> Vec<u8> {
    let snapshot = Snapshot { next_id: 3, records: vec![record(1, 1), record(2, 1)] };
    let entries = [
        Entry::Snapshot(snapshot),
        Entry::Changes(vec![put(3, 2), put(1, 2)]),
        Entry::Changes(vec![Change::Remove(2)]),
    ];
    let mut bytes = [MAGIC, VERSION.to_le_bytes()].concat();
    entries.iter().for_each(|entry| bytes.extend(block(entry).unwrap()));
    bytes
}

#[test]
fn a_file_has_all_changes() {
    let content = parse(&file()).unwrap();
    let expected = Snapshot { next_id: 4, records: vec![record(1, 2), record(3, 2)] };
    assert_eq!((content.snapshot, content.cut_bytes), (expected, 0));
}

#[test]
fn a_file_that_is_cut_off_has_the_changes_before() {
    let bytes = file();
    let mut counts = Vec::new();
    for len in 0..=bytes.len() {
        let content = parse(&bytes[..len]).unwrap();
        assert_eq!(content.valid_bytes + content.cut_bytes, len as u64);
        counts.push(content.snapshot.records.iter().map(|record| record.id).collect::<Vec<_>>());
    }
    counts.dedup();
    assert_eq!(counts, [vec![], vec![1, 2], vec![1, 2, 3], vec![1, 3]]);
}

#[test]
fn damage_is_found_and_named() {
    let bytes = file();
    let told = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        let at = random.usize(0..damaged.len());
        damaged[at] ^= 1 << random.u8(0..8);
        match parse(&damaged) {
            // In the last block, it may be a write that a crash has cut off; a length that is too large
            // makes a block the last one.
            Ok(content) => assert!(content.cut_bytes > 0, "byte {at}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let mut changed = bytes.clone();
    changed[HEADER_LEN as usize + 20] ^= 1;
    let expected = "it is damaged at byte 8: wrong checksum; restore it from a copy, or delete it";
    assert!(told(&changed).starts_with(expected), "{}", told(&changed));
    assert!(told(b"# not a memory").starts_with("it is not a file of a scene memory"));
    // Zeros at the end are a write that has not reached the disk.
    let zeros = [bytes.as_slice(), &[0; 100]].concat();
    assert_eq!(parse(&zeros).unwrap().cut_bytes, 100);
    let mut version = bytes;
    version[4] = 9;
    assert!(told(&version).starts_with("it has version 9, and this program reads version 2"));
}

#[test]
fn a_file_is_continued_and_replaced_by_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/scene.memory");
    let (file, content) = MemoryFile::open_with(&path, 1000).unwrap();
    assert_eq!(content.snapshot, Snapshot { next_id: 0, records: vec![] });
    assert!(matches!(MemoryFile::open(&path), Err(MemoryFileError::InUse)));
    file.append(vec![put(1, 5)]).unwrap();
    drop(file);
    // A crash has cut off the next block.
    let mut bytes = fs::read(&path).unwrap();
    let whole = bytes.len();
    bytes.extend(&block(&Entry::Changes(vec![put(2, 6)])).unwrap()[..20]);
    fs::write(&path, &bytes).unwrap();
    let (file, content) = MemoryFile::open_with(&path, 1000).unwrap();
    assert_eq!((content.valid_bytes, content.cut_bytes), (whole as u64, 20));
    assert_eq!(content.snapshot.records, [record(1, 5)]);
    let mut replaced = 0;
    for id in 2..200 {
        file.append(vec![put(id, id)]).unwrap();
        // The writer counts in the background.
        let start = Instant::now();
        while id == 100 && !file.needs_snapshot() && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(1));
        }
        if file.needs_snapshot() {
            replaced += 1;
            let records = (1..=id).map(|id| record(id, id.max(5))).collect();
            file.replace(Snapshot { next_id: id + 1, records }).unwrap();
        }
    }
    drop(file);
    assert!(replaced > 0);
    let content = read(&path).unwrap();
    let ids: Vec<u64> = content.snapshot.records.iter().map(|record| record.id).collect();
    assert_eq!(ids, (1..200).collect::<Vec<_>>());
    assert!(!path.with_file_name("scene.memory.new").exists());
}

fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// Kills in the test; the bar of the project is 200: `AFFERENT_KILLS=200`.
const KILLS: usize = 24;

/// Writers that run at once.
const WRITERS: usize = 4;

/// Starts processes of itself that write without a pause, and kills them at random moments.
#[test]
fn a_killed_process_loses_less_than_a_second() {
    const PATH: &str = "AFFERENT_TEST_MEMORY";
    if let Some(path) = std::env::var_os(PATH) {
        return write_forever(Path::new(&path));
    }
    let kills = std::env::var("AFFERENT_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let (mut worst_ns, mut snapshots) = (0, 0);
    for round in 0..kills.div_ceil(WRITERS) {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let path = folder.path().join(format!("{writer}.memory"));
                let mut process = Process::new(std::env::current_exe().unwrap());
                process.args(["--exact", thread::current().name().unwrap()]).env(PATH, &path);
                (process.stdout(Stdio::null()).spawn().unwrap(), path)
            })
            .collect();
        thread::sleep(Duration::from_millis(400));
        for (mut process, path) in writers {
            thread::sleep(Duration::from_micros(random.u64(0..200_000)));
            let killed_ns = wall_ns();
            process.kill().unwrap();
            process.wait().unwrap();
            // The same file is opened again in the next round.
            let content = read(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
            let newest = content.snapshot.records.iter().map(|record| record.seen.last_ns).max();
            worst_ns = worst_ns.max(killed_ns.saturating_sub(newest.unwrap_or(0)));
            snapshots += usize::from(content.snapshot.next_id > 0);
        }
    }
    println!(
        "{kills} kills, newest entity at most {} ms before, {snapshots} files with entities",
        worst_ns / 1_000_000
    );
    assert!(snapshots >= kills, "{snapshots} of {kills}");
    // The node writes twice a second, so half a second is left for the writer.
    assert!(worst_ns < 500_000_000, "{worst_ns} ns");
}

/// Puts entities with the time into a file, with frequent snapshots.
fn write_forever(path: &Path) {
    let (file, content) = MemoryFile::open_with(path, 20_000).unwrap();
    let mut records: BTreeMap<u64, EntityRecord> =
        content.snapshot.records.into_iter().map(|record| (record.id, record)).collect();
    for step in 0.. {
        let at_ns = wall_ns();
        let changed: Vec<_> =
            (0..20).map(|offset| record(1 + (step * 7 + offset) % 300, at_ns)).collect();
        records.extend(changed.iter().map(|record| (record.id, record.clone())));
        let changes = changed.into_iter().map(|record| Change::Put(Box::new(record)));
        file.append(changes.collect()).unwrap();
        if file.needs_snapshot() {
            let records = records.values().cloned().collect();
            file.replace(Snapshot { next_id: 301, records }).unwrap();
        }
        thread::sleep(Duration::from_millis(2));
    }
}

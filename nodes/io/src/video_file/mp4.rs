//! Samples of the H.264 track of an MP4 file (ISO/IEC 14496-12 and 14496-15).
//!
//! A sample is the coded data of an image. Files in fragments and encrypted files are not read.

use std::{
    io::{Read, Seek, SeekFrom},
    time::Duration,
};

/// Largest size of the tables of a file.
const MAX_TABLES: u64 = 256 << 20;

/// Largest sample.
const MAX_SAMPLE: u64 = 256 << 20;

/// H.264 track of a file.
#[derive(Debug)]
pub(super) struct Track {
    /// Parameter sets of sequences and images, each after a start code.
    pub(super) parameter_sets: Vec<u8>,
    /// Size of the length ahead of each unit of a sample.
    length_bytes: usize,
    /// In decoding order.
    samples: Vec<Sample>,
    /// Units of time in a second.
    timescale: u32,
    /// First time that is presented.
    start: i64,
    /// Matrix coefficients and full range, if the file has them.
    pub(super) colors: Option<(u16, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    offset: u64,
    bytes: u32,
    /// Time of presentation.
    time: i64,
}

/// Start code of Annex B.
const START_CODE: [u8; 4] = [0, 0, 0, 1];

type Name = [u8; 4];

/// Boxes one after the other, up to the first that is damaged.
#[derive(Clone, Copy)]
struct Boxes<'b>(&'b [u8]);

impl<'b> Iterator for Boxes<'b> {
    type Item = (Name, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        let [a, b, c, d, name @ ..] = *head;
        let (size, rest) = match u32::from_be_bytes([a, b, c, d]) {
            0 => (rest.len(), rest),
            1 => {
                let (size, rest) = rest.split_first_chunk::<8>()?;
                (usize::try_from(u64::from_be_bytes(*size).checked_sub(16)?).ok()?, rest)
            }
            size => ((size as usize).checked_sub(8)?, rest),
        };
        let (content, rest) = rest.split_at_checked(size)?;
        self.0 = rest;
        Some((name, content))
    }
}

/// Content of the first box of this name.
fn find<'b>(bytes: &'b [u8], name: &Name) -> Option<&'b [u8]> {
    Boxes(bytes).find(|(found, _)| found == name).map(|(_, content)| content)
}

/// Content of the box at the end of a path of names.
fn find_path<'b>(bytes: &'b [u8], path: &[&Name]) -> Option<&'b [u8]> {
    path.iter().try_fold(bytes, |bytes, name| find(bytes, name))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Rows of `N` words of a table, after `head` bytes with their number at the end.
fn rows<const N: usize>(table: &[u8], head: usize) -> Option<Vec<[u32; N]>> {
    let count = u32_at(table, head.checked_sub(4)?)? as usize;
    let bytes = table.get(head..)?.get(..count.checked_mul(4 * N)?)?;
    let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word));
    let words: Vec<u32> = words.collect();
    Some(words.as_chunks::<N>().0.to_vec())
}

/// Reads the box `moov` of a file, wherever it is.
fn read_tables(file: &mut (impl Read + Seek)) -> Result<Vec<u8>, String> {
    let fault = |error: std::io::Error| error.to_string();
    let len = file.seek(SeekFrom::End(0)).map_err(fault)?;
    let mut at = 0;
    loop {
        let mut head = [0; 16];
        file.seek(SeekFrom::Start(at)).map_err(fault)?;
        let cut = || "it has no box moov: it was cut off, or not completed".to_owned();
        file.read_exact(&mut head[..8]).map_err(|_| cut())?;
        let (size, head_bytes) = match u32_at(&head, 0) {
            Some(1) => {
                file.read_exact(&mut head[8..]).map_err(|_| cut())?;
                (u64_at(&head, 8).unwrap_or(0), 16)
            }
            Some(0) => (len - at, 8),
            size => (size.unwrap_or(0).into(), 8),
        };
        let next = at.checked_add(size).filter(|next| size >= head_bytes && *next <= len);
        let next = next.ok_or_else(cut)?;
        if head[4..8] == *b"moov" {
            if size > MAX_TABLES {
                return Err(format!("its tables have {size} bytes"));
            }
            let mut tables = vec![0; (size - head_bytes) as usize];
            file.read_exact(&mut tables).map_err(fault)?;
            return Ok(tables);
        }
        at = next;
    }
}

impl Track {
    /// Finds the H.264 track of a file.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    pub(super) fn open(file: &mut (impl Read + Seek)) -> Result<Self, String> {
        let tables = read_tables(file)?;
        if find(&tables, b"mvex").is_some() {
            return Err("it is in fragments, which are not supported".to_owned());
        }
        let tracks = Boxes(&tables).filter(|(name, _)| name == b"trak");
        let mut others = Vec::new();
        for (_, track) in tracks {
            let handler = find_path(track, &[b"mdia", b"hdlr"]);
            if handler.and_then(|handler| handler.get(8..12)) != Some(b"vide") {
                continue;
            }
            let descriptions = find_path(track, &[b"mdia", b"minf", b"stbl", b"stsd"]);
            let description = descriptions.and_then(|table| Boxes(table.get(8..)?).next());
            match description {
                Some((name, entry)) if matches!(&name, b"avc1" | b"avc3") => {
                    return Self::read(track, entry);
                }
                Some((name, _)) => others.push(String::from_utf8_lossy(&name).into_owned()),
                None => {}
            }
        }
        Err(match others.is_empty() {
            true => "it has no track of images".to_owned(),
            false => format!("its images are coded as {}, not as H.264", others.join(", ")),
        })
    }

    fn read(track: &[u8], entry: &[u8]) -> Result<Self, String> {
        let damaged = |name: &'static str| move || format!("its box {name} is damaged or missing");
        if !is_upright(track).ok_or_else(damaged("tkhd"))? {
            return Err("its images are rotated or mirrored, which is not supported".to_owned());
        }
        let media = find(track, b"mdia").ok_or_else(damaged("mdia"))?;
        let (timescale, start) = find(media, b"mdhd")
            .and_then(timescale)
            .zip(start(track))
            .ok_or_else(damaged("mdhd or elst"))?;
        // The boxes of an entry follow its fields.
        let boxes = entry.get(78..).ok_or_else(damaged("avc1"))?;
        let (length_bytes, parameter_sets) =
            find(boxes, b"avcC").and_then(configuration).ok_or_else(damaged("avcC"))?;
        let samples = find_path(media, &[b"minf", b"stbl"]).and_then(samples);
        let samples = samples.ok_or_else(damaged("stbl"))?;
        let colors = find(boxes, b"colr").and_then(colors);
        Ok(Self { parameter_sets, length_bytes, samples, timescale, start, colors })
    }

    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Time from the start of the presentation to the presentation of sample `number`; `None` if the
    /// sample is only decoded.
    pub(super) fn duration(&self, time: i64) -> Option<Duration> {
        let ticks = u128::try_from(time.checked_sub(self.start)?).ok()?;
        let ns = ticks * 1_000_000_000 / u128::from(self.timescale);
        Some(Duration::from_nanos(u64::try_from(ns).ok()?))
    }

    /// Distance of the times of the first images.
    pub(super) fn period(&self) -> Option<Duration> {
        let mut times: Vec<i64> = self.samples.iter().take(32).map(|sample| sample.time).collect();
        times.sort_unstable();
        let [first, second, ..] = times[..] else { return None };
        self.duration(self.start.checked_add(second.checked_sub(first)?)?)
    }

    /// Reads sample `number` as units after start codes; returns its time of presentation.
    pub(super) fn sample(
        &self,
        file: &mut (impl Read + Seek),
        number: usize,
        units: &mut Vec<u8>,
    ) -> Result<i64, String> {
        units.clear();
        let Some(sample) = self.samples.get(number) else { return Err("no sample".to_owned()) };
        let cut = |error: std::io::Error| format!("image {number} is cut off: {error}");
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(sample.offset)).map_err(cut)?;
        // Memory grows with what the file has.
        let read = file.take(sample.bytes.into()).read_to_end(&mut bytes).map_err(cut)?;
        if read as u64 != u64::from(sample.bytes) {
            return Err(format!("image {number} is cut off"));
        }
        let mut rest = &*bytes;
        while !rest.is_empty() {
            let unit = rest.split_at_checked(self.length_bytes).and_then(|(length, rest)| {
                let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                rest.split_at_checked(length)
            });
            let Some((unit, after)) = unit else {
                return Err(format!("image {number} is damaged: a unit is longer than it"));
            };
            units.extend(START_CODE);
            units.extend(unit);
            rest = after;
        }
        Ok(sample.time)
    }
}

/// True if the matrix of the track header neither rotates nor mirrors.
fn is_upright(track: &[u8]) -> Option<bool> {
    let header = find(track, b"tkhd")?;
    let at = if header.first() == Some(&1) { 52 } else { 40 };
    let number = |index: usize| u32_at(header, at + 4 * index).map(|word| word as i32);
    Some(number(0)? > 0 && number(1)? == 0 && number(3)? == 0 && number(4)? > 0)
}

fn timescale(header: &[u8]) -> Option<u32> {
    let at = if header.first() == Some(&1) { 20 } else { 12 };
    u32_at(header, at).filter(|scale| *scale > 0)
}

/// First time of the track that is presented: that of the first edit which is not empty.
fn start(track: &[u8]) -> Option<i64> {
    let Some(edits) = find_path(track, &[b"edts", b"elst"]) else { return Some(0) };
    let count = u32_at(edits, 4)? as usize;
    let is_long = edits.first() == Some(&1);
    let bytes = if is_long { 20 } else { 12 };
    for edit in edits.get(8..)?.chunks_exact(bytes).take(count) {
        let time = match is_long {
            true => u64_at(edit, 8)? as i64,
            false => i64::from(u32_at(edit, 4)? as i32),
        };
        if time >= 0 {
            return Some(time);
        }
    }
    Some(0)
}

/// Size of the lengths and parameter sets of a decoder configuration.
fn configuration(record: &[u8]) -> Option<(usize, Vec<u8>)> {
    let length_bytes = usize::from(record.get(4)? & 3) + 1;
    let (mut at, mut sets) = (5, Vec::new());
    for mask in [0x1f, 0xff] {
        let count = record.get(at)? & mask;
        at += 1;
        for _ in 0..count {
            let length = usize::from(u16_at(record, at)?);
            sets.extend(START_CODE);
            sets.extend(record.get(at + 2..at + 2 + length)?);
            at += 2 + length;
        }
    }
    Some((length_bytes, sets))
}

/// Matrix coefficients (ISO/IEC 23091-2) and full range.
fn colors(info: &[u8]) -> Option<(u16, bool)> {
    let coefficients = info.starts_with(b"nclx").then(|| u16_at(info, 8))??;
    Some((coefficients, info.get(10)? & 0x80 != 0))
}

/// Value of each sample from runs of `(samples, value)`.
struct Runs<I> {
    runs: I,
    left: u32,
    value: u32,
}

impl<I: Iterator<Item = [u32; 2]>> Runs<I> {
    fn next(&mut self) -> Option<u32> {
        while self.left == 0 {
            [self.left, self.value] = self.runs.next()?;
        }
        self.left -= 1;
        Some(self.value)
    }
}

/// Offset, size and time of each sample.
fn samples(table: &[u8]) -> Option<Vec<Sample>> {
    let sizes = find(table, b"stsz")?;
    // All have this size, or each has its own.
    let (size, count) = (u32_at(sizes, 4)?, u32_at(sizes, 8)?);
    let sizes = if size == 0 { rows::<1>(sizes, 12)? } else { Vec::new() };
    let offsets: Vec<u64> = match find(table, b"stco") {
        Some(offsets) => rows::<1>(offsets, 8)?.into_iter().map(|[at]| at.into()).collect(),
        None => {
            let offsets = rows::<2>(find(table, b"co64")?, 8);
            offsets?.into_iter().map(|[high, low]| u64::from(high) << 32 | u64::from(low)).collect()
        }
    };
    let chunks = rows::<3>(find(table, b"stsc")?, 8)?;
    let durations = rows::<2>(find(table, b"stts")?, 8)?;
    // Without a table, samples are presented as they are decoded.
    let shifts =
        find(table, b"ctts").map_or(Some(vec![[count, 0]]), |shifts| rows::<2>(shifts, 8))?;
    let mut durations = Runs { runs: durations.into_iter(), left: 0, value: 0 };
    let mut shifts = Runs { runs: shifts.into_iter(), left: 0, value: 0 };
    let (mut samples, mut decoded) = (Vec::new(), 0_i64);
    let mut run = chunks.iter().peekable();
    let mut in_chunk = run.next()?[1];
    for (number, mut offset) in (1_u32..).zip(offsets) {
        if let Some([_, samples, _]) = run.next_if(|[first, ..]| *first == number) {
            in_chunk = *samples;
        }
        for _ in 0..in_chunk {
            if samples.len() == count as usize {
                return Some(samples);
            }
            let bytes = if size == 0 { sizes.get(samples.len())?[0] } else { size };
            if u64::from(bytes) > MAX_SAMPLE {
                return None;
            }
            // A shift may be negative.
            let time = decoded.checked_add(i64::from(shifts.next()? as i32))?;
            samples.push(Sample { offset, bytes, time });
            offset = offset.checked_add(bytes.into())?;
            decoded = decoded.checked_add(durations.next()?.into())?;
        }
    }
    (samples.len() == count as usize).then_some(samples)
}

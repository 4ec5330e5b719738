//! Random changes of a file, reproducible by seed.

use crate::{
    Random,
    edit::{append, set_reference, set_tables},
    flatbuffer::{Vector, follow, number, set_number},
    locations::{Location, Role, find},
    schema::{BUNDLED_PROGRAM, FLAT_TENSOR, Kind, PROGRAM, TableType},
    seeds::Seed,
};

/// Root table of a file by its identifier; that of a program if the identifier is unknown.
pub fn root_type(bytes: &[u8]) -> &'static TableType {
    match bytes.get(4..6) {
        Some(b"FT") => &FLAT_TENSOR,
        Some(b"BP") => &BUNDLED_PROGRAM,
        _ => &PROGRAM,
    }
}

/// Changes one to four locations of a file, which grows to at most `max_len` bytes.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random, max_len: usize) {
    for _ in 0..=random.below(4) {
        let locations = find(bytes, root_type(bytes));
        let Some(&location) = random.pick(&locations) else { return };
        let before = bytes.clone();
        change(bytes, location, &locations, random);
        if bytes.len() > max_len {
            *bytes = before;
        }
    }
}

/// Changes one to four bytes anywhere in a file.
pub fn corrupt_bytes(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= (1 + random.below(255)) as u8;
        }
    }
}

/// Returns `count` files that are made from the seeds in turn, with one to four changed bytes each.
pub fn corrupted(
    seeds: &[Seed],
    count: usize,
    seed: u64,
) -> impl Iterator<Item = (&Seed, Vec<u8>)> {
    let mut random = Random(seed);
    seeds.iter().cycle().take(count).map(move |seed| {
        let mut bytes = seed.bytes.clone();
        corrupt_bytes(&mut bytes, &mut random);
        (seed, bytes)
    })
}

fn change(bytes: &mut Vec<u8>, location: Location, locations: &[Location], random: &mut Random) {
    let Location { at, width, role } = location;
    let old = number(bytes, at, width).unwrap_or(0);
    match role {
        Role::Number => {
            let value = match random.below(4) {
                // Value of another location of the same width.
                0 => random
                    .pick(locations)
                    .filter(|other| other.width == width)
                    .map_or(old, |other| number(bytes, other.at, width).unwrap_or(old)),
                1 => old.wrapping_add(random.bits() % 9).wrapping_sub(4),
                _ => interesting(bytes.len(), random),
            };
            set_number(bytes, at, width, value);
        }
        Role::Length => {
            let value = match random.below(3) {
                0 => old.wrapping_add(1 + random.bits() % 4),
                1 => random.bits() % (old + 1),
                _ => interesting(bytes.len(), random),
            };
            set_number(bytes, at, width, value);
        }
        Role::Reference(kind) => {
            if random.once_in(2) && copy_vector(bytes, at, kind, random).is_some() {
                return;
            }
            // Target of another reference, or any offset.
            let target = match random.below(4) {
                0 => interesting(bytes.len(), random),
                1 => old.wrapping_add(4),
                _ => random.pick(locations).map_or(0, |other| {
                    let target = follow(bytes, other.at).unwrap_or(other.at);
                    target.wrapping_sub(at) as u64
                }),
            };
            set_number(bytes, at, width, target);
        }
        Role::VtableEntry => {
            let value = match random.below(3) {
                0 => 0,
                1 => 4 + 4 * (random.bits() % 8),
                _ => interesting(bytes.len(), random),
            };
            set_number(bytes, at, width, value);
        }
    }
}

/// Replaces a vector by one with another order and number of its entries.
fn copy_vector(bytes: &mut Vec<u8>, at: usize, kind: Kind, random: &mut Random) -> Option<()> {
    let width = match kind {
        Kind::Tables(_) => 4,
        Kind::Numbers(width) => width,
        Kind::Bytes => 1,
        _ => return None,
    };
    let old = Vector::at(bytes, follow(bytes, at)?, width)?;
    let len = match random.below(6) {
        0 => 0,
        1 => random.below(1000),
        2 => 17,
        _ => (old.len + random.below(4)).saturating_sub(1),
    };
    let (mut entries, shift) = (Vec::with_capacity(len), random.below(3));
    for item in 0..len {
        let other = random.once_in(8);
        entries.push(if other { random.below(old.len) } else { (item + shift) % old.len.max(1) });
    }
    if let Kind::Tables(_) = kind {
        return set_tables(bytes, at, kind, &entries);
    }
    let mut vector = vec![0; 4 + width * len];
    set_number(&mut vector, 0, 4, len as u64);
    for (item, &entry) in entries.iter().enumerate() {
        let value = number(bytes, old.start + width * entry, width).filter(|_| entry < old.len);
        set_number(&mut vector, 4 + width * item, width, value.unwrap_or(item as u64));
    }
    let start = append(bytes, &vector);
    set_reference(bytes, at, start)
}

/// Boundary value: near a power of two, a type limit or the file length.
fn interesting(len: usize, random: &mut Random) -> u64 {
    let delta = random.bits() % 5;
    let base = match random.below(8) {
        0 | 1 => 2,
        2 => 1 << random.below(64),
        3 => u64::MAX,
        4 => i32::MAX as u64,
        5 => i64::MAX as u64,
        6 => len as u64,
        _ => random.bits() % 256,
    };
    base.wrapping_add(delta).wrapping_sub(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::seeds;

    /// A fuzzer mutates files that are already corrupted.
    #[test]
    fn repeated_mutation_stays_within_the_limit() {
        const LIMIT: usize = 1 << 16;
        let mut random = Random(4);
        for seed in ["model.pte", "model.ptd", "model.bpte"].map(seeds).into_iter().flatten() {
            let mut bytes = seed.bytes;
            bytes.truncate(LIMIT);
            let good = bytes.clone();
            for _ in 0..40 {
                corrupt_bytes(&mut bytes, &mut random);
                mutate(&mut bytes, &mut random, LIMIT);
                assert!(bytes.len() <= LIMIT, "{}", seed.name);
            }
            assert_ne!(bytes, good, "{}", seed.name);
        }
    }
}

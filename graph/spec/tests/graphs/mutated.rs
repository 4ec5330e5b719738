//! Damaged graph files are refused or accepted, but nothing panics.

use afferent_spec::LoadOptions;

use crate::catalog::check_text;

const SEEDS: [&str; 2] =
    [include_str!("../data/sound.yaml"), include_str!("../data/eight_faults.yaml")];

/// A small generator of the xorshift family: the same damage in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap_or(0)
    }
}

fn damage(random: &mut Random) -> String {
    const PIECES: [&str; 30] = [
        "{", "}", "[", "]", ":", ": ", ",", "\n", "  ", "- ", "~", "&a ", "*a", "!x ", "'", "\"",
        "|\n", "#", "---\n", ".", "-1", "1e999", "ä", "\t", "\0", "? ", "<<: ", "from: ", "in: ",
        "%",
    ];
    let mut text: Vec<char> = SEEDS[random.below(SEEDS.len())].chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len());
        let end = (at + 1 + random.below(12)).min(text.len());
        match random.below(4) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..at, PIECES[random.below(PIECES.len())].chars())),
            2 => drop(text.splice(at..end, PIECES[random.below(PIECES.len())].chars())),
            _ => {
                let piece = text[at..end].to_vec();
                let to = random.below(text.len());
                text.splice(to..to, piece);
            }
        }
    }
    text.into_iter().collect()
}

#[test]
fn damaged_files_never_panic() {
    let mut random = Random(0x5eed);
    let (mut sound, mut broken) = (0, 0);
    for round in 0..5000 {
        let text = damage(&mut random);
        let set = vec!["vad.threshold=0.1".to_owned(), damage(&mut random)];
        let profile = (round % 3 == 0).then(|| "live".to_owned());
        let set = if round % 5 == 0 { set } else { Vec::new() };
        match check_text(&text, &LoadOptions { profile, set, ..LoadOptions::default() }) {
            Ok(_) => sound += 1,
            Err(faults) => {
                assert!(faults.errors() > 0);
                assert!(faults.render(round % 2 == 0).len() > 10);
                broken += 1;
            }
        }
    }
    assert!(sound > 50 && broken > 1000, "{sound} sound, {broken} broken");
}

/// Files whose faults are as many as the limits allow.
#[test]
fn large_files_end_soon() {
    let mut names = "afferent: 1\nnodes:\n".to_owned();
    for number in 0..900 {
        names.push_str(&format!("  node_{number}: {{use: microphone}}\n"));
    }
    let streams: Vec<_> = (0..12_000).map(|number| format!("nod_{number}.x")).collect();
    let streams = format!("{names}  out: {{use: print, in: [{}]}}\n", streams.join(", "));
    let mut profile = format!("{names}profiles:\n  p:\n    nodes:\n");
    for number in 0..3500 {
        profile.push_str(&format!("      nod_{number}: {{thread: x}}\n"));
    }
    for (text, errors) in [(streams, 12_000), (profile, 3500)] {
        let faults = check_text(&text, &LoadOptions::default()).unwrap_err();
        assert_eq!(faults.errors(), errors);
        let end = format!("\n\nthe first 100 are shown\n\n{errors} errors");
        assert!(faults.render(false).contains(&end));
    }
}

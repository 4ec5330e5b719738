//! Words at the start of an utterance: heard or lost, for short lead-ins and pauses.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{
    Node, NodeBench, NodeError, OpenCx, ParamValue, ParamValues, Params, Timestamp,
};
use afferent_messages::{AudioBlock, SampleRate, SpeechEvent, SpeechEventKind, Transcript};
use afferent_nodes_speech::{Asr, AsrParams, Clause, Vad, VadParams, Voice};
use anyhow::{Result, bail, ensure};

use crate::{
    bench_target::model_options,
    recognition::{edit_distance, recognize},
    table::Table,
};

/// Counts first words that the recognizer loses.
///
/// Each phrase is synthesized with the voice package in several variants of pitch and speaking rate.
/// It is recognized after each lead-in of silence, and, cut into halves, with each pause between the
/// halves: once with the voice activity detector upstream, and once with the events of a key that is
/// pressed at the start of the audio. The reference is the transcript with a lead-in of 500 ms, that
/// of the second half by itself. A first word is lost if the reference has it and the transcript has
/// neither it nor the word that was spoken.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Text file with one phrase per line.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/first_word.txt"))]
    list: PathBuf,
    /// Folder of the packages `asr`, `tts` and `vad`.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models"))]
    models: PathBuf,
    /// Fail if a word is lost.
    #[arg(long)]
    strict: bool,
    /// Print each lost word.
    #[arg(long)]
    verbose: bool,
}

/// Pitch and speaking rate of each variant, relative to those of the voice.
const VARIANTS: [(f32, f32); 3] = [(1.0, 1.0), (0.9, 1.15), (1.12, 0.9)];

/// Silence ahead of a phrase.
const LEAD_INS_MS: [u64; 6] = [0, 50, 100, 200, 300, 500];

/// Silence between the halves of a phrase.
const PAUSES_MS: [u64; 6] = [150, 200, 250, 300, 350, 400];

/// Lead-in of the reference.
const REFERENCE_MS: u64 = 500;

/// Silence after a phrase.
const TAIL: Duration = Duration::from_millis(600);

/// Samples below this level at the start and end of a synthesized clause are cut off.
const SILENCE_LEVEL: f32 = 1e-3;

const BLOCK: Duration = Duration::from_millis(20);

/// Silences of one case, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    LeadIn(u64),
    Pause(u64),
}

/// First words that the reference has, and the lost ones among them.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    expected: usize,
    lost: usize,
}

/// Returns the counts as text, and an error if words are lost and `options` demand it.
pub(crate) fn run(options: &Options) -> Result<(Vec<Table>, Result<()>)> {
    let list = std::fs::read_to_string(&options.list)?;
    let phrases: Vec<&str> = list.lines().filter(|line| !line.trim().is_empty()).collect();
    ensure!(!phrases.is_empty(), "{} contains no phrase", options.list.display());
    let cases = LEAD_INS_MS.map(Case::LeadIn).into_iter().chain(PAUSES_MS.map(Case::Pause));
    let mut counts: Vec<(Case, [Count; 2])> =
        cases.map(|case| (case, [Count::default(); 2])).collect();
    let mut listener = Listener::open(options)?;
    for phrase in &phrases {
        for variant in VARIANTS {
            listener.count(phrase, variant, &mut counts, options.verbose)?;
        }
    }
    let lost: usize = counts.iter().flat_map(|(_, counts)| counts).map(|count| count.lost).sum();
    let verdict = match lost {
        0 => Ok(()),
        _ if !options.strict => Ok(()),
        _ => Err(anyhow::anyhow!("{lost} first words are lost")),
    };
    Ok((vec![table(phrases.len(), &counts)], verdict))
}

fn table(phrases: usize, counts: &[(Case, [Count; 2])]) -> Table {
    let title = format!("first words of {phrases} phrases in {} variants", VARIANTS.len());
    let columns = ["silence", "ms", "with vad", "lost", "with key", "lost"];
    let mut table = Table::new(title, &columns);
    for (case, [vad, key]) in counts {
        let (name, ms) = match case {
            Case::LeadIn(ms) => ("lead-in", ms),
            Case::Pause(ms) => ("pause", ms),
        };
        let [vad, key] = [vad, key].map(|count| [count.expected, count.lost]);
        let counts = vad.into_iter().chain(key).map(|count| count.to_string());
        table.row([name.to_owned(), ms.to_string()].into_iter().chain(counts));
    }
    table
}

/// Voice, voice activity detector, and recognizer.
struct Listener {
    voice: Voice,
    vad: NodeBench<Vad>,
    asr: NodeBench<Asr>,
    rate: SampleRate,
    /// Start time of the next audio. Audio is 10 s apart.
    at: Timestamp,
}

impl Listener {
    fn open(options: &Options) -> Result<Self> {
        let cx = OpenCx::with_service(model_options());
        let model = |name: &str| -> ParamValues {
            [("model".to_owned(), ParamValue::Path(options.models.join(name)))].into()
        };
        let vad = VadParams::from_values(&model("vad")).map_err(NodeError::from)?;
        let mut asr = model("asr");
        asr.insert("partials".to_owned(), ParamValue::Bool(false));
        let asr = AsrParams::from_values(&asr).map_err(NodeError::from)?;
        let voice = Voice::open(&options.models.join("tts"), &cx)?;
        let rate = voice.rate();
        let (vad, asr) = (Vad::open(vad, &cx)?, Asr::open(asr, &cx)?);
        let (vad, asr) = (NodeBench::new(vad), NodeBench::new(asr));
        Ok(Self { voice, vad, asr, rate, at: Timestamp::ZERO })
    }

    /// Adds the cases of a phrase in one variant.
    fn count(
        &mut self,
        phrase: &str,
        variant: (f32, f32),
        counts: &mut [(Case, [Count; 2])],
        is_verbose: bool,
    ) -> Result<()> {
        let words: Vec<&str> = phrase.split_whitespace().collect();
        let (first, second) = words.split_at(words.len() / 2);
        let spoken: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let whole = self.speak(&words, variant)?;
        let halves = [self.speak(first, variant)?, self.speak(second, variant)?];
        for with_vad in [true, false] {
            let mut reference = |sounds: &[&[f32]]| self.hear(sounds, REFERENCE_MS, 0, with_vad);
            let expected = reference(&[&whole])?;
            let expected_halves = [reference(&[&halves[0]])?, reference(&[&halves[1]])?];
            for (case, counts) in &mut *counts {
                let (found, at, expected) = match *case {
                    Case::LeadIn(ms) => {
                        (self.hear(&[&whole], ms, 0, with_vad)?, 0, expected.clone())
                    }
                    Case::Pause(ms) => {
                        let sounds = [&halves[0][..], &halves[1]];
                        let found = self.hear(&sounds, REFERENCE_MS, ms, with_vad)?;
                        (found, expected_halves[0].len(), expected_halves.concat())
                    }
                };
                let Some(word) = expected.get(at) else { continue };
                let count = &mut counts[usize::from(!with_vad)];
                count.expected += 1;
                let spoken_at = if at == 0 { 0 } else { first.len() };
                if !is_heard(&expected, at, &found) && !is_heard(&spoken, spoken_at, &found) {
                    count.lost += 1;
                    if is_verbose {
                        let (expected, found) = (expected.join(" "), found.join(" "));
                        eprintln!("{case:?} {variant:?} {with_vad} {word:?}: {expected} / {found}");
                    }
                }
            }
        }
        Ok(())
    }

    /// Synthesizes words, without silence around them.
    fn speak(&mut self, words: &[&str], (pitch, pace): (f32, f32)) -> Result<Vec<f32>> {
        let clauses: Vec<Clause> = self.voice.clauses(&words.join(" "));
        let mut sound = Vec::new();
        for clause in clauses {
            // Resampling changes the speaking rate along with the pitch.
            let mut utterance = self.voice.begin(&clause, pace / pitch)?;
            while let Some(chunk) = self.voice.next_chunk(&mut utterance)? {
                sound.extend_from_slice(chunk);
            }
        }
        let is_loud = |sample: &f32| sample.abs() > SILENCE_LEVEL;
        let Some(start) = sound.iter().position(is_loud) else { bail!("{words:?} is silent") };
        let end = sound.iter().rposition(is_loud).unwrap_or(start);
        Ok(resample(&sound[start..=end], pitch))
    }

    /// Words that are recognized in `sounds`, which follow each other after a pause.
    fn hear(
        &mut self,
        sounds: &[&[f32]],
        lead_in_ms: u64,
        pause_ms: u64,
        with_vad: bool,
    ) -> Result<Vec<String>> {
        let silence = |ms| vec![0.0; self.rate.samples(Duration::from_millis(ms))];
        let mut audio = [silence(lead_in_ms), sounds.join(&silence(pause_ms)[..])].concat();
        audio.resize(audio.len() + self.rate.samples(TAIL), 0.0);
        let start = self.at;
        self.at = self.at + self.rate.duration(audio.len()) + Duration::from_secs(10);
        let mut sent = Vec::new();
        for (samples, index) in audio.chunks(self.rate.samples(BLOCK)).zip(0_u32..) {
            let mut block = AudioBlock::default();
            block.reshape(self.rate, 1, samples.len())?.copy_from_slice(samples);
            let at = start + BLOCK * index;
            if with_vad {
                let speech = self.vad.call(Vad::AUDIO, at, block)?;
                sent.extend(recognize(&mut self.asr, speech)?);
            } else {
                sent.extend(self.asr.call(Asr::AUDIO, at, block)?);
            }
        }
        if with_vad {
            let rest = self.vad.finish(self.at)?;
            sent.extend(recognize(&mut self.asr, rest)?);
        } else {
            let event = SpeechEvent { kind: SpeechEventKind::End, probability: 1.0 };
            sent.extend(self.asr.call(Asr::EVENTS, self.at, event)?);
        }
        let finals = sent.iter().filter_map(|(_, packet)| packet.get::<Transcript>());
        let finals = finals.filter(|transcript| transcript.is_final);
        Ok(finals.flat_map(|found| &found.words).map(|word| word.text.clone()).collect())
    }
}

/// Raises the pitch, and the speaking rate with it, by linear interpolation.
fn resample(sound: &[f32], factor: f32) -> Vec<f32> {
    let len = (sound.len() as f32 / factor) as usize;
    let sample = |at: usize| {
        let position = at as f32 * factor;
        let (index, part) = (position as usize, position.fract());
        let get = |index: usize| sound.get(index).copied().unwrap_or(0.0);
        get(index) * (1.0 - part) + get(index + 1) * part
    };
    (0..len).map(sample).collect()
}

/// True if a minimal word alignment of `found` to `expected` matches the word at index `at`.
fn is_heard(expected: &[String], at: usize, found: &[String]) -> bool {
    // Fewest errors of the words before `at` and of those after it, for each split of `found`.
    let total = edit_distance(expected, found);
    (0..found.len()).any(|split| {
        found[split] == expected[at]
            && edit_distance(&expected[..at], &found[..split])
                + edit_distance(&expected[at + 1..], &found[split + 1..])
                == total
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_heard_if_an_alignment_matches_it() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let check = |expected: &str, at: usize, found: &str, is: bool| {
            assert_eq!(is_heard(&words(expected), at, &words(found)), is, "{expected} / {found}");
        };
        check("a b c", 0, "a b c", true);
        check("a b c", 0, "b c", false);
        check("a b c", 0, "x a b c", true);
        check("a b c", 1, "a x c", false);
        check("a b a c", 2, "a b c", false);
        check("a b a c", 2, "b a c", true);
    }
}

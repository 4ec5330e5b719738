//! Simulation of a room: speech of the agent, echo and noise.

use std::{path::Path, time::Duration};

use afferent_graph::OpenCx;
use afferent_messages::SampleRate;
use afferent_nodes_speech::Voice;
use anyhow::{Result, ensure};
use fastrand::Rng;

/// Sample rate of all signals.
pub(super) const RATE: SampleRate = SampleRate(16_000);

/// Silence before the first words of the agent, in samples.
pub(super) const LEAD_SAMPLES: usize = 2 * RATE.0 as usize;

/// Period after which the impulse response of a changing room changes, in samples.
const CHANGE_SAMPLES: usize = 20 * RATE.0 as usize;

/// Answers of the agent; `#` is replaced by a number.
const ANSWERS: &[&str] = &[
    "It is # degrees outside, and it will rain in the evening.",
    "The next train to the city leaves at # past nine. Shall I tell you when to go?",
    "I have set a timer for # minutes.",
    "There are # new messages. The first one is from your sister.",
    "Your meeting begins in # minutes. It takes index on the second floor.",
    "The recipe needs # grams of flour, two eggs, and a little salt.",
    "I turned the light in the kitchen to # percent.",
    "The museum opens at ten, and a ticket costs # euros. Children pay half of that.",
    "Chapter # is called the long way home. Do you want to hear it now?",
    "The distance from the earth to the moon is about three hundred and # thousand kilometers.",
    "Sorry, I could not find that song. There are # others by the same band.",
    "You walked # hundred steps today, which is more than yesterday.",
];

/// Acoustic path from the loudspeaker to the microphone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) name: &'static str,
    /// Delay of the direct path, including devices.
    pub(super) delay: Duration,
    /// True if the loudspeaker distorts.
    pub(super) distorts: bool,
    /// True if the impulse response changes every 20 s.
    pub(super) changes: bool,
    /// True if each reference block arrives after the microphone block with the same timestamp.
    pub(super) late_reference: bool,
    /// True if the agent speaks from the first sample on.
    pub(super) speaks_at_start: bool,
}

/// Synthesizes `seconds` of agent speech with pauses between answers.
pub(super) fn agent(model: &Path, cx: &OpenCx, seconds: usize) -> Result<Vec<f32>> {
    let mut voice = Voice::open(model, cx)?;
    let rate = voice.rate();
    ensure!(rate == RATE, "the voice has {} Hz, but must have {} Hz", rate.0, RATE.0);
    let (mut rng, mut audio) = (Rng::with_seed(7), vec![0.0; LEAD_SAMPLES]);
    for number in 0.. {
        let text = ANSWERS[number % ANSWERS.len()];
        let text = text.replace('#', &(2 + (number * 37) % 97).to_string());
        for clause in voice.clauses(&text) {
            let mut utterance = voice.begin(&clause, 1.0)?;
            while let Some(chunk) = voice.next_chunk(&mut utterance)? {
                audio.extend_from_slice(chunk);
            }
            audio.resize(audio.len() + RATE.samples(Voice::pause(clause.end)), 0.0);
        }
        if audio.len() >= seconds * RATE.0 as usize {
            break;
        }
        audio.resize(audio.len() + rng.usize(..2 * RATE.0 as usize), 0.0);
    }
    audio.truncate(seconds * RATE.0 as usize);
    Ok(audio)
}

impl Room {
    /// Echo of `played` at the microphone, at `level_db` relative to `played`. `decay` is the
    /// reverberation time (RT60).
    pub(super) fn echo(&self, played: &[f32], decay: Duration, level_db: f32) -> Vec<f32> {
        let mut rng = Rng::with_seed(self.delay.as_millis() as u64);
        let distorted: Vec<f32> = match self.distorts {
            // Maps 0.33 of full scale to 0.30, and full scale to 0.67.
            true => played.iter().map(|x| (1.5 * x).tanh() / 1.5 + 0.05 * x * x).collect(),
            false => played.to_vec(),
        };
        let mut response = self.response(&mut rng, decay);
        let mut before = vec![0.0; response.len()];
        before.extend_from_slice(&distorted);
        let mut echo = Vec::with_capacity(played.len());
        for index in 0..played.len() {
            if self.changes && index > 0 && index % CHANGE_SAMPLES == 0 {
                response = self.response(&mut rng, decay);
            }
            echo.push(dot(&before[index + 1..][..response.len()], &response));
        }
        let gain = 10.0_f32.powf(level_db / 20.0) * (power(played) / power(&echo)).sqrt();
        echo.iter_mut().for_each(|sample| *sample *= gain);
        echo
    }

    /// Impulse response in reverse order: direct path, early reflections, reverberation tail.
    fn response(&self, rng: &mut Rng, decay: Duration) -> Vec<f32> {
        let (delay, tail) = (RATE.samples(self.delay), RATE.samples(decay));
        let mut response = vec![0.0; delay + tail.max(1)];
        for (at, sample) in response[delay..].iter_mut().enumerate() {
            let envelope = (-6.9 * at as f32 / tail.max(1) as f32).exp();
            *sample = 0.06 * (rng.f32() + rng.f32() - 1.0) * envelope;
        }
        for _ in 0..6 {
            let at = delay + 16 + rng.usize(..RATE.0 as usize / 40);
            if let Some(sample) = response.get_mut(at) {
                *sample += 0.8 * (rng.f32() - 0.5);
            }
        }
        response[delay] += 1.0;
        response.reverse();
        response
    }
}

/// White microphone noise.
pub(super) fn noise(len: usize, dbfs: f32) -> Vec<f32> {
    let mut rng = Rng::with_seed(3);
    let peak = 3.0_f32.sqrt() * 10.0_f32.powf(dbfs / 20.0);
    (0..len).map(|_| peak * (2.0 * rng.f32() - 1.0)).collect()
}

/// Scales `audio` to a mean power of `dbfs`.
pub(super) fn at_level(audio: &[f32], dbfs: f32) -> Vec<f32> {
    let gain = 10.0_f32.powf(dbfs / 20.0) / power(audio).sqrt();
    audio.iter().map(|sample| gain * sample).collect()
}

/// Mean square, at least 1e-12.
pub(super) fn power(audio: &[f32]) -> f32 {
    let sum: f64 = audio.iter().map(|x| f64::from(x * x)).sum();
    (sum / audio.len().max(1) as f64).max(1e-12) as f32
}

/// Dot product with 16 accumulators, so that the compiler can vectorize it.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; 16];
    let (a, b) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let rest: f32 = a.1.iter().zip(b.1).map(|(a, b)| a * b).sum();
    for (a, b) in a.0.iter().zip(b.0) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane += a * b);
    }
    lanes.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_has_the_given_delay_and_level() {
        let room = Room {
            name: "",
            delay: Duration::from_millis(20),
            distorts: false,
            changes: false,
            late_reference: false,
            speaks_at_start: false,
        };
        let mut played = vec![0.0; 8000];
        played[100..4000].copy_from_slice(&noise(3900, -20.0));
        let echo = room.echo(&played, Duration::from_millis(200), -6.0);
        assert!(echo[..419].iter().all(|x| *x == 0.0) && echo[420] != 0.0);
        let db = 10.0 * (power(&echo) / power(&played)).log10();
        assert!((db + 6.0).abs() < 0.01, "{db}");
    }
}

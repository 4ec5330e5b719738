//! Who speaks in a room, and what its microphone hears.

use std::{path::Path, time::Duration};

use afferent_graph::OpenCx;
use afferent_messages::SampleRate;
use afferent_nodes_speech::Voice;
use anyhow::{Result, ensure};
use fastrand::Rng;

/// The rate of all sounds here.
pub(super) const RATE: SampleRate = SampleRate(16_000);

/// Samples before the agent's first words.
pub(super) const LEAD: usize = 2 * RATE.0 as usize;

/// Samples after which a changing room is another one.
const CHANGE: usize = 20 * RATE.0 as usize;

/// What the agent says; `#` is a number.
const ANSWERS: &[&str] = &[
    "It is # degrees outside, and it will rain in the evening.",
    "The next train to the city leaves at # past nine. Shall I tell you when to go?",
    "I have set a timer for # minutes.",
    "There are # new messages. The first one is from your sister.",
    "Your meeting begins in # minutes. It takes place on the second floor.",
    "The recipe needs # grams of flour, two eggs, and a little salt.",
    "I turned the light in the kitchen to # percent.",
    "The museum opens at ten, and a ticket costs # euros. Children pay half of that.",
    "Chapter # is called the long way home. Do you want to hear it now?",
    "The distance from the earth to the moon is about three hundred and # thousand kilometres.",
    "Sorry, I could not find that song. There are # others by the same band.",
    "You walked # hundred steps today, which is more than yesterday.",
];

/// How the loudspeaker reaches the microphone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) name: &'static str,
    /// The way of the sound, devices included.
    pub(super) delay: Duration,
    /// Whether the loudspeaker distorts.
    pub(super) distorts: bool,
    /// Whether the room is another one every 20 s.
    pub(super) changes: bool,
    /// Whether a block of the reference comes behind that of the microphone with the same time.
    pub(super) is_late: bool,
    /// Whether the agent speaks as soon as the microphone is on.
    pub(super) is_early: bool,
}

/// `seconds` of the agent's voice, with pauses between its answers.
pub(super) fn agent(model: &Path, cx: &OpenCx, seconds: usize) -> Result<Vec<f32>> {
    let mut voice = Voice::open(model, cx)?;
    let rate = voice.rate();
    ensure!(rate == RATE, "the voice has {} Hz, but the rooms have {} Hz", rate.0, RATE.0);
    let (mut rng, mut sound) = (Rng::with_seed(7), vec![0.0; LEAD]);
    for number in 0.. {
        let text = ANSWERS[number % ANSWERS.len()];
        let text = text.replace('#', &(2 + (number * 37) % 97).to_string());
        for clause in voice.clauses(&text) {
            let mut utterance = voice.begin(&clause, 1.0)?;
            while let Some(chunk) = voice.next_chunk(&mut utterance)? {
                sound.extend_from_slice(chunk);
            }
            sound.resize(sound.len() + RATE.samples(Voice::pause(clause.mark)), 0.0);
        }
        if sound.len() >= seconds * RATE.0 as usize {
            break;
        }
        sound.resize(sound.len() + rng.usize(..2 * RATE.0 as usize), 0.0);
    }
    sound.truncate(seconds * RATE.0 as usize);
    Ok(sound)
}

impl Room {
    /// What the microphone hears of `played`, `level_db` louder than it was; `decay` is the time in
    /// which the reverberation falls by 60 dB.
    pub(super) fn echo(&self, played: &[f32], decay: Duration, level_db: f32) -> Vec<f32> {
        let mut rng = Rng::with_seed(self.delay.as_millis() as u64);
        let distorted: Vec<f32> = match self.distorts {
            // A third of full scale comes out as 0.30, full scale as 0.67.
            true => played.iter().map(|x| (1.5 * x).tanh() / 1.5 + 0.05 * x * x).collect(),
            false => played.to_vec(),
        };
        let mut response = self.response(&mut rng, decay);
        let mut before = vec![0.0; response.len()];
        before.extend_from_slice(&distorted);
        let mut echo = Vec::with_capacity(played.len());
        for place in 0..played.len() {
            if self.changes && place > 0 && place % CHANGE == 0 {
                response = self.response(&mut rng, decay);
            }
            echo.push(dot(&before[place + 1..][..response.len()], &response));
        }
        let gain = 10.0_f32.powf(level_db / 20.0) * (power(played) / power(&echo)).sqrt();
        echo.iter_mut().for_each(|sample| *sample *= gain);
        echo
    }

    /// An impulse response, the latest sample first: the direct sound, some reflections, a tail.
    fn response(&self, rng: &mut Rng, decay: Duration) -> Vec<f32> {
        let (delay, tail) = (RATE.samples(self.delay), RATE.samples(decay));
        let mut response = vec![0.0; delay + tail.max(1)];
        for (at, sample) in response[delay..].iter_mut().enumerate() {
            let fall = (-6.9 * at as f32 / tail.max(1) as f32).exp();
            *sample = 0.06 * (rng.f32() + rng.f32() - 1.0) * fall;
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

/// Faint noise, as every microphone has it.
pub(super) fn noise(len: usize, dbfs: f32) -> Vec<f32> {
    let mut rng = Rng::with_seed(3);
    let peak = 3.0_f32.sqrt() * 10.0_f32.powf(dbfs / 20.0);
    (0..len).map(|_| peak * (2.0 * rng.f32() - 1.0)).collect()
}

/// `sound` with its mean power at `dbfs`.
pub(super) fn at_level(sound: &[f32], dbfs: f32) -> Vec<f32> {
    let gain = 10.0_f32.powf(dbfs / 20.0) / power(sound).sqrt();
    sound.iter().map(|sample| gain * sample).collect()
}

/// The mean square.
pub(super) fn power(sound: &[f32]) -> f32 {
    let sum: f64 = sound.iter().map(|x| f64::from(x * x)).sum();
    (sum / sound.len().max(1) as f64).max(1e-12) as f32
}

/// The sum of products, in lanes that the compiler can keep in vectors.
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
    fn an_echo_comes_after_its_delay_at_its_level() {
        let room = Room {
            name: "",
            delay: Duration::from_millis(20),
            distorts: false,
            changes: false,
            is_late: false,
            is_early: false,
        };
        let mut played = vec![0.0; 8000];
        played[100..4000].copy_from_slice(&noise(3900, -20.0));
        let echo = room.echo(&played, Duration::from_millis(200), -6.0);
        assert!(echo[..419].iter().all(|x| *x == 0.0) && echo[420] != 0.0);
        let db = 10.0 * (power(&echo) / power(&played)).log10();
        assert!((db + 6.0).abs() < 0.01, "{db}");
    }
}

//! The sounds of a user: read, resampled, brought to their level.
//!
//! Files are read and resampled by the nodes that graphs have for it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use afferent_graph::{
    AudioBlock, Node, NodeBench, NodeError, OpenCx, Packet, Resume, SampleRate, Timestamp,
};
use afferent_nodes_audio::{Quality, Resample, ResampleParams};
use afferent_nodes_io::{Channels, Pace, WavSource, WavSourceParams};

use crate::{
    espeak::Espeak,
    spec::{Shape, Speech},
};

/// Sounds that were made once; cases share them.
#[derive(Debug)]
pub(crate) struct Sounds {
    espeak: Espeak,
    files: HashMap<(PathBuf, u32), Arc<[f32]>>,
}

/// What is quieter than the loudest part by this factor is silence: 40 dB.
const SILENCE: f32 = 0.01;
/// Length of the parts whose levels are compared.
const PART: Duration = Duration::from_millis(10);

impl Sounds {
    /// Sounds of speech are kept in the folder `cache`.
    pub(crate) fn new(cache: PathBuf) -> Self {
        Self { espeak: Espeak::new(cache), files: HashMap::new() }
    }

    /// What espeak-ng says.
    ///
    /// # Errors
    /// What is wrong, and how to mend it.
    pub(crate) fn say(
        &mut self,
        speech: &Speech,
        shape: &Shape,
        rate: SampleRate,
    ) -> Result<Arc<[f32]>, String> {
        let path = self.espeak.say(speech)?;
        self.play(&path, shape, rate)
    }

    /// The sound of a file.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn play(
        &mut self,
        path: &Path,
        shape: &Shape,
        rate: SampleRate,
    ) -> Result<Arc<[f32]>, String> {
        let key = (path.to_owned(), rate.0);
        let samples = match self.files.get(&key) {
            Some(samples) => samples.clone(),
            None => {
                let samples: Arc<[f32]> =
                    read(path, rate).map_err(|error| error.to_string())?.into();
                self.files.insert(key, samples.clone());
                samples
            }
        };
        let end = shape.to.map_or(samples.len(), |to| rate.samples(to));
        let part = samples.get(rate.samples(shape.from)..end.min(samples.len()));
        let Some(part) = part.filter(|part| !part.is_empty()) else {
            let length = rate.duration(samples.len());
            return Err(format!("{} lasts {length:.3?}: there is no such part", path.display()));
        };
        Ok(shaped(part, shape, rate))
    }
}

/// The samples of a file, as one channel at `rate`.
fn read(path: &Path, rate: SampleRate) -> Result<Vec<f32>, NodeError> {
    let (pace, channels, block) = (Pace::Max, Channels::Mono, Duration::from_secs(1));
    let params = WavSourceParams { path: path.to_owned(), pace, block, channels, repeat: false };
    let mut source = NodeBench::new(WavSource::open(params, &OpenCx::default())?);
    let params = ResampleParams { rate: rate.0, quality: Quality::High };
    let mut resample = NodeBench::new(Resample::open(params, &OpenCx::default())?);
    let mut samples = Vec::new();
    let mut keep = |sent: Vec<(&str, Packet)>| -> Result<(), NodeError> {
        for (_, packet) in sent {
            if let Some(block) = packet.get::<AudioBlock>() {
                samples.extend_from_slice(block.channel(0)?);
            }
        }
        Ok(())
    };
    loop {
        let (sent, resume) = source.poll(Timestamp::ZERO)?;
        for (_, packet) in sent {
            if let Some(block) = packet.get::<AudioBlock>() {
                keep(resample.call(Resample::AUDIO, packet.header.at, block.clone())?)?;
            }
        }
        if resume == Resume::Done {
            break;
        }
    }
    keep(resample.finish(Timestamp::ZERO)?)?;
    Ok(samples)
}

/// The sound as `shape` says.
fn shaped(samples: &[f32], shape: &Shape, rate: SampleRate) -> Arc<[f32]> {
    let Shape { level_dbfs, snr_db, trim, .. } = *shape;
    let part = rate.samples(PART).max(1);
    let loud = |part: &[f32]| part.iter().fold(0.0_f32, |loud, sample| loud.max(sample.abs()));
    let limit = loud(samples) * SILENCE;
    let is_loud: Vec<bool> = samples.chunks(part).map(|part| loud(part) > limit).collect();
    let (Some(first), Some(last)) =
        (is_loud.iter().position(|loud| *loud), is_loud.iter().rposition(|loud| *loud))
    else {
        return samples.into();
    };
    // The level is that of the parts that are not silent.
    let heard = samples.chunks(part).zip(&is_loud).filter(|(_, loud)| **loud);
    let (power, count) = heard.fold((0.0, 0), |(power, count), (part, _)| {
        let own: f64 = part.iter().map(|sample| f64::from(sample * sample)).sum();
        (power + own, count + part.len())
    });
    let level = (power / count.max(1) as f64).sqrt();
    let gain = level_dbfs.map_or(1.0, |dbfs| amplitude(dbfs) / level);
    let span =
        if trim { first * part..((last + 1) * part).min(samples.len()) } else { 0..samples.len() };
    let mut noise = Noise::new(snr_db.map_or(0.0, |snr| level * gain * amplitude(-snr)), 1);
    samples[span].iter().map(|sample| sample * gain as f32 + noise.next()).collect()
}

/// The amplitude of a level; 0 dB is 1.
pub(crate) fn amplitude(db: f64) -> f64 {
    10.0_f64.powf(db / 20.0)
}

/// White noise that is the same every time.
#[derive(Debug)]
pub(crate) struct Noise {
    random: fastrand::Rng,
    peak: f32,
}

impl Noise {
    /// Noise of this level (root of the mean square).
    pub(crate) fn new(level: f64, seed: u64) -> Self {
        // Numbers of equal chance up to a peak have a mean square of a third of its square.
        Self { random: fastrand::Rng::with_seed(seed), peak: (level * 3.0_f64.sqrt()) as f32 }
    }

    /// The next sample.
    pub(crate) fn next(&mut self) -> f32 {
        if self.peak == 0.0 { 0.0 } else { (self.random.f32() * 2.0 - 1.0) * self.peak }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: SampleRate = SampleRate(16_000);

    fn level(samples: &[f32]) -> f64 {
        let power: f64 = samples.iter().map(|sample| f64::from(sample * sample)).sum();
        20.0 * (power / samples.len() as f64).sqrt().log10()
    }

    #[test]
    fn sounds_are_trimmed_and_brought_to_their_level() {
        let tone = (0..3200).map(|n| (n as f32 * 0.3).sin() * 0.01);
        let silence = || std::iter::repeat_n(0.0, 1600);
        let samples: Arc<[f32]> = silence().chain(tone).chain(silence()).collect();
        let shape = Shape { level_dbfs: Some(-20.0), trim: true, ..Shape::default() };
        let shaped = shaped(&samples, &shape, RATE);
        assert_eq!(shaped.len(), 3200);
        assert!((level(&shaped) + 20.0).abs() < 0.1, "{}", level(&shaped));
        let noisy =
            super::shaped(&samples, &Shape { snr_db: Some(10.0), trim: false, ..shape }, RATE);
        assert!((level(&noisy[..1600]) + 30.0).abs() < 0.5, "{}", level(&noisy[..1600]));
    }

    #[test]
    fn files_are_resampled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tone.wav");
        let (channels, sample_rate, bits_per_sample) = (2, 22_050, 16);
        let sample_format = hound::SampleFormat::Int;
        let spec = hound::WavSpec { channels, sample_rate, bits_per_sample, sample_format };
        let mut writer = hound::WavWriter::create(&path, spec).unwrap();
        (0..44_100).for_each(|n| writer.write_sample((n % 100 * 100) as i16).unwrap());
        writer.finalize().unwrap();
        let mut sounds = Sounds::new(folder.path().to_owned());
        let sound = sounds.play(&path, &Shape::default(), RATE).unwrap();
        assert_eq!(sound.len(), 16_000);
        let error =
            sounds.play(&folder.path().join("no.wav"), &Shape::default(), RATE).unwrap_err();
        assert!(error.contains("no.wav"), "{error}");
    }
}

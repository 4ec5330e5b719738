//! Sounds of the simulated user: read, resampled, and adjusted in level.
//!
//! The nodes `wav_source` and `resample` of the catalog read and resample files.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use afferent_graph::{
    Catalog, DynBench, NodeDef, NodeError, OpenCx, Packet, ParamValue, ParamValues, PortId, Resume,
    Timestamp,
};
use afferent_messages::{AudioBlock, SampleRate};

use crate::{
    espeak::Espeak,
    spec::{Shape, Speech},
};

/// Sounds shared by all cases.
#[derive(Debug)]
pub(crate) struct Sounds {
    nodes: SoundNodes,
    espeak: Espeak,
    files: HashMap<(PathBuf, u32), Arc<[f32]>>,
}

/// Catalog nodes that the simulated user needs: a sound file reader and a resampler.
#[derive(Debug, Clone)]
pub(crate) struct SoundNodes {
    wav_source: Option<NodeDef>,
    resample: Option<NodeDef>,
}

impl SoundNodes {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let [wav_source, resample] =
            ["wav_source", "resample"].map(|name| catalog.node(name).cloned());
        Self { wav_source, resample }
    }

    /// Opens the resampler. Audio enters and leaves by its first ports.
    pub(crate) fn resampler(&self, rate: u32, quality: &str) -> Result<DynBench, NodeError> {
        let params = [
            ("rate", ParamValue::Int(rate.into())),
            ("quality", ParamValue::Text(quality.to_owned())),
        ];
        open("resample", self.resample.as_ref(), params)
    }

    /// Reads a file, mixed down to one channel, at `rate`.
    fn read(&self, path: &Path, rate: SampleRate) -> Result<Vec<f32>, NodeError> {
        let params = [
            ("path", ParamValue::Path(path.to_owned())),
            ("pace", ParamValue::Text("max".to_owned())),
            ("block", ParamValue::Duration(Duration::from_secs(1))),
        ];
        let mut source = open("wav_source", self.wav_source.as_ref(), params)?;
        let mut resample = self.resampler(rate.0, "high")?;
        let mut samples = Vec::new();
        let mut append = |sent: Vec<(PortId, Packet)>| -> Result<(), NodeError> {
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
                append(resample.call(PortId::at(0), packet)?)?;
            }
            if resume == Resume::Done {
                break;
            }
        }
        append(resample.finish(Timestamp::ZERO)?)?;
        Ok(samples)
    }
}

fn open<const N: usize>(
    name: &str,
    def: Option<&NodeDef>,
    params: [(&str, ParamValue); N],
) -> Result<DynBench, NodeError> {
    let Some(def) = def else {
        let reason = "the program has no such node; add it to the catalog".to_owned();
        return Err(NodeError::Device { name: name.to_owned(), reason });
    };
    let params: ParamValues =
        params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    DynBench::open(def, &params, &OpenCx { name: name.to_owned(), ..OpenCx::default() })
}

/// Amplitude relative to the loudest part below which a part is silent: -40 dB.
const SILENCE: f32 = 0.01;
/// Duration of the parts whose levels are compared.
const PART: Duration = Duration::from_millis(10);

impl Sounds {
    /// Creates a store that caches synthesized speech in the folder `cache`.
    pub(crate) fn new(catalog: &Catalog, cache: PathBuf) -> Self {
        let nodes = SoundNodes::new(catalog);
        Self { nodes, espeak: Espeak::new(cache), files: HashMap::new() }
    }

    /// The sound file reader and the resampler.
    pub(crate) fn nodes(&self) -> &SoundNodes {
        &self.nodes
    }

    /// Synthesizes speech with espeak-ng.
    ///
    /// # Errors
    /// The reason, and how to fix it.
    pub(crate) fn say(
        &mut self,
        speech: &Speech,
        shape: &Shape,
        rate: SampleRate,
    ) -> Result<Arc<[f32]>, String> {
        let path = self.espeak.say(speech)?;
        self.play(&path, shape, rate)
    }

    /// Reads the sound of a file.
    ///
    /// # Errors
    /// The fault of the file.
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
                    self.nodes.read(path, rate).map_err(|error| error.to_string())?.into();
                self.files.insert(key, samples.clone());
                samples
            }
        };
        let end = shape.to.map_or(samples.len(), |to| rate.samples(to));
        let part = samples.get(rate.samples(shape.from)..end.min(samples.len()));
        let Some(part) = part.filter(|part| !part.is_empty()) else {
            let length = rate.duration(samples.len());
            return Err(format!(
                "{} lasts {length:.3?}, shorter than the requested excerpt",
                path.display()
            ));
        };
        Ok(shaped(part, shape, rate))
    }
}

/// Applies `shape` to the samples.
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
    // Only the parts that are not silent determine the level.
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

/// Amplitude of a level in decibels; 0 dB is 1.
pub(crate) fn amplitude(db: f64) -> f64 {
    10.0_f64.powf(db / 20.0)
}

/// Reproducible white noise.
#[derive(Debug)]
pub(crate) struct Noise {
    random: fastrand::Rng,
    peak: f32,
}

impl Noise {
    /// Creates noise with the RMS amplitude `level`.
    pub(crate) fn new(level: f64, seed: u64) -> Self {
        // The mean square of a uniform distribution is a third of its squared peak.
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
    fn a_program_without_the_nodes_says_which_are_missing() {
        let mut sounds = Sounds::new(&Catalog::default(), PathBuf::new());
        let error = sounds.play(Path::new("tone.wav"), &Shape::default(), RATE).unwrap_err();
        assert!(error.contains("wav_source") && error.contains("add it to the catalog"), "{error}");
    }
}

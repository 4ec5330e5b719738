//! Sampling: selects the next token from logits.

use crate::TextError;

/// Sampling parameters. They are applied in the order of the fields.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Penalty for repeated tokens, as in CTRL: divides their positive logits and multiplies their
    /// negative logits. Greater than 0; 1 disables it.
    pub repetition_penalty: f32,
    /// Number of most recent tokens that the penalty applies to.
    pub repetition_window: usize,
    /// Divisor of the logits. 0 or more; 0 selects greedy decoding and ignores all further fields.
    pub temperature: f32,
    /// Number of most probable tokens to keep; 0 keeps all.
    pub top_k: usize,
    /// Cumulative probability of the most probable tokens to keep (nucleus sampling). Above 0, at
    /// most 1; 1 keeps all.
    pub top_p: f32,
    /// Minimum probability relative to the most probable token. From 0 to 1; 0 keeps all.
    pub min_p: f32,
    /// Seed of the random numbers. Equal seeds and logits give equal tokens.
    pub seed: u64,
}

impl Default for Sampling {
    /// Greedy decoding.
    fn default() -> Self {
        Self {
            repetition_penalty: 1.0,
            repetition_window: 64,
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
        }
    }
}

impl Sampling {
    fn check(&self) -> Result<(), TextError> {
        let Self { repetition_penalty, temperature, top_p, min_p, .. } = *self;
        let finite = f32::is_finite;
        let settings = [
            ("temperature", temperature, "0 or more", finite(temperature) && temperature >= 0.0),
            ("top_p", top_p, "above 0 and at most 1", top_p > 0.0 && top_p <= 1.0),
            ("min_p", min_p, "from 0 to 1", (0.0..=1.0).contains(&min_p)),
            (
                "repetition_penalty",
                repetition_penalty,
                "above 0",
                finite(repetition_penalty) && repetition_penalty > 0.0,
            ),
        ];
        match settings.into_iter().find(|(.., is_valid)| !is_valid) {
            Some((name, value, range, _)) => Err(TextError::InvalidSetting { name, value, range }),
            None => Ok(()),
        }
    }
}

/// Sampling parameters that are set; the others are those of the model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SamplingOverrides {
    /// Value of [`Sampling::temperature`].
    pub temperature: Option<f32>,
    /// Value of [`Sampling::top_p`].
    pub top_p: Option<f32>,
    /// Value of [`Sampling::top_k`].
    pub top_k: Option<u32>,
    /// Value of [`Sampling::min_p`].
    pub min_p: Option<f32>,
    /// Value of [`Sampling::repetition_penalty`].
    pub repetition_penalty: Option<f32>,
    /// Value of [`Sampling::seed`].
    pub seed: u64,
}

impl SamplingOverrides {
    /// These parameters, and those of `defaults` that are not set.
    #[must_use]
    pub fn or(self, defaults: Sampling) -> Sampling {
        let top_k = self.top_k.map(|top_k| usize::try_from(top_k).unwrap_or(usize::MAX));
        Sampling {
            temperature: self.temperature.unwrap_or(defaults.temperature),
            top_p: self.top_p.unwrap_or(defaults.top_p),
            top_k: top_k.unwrap_or(defaults.top_k),
            min_p: self.min_p.unwrap_or(defaults.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(defaults.repetition_penalty),
            seed: self.seed,
            ..defaults
        }
    }
}

/// Samples tokens.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    /// State of the random number generator.
    state: u64,
    /// Buffer for logits after the repetition penalty.
    penalized: Vec<f32>,
    /// Remaining tokens with their logits, later with unnormalized probabilities.
    candidates: Vec<(f32, u32)>,
}

impl Sampler {
    /// Creates a sampler.
    ///
    /// # Errors
    /// [`TextError::InvalidSetting`].
    pub fn new(sampling: Sampling) -> Result<Self, TextError> {
        sampling.check()?;
        let (penalized, candidates) = (Vec::new(), Vec::new());
        Ok(Self { sampling, state: sampling.seed, penalized, candidates })
    }

    /// Samples the token that follows `context`. Ties prefer the lower token id.
    ///
    /// # Errors
    /// [`TextError::InvalidLogits`] if a logit is NaN or +∞, all are −∞, or there are none.
    pub fn sample(&mut self, logits: &[f32], context: &[u32]) -> Result<u32, TextError> {
        if self.sampling.repetition_penalty == 1.0 {
            return self.choose(logits);
        }
        let mut penalized = std::mem::take(&mut self.penalized);
        penalized.clear();
        penalized.extend_from_slice(logits);
        let recent = context.len().saturating_sub(self.sampling.repetition_window);
        let mut seen = context[recent..].to_vec();
        seen.sort_unstable();
        seen.dedup();
        let penalty = self.sampling.repetition_penalty;
        for token in seen {
            if let Some(logit) = penalized.get_mut(token as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
        let chosen = self.choose(&penalized);
        self.penalized = penalized;
        chosen
    }

    fn choose(&mut self, logits: &[f32]) -> Result<u32, TextError> {
        let (best, max_logit) = argmax(logits)?;
        let Sampling { temperature, top_k, top_p, min_p, .. } = self.sampling;
        if temperature == 0.0 || top_k == 1 {
            return Ok(best);
        }
        let candidates = &mut self.candidates;
        candidates.clear();
        candidates.extend(logits.iter().copied().zip(0..));
        if (1..candidates.len()).contains(&top_k) {
            candidates.select_nth_unstable_by(top_k - 1, by_probability);
            candidates.truncate(top_k);
        }
        let mut sum = 0.0;
        for (logit, _) in candidates.iter_mut() {
            *logit = libm::expf((*logit - max_logit) / temperature);
            sum += f64::from(*logit);
        }
        if top_p < 1.0 {
            keep_nucleus(candidates, sum * f64::from(top_p));
        } else {
            // Make the result independent of the order that the top-k selection leaves.
            candidates.sort_unstable_by_key(|&(_, token)| token);
        }
        // The most probable token has weight 1.
        candidates.retain(|&(weight, _)| weight >= min_p);
        let sum: f64 = candidates.iter().map(|&(weight, _)| f64::from(weight)).sum();
        let mut remaining = self.uniform() * sum;
        for &(weight, token) in &self.candidates {
            remaining -= f64::from(weight);
            if remaining < 0.0 {
                return Ok(token);
            }
        }
        Ok(best)
    }

    /// Random number in [0, 1), from [SplitMix64](https://prng.di.unimi.it/splitmix64.c).
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Order by descending probability, then by ascending token id.
fn by_probability(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// Keeps the most probable candidates with a total weight of at least `mass`, sorted.
fn keep_nucleus(candidates: &mut Vec<(f32, u32)>, mass: f64) {
    let mut sorted = 0;
    let mut sum = 0.0;
    // The nucleus is usually small, so sort in growing blocks instead of all candidates.
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        let part = rest.len().min(sorted * 3 + 256);
        if part < rest.len() {
            rest.select_nth_unstable_by(part, by_probability);
        }
        rest[..part].sort_unstable_by(by_probability);
        for (at, &(weight, _)) in rest[..part].iter().enumerate() {
            sum += f64::from(weight);
            if sum >= mass {
                candidates.truncate(sorted + at + 1);
                return;
            }
        }
        sorted += part;
    }
}

/// First token with the maximum logit, and that logit.
pub(crate) fn argmax(logits: &[f32]) -> Result<(u32, f32), TextError> {
    let invalid = |found| TextError::InvalidLogits { found };
    let (mut token, mut max) = (0, f32::NEG_INFINITY);
    let mut has_nan = false;
    for (&logit, index) in logits.iter().zip(0..) {
        has_nan |= logit.is_nan();
        if logit > max {
            (token, max) = (index, logit);
        }
    }
    match max {
        _ if has_nan => Err(invalid("NaN")),
        f32::INFINITY => Err(invalid("infinite")),
        f32::NEG_INFINITY if logits.is_empty() => Err(invalid("empty")),
        f32::NEG_INFINITY => Err(invalid("all minus infinity")),
        _ => Ok((token, max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative frequency of each token in 20,000 samples.
    fn frequencies(sampling: Sampling, logits: &[f32]) -> Vec<f64> {
        let mut sampler = Sampler::new(sampling).expect("valid");
        let mut counts = vec![0.0; logits.len()];
        for _ in 0..20_000 {
            counts[sampler.sample(logits, &[]).expect("a token") as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    #[test]
    fn sampled_frequencies_match_probabilities() {
        let logits = [1.0_f32, 0.0, 2.0, -1.0, 2.0];
        let check = |change: &dyn Fn(&mut Sampling), kept: &[usize]| {
            let mut sampling = Sampling { temperature: 0.5, seed: 3, ..Sampling::default() };
            change(&mut sampling);
            let weights = (0..5).map(|at| {
                let weight = (f64::from(logits[at]) / f64::from(sampling.temperature)).exp();
                if kept.contains(&at) { weight } else { 0.0 }
            });
            let weights: Vec<f64> = weights.collect();
            let sum: f64 = weights.iter().sum();
            for (found, weight) in frequencies(sampling, &logits).iter().zip(&weights) {
                assert!((found - weight / sum).abs() < 0.015, "{sampling:?}: {found} {weight}");
                assert_eq!(*found > 0.0, weight / sum > 0.0, "{sampling:?}");
            }
        };
        check(&|_| (), &[0, 1, 2, 3, 4]);
        check(&|sampling| sampling.temperature = 2.0, &[0, 1, 2, 3, 4]);
        check(&|sampling| sampling.top_k = 1, &[2]);
        check(&|sampling| sampling.top_k = 3, &[2, 4, 0]);
        check(&|sampling| sampling.top_k = 9, &[0, 1, 2, 3, 4]);
        // The two most probable tokens have a probability of 0.46 each.
        check(&|sampling| sampling.top_p = 0.4, &[2]);
        check(&|sampling| sampling.top_p = 0.9, &[2, 4]);
        check(&|sampling| sampling.top_p = 0.95, &[2, 4, 0]);
        check(&|sampling| sampling.min_p = 0.1, &[2, 4, 0]);
        check(&|sampling| (sampling.top_k, sampling.top_p) = (3, 0.4), &[2]);
    }

    #[test]
    fn nucleus_of_many_tokens_equals_that_of_a_full_sort() {
        let logits = (0..5000_u32).map(|at| f64::from(at * 37 % 5000) / 1000.0);
        let logits: Vec<f32> = logits.map(|logit| logit as f32).collect();
        let mut all: Vec<(f32, u32)> = logits.iter().map(|x| x.exp()).zip(0..).collect();
        let mut kept = all.clone();
        let mass = 0.9 * all.iter().map(|&(weight, _)| f64::from(weight)).sum::<f64>();
        keep_nucleus(&mut kept, mass);
        all.sort_unstable_by(by_probability);
        assert!(kept.len() > 1280 && kept[..] == all[..kept.len()]);
        let sum = |part: &[(f32, u32)]| part.iter().map(|&(weight, _)| f64::from(weight)).sum();
        let (with, without): (f64, f64) = (sum(&kept), sum(&kept[..kept.len() - 1]));
        assert!(with >= mass && without < mass);
    }

    #[test]
    fn equal_seeds_give_equal_tokens() {
        let logits: Vec<f32> = (0..100_u8).map(|at| f32::from(at % 7)).collect();
        let tokens = |seed| {
            let sampling = Sampling { temperature: 1.0, seed, ..Sampling::default() };
            let mut sampler = Sampler::new(sampling).expect("valid");
            (0..8).map(|_| sampler.sample(&logits, &[]).expect("a token")).collect::<Vec<_>>()
        };
        assert_eq!(tokens(1), tokens(1));
        assert_ne!(tokens(1), tokens(2));
    }

    #[test]
    fn repetition_penalty_applies_to_recent_tokens() {
        let check = |logits: &[f32], context: &[u32], window: usize, expected: u32| {
            let sampling = Sampling {
                repetition_penalty: 2.0,
                repetition_window: window,
                ..Sampling::default()
            };
            let mut sampler = Sampler::new(sampling).expect("valid");
            assert_eq!(sampler.sample(logits, context), Ok(expected), "{logits:?} {context:?}");
        };
        check(&[3.0, 2.0], &[], 64, 0);
        check(&[3.0, 2.0], &[0], 64, 1);
        check(&[3.0, 1.0], &[0, 0], 64, 0); // several occurrences count once
        check(&[-1.0, -1.5], &[0], 64, 1);
        check(&[3.0, 2.0], &[0, 1], 1, 0);
        check(&[3.0, 2.0], &[7], 64, 0);
    }

    #[test]
    fn invalid_logits_and_settings_are_errors() {
        let mut greedy = Sampler::new(Sampling::default()).expect("valid");
        let mut sample = |logits: &[f32]| greedy.sample(logits, &[]);
        assert_eq!(sample(&[1.0, 1.0, 0.0]), Ok(0));
        assert_eq!(sample(&[f32::NEG_INFINITY, -3.0]), Ok(1));
        let (nan, infinite) = (f32::NAN, f32::INFINITY);
        for (logits, expected) in [
            (&[0.0, nan][..], "NaN"),
            (&[nan, 1.0], "NaN"),
            (&[0.0, infinite], "infinite"),
            (&[-infinite, -infinite], "all minus infinity"),
            (&[], "empty"),
        ] {
            let error = TextError::InvalidLogits { found: expected };
            assert_eq!(sample(logits), Err(error), "{logits:?}");
        }
        let check = |name: &str, sampling: Sampling| {
            let error = Sampler::new(sampling).expect_err("out of range").to_string();
            assert!(error.starts_with(name), "{error}");
        };
        let default = Sampling::default();
        check("temperature", Sampling { temperature: -1.0, ..default });
        check("temperature", Sampling { temperature: f32::NAN, ..default });
        check("top_p", Sampling { top_p: 0.0, ..default });
        check("min_p", Sampling { min_p: 1.5, ..default });
        check("repetition_penalty", Sampling { repetition_penalty: 0.0, ..default });
    }
}

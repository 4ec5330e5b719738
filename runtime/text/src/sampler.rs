//! The next token from logits.

use crate::TextError;

/// How tokens are chosen. The steps follow the order of the fields.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Logits of tokens that were there before are divided by this if positive and multiplied by it
    /// if negative: 1 changes nothing. Greater than 0.
    pub repetition_penalty: f32,
    /// How many of the last tokens count as there before.
    pub repetition_window: usize,
    /// Logits are divided by this; 0 takes the likeliest token and ignores what follows.
    pub temperature: f32,
    /// Only so many of the likeliest tokens are kept; 0 keeps all.
    pub top_k: usize,
    /// Of these, the likeliest are kept until their probabilities make up this much. From above 0
    /// to 1, which keeps all.
    pub top_p: f32,
    /// Tokens less likely than this share of the likeliest are dropped. From 0, which drops none,
    /// to 1.
    pub min_p: f32,
    /// The same seed gives the same tokens for the same logits.
    pub seed: u64,
}

impl Default for Sampling {
    /// The likeliest token, always.
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
        match settings.into_iter().find(|(.., fine)| !fine) {
            Some((name, value, range, _)) => Err(TextError::Setting { name, value, range }),
            None => Ok(()),
        }
    }
}

/// Chooses tokens.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    state: u64,
    penalised: Vec<f32>,
    /// Logits that are left, later weights, with their tokens.
    candidates: Vec<(f32, u32)>,
}

impl Sampler {
    /// # Errors
    /// [`TextError::Setting`].
    pub fn new(sampling: Sampling) -> Result<Self, TextError> {
        sampling.check()?;
        let (penalised, candidates) = (Vec::new(), Vec::new());
        Ok(Self { sampling, state: sampling.seed, penalised, candidates })
    }

    /// A token, by `logits` and the tokens before it. Of equal ones the first counts as likelier.
    ///
    /// # Errors
    /// [`TextError::Logits`] for NaN, +∞, nothing but −∞, and no logits at all.
    pub fn sample(&mut self, logits: &[f32], before: &[u32]) -> Result<u32, TextError> {
        if self.sampling.repetition_penalty == 1.0 {
            return self.choose(logits);
        }
        let mut penalised = std::mem::take(&mut self.penalised);
        penalised.clear();
        penalised.extend_from_slice(logits);
        let recent = before.len().saturating_sub(self.sampling.repetition_window);
        let mut seen = before[recent..].to_vec();
        seen.sort_unstable();
        seen.dedup();
        let penalty = self.sampling.repetition_penalty;
        for token in seen {
            if let Some(logit) = penalised.get_mut(token as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
        let chosen = self.choose(&penalised);
        self.penalised = penalised;
        chosen
    }

    fn choose(&mut self, logits: &[f32]) -> Result<u32, TextError> {
        let (likeliest, greatest) = likeliest(logits)?;
        let Sampling { temperature, top_k, top_p, min_p, .. } = self.sampling;
        if temperature == 0.0 || top_k == 1 {
            return Ok(likeliest);
        }
        let candidates = &mut self.candidates;
        candidates.clear();
        candidates.extend(logits.iter().copied().zip(0..));
        if (1..candidates.len()).contains(&top_k) {
            candidates.select_nth_unstable_by(top_k - 1, likelier);
            candidates.truncate(top_k);
        }
        let mut sum = 0.0;
        for (logit, _) in candidates.iter_mut() {
            *logit = libm::expf((*logit - greatest) / temperature);
            sum += f64::from(*logit);
        }
        if top_p < 1.0 {
            keep_top(candidates, sum * f64::from(top_p));
        } else {
            // So that the order does not depend on how the likeliest were selected.
            candidates.sort_unstable_by_key(|&(_, token)| token);
        }
        // The weight of the likeliest is 1.
        candidates.retain(|&(weight, _)| weight >= min_p);
        let sum: f64 = candidates.iter().map(|&(weight, _)| f64::from(weight)).sum();
        let mut left = self.uniform() * sum;
        for &(weight, token) in &self.candidates {
            left -= f64::from(weight);
            if left < 0.0 {
                return Ok(token);
            }
        }
        Ok(likeliest)
    }

    /// A number from 0 to below 1, by [SplitMix64](https://prng.di.unimi.it/splitmix64.c).
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Orders the likelier first, of equal ones the one with the lower number.
fn likelier(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The likeliest candidates whose weights make up `share`, in order.
fn keep_top(candidates: &mut Vec<(f32, u32)>, share: f64) {
    let mut sorted = 0;
    let mut sum = 0.0;
    // Few are needed as a rule, so that few are sorted.
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        let part = rest.len().min(sorted * 3 + 256);
        if part < rest.len() {
            rest.select_nth_unstable_by(part, likelier);
        }
        rest[..part].sort_unstable_by(likelier);
        for (at, &(weight, _)) in rest[..part].iter().enumerate() {
            sum += f64::from(weight);
            if sum >= share {
                candidates.truncate(sorted + at + 1);
                return;
            }
        }
        sorted += part;
    }
}

/// The token with the greatest logit, the first of them, and that logit.
fn likeliest(logits: &[f32]) -> Result<(u32, f32), TextError> {
    let failed = |found| TextError::Logits { found };
    let (mut token, mut greatest) = (0, f32::NEG_INFINITY);
    let mut nan = false;
    for (&logit, at) in logits.iter().zip(0..) {
        nan |= logit.is_nan();
        if logit > greatest {
            (token, greatest) = (at, logit);
        }
    }
    match greatest {
        _ if nan => Err(failed("NaN")),
        f32::INFINITY => Err(failed("infinite")),
        f32::NEG_INFINITY if logits.is_empty() => Err(failed("absent")),
        f32::NEG_INFINITY => Err(failed("all minus infinity")),
        _ => Ok((token, greatest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each token comes in 20,000 choices.
    fn shares(sampling: Sampling, logits: &[f32]) -> Vec<f64> {
        let mut sampler = Sampler::new(sampling).expect("valid");
        let mut counts = vec![0.0; logits.len()];
        for _ in 0..20_000 {
            counts[sampler.sample(logits, &[]).expect("a token") as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    #[test]
    fn tokens_come_as_often_as_they_are_likely() {
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
            for (share, weight) in shares(sampling, &logits).iter().zip(&weights) {
                assert!((share - weight / sum).abs() < 0.015, "{sampling:?}: {share} {weight}");
                assert_eq!(*share > 0.0, weight / sum > 0.0, "{sampling:?}");
            }
        };
        check(&|_| (), &[0, 1, 2, 3, 4]);
        check(&|sampling| sampling.temperature = 2.0, &[0, 1, 2, 3, 4]);
        check(&|sampling| sampling.top_k = 1, &[2]);
        check(&|sampling| sampling.top_k = 3, &[2, 4, 0]);
        check(&|sampling| sampling.top_k = 9, &[0, 1, 2, 3, 4]);
        // The two likeliest have 0.46 each.
        check(&|sampling| sampling.top_p = 0.4, &[2]);
        check(&|sampling| sampling.top_p = 0.9, &[2, 4]);
        check(&|sampling| sampling.top_p = 0.95, &[2, 4, 0]);
        check(&|sampling| sampling.min_p = 0.1, &[2, 4, 0]);
        check(&|sampling| (sampling.top_k, sampling.top_p) = (3, 0.4), &[2]);
    }

    #[test]
    fn a_long_tail_is_cut_where_a_short_one_is() {
        let logits = (0..5000_u32).map(|at| f64::from(at * 37 % 5000) / 1000.0);
        let logits: Vec<f32> = logits.map(|logit| logit as f32).collect();
        let mut all: Vec<(f32, u32)> = logits.iter().map(|x| x.exp()).zip(0..).collect();
        let mut kept = all.clone();
        let share = 0.9 * all.iter().map(|&(weight, _)| f64::from(weight)).sum::<f64>();
        keep_top(&mut kept, share);
        all.sort_unstable_by(likelier);
        assert!(kept.len() > 1280 && kept[..] == all[..kept.len()]);
        let sum = |part: &[(f32, u32)]| part.iter().map(|&(weight, _)| f64::from(weight)).sum();
        let (with, without): (f64, f64) = (sum(&kept), sum(&kept[..kept.len() - 1]));
        assert!(with >= share && without < share);
    }

    #[test]
    fn a_seed_gives_the_same_tokens() {
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
    fn repeated_tokens_become_less_likely() {
        let check = |logits: &[f32], before: &[u32], window: usize, expected: u32| {
            let sampling = Sampling {
                repetition_penalty: 2.0,
                repetition_window: window,
                ..Sampling::default()
            };
            let mut sampler = Sampler::new(sampling).expect("valid");
            assert_eq!(sampler.sample(logits, before), Ok(expected), "{logits:?} {before:?}");
        };
        check(&[3.0, 2.0], &[], 64, 0);
        check(&[3.0, 2.0], &[0], 64, 1);
        check(&[3.0, 1.0], &[0, 0], 64, 0); // once, however often it was there
        check(&[-1.0, -1.5], &[0], 64, 1);
        check(&[3.0, 2.0], &[0, 1], 1, 0);
        check(&[3.0, 2.0], &[7], 64, 0);
    }

    #[test]
    fn bad_logits_and_settings_are_errors() {
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
            (&[], "absent"),
        ] {
            assert_eq!(sample(logits), Err(TextError::Logits { found: expected }), "{logits:?}");
        }
        let check = |name: &str, sampling: Sampling| {
            let error = Sampler::new(sampling).expect_err("out of range").to_string();
            assert!(error.starts_with(name), "{error}");
        };
        let usual = Sampling::default();
        check("temperature", Sampling { temperature: -1.0, ..usual });
        check("temperature", Sampling { temperature: f32::NAN, ..usual });
        check("top_p", Sampling { top_p: 0.0, ..usual });
        check("min_p", Sampling { min_p: 1.5, ..usual });
        check("repetition_penalty", Sampling { repetition_penalty: 0.0, ..usual });
    }
}

//! Draft of the next tokens by a small language model, for speculative decoding.

use std::sync::atomic::AtomicBool;

use crate::{Generator, TextError, sampler::argmax};

/// Most tokens of a draft at first; it adapts to the number that the large model accepts.
const FIRST_COUNT: usize = 4;

/// Small language model that drafts tokens for a large one with the same tokens.
pub(crate) struct Draft {
    generator: Box<Generator>,
    max_count: usize,
    /// Number of tokens of the next draft.
    count: usize,
}

impl Draft {
    pub(crate) fn new(generator: Generator, max_count: usize) -> Self {
        let max_count = max_count.max(1);
        let count = FIRST_COUNT.min(max_count);
        Self { generator: Box::new(generator), max_count, count }
    }

    /// Most probable tokens after `context`, at most `most`; fewer at an EOS token.
    pub(crate) fn propose(
        &mut self,
        context: &[u32],
        most: usize,
        canceled: Option<&AtomicBool>,
    ) -> Result<Vec<u32>, TextError> {
        let generator = &mut *self.generator;
        let limit = generator.contract().max_context_len;
        // A draft model with a shorter context drafts nothing beyond it.
        let most = most.min(self.count).min(limit.saturating_sub(context.len()));
        if most == 0 {
            return Ok(Vec::new());
        }
        let known = generator.tokens().iter().zip(context).take_while(|(a, b)| a == b).count();
        generator.rewind(known)?;
        generator.push(&context[known..])?;
        let mut drafted = Vec::with_capacity(most);
        while drafted.len() < most {
            let (token, _) = argmax(generator.logits(canceled)?)?;
            drafted.push(token);
            if generator.contract().eos.contains(&token) {
                break;
            }
            if drafted.len() < most {
                generator.push(&[token])?;
            }
        }
        Ok(drafted)
    }

    /// Learns that `accepted` of `drafted` tokens were right.
    pub(crate) fn adapt(&mut self, accepted: usize, drafted: usize) {
        let next = if accepted == drafted { self.count + 1 } else { accepted + 1 };
        self.count = next.min(self.max_count);
    }

    /// Drops the context.
    pub(crate) fn reset(&mut self) {
        self.generator.reset();
    }
}

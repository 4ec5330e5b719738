//! Kinds of model state, and the rewinds that each of them allows.

use afferent_runtime::program::{Instruction, MethodPlan};

/// Kind of the state that a model keeps between runs.
///
/// | kind | programs | rewind |
/// |---|---|---|
/// | positional | most: the entries of a KV cache are addressed by position | always exact |
/// | recurrent | Mamba, gated delta nets (Qwen3.5), convolutions (LFM2) | reads the context again |
/// | ring | sliding window: Gemma, Mistral, Voxtral | exact while the ring holds the window |
///
/// A program with several kinds has the most limited one: recurrent before ring before positional.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Entries addressed by position: later runs overwrite those of removed tokens.
    Positional,
    /// State that each token changes for good.
    Recurrent,
    /// Entries of the last tokens.
    Ring {
        /// Number of tokens that attention sees, at least 1.
        window: usize,
        /// Number of entries, at least `window`.
        slots: usize,
    },
}

impl Cache {
    /// Name of the kind, as in `model.yaml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Positional => "positional",
            Self::Recurrent => "recurrent",
            Self::Ring { .. } => "ring",
        }
    }

    /// True if a state that has read `written` tokens can go on after the first `kept` of them.
    pub(crate) fn can_resume(self, kept: usize, written: usize) -> bool {
        match self {
            Self::Positional => true,
            Self::Recurrent => kept == written,
            // The next token sees `kept + 1 - window` and later positions. The ring has lost those
            // before `written - slots`.
            Self::Ring { window, slots } => {
                written <= slots || kept.saturating_add(1 + slots) >= written.saturating_add(window)
            }
        }
    }

    /// Kind of a method that says so: by an operator of recurrent models, by a position input that
    /// nothing reads, or by `sliding_window`, the metadata of that name.
    pub(crate) fn of_method(
        plan: &MethodPlan<'_>,
        position: Option<u32>,
        sliding_window: Option<usize>,
        context: usize,
    ) -> Self {
        let is_recurrent = |name: String| name.contains("delta_rule");
        let reads = |id: u32| {
            plan.instructions().any(|instruction| match instruction {
                Instruction::Kernel { args, .. } | Instruction::Delegate { args, .. } => {
                    args.iter().any(|arg| arg == id)
                }
                Instruction::Move { from, .. } => from == id,
                Instruction::JumpFalse { condition, .. } => condition == id,
                Instruction::Free { .. } => false,
            })
        };
        if plan.operators().any(|operator| is_recurrent(operator.to_string()))
            || position.is_some_and(|id| !reads(id))
        {
            return Self::Recurrent;
        }
        match sliding_window.filter(|&window| window > 0 && window < context) {
            Some(window) => Self::Ring { window, slots: window },
            None => Self::Positional,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_resumes_where_nothing_is_lost() {
        let check = |cache: Cache, kept: usize, written: usize, expected: bool| {
            assert_eq!(cache.can_resume(kept, written), expected, "{cache:?} {kept} {written}");
        };
        check(Cache::Positional, 0, 9, true);
        check(Cache::Recurrent, 9, 9, true);
        check(Cache::Recurrent, 8, 9, false);
        let ring = |slots| Cache::Ring { window: 4, slots };
        check(ring(4), 0, 4, true); // nothing is overwritten
        check(ring(4), 3, 5, false); // needs 0, which 4 has overwritten
        check(ring(4), 4, 5, true); // needs 1, 2 and 3
        check(ring(4), 9, 9, true);
        check(ring(8), 10, 15, true); // needs 7 to 9, holds 7 to 14
        check(ring(8), 9, 15, false);
    }
}

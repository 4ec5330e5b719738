//! How much memory the values of files may take that are read together.

use std::mem;

use crate::{
    Diagnostic, Location,
    yaml::{Key, Node, Value},
};

/// Most bytes.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// What is left of it.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: usize,
    /// Whether it was not enough, which has been told.
    is_spent: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left: MAX_BYTES, is_spent: false }
    }
}

impl Allowance {
    /// Takes `bytes` for what stands at `place`; `None` when there are not as many left, which is
    /// told once.
    pub(crate) fn take(
        &mut self,
        bytes: usize,
        location: &Location,
        faults: &mut Vec<Diagnostic>,
    ) -> Option<()> {
        match self.left.checked_sub(bytes) {
            Some(left) if !self.is_spent => self.left = left,
            _ => {
                if !mem::replace(&mut self.is_spent, true) {
                    let message = format!("the files hold more than {MAX_BYTES} bytes of values");
                    let help = "an alias, a \"${...}\" and a graph that is several nodes count \
                                each time that they stand somewhere";
                    faults.push(Diagnostic::error(Some(location), message).help(help.to_owned()));
                }
                return None;
            }
        }
        Some(())
    }
}

impl Node {
    /// How many bytes of memory it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let inner = match &self.value {
            Value::Scalar { text, .. } => text.len(),
            Value::Seq(items) => items.iter().map(Self::bytes).sum(),
            Value::Map(map) => {
                let entry =
                    |(key, value): &(Key, Self)| size_of::<Key>() + key.text.len() + value.bytes();
                map.iter().map(entry).sum()
            }
            Value::Faulty => 0,
        };
        size_of::<Self>() + inner
    }
}

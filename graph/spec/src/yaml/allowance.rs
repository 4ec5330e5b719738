//! Memory limit for the values of files that are read together.

use std::mem;

use crate::{
    Diagnostic, Location,
    yaml::{Key, Node, Value},
};

/// Most bytes.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// Remaining memory.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: usize,
    /// True if the limit was exceeded, which was reported.
    is_spent: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left: MAX_BYTES, is_spent: false }
    }
}

impl Allowance {
    /// Reserves `bytes` for a value at `location`; `None` if they exceed the limit, which is
    /// reported once.
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
    /// Approximate size in bytes.
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

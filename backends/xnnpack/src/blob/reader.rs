//! State of parsing.

use std::collections::HashMap;

use super::constants::{ConstantUse, Constants};
use crate::subgraph::Value;

/// State while a blob is parsed.
pub(super) struct Reader<'a, 'c> {
    pub(super) constants: Constants<'a, 'c>,
    /// Index of the value with each id.
    pub(super) ids: HashMap<u32, usize>,
    pub(super) constant_use: ConstantUse,
    pub(super) values: Vec<Value<'a>>,
}

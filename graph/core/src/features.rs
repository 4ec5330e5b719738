//! Rows of numbers that describe a signal, such as log-mel energies.

use std::time::Duration;

use afferent_core::{ScalarType, Tensor};

use crate::{Field, Payload};

/// Consecutive feature rows: a tensor `[rows, bins]` of `f32`.
///
/// The time of the packet is that of the first sample that the first row sees.
#[derive(Debug, Clone)]
pub struct Features {
    /// The rows.
    pub values: Tensor,
    /// Time from one row to the next.
    pub hop: Duration,
    /// Time that one row sees.
    pub window: Duration,
}

impl Default for Features {
    fn default() -> Self {
        let values = Tensor::zeros(ScalarType::Float, &[0, 0]);
        Self { values, hop: Duration::ZERO, window: Duration::ZERO }
    }
}

impl Payload for Features {
    const TYPE: &'static str = "signal/Features";

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let size = |dim| self.values.sizes().get(dim).copied().unwrap_or(0);
        let int = |n: usize| Field::Int(i64::try_from(n).unwrap_or(i64::MAX));
        vec![("rows", int(size(0))), ("bins", int(size(1)))]
    }
}

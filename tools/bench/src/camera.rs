//! Images of a camera that benchmarks simulate.

use std::time::Duration;

/// Size of a 1920 × 1080 RGB image.
pub(crate) const IMAGE_BYTES: usize = 1920 * 1080 * 3;

/// 60 images per second.
pub(crate) const IMAGE_PERIOD: Duration = Duration::from_nanos(16_666_667);

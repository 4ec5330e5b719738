//! Text in images: the models that find and read lines, and their order.

mod craft;
mod detector;
mod order;
mod recognizer;
mod regions;

pub(crate) use detector::{DetectorSettings, TextDetector};
pub(crate) use order::sort_for_reading;
pub(crate) use recognizer::TextRecognizer;

//! Hands: regions around them, and the two models that find palms and landmarks.

mod landmarks;
mod one_euro;
mod palms;
mod region;

pub(crate) use landmarks::LandmarkModel;
pub(crate) use one_euro::OneEuro;
pub(crate) use palms::PalmModel;
pub(crate) use region::Region;

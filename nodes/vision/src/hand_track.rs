//! Hands and their landmarks, followed from image to image.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{
    Image,
    vision::{Hand, Hands},
};

use crate::{
    hand::{LandmarkModel, OneEuro, PalmModel, Region},
    vision_model::ModelVariant,
};

params! {
    /// Settings of [`HandTrack`].
    pub struct HandTrackParams {
        /// Path of the package or program of the palm detector.
        pub detector: PathBuf;
        /// Path of the package or program of the landmarks.
        pub landmarks: PathBuf;
        /// Backend of the variants of both packages, such as `VulkanBackend`. Empty: the first that is
        /// available, or the fastest if `afferent model bench` has measured it.
        pub backend: String = "";
        /// Largest number of hands.
        pub hands: usize = "2", range 1.0..=16.0;
        /// Score from which on a palm may begin a hand.
        pub score: f32 = "0.5", range 0.0..=1.0;
        /// Presence below which a hand is lost.
        pub presence: f32 = "0.5", range 0.0..=1.0;
        /// Time between two searches for more hands, while fewer than `hands` are followed. An image
        /// without any hand, or in which one is lost, is always searched.
        pub redetect: Duration = "1s", range 0.0..=3600.0;
        /// Side of the region in the next image, relative to the extent of the palm and of the first
        /// joints of the fingers.
        pub margin: f64 = "2.0", range 1.0..=4.0;
        /// Cutoff frequency of the filter for landmarks that do not move; 0 for no filter.
        pub min_cutoff: f64 = "1", range 0.0..=1000.0, unit "Hz";
        /// Increase of the cutoff frequency in hertz, for a speed of 1 % of the hand in a second.
        pub beta: f64 = "0.05", range 0.0..=1000.0;
    }
}

/// Finds hands and their 21 landmarks with two models, and follows them from image to image.
///
/// A palm detector (see `hand_detect`) finds new hands. The landmarks of an image say where the hand
/// is in the next one, so the detector runs only while hands are missing. A hand is lost when its
/// presence falls below `presence`. Hands keep their order while they are followed.
///
/// Contract of the landmark model: that of MediaPipe, `forward(image) -> f32[1, 63], f32[1, 1],
/// f32[1, 1], f32[1, 63]`: landmarks in pixels of the input with their depth, presence, handedness,
/// and landmarks in meters. The input shows a turned square around the hand, with values from 0 to 1
/// unless `model.yaml` says otherwise. `contract: hand_landmarks` in `model.yaml` says that depths
/// have the scale of x and y, and handedness is the probability of the second of the `labels`, `left`
/// and `right`, in images that are not mirrored. With `mediapipe_hand`, and for a program without
/// `model.yaml`, depths have the scale of MediaPipe, and images are assumed to be mirrored for the
/// handedness.
///
/// Landmarks are smoothed by a One Euro filter; the regions are not. The packages have the tasks
/// `palm_detection` and `hand_landmarks`.
///
/// The inputs of an image on the GPU ([`GpuImage`](crate::GpuImage)) are prepared there, also those of
/// turned hands.
///
/// Latency: a run of the landmark model for each hand, and of the detector where it runs.
pub struct HandTrack {
    params: HandTrackParams,
    palms: PalmModel,
    landmarks: LandmarkModel,
    tracks: Vec<Track>,
    /// Time of the next search while at least one hand is followed.
    search: Option<Timestamp>,
}

/// A hand that is followed.
struct Track {
    /// Region in pixels of the source image.
    region: Region,
    pixels: OneEuro,
    meters: OneEuro,
}

/// Overlap of two boxes of the same palm.
const PALM_OVERLAP: f32 = 0.3;

ports! {
    impl HandTrack {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Hands of each image.
        out HANDS: Hands, in_step;
    }
}

/// Largest distance of two landmarks along an axis.
fn extent(points: &[[f32; 3]; 21]) -> f64 {
    let along = |axis: usize| {
        let all = points.iter().map(|point| point[axis]);
        let ends = all.fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        f64::from(ends.1 - ends.0)
    };
    along(0).max(along(1))
}

impl HandTrack {
    /// Follows the hand of `track`; `None` if it is lost, or another hand is the same.
    fn follow(
        &mut self,
        image: &Image,
        (mut track, at): (Track, Timestamp),
        others: &[(Track, Hand)],
    ) -> Result<Option<(Track, Hand)>, NodeError> {
        let Some(mut hand) = self.landmarks.run(image, &track.region)? else { return Ok(None) };
        let points = hand.landmarks.map(|[x, y, _]| [f64::from(x), f64::from(y)]);
        track.region = Region::around_landmarks(&points, self.params.margin);
        let is_known = others.iter().any(|(other, _)| other.region.is_same(&track.region));
        if hand.score < self.params.presence || !track.region.is_valid() || is_known {
            return Ok(None);
        }
        let size = extent(&hand.landmarks);
        track.pixels.filter(at, size, hand.landmarks.as_flattened_mut());
        let size = extent(&hand.world_m);
        track.meters.filter(at, size, hand.world_m.as_flattened_mut());
        Ok(Some((track, hand)))
    }

    fn find(&mut self, image: &Image, at: Timestamp) -> Result<Vec<Hand>, NodeError> {
        let mut found: Vec<(Track, Hand)> = Vec::new();
        let tracks = std::mem::take(&mut self.tracks);
        let followed = tracks.len();
        for track in tracks {
            found.extend(self.follow(image, (track, at), &found)?);
        }
        let is_lost = found.len() < followed;
        let is_due = found.is_empty() || is_lost || self.search.is_none_or(|search| at >= search);
        if found.len() < self.params.hands && is_due {
            self.search = Some(Timestamp(at.0.saturating_add_unsigned(
                u64::try_from(self.params.redetect.as_nanos()).unwrap_or(u64::MAX),
            )));
            for palm in self.palms.find(image, self.params.score, PALM_OVERLAP)? {
                let region = Region::around_palm(&palm.region);
                let is_known = found.iter().any(|(track, _)| track.region.is_same(&region));
                if found.len() < self.params.hands && !is_known {
                    let filter = OneEuro::new(self.params.min_cutoff, self.params.beta);
                    let track = Track { region, pixels: filter.clone(), meters: filter };
                    found.extend(self.follow(image, (track, at), &found)?);
                }
            }
        }
        let (tracks, hands) = found.into_iter().unzip();
        self.tracks = tracks;
        Ok(hands)
    }
}

impl Node for HandTrack {
    type Params = HandTrackParams;

    const NAME: &'static str = "hand_track";
    const SUMMARY: &'static str = "Finds and follows hands and their landmarks with two models.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a run of the landmark model for each hand, and of the detector";

    fn open(params: HandTrackParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let backend = params.backend.as_str();
        let palms = PalmModel::open(ModelVariant { path: &params.detector, backend }, cx)?;
        let landmarks = LandmarkModel::open(ModelVariant { path: &params.landmarks, backend }, cx)?;
        Ok(Self { params, palms, landmarks, tracks: Vec::new(), search: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let packet = cx.packet().cloned();
        let Some(image) = packet.as_ref().and_then(|packet| packet.get::<Image>()) else {
            return Ok(());
        };
        if cx.restarted() {
            (self.tracks, self.search) = (Vec::new(), None);
        }
        let at = cx.at();
        let hands = cx.time_model(|| self.find(image, at))?;
        cx.send(Self::HANDS, Hands { frame_id: image.frame_id.clone(), hands });
        Ok(())
    }
}

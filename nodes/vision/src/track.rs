//! Objects that are followed from image to image.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::vision::{Detection, Detections};

use crate::{assignment::assign, boxes::Edges};

mod filter;

use filter::Filter;

params! {
    /// Settings of [`Track`].
    pub struct TrackParams {
        /// Score from which on a detection is matched first, and may begin a track.
        pub high: f32 = "0.5", range 0.0..=1.0;
        /// Score from which on a detection may continue a track.
        pub low: f32 = "0.1", range 0.0..=1.0;
        /// Least overlap (intersection over union) of a detection and the expected box of a track.
        pub iou: f32 = "0.3", range 0.01..=1.0;
        /// Time after which a track that was not seen ends.
        pub max_lost: Duration = "1s", range 0.0..=3600.0;
    }
}

/// Gives detected objects numbers that last from image to image (ByteTrack).
///
/// Each track expects its box by a Kalman filter. Detections with high scores are matched with the
/// tracks first, at the largest overlap in sum; detections with low scores, such as of objects that
/// are partly hidden, then continue tracks that are left. Only detections of the same class match. A
/// detection that matches no track begins one, and gets its number when it is seen in the next image
/// too; the detections of the first image get theirs at once. Numbers count from 1 and are not used
/// again.
///
/// Detections without a track are dropped if their score is below `high`.
///
/// For the low scores, set `score` of the detector to `low` or less.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::vision::{Box2d, Detection, Detections};
/// use afferent_nodes_vision::{Track, TrackParams};
///
/// let params = TrackParams::from_values(&Default::default()).unwrap();
/// let mut bench = NodeBench::new(Track::open(params, &OpenCx::default())?);
/// let bounds = Box2d::from_corners([10.0, 10.0], [50.0, 90.0]);
/// let person = Detection { label: "person".into(), score: 0.9, bounds, track: None };
/// let found = Detections { frame_id: "camera".to_owned(), detections: vec![person] };
/// let sent = bench.call(Track::DETECTIONS, Timestamp::ZERO, found)?;
/// assert_eq!(sent[0].1.get::<Detections>().unwrap().detections[0].track, Some(1));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Track {
    params: TrackParams,
    tracks: Vec<Object>,
    /// Number of the next track.
    next: u64,
    last: Option<Timestamp>,
}

/// An object that is followed.
#[derive(Debug)]
struct Object {
    label: Arc<str>,
    filter: Filter,
    seen: Timestamp,
    /// Number; `None` until it was seen twice.
    number: Option<u64>,
    is_lost: bool,
}

/// Least overlap with a detection of a low score, which is less exact.
const LOW_IOU: f32 = 0.5;

/// A detection begins a track if its score is above `high` by this much.
const BEGIN_MARGIN: f32 = 0.1;

ports! {
    impl Track {
        /// Detected objects, the same in every image as the detector finds them.
        in DETECTIONS: Detections;
        /// The objects with the numbers of their tracks, in the order of the input.
        out TRACKED: Detections, in_step;
    }
}

impl Track {
    /// Matches the detections `free` with the tracks that `takes`, and updates both.
    fn match_with(
        &mut self,
        found: &mut [Detection],
        free: &mut BTreeSet<usize>,
        (now, least): (Timestamp, f32),
        takes: impl Fn(&Object) -> bool,
    ) {
        let tracks: Vec<usize> =
            (0..self.tracks.len()).filter(|track| takes(&self.tracks[*track])).collect();
        let detections: Vec<usize> = free.iter().copied().collect();
        let cost = |track: &usize, detection: &usize| {
            let (track, detection) = (&self.tracks[*track], &found[*detection]);
            match track.label == detection.label {
                true => 1.0 - track.filter.edges().overlap(Edges::around(&detection.bounds)),
                false => 1.0,
            }
        };
        let costs: Vec<Vec<f32>> = tracks
            .iter()
            .map(|track| detections.iter().map(|detection| cost(track, detection)).collect())
            .collect();
        // The limit itself is a match, too.
        for (row, column) in assign(&costs, 1.0 - least + f32::EPSILON) {
            let (track, detection) = (&mut self.tracks[tracks[row]], detections[column]);
            free.remove(&detection);
            let number = *track.number.get_or_insert_with(|| {
                let number = self.next;
                self.next += 1;
                number
            });
            track.filter.update(&found[detection].bounds);
            (track.seen, track.is_lost) = (now, false);
            found[detection].track = Some(number);
        }
    }

    /// Follows the objects of one image.
    fn follow(&mut self, now: Timestamp, found: &mut Vec<Detection>) {
        let TrackParams { high, low, iou, max_lost } = self.params;
        let seconds = self.last.map_or(0.0, |last| now.since(last).as_secs_f32());
        let is_first = self.last.replace(now).is_none();
        for track in &mut self.tracks {
            track.filter.predict(seconds, track.is_lost);
        }
        found.iter_mut().for_each(|detection| detection.track = None);
        let with = |scores: &dyn Fn(f32) -> bool, found: &[Detection]| -> BTreeSet<usize> {
            (0..found.len()).filter(|index| scores(found[*index].score)).collect()
        };
        let mut strong = with(&|score| score >= high, found);
        let mut weak = with(&|score| score >= low && score < high, found);
        self.match_with(found, &mut strong, (now, iou), |track| track.number.is_some());
        let least = iou.max(LOW_IOU);
        let is_left = |track: &Object| track.number.is_some() && track.seen < now && !track.is_lost;
        self.match_with(found, &mut weak, (now, least), is_left);
        self.match_with(found, &mut strong, (now, iou), |track| track.number.is_none());
        // A new track that was not seen again was a mistake.
        self.tracks.retain(|track| {
            track.seen == now || (track.number.is_some() && now.since(track.seen) <= max_lost)
        });
        for track in &mut self.tracks {
            track.is_lost = track.seen != now;
        }
        for index in strong {
            if found[index].score < (high + BEGIN_MARGIN).min(1.0) {
                continue;
            }
            let number = is_first.then_some(self.next);
            self.next += u64::from(is_first);
            found[index].track = number;
            let label = found[index].label.clone();
            let filter = Filter::new(&found[index].bounds);
            self.tracks.push(Object { label, filter, seen: now, number, is_lost: false });
        }
        found.retain(|detection| detection.track.is_some() || detection.score >= high);
    }
}

impl Node for Track {
    type Params = TrackParams;

    const NAME: &'static str = "track";
    const SUMMARY: &'static str = "Gives detected objects numbers that last from image to image.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: TrackParams, _: &OpenCx) -> Result<Self, NodeError> {
        if params.low > params.high {
            let reason = format!("{} is above `high`, which is {}", params.low, params.high);
            return Err(NodeError::InvalidParam { name: "low".into(), reason });
        }
        Ok(Self { params, tracks: Vec::new(), next: 1, last: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = cx.at();
        let Some(mut found) = cx.take(Self::DETECTIONS) else { return Ok(()) };
        if cx.restarted() {
            (self.tracks, self.last) = (Vec::new(), None);
        }
        self.follow(now, &mut found.detections);
        cx.send(Self::TRACKED, found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, Params};
    use afferent_messages::vision::Box2d;

    use super::*;

    fn detection(label: &str, x: f32, score: f32) -> Detection {
        let bounds = Box2d::from_corners([x, 20.0], [x + 40.0, 100.0]);
        Detection { label: label.into(), score, bounds, track: None }
    }

    struct Run {
        bench: NodeBench<Track>,
        image: i64,
    }

    impl Run {
        fn new() -> Self {
            let params = TrackParams::from_values(&Default::default()).unwrap();
            let bench = NodeBench::new(Track::open(params, &OpenCx::default()).unwrap());
            Self { bench, image: 0 }
        }

        /// Numbers of the tracks in the next image, in the order of the output.
        fn image(&mut self, detections: Vec<Detection>) -> Vec<Option<u64>> {
            let at = Timestamp(self.image * 33_333_333);
            self.image += 1;
            let found = Detections { frame_id: String::new(), detections };
            let sent = self.bench.call(Track::DETECTIONS, at, found).unwrap();
            let found = sent[0].1.get::<Detections>().unwrap();
            found.detections.iter().map(|found| found.track).collect()
        }
    }

    #[test]
    fn two_objects_that_cross_keep_their_numbers() {
        let mut run = Run::new();
        for image in 0..40_u8 {
            let x = f32::from(image) * 6.0;
            let (one, other) = (detection("person", x, 0.9), detection("dog", 240.0 - x, 0.8));
            // The detector changes their order.
            let found = if image % 2 == 0 { vec![one, other] } else { vec![other, one] };
            let expected = if image % 2 == 0 { [Some(1), Some(2)] } else { [Some(2), Some(1)] };
            assert_eq!(run.image(found), expected, "image {image}");
        }
    }

    #[test]
    fn a_hidden_object_is_followed_by_low_scores_and_by_its_motion() {
        let mut run = Run::new();
        let mut numbers = Vec::new();
        for image in 0..40_u8 {
            let x = f32::from(image) * 4.0;
            let found = match image {
                // Partly hidden, then wholly.
                10..15 => vec![detection("cup", x, 0.2)],
                15..25 => vec![],
                _ => vec![detection("cup", x, 0.9)],
            };
            numbers.extend(run.image(found));
        }
        assert_eq!(numbers, [Some(1); 30]);
    }

    #[test]
    fn a_track_begins_with_its_second_image_and_ends_when_it_is_lost() {
        let mut run = Run::new();
        assert_eq!(run.image(vec![]), []);
        assert_eq!(run.image(vec![detection("cup", 0.0, 0.9)]), [None]);
        assert_eq!(run.image(vec![detection("cup", 0.0, 0.9)]), [Some(1)]);
        // Another one, once: it was a mistake.
        let two = vec![detection("cup", 0.0, 0.9), detection("cup", 300.0, 0.9)];
        assert_eq!(run.image(two), [Some(1), None]);
        assert_eq!(run.image(vec![detection("cup", 0.0, 0.9)]), [Some(1)]);
        for _ in 0..40 {
            assert_eq!(run.image(vec![]), []);
        }
        let again = detection("cup", 0.0, 0.9);
        assert_eq!(run.image(vec![again.clone()]), [None], "it was lost for more than 1 s");
        assert_eq!(run.image(vec![again]), [Some(2)]);
        let weak = [detection("cup", 500.0, 0.2), detection("cup", 600.0, 0.55)];
        assert_eq!(run.image(weak.to_vec()), [None], "0.2 is dropped, 0.55 begins no track");
        assert_eq!(run.image(weak.to_vec()), [None]);
    }

    #[test]
    fn limits_in_the_wrong_order_are_refused() {
        let values = [("low".to_owned(), ParamValue::Float(0.8))].into();
        let params = TrackParams::from_values(&values).unwrap();
        let error = Track::open(params, &OpenCx::default()).err().unwrap().to_string();
        assert!(error.contains("low") && error.contains("above `high`"), "{error}");
    }
}

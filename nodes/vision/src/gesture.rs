//! Gestures of hands.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::vision::{GestureEvent, GestureKind, Hand, Handedness, Hands};

params! {
    /// Settings of [`Gesture`].
    pub struct GestureParams {
        /// Distance of the tips of thumb and index finger below which a pinch starts.
        pub pinch_on: f32 = "20", range 1.0..=100.0, unit "mm";
        /// Distance above which a pinch ends.
        pub pinch_off: f32 = "35", range 1.0..=200.0, unit "mm";
        /// Time that a hand must have a shape before it counts.
        pub hold: Duration = "80ms", range 0.0..=10.0;
    }
}

/// Recognizes gestures of hands.
///
/// A pinch is measured between the tips of thumb and index finger, in meters of an average hand. It
/// starts below `pinch_on` and ends above `pinch_off`, so that noise does not repeat it. The other
/// gestures are sets of stretched fingers: `open_palm`, `fist`, `point`, `victory`, and `thumb_up`. A
/// finger is stretched if its tip is almost as far from its knuckle as its bones are long. A hand has
/// at most one gesture; one that fits none ends its last one.
///
/// Each gesture sends one event at its start and one at its end, also when its hand is lost. Left and
/// right hand are independent; of several hands of a side, the first one counts.
///
/// Latency: `hold`.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::vision::{GestureEvent, GestureKind, Hand, Hands};
/// use afferent_nodes_vision::{Gesture, GestureParams};
///
/// let params = GestureParams::from_values(&Default::default()).unwrap();
/// let mut bench = NodeBench::new(Gesture::open(params, &OpenCx::default())?);
/// // Bones of the index finger, and the tip of the thumb 1 cm beside that of the index finger.
/// let mut hand = Hand::default();
/// hand.world_m[5..9].copy_from_slice(&[[0.0; 3], [0.0, -0.04, 0.0], [0.0, -0.06, 0.0], [0.0, -0.08, 0.0]]);
/// hand.world_m[4] = [0.01, -0.08, 0.0];
/// let hands = Hands { hands: vec![hand], ..Hands::default() };
/// bench.call(Gesture::HANDS, Timestamp::ZERO, hands.clone())?;
/// let sent = bench.call(Gesture::HANDS, Timestamp(100_000_000), hands)?;
/// let event = sent[0].1.get::<GestureEvent>().unwrap();
/// assert_eq!((event.gesture, event.is_start), (GestureKind::Pinch, true));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Gesture {
    params: GestureParams,
    /// Left and right hand.
    sides: [Side; 2],
}

/// State of a hand.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    fingers: [bool; 5],
    /// Gesture whose start was sent.
    current: Option<GestureKind>,
    /// Last gesture that was seen, and since when.
    seen: Option<GestureKind>,
    since: Option<Timestamp>,
    position: [f32; 2],
}

/// Distance of the tip of a finger from its knuckle, relative to the length of its bones, above
/// which it becomes stretched and below which it becomes bent.
const STRETCHED: f32 = 0.88;
const BENT: f32 = 0.75;

/// The same for the thumb, which bends less.
const THUMB_STRETCHED: f32 = 0.95;
const THUMB_BENT: f32 = 0.91;

/// Distance of the tip of the thumb from the knuckle of the index finger, relative to the width of
/// the palm, below which the thumb lies along the fingers.
const THUMB_APART: f32 = 0.85;

/// Least stretch of the index finger in a pinch. It is less in a fist.
const PINCH_STRETCH: f32 = 0.55;

ports! {
    impl Gesture {
        /// Hands of each image.
        in HANDS: Hands;
        /// Starts and ends of gestures.
        out EVENTS: GestureEvent;
    }
}

fn distance(hand: &Hand, one: usize, other: usize) -> f32 {
    let (a, b) = (hand.world_m[one], hand.world_m[other]);
    [0, 1, 2].map(|axis| (a[axis] - b[axis]).powi(2)).iter().sum::<f32>().sqrt()
}

/// Distance of the tip of a finger from its first joint, relative to the length of its bones; 0 if
/// they have none. Fingers count from the thumb.
fn stretch(hand: &Hand, finger: usize) -> f32 {
    let first = 1 + 4 * finger;
    let bones: f32 = (first..first + 3).map(|joint| distance(hand, joint, joint + 1)).sum();
    if bones > 0.0 { distance(hand, first, first + 3) / bones } else { 0.0 }
}

impl Side {
    /// Updates which fingers are stretched.
    fn read_fingers(&mut self, hand: &Hand) {
        for (finger, is_stretched) in self.fingers.iter_mut().enumerate() {
            let (on, off) = match finger {
                0 => (THUMB_STRETCHED, THUMB_BENT),
                _ => (STRETCHED, BENT),
            };
            *is_stretched = stretch(hand, finger) > if *is_stretched { off } else { on };
        }
        // A straight thumb may lie along the palm.
        self.fingers[0] &= distance(hand, 4, 5) > THUMB_APART * distance(hand, 5, 17);
    }

    /// The gesture that the hand has now.
    fn shape(&self, hand: &Hand, params: &GestureParams) -> Option<GestureKind> {
        let is_pinching = self.seen == Some(GestureKind::Pinch);
        let limit = if is_pinching { params.pinch_off } else { params.pinch_on };
        if distance(hand, 4, 8) * 1000.0 < limit && stretch(hand, 1) > PINCH_STRETCH {
            return Some(GestureKind::Pinch);
        }
        match self.fingers {
            [true, true, true, true, true] => Some(GestureKind::OpenPalm),
            [false, false, false, false, false] => Some(GestureKind::Fist),
            [_, true, false, false, false] => Some(GestureKind::Point),
            [_, true, true, false, false] => Some(GestureKind::Victory),
            [true, false, false, false, false] if is_up(hand) => Some(GestureKind::ThumbUp),
            _ => None,
        }
    }

    /// Events of the image at `at`, in which the hand has `shape` for the first time or again.
    fn update(
        &mut self,
        shape: Option<GestureKind>,
        at: Timestamp,
        hold: Duration,
    ) -> [Option<(GestureKind, bool)>; 2] {
        if self.seen != shape || self.since.is_none() {
            (self.seen, self.since) = (shape, Some(at));
        }
        let is_held = self.since.is_some_and(|since| at.since(since) >= hold);
        if self.current == shape || !is_held {
            return [None; 2];
        }
        let ended = std::mem::replace(&mut self.current, shape);
        [ended.map(|gesture| (gesture, false)), shape.map(|gesture| (gesture, true))]
    }
}

/// True if the thumb points up, by at most 45 degrees to any side.
fn is_up(hand: &Hand) -> bool {
    let (joint, tip) = (hand.world_m[2], hand.world_m[4]);
    joint[1] - tip[1] > (tip[0] - joint[0]).hypot(tip[2] - joint[2])
}

fn position(hand: &Hand, gesture: Option<GestureKind>) -> [f32; 2] {
    let mean = |one: usize, other: usize| {
        [0, 1].map(|axis| f32::midpoint(hand.landmarks[one][axis], hand.landmarks[other][axis]))
    };
    match gesture {
        Some(GestureKind::Pinch) => mean(4, 8),
        Some(GestureKind::Point) => mean(8, 8),
        _ => mean(0, 9),
    }
}

impl Node for Gesture {
    type Params = GestureParams;

    const NAME: &'static str = "gesture";
    const SUMMARY: &'static str = "Recognizes gestures of hands.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "`hold`";

    fn open(params: GestureParams, _: &OpenCx) -> Result<Self, NodeError> {
        if params.pinch_on > params.pinch_off {
            let (on, off) = (params.pinch_on, params.pinch_off);
            let reason = format!("{on} mm is above `pinch_off`, which is {off} mm");
            return Err(NodeError::InvalidParam { name: "pinch_on".into(), reason });
        }
        Ok(Self { params, sides: [Side::default(); 2] })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let at = cx.at();
        if cx.restarted() {
            self.sides = [Side::default(); 2];
        }
        let mut events = Vec::new();
        let Some(hands) = cx.get(Self::HANDS) else { return Ok(()) };
        for (side, handedness) in self.sides.iter_mut().zip([Handedness::Left, Handedness::Right]) {
            let hand = hands.hands.iter().find(|hand| hand.handedness == handedness);
            let shape = hand.and_then(|hand| {
                side.read_fingers(hand);
                side.shape(hand, &self.params)
            });
            let last = side.position;
            if let Some(hand) = hand {
                side.position = position(hand, shape);
            }
            for (gesture, is_start) in
                side.update(shape, at, self.params.hold).into_iter().flatten()
            {
                let position = match hand {
                    Some(hand) => position(hand, Some(gesture)),
                    None => last,
                };
                events.push(GestureEvent { gesture, is_start, handedness, position });
            }
        }
        for event in events {
            cx.send(Self::EVENTS, event);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, Params};

    use super::*;

    /// An upright hand with these fingers stretched, thumb first.
    fn hand(fingers: [bool; 5], thumb_up: bool) -> Hand {
        let mut hand = Hand::default();
        let points = &mut hand.world_m;
        for finger in 1..5 {
            let x = finger as f32 * 0.02 - 0.04;
            let joints: [[f32; 3]; 4] = match fingers[finger] {
                true => [[x, -0.09, 0.0], [x, -0.13, 0.0], [x, -0.155, 0.0], [x, -0.175, 0.0]],
                // The tip comes back to the palm.
                false => [[x, -0.09, 0.0], [x, -0.12, -0.03], [x, -0.1, -0.04], [x, -0.085, -0.03]],
            };
            points[1 + 4 * finger..5 + 4 * finger].copy_from_slice(&joints);
        }
        let thumb: [[f32; 3]; 4] = match (fingers[0], thumb_up) {
            (true, true) => {
                [[-0.02, -0.03, 0.0], [-0.03, -0.06, 0.0], [-0.05, -0.1, 0.0], [-0.06, -0.13, 0.0]]
            }
            (true, false) => {
                [[-0.02, -0.03, 0.0], [-0.05, -0.04, 0.0], [-0.08, -0.05, 0.0], [-0.11, -0.06, 0.0]]
            }
            // Over the other fingers.
            (false, _) => [
                [-0.02, -0.03, 0.0],
                [-0.03, -0.06, -0.03],
                [0.0, -0.07, -0.05],
                [0.02, -0.08, -0.05],
            ],
        };
        points[1..5].copy_from_slice(&thumb);
        hand.landmarks = hand.world_m.map(|point| point.map(|value| 500.0 * value + 200.0));
        hand
    }

    fn gesture(values: &[(&str, f64)]) -> Result<Gesture, NodeError> {
        let values =
            values.iter().map(|(name, value)| ((*name).to_owned(), ParamValue::Float(*value)));
        let params = GestureParams::from_values(&values.collect()).unwrap();
        Gesture::open(params, &OpenCx::default())
    }

    struct Run(NodeBench<Gesture>, i64);

    impl Run {
        /// Events of the next image, at 30 images per second.
        fn image(&mut self, hands: &[Hand]) -> Vec<(GestureKind, bool)> {
            self.1 += 1;
            let hands = Hands { hands: hands.to_vec(), ..Hands::default() };
            let sent = self.0.call(Gesture::HANDS, Timestamp(self.1 * 33_333_333), hands).unwrap();
            let event = sent.iter().map(|(_, packet)| packet.get::<GestureEvent>().unwrap());
            event.map(|event| (event.gesture, event.is_start)).collect()
        }
    }

    #[test]
    fn shapes_are_told_apart() {
        let check = |hand: Hand, expected: Option<GestureKind>| {
            let mut run = Run(NodeBench::new(gesture(&[]).unwrap()), 0);
            let events: Vec<_> =
                (0..5).flat_map(|_| run.image(std::slice::from_ref(&hand))).collect();
            assert_eq!(events.first().copied(), expected.map(|kind| (kind, true)), "{expected:?}");
            assert!(events.len() <= 1);
        };
        check(hand([true; 5], false), Some(GestureKind::OpenPalm));
        check(hand([false; 5], false), Some(GestureKind::Fist));
        check(hand([false, true, false, false, false], false), Some(GestureKind::Point));
        check(hand([false, true, true, false, false], false), Some(GestureKind::Victory));
        check(hand([true, false, false, false, false], true), Some(GestureKind::ThumbUp));
        check(hand([true, false, false, false, false], false), None);
        check(hand([false, true, true, true, false], false), None);
        let mut pinch = hand([true; 5], false);
        pinch.world_m[4] = pinch.world_m[8].map(|value| value + 0.01);
        check(pinch, Some(GestureKind::Pinch));
    }

    #[test]
    fn events_need_a_hold_and_come_in_pairs() {
        let mut run = Run(NodeBench::new(gesture(&[]).unwrap()), 0);
        let (open, fist) = (hand([true; 5], false), hand([false; 5], false));
        let open = std::slice::from_ref(&open);
        let fist = std::slice::from_ref(&fist);
        // 80 ms are three images later.
        for _ in 0..3 {
            assert_eq!(run.image(open), []);
        }
        assert_eq!(run.image(open), [(GestureKind::OpenPalm, true)]);
        assert_eq!(run.image(fist), []);
        assert_eq!(run.image(open), [], "too short");
        assert_eq!(run.image(fist), []);
        assert_eq!((run.image(fist), run.image(fist)), (vec![], vec![]));
        let both = [(GestureKind::OpenPalm, false), (GestureKind::Fist, true)];
        assert_eq!(run.image(fist), both);
        assert_eq!((run.image(&[]), run.image(&[]), run.image(&[])), (vec![], vec![], vec![]));
        assert_eq!(run.image(&[]), [(GestureKind::Fist, false)], "the hand is lost");
    }

    #[test]
    fn a_pinch_ends_at_a_larger_distance() {
        let mut run = Run(NodeBench::new(gesture(&[]).unwrap()), 0);
        let mut at = |millimeters: f32| -> Vec<_> {
            let mut hand = hand([true, true, true, true, true], false);
            hand.world_m[4] = hand.world_m[8];
            hand.world_m[4][0] -= millimeters / 1000.0;
            (0..4).flat_map(|_| run.image(std::slice::from_ref(&hand))).collect()
        };
        let is_pinch = |events: &[(GestureKind, bool)], is_start: bool| {
            events.contains(&(GestureKind::Pinch, is_start))
        };
        assert!(!is_pinch(&at(30.0), true), "more than pinch_on");
        assert!(is_pinch(&at(15.0), true));
        assert_eq!(at(30.0), [], "less than pinch_off");
        assert!(is_pinch(&at(40.0), false));
        let error = gesture(&[("pinch_on", 50.0)]).err().unwrap().to_string();
        assert!(error.contains("pinch_on") && error.contains("above `pinch_off`"), "{error}");
    }
}

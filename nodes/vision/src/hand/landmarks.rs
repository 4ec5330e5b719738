//! Model of the landmarks of a hand.

use afferent_graph::{NodeError, OpenCx};
use afferent_messages::{
    Image,
    vision::{Hand, Handedness},
};
use afferent_package::{ImageInput, Pad, Resize};

use super::region::Region;
use crate::vision_model::{ModelVariant, VisionModel, all_values, values};

const LANDMARKS: usize = Hand::LANDMARKS;

/// Factor of z of the models of MediaPipe.
const MEDIAPIPE_Z: f32 = 1.0 / 0.4;

/// A model of landmarks.
pub(crate) struct LandmarkModel {
    model: VisionModel,
    /// Indices of the outputs: landmarks, presence, handedness, landmarks in meters.
    outputs: [usize; 4],
    /// Factor from z to the pixels of x and y.
    z_scale: f32,
    /// Side of a hand with the handedness 1.
    positive: Handedness,
}

impl LandmarkModel {
    /// Loads the package or program.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn open(variant: ModelVariant<'_>, cx: &OpenCx) -> Result<Self, NodeError> {
        let defaults = |_: &[Vec<usize>]| ImageInput {
            resize: Some(Resize::Stretch),
            pad: Some(Pad::Value(0.0)),
            ..ImageInput::default()
        };
        let model = VisionModel::open_variant(variant, "hand_landmarks", cx, defaults)?;
        let is_mediapipe = match model.contract() {
            "" | "mediapipe_hand" => true,
            "hand_landmarks" => false,
            other => {
                let reason = format!(
                    "its contract is {other:?}; a model of hands has hand_landmarks or mediapipe_hand"
                );
                return Err(model.error(reason));
            }
        };
        let positive = match model.labels().iter().map(String::as_str).collect::<Vec<_>>()[..] {
            // MediaPipe assumes a mirrored image.
            [] if is_mediapipe => Handedness::Left,
            [] | ["left", "right"] => Handedness::Right,
            ["right", "left"] => Handedness::Left,
            ref other => {
                let reason = format!("its labels are {other:?}; they must be left and right");
                return Err(model.error(reason));
            }
        };
        let of = |len: usize| {
            let sizes = model.outputs().iter().enumerate();
            let found = sizes.filter(|(_, sizes)| sizes.as_slice() == [1, len]);
            found.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let outputs = match (of(3 * LANDMARKS).as_slice(), of(1).as_slice()) {
            (&[landmarks, world], &[presence, handedness]) => {
                [landmarks, presence, handedness, world]
            }
            _ => {
                let found = model.outputs();
                return Err(model.error(format!(
                    "its outputs {found:?} are not those of a model of hands: [1, 63] (landmarks), \
                     [1, 1] (presence), [1, 1] (handedness), [1, 63] (landmarks in meters)"
                )));
            }
        };
        let z_scale = if is_mediapipe { MEDIAPIPE_Z } else { 1.0 };
        Ok(Self { model, outputs, z_scale, positive })
    }

    /// The hand in a region of the source image, with any presence; `None` if an output is not
    /// finite, or the image shows nothing of its source.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn run(
        &mut self,
        image: &Image,
        region: &Region,
    ) -> Result<Option<Hand>, NodeError> {
        let shape = *self.model.image().shape();
        let size = [shape.width, shape.height];
        let Some(to_image) = image.to_source.inverse() else { return Ok(None) };
        let from_input = region.source_from_input(size);
        let scale = (region.side / size[0] as f64) as f32;
        let ([landmarks, presence, handedness, world], z_scale) = (self.outputs, self.z_scale);
        let positive = self.positive;
        self.model.run_region(image, &to_image.after(&from_input), |_, outputs| {
            let tensor = |index| outputs.tensor(index).map_err(|error| error.to_string());
            let (landmarks, presence, handedness, world) =
                (tensor(landmarks)?, tensor(presence)?, tensor(handedness)?, tensor(world)?);
            let points = |of| Ok::<_, String>(all_values(of, 3 * LANDMARKS)?.as_chunks::<3>().0);
            let (landmarks, world) = (points(&landmarks)?, points(&world)?);
            let ([score], [side]) = (values(&presence)?, values(&handedness)?) else {
                return Err("presence and handedness must be one number each".to_owned());
            };
            let mut hand = Hand { score: *score, handedness: positive, ..Hand::default() };
            hand.handedness_score = side.max(1.0 - side);
            if *side < 0.5 {
                hand.handedness = match positive {
                    Handedness::Left => Handedness::Right,
                    Handedness::Right => Handedness::Left,
                };
            }
            for (to, [x, y, z]) in hand.landmarks.iter_mut().zip(landmarks) {
                let [source_x, source_y] = from_input.apply([f64::from(*x), f64::from(*y)]);
                *to = [source_x as f32, source_y as f32, z * z_scale * scale];
            }
            let wrist = hand.landmarks[0][2];
            hand.landmarks.iter_mut().for_each(|[.., z]| *z -= wrist);
            for (to, [x, y, z]) in hand.world_m.iter_mut().zip(world) {
                let [x, y] = region.turned([f64::from(*x), f64::from(*y)]);
                *to = [x as f32, y as f32, *z];
            }
            let all = hand.landmarks.iter().chain(&hand.world_m).flatten();
            let is_finite =
                all.chain([&hand.score, &hand.handedness_score]).all(|value| value.is_finite());
            Ok(is_finite.then_some(hand))
        })
    }
}

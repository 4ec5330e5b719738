//! Calibrations as a stream.

use std::sync::Arc;

use afferent_graph::{Choice, Field, OnFull, Payload, RecordCodec, WireCodec};

use crate::{Camera, Cdr, CdrMessage, DistortionModel};

/// Calibration of the camera of a stream of images (`foxglove_msgs/CameraCalibration`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CameraCalibration {
    /// Coordinate frame of the camera: the optical frame of its images.
    pub frame_id: String,
    /// The calibration.
    pub camera: Arc<Camera>,
}

impl Payload for CameraCalibration {
    const TYPE: &'static str = "vision/CameraCalibration";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let Camera { width, height, focal_px: [fx, fy], distortion, .. } = *self.camera;
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("width", Field::Int(width.into())),
            ("height", Field::Int(height.into())),
            ("fx", Field::Number(fx)),
            ("fy", Field::Number(fy)),
            ("distortion", Field::Text(distortion.word().to_owned())),
        ]
    }
}

/// The message of Foxglove, by which its 3D panel projects images. The stamp is zero because a recording
/// stores the timestamp beside each message. A camera without distortion has the model `plumb_bob` with
/// coefficients of zero.
impl CdrMessage for CameraCalibration {
    const MESSAGE: &'static str = "foxglove_msgs/msg/CameraCalibration";
    const SCHEMA: &'static str = "builtin_interfaces/Time timestamp
string frame_id
uint32 width
uint32 height
string distortion_model
float64[] d
float64[9] k
float64[9] r
float64[12] p
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
";
    type Wire = (
        (i32, u32),
        String,
        u32,
        u32,
        String,
        Vec<f64>,
        [[f64; 3]; 3],
        [[f64; 3]; 3],
        [[f64; 4]; 3],
    );

    fn to_wire(&self) -> Self::Wire {
        let camera = &*self.camera;
        let (model, coefficients) = match camera.distortion {
            DistortionModel::None => (DistortionModel::PlumbBob, vec![0.0; 5]),
            model => (model, camera.coefficients.clone()),
        };
        let (k, one) = (camera.matrix(), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
        let p = k.map(|[a, b, c]| [a, b, c, 0.0]);
        let (frame_id, model) = (self.frame_id.clone(), model.word().to_owned());
        ((0, 0), frame_id, camera.width, camera.height, model, coefficients, k, one, p)
    }

    fn from_wire(
        (_, frame_id, width, height, model, coefficients, k, ..): Self::Wire,
    ) -> Result<Self, String> {
        let distortion: DistortionModel = crate::wire::choice("distortion_model", &model)?;
        if coefficients.len() != distortion.coefficients() {
            let (found, expected) = (coefficients.len(), distortion.coefficients());
            return Err(format!("d: {found} values; {model} has {expected}"));
        }
        if !k.as_flattened().iter().chain(&coefficients).all(|value| value.is_finite()) {
            return Err("k and d must be finite".to_owned());
        }
        let (distortion, coefficients) = match distortion {
            DistortionModel::PlumbBob if coefficients.iter().all(|value| *value == 0.0) => {
                (DistortionModel::None, Vec::new())
            }
            model => (model, coefficients),
        };
        let camera = Camera { distortion, coefficients, ..Camera::from_matrix(width, height, k) };
        Ok(Self { frame_id, camera: Arc::new(camera) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_other_senders_are_checked() {
        let k = [[500.0, 0.0, 320.0], [0.0, 510.0, 240.0], [0.0, 0.0, 1.0]];
        let plain = Camera::from_matrix(640, 480, k);
        let lens = Camera {
            distortion: DistortionModel::Equidistant,
            coefficients: vec![0.1, 0.0, -0.02, 0.0],
            ..plain.clone()
        };
        let of = |camera: &Camera| CameraCalibration {
            frame_id: "camera".to_owned(),
            camera: Arc::new(camera.clone()),
        };
        for camera in [&plain, &lens] {
            let value = of(camera);
            assert_eq!(CameraCalibration::from_wire(value.to_wire()).unwrap(), value);
        }
        assert_eq!(of(&plain).to_wire().6, k);
        let check = |change: fn(&mut <CameraCalibration as CdrMessage>::Wire), expected: &str| {
            let mut wire = of(&lens).to_wire();
            change(&mut wire);
            let told = CameraCalibration::from_wire(wire).unwrap_err();
            assert!(told.contains(expected), "{told}");
        };
        check(|wire| wire.5 = vec![0.0; 3], "d: 3 values; equidistant has 4");
        check(|wire| wire.4 = "fov".to_owned(), "fov");
        check(|wire| wire.6[0][0] = f64::NAN, "k and d must be finite");
    }
}

//! Calibration files of `camera_calibration` of ROS.

use std::path::Path;

use afferent_graph::{Choice, NodeError};
use serde::Deserialize;

use crate::{Camera, DistortionModel};

/// Fields that are read; the file has others.
#[derive(Deserialize)]
struct File {
    image_width: u32,
    image_height: u32,
    camera_matrix: Matrix,
    #[serde(default)]
    distortion_model: Option<String>,
    #[serde(default)]
    distortion_coefficients: Option<Matrix>,
}

#[derive(Deserialize)]
struct Matrix {
    data: Vec<f64>,
}

impl Camera {
    /// Reads the calibration in the YAML file `path`, as `camera_calibration` of ROS writes it.
    ///
    /// # Errors
    /// The file, and the field that is wrong.
    pub fn read(path: &Path) -> Result<Self, NodeError> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        text.and_then(|text| parse(&text)).map_err(|reason| NodeError::File {
            path: path.to_owned(),
            reason: format!("the calibration cannot be read: {reason}"),
        })
    }

    /// Checks that the calibration is for images of this size.
    ///
    /// # Errors
    /// The size that the calibration was made for.
    pub fn check_size(&self, width: u32, height: u32) -> Result<(), String> {
        match (self.width, self.height) == (width, height) {
            true => Ok(()),
            false => {
                let (w, h) = (self.width, self.height);
                Err(format!("the calibration is for images of {w}x{h}, not of {width}x{height}"))
            }
        }
    }
}

fn parse(text: &str) -> Result<Camera, String> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let matrix = file.camera_matrix.data;
    let &[a, b, c, d, e, f, g, h, i] = matrix.as_slice() else {
        return Err(format!("camera_matrix has {} numbers; 9 were expected", matrix.len()));
    };
    if b != 0.0 {
        return Err("camera_matrix has a skew; only 0 is supported".to_owned());
    }
    let k = [[a, b, c], [d, e, f], [g, h, i]];
    let mut camera = Camera::from_matrix(file.image_width, file.image_height, k);
    let coefficients = file.distortion_coefficients.map_or_else(Vec::new, |found| found.data);
    if coefficients.iter().any(|value| *value != 0.0) {
        let name = file.distortion_model.as_deref().unwrap_or("plumb_bob");
        camera.distortion = DistortionModel::from_word(name).ok_or_else(|| {
            let known: Vec<&str> = DistortionModel::WORDS.to_vec();
            format!("distortion_model {name} is unknown; known are {}", known.join(", "))
        })?;
        camera.coefficients = coefficients;
    }
    camera.check()?;
    Ok(camera)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "image_width: 640
image_height: 480
camera_name: narrow
camera_matrix:
  rows: 3
  cols: 3
  data: [500.5, 0.0, 319.5, 0.0, 501.5, 239.5, 0.0, 0.0, 1.0]
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [0.1, -0.2, 0.001, -0.001, 0.0]
rectification_matrix: {rows: 3, cols: 3, data: [1, 0, 0, 0, 1, 0, 0, 0, 1]}
";

    #[test]
    fn a_file_of_ros_is_read() {
        let camera = parse(FILE).unwrap();
        assert_eq!((camera.width, camera.height), (640, 480));
        assert_eq!((camera.focal_px, camera.center_px), ([500.5, 501.5], [320.0, 240.0]));
        assert_eq!(camera.distortion, DistortionModel::PlumbBob);
        assert_eq!(camera.coefficients, [0.1, -0.2, 0.001, -0.001, 0.0]);
    }

    #[test]
    fn wrong_files_are_refused_with_the_field() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(FILE.contains(from));
            let told = parse(&FILE.replace(from, to)).unwrap_err();
            assert!(told.contains(expected), "{told}");
        };
        check("image_width: 640\n", "", "image_width");
        check(", 1.0]\ndis", "]\ndis", "camera_matrix has 8 numbers");
        check("plumb_bob", "thin_prism", "thin_prism is unknown; known are none, plumb_bob");
        check("[500.5,", "[0.0,", "focal");
        check("-0.001, 0.0]", "-0.001]", "4 coefficients");
    }
}

//! Preparation of images for a vision model, in `model.yaml`.

use serde::Deserialize;

/// How a model gets its images. A field that is absent has the default of the contract of the model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageInput {
    /// Width and height in pixels, for programs that take several sizes. Otherwise those of the
    /// program.
    pub size: Option<[usize; 2]>,
    /// Fit of the image to this size.
    pub resize: Option<Resize>,
    /// Share of the sides that [`Resize::Crop`] keeps, such as 0.875: 224 of 256 pixels.
    pub crop_fraction: Option<f64>,
    /// Border of a letterbox.
    pub pad: Option<Pad>,
    /// Channels.
    pub color: Option<Color>,
    /// Factor of the values 0 to 255, before the mean is subtracted, such as 0.00392156862745098
    /// (1/255).
    pub scale: Option<f64>,
    /// Mean of each channel, in their order, after the scale.
    pub mean: Option<[f64; 3]>,
    /// Standard deviation that each channel is divided by.
    pub std: Option<[f64; 3]>,
    /// Interpolation that the model was trained with.
    pub resampling: Option<Resampling>,
}

/// Border of a letterbox.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pad {
    /// Value of all channels, 0 to 255.
    Value(f32),
    /// `corners`: color of the image in its corners, as react-native-executorch computes it: the mean
    /// of four squares of a thirtieth of the shorter side, rounded down.
    Corners,
}

impl<'de> Deserialize<'de> for Pad {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Name {
            Corners,
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "image.pad must be from 0 to 255, or `corners`")]
        enum Any {
            Value(f32),
            Name(Name),
        }
        Ok(match Any::deserialize(deserializer)? {
            Any::Value(value) => Self::Value(value),
            Any::Name(Name::Corners) => Self::Corners,
        })
    }
}

/// Fit of an image to the size of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resize {
    /// The whole image with its aspect ratio, in the middle of a border.
    Letterbox,
    /// The whole image, with another aspect ratio.
    Stretch,
    /// The middle of the image, with its aspect ratio.
    Crop,
    /// The whole image with its aspect ratio and without a border: the longer side has the size, and
    /// the program takes the shorter one as it comes.
    LongestSide,
}

/// Channels of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Color {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luma.
    Gray,
}

/// Interpolation of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resampling {
    /// The nearest pixel.
    Nearest,
    /// Linear between four pixels, as `INTER_LINEAR` of OpenCV.
    Bilinear,
    /// Linear over all pixels that a pixel of the result covers, as Pillow and torchvision.
    AntialiasBilinear,
    /// Cubic over these pixels.
    AntialiasBicubic,
}

impl ImageInput {
    /// These settings, and where they are absent those of `defaults`.
    #[must_use]
    pub fn or(&self, defaults: &Self) -> Self {
        Self {
            size: self.size.or(defaults.size),
            resize: self.resize.or(defaults.resize),
            crop_fraction: self.crop_fraction.or(defaults.crop_fraction),
            pad: self.pad.or(defaults.pad),
            color: self.color.or(defaults.color),
            scale: self.scale.or(defaults.scale),
            mean: self.mean.or(defaults.mean),
            std: self.std.or(defaults.std),
            resampling: self.resampling.or(defaults.resampling),
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The field that is wrong, and what is accepted.
    pub(crate) fn check(&self) -> Result<(), String> {
        let wrong = |field: &str, expected: &str| Err(format!("image.{field} must be {expected}"));
        let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        match self {
            Self { size: Some(size), .. } if size.contains(&0) => wrong("size", "two sizes from 1"),
            Self { crop_fraction: Some(part), .. } if !(*part > 0.0 && *part <= 1.0) => {
                wrong("crop_fraction", "above 0 and at most 1")
            }
            Self { pad: Some(Pad::Value(pad)), .. } if !(0.0..=255.0).contains(pad) => {
                wrong("pad", "from 0 to 255, or `corners`")
            }
            Self { scale: Some(scale), .. } if !(*scale > 0.0 && scale.is_finite()) => {
                wrong("scale", "above 0")
            }
            Self { mean: Some(mean), .. } if !finite(mean) => wrong("mean", "three numbers"),
            Self { std: Some(std), .. } if !finite(std) || std.contains(&0.0) => {
                wrong("std", "three numbers that are not 0")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_and_completed() {
        let read = |text: &str| serde_saphyr::from_str::<ImageInput>(text).unwrap();
        let own = read("{size: [640, 480], resize: letterbox, mean: [0.5, 0.5, 0.5]}");
        assert_eq!(own.check(), Ok(()));
        let defaults = read("{resize: crop, pad: 114, resampling: antialias_bilinear}");
        let both = own.or(&defaults);
        assert_eq!((both.resize, both.pad), (Some(Resize::Letterbox), Some(Pad::Value(114.0))));
        assert_eq!(read("{pad: corners}").pad, Some(Pad::Corners));
        let told = serde_saphyr::from_str::<ImageInput>("{pad: edges}").unwrap_err().to_string();
        assert!(told.contains("from 0 to 255, or `corners`"), "{told}");
        assert_eq!(both.resampling, Some(Resampling::AntialiasBilinear));
        for (text, field) in [
            ("{size: [0, 4]}", "size"),
            ("{crop_fraction: 1.5}", "crop_fraction"),
            ("{pad: -1}", "pad"),
            ("{scale: 0}", "scale"),
            ("{std: [1, 0, 1]}", "std"),
        ] {
            let told = read(text).check().unwrap_err();
            assert!(told.starts_with(&format!("image.{field} must be")), "{told}");
        }
        assert!(serde_saphyr::from_str::<ImageInput>("{color: blue}").is_err());
    }
}

//! Fit of an image to another size, in whole pixels, as the libraries that models are trained with
//! compute it.

use afferent_graph::choices;
use afferent_messages::Affine;

choices! {
    /// Fit of an image to another size.
    pub enum Fit {
        /// The whole image with its aspect ratio, in the middle of a border, as Ultralytics.
        Letterbox = "letterbox",
        /// The whole image, with another aspect ratio.
        Stretch = "stretch",
        /// The middle of the image, with its aspect ratio, as torchvision.
        Crop = "crop",
    }
}

impl Fit {
    /// Map from pixels of a result of `size` to those of an image of `image`; both are a width and a
    /// height of at least one pixel.
    pub fn to_image(self, image: [usize; 2], size: [usize; 2]) -> Affine {
        match self {
            Self::Letterbox => letterbox(image, size),
            Self::Stretch => resized(image, size, [0.0; 2]),
            Self::Crop => crop(image, size, 1.0),
        }
    }
}

/// The map of an image that is resized to `resized` pixels and then moved by `-shift` pixels.
fn resized(image: [usize; 2], resized: [usize; 2], shift: [f64; 2]) -> Affine {
    let scale = [0, 1].map(|axis| image[axis] as f64 / resized[axis] as f64);
    Affine::scale_and_shift(scale, [shift[0] * scale[0], shift[1] * scale[1]])
}

/// As `LetterBox` of Ultralytics: both sizes are rounded, and an odd border is smaller at the left
/// and at the top.
fn letterbox(image: [usize; 2], size: [usize; 2]) -> Affine {
    let [image_f, size_f] = [image, size].map(|size| size.map(|side| side as f64));
    let ratio = (size_f[1] / image_f[1]).min(size_f[0] / image_f[0]);
    // Python rounds ties to even.
    let new = image_f.map(|side| (side * ratio).round_ties_even().max(1.0));
    let border = [0, 1].map(|axis| {
        let border = (size_f[axis] - new[axis]) / 2.0 - 0.1;
        -border.round_ties_even().max(0.0)
    });
    resized(image, new.map(|side| side as usize), border)
}

/// Size of an image that is resized with its aspect ratio to fit into `largest`, each side rounded and at
/// least one pixel.
pub fn longest_side(image: [usize; 2], largest: [usize; 2]) -> [usize; 2] {
    let ratio = (largest[0] as f64 / image[0] as f64).min(largest[1] as f64 / image[1] as f64);
    [0, 1].map(|axis| {
        let side = (image[axis] as f64 * ratio).round_ties_even() as usize;
        side.clamp(1, largest[axis])
    })
}

/// As `Resize` and `CenterCrop` of torchvision: the image is resized so that `size` is the share
/// `fraction` of the side that it fills first, and its middle is kept. `fraction` is above 0 and at
/// most 1, such as 0.875 for 224 of 256 pixels.
pub fn crop(image: [usize; 2], size: [usize; 2], fraction: f64) -> Affine {
    let fill = size.map(|side| (side as f64 / fraction).round().max(side as f64) as usize);
    // The axis with the larger ratio is filled, the other one is longer.
    let is_wide = image[0] * fill[1] >= image[1] * fill[0];
    let (short, long) = if is_wide { (1, 0) } else { (0, 1) };
    let mut new = fill;
    new[long] = (image[long] * fill[short] / image[short]).max(size[long]);
    let shift = [0, 1].map(|axis| ((new[axis] - size[axis]) as f64 / 2.0).round_ties_even());
    resized(image, new, shift)
}

/// The map from pixels of a result of `size` to the region around a box: with the center of the box,
/// `grow` times as large, and then as much wider or higher as the aspect ratio of `size` needs. Edges
/// are left, top, right and bottom.
pub fn region(edges: [f64; 4], size: [usize; 2], grow: f64) -> Affine {
    let [left, top, right, bottom] = edges;
    let [width, height] = size.map(|side| side as f64);
    let scale = ((right - left) / width).max((bottom - top) / height) * grow;
    let center = [(left + right) / 2.0, (top + bottom) / 2.0];
    let shift = [center[0] - scale * width / 2.0, center[1] - scale * height / 2.0];
    Affine::scale_and_shift([scale; 2], shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of an image and a result, and the pixels that the image takes after resizing: left, top,
    /// width and height, by `tests/data/fit.py`.
    #[derive(serde::Deserialize)]
    struct Case {
        image: [usize; 2],
        size: [usize; 2],
        fraction: f64,
        letterbox: [f64; 4],
        crop: [f64; 4],
    }

    #[test]
    fn pixels_are_those_of_the_libraries() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../tests/data/fit.json")).unwrap();
        assert!(cases.len() > 50);
        for Case { image, size, fraction, letterbox, crop: expected } in cases {
            let check = |map: Affine, [left, top, width, height]: [f64; 4], what: &str| {
                let corners = [map.apply([left, top]), map.apply([left + width, top + height])];
                let wanted = [[0.0; 2], image.map(|side| side as f64)];
                let far = corners.iter().flatten().zip(wanted.iter().flatten());
                let far = far.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(far < 1e-9, "{what} of {image:?} to {size:?}: {corners:?}");
            };
            check(Fit::Letterbox.to_image(image, size), letterbox, "letterbox");
            check(crop(image, size, fraction), expected, "crop");
            let [width, height] = size.map(|side| side as f64);
            check(Fit::Stretch.to_image(image, size), [0.0, 0.0, width, height], "stretch");
        }
    }

    #[test]
    fn regions_keep_the_center_and_the_aspect_ratio() {
        // A box of 20 x 60 pixels for a result of 10 x 10.
        let map = region([50.0, 10.0, 70.0, 70.0], [10, 10], 1.5);
        assert_eq!(map.apply([5.0, 5.0]), [60.0, 40.0]);
        assert_eq!((map.apply([0.0; 2]), map.apply([10.0; 2])), ([15.0, -5.0], [105.0, 85.0]));
        let wide = region([0.0, 0.0, 40.0, 10.0], [4, 2], 1.0);
        assert_eq!((wide.apply([0.0; 2]), wide.apply([4.0, 2.0])), ([0.0, -5.0], [40.0, 15.0]));
    }
}

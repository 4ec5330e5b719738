//! Detections that are joined with an image, and where they lie in it.

use afferent_graph::{Cx, In, NodeError, OpenCx};
use afferent_messages::{
    Image,
    vision::{Box2d, Detection, Detections},
};

use crate::boxes::Edges;

/// Optional input of detections that are joined with the images of a node.
#[derive(Clone, Copy)]
pub(crate) struct RegionInput {
    port: In<Detections>,
    is_connected: bool,
}

/// Regions of an image that a node works on.
#[derive(Debug)]
pub(crate) enum Regions {
    /// The whole image: no detections are connected.
    Whole,
    /// These objects.
    Detected(Vec<Detection>),
    /// Not known: no detections came for this image.
    Missing,
}

impl RegionInput {
    pub(crate) fn open(port: In<Detections>, cx: &OpenCx) -> Self {
        Self { port, is_connected: cx.is_connected(port.name()) }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// The regions of the image of this call.
    ///
    /// # Errors
    /// [`NodeError::InvalidInput`] if the input is not joined with the images.
    pub(crate) fn read(&self, cx: &Cx<'_>) -> Result<Regions, NodeError> {
        if cx.port() == Some(self.port.name()) {
            let reason = "it must be joined with the images: add `sync: exact` to the edge";
            return Err(NodeError::InvalidInput {
                port: self.port.name().into(),
                reason: reason.to_owned(),
            });
        }
        Ok(match cx.get(self.port) {
            Some(found) => Regions::Detected(found.detections.clone()),
            None if self.is_connected => Regions::Missing,
            None => Regions::Whole,
        })
    }
}

/// The box `bounds` of the source image in pixels of `image`, with its largest extent if it is rotated
/// there; `None` if it shows no pixel of `image`.
pub(crate) fn edges_in(image: &Image, bounds: &Box2d) -> Option<Edges> {
    let from_source = image.to_source.inverse()?;
    let corners = bounds.corners();
    let apply = |corner: [f32; 2]| from_source.apply(corner.map(f64::from)).map(|side| side as f32);
    let edges = Edges::of_points(corners.map(apply));
    let [left, top, right, bottom] = edges.0;
    let is_visible = edges.is_finite()
        && left < right
        && top < bottom
        && right > 0.0
        && bottom > 0.0
        && left < image.width() as f32
        && top < image.height() as f32;
    is_visible.then_some(edges)
}

/// The box around a part of `image`, in pixels of the source image.
pub(crate) fn box_in_source(image: &Image, edges: Edges) -> Box2d {
    let apply =
        |corner: [f32; 2]| image.to_source.apply(corner.map(f64::from)).map(|side| side as f32);
    Edges::of_points(edges.to_box().corners().map(apply)).to_box()
}

#[cfg(test)]
mod tests {
    use afferent_messages::{Affine, PixelFormat};

    use super::*;

    #[test]
    fn boxes_are_found_in_a_crop() {
        let mut image = Image::new(PixelFormat::Mono8, 40, 20, 40, &[0; 800]).unwrap();
        image.to_source = Affine::scale_and_shift([2.0; 2], [100.0, 50.0]);
        let edges = |left, top, right, bottom| {
            edges_in(&image, &Box2d::from_corners([left, top], [right, bottom]))
        };
        assert_eq!(edges(110.0, 60.0, 120.0, 80.0), Some(Edges([5.0, 5.0, 10.0, 15.0])));
        assert_eq!(edges(90.0, 40.0, 120.0, 80.0), Some(Edges([-5.0, -5.0, 10.0, 15.0])));
        assert_eq!(edges(0.0, 0.0, 100.0, 100.0), None, "left of the crop");
        assert_eq!(edges(110.0, 60.0, 110.0, 80.0), None, "no area");
        assert_eq!(edges(f32::NAN, 60.0, 120.0, 80.0), None);
        let whole = box_in_source(&image, Edges([0.0, 0.0, 40.0, 20.0]));
        assert_eq!(whole, Box2d::from_corners([100.0, 50.0], [180.0, 90.0]));
    }
}

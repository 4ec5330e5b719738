//! Masks: a value of 8 bits for each pixel.

use std::sync::Arc;

use afferent_core::{Error, ForeignBytes, ScalarType, Tensor};

use super::count;
use crate::{
    Affine, Camera, Cdr, CdrMessage, Wire, WireMessage,
    bytes::Bytes,
    camera::{Geometry, camera_definition, geometry_fields},
    cdr::ros_header,
    wire::choice,
};
use afferent_graph::{Choice, Field, OnFull, Payload, RecordCodec, WireCodec, choices};

choices! {
    /// Meaning of the values of a mask.
    #[derive(Default, Hash)]
    pub enum MaskKind {
        /// Index of the class of the pixel.
        #[default]
        Classes = "classes",
        /// Number of the object that the pixel belongs to; 0 is the background. Where objects
        /// overlap, the more probable one is in front.
        Instances = "instances",
        /// Opacity of the foreground: 0 is background, 255 is foreground.
        Matte = "matte",
    }
}

/// A value for each pixel of an image: a tensor `[height, width]` of `u8`.
#[derive(Debug, Clone)]
pub struct Mask {
    /// Coordinate frame of the camera.
    pub frame_id: String,
    /// Meaning of the values.
    pub kind: MaskKind,
    /// Class names by value: of the class, or of the object. A value without a name has the index of
    /// the class as name. A matte has none.
    pub labels: Vec<Arc<str>>,
    /// The values, row after row.
    pub values: Tensor,
    /// Map from pixels of this mask to pixels of the source image.
    pub to_source: Affine,
    /// Calibration of the camera for the source image, if known.
    pub camera: Option<Arc<Camera>>,
}

impl Default for Mask {
    /// A mask without values.
    fn default() -> Self {
        Self {
            frame_id: String::new(),
            kind: MaskKind::default(),
            labels: Vec::new(),
            values: Tensor::zeros(ScalarType::Byte, &[0, 0]),
            to_source: Affine::IDENTITY,
            camera: None,
        }
    }
}

impl Mask {
    /// Largest size of a mask without values. No byte backs such a size, but a node may loop over
    /// it.
    const MAX_EMPTY_SIZE: usize = 1 << 16;

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.values.sizes().get(1).copied().unwrap_or(0)
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.values.sizes().first().copied().unwrap_or(0)
    }

    /// Name of the class of `value`, if it has one.
    pub fn label(&self, value: u8) -> Option<&Arc<str>> {
        self.labels.get(usize::from(value))
    }

    /// Sets the size and returns the values for writing, row after row. Their content is
    /// unspecified.
    ///
    /// # Errors
    /// If the tensor is not of `u8`, or the size overflows.
    pub fn reshape(&mut self, width: usize, height: usize) -> Result<&mut [u8], Error> {
        self.values.resize(&[height, width])?;
        self.values.data_mut()
    }

    /// Checks the properties that nodes rely on.
    fn check(values: &Tensor, labels: usize) -> Result<(), String> {
        let sizes = values.sizes();
        if values.dtype() != ScalarType::Byte || sizes.len() != 2 || values.dim_order() != [0, 1] {
            return Err(
                "the values must be a tensor of u8, [height, width], row after row".to_owned()
            );
        }
        if sizes.contains(&0) && sizes.iter().any(|size| *size > Self::MAX_EMPTY_SIZE) {
            let most = Self::MAX_EMPTY_SIZE;
            return Err(format!("sizes {sizes:?} without values; each must be at most {most}"));
        }
        if labels > 256 {
            return Err(format!("{labels} labels; values of 8 bits have at most 256"));
        }
        Ok(())
    }

    fn label_texts(&self) -> Vec<String> {
        self.labels.iter().map(|label| label.to_string()).collect()
    }
}

impl Payload for Mask {
    const TYPE: &'static str = "vision/Mask";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Wire::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("kind", Field::Text(self.kind.word().to_owned())),
            ("labels", Field::Text(self.labels.join(", "))),
            ("width", count(self.width())),
            ("height", count(self.height())),
        ]
    }

    fn bulk_bytes(&self) -> usize {
        self.values.byte_len()
    }

    fn release_foreign(&mut self) {
        self.values.release_foreign();
    }
}

impl CdrMessage for Mask {
    const MESSAGE: &'static str = "afferent_msgs/msg/Mask";
    const SCHEMA: &'static str = concat!(
        "std_msgs/Header header
string kind # classes, instances or matte
string[] labels # by value
",
        geometry_fields!(),
        "uint32 height
uint32 width
uint8[] values # row after row
",
        ros_header!(),
        camera_definition!(),
    );
    type Wire = ((i32, u32), String, String, Vec<String>, Geometry, [u32; 2], Bytes);

    fn to_wire(&self) -> Self::Wire {
        let size = |size| u32::try_from(size).unwrap_or(u32::MAX);
        let sizes = [size(self.height()), size(self.width())];
        let geometry = Geometry::unchecked(&self.to_source, self.camera.as_deref());
        let (kind, labels) = (self.kind.word().to_owned(), self.label_texts());
        let values = Bytes(self.values.view().bytes().to_vec());
        ((0, 0), self.frame_id.clone(), kind, labels, geometry, sizes, values)
    }

    fn from_wire(
        (_, frame_id, kind, labels, geometry, sizes, values): Self::Wire,
    ) -> Result<Self, String> {
        let (to_source, camera) = geometry.into_parts()?;
        let (kind, values) = (choice("kind", &kind)?, values.0);
        let values = Tensor::new(&sizes.map(|size| size as usize), &values).map_err(|_| {
            format!("{} values are not {} rows of {}", values.len(), sizes[0], sizes[1])
        })?;
        Self::check(&values, labels.len())?;
        let labels = labels.into_iter().map(Arc::from).collect();
        Ok(Self { frame_id, kind, labels, values, to_source, camera })
    }
}

impl WireMessage for Mask {
    const LAYOUT: &'static str = concat!(
        "string frame_id
string kind
string[] labels
",
        geometry_fields!(),
        "uint64[2] sizes # rows, columns
bulk uint8[] values
",
        camera_definition!(),
    );
    type Meta = (String, String, Vec<String>, Geometry, [u64; 2]);

    fn to_parts(&self) -> Result<(Self::Meta, &[u8]), String> {
        Self::check(&self.values, self.labels.len())?;
        let geometry = Geometry::new(&self.to_source, self.camera.as_deref())?;
        let sizes = [self.height(), self.width()].map(|size| size as u64);
        let kind = self.kind.word().to_owned();
        let meta = (self.frame_id.clone(), kind, self.label_texts(), geometry, sizes);
        Ok((meta, self.values.view().bytes()))
    }

    fn from_parts(
        (frame_id, kind, labels, geometry, sizes): Self::Meta,
        bulk: ForeignBytes,
    ) -> Result<Self, String> {
        let (to_source, camera) = geometry.into_parts()?;
        let kind = choice("kind", &kind)?;
        let sizes = sizes.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let len = bulk.len();
        let values = Tensor::from_foreign(ScalarType::Byte, &sizes, &[0, 1], bulk)
            .map_err(|error| format!("{len} bulk bytes of sizes {sizes:?}: {error}"))?;
        Self::check(&values, labels.len())?;
        let labels = labels.into_iter().map(Arc::from).collect();
        Ok(Self { frame_id, kind, labels, values, to_source, camera })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_masks_are_checked() {
        let mut mask = Mask { labels: vec!["".into(), "cup".into()], ..Mask::default() };
        mask.reshape(3, 1).unwrap().copy_from_slice(&[0, 1, 2]);
        assert_eq!(mask.label(1).map(|label| &**label), Some("cup"));
        assert_eq!(mask.label(2), None);
        let check = |change: fn(&mut <Mask as CdrMessage>::Wire), expected: &str| {
            let mut wire = mask.to_wire();
            change(&mut wire);
            assert_eq!(Mask::from_wire(wire).unwrap_err(), expected);
        };
        check(|wire| wire.5 = [2, 2], "3 values are not 2 rows of 2");
        check(
            |wire| wire.2 = "soft".to_owned(),
            "kind \"soft\" is none of classes, instances, matte",
        );
        check(
            |wire| wire.3 = vec![String::new(); 257],
            "257 labels; values of 8 bits have at most 256",
        );
        let empty = |wire: &mut <Mask as CdrMessage>::Wire| {
            (wire.5, wire.6) = ([0, u32::MAX], Bytes(Vec::new()));
        };
        check(empty, "sizes [0, 4294967295] without values; each must be at most 65536");
    }
}

//! Depth maps.

use std::sync::Arc;

use afferent_core::{Error, ForeignBytes, ScalarType, Tensor};

use super::count;
use crate::{
    Affine, Camera, Cdr, CdrMessage, Wire, WireMessage,
    camera::{Geometry, camera_definition, geometry_fields},
    cdr::ros_header,
    wire::{Matrix, choice},
};
use afferent_graph::{Choice, Field, OnFull, Payload, RecordCodec, WireCodec, choices};

choices! {
    /// Meaning of the values of a depth map.
    #[derive(Default, Hash)]
    pub enum DepthKind {
        /// Distance along the optical axis in meters (REP 118).
        #[default]
        Metric = "metric",
        /// An inverse distance up to an unknown factor and offset of each image: larger is nearer.
        /// It orders points of one image and measures nothing.
        AffineInverse = "affine_inverse",
    }
}

/// Distances of the points that an image shows: a tensor `[height, width]` of `f32`. A value that is
/// not finite is unknown.
#[derive(Debug, Clone)]
pub struct Depth {
    /// Coordinate frame of the camera.
    pub frame_id: String,
    /// Meaning of the values.
    pub kind: DepthKind,
    /// The values, row after row.
    pub values: Tensor,
    /// Map from pixels of this map to pixels of the source image.
    pub to_source: Affine,
    /// Calibration of the camera for the source image, if known.
    pub camera: Option<Arc<Camera>>,
}

impl Default for Depth {
    /// A map without values.
    fn default() -> Self {
        Self {
            frame_id: String::new(),
            kind: DepthKind::default(),
            values: Tensor::zeros(ScalarType::Float, &[0, 0]),
            to_source: Affine::IDENTITY,
            camera: None,
        }
    }
}

impl Depth {
    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.values.sizes().get(1).copied().unwrap_or(0)
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.values.sizes().first().copied().unwrap_or(0)
    }

    /// Sets the size and returns the values for writing, row after row. Their content is
    /// unspecified.
    ///
    /// # Errors
    /// If the tensor is not of `f32`, or the size overflows.
    pub fn reshape(&mut self, width: usize, height: usize) -> Result<&mut [f32], Error> {
        self.values.resize(&[height, width])?;
        self.values.data_mut()
    }

    /// Sets the size of values that are there already, also on a device. Returns false if there are
    /// not that many.
    ///
    /// # Errors
    /// [`Error::DtypeMismatch`] if they are not of `f32`.
    pub fn reshape_values(&mut self, width: usize, height: usize) -> Result<bool, Error> {
        if self.values.dtype() != ScalarType::Float {
            let found = self.values.dtype();
            return Err(Error::DtypeMismatch { expected: ScalarType::Float, found });
        }
        Ok(self.values.set_sizes(&[height, width]).is_ok())
    }

    fn check(values: &Tensor) -> Result<(), String> {
        if values.dim_order() != [0, 1] {
            return Err("the values of a row must be adjacent".to_owned());
        }
        Ok(())
    }
}

impl Payload for Depth {
    const TYPE: &'static str = "vision/Depth";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Wire::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("kind", Field::Text(self.kind.word().to_owned())),
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

/// Fields of the message of a depth map.
macro_rules! depth_fields {
    () => {
        concat!(
            "std_msgs/Header header
string kind # metric, in meters, or affine_inverse
",
            geometry_fields!(),
            "uint32 height
uint32 width
float32[] values # row after row
"
        )
    };
}
pub(super) use depth_fields;

impl CdrMessage for Depth {
    const MESSAGE: &'static str = "afferent_msgs/msg/Depth";
    const SCHEMA: &'static str = concat!(depth_fields!(), ros_header!(), camera_definition!(),);
    type Wire = ((i32, u32), String, String, Geometry, [u32; 2], Vec<f32>);

    fn to_wire(&self) -> Self::Wire {
        let size = |size| u32::try_from(size).unwrap_or(u32::MAX);
        let sizes = [size(self.height()), size(self.width())];
        let geometry = Geometry::unchecked(&self.to_source, self.camera.as_deref());
        let values = self.values.data().map(<[f32]>::to_vec).unwrap_or_default();
        let kind = self.kind.word().to_owned();
        ((0, 0), self.frame_id.clone(), kind, geometry, sizes, values)
    }

    fn from_wire((_, frame_id, kind, geometry, sizes, values): Self::Wire) -> Result<Self, String> {
        let (to_source, camera) = geometry.into_parts()?;
        let kind = choice("kind", &kind)?;
        let values = Tensor::new(&sizes.map(|size| size as usize), &values).map_err(|_| {
            format!("{} values are not {} rows of {}", values.len(), sizes[0], sizes[1])
        })?;
        Ok(Self { frame_id, kind, values, to_source, camera })
    }
}

impl WireMessage for Depth {
    const LAYOUT: &'static str = concat!(
        "string frame_id
string kind
",
        geometry_fields!(),
        "uint64[2] sizes # rows, columns
uint8[2] dim_order
bulk float32[] values
",
        camera_definition!(),
    );
    type Meta = (String, String, Geometry, Matrix);

    fn to_parts(&self) -> Result<(Self::Meta, &[u8]), String> {
        Self::check(&self.values)?;
        let (matrix, bulk) = Matrix::of(&self.values)?;
        let geometry = Geometry::new(&self.to_source, self.camera.as_deref())?;
        Ok(((self.frame_id.clone(), self.kind.word().to_owned(), geometry, matrix), bulk))
    }

    fn from_parts(
        (frame_id, kind, geometry, matrix): Self::Meta,
        bulk: ForeignBytes,
    ) -> Result<Self, String> {
        let (to_source, camera) = geometry.into_parts()?;
        let kind = choice("kind", &kind)?;
        let values = matrix.into_tensor(bulk)?;
        Self::check(&values)?;
        Ok(Self { frame_id, kind, values, to_source, camera })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_maps_are_checked() {
        let mut depth = Depth::default();
        depth.reshape(3, 2).unwrap().copy_from_slice(&[0.5, 1.0, f32::NAN, 2.0, 3.0, 4.0]);
        assert_eq!((depth.width(), depth.height()), (3, 2));
        let check = |change: fn(&mut <Depth as CdrMessage>::Wire), expected: &str| {
            let mut wire = depth.to_wire();
            change(&mut wire);
            assert_eq!(Depth::from_wire(wire).unwrap_err(), expected);
        };
        check(|wire| wire.4 = [3, 3], "6 values are not 3 rows of 3");
        check(|wire| wire.2 = "mm".to_owned(), "kind \"mm\" is none of metric, affine_inverse");
        check(
            |wire| wire.3 = Geometry::unchecked(&Affine([[f64::NAN; 3]; 2]), None),
            "`to_source` must be finite",
        );
    }
}

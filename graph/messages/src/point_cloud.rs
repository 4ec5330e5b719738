//! Point clouds.

use afferent_core::{Error, ForeignBytes, ScalarType, Tensor};
use serde::{Deserialize, Serialize};

use crate::{Cdr, CdrMessage, Wire, WireMessage, bytes::Bytes, cdr::ros_header};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// Points with named values (ROS `sensor_msgs/PointCloud2`): a tensor `[rows, columns, fields]` of
/// `f32`.
///
/// A cloud that is not organized as an image has one row. Coordinates are in meters; a point whose
/// coordinates are not finite is missing.
#[derive(Debug, Clone)]
pub struct PointCloud {
    /// Coordinate frame of the points.
    pub frame_id: String,
    /// Names of the values of a point, such as `x`, `y`, `z`, `intensity`.
    pub fields: Vec<String>,
    /// The values, point after point.
    pub points: Tensor,
}

impl Default for PointCloud {
    /// No points, with the fields `x`, `y`, and `z`.
    fn default() -> Self {
        let fields = ["x", "y", "z"].map(str::to_owned).to_vec();
        let points = Tensor::zeros(ScalarType::Float, &[1, 0, 3]);
        Self { frame_id: String::new(), fields, points }
    }
}

impl PointCloud {
    /// Largest size of a cloud without points, and of one without fields. No byte backs such a
    /// size, but a node may loop over it.
    const MAX_EMPTY_SIZE: usize = 1 << 16;

    fn size(&self, dim: usize) -> usize {
        self.points.sizes().get(dim).copied().unwrap_or(0)
    }

    /// Number of rows; 1 if the cloud is not organized as an image.
    pub fn rows(&self) -> usize {
        self.size(0)
    }

    /// Number of points in a row.
    pub fn columns(&self) -> usize {
        self.size(1)
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.rows() * self.columns()
    }

    /// True if the cloud has no points.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of the value called `name` in a point.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field == name)
    }

    /// Sets the shape for points with [`PointCloud::fields`] and returns the values for writing,
    /// point after point.
    ///
    /// # Errors
    /// If the tensor is not of `f32`, or the size overflows.
    pub fn reshape(&mut self, rows: usize, columns: usize) -> Result<&mut [f32], Error> {
        self.points.resize(&[rows, columns, self.fields.len()])?;
        self.points.data_mut()
    }

    /// Checks the properties that nodes rely on.
    fn check(fields: usize, points: &Tensor) -> Result<(), String> {
        let sizes = points.sizes();
        if points.dtype() != ScalarType::Float || sizes.len() != 3 {
            let (rank, dtype) = (sizes.len(), points.dtype());
            return Err(format!(
                "the points are a tensor of {dtype} of rank {rank}; it must be one of f32 with \
                 sizes [rows, columns, fields]"
            ));
        }
        if points.dim_order() != [0, 1, 2] {
            return Err("the values of a point must be adjacent, in rows".to_owned());
        }
        if sizes[2] != fields {
            return Err(format!("points of {} values, but {fields} names of fields", sizes[2]));
        }
        let most = Self::MAX_EMPTY_SIZE;
        if sizes.contains(&0) && sizes.iter().any(|size| *size > most) {
            return Err(format!("sizes {sizes:?} without values; each must be at most {most}"));
        }
        Ok(())
    }
}

impl Payload for PointCloud {
    const TYPE: &'static str = "spatial/PointCloud";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Wire::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let int = |n: usize| Field::Int(i64::try_from(n).unwrap_or(i64::MAX));
        vec![
            ("frame_id", Field::Text(self.frame_id.clone())),
            ("fields", Field::Text(self.fields.join(" "))),
            ("rows", int(self.rows())),
            ("columns", int(self.columns())),
        ]
    }

    fn bulk_bytes(&self) -> usize {
        self.points.byte_len()
    }

    fn release_foreign(&mut self) {
        if self.points.is_foreign() {
            self.points.release_foreign();
            // A tensor without elements does not allocate, so this does not fail.
            let _ = self.reshape(1, 0);
        }
    }
}

/// `datatype` of a `float32` field.
const FLOAT32: u8 = 7;

/// The standard message of ROS 2, with fields of `float32`. Its stamp is zero because a recording
/// stores the timestamp beside each message.
impl CdrMessage for PointCloud {
    const MESSAGE: &'static str = "sensor_msgs/msg/PointCloud2";
    const SCHEMA: &'static str = concat!(
        "std_msgs/Header header
uint32 height
uint32 width
sensor_msgs/PointField[] fields
bool is_bigendian
uint32 point_step
uint32 row_step
uint8[] data
bool is_dense
",
        ros_header!(),
        "================================================================================
MSG: sensor_msgs/PointField
string name
uint32 offset
uint8 datatype
uint32 count
"
    );
    type Wire = RosPointCloud;

    fn to_wire(&self) -> RosPointCloud {
        let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        let values = self.points.data::<f32>().unwrap_or_default();
        let point_step = self.fields.len() * size_of::<f32>();
        let field =
            |(at, name): (usize, &String)| (name.clone(), size(at * size_of::<f32>()), FLOAT32, 1);
        RosPointCloud {
            stamp: (0, 0),
            frame_id: self.frame_id.clone(),
            height: size(self.rows()),
            width: size(self.columns()),
            fields: self.fields.iter().enumerate().map(field).collect(),
            is_bigendian: false,
            point_step: size(point_step),
            row_step: size(point_step.saturating_mul(self.columns())),
            data: Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            is_dense: values.iter().all(|value| value.is_finite()),
        }
    }

    fn from_wire(wire: RosPointCloud) -> Result<Self, String> {
        let step = wire.fields.len() * size_of::<f32>();
        let is_packed = wire.fields.iter().enumerate().all(|(at, (_, offset, datatype, count))| {
            (*offset as usize, *datatype, *count) == (at * size_of::<f32>(), FLOAT32, 1)
        });
        if !is_packed || wire.is_bigendian || wire.point_step as usize != step {
            return Err("the fields must be adjacent, of float32 in little endian".to_owned());
        }
        let sizes = [wire.height as usize, wire.width as usize, wire.fields.len()];
        let (values, rest) = wire.data.0.as_chunks::<4>();
        let values: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
        let points = Some(&sizes).filter(|_| rest.is_empty());
        let points =
            points.and_then(|sizes| Tensor::new(sizes, &values).ok()).ok_or_else(|| {
                format!("{} bytes do not match points of sizes {sizes:?}", wire.data.0.len())
            })?;
        Self::check(sizes[2], &points)?;
        let fields = wire.fields.into_iter().map(|(name, ..)| name).collect();
        Ok(Self { frame_id: wire.frame_id, fields, points })
    }
}

/// Fields of `sensor_msgs/msg/PointCloud2`.
#[derive(Serialize, Deserialize)]
pub struct RosPointCloud {
    stamp: (i32, u32),
    frame_id: String,
    height: u32,
    width: u32,
    fields: Vec<(String, u32, u8, u32)>,
    is_bigendian: bool,
    point_step: u32,
    row_step: u32,
    data: Bytes,
    is_dense: bool,
}

impl WireMessage for PointCloud {
    const LAYOUT: &'static str = "string frame_id
string[] fields
uint64[2] sizes # rows, columns
bulk float32[] points
";
    type Meta = (String, Vec<String>, [u64; 2]);

    fn to_parts(&self) -> Result<(Self::Meta, &[u8]), String> {
        Self::check(self.fields.len(), &self.points)?;
        let sizes = [self.rows(), self.columns()].map(|size| size as u64);
        let meta = (self.frame_id.clone(), self.fields.clone(), sizes);
        Ok((meta, self.points.view().bytes()))
    }

    fn from_parts(
        (frame_id, fields, sizes): Self::Meta,
        bulk: ForeignBytes,
    ) -> Result<Self, String> {
        let [rows, columns] = sizes.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let (len, sizes) = (bulk.len(), [rows, columns, fields.len()]);
        let points = Tensor::from_foreign(ScalarType::Float, &sizes, &[0, 1, 2], bulk)
            .map_err(|error| format!("{len} bulk bytes of sizes {sizes:?}: {error}"))?;
        Self::check(fields.len(), &points)?;
        Ok(Self { frame_id, fields, points })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_addressed_by_field() {
        let mut cloud = PointCloud::default();
        cloud.fields.push("intensity".to_owned());
        cloud.reshape(2, 3).unwrap().fill(0.5);
        assert_eq!((cloud.rows(), cloud.columns(), cloud.len()), (2, 3, 6));
        assert_eq!((cloud.field("intensity"), cloud.field("rgb")), (Some(3), None));
        assert_eq!(cloud.points.sizes(), [2, 3, 4]);
        assert!(PointCloud::default().is_empty());
    }

    #[test]
    fn recorded_clouds_of_another_layout_are_refused() {
        let mut cloud = PointCloud::default();
        cloud.reshape(1, 2).unwrap().copy_from_slice(&[1.0, 2.0, 3.0, 4.0, f32::NAN, 6.0]);
        assert!(!cloud.to_wire().is_dense);
        let check = |change: fn(&mut RosPointCloud), expected: &str| {
            let mut wire = cloud.to_wire();
            change(&mut wire);
            let error = PointCloud::from_wire(wire).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        let layout = "the fields must be adjacent, of float32 in little endian";
        check(|wire| wire.is_bigendian = true, layout);
        check(|wire| wire.fields[1].1 = 8, layout);
        check(|wire| wire.fields[1].2 = 8, layout);
        check(|wire| wire.point_step = 16, layout);
        check(|wire| wire.height = 2, "24 bytes do not match points of sizes [2, 2, 3]");
        check(|wire| wire.data.0.push(0), "25 bytes do not match points of sizes [1, 2, 3]");
        let huge = |wire: &mut RosPointCloud| {
            (wire.height, wire.width) = (u32::MAX, 0);
            wire.data.0.clear();
        };
        check(huge, "without values; each must be at most 65536");
    }
}

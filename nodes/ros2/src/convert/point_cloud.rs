//! `sensor_msgs/PointCloud2` and point clouds.

use std::borrow::Cow;

use afferent_messages::PointCloud;

use super::{IS_BIG_ENDIAN, fault};
use crate::{
    Error,
    msg::{
        sensor_msgs::{PointCloud2, PointField},
        std_msgs::Header,
    },
};

/// Most values of a point.
const MAX_VALUES: usize = 256;

/// `datatype` of a `float32` field.
const FLOAT32: u8 = 7;

/// Sizes of the data types, from 1: signed and unsigned integers of 8, 16 and 32 bits, `float32`
/// and `float64`.
const SIZES: [usize; 8] = [1, 1, 2, 2, 4, 4, 4, 8];

/// One value of each point.
struct Value {
    offset: usize,
    datatype: u8,
    len: usize,
}

impl Value {
    /// The value in the bytes of a point, from its offset on.
    fn read(&self, point: &[u8], is_big_endian: bool) -> f32 {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..self.len];
        bytes.copy_from_slice(&point[self.offset..][..self.len]);
        if is_big_endian {
            bytes.reverse();
        }
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| bytes.get(at).copied().unwrap_or(0));
        match (self.datatype, &*bytes) {
            (1, _) => f32::from(a.cast_signed()),
            (2, _) => f32::from(a),
            (3, _) => f32::from(i16::from_le_bytes([a, b])),
            (4, _) => f32::from(u16::from_le_bytes([a, b])),
            (5, _) => i32::from_le_bytes([a, b, c, d]) as f32,
            (6, _) => u32::from_le_bytes([a, b, c, d]) as f32,
            (_, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32,
            _ => f32::from_le_bytes([a, b, c, d]),
        }
    }
}

impl<'c> PointCloud2<'c> {
    /// Replaces `cloud` by the message. A field with several elements gets one name for each, such
    /// as `normal_0`. Integers of 32 bits and `float64` are rounded to `f32`.
    ///
    /// # Errors
    /// [`Error::Convert`] for an unknown data type, for fields that overlap, for more than 256 values
    /// a point, and for a shape that does not match the data.
    pub fn fill(&self, cloud: &mut PointCloud) -> Result<(), Error> {
        let size = |size: u32| usize::try_from(size).unwrap_or(usize::MAX);
        let [height, width, point_step, row_step] =
            [self.height, self.width, self.point_step, self.row_step].map(size);
        if row_step.checked_mul(height) != Some(self.data.len())
            || point_step.checked_mul(width).is_none_or(|len| len > row_step)
        {
            return Err(fault::<Self>(format!(
                "{} bytes do not match {height} rows of {row_step} bytes with {width} points of \
                 {point_step} bytes",
                self.data.len()
            )));
        }
        let values = self.values(point_step, &mut cloud.fields)?;
        cloud.frame_id.clone_from(&self.header.frame_id);
        // No byte backs the size of a cloud without points.
        let (height, width) = if height == 0 || width == 0 { (1, 0) } else { (height, width) };
        if values.is_empty() && width > 0 {
            return Err(fault::<Self>(format!("{width} points without a field")));
        }
        let out = cloud.reshape(height, width).map_err(fault::<Self>)?;
        if out.is_empty() {
            return Ok(());
        }
        let rows = self.data.chunks_exact(row_step);
        let points = rows.flat_map(|row| row.chunks_exact(point_step).take(width));
        for (point, out) in points.zip(out.chunks_exact_mut(values.len())) {
            for (value, out) in values.iter().zip(out) {
                *out = value.read(point, self.is_bigendian);
            }
        }
        Ok(())
    }

    /// The values of a point, whose names replace `names`.
    fn values(&self, point_step: usize, names: &mut Vec<String>) -> Result<Vec<Value>, Error> {
        let mut values = Vec::new();
        names.clear();
        for PointField { name, offset, datatype, count } in &self.fields {
            let len = usize::from(*datatype).checked_sub(1).and_then(|at| SIZES.get(at));
            let len = *len.ok_or_else(|| {
                fault::<Self>(format!("field {name:?} has data type {datatype}; known are 1 to 8"))
            })?;
            // Old drivers write zero for one element.
            let count = (*count).max(1) as usize;
            if values.len().saturating_add(count) > MAX_VALUES {
                let reason = format!("a point has more than {MAX_VALUES} values");
                return Err(fault::<Self>(reason));
            }
            for at in 0..count {
                let offset = (*offset as usize).saturating_add(at * len);
                if offset.saturating_add(len) > point_step {
                    let reason = format!("field {name:?} is beyond a point of {point_step} bytes");
                    return Err(fault::<Self>(reason));
                }
                values.push(Value { offset, datatype: *datatype, len });
                names.push(if count == 1 { name.clone() } else { format!("{name}_{at}") });
            }
        }
        // Without overlaps, a cloud takes at most four times the memory of its message.
        if values.iter().map(|value| value.len).sum::<usize>() > point_step {
            return Err(fault::<Self>(format!("fields of a point of {point_step} bytes overlap")));
        }
        Ok(values)
    }

    /// Message that borrows the points of `cloud`, with fields of `float32`. The coordinate frame of
    /// the header becomes that of the cloud.
    ///
    /// # Errors
    /// [`Error::Convert`] if the points are not a tensor of `f32` with sizes `[rows, columns,
    /// fields]`, or a size does not fit the message.
    pub fn from_payload(cloud: &'c PointCloud, header: Header) -> Result<Self, Error> {
        let values = cloud.points.data::<f32>().map_err(fault::<Self>)?;
        let (sizes, fields) = (cloud.points.sizes(), cloud.fields.len());
        if sizes.len() != 3 || sizes[2] != fields || cloud.points.dim_order() != [0, 1, 2] {
            return Err(fault::<Self>(format!(
                "points of sizes {sizes:?} are not rows and columns of {fields} fields"
            )));
        }
        let size = |size| {
            u32::try_from(size).map_err(|_| fault::<Self>(format!("size {size} is too large")))
        };
        let point_step = fields * size_of::<f32>();
        let field = |(at, name): (usize, &String)| {
            let offset = size(at * size_of::<f32>())?;
            Ok(PointField { name: name.clone(), offset, datatype: FLOAT32, count: 1 })
        };
        Ok(Self {
            header: Header { frame_id: cloud.frame_id.clone(), ..header },
            height: size(cloud.rows())?,
            width: size(cloud.columns())?,
            fields: cloud.fields.iter().enumerate().map(field).collect::<Result<_, Error>>()?,
            is_bigendian: IS_BIG_ENDIAN,
            point_step: size(point_step)?,
            row_step: size(point_step.saturating_mul(cloud.columns()))?,
            data: Cow::Borrowed(cloud.points.view().bytes()),
            is_dense: values.iter().all(|value| value.is_finite()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdr;

    fn field(name: &str, offset: u32, datatype: u8, count: u32) -> PointField {
        PointField { name: name.to_owned(), offset, datatype, count }
    }

    #[test]
    fn clouds_round_trip_without_a_copy() {
        let mut cloud = PointCloud { frame_id: "lidar".to_owned(), ..PointCloud::default() };
        let values = [1.0, -0.0, f32::from_bits(0x7fa0_1234), 1e-42, 5.0, 6.0];
        cloud.reshape(2, 1).unwrap().copy_from_slice(&values);
        let message = PointCloud2::from_payload(&cloud, Header::default()).unwrap();
        assert_eq!(message.data.as_ptr(), cloud.points.view().bytes().as_ptr());
        assert_eq!((message.point_step, message.row_step, message.is_dense), (12, 12, false));
        let mut again = PointCloud::default();
        message.fill(&mut again).unwrap();
        assert_eq!((&again.frame_id, &again.fields), (&cloud.frame_id, &cloud.fields));
        assert_eq!(again.points.sizes(), cloud.points.sizes());
        assert_eq!(again.points.view().bytes(), cloud.points.view().bytes());
    }

    /// Two points in rows with gaps, of every data type.
    fn every_type(is_big_endian: bool) -> PointCloud2<'static> {
        let mut fields = Vec::new();
        let mut data = Vec::new();
        let values: [&[u8]; 9] = [
            &(-3_i8).to_be_bytes(),
            &200_u8.to_be_bytes(),
            &(-300_i16).to_be_bytes(),
            &60_000_u16.to_be_bytes(),
            &(-70_000_i32).to_be_bytes(),
            &3_000_000_000_u32.to_be_bytes(),
            &0.1_f32.to_be_bytes(),
            &1e300_f64.to_be_bytes(),
            &(-2.5_f64).to_be_bytes(),
        ];
        for (at, bytes) in values.iter().enumerate() {
            let datatype = [1, 2, 3, 4, 5, 6, 7, 8, 8][at];
            fields.push(field(&format!("f{at}"), data.len() as u32, datatype, 0));
            data.extend(bytes.iter());
            if !is_big_endian {
                let start = data.len() - bytes.len();
                data[start..].reverse();
            }
        }
        data.extend([0xee; 3]);
        let point_step = data.len() as u32;
        data.extend(data.clone());
        data.extend([0xee; 5]);
        PointCloud2 {
            height: 1,
            width: 2,
            fields,
            is_bigendian: is_big_endian,
            point_step,
            row_step: data.len() as u32,
            data: Cow::Owned(data),
            ..PointCloud2::default()
        }
    }

    #[test]
    fn every_data_type_is_read_in_both_byte_orders() {
        for is_big_endian in [false, true] {
            let mut cloud = PointCloud::default();
            every_type(is_big_endian).fill(&mut cloud).unwrap();
            let point = [-3.0, 200.0, -300.0, 60_000.0, -70_000.0, 3e9, 0.1, f32::INFINITY, -2.5];
            assert_eq!(cloud.points.data::<f32>().unwrap(), [point, point].concat());
            assert_eq!(cloud.points.sizes(), [1, 2, 9]);
        }
    }

    #[test]
    fn fields_with_several_elements_get_one_name_for_each() {
        let message = PointCloud2 {
            height: 1,
            width: 1,
            fields: vec![field("normal", 0, 7, 2), field("x", 8, 2, 1)],
            point_step: 9,
            row_step: 9,
            data: Cow::Borrowed(&[0, 0, 128, 63, 0, 0, 0, 64, 7]),
            ..PointCloud2::default()
        };
        let mut cloud = PointCloud::default();
        message.fill(&mut cloud).unwrap();
        assert_eq!(cloud.fields, ["normal_0", "normal_1", "x"]);
        assert_eq!(cloud.points.data::<f32>().unwrap(), [1.0, 2.0, 7.0]);
        let empty = PointCloud2 { width: 0, row_step: 0, data: Cow::default(), ..message };
        empty.fill(&mut cloud).unwrap();
        assert_eq!(cloud.points.sizes(), [1, 0, 3]);
        let tall = PointCloud2 { height: u32::MAX, ..empty };
        tall.fill(&mut cloud).unwrap();
        assert_eq!(cloud.points.sizes(), [1, 0, 3]);
    }

    #[test]
    fn clouds_that_do_not_match_their_data_are_refused() {
        let check = |change: fn(&mut PointCloud2<'_>), expected: &str| {
            let mut message = every_type(false);
            change(&mut message);
            let error = message.fill(&mut PointCloud::default()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(|cloud| cloud.height = 2, "bytes do not match 2 rows of");
        check(|cloud| cloud.width = 3, "with 3 points of");
        check(|cloud| cloud.width = u32::MAX, "bytes do not match");
        check(|cloud| cloud.fields[0].datatype = 0, "field \"f0\" has data type 0");
        check(|cloud| cloud.fields[0].datatype = 9, "known are 1 to 8");
        check(|cloud| cloud.fields[0].offset = u32::MAX, "field \"f0\" is beyond a point of");
        check(|cloud| cloud.fields[8].count = 3, "field \"f8\" is beyond a point of");
        check(|cloud| cloud.fields[0].count = u32::MAX, "more than 256 values");
        check(
            |cloud| cloud.fields.extend(cloud.fields.clone()),
            "fields of a point of 37 bytes overlap",
        );
        let points_of_nothing = |cloud: &mut PointCloud2<'_>| {
            cloud.fields.clear();
            (cloud.point_step, cloud.width) = (0, u32::MAX);
        };
        check(points_of_nothing, "4294967295 points without a field");
        let cloud = PointCloud { fields: vec!["x".to_owned()], ..PointCloud::default() };
        let error = PointCloud2::from_payload(&cloud, Header::default()).unwrap_err();
        assert!(error.to_string().contains("sizes [1, 0, 3] are not rows and columns of 1 fields"));
    }

    #[test]
    fn damaged_clouds_give_an_error_or_a_cloud_of_limited_size() {
        let (mut bytes, mut refused) = (Vec::new(), 0);
        cdr::encode(&every_type(false), &mut bytes).unwrap();
        for at in 4..bytes.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                bytes[at] ^= flip;
                let mut cloud = PointCloud::default();
                let filled = cdr::decode::<PointCloud2<'_>>(&bytes)
                    .and_then(|message| message.fill(&mut cloud));
                refused += usize::from(filled.is_err());
                assert!(cloud.points.view().bytes().len() <= 4 * bytes.len());
                bytes[at] ^= flip;
            }
        }
        assert!(refused > 100, "{refused}");
    }
}

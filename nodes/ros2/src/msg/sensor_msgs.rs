//! Package `sensor_msgs`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{
    bytes,
    geometry_msgs::{Quaternion, Vector3},
    std_msgs::Header,
};

/// An image that is not compressed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct Image<'a> {
    pub header: Header,
    pub height: u32,
    pub width: u32,
    pub encoding: Cow<'a, str>,
    pub is_bigendian: u8,
    pub step: u32,
    #[serde(borrow, with = "bytes")]
    pub data: Cow<'a, [u8]>,
}

/// A compressed image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct CompressedImage<'a> {
    pub header: Header,
    pub format: String,
    #[serde(borrow, with = "bytes")]
    pub data: Cow<'a, [u8]>,
}

/// A measurement of an inertial measurement unit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct Imu {
    pub header: Header,
    pub orientation: Quaternion,
    pub orientation_covariance: [f64; 9],
    pub angular_velocity: Vector3,
    pub angular_velocity_covariance: [f64; 9],
    pub linear_acceleration: Vector3,
    pub linear_acceleration_covariance: [f64; 9],
}

/// A field of the points of a [`PointCloud2`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct PointField {
    pub name: String,
    pub offset: u32,
    pub datatype: u8,
    pub count: u32,
}

/// Points with named fields.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct PointCloud2<'a> {
    pub header: Header,
    pub height: u32,
    pub width: u32,
    pub fields: Vec<PointField>,
    pub is_bigendian: bool,
    pub point_step: u32,
    pub row_step: u32,
    #[serde(borrow, with = "bytes")]
    pub data: Cow<'a, [u8]>,
    pub is_dense: bool,
}

/// A part of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct RegionOfInterest {
    pub x_offset: u32,
    pub y_offset: u32,
    pub height: u32,
    pub width: u32,
    pub do_rectify: bool,
}

/// Calibration of a camera.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in the ROS message")]
pub struct CameraInfo {
    pub header: Header,
    pub height: u32,
    pub width: u32,
    pub distortion_model: String,
    pub d: Vec<f64>,
    pub k: [f64; 9],
    pub r: [f64; 9],
    pub p: [f64; 12],
    pub binning_x: u32,
    pub binning_y: u32,
    pub roi: RegionOfInterest,
}

super::ros_messages! {
    CameraInfo: "sensor_msgs/msg/CameraInfo",
        "b3dfd68ff46c9d56c80fd3bd4ed22c7a4ddce8c8348f2f59c299e73118e7e275";
    CompressedImage<'_>: "sensor_msgs/msg/CompressedImage",
        "15640771531571185e2efc8a100baf923961a4d15d5569652e6cb6691e8e371a";
    Image<'_>: "sensor_msgs/msg/Image",
        "d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47";
    Imu: "sensor_msgs/msg/Imu",
        "7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b";
    PointCloud2<'_>: "sensor_msgs/msg/PointCloud2",
        "9198cabf7da3796ae6fe19c4cb3bdd3525492988c70522628af5daa124bae2b5";
}

//! Messages, keys and tokens agree with other implementations of ROS 2 (`data/make.py`).

use std::borrow::Cow;

use afferent_nodes_ros2::{
    Attachment, Error, Qos, cdr,
    key::TopicKey,
    liveliness::{EndpointKind, NodeToken, Token},
    msg::{
        RosMessage,
        audio_common_msgs::{AudioData, AudioDataStamped},
        builtin_interfaces::Time,
        geometry_msgs::{
            Point, Pose, PoseStamped, Quaternion, Transform, TransformStamped, Vector3,
        },
        sensor_msgs::{
            CameraInfo, CompressedImage, Image, Imu, PointCloud2, PointField, RegionOfInterest,
        },
        std_msgs::{self, Header},
        tf2_msgs::TFMessage,
    },
};
use serde::{Deserialize, Serialize};

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).expect("text"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits")).collect()
}

/// Lines of `data/messages.txt`: name, message in little endian, message in big endian.
struct Messages(std::str::Lines<'static>);

impl Messages {
    /// Checks that `message` has the bytes of the next line, and is read from them in both byte
    /// orders. Shorter bytes are refused.
    fn check<M>(&mut self, message: M)
    where
        M: RosMessage + Serialize + Deserialize<'static> + PartialEq + std::fmt::Debug,
    {
        let parts: Vec<&str> = self.0.next().expect("a line for each message").split(' ').collect();
        let [name, little, big] = parts[..] else { panic!("three parts in {parts:?}") };
        assert_eq!(name, M::NAME);
        let mut encoded = Vec::new();
        cdr::encode(&message, &mut encoded).expect("the message is short");
        assert_eq!(encoded, bytes(little), "{name}");
        for hex in [little, big] {
            // Values of the type borrow from bytes that are never freed.
            let bytes: &'static [u8] = bytes(hex).leak();
            assert_eq!(cdr::decode::<M>(bytes).as_ref(), Ok(&message));
            for len in 0..bytes.len() {
                assert!(cdr::decode::<M>(&bytes[..len]).is_err(), "{len} bytes of {name}");
            }
            for at in 4..bytes.len() {
                for flip in [1, 0x40, 0xff] {
                    let mut wrong = bytes.to_vec();
                    wrong[at] ^= flip;
                    // An error or another value, but no panic.
                    drop(cdr::decode::<M>(wrong.leak()));
                }
            }
        }
    }
}

fn header(frame_id: &str) -> Header {
    Header { stamp: Time { sec: -5, nanosec: 999_999_999 }, frame_id: frame_id.to_owned() }
}

fn octets(count: u8) -> Cow<'static, [u8]> {
    Cow::Owned((0..count).collect())
}

fn floats<const N: usize>(first: i32) -> [f64; N] {
    std::array::from_fn(|at| f64::from(first) + at as f64)
}

fn quaternion(x: f64, y: f64, z: f64, w: f64) -> Quaternion {
    Quaternion { x, y, z, w }
}

fn transform(parent: &str, child: &str, x: f64) -> TransformStamped {
    TransformStamped {
        header: header(parent),
        child_frame_id: child.to_owned(),
        transform: Transform {
            translation: Vector3 { x, y: -2.5, z: 1e300 },
            rotation: quaternion(0.5, -0.5, 0.5, -0.5),
        },
    }
}

fn imu() -> Imu {
    Imu {
        header: header("imu_link"),
        orientation: quaternion(0.0, 0.0, 0.0, 1.0),
        orientation_covariance: floats(-1),
        angular_velocity: Vector3 { x: 0.25, y: -0.0, z: 3.0 },
        angular_velocity_covariance: floats(10),
        linear_acceleration: Vector3 { x: 0.0, y: 0.0, z: 9.8125 },
        linear_acceleration_covariance: floats(20),
    }
}

fn point_cloud() -> PointCloud2<'static> {
    let field = |name: &str, offset, datatype| PointField {
        name: name.to_owned(),
        offset,
        datatype,
        count: 1,
    };
    PointCloud2 {
        header: header("l"),
        height: 1,
        width: 2,
        fields: vec![field("x", 0, 7), field("intensity", 4, 2)],
        is_bigendian: false,
        point_step: 5,
        row_step: 10,
        data: octets(10),
        is_dense: true,
    }
}

fn camera_info(d: &[f64], distortion_model: &str) -> CameraInfo {
    CameraInfo {
        header: header("cam"),
        height: 480,
        width: 640,
        distortion_model: distortion_model.to_owned(),
        d: d.to_vec(),
        k: floats(1),
        r: floats(2),
        p: floats(3),
        binning_x: 1,
        binning_y: 2,
        roi: RegionOfInterest { x_offset: 1, y_offset: 2, height: 3, width: 4, do_rectify: true },
    }
}

#[test]
fn messages_have_the_bytes_of_rosbags() {
    let mut messages = Messages(include_str!("data/messages.txt").lines());
    for data in ["", "h\u{e9}llo"] {
        messages.check(std_msgs::String { data: data.into() });
    }
    messages.check(Image {
        header: header("camera"),
        height: 2,
        width: 3,
        encoding: "rgb8".into(),
        is_bigendian: 0,
        step: 11,
        data: octets(22),
    });
    let compressed = CompressedImage { header: header(""), format: "jpeg".into(), data: octets(5) };
    messages.check(compressed);
    messages.check(imu());
    messages.check(point_cloud());
    messages.check(camera_info(&floats::<5>(0), "plumb_bob"));
    messages.check(camera_info(&[], ""));
    messages.check(PoseStamped {
        header: header("map"),
        pose: Pose {
            position: Point { x: 1.0, y: 2.0, z: 3.0 },
            orientation: quaternion(0.0, 0.0, 1.0, 0.0),
        },
    });
    messages.check(TFMessage::default());
    let transforms = vec![transform("map", "odom", 1.0), transform("odometry", "b", 2.0)];
    messages.check(TFMessage { transforms });
    let audio = AudioData { data: octets(3) };
    messages.check(AudioDataStamped { header: header("mic"), audio });
    assert_eq!(messages.0.next(), None, "every message was checked");
}

#[test]
fn byte_sequences_are_borrowed() {
    let mut bytes = Vec::new();
    cdr::encode(&AudioData { data: octets(3) }, &mut bytes).unwrap();
    let message: AudioData<'_> = cdr::decode(&bytes).unwrap();
    assert_eq!(message.data.as_ptr(), bytes[8..].as_ptr());
}

#[test]
fn other_encodings_and_long_messages_are_refused() {
    let check = |bytes: &[u8], reason: &str| {
        let message = cdr::decode::<std_msgs::String<'_>>(bytes);
        let (name, reason) = ("std_msgs/msg/String".to_owned(), reason.to_owned());
        assert_eq!(message, Err(Error::Cdr { message: name, reason }));
    };
    check(&[0, 1, 0], "3 bytes are less than a CDR header");
    let accepted = "is not supported; accepted are 00 00 and 00 01 (XCDR1)";
    check(&[0, 7, 0, 0, 1, 0, 0, 0, 0], &format!("encoding 00 07 {accepted}"));
    let text = [0, 1, 0, 0, 1, 0, 0, 0, 0];
    for padding in 0..4 {
        let padded = [&text[..], &vec![0; padding]].concat();
        assert!(cdr::decode::<std_msgs::String<'_>>(&padded).is_ok());
    }
    check(&[&text[..], &[0; 4]].concat(), "4 bytes follow the last field");
    check(&[0, 1, 0, 0, 255, 255, 255, 255, 0], "unexpected end of input");
}

/// Keys of zenoh-ros2-sdk and pamoja-ros2.
#[test]
fn keys_and_tokens_have_the_format_of_other_implementations() {
    let lines: Vec<&str> = include_str!("data/keys.txt").lines().collect();
    let [topic, node, publisher, attachment] = lines[..] else { panic!("four lines") };
    let key = TopicKey::new::<Image<'_>>(7, "/camera/image_raw").unwrap();
    assert_eq!(key.publish(), topic);
    let mut token = NodeToken::new(7, "a1b2c3", 1, "afferent").unwrap();
    token.namespace = "/robot".to_owned();
    assert_eq!(token.to_string(), node);
    let endpoint = token.endpoint(2, EndpointKind::Publisher, &key, Qos::SENSOR_DATA);
    assert_eq!(endpoint.to_string(), publisher);
    assert_eq!(Token::parse(publisher), Ok(Token::Endpoint(endpoint)));
    let gid = std::array::from_fn(|at| at as u8);
    let expected = Attachment { sequence: 1, source_timestamp_ns: 1 << 60, gid };
    assert_eq!(expected.to_bytes()[..], bytes(attachment));
    assert_eq!(Attachment::from_bytes(&bytes(attachment)), Ok(expected));
}

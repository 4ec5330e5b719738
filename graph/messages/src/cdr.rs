//! Recorded form of payloads: little-endian CDR with ROS 2 message definitions.

use std::{any::Any, borrow::Cow, marker::PhantomData};

use afferent_graph::{AnyPayload, Header, Packet, Payload, RecordCodec};
use cdr_encoding::{from_bytes, to_writer};
use serde::{Serialize, de::DeserializeOwned};

/// A payload type that is recorded as a ROS 2 message.
///
/// The type sets [`Payload::CODEC`] to `Some(&Cdr::<Self>::NEW)`.
pub trait CdrMessage: Payload {
    /// Name of the ROS 2 message, for example `afferent_msgs/msg/AudioBlock`.
    const MESSAGE: &'static str;

    /// Fields of the message as a ROS 2 message definition.
    const SCHEMA: &'static str;

    /// True if the message holds compressed data. Values are then compared by
    /// [`CdrMessage::write_uncompressed`], which is cheaper and independent of the compressor.
    const IS_COMPRESSED: bool = false;

    /// Fields of the message, in order.
    type Wire: Serialize + DeserializeOwned;

    /// Reads memory on a device back, unless that has been done.
    ///
    /// # Errors
    /// The device was lost.
    fn fetch(&self) -> Result<(), String> {
        Ok(())
    }

    /// Converts the value to the fields of the message.
    fn to_wire(&self) -> Self::Wire;

    /// Builds the value from the fields of a message.
    ///
    /// # Errors
    /// The invalid field and its accepted values.
    fn from_wire(wire: Self::Wire) -> Result<Self, String>;

    /// Appends every property of the value to `bytes`. Used where the message is compressed.
    fn write_uncompressed(&self, bytes: &mut Vec<u8>) {
        let _ = bytes;
    }
}

/// Codec of the [`CdrMessage`] `T`: a CDR header of 4 bytes, then the fields. Read by ROS 2 and
/// Foxglove.
pub struct Cdr<T>(PhantomData<fn() -> T>);

impl<T> Cdr<T> {
    /// The codec.
    pub const NEW: Self = Self(PhantomData);
}

/// Message definitions that ROS 2 messages with a header depend on.
macro_rules! ros_header {
    () => {
        "================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"
    };
}
pub(crate) use ros_header;

/// CDR header: little endian, no options.
const CDR_LE: [u8; 4] = [0, 1, 0, 0];

impl<T: CdrMessage> RecordCodec for Cdr<T> {
    fn message(&self) -> &str {
        T::MESSAGE
    }

    fn schema(&self) -> &str {
        T::SCHEMA
    }

    fn encode(&self, value: &dyn AnyPayload, bytes: &mut Vec<u8>) -> Result<(), String> {
        let value = typed::<T>(value)?;
        value.fetch()?;
        write(&value.to_wire(), bytes)
    }

    fn encode_uncompressed(
        &self,
        value: &dyn AnyPayload,
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        if !T::IS_COMPRESSED {
            return self.encode(value, bytes);
        }
        let value = typed::<T>(value)?;
        value.fetch()?;
        value.write_uncompressed(bytes);
        Ok(())
    }

    fn uncompressed<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, String> {
        if !T::IS_COMPRESSED {
            return Ok(Cow::Borrowed(bytes));
        }
        let packet = self.decode(bytes, Header::default())?;
        let mut uncompressed = Vec::new();
        packet
            .payload()
            .map_or(Ok(()), |value| self.encode_uncompressed(value, &mut uncompressed))?;
        Ok(Cow::Owned(uncompressed))
    }

    fn decode(&self, bytes: &[u8], header: Header) -> Result<Packet, String> {
        let (wire, _) = read(bytes)?;
        Ok(Packet::new(T::from_wire(wire)?, header))
    }
}

/// Appends a CDR header and `fields`.
pub(crate) fn write(fields: &impl Serialize, bytes: &mut Vec<u8>) -> Result<(), String> {
    bytes.extend(CDR_LE);
    to_writer::<_, byteorder::LittleEndian, _>(bytes, fields).map_err(|error| error.to_string())
}

/// Reads the fields after a CDR header. Also returns the number of bytes that are left.
pub(crate) fn read<W: DeserializeOwned>(bytes: &[u8]) -> Result<(W, usize), String> {
    let body = bytes.strip_prefix(&CDR_LE).ok_or("it is not CDR in little endian")?;
    let (fields, len) =
        from_bytes::<W, byteorder::LittleEndian>(body).map_err(|error| error.to_string())?;
    Ok((fields, body.len().saturating_sub(len)))
}

/// Reads the fields after a CDR header.
///
/// # Errors
/// Also if bytes are left.
pub(crate) fn read_all<W: DeserializeOwned>(bytes: &[u8]) -> Result<W, String> {
    match read(bytes)? {
        (fields, 0) => Ok(fields),
        (_, left) => Err(format!("{left} bytes follow the last field of the metadata")),
    }
}

/// The value as a `T`.
pub(crate) fn typed<T: Payload>(value: &dyn AnyPayload) -> Result<&T, String> {
    (value as &dyn Any).downcast_ref::<T>().ok_or_else(|| format!("the value is not a {}", T::TYPE))
}

#[cfg(test)]
mod tests {
    use afferent_core::Tensor;
    use afferent_graph::Timestamp;

    use super::*;
    use crate::{
        AudioBlock, Features, Gain, HeardWord, Image, Imu, Interruption, KeywordEvent, PixelFormat,
        Played, PointCloud, Pose, SampleRate, SpeechEvent, SpeechEventKind, Text, Transcript,
        Transform, Transforms, TurnEvent, TurnEventKind, Word,
        vision::{Depth, DepthKind, Embedding, Mask},
    };

    /// Checks that `value` survives encoding and decoding. Returns the bytes after the CDR header.
    fn check<T: CdrMessage>(value: &T) -> Vec<u8> {
        let codec = T::CODEC.unwrap();
        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        codec.encode(value, &mut bytes).unwrap();
        let packet = codec.decode(&bytes, Header::default()).unwrap();
        codec.encode(packet.get::<T>().unwrap(), &mut again).unwrap();
        assert_eq!(bytes, again);
        for len in 0..bytes.len() {
            // Decoding a truncated message fails or returns a shorter value. It must not panic.
            drop(codec.decode(&bytes[..len], Header::default()));
        }
        assert!(codec.decode(&bytes[..3], Header::default()).is_err());
        assert!(
            codec.encode(&KeywordEvent::default(), &mut again).is_ok()
                == (T::TYPE == KeywordEvent::TYPE)
        );
        bytes.split_off(4)
    }

    #[test]
    fn values_round_trip() {
        let samples =
            Tensor::new(&[2, 3], &[0.0_f32, -0.0, f32::NAN, 1e-42, f32::MAX, 0.1]).unwrap();
        let bytes = check(&AudioBlock { samples, rate: SampleRate(48_000) });
        assert_eq!(
            bytes[..12],
            [0x80, 0xbb, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0],
            "rate, channels, length"
        );
        check(&AudioBlock::default());
        check(&Features::default());
        check(&SpeechEvent { kind: SpeechEventKind::End, probability: 0.25 });
        check(&KeywordEvent { label: "hey ✓".to_owned(), score: 0.5 });
        let word = |text: &str, start| HeardWord {
            text: text.to_owned(),
            start: Timestamp(start),
            end: Timestamp(start + 5),
            speaker: u32::try_from(start).ok(),
        };
        let words = vec![word("stop", -3), word("", 7)];
        check(&Transcript { utterance: 3, is_final: true, words, language: "es".to_owned() });
        let imu = Imu { angular_velocity_rad_s: [0.1, 0.2, 0.3], ..Imu::default() };
        check(&imu);
        check(&Text { turn: 7, text: "Hey, \"you\"!".to_owned(), is_last: false });
        let duration = std::time::Duration::from_millis(130);
        check(&Word { turn: 1, text: "hey".to_owned(), duration, position: 5 });
        check(&TurnEvent { turn: 2, kind: TurnEventKind::Resume });
        check(&Interruption { reason: "speech".to_owned() });
        check(&Played { until: Timestamp(-5), is_playing: true });
        check(&Gain { decibels: -12.0 });
        check(&Pose { frame_id: "map".to_owned(), ..Pose::default() });
        let transform = Transform { at: Timestamp(-1), ..Transform::default() };
        check(&Transforms { transforms: vec![transform] });
        check(&PointCloud::default());
        let mut cloud = PointCloud::default();
        cloud.reshape(2, 1).unwrap().copy_from_slice(&[0.0, 1.0, f32::NAN, 1e-42, -0.0, 5.0]);
        check(&cloud);
        check(&Image::default());
        check(&Depth::default());
        let mut depth = Depth { kind: DepthKind::AffineInverse, ..Depth::default() };
        depth.reshape(2, 1).unwrap().copy_from_slice(&[0.5, f32::NAN]);
        check(&depth);
        let mut mask = Mask { labels: vec!["wall".into()], ..Mask::default() };
        mask.reshape(2, 1).unwrap().copy_from_slice(&[0, 9]);
        check(&mask);
        let vectors = Tensor::new(&[1, 2], &[0.1_f32, -0.0]).unwrap();
        check(&Embedding { space: "clip".to_owned(), vectors });
        let pixels: Vec<u8> = (0..24).collect();
        let mut image = Image::new(PixelFormat::Depth16, 3, 4, 6, &pixels).unwrap();
        image.frame_id.push_str("camera");
        check(&image);
    }

    #[test]
    fn inconsistent_messages_are_rejected() {
        let codec = AudioBlock::CODEC.unwrap();
        let bytes = [0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        let error = codec.decode(&bytes, Header::default()).unwrap_err();
        assert_eq!(error, "1 samples are not the same number for each of 2 channels");
        let bytes = [0, 1, 0, 0, 1, 0, 0, 0, 100, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        let error = codec.decode(&bytes, Header::default()).unwrap_err();
        assert_eq!(error, "1 samples are not the same number for each of 100 channels");
        let bytes = [0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255];
        assert!(codec.decode(&bytes, Header::default()).is_err(), "a length without its samples");
        for channels in [65, u32::MAX] {
            let bytes = [[0, 1, 0, 0], [1, 0, 0, 0], channels.to_le_bytes(), [0; 4]].concat();
            let error = codec.decode(&bytes, Header::default()).unwrap_err();
            assert_eq!(error, format!("{channels} channels without samples"));
        }
        for rate in [0, 768_001] {
            let block = AudioBlock { rate: SampleRate(rate), ..AudioBlock::default() };
            let mut bytes = Vec::new();
            codec.encode(&block, &mut bytes).unwrap();
            let error = codec.decode(&bytes, Header::default()).unwrap_err();
            assert_eq!(
                error,
                format!("sample rate of {rate} Hz is not supported; accepted are 1 to 768000 Hz")
            );
        }
        assert_eq!(
            codec.decode(&[1], Header::default()).unwrap_err(),
            "it is not CDR in little endian"
        );
    }
}

//! How values are written to recordings, and read again.

use std::{any::Any, borrow::Cow, fmt};

use cdr_encoding::{from_bytes, to_writer};
use serde::{Serialize, de::DeserializeOwned};

use crate::{AnyPayload, Header, Packet, Payload};

/// A payload type whose values can be written to recordings.
pub trait Recorded: Payload {
    /// Name of the message in the manner of ROS 2, such as `afferent_msgs/msg/AudioBlock`.
    const MESSAGE: &'static str;

    /// Its fields in the language of ROS 2 message definitions.
    const SCHEMA: &'static str;

    /// Whether what is written is compressed. Values are compared by
    /// [`Recorded::write_uncompressed`] then, which costs less and does not depend on how a
    /// compressor does its work.
    const IS_COMPRESSED: bool = false;

    /// What is written: the fields of the message in their order.
    type Wire: Serialize + DeserializeOwned;

    /// What is written for the value.
    fn to_wire(&self) -> Self::Wire;

    /// The value that was written as `wire`.
    ///
    /// # Errors
    /// What is wrong with it.
    fn from_wire(wire: Self::Wire) -> Result<Self, String>;

    /// Where the message is compressed: appends all that tells the value from others to `bytes`.
    fn write_uncompressed(&self, bytes: &mut Vec<u8>) {
        let _ = bytes;
    }
}

/// How the values of one payload type are written: as CDR in little endian behind its header of
/// four bytes, which ROS 2 and Foxglove read by [`Codec::schema`].
#[derive(Clone, Copy)]
pub struct Codec {
    /// [`Recorded::MESSAGE`].
    pub message: &'static str,
    /// [`Recorded::SCHEMA`].
    pub schema: &'static str,
    encode: Encode,
    /// [`Recorded::write_uncompressed`], where the message is compressed.
    uncompressed: Option<Encode>,
    decode: fn(&[u8], Header) -> Result<Packet, String>,
}

/// Appends a value to bytes; an error when it is of another type.
type Encode = fn(&dyn AnyPayload, &mut Vec<u8>) -> Result<(), String>;

/// What a message definition of ROS 2 says behind its fields when it begins with a header.
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

/// The header of CDR in little endian.
const CDR_LE: [u8; 4] = [0, 1, 0, 0];

impl Codec {
    /// The codec of `T`.
    pub const fn of<T: Recorded>() -> Self {
        Self {
            message: T::MESSAGE,
            schema: T::SCHEMA,
            encode: |value, bytes| {
                bytes.extend(CDR_LE);
                to_writer::<_, byteorder::LittleEndian, _>(bytes, &typed::<T>(value)?.to_wire())
                    .map_err(|error| error.to_string())
            },
            uncompressed: if T::IS_COMPRESSED { Some(write_uncompressed::<T>) } else { None },
            decode: |bytes, header| {
                let body = bytes.strip_prefix(&CDR_LE).ok_or("it is not CDR in little endian")?;
                let (wire, _) = from_bytes::<T::Wire, byteorder::LittleEndian>(body)
                    .map_err(|error| error.to_string())?;
                Ok(Packet::new(T::from_wire(wire)?, header))
            },
        }
    }

    /// Appends `value` to `bytes`.
    ///
    /// # Errors
    /// When the value is of another type.
    pub fn encode(&self, value: &dyn AnyPayload, bytes: &mut Vec<u8>) -> Result<(), String> {
        (self.encode)(value, bytes)
    }

    /// Appends what values are compared by to `bytes`: what [`Codec::encode`] does, but never
    /// compressed.
    ///
    /// # Errors
    /// As [`Codec::encode`].
    pub fn encode_uncompressed(
        &self,
        value: &dyn AnyPayload,
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        (self.uncompressed.unwrap_or(self.encode))(value, bytes)
    }

    /// What [`Codec::encode_uncompressed`] makes of the value in the message `bytes`.
    ///
    /// # Errors
    /// As [`Codec::decode`].
    pub fn uncompressed<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, String> {
        if self.uncompressed.is_none() {
            return Ok(Cow::Borrowed(bytes));
        }
        let packet = self.decode(bytes, Header::default())?;
        let mut uncompressed = Vec::new();
        packet
            .payload()
            .map_or(Ok(()), |value| self.encode_uncompressed(value, &mut uncompressed))?;
        Ok(Cow::Owned(uncompressed))
    }

    /// The value in `bytes`, in a packet with `header`.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(&self, bytes: &[u8], header: Header) -> Result<Packet, String> {
        (self.decode)(bytes, header)
    }
}

fn typed<T: Recorded>(value: &dyn AnyPayload) -> Result<&T, String> {
    (value as &dyn Any).downcast_ref::<T>().ok_or_else(|| format!("the value is not a {}", T::TYPE))
}

fn write_uncompressed<T: Recorded>(
    value: &dyn AnyPayload,
    bytes: &mut Vec<u8>,
) -> Result<(), String> {
    typed::<T>(value)?.write_uncompressed(bytes);
    Ok(())
}

impl PartialEq for Codec {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message && self.schema == other.schema
    }
}

impl Eq for Codec {}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec({})", self.message)
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::Tensor;

    use super::*;
    use crate::{
        AudioBlock, Features, Gain, HeardWord, Image, Imu, Interruption, KeywordEvent, PixelFormat,
        Played, SampleRate, SpeechEvent, SpeechEventKind, Text, Timestamp, Transcript, TurnEvent,
        TurnEventKind, Word,
    };

    /// Writes `value`, reads it, writes it again; returns the bytes behind the header.
    fn check<T: Recorded>(value: &T) -> Vec<u8> {
        let codec = T::CODEC.unwrap();
        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        codec.encode(value, &mut bytes).unwrap();
        let packet = codec.decode(&bytes, Header::default()).unwrap();
        codec.encode(packet.get::<T>().unwrap(), &mut again).unwrap();
        assert_eq!(bytes, again);
        for len in 0..bytes.len() {
            // What is cut short is refused, or a shorter value; it does not panic.
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
    fn values_come_back_bit_by_bit() {
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
        };
        let words = vec![word("stop", -3), word("", 7)];
        check(&Transcript { utterance: 3, is_final: true, words });
        let imu = Imu { angular_velocity_rad_s: [0.1, 0.2, 0.3], ..Imu::default() };
        check(&imu);
        check(&Text { turn: 7, text: "Hey, \"you\"!".to_owned(), is_last: false });
        let duration = std::time::Duration::from_millis(130);
        check(&Word { turn: 1, text: "hey".to_owned(), duration, position: 5 });
        check(&TurnEvent { turn: 2, kind: TurnEventKind::Resume });
        check(&Interruption { reason: "speech".to_owned() });
        check(&Played { until: Timestamp(-5), is_playing: true });
        check(&Gain { decibels: -12.0 });
        check(&Image::default());
        let pixels: Vec<u8> = (0..24).collect();
        let mut image = Image::new(PixelFormat::Depth16, 3, 4, 6, &pixels).unwrap();
        image.frame_id.push_str("camera");
        check(&image);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let codec = AudioBlock::CODEC.unwrap();
        let bytes = [0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        let error = codec.decode(&bytes, Header::default()).unwrap_err();
        assert_eq!(error, "1 samples are not the same number for each of 2 channels");
        let bytes = [0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255];
        assert!(codec.decode(&bytes, Header::default()).is_err(), "a length without its samples");
        for channels in [65, u32::MAX] {
            let bytes = [[0, 1, 0, 0], [1, 0, 0, 0], channels.to_le_bytes(), [0; 4]].concat();
            let error = codec.decode(&bytes, Header::default()).unwrap_err();
            assert_eq!(error, format!("{channels} channels, and no samples"));
        }
        for rate in [0, 768_001] {
            let block = AudioBlock { rate: SampleRate(rate), ..AudioBlock::default() };
            let mut bytes = Vec::new();
            codec.encode(&block, &mut bytes).unwrap();
            let error = codec.decode(&bytes, Header::default()).unwrap_err();
            assert_eq!(error, format!("sound of {rate} Hz; 1 to 768000 Hz are read"));
        }
        assert_eq!(
            codec.decode(&[1], Header::default()).unwrap_err(),
            "it is not CDR in little endian"
        );
    }
}

//! Values of types known only at run time.

use std::{any::Any, borrow::Cow, sync::Arc};

use afferent_core::ForeignBytes;

use crate::{AnyPayload, Header, OnFull, Packet, Payload, PayloadType, WireCodec};

/// A value of a type known at run time, as encoded bytes.
#[derive(Clone, Default)]
pub struct Dynamic {
    /// Its type; `None` in a value that was never filled.
    pub ty: Option<Arc<PayloadType>>,
    /// Encoded fields.
    pub bytes: Vec<u8>,
}

impl Payload for Dynamic {
    const TYPE: &'static str = "dynamic";
    const WIRE: Option<&'static dyn WireCodec> = Some(&DynamicWire);

    fn ty(&self) -> &str {
        self.ty.as_ref().map_or(Self::TYPE, |ty| &ty.name)
    }

    fn bulk_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl PayloadType {
    /// Descriptor of a type that is known at run time; its values are [`Dynamic`].
    pub fn dynamic(name: impl Into<String>, on_full: OnFull) -> Self {
        Self { name: Cow::Owned(name.into()), on_full, ..Self::of::<Dynamic>() }
    }
}

/// Wire codec of [`Dynamic`] values: the name of the type as a CDR string, and the encoded fields
/// as bulk bytes.
///
/// A decoded value has the name of its type only: it is a [`PayloadType::dynamic`] with the queue
/// policy `block`.
pub(crate) struct DynamicWire;

/// CDR header: little endian, no options.
const CDR_LE: [u8; 4] = [0, 1, 0, 0];

impl WireCodec for DynamicWire {
    fn layout(&self) -> String {
        "dynamic\nstring type\nbulk uint8[]\n".to_owned()
    }

    fn encode<'v>(
        &self,
        value: &'v dyn AnyPayload,
        meta: &mut Vec<u8>,
    ) -> Result<&'v [u8], String> {
        let value = (value as &dyn Any).downcast_ref::<Dynamic>();
        let value = value.ok_or("the value is not a Dynamic")?;
        let ty = value.ty.as_ref().ok_or("the value has no type; set `Dynamic::ty`")?;
        let len =
            u32::try_from(ty.name.len() + 1).map_err(|_| "the name of the type is too long")?;
        meta.extend(CDR_LE);
        meta.extend(len.to_le_bytes());
        meta.extend(ty.name.as_bytes());
        meta.push(0);
        Ok(&value.bytes)
    }

    fn decode(&self, meta: &[u8], bulk: ForeignBytes, header: Header) -> Result<Packet, String> {
        let name = type_name(meta).ok_or("the metadata is not the name of a type as CDR string")?;
        let ty = PayloadType::dynamic(name, OnFull::Block);
        let bytes = bulk.as_slice().to_vec();
        Ok(Packet::new(Dynamic { ty: Some(Arc::new(ty)), bytes }, header))
    }
}

/// Name in the metadata of a [`Dynamic`] value.
fn type_name(meta: &[u8]) -> Option<&str> {
    let (len, text) = meta.strip_prefix(&CDR_LE)?.split_first_chunk()?;
    let is_complete = usize::try_from(u32::from_le_bytes(*len)).is_ok_and(|len| len == text.len());
    let name = str::from_utf8(text.strip_suffix(&[0])?).ok()?;
    (is_complete && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Port, PortKind, PortSpec, test_payload::Sample};

    fn twist() -> PayloadType {
        PayloadType::dynamic("geometry_msgs/msg/Twist", OnFull::Latest)
    }

    #[test]
    fn dynamic_values_round_trip() {
        let ty = twist();
        let codec = ty.wire.unwrap();
        let value = Dynamic { ty: Some(Arc::new(ty)), bytes: vec![1, 2, 3] };
        let mut meta = Vec::new();
        let bulk = codec.encode(&value, &mut meta).unwrap();
        assert_eq!(bulk.as_ptr(), value.bytes.as_ptr());
        let header = Header { sequence: 7, ..Header::default() };
        let packet = codec.decode(&meta, bulk.to_vec().into(), header).unwrap();
        assert_eq!(packet.header, header);
        let found = packet.get::<Dynamic>().unwrap();
        assert_eq!((found.ty(), &*found.bytes), ("geometry_msgs/msg/Twist", &[1, 2, 3][..]));
        for len in 0..meta.len() {
            assert!(codec.decode(&meta[..len], Vec::new().into(), header).is_err(), "{len}");
        }
        for at in 0..meta.len() {
            let mut wrong = meta.clone();
            wrong[at] ^= 0x80;
            assert!(codec.decode(&wrong, Vec::new().into(), header).is_err(), "{at}");
        }
        let nameless = [0, 1, 0, 0, 1, 0, 0, 0, 0];
        assert!(codec.decode(&nameless, Vec::new().into(), header).is_err());
    }

    #[test]
    fn values_of_other_types_are_refused() {
        let codec = Dynamic::WIRE.unwrap();
        let error = codec.encode(&Sample::default(), &mut Vec::new()).unwrap_err();
        assert_eq!(error, "the value is not a Dynamic");
        let error = codec.encode(&Dynamic::default(), &mut Vec::new()).unwrap_err();
        assert_eq!(error, "the value has no type; set `Dynamic::ty`");
    }

    #[test]
    fn ports_have_the_wire_codec_of_their_payload_type() {
        let spec = PortSpec::new(PortKind::Output, "twist", &twist());
        assert_eq!(spec.wire, Dynamic::WIRE);
        assert_eq!(PortSpec::from(&Port::output::<Dynamic>("twist")).wire, Dynamic::WIRE);
        assert_eq!(PortSpec::from(&Port::input::<Dynamic>("twist")).wire, Dynamic::WIRE);
        assert!(PortSpec::from(&Port::output::<Sample>("sample")).wire.is_none());
        assert_eq!(format!("{:?}", spec.wire), "Some(WireCodec(dynamic))");
    }

    #[test]
    fn values_of_types_known_at_run_time_share_one_pool() {
        const STATIC: &PayloadType = &PayloadType::of::<Sample>();
        assert_eq!(STATIC.name, "test/Sample");
        let twist = Arc::new(PayloadType::dynamic("geometry_msgs/msg/Twist", OnFull::Latest));
        let pool = Pool::new(4);
        let mut address = None;
        for number in 0..3_u8 {
            let mut value = pool.loan::<Dynamic>();
            value.ty = Some(twist.clone());
            value.bytes.clear();
            value.bytes.extend([number; 48]);
            assert!(
                address
                    .replace(value.bytes.as_ptr())
                    .is_none_or(|before| before == value.bytes.as_ptr())
            );
            let packet = value.into_packet(Header::default());
            assert_eq!(packet.payload().unwrap().type_name(), "geometry_msgs/msg/Twist");
            assert!(packet.get::<Sample>().is_none() && packet.get::<Dynamic>().is_some());
        }
        assert_eq!(pool.allocated(), 1);
    }
}

//! Values from an untrusted process: random and damaged parts cause an error or a value, but no
//! panic and no large allocation.

#[path = "shared/limited.rs"]
mod limited;

use afferent_graph::{Header, Payload, WireCodec};
use afferent_messages::{
    AudioBlock, Image, Interruption, PixelFormat, Text, Transcript,
    vision::{Hand, Hands, Mask},
};
use afferent_tests_hostile::{Random, wire};
use limited::{SERIAL, limited};

/// Bytes that decoding may allocate: a copy of each part, and the values of short strings, which are
/// larger in memory.
fn allowance(bytes: usize) -> usize {
    16 * bytes + (1 << 16)
}

#[test]
fn random_parts() {
    let _serial = SERIAL.lock();
    let (mut random, mut values) = (Random(1), 0);
    for round in 0..200_000_u64 {
        let mut data = vec![0, 0, 0, 0, 0, 1, 0, 0];
        let bytes = random.below(96);
        // Small numbers and boundary values are lengths and counts that may be accepted.
        data.extend((0..bytes).map(|_| match random.below(8) {
            0 => random.bits() as u8,
            1 => 0xff,
            2 => random.below(5) as u8,
            _ => 0,
        }));
        (data[0], data[1]) = (random.bits() as u8, random.bits() as u8);
        let bulk = if random.once_in(2) { random.below(bytes + 1) } else { 0 };
        data[2] = (4 + bytes - bulk) as u8;
        values += usize::from(limited(
            allowance(data.len()),
            &format!("round {round}: {data:?}"),
            || wire::decode(&data),
        ));
    }
    println!("200000 random inputs: {values} values, no panic and no large allocation");
    assert!(values > 50, "{values}");
}

/// Both parts of a value.
fn parts<T: Payload>(value: &T) -> (&'static dyn WireCodec, Vec<u8>, Vec<u8>) {
    let codec = T::WIRE.expect("the type has a wire codec");
    let mut meta = Vec::new();
    let bulk = codec.encode(value, &mut meta).expect("the value can be encoded").to_vec();
    (codec, meta, bulk)
}

#[test]
fn damaged_values() {
    let _serial = SERIAL.lock();
    let image = Image::new(PixelFormat::Rgb8, 5, 3, 16, &[7; 48]).expect("the shape is valid");
    let mut mask = Mask { labels: vec!["cup".into(); 3], ..Mask::default() };
    mask.reshape(7, 2).expect("the size is small").fill(1);
    let hands = Hands { hands: vec![Hand::default(); 2], ..Hands::default() };
    let transcript = Transcript { words: vec![Default::default(); 3], ..Transcript::default() };
    let (mut random, mut values, mut errors) = (Random(2), 0, 0);
    for (codec, meta, bulk) in [
        parts(&AudioBlock::default()),
        parts(&image),
        parts(&mask),
        parts(&hands),
        parts(&transcript),
        parts(&Text::from("hey")),
        parts(&Interruption { reason: "speech".to_owned() }),
    ] {
        for round in 0..20_000 {
            let (mut meta, mut bulk) = (meta.clone(), bulk.clone());
            for _ in 0..=random.below(3) {
                let at = 4 + random.below(meta.len() - 4);
                meta[at] = *random.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]).expect("there are bytes");
            }
            if random.once_in(4) {
                bulk.truncate(random.below(bulk.len()));
            }
            let what = format!("round {round} of {codec:?}: {meta:?}, {} bulk bytes", bulk.len());
            let is_value = limited(allowance(meta.len() + bulk.len()), &what, || {
                wire::decode_parts(codec, &meta, &bulk, random.below(2) * 4)
            });
            *(if is_value { &mut values } else { &mut errors }) += 1;
        }
    }
    println!("140000 damaged values: {values} values, {errors} errors");
    assert!(values > 1000 && errors > 1000, "{values} values, {errors} errors");
}

/// A count without its elements must not reserve memory for them.
#[test]
fn counts_without_elements() {
    let _serial = SERIAL.lock();
    for ty in wire::types() {
        let codec = ty.wire.expect("every payload type has a wire codec");
        for len in 0..80 {
            let meta = [&[0, 1, 0, 0][..], &vec![0xff; len]].concat();
            let is_value = limited(allowance(len), &format!("{len} bytes of {}", ty.name), || {
                codec.decode(&meta, Vec::new().into(), Header::default()).is_ok()
            });
            assert!(!is_value || len == 4 || len == 24, "{len} bytes of {}", ty.name);
        }
    }
}

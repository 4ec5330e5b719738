//! Tests of the wire form of every payload type.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use afferent_core::{AlignedBytes, Memory};
use afferent_graph::{Choice, Pool, Timestamp};

use super::*;
use crate::{
    Activity, ActivityKind, Affine, AudioBlock, Camera, ColorMatrix, ColorRange, Colorimetry,
    DeviceStatus, DistortionModel, Features, Gain, HeardWord, Image, Imu, Interruption,
    KeywordEvent, Orientation, PAYLOADS, PixelFormat, Played, PointCloud, Pose, SampleRate,
    SceneEntity, SceneUpdate, SpeakerTurn, SpeakerTurns, SpeechEvent, SpeechEventKind, Text,
    ToolMessage, Transcript, Transform, Transforms, TurnEvent, TurnEventKind, Word,
    vision::{Depth, Embedding, Mask},
};

mod vision;

use vision::{drawings, maps, results};

/// A NaN with a payload, which a conversion to `f64` would make quiet.
const NAN: f32 = f32::from_bits(0x7fa0_1234);

/// Both parts of an encoded value, and a function that decodes it and compares the result with the
/// value, bit by bit.
struct Encoded {
    name: &'static str,
    meta: Vec<u8>,
    bulk: Vec<u8>,
    codec: &'static dyn WireCodec,
    equals: Box<dyn Fn(&Packet) -> bool>,
}

impl Encoded {
    fn new<T: Payload>(value: T, equal: fn(&T, &T) -> bool) -> Self {
        let codec = T::WIRE.unwrap_or_else(|| panic!("{} has no wire codec", T::TYPE));
        let mut meta = Vec::new();
        let bulk = codec.encode(&value, &mut meta).unwrap().to_vec();
        let equals = move |packet: &Packet| equal(packet.get().unwrap(), &value);
        Self { name: T::TYPE, meta, bulk, codec, equals: Box::new(equals) }
    }

    /// Decodes two parts, with the bulk bytes in aligned memory.
    fn decode(&self, meta: &[u8], bulk: &[u8]) -> Result<Packet, String> {
        self.codec.decode(meta, AlignedBytes::from(bulk).into(), Header::default())
    }
}

fn bits(tensor: &Tensor) -> (&[usize], &[u8], &[u8]) {
    (tensor.sizes(), tensor.dim_order(), tensor.view().bytes())
}

fn audio(sizes: [usize; 2], dim_order: [u8; 2], rate: u32) -> Encoded {
    let specials = [0.0, -0.0, NAN, f32::NAN, 1e-42, f32::MAX, f32::NEG_INFINITY, 0.1];
    let samples: Vec<f32> = specials.into_iter().cycle().take(sizes[0] * sizes[1]).collect();
    let mut samples = Tensor::new(&sizes, &samples).unwrap();
    samples.set_dim_order(&dim_order).unwrap();
    Encoded::new(AudioBlock { samples, rate: SampleRate(rate) }, |a, b| {
        a.rate == b.rate && bits(&a.samples) == bits(&b.samples)
    })
}

fn features(sizes: [usize; 2]) -> Encoded {
    let values = vec![NAN; sizes[0] * sizes[1]];
    let values = Tensor::new(&sizes, &values).unwrap();
    let (hop, window) = (Duration::from_millis(10), Duration::new(u64::MAX, 999_999_999));
    Encoded::new(Features { values, hop, window }, |a, b| {
        (a.hop, a.window) == (b.hop, b.window) && bits(&a.values) == bits(&b.values)
    })
}

fn image(value: Image) -> Encoded {
    Encoded::new(value, |a, b| a == b && a.row_stride() == b.row_stride() && a.bytes() == b.bytes())
}

fn images() -> impl Iterator<Item = Encoded> {
    let shapes = [(1, 1, 0), (5, 3, 0), (5, 3, 12)];
    let images = PixelFormat::VALUES.iter().flat_map(move |&format| {
        shapes.map(|(width, height, gap)| {
            let [columns, rows] = format.subsampling();
            let (width, height) = (width * columns, height * rows);
            let row_stride = width * format.pixel_bytes() + gap;
            let len = row_stride * format.stored_rows(height);
            let bytes: Vec<u8> = (0..len).map(|at| (at * at / 7) as u8).collect();
            let mut image = Image::new(format, width, height, row_stride, &bytes).unwrap();
            image.frame_id.push_str("camera ✓");
            image
        })
    });
    let mut empty = Image::default();
    empty.frame_id.push_str("none");
    let colorimetry = Colorimetry { matrix: ColorMatrix::Bt2020, range: ColorRange::Full };
    let (to_source, camera) = geometry();
    let mut seen = empty.clone();
    (seen.colorimetry, seen.to_source, seen.camera) = (colorimetry, to_source, camera);
    images.chain([Image::default(), empty, seen]).map(image)
}

/// A map to the source image, and a camera.
fn geometry() -> (Affine, Option<Arc<Camera>>) {
    let to_source = Affine([[1.5, -0.0, 1e300], [1e-320, 0.1, -7.0]]);
    let camera = Camera {
        width: u32::MAX,
        height: 1,
        focal_px: [1e-3, 1e9],
        center_px: [-0.0, 0.1],
        distortion: DistortionModel::Equidistant,
        coefficients: vec![0.1, -0.0, 1e-320, f64::MAX],
    };
    (to_source, Some(Arc::new(camera)))
}

fn point_cloud(rows: usize, columns: usize, fields: &[&str]) -> Encoded {
    let fields: Vec<_> = fields.iter().map(|name| (*name).to_owned()).collect();
    let sizes = [rows, columns, fields.len()];
    let values = vec![NAN; sizes.iter().product()];
    let points = Tensor::new(&sizes, &values).unwrap();
    Encoded::new(PointCloud { frame_id: "lidar ✓".to_owned(), fields, points }, |a, b| {
        (&a.frame_id, &a.fields) == (&b.frame_id, &b.fields) && bits(&a.points) == bits(&b.points)
    })
}

fn spatial() -> Vec<Encoded> {
    let pose = Pose {
        frame_id: "map ✓".to_owned(),
        position_m: [0.1, f64::from_bits(0x7ff4_0000_0000_0001), -0.0],
        orientation_xyzw: [f64::MAX, 1e-320, 0.5, f64::NEG_INFINITY],
    };
    let same_pose = |a: &Pose, b: &Pose| {
        a.frame_id == b.frame_id
            && a.position_m.map(f64::to_bits) == b.position_m.map(f64::to_bits)
            && a.orientation_xyzw.map(f64::to_bits) == b.orientation_xyzw.map(f64::to_bits)
    };
    let orientation = Orientation {
        rotation_xyzw: [0.5, -0.0, 1e-320, f64::MAX],
        acceleration_m_s2: [0.1, f32::INFINITY, -9.81],
        gyro_bias_rad_s: [1e-40, 0.0, -0.01],
        gyro_bias_sigma_rad_s: 0.002,
        is_at_rest: true,
    };
    let walking = Activity { kind: ActivityKind::Running, steps: u64::MAX, cadence_per_min: 171.5 };
    let transform = |child: &str, at| Transform {
        at: Timestamp(at),
        frame_id: "odom".to_owned(),
        child_frame_id: child.to_owned(),
        translation_m: [0.1, -0.0, 1e300],
        ..Transform::default()
    };
    let entity = SceneEntity {
        id: "7".to_owned(),
        label: "table ✓".to_owned(),
        size_m: [1.0, f64::MAX, 1e-300],
        color: [0.1, 0.2, 0.3, 0.4],
        ..SceneEntity::default()
    };
    let scene = SceneUpdate { deletions: vec![String::new()], entities: vec![entity] };
    let transforms = vec![transform("base ✓", i64::MIN), transform("", i64::MAX)];
    vec![
        Encoded::new(pose, same_pose),
        Encoded::new(orientation, PartialEq::eq),
        Encoded::new(walking, PartialEq::eq),
        Encoded::new(Activity::default(), PartialEq::eq),
        Encoded::new(Transforms { transforms }, PartialEq::eq),
        Encoded::new(Transforms::default(), PartialEq::eq),
        Encoded::new(scene, PartialEq::eq),
        Encoded::new(SceneUpdate::default(), PartialEq::eq),
        point_cloud(2, 3, &["x", "y", "z", "intensity"]),
        point_cloud(1, 0, &["x"]),
        point_cloud(1, 5, &[]),
    ]
}

fn messages() -> Vec<Encoded> {
    let word = |text: &str, start| HeardWord {
        text: text.to_owned(),
        start: Timestamp(start),
        end: Timestamp(i64::MAX),
        speaker: u32::try_from(start).ok(),
    };
    let words = vec![word("stop", i64::MIN), word("", 7)];
    let turn = |speaker, has_ended| SpeakerTurn {
        speaker,
        start: Timestamp(i64::MIN),
        end: Timestamp(7),
        has_ended,
    };
    let imu = Imu {
        angular_velocity_rad_s: [0.1, NAN, -0.0],
        acceleration_m_s2: [f32::INFINITY, 1e-42, 9.81],
    };
    let same_imu = |a: &Imu, b: &Imu| {
        a.angular_velocity_rad_s.map(f32::to_bits) == b.angular_velocity_rad_s.map(f32::to_bits)
            && a.acceleration_m_s2.map(f32::to_bits) == b.acceleration_m_s2.map(f32::to_bits)
    };
    let duration = Duration::from_nanos(u64::MAX);
    let (tool, json) = ("clock".to_owned(), "{\"zone\": \"UTC\"}".to_owned());
    vec![
        Encoded::new(imu, same_imu),
        Encoded::new(Gain { decibels: NAN }, |a, b| a.decibels.to_bits() == b.decibels.to_bits()),
        Encoded::new(Played { until: Timestamp(-5), is_playing: true }, PartialEq::eq),
        Encoded::new(SpeechEvent { kind: SpeechEventKind::End, probability: NAN }, |a, b| {
            a.kind == b.kind && a.probability.to_bits() == b.probability.to_bits()
        }),
        Encoded::new(
            DeviceStatus {
                connections: 2,
                battery_v: 3.7,
                garbage: u64::MAX,
                ..Default::default()
            },
            PartialEq::eq,
        ),
        Encoded::new(KeywordEvent { label: "hey ✓\0".to_owned(), score: 0.5 }, PartialEq::eq),
        Encoded::new(
            Transcript { utterance: u64::MAX, is_final: true, words, language: "yue".to_owned() },
            PartialEq::eq,
        ),
        Encoded::new(Transcript::default(), PartialEq::eq),
        Encoded::new(
            SpeakerTurns { turns: vec![turn(0, true), turn(u32::MAX, false)] },
            PartialEq::eq,
        ),
        Encoded::new(Text { turn: 7, text: "Hey!".to_owned(), is_last: false }, PartialEq::eq),
        Encoded::new(
            Word { turn: 1, text: "hey".to_owned(), duration, position: u32::MAX },
            PartialEq::eq,
        ),
        Encoded::new(TurnEvent { turn: 2, kind: TurnEventKind::Stop }, PartialEq::eq),
        Encoded::new(Interruption { reason: "speech".to_owned() }, PartialEq::eq),
        Encoded::new(ToolMessage { turn: 3, tool, json }, PartialEq::eq),
    ]
}

/// Values of every payload type.
fn encoded() -> Vec<Encoded> {
    let mut all = messages();
    all.extend(images());
    all.extend(spatial());
    all.extend(maps());
    all.extend(results());
    all.extend(drawings());
    all.extend([
        audio([2, 3], [0, 1], 48_000),
        audio([2, 4], [1, 0], 1),
        audio([64, 0], [0, 1], 768_000),
        audio([0, 0], [0, 1], 16_000),
        features([2, 3]),
        features([0, 80]),
        features([3, 0]),
    ]);
    all
}

#[test]
fn every_payload_type_round_trips() {
    for value in encoded() {
        let packet = value.decode(&value.meta, &value.bulk).unwrap();
        assert!((value.equals)(&packet), "{}", value.name);
        let mut meta = vec![7];
        let bulk = value.codec.encode(packet.payload().unwrap(), &mut meta).unwrap();
        assert_eq!((&meta[1..], bulk), (&*value.meta, &*value.bulk), "{}: appended", value.name);
    }
    let tested: BTreeSet<_> = encoded().iter().map(|value| value.name).collect();
    let listed: BTreeSet<_> = PAYLOADS.iter().map(|ty| &*ty.name).collect();
    assert_eq!(tested, listed);
}

/// Names of the types in `folder` that implement `Payload`.
fn implementors(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            implementors(&path, found);
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let name =
                line.strip_prefix("impl Payload for ").and_then(|rest| rest.split(' ').next());
            found.extend(name.map(str::to_owned));
        }
    }
}

#[test]
fn the_list_of_payload_types_is_complete() {
    let mut found = BTreeSet::new();
    implementors(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let list = include_str!("../lib.rs").split("PayloadType::of::<").skip(1);
    let listed: BTreeSet<_> =
        list.filter_map(|rest| rest.split('>').next()).map(str::to_owned).collect();
    assert_eq!(found, listed, "`PAYLOADS` has every type that implements `Payload`");
    let layouts: BTreeSet<_> = PAYLOADS.iter().map(|ty| ty.wire.unwrap().layout()).collect();
    assert_eq!(layouts.len(), PAYLOADS.len(), "layouts differ");
    for ty in PAYLOADS {
        assert_eq!(ty.wire.unwrap().layout().lines().next(), Some(&*ty.name));
    }
}

#[test]
fn truncated_and_extended_parts_are_refused() {
    for value in encoded() {
        let Encoded { name, meta, bulk, .. } = &value;
        for len in 0..meta.len() {
            assert!(value.decode(&meta[..len], bulk).is_err(), "{name}: {len} bytes of metadata");
        }
        for len in 0..bulk.len() {
            assert!(value.decode(meta, &bulk[..len]).is_err(), "{name}: {len} bulk bytes");
        }
        let [meta_and_one, bulk_and_one] = [meta, bulk].map(|part| [part, &[0][..]].concat());
        assert!(value.decode(&meta_and_one, bulk).is_err(), "{name}: a byte more metadata");
        assert!(value.decode(meta, &bulk_and_one).is_err(), "{name}: a bulk byte more");
    }
}

#[test]
fn changed_metadata_gives_an_error_or_a_value_that_round_trips() {
    let (mut refused, mut accepted) = (0, 0);
    for value in encoded() {
        for at in 0..value.meta.len() {
            for flip in 1..=255_u8 {
                let mut meta = value.meta.clone();
                meta[at] ^= flip;
                let Ok(packet) = value.decode(&meta, &value.bulk) else {
                    refused += 1;
                    continue;
                };
                accepted += 1;
                let mut again = Vec::new();
                let bulk = value.codec.encode(packet.payload().unwrap(), &mut again).unwrap();
                assert_eq!(bulk, value.bulk, "{}: byte {at} ^ {flip}", value.name);
                let packet = value.decode(&again, bulk).unwrap();
                let mut third = Vec::new();
                value.codec.encode(packet.payload().unwrap(), &mut third).unwrap();
                assert_eq!(again, third, "{}: byte {at} ^ {flip}", value.name);
            }
        }
    }
    assert!(refused > 1000 && accepted > 1000, "{refused} refused, {accepted} accepted");
}

/// The first byte of the bulk bytes of the packet, in memory.
fn address(codec: &dyn WireCodec, packet: &Packet) -> *const u8 {
    codec.encode(packet.payload().unwrap(), &mut Vec::new()).unwrap().as_ptr()
}

/// Decodes `value` over memory that is counted, offset by `offset` bytes.
fn decode_in(value: &Encoded, offset: usize) -> (Arc<dyn Memory>, Packet) {
    let bytes = [&vec![0; offset][..], &value.bulk].concat();
    let memory: Arc<dyn Memory> = Arc::new(AlignedBytes::from(&*bytes));
    let bulk = ForeignBytes::new(memory.clone()).part(offset, value.bulk.len()).unwrap();
    let packet = value.codec.decode(&value.meta, bulk, Header::default()).unwrap();
    (memory, packet)
}

#[test]
fn a_decoded_value_borrows_aligned_memory() {
    for value in encoded().iter().filter(|value| !value.bulk.is_empty()) {
        for offset in [0, 64, 4] {
            let (memory, packet) = decode_in(value, offset);
            let is_borrowed = address(value.codec, &packet) == memory.bytes()[offset..].as_ptr();
            assert_eq!(is_borrowed, offset % 64 == 0, "{} at {offset}", value.name);
            assert_eq!(Arc::strong_count(&memory), 1 + usize::from(is_borrowed));
            assert!((value.equals)(&packet), "{} at {offset}", value.name);
            let (shared, original) = (packet.clone(), packet);
            drop(original);
            assert_eq!(Arc::strong_count(&memory), 1 + usize::from(is_borrowed), "still held");
            drop(shared);
            assert_eq!(Arc::strong_count(&memory), 1, "{} at {offset}", value.name);
        }
    }
}

#[test]
fn a_decoded_value_is_copied_on_write() {
    let pool = Pool::new(1);
    let (memory, packet) = decode_in(&audio([2, 3], [0, 1], 48_000), 0);
    let shared = packet.clone();
    let mut block = packet.into_loan::<AudioBlock>(Some(&pool)).unwrap();
    assert_eq!(Arc::strong_count(&memory), 3, "a copy of the value holds the same memory");
    block.samples.data_mut::<f32>().unwrap()[0] = 1.0;
    assert_eq!(Arc::strong_count(&memory), 2);
    assert_eq!(shared.get::<AudioBlock>().unwrap().channel(0).unwrap()[0], 0.0);
    drop(shared);
    assert_eq!(Arc::strong_count(&memory), 1);
    let mut image = decode_in(&images().next().unwrap(), 0).1.into_loan::<Image>(None).unwrap();
    image.reshape(PixelFormat::Mono8, 1, 1).unwrap()[0] = 5;
    assert_eq!(image.bytes(), [5]);
}

/// A value in a pool may stay there for any time, and a slot that it holds would be missing.
#[test]
fn values_in_pools_hold_no_memory() {
    fn check<T: Payload>(value: &Encoded) {
        let (memory, packet) = decode_in(value, 0);
        let pool = Pool::new(1);
        let mut loan = pool.loan::<T>();
        loan.clone_from(packet.get::<T>().unwrap());
        drop((loan.into_packet(Header::default()), packet));
        assert_eq!((Arc::strong_count(&memory), pool.free()), (1, 1), "{}", T::TYPE);
        let packet = pool.loan::<T>().into_packet(Header::default());
        assert!(value.codec.encode(packet.payload().unwrap(), &mut Vec::new()).unwrap().is_empty());
    }
    check::<AudioBlock>(&audio([2, 3], [0, 1], 48_000));
    check::<Features>(&features([2, 3]));
    check::<Image>(&images().next().unwrap());
    check::<PointCloud>(&point_cloud(1, 2, &["x", "y"]));
    let find = |name| maps().into_iter().find(|value| value.name == name).unwrap();
    check::<Depth>(&find(Depth::TYPE));
    check::<Mask>(&find(Mask::TYPE));
    check::<Embedding>(&find(Embedding::TYPE));
}

#[test]
fn values_of_other_types_are_refused() {
    for value in encoded() {
        for other in encoded() {
            let packet = other.decode(&other.meta, &other.bulk).unwrap();
            let result = value.codec.encode(packet.payload().unwrap(), &mut Vec::new());
            assert_eq!(result.is_ok(), value.name == other.name, "{}, {}", value.name, other.name);
        }
    }
}

#[test]
fn values_that_a_receiver_would_refuse_are_not_encoded() {
    fn check<T: Payload>(value: &T, expected: &str) {
        let error = T::WIRE.unwrap().encode(value, &mut Vec::new()).unwrap_err();
        assert_eq!(error, expected);
    }
    let block = |samples, rate| AudioBlock { samples, rate: SampleRate(rate) };
    let zeros = |dtype, sizes: &[usize]| Tensor::zeros(dtype, sizes);
    check(
        &block(zeros(ScalarType::Double, &[1, 4]), 16_000),
        "audio/Block: a tensor of f64; it must be of f32",
    );
    check(
        &block(zeros(ScalarType::Float, &[4]), 16_000),
        "audio/Block: a tensor of rank 1; it must be a matrix",
    );
    check(
        &block(zeros(ScalarType::Float, &[65, 0]), 16_000),
        "audio/Block: 65 channels without samples",
    );
    check(
        &block(zeros(ScalarType::Float, &[1, 4]), 0),
        "audio/Block: sample rate of 0 Hz is not supported; accepted are 1 to 768000 Hz",
    );
    let values = zeros(ScalarType::Float, &[0, 65_537]);
    check(
        &Features { values, ..Features::default() },
        "signal/Features: sizes [0, 65537] without elements; each must be at most 65536",
    );
    let cloud = |points| PointCloud { points, ..PointCloud::default() };
    check(
        &cloud(zeros(ScalarType::Float, &[2, 3])),
        "spatial/PointCloud: the points are a tensor of f32 of rank 2; it must be one of f32 with \
         sizes [rows, columns, fields]",
    );
    check(
        &cloud(zeros(ScalarType::Float, &[1, 2, 4])),
        "spatial/PointCloud: points of 4 values, but 3 names of fields",
    );
    check(
        &cloud(zeros(ScalarType::Float, &[1 << 20, 0, 3])),
        "spatial/PointCloud: sizes [1048576, 0, 3] without values; each must be at most 65536",
    );
    let infinite = Affine([[f64::NAN; 3]; 2]);
    let mut image = Image::default();
    image.to_source = infinite;
    check(&image, "vision/Image: `to_source` must be finite");
    let depth = Depth { to_source: infinite, ..Depth::default() };
    check(&depth, "vision/Depth: `to_source` must be finite");
    let camera = Some(Arc::new(Camera::default()));
    let depth = Depth { camera, ..Depth::default() };
    check(&depth, "vision/Depth: a camera of 0 × 0 pixels; it must have some");
    let values = zeros(ScalarType::Float, &[2, 2]);
    let expected = "vision/Mask: the values must be a tensor of u8, [height, width], row after row";
    check(&Mask { values, ..Mask::default() }, expected);
    let mut turned = zeros(ScalarType::Float, &[2, 3]);
    turned.set_dim_order(&[1, 0]).unwrap();
    let depth = Depth { values: turned.clone(), ..Depth::default() };
    check(&depth, "vision/Depth: the values of a row must be adjacent");
    let embedding = Embedding { vectors: turned, ..Embedding::default() };
    check(&embedding, "vision/Embedding: the values of a vector must be adjacent");
    let mut turned = zeros(ScalarType::Float, &[1, 2, 3]);
    turned.set_dim_order(&[0, 2, 1]).unwrap();
    let expected = "spatial/PointCloud: the values of a point must be adjacent, in rows";
    check(&cloud(turned), expected);
}

#[test]
fn damaged_values_are_refused_with_the_reason() {
    fn check<T: WireMessage>(meta: &T::Meta, bulk: usize, expected: &str) {
        let mut bytes = Vec::new();
        write(meta, &mut bytes).unwrap();
        let bulk = AlignedBytes::zeroed(bulk).into();
        let error = Wire::<T>::NEW.decode(&bytes, bulk, Header::default()).unwrap_err();
        assert_eq!(error, expected);
    }
    let huge = Matrix { sizes: [u64::MAX, u64::MAX], dim_order: [0, 1] };
    let reason = "not a valid tensor: the sizes do not match the number of bytes";
    let sizes = [usize::MAX; 2];
    let expected =
        format!("audio/Block: 8 bulk bytes of sizes {sizes:?} in dim order [0, 1]: {reason}");
    check::<AudioBlock>(&(16_000, huge), 8, &expected);
    let order = Matrix { sizes: [1, 2], dim_order: [1, 1] };
    let reason = "not a valid tensor: the dim order is not a permutation of the dimensions";
    let expected =
        format!("audio/Block: 8 bulk bytes of sizes [1, 2] in dim order [1, 1]: {reason}");
    check::<AudioBlock>(&(16_000, order), 8, &expected);
    let empty = Matrix { sizes: [1 << 40, 0], dim_order: [0, 1] };
    check::<Features>(
        &((0, 0), (0, 0), empty),
        0,
        "signal/Features: sizes [1099511627776, 0] without elements; each must be at most 65536",
    );
    let none = Matrix { sizes: [0, 0], dim_order: [0, 1] };
    check::<Features>(
        &((0, 0), (u64::MAX, 1_000_000_000), none),
        0,
        "signal/Features: `window` has 1000000000 nanoseconds; accepted are 0 to 999999999",
    );
    check::<Imu>(&([0.0; 3], [0.0; 3]), 1, "spatial/Imu: 1 bulk bytes, but the type has none");
    let text = Text::WIRE.unwrap();
    let error = text.decode(&[], vec![1].into(), Header::default()).unwrap_err();
    assert_eq!(error, "text/Text: 1 bulk bytes, but the type has none");
    let error = text.decode(&[1], Vec::new().into(), Header::default()).unwrap_err();
    assert_eq!(error, "text/Text: it is not CDR in little endian");
}

#[test]
fn damaged_images_are_refused_with_the_reason() {
    let check = |format: &str, [width, height, row_stride]: [u64; 3], bulk, expected: &str| {
        let mut bytes = Vec::new();
        let meaning = ("bt601", "limited", Affine::IDENTITY.0, [0_u8; 0].as_slice());
        write(&(format, width, height, row_stride, "camera", meaning), &mut bytes).unwrap();
        let bulk = AlignedBytes::zeroed(bulk).into();
        let error = Wire::<Image>::NEW.decode(&bytes, bulk, Header::default()).unwrap_err();
        assert_eq!(error, format!("vision/Image: {expected}"));
    };
    let formats = "format \"jpeg\" is none of mono8, rgb8, bgr8, rgba8, mono16, 16UC1, 32FC1, yuyv, \
                   uyvy, nv12, i420";
    check("jpeg", [1, 1, 3], 3, formats);
    check("nv12", [2, 2, 2], 4, "4 bytes do not match 3 rows of 2 bytes");
    check("rgb8", [1, 2, 3], 5, "5 bytes do not match 2 rows of 3 bytes");
    check(
        "mono16",
        [1, 1, 3],
        3,
        "a row stride of 3 bytes does not fit 1 pixels of mono16: it must be a multiple of 2 and at \
         least 2",
    );
    let size = "is not supported; it must have at least one pixel and at most 1073741824 bytes";
    for [width, height, row_stride] in [[0, 0, 3], [0, 1, 0], [1, 0, 1]] {
        let expected = format!("an image of {width} × {height} pixels of mono8 {size}");
        check("mono8", [width, height, row_stride], 0, &expected);
    }
    let expected = format!("an image of 1 × {} pixels of mono8 {size}", usize::MAX);
    check("mono8", [1, u64::MAX, 1], 1, &expected);
}

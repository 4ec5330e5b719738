//! Tests of images and their recorded form.

use std::any::Any;

use super::{message::RosCompressedImage, *};
use crate::{CdrMessage, DistortionModel, bytes::Bytes};
use afferent_core::{Error, Memory, ScalarType, Tensor};
use afferent_graph::{Choice, Header, Packet};

/// A test image of `format` with `gap` bytes of padding after each row.
fn test_image(format: PixelFormat, width: usize, height: usize, gap: usize) -> Image {
    let row_stride = width * format.pixel_bytes() + gap;
    let len = row_stride * format.stored_rows(height);
    let bytes: Vec<u8> = (0..len).map(|at| (at * at / 7) as u8).collect();
    let image = Image::new(format, width, height, row_stride, &bytes).unwrap();
    Image { frame_id: "camera".to_owned(), ..image }
}

fn read(message: &[u8]) -> Result<Packet, String> {
    Image::CODEC.unwrap().decode(message, Header::default())
}

fn write(image: &Image) -> Vec<u8> {
    let mut message = Vec::new();
    Image::CODEC.unwrap().encode(image, &mut message).unwrap();
    message
}

#[test]
fn rows_exclude_padding() {
    let image = Image::new(PixelFormat::Mono8, 2, 3, 4, b"ab..cd..ef..").unwrap();
    assert_eq!(image.rows().collect::<Vec<_>>(), [b"ab", b"cd", b"ef"]);
    assert_eq!((image.width(), image.height(), image.row_stride()), (2, 3, 4));
    assert!(image.tensor().is_none(), "a tensor has no gaps");
    let dense = Image::new(PixelFormat::Mono8, 2, 3, 2, b"abcdef").unwrap();
    assert_eq!(image, dense);
    assert_eq!(dense.tensor().unwrap().sizes(), [3, 2, 1]);
    assert_eq!(Image::default().rows().count(), 0);
}

#[test]
fn planes_of_chroma_follow_the_luma() {
    let planes = |format| {
        let image = Image::new(format, 4, 2, 6, b"abcd..efgh..uUv.VV").unwrap();
        let planes = image.planes().map(|plane| plane.rows().map(<[u8]>::to_vec).collect());
        let planes: Vec<Vec<_>> = planes.collect();
        assert_eq!(image.rows().collect::<Vec<_>>(), planes.concat(), "{}", format.name());
        assert!(image.tensor().is_none());
        planes.concat().concat()
    };
    assert_eq!(planes(PixelFormat::Nv12), b"abcdefghuUv.");
    assert_eq!(planes(PixelFormat::I420), b"abcdefghuU.V");
    let yuyv = Image::new(PixelFormat::Yuyv, 2, 2, 6, b"yuYv..YUyV..").unwrap();
    assert_eq!(yuyv.rows().collect::<Vec<_>>(), [b"yuYv", b"YUyV"]);
}

#[test]
fn a_loaned_image_forgets_its_earlier_source() {
    let mut image = with_meaning(test_image(PixelFormat::I420, 4, 2, 0));
    image.reshape(PixelFormat::I420, 4, 2).unwrap();
    assert_eq!(image.colorimetry, Colorimetry::default());
    assert_eq!((image.to_source, &image.camera), (Affine::IDENTITY, &None));
    assert_eq!(image.frame_id, "camera");
}

#[test]
fn maps_to_the_source_are_composed() {
    let source = with_meaning(test_image(PixelFormat::Mono8, 8, 8, 0));
    let crop = Affine::scale_and_shift([2.0, 1.0], [1.0, 0.0]);
    let mut image = test_image(PixelFormat::Mono8, 2, 2, 0);
    image.frame_id.clear();
    image.derive_from(&source, &crop);
    assert_eq!((&image.frame_id, &image.camera), (&source.frame_id, &source.camera));
    assert_eq!(image.to_source.apply([1.0, 1.0]), source.to_source.apply([3.0, 1.0]));
}

/// The image with a meaning that differs from the default.
fn with_meaning(image: Image) -> Image {
    let k = [[500.0, 0.0, 319.5], [0.0, 500.0, 239.5], [0.0, 0.0, 1.0]];
    let mut camera = Camera::from_matrix(640, 480, k);
    camera.distortion = DistortionModel::PlumbBob;
    camera.coefficients = vec![-0.3, 0.1, 0.001, 0.0, -0.0];
    let colorimetry = Colorimetry { matrix: ColorMatrix::Bt709, range: ColorRange::Full };
    let to_source = Affine([[0.5, 0.25, 3.0], [-0.25, 0.5, 0.0]]);
    Image { colorimetry, to_source, camera: Some(Arc::new(camera)), ..image }
}

#[test]
fn sixteen_bit_images_are_tensors_of_u16() {
    let bytes: Vec<u8> = [1_u16, 500, 65_535].iter().flat_map(|v| v.to_ne_bytes()).collect();
    let image = Image::new(PixelFormat::Depth16, 3, 1, 6, &bytes).unwrap();
    assert_eq!(image.tensor().unwrap().data::<u16>().unwrap(), [1, 500, 65_535]);
}

#[test]
fn invalid_sizes_are_rejected() {
    let check = |format, [width, height, row_stride]: [usize; 3], len: usize, error: &str| {
        let found = Image::new(format, width, height, row_stride, &vec![0; len]);
        assert_eq!(found.unwrap_err().to_string(), error);
    };
    check(PixelFormat::Rgb8, [4, 2, 12], 23, "23 bytes do not match 2 rows of 12 bytes");
    check(
        PixelFormat::Rgb8,
        [4, 2, usize::MAX],
        24,
        &format!("24 bytes do not match 2 rows of {} bytes", usize::MAX),
    );
    let error = "a row stride of 11 bytes does not fit 4 pixels of rgb8: it must be a multiple \
                 of 1 and at least 12";
    check(PixelFormat::Rgb8, [4, 2, 11], 22, error);
    let error = "a row stride of 9 bytes does not fit 4 pixels of mono16: it must be a \
                 multiple of 2 and at least 8";
    check(PixelFormat::Mono16, [4, 2, 9], 18, error);
    let error = "a row stride of 5 bytes does not fit 4 pixels of i420: it must be a multiple of 2 \
                 and at least 4";
    check(PixelFormat::I420, [4, 2, 5], 15, error);
    check(PixelFormat::Nv12, [4, 2, 4], 8, "8 bytes do not match 3 rows of 4 bytes");
    let error = "an image of 3 × 2 pixels of yuyv is not supported; the width must be a multiple \
                 of 2, the height of 1";
    check(PixelFormat::Yuyv, [3, 2, 8], 16, error);
    let error = "an image of 4 × 3 pixels of i420 is not supported; the width must be a multiple \
                 of 2, the height of 2";
    check(PixelFormat::I420, [4, 3, 4], 16, error);
    let error = "an image of 0 × 2 pixels of mono8 is not supported; it must have at least one \
                 pixel and at most 1073741824 bytes";
    check(PixelFormat::Mono8, [0, 2, 0], 0, error);
    let huge = Image::default().reshape(PixelFormat::Rgba8, 1 << 20, 1 << 20).map(drop);
    assert!(matches!(huge, Err(ImageError::Size { .. })));
    let huge = Image::default().reshape(PixelFormat::Rgba8, usize::MAX, 1).map(drop);
    assert!(matches!(huge, Err(ImageError::Size { .. })));
}

#[test]
fn reshape_reuses_sufficient_memory() {
    let mut image = Image::default();
    let first = image.reshape(PixelFormat::Rgb8, 64, 48).unwrap().as_ptr();
    assert_eq!(image.reshape(PixelFormat::Bgr8, 32, 32).unwrap().as_ptr(), first);
    image.reshape(PixelFormat::Mono16, 64, 48).unwrap().fill(7);
    assert_eq!(image.tensor().unwrap().data::<u16>().unwrap()[0], 0x0707);
}

#[test]
fn images_of_every_format_round_trip() {
    for &format in PixelFormat::VALUES {
        let [columns, rows] = format.subsampling();
        for (width, height, gap) in [(1, 1, 0), (37, 5, 0), (37, 5, 12), (64, 64, 64)] {
            let (width, height) = (width * columns, height * rows);
            let image = test_image(format, width, height, gap);
            let packet = read(&write(&image)).unwrap();
            let again = packet.get::<Image>().unwrap();
            assert_eq!(*again, image, "{width} x {height} {}", format.name());
            assert_eq!(again.row_stride(), width * format.pixel_bytes(), "without gaps");
            assert_eq!(write(again), write(&image));
        }
    }
    let empty = read(&write(&Image::default())).unwrap();
    assert_eq!(*empty.get::<Image>().unwrap(), Image::default());
    assert!(Image::default().to_png().is_err());
}

#[test]
fn values_are_compared_uncompressed() {
    let codec = Image::CODEC.unwrap();
    let image = test_image(PixelFormat::Bgr8, 30, 20, 6);
    let mut bytes = Vec::new();
    codec.encode_uncompressed(&image, &mut bytes).unwrap();
    assert!(bytes.len() > 30 * 20 * 3);
    let message = write(&image);
    assert_eq!(*codec.uncompressed(&message).unwrap(), *bytes);
    assert!(codec.uncompressed(&message[..90]).is_err());
    let other = Image { frame_id: "other".to_owned(), ..image.clone() };
    assert_ne!(*codec.uncompressed(&write(&other)).unwrap(), *bytes);
    assert_ne!(*codec.uncompressed(&write(&with_meaning(image))).unwrap(), *bytes);
}

#[test]
fn the_meaning_of_the_pixels_is_recorded() {
    let image = with_meaning(test_image(PixelFormat::Nv12, 6, 4, 2));
    let packet = read(&write(&image)).unwrap();
    assert_eq!(*packet.get::<Image>().unwrap(), image);
    // Files for viewers have no private chunk, and pixels of recordings are read without it.
    assert!(png::meaning(&image.to_png().unwrap()).is_none());
    let plain = Image::from_png(PixelFormat::Nv12, &image.to_wire().data.0).unwrap();
    let meaning = (plain.colorimetry, plain.to_source, plain.camera.clone());
    assert_eq!(meaning, (Colorimetry::default(), Affine::IDENTITY, None));
    assert!(plain.rows().eq(image.rows()));
    let infinite = Image { to_source: Affine([[f64::INFINITY; 3]; 2]), ..image };
    assert_eq!(read(&write(&infinite)).unwrap_err(), "`to_source` must be finite");
}

#[test]
fn messages_without_an_image_are_rejected() {
    let check = |format: &str, data: &[u8], error: &str| {
        let (format, data) = (format.to_owned(), Bytes(data.to_vec()));
        let wire = RosCompressedImage { stamp: (0, 0), frame_id: String::new(), format, data };
        let found = Image::from_wire(wire).unwrap_err();
        assert!(found.contains(error), "{found}");
    };
    let png = test_image(PixelFormat::Rgb8, 40, 30, 0).to_png().unwrap();
    check("webp", &png, "format \"webp\" is not supported; accepted are `png`, `jpeg`");
    check("mono16; jpeg compressed", &png, "with one of rgb8, bgr8, mono8");
    check("rgb8; jpeg compressed bgr8", &png, "the JPEG image cannot be decoded");
    check("", &[], "format \"\" is not supported");
    check("mono16; png compressed ", &png, "its pixels are Rgb of 8 bits; mono16 is Grayscale");
    check("rgb8; png", &png[..png.len() / 2], "cannot be decoded: ");
    check("rgb8; png", &png[..png.len() - 12], "cannot be decoded: ");
    check("rgb8; png", b"not a PNG file", "cannot be decoded: ");
    for (width, height) in [(1 << 30, 1 << 30), (60_000, 1), (0, 5), (u32::MAX, u32::MAX)] {
        check("rgb8; png", &png::with_size(&png, width, height), "cannot be decoded: ");
    }
    let gray = test_image(PixelFormat::Mono8, 6, 5, 0).to_png().unwrap();
    check("nv12; png", &gray, "6 × 5 bytes are not the planes of nv12");
    let gray = test_image(PixelFormat::Mono8, 5, 6, 0).to_png().unwrap();
    check("yuyv; png", &gray, "5 × 6 bytes are not the planes of yuyv");
    check("i420; png", &gray, "an image of 5 × 4 pixels of i420 is not supported; the width");
    check("rgb8; png", &png::with_size(&png, 39, 30), "cannot be decoded: ");
    check("rgb8; png", &png::with_size(&png, 40, 31), "cannot be decoded: ");
}

#[test]
fn damaged_messages_give_an_error_or_an_image() {
    let message = write(&with_meaning(test_image(PixelFormat::Rgba8, 12, 9, 0)));
    let mut refused = 0;
    for at in 4..message.len() {
        for flip in [1, 0x80, 0xff] {
            let mut wrong = message.clone();
            wrong[at] ^= flip;
            refused += usize::from(read(&wrong).is_err());
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_black_image_compresses_and_round_trips() {
    let mut image = Image::default();
    image.reshape(PixelFormat::Mono8, 3000, 2000).unwrap().fill(0);
    let png = image.to_png().unwrap();
    assert!(png.len() < 60_000, "{}", png.len());
    assert_eq!(Image::from_png(PixelFormat::Mono8, &png).unwrap(), image);
}

/// Pixels on a device that is lost.
struct Lost([u8; 12]);

impl Memory for Lost {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn fetch(&self) -> Result<(), Error> {
        Err(Error::DeviceFailed { reason: "it was lost" })
    }

    fn device_buffer(&self) -> Option<&(dyn Any + Send + Sync)> {
        Some(&())
    }
}

#[test]
fn pixels_of_a_lost_device_are_neither_recorded_nor_sent() {
    let mut image = Image::default();
    let memory = Lost([0; 12]).into();
    let pixels = Tensor::from_foreign(ScalarType::Byte, &[3, 4], &[0, 1], memory).unwrap();
    image.set_pixels(PixelFormat::Mono8, 4, 3, pixels).unwrap();
    let (codec, wire) = (Image::CODEC.unwrap(), Image::WIRE.unwrap());
    let mut bytes = Vec::new();
    let found = [
        codec.encode(&image, &mut bytes),
        codec.encode_uncompressed(&image, &mut bytes),
        wire.encode(&image, &mut bytes).map(drop),
    ];
    assert!(found.iter().all(|found| found.as_ref().is_err_and(|error| error.contains("lost"))));
    assert_eq!(bytes, []);
}

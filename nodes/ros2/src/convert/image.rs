//! `sensor_msgs/Image`, `sensor_msgs/CompressedImage` and images.

use std::borrow::Cow;

use afferent_graph::Choice;
use afferent_messages::{Image, PixelFormat};

use super::{IS_BIG_ENDIAN, fault};
use crate::{
    Error,
    msg::{
        sensor_msgs::{self, CompressedImage},
        std_msgs::Header,
    },
};

mod jpeg;

impl<'i> sensor_msgs::Image<'i> {
    /// Replaces `image` by the message, with row padding.
    ///
    /// # Errors
    /// [`Error::Convert`] for an encoding that [`PixelFormat`] does not have, and for a shape that
    /// does not match the data.
    pub fn fill(&self, image: &mut Image) -> Result<(), Error> {
        let format = PixelFormat::from_name(&self.encoding).ok_or_else(|| {
            let known = PixelFormat::WORDS.join(", ");
            fault::<Self>(format!("encoding {:?} is none of {known}", self.encoding))
        })?;
        let [width, height, step] = [self.width, self.height, self.step]
            .map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if step.checked_mul(height) != Some(self.data.len()) {
            let found = self.data.len();
            let reason = format!("{found} bytes do not match {height} rows of {step} bytes");
            return Err(fault::<Self>(reason));
        }
        let bytes = image.reshape_padded(format, width, height, step).map_err(fault::<Self>)?;
        bytes.copy_from_slice(&self.data);
        if format.dtype().size() == 2 && (self.is_bigendian != 0) != IS_BIG_ENDIAN {
            bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|value| value.swap(0, 1));
        }
        image.frame_id.clear();
        image.frame_id.push_str(&self.header.frame_id);
        Ok(())
    }

    /// Message that borrows the bytes of `image`, with row padding. The coordinate frame of the
    /// header becomes that of the image.
    ///
    /// # Errors
    /// [`Error::Convert`] if a size does not fit the message.
    pub fn from_payload(image: &'i Image, header: Header) -> Result<Self, Error> {
        let size = |size| {
            u32::try_from(size).map_err(|_| fault::<Self>(format!("size {size} is too large")))
        };
        Ok(Self {
            header: Header { frame_id: image.frame_id.clone(), ..header },
            height: size(image.height())?,
            width: size(image.width())?,
            encoding: Cow::Borrowed(image.format().name()),
            is_bigendian: u8::from(IS_BIG_ENDIAN),
            step: size(image.row_stride())?,
            data: Cow::Borrowed(image.bytes()),
        })
    }
}

impl CompressedImage<'_> {
    /// Decodes a PNG or JPEG image. The format is as `compressed_image_transport` writes it, such as
    /// `rgb8; jpeg compressed bgr8`, or `png`, `jpeg` or `jpg` alone.
    ///
    /// # Errors
    /// [`Error::Convert`] for another format, and if the data cannot be decoded.
    pub fn to_payload(&self) -> Result<Image, Error> {
        let (encoding, codec) = self.format.split_once(';').unwrap_or(("", &self.format));
        let encoding = encoding.trim();
        let known = PixelFormat::from_name(encoding);
        let codec = codec.split_whitespace().next().unwrap_or_default();
        let image = match (codec, known) {
            ("png", _) if known.is_some() || encoding.is_empty() => self.decode_png(known),
            ("jpeg" | "jpg", None) if encoding.is_empty() => jpeg::decode(None, &self.data),
            ("jpeg" | "jpg", Some(format)) if jpeg::FORMATS.contains(&format) => {
                jpeg::decode(known, &self.data)
            }
            _ => Err(format!(
                "format {:?} is not supported; accepted are `png`, `jpeg`, `ENCODING; png \
                 compressed ...` with an encoding of {}, and `ENCODING; jpeg compressed ...` with \
                 one of {}",
                self.format,
                PixelFormat::WORDS.join(", "),
                jpeg::FORMATS.map(PixelFormat::name).join(", ")
            )),
        };
        let mut image = image.map_err(fault::<Self>)?;
        image.frame_id.push_str(&self.header.frame_id);
        Ok(image)
    }

    /// Decodes PNG data to `format`, or if it is absent to the format that the data have.
    fn decode_png(&self, format: Option<PixelFormat>) -> Result<Image, String> {
        let decode =
            |format| Image::from_png(format, &self.data).map_err(|error| error.to_string());
        if let Some(format) = format {
            return decode(format);
        }
        let [last, others @ ..] =
            [PixelFormat::Mono16, PixelFormat::Rgb8, PixelFormat::Rgba8, PixelFormat::Mono8];
        others.into_iter().find_map(|format| decode(format).ok()).map_or_else(|| decode(last), Ok)
    }

    /// Message with `image` as PNG, without loss. The coordinate frame of the header becomes that of
    /// the image.
    ///
    /// # Errors
    /// [`Error::Convert`] for an image without pixels.
    pub fn from_payload(image: &Image, header: Header) -> Result<Self, Error> {
        // The last word is the encoding that OpenCV decodes the file to.
        let decoded = match image.format() {
            PixelFormat::Rgb8 | PixelFormat::Bgr8 => "bgr8",
            PixelFormat::Rgba8 => "bgra8",
            PixelFormat::Mono8 | PixelFormat::Mono16 | PixelFormat::Depth16 => "",
        };
        Ok(Self {
            header: Header { frame_id: image.frame_id.clone(), ..header },
            format: format!("{}; png compressed {decoded}", image.format().name()),
            data: Cow::Owned(image.to_png().map_err(fault::<Self>)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test image with `gap` bytes of padding after each row.
    fn test_image(format: PixelFormat, gap: usize) -> Image {
        let row_stride = 5 * format.pixel_bytes() + gap;
        let bytes: Vec<u8> = (0..row_stride * 3).map(|at| (at * at / 7) as u8).collect();
        let mut image = Image::new(format, 5, 3, row_stride, &bytes).unwrap();
        image.frame_id.push_str("camera");
        image
    }

    #[test]
    fn images_round_trip() {
        for &format in PixelFormat::VALUES {
            for gap in [0, 6] {
                let image = test_image(format, gap);
                let message = sensor_msgs::Image::from_payload(&image, Header::default()).unwrap();
                assert_eq!(message.data.as_ptr(), image.bytes().as_ptr(), "without a copy");
                let mut again = Image::default();
                message.fill(&mut again).unwrap();
                assert_eq!((&again, again.row_stride()), (&image, image.row_stride()));
                let message = CompressedImage::from_payload(&image, Header::default()).unwrap();
                assert_eq!(message.to_payload().unwrap(), image);
            }
        }
    }

    #[test]
    fn sixteen_bit_values_of_the_other_byte_order_are_swapped() {
        let image = test_image(PixelFormat::Depth16, 2);
        let mut message = sensor_msgs::Image::from_payload(&image, Header::default()).unwrap();
        let swapped: Vec<u8> =
            message.data.chunks(2).flat_map(|value| [value[1], value[0]]).collect();
        message.data = Cow::Owned(swapped);
        message.is_bigendian ^= 1;
        let mut again = Image::default();
        message.fill(&mut again).unwrap();
        assert_eq!(again, image);
    }

    #[test]
    fn images_of_other_shapes_and_encodings_are_refused() {
        let image = test_image(PixelFormat::Rgb8, 0);
        let message = sensor_msgs::Image::from_payload(&image, Header::default()).unwrap();
        let check = |message: sensor_msgs::Image<'_>, expected: &str| {
            let error = message.fill(&mut Image::default()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let known = "encoding \"yuv422\" is none of mono8, rgb8, bgr8, rgba8, mono16, 16UC1";
        check(sensor_msgs::Image { encoding: "yuv422".into(), ..message.clone() }, known);
        let length = "45 bytes do not match 4 rows of 15 bytes";
        check(sensor_msgs::Image { height: 4, ..message.clone() }, length);
        let stride = "a row stride of 15 bytes does not fit 6 pixels of rgb8";
        check(sensor_msgs::Image { width: 6, ..message.clone() }, stride);
        let (height, step) = (u32::MAX, u32::MAX);
        let huge = sensor_msgs::Image { height, step, ..message.clone() };
        check(huge, "45 bytes do not match");
        let none = sensor_msgs::Image { height: 0, width: 0, data: Cow::default(), ..message };
        check(none, "at least one pixel");
    }

    #[test]
    fn png_and_jpeg_are_decoded() {
        let image = test_image(PixelFormat::Rgb8, 0);
        let message = CompressedImage::from_payload(&image, Header::default()).unwrap();
        let bare = CompressedImage { format: "png".to_owned(), ..message.clone() };
        assert_eq!(bare.to_payload().unwrap(), image);
        let data = Cow::Borrowed(&include_bytes!("../../tests/data/colors.jpg")[..]);
        let photo = CompressedImage { data, ..message.clone() };
        for (format, expected) in [
            ("jpeg", PixelFormat::Rgb8),
            ("jpg", PixelFormat::Rgb8),
            ("bgr8; jpeg compressed bgr8", PixelFormat::Bgr8),
            ("rgb8; jpeg compressed bgr8", PixelFormat::Rgb8),
        ] {
            let photo = CompressedImage { format: format.to_owned(), ..photo.clone() };
            let decoded = photo.to_payload().unwrap();
            assert_eq!((decoded.format(), &*decoded.frame_id), (expected, "camera"), "{format}");
        }
        for format in ["mono16; jpeg compressed", "yuv422; png compressed", "rgb8; webp", ""] {
            let message = CompressedImage { format: format.to_owned(), ..message.clone() };
            let error = message.to_payload().unwrap_err().to_string();
            assert!(error.contains(&format!("format {format:?} is not supported")), "{error}");
        }
        let cut = CompressedImage { data: Cow::Borrowed(&message.data[..50]), ..bare };
        assert!(cut.to_payload().unwrap_err().to_string().contains("cannot be decoded"));
        assert!(CompressedImage::from_payload(&Image::default(), Header::default()).is_err());
    }
}

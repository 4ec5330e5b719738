//! `sensor_msgs/Image`, `sensor_msgs/CompressedImage` and images.

use std::borrow::Cow;

use afferent_messages::{Image, RawImage};

use super::{IS_BIG_ENDIAN, fault};
use crate::{
    Error,
    msg::{
        sensor_msgs::{self, CompressedImage},
        std_msgs::Header,
    },
};

impl<'i> sensor_msgs::Image<'i> {
    /// Replaces `image` by the message, with row padding.
    ///
    /// # Errors
    /// [`Error::Convert`] for an encoding that [`Image::read_raw`] does not know, and for a shape
    /// that does not match the data.
    pub fn fill(&self, image: &mut Image) -> Result<(), Error> {
        let [width, height, step] = [self.width, self.height, self.step]
            .map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let (encoding, data) = (&*self.encoding, &*self.data);
        let is_big_endian = self.is_bigendian != 0;
        let raw = RawImage { encoding, width, height, step, is_big_endian, data };
        image.read_raw(&raw).map_err(fault::<Self>)?;
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
    /// Decodes a PNG or JPEG image, as [`Image::read_compressed`].
    ///
    /// # Errors
    /// [`Error::Convert`] for another format, and if the data cannot be decoded.
    pub fn to_payload(&self) -> Result<Image, Error> {
        let mut image = Image::default();
        image.read_compressed(&self.format, &self.data).map_err(fault::<Self>)?;
        image.frame_id.push_str(&self.header.frame_id);
        Ok(image)
    }

    /// Message with `image` as PNG, without loss. The coordinate frame of the header becomes that of
    /// the image.
    ///
    /// # Errors
    /// [`Error::Convert`] for an image without pixels.
    pub fn from_payload(image: &Image, header: Header) -> Result<Self, Error> {
        Ok(Self {
            header: Header { frame_id: image.frame_id.clone(), ..header },
            format: format!(
                "{}; png compressed {}",
                image.format().name(),
                image.format().png_name()
            ),
            data: Cow::Owned(image.to_png().map_err(fault::<Self>)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::Choice;
    use afferent_messages::PixelFormat;

    use super::*;

    /// A test image with `gap` bytes of padding after each row.
    fn test_image(format: PixelFormat, gap: usize) -> Image {
        let [columns, rows] = format.subsampling();
        let (width, height) = (5 * columns, 3 * rows);
        let row_stride = width * format.pixel_bytes() + gap;
        let len = row_stride * format.stored_rows(height);
        let bytes: Vec<u8> = (0..len).map(|at| (at * at / 7) as u8).collect();
        let mut image = Image::new(format, width, height, row_stride, &bytes).unwrap();
        image.frame_id.push_str("camera");
        image
    }

    #[test]
    fn images_round_trip() {
        for &format in PixelFormat::VALUES {
            for gap in [0, 8] {
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
    fn values_of_the_other_byte_order_are_swapped() {
        for (format, size) in [(PixelFormat::Depth16, 2), (PixelFormat::Depth32, 4)] {
            let image = test_image(format, 4);
            let mut message = sensor_msgs::Image::from_payload(&image, Header::default()).unwrap();
            let mut swapped = message.data.to_vec();
            swapped.chunks_mut(size).for_each(<[u8]>::reverse);
            message.data = Cow::Owned(swapped);
            message.is_bigendian ^= 1;
            let mut again = Image::default();
            message.fill(&mut again).unwrap();
            assert_eq!(again, image);
        }
    }

    #[test]
    fn former_names_of_encodings_are_accepted() {
        for (name, format) in [("yuv422", PixelFormat::Uyvy), ("yuv422_yuy2", PixelFormat::Yuyv)] {
            let image = test_image(format, 0);
            let message = sensor_msgs::Image::from_payload(&image, Header::default()).unwrap();
            let mut again = Image::default();
            sensor_msgs::Image { encoding: name.into(), ..message }.fill(&mut again).unwrap();
            assert_eq!(again, image);
        }
    }

    #[test]
    fn images_of_other_shapes_and_encodings_are_refused() {
        let image = test_image(PixelFormat::Rgb8, 0);
        let message = sensor_msgs::Image::from_payload(&image, Header::default()).unwrap();
        let check = |message: sensor_msgs::Image<'_>, expected: &str| {
            let error = message.fill(&mut Image::default()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let known = "encoding \"nv21\" is none of mono8, rgb8, bgr8, rgba8, mono16, 16UC1";
        check(sensor_msgs::Image { encoding: "nv21".into(), ..message.clone() }, known);
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
        let data =
            Cow::Borrowed(&include_bytes!("../../../../graph/messages/tests/data/colors.jpg")[..]);
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

//! Image files.

use std::{fs, path::PathBuf};

use afferent_graph::{Cx, Node, NodeError, OpenCx, OutputPath, Port, Weight, params, ports};
use afferent_messages::Image;

use crate::output::{self, file_error};

/// Writes each image to a PNG file in a folder.
///
/// Files are named by the sequence number of the image: `000000.png`, `000001.png`, ... A number is
/// missing if the stream dropped that image, as it does by default when the disk is slow. The
/// folder and its parents are created when the graph starts; existing files are overwritten. The
/// files are lossless, except that they do not store the coordinate frame and the geometry, and that
/// `bgr8` becomes RGB. YUV formats are written as gray images of their planes, one below the other,
/// and `32FC1` as RGBA with the highest byte of a value as red. Empty images are skipped.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, OutputPath, Timestamp};
/// use afferent_messages::{Image, PixelFormat};
/// use afferent_nodes_io::{ImageWriter, ImageWriterParams};
///
/// let path = std::env::temp_dir().join(format!("afferent-images-{}", std::process::id()));
/// let params = ImageWriterParams { path: OutputPath(path.clone()) };
/// let mut bench = NodeBench::new(ImageWriter::open(params, &OpenCx::default())?);
/// let image = Image::new(PixelFormat::Mono8, 2, 1, 2, &[7, 9])?;
/// bench.call(ImageWriter::IMAGES, Timestamp::ZERO, image.clone())?;
/// let file = std::fs::read(path.join("000000.png")).unwrap();
/// assert_eq!(Image::from_png(PixelFormat::Mono8, &file)?, image);
/// # std::fs::remove_dir_all(path).unwrap();
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct ImageWriter {
    folder: PathBuf,
}

params! {
    /// Settings of [`ImageWriter`].
    pub struct ImageWriterParams {
        /// Folder that the PNG files are written to.
        pub path: OutputPath;
    }
}

ports! {
    impl ImageWriter {
        /// Images of any size and pixel format.
        in IMAGES: Image;
    }
}

impl Node for ImageWriter {
    type Params = ImageWriterParams;

    const NAME: &'static str = "image_writer";
    const SUMMARY: &'static str = "Writes each image to a PNG file in a folder.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "none";

    fn check(params: &ImageWriterParams, _: &OpenCx) -> Result<(), NodeError> {
        output::check_folder(&params.path)
    }

    fn open(params: ImageWriterParams, _: &OpenCx) -> Result<Self, NodeError> {
        output::create_folder(&params.path)?;
        Ok(Self { folder: params.path.0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let (Some(image), Some(packet)) = (cx.get(Self::IMAGES), cx.packet()) else {
            return Ok(());
        };
        image.pixels().fetch()?;
        if image.bytes().is_empty() {
            return Ok(());
        }
        let path = self.folder.join(format!("{:06}.png", packet.header.sequence));
        fs::write(&path, image.to_png()?)
            .map_err(|error| file_error(&path, format!("cannot write it: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{Choice, NodeBench, Timestamp};
    use afferent_messages::PixelFormat;

    use super::*;
    use crate::testing::TempFolder;

    fn open(path: PathBuf) -> Result<NodeBench<ImageWriter>, NodeError> {
        ImageWriter::open(ImageWriterParams { path: OutputPath(path) }, &OpenCx::default())
            .map(NodeBench::new)
    }

    /// An image of 8 × 4 pixels.
    fn image(format: PixelFormat) -> Image {
        let row = 8 * format.pixel_bytes();
        let bytes: Vec<u8> = (0..row * format.stored_rows(4)).map(|at| at as u8).collect();
        Image::new(format, 8, 4, row, &bytes).unwrap()
    }

    #[test]
    fn every_pixel_format_is_written() {
        let folder = TempFolder::new();
        for &format in PixelFormat::VALUES {
            let path = folder.path("new").join(format.name());
            let image = image(format);
            let mut bench = open(path.clone()).unwrap();
            bench.call(ImageWriter::IMAGES, Timestamp::ZERO, image.clone()).unwrap();
            bench.call(ImageWriter::IMAGES, Timestamp::ZERO, Image::default()).unwrap();
            let file = fs::read(path.join("000000.png")).unwrap();
            assert_eq!(Image::from_png(format, &file).unwrap(), image);
            assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "an empty image makes no file");
        }
    }

    #[test]
    fn a_path_that_is_not_a_folder_is_rejected() {
        let folder = TempFolder::new();
        let file = folder.path("file");
        fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            let params = ImageWriterParams { path: OutputPath(path.clone()) };
            let error = ImageWriter::check(&params, &OpenCx::default()).unwrap_err();
            assert!(error.to_string().contains("is a file, not a folder"), "{error}");
            assert_eq!(open(path).err(), Some(error));
        }
    }

    #[test]
    fn write_errors_are_reported() {
        let folder = TempFolder::new();
        let path = folder.path("images");
        let mut bench = open(path.clone()).unwrap();
        let mut write = || {
            let image = image(PixelFormat::Rgb8);
            bench.call(ImageWriter::IMAGES, Timestamp::ZERO, image).unwrap_err().to_string()
        };
        #[cfg(target_os = "linux")]
        {
            std::os::unix::fs::symlink("/dev/full", path.join("000000.png")).unwrap();
            let error = write();
            assert!(error.contains("000000.png: cannot write it: No space left"), "{error}");
        }
        fs::remove_dir_all(&path).unwrap();
        let error = write();
        assert!(error.contains("000000.png: cannot write it: "), "{error}");
    }
}

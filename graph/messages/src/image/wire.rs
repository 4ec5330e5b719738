//! Images between processes and machines: rows as they are in memory, not compressed.

use afferent_core::{ForeignBytes, Tensor};
use afferent_graph::Choice;
use serde::{Deserialize, Serialize};

use super::{Image, ImageError, PixelFormat};
use crate::WireMessage;

/// Everything of an image but its bytes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageMeta {
    format: String,
    width: u64,
    height: u64,
    row_stride: u64,
    frame_id: String,
}

impl WireMessage for Image {
    const LAYOUT: &'static str = "string format
uint64 width
uint64 height
uint64 row_stride
string frame_id
bulk uint8[] rows
";
    type Meta = ImageMeta;

    fn to_parts(&self) -> Result<(ImageMeta, &[u8]), String> {
        let meta = ImageMeta {
            format: self.format.name().to_owned(),
            width: self.width() as u64,
            height: self.height() as u64,
            row_stride: self.row_stride() as u64,
            frame_id: self.frame_id.clone(),
        };
        Ok((meta, self.bytes()))
    }

    fn from_parts(meta: ImageMeta, bulk: ForeignBytes) -> Result<Self, String> {
        let format = PixelFormat::from_name(&meta.format).ok_or_else(|| {
            format!("format {:?} is none of {}", meta.format, PixelFormat::WORDS.join(", "))
        })?;
        let size = |size| usize::try_from(size).unwrap_or(usize::MAX);
        let [width, height, row_stride] = [meta.width, meta.height, meta.row_stride].map(size);
        if ([width, height, row_stride], bulk.len()) == ([0; 3], 0) {
            return Ok(Self { frame_id: meta.frame_id, ..Self::empty(format) });
        }
        Ok(Self {
            pixels: pixels(format, [width, height, row_stride], bulk)?,
            sizes: [height, width, format.channels()],
            format,
            frame_id: meta.frame_id,
        })
    }
}

/// The rows in `bulk` as a tensor.
fn pixels(
    format: PixelFormat,
    [width, height, row_stride]: [usize; 3],
    bulk: ForeignBytes,
) -> Result<Tensor, String> {
    let mut checked = Image::check(format, width, height, row_stride);
    let found = bulk.len();
    if checked.is_ok() && row_stride.checked_mul(height) != Some(found) {
        checked = Err(ImageError::Length { found, height, row_stride });
    }
    checked.map_err(|error| error.to_string())?;
    let dtype = format.dtype();
    let pixels = Tensor::from_foreign(dtype, &[height, row_stride / dtype.size()], &[0, 1], bulk);
    pixels.map_err(|error| error.to_string())
}

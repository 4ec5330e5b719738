//! Images between processes and machines: rows as they are in memory, not compressed.

use afferent_core::{ForeignBytes, Tensor};
use afferent_graph::Choice;
use serde::{Deserialize, Serialize};

use super::{Colorimetry, Image, PixelFormat};
use crate::{
    WireMessage,
    camera::{Geometry, camera_definition, geometry_fields},
    wire::choice,
};

/// Everything of an image but its bytes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageMeta {
    format: String,
    width: u64,
    height: u64,
    row_stride: u64,
    frame_id: String,
    meaning: Meaning,
}

/// Meaning of the pixels of an image.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Meaning {
    matrix: String,
    range: String,
    geometry: Geometry,
}

impl Meaning {
    fn new(image: &Image) -> Result<Self, String> {
        let geometry = Geometry::new(&image.to_source, image.camera.as_deref())?;
        Ok(Self { geometry, ..Self::unchecked(image) })
    }

    /// Like [`Meaning::new`], also for values that [`Meaning::apply`] refuses.
    pub(super) fn unchecked(image: &Image) -> Self {
        let Colorimetry { matrix, range } = image.colorimetry;
        let [matrix, range] = [matrix.word(), range.word()].map(str::to_owned);
        let geometry = Geometry::unchecked(&image.to_source, image.camera.as_deref());
        Self { matrix, range, geometry }
    }

    /// Gives `image` this meaning.
    ///
    /// # Errors
    /// The invalid field and its accepted values.
    pub(super) fn apply(self, image: &mut Image) -> Result<(), String> {
        (image.to_source, image.camera) = self.geometry.into_parts()?;
        image.colorimetry = Colorimetry {
            matrix: choice("matrix", &self.matrix)?,
            range: choice("range", &self.range)?,
        };
        Ok(())
    }
}

impl WireMessage for Image {
    const LAYOUT: &'static str = concat!(
        "string format
uint64 width
uint64 height
uint64 row_stride
string frame_id
string matrix
string range
",
        geometry_fields!(),
        "bulk uint8[] rows
",
        camera_definition!(),
    );
    type Meta = ImageMeta;

    fn to_parts(&self) -> Result<(ImageMeta, &[u8]), String> {
        self.pixels.fetch().map_err(|error| error.to_string())?;
        let meta = ImageMeta {
            format: self.format.name().to_owned(),
            width: self.width() as u64,
            height: self.height() as u64,
            row_stride: self.row_stride() as u64,
            frame_id: self.frame_id.clone(),
            meaning: Meaning::new(self)?,
        };
        Ok((meta, self.bytes()))
    }

    fn from_parts(meta: ImageMeta, bulk: ForeignBytes) -> Result<Self, String> {
        let format = choice::<PixelFormat>("format", &meta.format)?;
        let size = |size| usize::try_from(size).unwrap_or(usize::MAX);
        let [width, height, row_stride] = [meta.width, meta.height, meta.row_stride].map(size);
        let mut image = Self { frame_id: meta.frame_id, ..Self::empty(format) };
        meta.meaning.apply(&mut image)?;
        if ([width, height, row_stride], bulk.len()) != ([0; 3], 0) {
            image.pixels = pixels(format, [width, height, row_stride], bulk)?;
            image.sizes = [height, width, format.channels()];
        }
        Ok(image)
    }
}

/// The rows in `bulk` as a tensor.
fn pixels(
    format: PixelFormat,
    [width, height, row_stride]: [usize; 3],
    bulk: ForeignBytes,
) -> Result<Tensor, String> {
    Image::check(format, width, height, row_stride)
        .and_then(|()| Image::check_length(format, height, row_stride, bulk.len()))
        .map_err(|error| error.to_string())?;
    let dtype = format.dtype();
    let sizes = [format.stored_rows(height), row_stride / dtype.size()];
    Tensor::from_foreign(dtype, &sizes, &[0, 1], bulk).map_err(|error| error.to_string())
}

//! Luma and chroma of images, pixel by pixel, for the files that store them.

use afferent_messages::{ColorMatrix, ColorRange, Colorimetry, Image, PixelFormat};

/// Colorimetry of JPEG files (JFIF).
pub(crate) const JPEG: Colorimetry =
    Colorimetry { matrix: ColorMatrix::Bt601, range: ColorRange::Full };

/// From this height on, files that do not say it have the colors of high definition.
const HIGH_DEFINITION: usize = 720;

/// Matrix of a file of this height that does not say it.
pub(crate) fn matrix_of_height(height: usize) -> ColorMatrix {
    if height >= HIGH_DEFINITION { ColorMatrix::Bt709 } else { ColorMatrix::Bt601 }
}

/// Affine map of three components: three factors and an offset for each result.
type Map = [[f64; 4]; 3];

/// Number of fraction bits of an integer map.
const FRACTION_BITS: u32 = 16;

/// A [`Map`] of 8-bit components, as integers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColorMap([[i32; 4]; 3]);

impl ColorMap {
    /// From red, green, blue to luma and chroma.
    pub(crate) fn from_rgb(to: Colorimetry) -> Self {
        Self::new(rgb_to_yuv(to))
    }

    /// From luma and chroma to red, green, blue.
    pub(crate) fn to_rgb(from: Colorimetry) -> Self {
        Self::new(yuv_to_rgb(from))
    }

    fn new(map: Map) -> Self {
        let scale = f64::from(1 << FRACTION_BITS);
        let row = |[a, b, c, offset]: [f64; 4]| {
            // Half a unit, so that the shift rounds.
            [a, b, c, offset + 0.5].map(|factor| (factor * scale).round() as i32)
        };
        Self(map.map(row))
    }

    pub(crate) fn apply(&self, color: [u8; 3]) -> [u8; 3] {
        let [a, b, c] = color.map(i32::from);
        self.0.map(|row| {
            let sum = row[0] * a + row[1] * b + row[2] * c + row[3];
            (sum >> FRACTION_BITS).clamp(0, 255) as u8
        })
    }
}

/// Scale and offset of luma and of chroma.
fn ranges(range: ColorRange) -> [[f64; 2]; 2] {
    match range {
        ColorRange::Full => [[1.0, 0.0], [1.0, 128.0]],
        ColorRange::Limited => [[219.0 / 255.0, 16.0], [224.0 / 255.0, 128.0]],
    }
}

fn rgb_to_yuv(to: Colorimetry) -> Map {
    let ([red, blue], [luma, chroma]) = (to.matrix.weights(), ranges(to.range));
    let green = 1.0 - red - blue;
    let (u, v) = (chroma[0] / (2.0 * (1.0 - blue)), chroma[0] / (2.0 * (1.0 - red)));
    [
        [red * luma[0], green * luma[0], blue * luma[0], luma[1]],
        [-red * u, -green * u, (1.0 - blue) * u, chroma[1]],
        [(1.0 - red) * v, -green * v, -blue * v, chroma[1]],
    ]
}

fn yuv_to_rgb(from: Colorimetry) -> Map {
    let ([red, blue], [luma, chroma]) = (from.matrix.weights(), ranges(from.range));
    let green = 1.0 - red - blue;
    let y = 1.0 / luma[0];
    let (u, v) = (2.0 * (1.0 - blue) / chroma[0], 2.0 * (1.0 - red) / chroma[0]);
    let row = |u: f64, v: f64| [y, u, v, -luma[1] * y - chroma[1] * (u + v)];
    [row(0.0, v), row(-u * blue / green, -v * red / green), row(u, 0.0)]
}

/// The map that applies `first` and then `second`.
fn compose(second: Map, first: Map) -> Map {
    second.map(|row| {
        let mut result = [0.0, 0.0, 0.0, row[3]];
        for (factor, first) in row.iter().zip(first) {
            result.iter_mut().zip(first).for_each(|(sum, value)| *sum += factor * value);
        }
        result
    })
}

/// Luma and chroma of the pixels of an image.
pub(crate) struct LumaChroma<'i> {
    image: &'i Image,
    /// `None` if the image has them as they are wanted.
    map: Option<ColorMap>,
}

impl<'i> LumaChroma<'i> {
    /// # Errors
    /// The pixel format that has no colors of 8 bits, and what is accepted.
    pub(crate) fn new(image: &'i Image, to: Colorimetry) -> Result<Self, String> {
        let map = match image.format() {
            PixelFormat::Mono16 | PixelFormat::Depth16 | PixelFormat::Depth32 => {
                return Err(format!(
                    "images in {} are not supported; accepted are mono8, rgb8, bgr8, rgba8, yuyv, \
                     uyvy, nv12 and i420, and image_writer writes all formats",
                    image.format().name()
                ));
            }
            format if format.is_yuv() && image.colorimetry == to => None,
            format if format.is_yuv() => {
                let map = compose(rgb_to_yuv(to), yuv_to_rgb(image.colorimetry));
                Some(ColorMap::new(map))
            }
            _ => Some(ColorMap::from_rgb(to)),
        };
        Ok(Self { image, map })
    }

    /// Calls `f` with luma and chroma of each pixel of row `y`.
    pub(crate) fn row(&self, y: usize, mut f: impl FnMut([u8; 3])) {
        let mut planes = self.image.planes();
        let mut row = |y: usize| planes.next().and_then(|plane| plane.rows().nth(y)).unwrap_or(&[]);
        let mut pixel = |color| f(self.map.as_ref().map_or(color, |map| map.apply(color)));
        let first = row(y);
        match self.image.format() {
            PixelFormat::Rgb8 => {
                first.as_chunks().0.iter().for_each(|&[r, g, b]| pixel([r, g, b]));
            }
            PixelFormat::Bgr8 => {
                first.as_chunks().0.iter().for_each(|&[b, g, r]| pixel([r, g, b]));
            }
            PixelFormat::Rgba8 => {
                first.as_chunks().0.iter().for_each(|&[r, g, b, _]| pixel([r, g, b]));
            }
            PixelFormat::Yuyv => first.as_chunks().0.iter().for_each(|&[y0, u, y1, v]| {
                pixel([y0, u, v]);
                pixel([y1, u, v]);
            }),
            PixelFormat::Uyvy => first.as_chunks().0.iter().for_each(|&[u, y0, v, y1]| {
                pixel([y0, u, v]);
                pixel([y1, u, v]);
            }),
            PixelFormat::Nv12 => {
                let chroma = row(y / 2).as_chunks::<2>().0;
                for (pair, &[u, v]) in first.chunks(2).zip(chroma) {
                    pair.iter().for_each(|luma| pixel([*luma, u, v]));
                }
            }
            PixelFormat::I420 => {
                let (u, v) = (row(y / 2), row(y / 2));
                for (pair, (u, v)) in first.chunks(2).zip(u.iter().zip(v)) {
                    pair.iter().for_each(|luma| pixel([*luma, *u, *v]));
                }
            }
            // Gray; others are refused.
            _ => first.iter().for_each(|value| pixel([*value; 3])),
        }
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::Choice;

    use super::*;

    fn first(image: &Image, to: Colorimetry) -> [u8; 3] {
        let mut found = Vec::new();
        LumaChroma::new(image, to).unwrap().row(1, |color| found.push(color));
        assert_eq!(found.len(), image.width());
        found[0]
    }

    #[test]
    fn colors_have_the_values_of_the_standards() {
        let limited = |matrix| Colorimetry { matrix, range: ColorRange::Limited };
        // ITU-R BT.601 and BT.709: pure red, green, blue, white, black.
        let check = |to: Colorimetry, color: [u8; 3], expected: [u8; 3]| {
            assert_eq!(ColorMap::from_rgb(to).apply(color), expected, "{to:?}");
            let again = ColorMap::to_rgb(to).apply(expected);
            let is_near = again.iter().zip(color).all(|(a, b)| a.abs_diff(b) <= 2);
            assert!(is_near, "{again:?} {color:?}");
        };
        check(limited(ColorMatrix::Bt601), [255, 0, 0], [81, 90, 240]);
        check(limited(ColorMatrix::Bt601), [0, 255, 0], [145, 54, 34]);
        check(limited(ColorMatrix::Bt601), [0, 0, 255], [41, 240, 110]);
        check(limited(ColorMatrix::Bt709), [255, 0, 0], [63, 102, 240]);
        check(limited(ColorMatrix::Bt709), [0, 255, 0], [173, 42, 26]);
        check(limited(ColorMatrix::Bt709), [255, 255, 255], [235, 128, 128]);
        check(JPEG, [255, 0, 0], [76, 85, 255]);
        check(JPEG, [0, 0, 0], [0, 128, 128]);
    }

    #[test]
    fn every_format_gives_its_colors() {
        let (red, red_709) = ([81, 90, 240], [63, 102, 240]);
        let limited = |matrix| Colorimetry { matrix, range: ColorRange::Limited };
        let (from, to) = (limited(ColorMatrix::Bt601), limited(ColorMatrix::Bt709));
        for &format in PixelFormat::VALUES {
            let mut image = Image::default();
            let bytes = image.reshape(format, 4, 2).unwrap();
            let pixel: &[u8] = match format {
                PixelFormat::Mono8 => &[255],
                PixelFormat::Rgb8 => &[255, 0, 0],
                PixelFormat::Bgr8 => &[0, 0, 255],
                PixelFormat::Rgba8 => &[255, 0, 0, 9],
                PixelFormat::Yuyv => &[81, 90, 81, 240],
                PixelFormat::Uyvy => &[90, 81, 240, 81],
                PixelFormat::Nv12 => &[81, 81, 81, 81, 81, 81, 81, 81, 90, 240, 90, 240],
                PixelFormat::I420 => &[81, 81, 81, 81, 81, 81, 81, 81, 90, 90, 240, 240],
                PixelFormat::Mono16 | PixelFormat::Depth16 | PixelFormat::Depth32 => {
                    let told = LumaChroma::new(&image, to).err().unwrap();
                    assert!(told.contains(format.name()) && told.contains("image_writer"));
                    continue;
                }
            };
            bytes.chunks_mut(pixel.len()).for_each(|chunk| chunk.copy_from_slice(pixel));
            image.colorimetry = from;
            let is_gray = format == PixelFormat::Mono8;
            let gray = [235, 128, 128];
            assert_eq!(first(&image, from), if is_gray { gray } else { red }, "{format:?}");
            // Rounded twice.
            let (found, expected) = (first(&image, to), if is_gray { gray } else { red_709 });
            let is_near = found.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 1);
            assert!(is_near, "{format:?}: {found:?}");
        }
    }
}

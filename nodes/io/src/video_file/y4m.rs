//! Y4M files (YUV4MPEG2): planes of pixels with a header of text.

use std::{
    io::{BufRead, Read},
    time::Duration,
};

use afferent_graph::Choice;
use afferent_messages::{ColorMatrix, ColorRange, Colorimetry, Image, PixelFormat};

use super::{Frames, Reader, time_of};
use crate::luma_chroma::{ColorMap, matrix_of_height};

pub(super) struct Y4m {
    file: Reader,
    header: Header,
    number: u64,
    /// Planes of an image that is stored in another order than the file has.
    planes: Vec<u8>,
}

/// What the first line says.
#[derive(Debug, Clone, Copy)]
struct Header {
    width: usize,
    height: usize,
    /// Images per second, as a fraction.
    rate: [u64; 2],
    format: PixelFormat,
    colorimetry: Colorimetry,
}

/// Longest line of a header.
const MAX_LINE: u64 = 4096;

impl Header {
    fn read(line: &str) -> Result<Self, String> {
        let mut fields = line.split(' ');
        if fields.next() != Some("YUV4MPEG2") {
            return Err("it does not begin with YUV4MPEG2".to_owned());
        }
        let (mut width, mut height, mut rate) = (0, 0, [0, 0]);
        let (mut colors, mut is_full, mut matrix) = ("420jpeg", false, None);
        for field in fields.filter(|field| !field.is_empty()) {
            let fault = || format!("the field {field} of its header cannot be read");
            let (name, value) = field.split_at_checked(1).ok_or_else(fault)?;
            match name {
                "W" => width = value.parse().map_err(|_| fault())?,
                "H" => height = value.parse().map_err(|_| fault())?,
                "F" => {
                    let (numerator, denominator) = value.split_once(':').ok_or_else(fault)?;
                    let number = |text: &str| text.parse::<u64>().map_err(|_| fault());
                    rate = [number(numerator)?, number(denominator)?];
                }
                "C" => colors = value,
                "X" => {
                    is_full |= value == "COLORRANGE=FULL";
                    // Written by `video_writer`.
                    let word = value.strip_prefix("COLORMATRIX=");
                    matrix = word.and_then(ColorMatrix::from_word).or(matrix);
                }
                _ => {}
            }
        }
        if width == 0 || height == 0 || rate.contains(&0) {
            return Err("its header lacks the size or the rate: W, H, F".to_owned());
        }
        let format = match colors {
            "420" | "420jpeg" | "420mpeg2" | "420paldv" => PixelFormat::I420,
            "422" => PixelFormat::Yuyv,
            "444" => PixelFormat::Rgb8,
            "mono" => PixelFormat::Mono8,
            other => {
                return Err(format!(
                    "its color space {other} is not supported; 420, 422, 444 and mono with 8 bits \
                     are: ffmpeg -i FILE -pix_fmt yuv420p out.y4m"
                ));
            }
        };
        let matrix = matrix.unwrap_or_else(|| matrix_of_height(height));
        let range = if is_full { ColorRange::Full } else { ColorRange::Limited };
        let colorimetry = Colorimetry { matrix, range };
        Ok(Self { width, height, rate, format, colorimetry })
    }
}

impl Y4m {
    pub(super) fn open(mut file: Reader) -> Result<Self, String> {
        let line = line(&mut file)?.ok_or("it is empty")?;
        Ok(Self { file, header: Header::read(&line)?, number: 0, planes: Vec::new() })
    }

    fn time_of(&self, number: u64) -> Duration {
        let [numerator, denominator] = self.header.rate;
        time_of(number, denominator, numerator)
    }
}

impl Frames for Y4m {
    fn next(&mut self, image: &mut Image) -> Result<Option<Duration>, String> {
        let Header { width, height, format, colorimetry, .. } = self.header;
        let number = self.number;
        match line(&mut self.file)? {
            None => return Ok(None),
            Some(line) if line == "FRAME" || line.starts_with("FRAME ") => {}
            Some(_) => return Err(format!("image {number} does not begin with FRAME")),
        }
        let bytes = image.reshape(format, width, height).map_err(|error| error.to_string())?;
        let is_interleaved = matches!(format, PixelFormat::Yuyv | PixelFormat::Rgb8);
        let to = if is_interleaved {
            self.planes.resize(bytes.len(), 0);
            &mut self.planes
        } else {
            &mut *bytes
        };
        let read = self.file.read_exact(to);
        read.map_err(|error| format!("image {number} is damaged: {error}"))?;
        match format {
            PixelFormat::Yuyv => interleave(&self.planes, bytes),
            PixelFormat::Rgb8 => to_rgb(&self.planes, colorimetry, bytes),
            _ => {}
        }
        // Colorimetry applies to YUV only.
        if format.is_yuv() {
            image.colorimetry = colorimetry;
        }
        self.number += 1;
        Ok(Some(self.time_of(number)))
    }

    fn period(&self) -> Option<Duration> {
        Some(self.time_of(1))
    }
}

/// Planes of 4:2:2 as `yuyv`.
fn interleave(planes: &[u8], pixels: &mut [u8]) {
    let (luma, chroma) = planes.split_at(planes.len() / 2);
    let (blue, red) = chroma.split_at(chroma.len() / 2);
    let pairs = luma.as_chunks().0.iter().zip(blue.iter().zip(red));
    for (pixel, ([y0, y1], (u, v))) in pixels.as_chunks_mut().0.iter_mut().zip(pairs) {
        *pixel = [*y0, *u, *y1, *v];
    }
}

/// Planes of 4:4:4 as `rgb8`.
fn to_rgb(planes: &[u8], from: Colorimetry, pixels: &mut [u8]) {
    let map = ColorMap::to_rgb(from);
    let (luma, chroma) = planes.split_at(planes.len() / 3);
    let (blue, red) = chroma.split_at(chroma.len() / 2);
    let colors = luma.iter().zip(blue.iter().zip(red));
    for (pixel, (y, (u, v))) in pixels.as_chunks_mut().0.iter_mut().zip(colors) {
        *pixel = map.apply([*y, *u, *v]);
    }
}

/// The next line, and `None` at the end of the file.
fn line(file: &mut Reader) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_LINE).read_until(b'\n', &mut bytes);
    read.map_err(|error| error.to_string())?;
    match bytes.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Some(_) => Err("a line of its header has no end".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video_file::tests::reader_of;

    fn file(header: &str, frames: &[&[u8]]) -> Vec<u8> {
        let mut file = format!("YUV4MPEG2 {header}\n").into_bytes();
        for frame in frames {
            file.extend(b"FRAME\n");
            file.extend(*frame);
        }
        file
    }

    #[test]
    fn planes_become_those_of_an_image() {
        let frame: Vec<u8> = (0..12).collect();
        let file = file("W4 H2 F30000:1001 C420jpeg XCOLORRANGE=FULL", &[&frame, &frame]);
        let mut frames = Y4m::open(reader_of(file)).unwrap();
        let mut image = Image::default();
        assert_eq!(frames.next(&mut image), Ok(Some(Duration::ZERO)));
        assert_eq!((image.format(), image.bytes()), (PixelFormat::I420, &*frame));
        assert_eq!(image.colorimetry.range, ColorRange::Full);
        assert_eq!(frames.next(&mut image), Ok(Some(Duration::from_nanos(33_366_666))));
        assert_eq!(frames.next(&mut image), Ok(None));
    }

    #[test]
    fn chroma_of_every_pixel_is_read() {
        let read = |file| {
            let mut image = Image::default();
            Y4m::open(reader_of(file)).unwrap().next(&mut image).unwrap();
            image
        };
        let planes: &[&[u8]] = &[&[1, 2, 3, 4, 10, 20, 30, 40]];
        let image = read(file("W2 H2 F25:1 C422 XCOLORMATRIX=bt2020", planes));
        assert_eq!(image.bytes(), [1, 10, 2, 30, 3, 20, 4, 40]);
        let bt2020 = Colorimetry { matrix: ColorMatrix::Bt2020, range: ColorRange::Limited };
        assert_eq!((image.format(), image.colorimetry), (PixelFormat::Yuyv, bt2020));
        // Red and blue of BT.601.
        let planes: &[&[u8]] = &[&[81, 41, 90, 240, 240, 110]];
        let image = read(file("W1 H2 F25:1 C444", planes));
        let [r0, g0, b0, r1, g1, b1] = *image.bytes() else { panic!() };
        assert!(r0 > 252 && g0.max(b0) < 3, "{:?}", image.bytes());
        assert!(b1 > 252 && g1.max(r1) < 3, "{:?}", image.bytes());
    }

    #[test]
    fn damaged_and_other_files_are_refused() {
        let told = |file: Vec<u8>| {
            let mut image = Image::default();
            let read = Y4m::open(reader_of(file)).and_then(|mut frames| {
                while frames.next(&mut image)?.is_some() {}
                Ok(())
            });
            read.unwrap_err()
        };
        let check = |file: Vec<u8>, expected: &str| {
            let told = told(file);
            assert!(told.contains(expected), "{told}");
        };
        check(file("W4 H2 F25:1 C420p10", &[&[0; 24]]), "color space 420p10");
        check(file("W4 F25:1", &[]), "W, H, F");
        check(file("W4 H2 F25", &[]), "the field F25");
        check(b"YUV4MPEG2 W4".to_vec(), "no end");
        check(file("W4 H2 F25:1 Cmono", &[b"12345678\n"]), "FRAME");
        check(file("W4 H2 F25:1 C420jpeg", &[&[0; 5]]), "image 0 is damaged");
        check(file("W999998 H999998 F25:1 C420jpeg", &[&[0; 5]]), "at most");
    }
}

//! Y4M files (YUV4MPEG2), with the chroma that the images have.

use std::{
    fs::File,
    io::{BufWriter, Write},
};

use afferent_graph::Choice;
use afferent_messages::{ColorRange, Colorimetry, Image, PixelFormat, Plane};

use super::{VideoFile, rate::Rate};
use crate::luma_chroma::{LumaChroma, matrix_of_height};

pub(super) struct Y4mFile<W: Write = File> {
    file: BufWriter<W>,
    /// Colors of the file.
    colors: Colorimetry,
    /// Bytes of the last image.
    planes: Vec<u8>,
}

impl<W: Write> Y4mFile<W> {
    pub(super) fn new(file: W, image: &Image, rate: Rate) -> Result<Self, String> {
        let (width, height) = (image.width(), image.height());
        // Other programs read these colors too.
        let usual = Colorimetry { matrix: matrix_of_height(height), range: ColorRange::Full };
        let (chroma, colors) = match image.format() {
            PixelFormat::Mono8 => ("mono", Colorimetry::default()),
            PixelFormat::I420 | PixelFormat::Nv12 => ("420jpeg", image.colorimetry),
            PixelFormat::Yuyv | PixelFormat::Uyvy => ("422", image.colorimetry),
            _ => ("444", usual),
        };
        LumaChroma::new(image, colors)?;
        let mut header = format!(
            "YUV4MPEG2 W{width} H{height} F{}:{} Ip A1:1 C{chroma}",
            rate.numerator, rate.denominator
        );
        if image.format() != PixelFormat::Mono8 {
            if colors.range == ColorRange::Full {
                header.push_str(" XCOLORRANGE=FULL");
            }
            if colors.matrix != usual.matrix {
                header.push_str(&format!(" XCOLORMATRIX={}", colors.matrix.word()));
            }
        }
        header.push('\n');
        let mut file = BufWriter::new(file);
        file.write_all(header.as_bytes()).map_err(|error| error.to_string())?;
        Ok(Self { file, colors, planes: Vec::new() })
    }
}

impl<W: Write + Send> VideoFile for Y4mFile<W> {
    fn write(&mut self, image: &Image) -> Result<(), String> {
        self.planes.clear();
        let every = |row: &[u8], from: usize, step: usize, to: &mut Vec<u8>| {
            to.extend(row.iter().skip(from).step_by(step));
        };
        match image.format() {
            PixelFormat::Mono8 | PixelFormat::I420 => {
                image.rows().for_each(|row| self.planes.extend(row));
            }
            PixelFormat::Nv12 => {
                let mut planes = image.planes();
                planes.next().into_iter().flat_map(Plane::rows).for_each(|row| {
                    self.planes.extend(row);
                });
                for chroma in planes {
                    for from in [0, 1] {
                        chroma.rows().for_each(|row| every(row, from, 2, &mut self.planes));
                    }
                }
            }
            PixelFormat::Yuyv | PixelFormat::Uyvy => {
                let is_luma_first = usize::from(image.format() == PixelFormat::Yuyv);
                for (from, step) in
                    [(1 - is_luma_first, 2), (is_luma_first, 4), (is_luma_first + 2, 4)]
                {
                    image.rows().for_each(|row| every(row, from, step, &mut self.planes));
                }
            }
            _ => {
                let colors = LumaChroma::new(image, self.colors)?;
                let pixels = image.width() * image.height();
                self.planes.resize(3 * pixels, 0);
                let (luma, chroma) = self.planes.split_at_mut(pixels);
                let (blue, red) = chroma.split_at_mut(pixels);
                let mut at = 0;
                for y in 0..image.height() {
                    colors.row(y, |color| {
                        [luma[at], blue[at], red[at]] = color;
                        at += 1;
                    });
                }
            }
        }
        self.repeat()
    }

    fn repeat(&mut self) -> Result<(), String> {
        let written = self.file.write_all(b"FRAME\n");
        let written = written.and_then(|()| self.file.write_all(&self.planes));
        written.map_err(|error| error.to_string())
    }

    fn finish(&mut self) -> Result<(), String> {
        self.file.flush().map_err(|error| error.to_string())
    }
}

//! Lines and text in an image.

use std::convert::Infallible;

use afferent_messages::Affine;
use embedded_graphics::Drawable;
use embedded_graphics::{
    Pixel,
    draw_target::DrawTarget,
    geometry::{OriginDimensions, Point, Size},
    mono_font::{MonoTextStyle, MonoTextStyleBuilder, ascii::FONT_6X10},
    pixelcolor::{Rgb888, RgbColor},
    primitives::{Circle, Line, Primitive, PrimitiveStyle},
    text::{Baseline, Text},
};

use crate::drawing::{Color, Draw};

/// Width of lines in pixels.
const STROKE: u32 = 2;

/// Height of a line of text in pixels.
const LINE: i32 = 10;

/// An `rgb8` image that is drawn into, at points of its source image.
pub(super) struct Canvas<'i> {
    pixels: Pixels<'i>,
    from_source: Affine,
}

struct Pixels<'i> {
    bytes: &'i mut [u8],
    width: usize,
    height: usize,
}

impl OriginDimensions for Pixels<'_> {
    fn size(&self) -> Size {
        Size::new(self.width as u32, self.height as u32)
    }
}

impl DrawTarget for Pixels<'_> {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> Result<(), Infallible> {
        let (all, _) = self.bytes.as_chunks_mut::<3>();
        for Pixel(Point { x, y }, color) in pixels {
            let [x, y] = [x, y].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
            if x < self.width
                && y < self.height
                && let Some(pixel) = all.get_mut(y * self.width + x)
            {
                *pixel = [color.r(), color.g(), color.b()];
            }
        }
        Ok(())
    }
}

fn rgb([red, green, blue]: Color) -> Rgb888 {
    Rgb888::new(red, green, blue)
}

fn style(text: Color, background: Color) -> MonoTextStyle<'static, Rgb888> {
    let builder = MonoTextStyleBuilder::new().font(&FONT_6X10).text_color(rgb(text));
    builder.background_color(rgb(background)).build()
}

impl<'i> Canvas<'i> {
    /// Draws into `bytes`, an image of this size; `from_source` maps points of its source image to its
    /// pixels.
    pub(super) fn new(
        bytes: &'i mut [u8],
        width: usize,
        height: usize,
        from_source: Affine,
    ) -> Self {
        Self { pixels: Pixels { bytes, width, height }, from_source }
    }

    /// The pixel that shows a point; far outside, the nearest that a line may go to.
    fn pixel(&self, point: [f32; 2]) -> Point {
        const FAR: f64 = 30_000.0;
        let [x, y] = self.from_source.apply(point.map(f64::from));
        // A value that is not a number becomes 0.
        let whole = |at: f64| at.floor().clamp(-FAR, FAR) as i32;
        Point::new(whole(x), whole(y))
    }

    fn text(&mut self, at: Point, text: &str, style: MonoTextStyle<'_, Rgb888>) {
        let Ok(_) = Text::with_baseline(text, at, style, Baseline::Top).draw(&mut self.pixels);
    }
}

impl Draw for Canvas<'_> {
    fn line(&mut self, from: [f32; 2], to: [f32; 2], color: Color) {
        let line = Line::new(self.pixel(from), self.pixel(to));
        let Ok(()) = line
            .into_styled(PrimitiveStyle::with_stroke(rgb(color), STROKE))
            .draw(&mut self.pixels);
    }

    /// Lines from each corner to the next, and from the last to the first.
    fn outline(&mut self, corners: &[[f32; 2]], color: Color) {
        let next = corners.iter().cycle().skip(1);
        corners.iter().zip(next).for_each(|(from, to)| self.line(*from, *to, color));
    }

    fn dot(&mut self, at: [f32; 2], color: Color) {
        let circle = Circle::with_center(self.pixel(at), 3);
        let Ok(()) =
            circle.into_styled(PrimitiveStyle::with_fill(rgb(color))).draw(&mut self.pixels);
    }

    /// Text above a point, or below it at the upper edge of the image.
    fn label(&mut self, at: [f32; 2], text: &str, color: Color, background: Color) {
        let at = self.pixel(at);
        let y = if at.y >= LINE { at.y - LINE } else { at.y.max(0) };
        self.text(Point::new(at.x.max(0), y), text, style(color, background));
    }

    /// Text in the line with this number from the upper left corner.
    fn line_of_text(&mut self, line: usize, text: &str, color: Color, background: Color) {
        let y = i32::try_from(line).unwrap_or(0).saturating_mul(LINE);
        self.text(Point::new(0, y), text, style(color, background));
    }
}

//! Images as the input of a model, and results back in the pixels of the source image.
//!
//! [`ModelImage`] is the one owner of this mapping: it resizes, converts and normalizes an image in one
//! pass, and knows where a point of the model lies in the image and in its source.

use afferent_core::{Error, ScalarType, Tensor, TensorView, bf16, f16};
use afferent_messages::{Affine, Image, vision::Box2d};
use afferent_package::{Color, ImageInput, Pad, Resampling, Resize};
use afferent_simd::{
    Isa,
    image::{Channels, Order, Plan, Sampling, Source, Target},
};

use crate::{
    boxes::Edges,
    corners::Corners,
    fit::{Fit, crop, longest_side},
    pixels::{source_of, with_planes},
};

#[cfg(feature = "gpu")]
mod device;

/// Input tensor of a model for one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputShape {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Number of channels: 1 or 3.
    pub channels: usize,
    /// True for `[1, height, width, channels]`, false for `[1, channels, height, width]`.
    pub is_channels_last: bool,
    /// True for four dimensions, the first of one image; false for three.
    pub is_batch: bool,
    /// True if the channels of a pixel are adjacent in memory, as `channels_last` of PyTorch has them
    /// for `[1, channels, height, width]`.
    pub is_interleaved: bool,
    /// Dimensions of `[1, ...]` in the order of their strides.
    pub dim_order: [u8; 4],
    /// `f32`, `f16`, `bf16` or `u8`.
    pub dtype: ScalarType,
}

impl InputShape {
    /// The shape of a tensor with these sizes, whose dimensions lie in memory in `dim_order`.
    ///
    /// # Errors
    /// The shapes and types that are accepted.
    pub fn of(sizes: &[usize], dim_order: &[u8], dtype: ScalarType) -> Result<Self, String> {
        let is_channels = |size: usize| size == 1 || size == 3;
        let wrong = || {
            format!(
                "the input {sizes:?} of {dtype:?} is not an image; it must be [1, 3, height, width], \
                 [1, height, width, 3], the same without the first dimension, or with 1 channel, of \
                 f32, f16, bf16 or u8"
            )
        };
        let is_float = matches!(dtype, ScalarType::Float | ScalarType::Half | ScalarType::BFloat16);
        if !is_float && dtype != ScalarType::Byte {
            return Err(wrong());
        }
        let unsupported = || format!("the input {sizes:?} has the dim order {dim_order:?}");
        let batch = match *sizes {
            [a, b, c] => [1, a, b, c],
            [a, b, c, d] => [a, b, c, d],
            _ => return Err(wrong()),
        };
        let (channels, height, width, is_channels_last) = match batch {
            [1, channels, height, width] if is_channels(channels) => {
                (channels, height, width, false)
            }
            [1, height, width, channels] if is_channels(channels) => {
                (channels, height, width, true)
            }
            _ => return Err(wrong()),
        };
        let dim_order = match *dim_order {
            [a, b, c, d] if sizes.len() == 4 => [a, b, c, d],
            [a, b, c] if sizes.len() == 3 => {
                [0, a.saturating_add(1), b.saturating_add(1), c.saturating_add(1)]
            }
            _ => return Err(unsupported()),
        };
        // A dimension of one element may be anywhere.
        let is_long = |dim: &u8| batch.get(usize::from(*dim)) != Some(&1);
        let order = dim_order.into_iter().filter(is_long);
        let rest = (1..4).filter(is_long);
        let is_interleaved = if order.clone().eq(rest) {
            is_channels_last
        } else if !is_channels_last && order.eq([2, 3, 1]) {
            true
        } else {
            return Err(unsupported());
        };
        match width > 0 && height > 0 {
            true => Ok(Self {
                width,
                height,
                channels,
                is_channels_last,
                is_batch: sizes.len() == 4,
                is_interleaved,
                dim_order,
                dtype,
            }),
            false => Err(wrong()),
        }
    }

    /// Sizes of the tensor.
    fn sizes(&self) -> Vec<usize> {
        let sizes = match self.is_channels_last {
            true => [1, self.height, self.width, self.channels],
            false => [1, self.channels, self.height, self.width],
        };
        sizes[usize::from(!self.is_batch)..].to_vec()
    }

    /// A tensor of zeros of this shape.
    fn zeros(&self) -> Result<Tensor, Error> {
        let dims = self.dim_order.iter().copied();
        let dim_order: Vec<u8> = match self.is_batch {
            true => dims.collect(),
            false => dims.filter(|dim| *dim > 0).map(|dim| dim - 1).collect(),
        };
        let mut tensor = Tensor::try_zeros(self.dtype, &self.sizes())?;
        tensor.set_dim_order(&dim_order)?;
        Ok(tensor)
    }
}

/// Content of the columns of an input after a strip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripEnd {
    /// The value of the border.
    Border,
    /// The last column of the strip.
    LastColumn,
}

/// Columns of an input from `first` on.
struct Cells {
    shape: InputShape,
    first: usize,
}

impl Cells {
    /// Fills the pixels where `is_filled` of their column and row.
    fn fill_where<T: Copy>(
        &self,
        all: &mut [T],
        values: [T; 3],
        is_filled: impl Fn(usize, usize) -> bool,
    ) {
        let InputShape { width, height, channels, is_interleaved, .. } = self.shape;
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        for (at, _) in pixels.enumerate().filter(|(_, (x, y))| is_filled(*x, *y)) {
            for (channel, value) in values.iter().enumerate().take(channels) {
                let index = if is_interleaved {
                    at * channels + channel
                } else {
                    at + channel * width * height
                };
                all[index] = *value;
            }
        }
    }

    fn fill<T: Copy>(&self, all: &mut [T], values: [T; 3]) {
        let InputShape { width, channels, is_interleaved, .. } = self.shape;
        if is_interleaved {
            for row in all.chunks_exact_mut(width * channels) {
                let (_, rest) = row.split_at_mut(self.first * channels);
                rest.chunks_exact_mut(channels)
                    .for_each(|pixel| pixel.copy_from_slice(&values[..channels]));
            }
            return;
        }
        let plane = width * self.shape.height;
        for (rows, value) in all.chunks_exact_mut(plane).zip(values) {
            rows.chunks_exact_mut(width).for_each(|row| row[self.first..].fill(value));
        }
    }

    /// Repeats the column before the first.
    fn repeat<T: Copy>(&self, all: &mut [T]) {
        let InputShape { width, channels, is_interleaved, .. } = self.shape;
        let step = if is_interleaved { channels } else { 1 };
        for row in all.chunks_exact_mut(width * step) {
            let (strip, rest) = row.split_at_mut(self.first * step);
            let Some(last) = strip.len().checked_sub(step) else { continue };
            rest.chunks_exact_mut(step).for_each(|pixel| pixel.copy_from_slice(&strip[last..]));
        }
    }
}

/// Prepares images for a model.
pub struct ModelImage {
    /// Shape of the input; with [`Resize::LongestSide`], that of the last image.
    shape: InputShape,
    /// Largest width and height.
    largest: [usize; 2],
    settings: ImageInput,
    input: Tensor,
    /// Color of the corners, if the border has it.
    corners: Option<Corners>,
    /// Tables for the last size of images.
    plan: Option<(Source, Affine, Plan)>,
    /// Where pixels of the last input lie in its image.
    to_image: Affine,
    /// Where pixels of the last image lie in its source.
    to_source: Affine,
    /// Width and height of the last image.
    size: [usize; 2],
    /// Tables for images on the GPU.
    #[cfg(feature = "gpu")]
    preparation: crate::gpu::Preparation,
}

impl ModelImage {
    /// Prepares images for an input of `shape`; settings that are absent are those of a letterbox of
    /// RGB values from 0 to 1 with bilinear interpolation.
    ///
    /// # Errors
    /// The setting that does not match the shape, or that the memory is too small.
    pub fn new(shape: InputShape, settings: &ImageInput) -> Result<Self, String> {
        if settings.resize == Some(Resize::LongestSide) {
            return Err(format!(
                "image.resize is longest_side, but the program takes images of {} x {} only",
                shape.width, shape.height
            ));
        }
        Self::with_sizes(shape, settings)
    }

    /// As [`ModelImage::new`], for an input whose sides may also be smaller than those of `shape`.
    ///
    /// # Errors
    /// As [`ModelImage::new`].
    pub fn with_sizes(shape: InputShape, settings: &ImageInput) -> Result<Self, String> {
        if let Some([width, height]) = settings.size
            && [width, height] != [shape.width, shape.height]
        {
            return Err(format!(
                "image.size is {width} x {height}, but the program takes {} x {}",
                shape.width, shape.height
            ));
        }
        let default = ImageInput {
            resize: Some(Resize::Letterbox),
            crop_fraction: Some(1.0),
            pad: Some(Pad::Value(114.0)),
            color: Some(if shape.channels == 1 { Color::Gray } else { Color::Rgb }),
            scale: Some(1.0 / 255.0),
            mean: Some([0.0; 3]),
            std: Some([1.0; 3]),
            resampling: Some(Resampling::Bilinear),
            ..ImageInput::default()
        };
        let settings = settings.or(&default);
        let channels = if settings.color == Some(Color::Gray) { 1 } else { 3 };
        if channels != shape.channels {
            return Err(format!(
                "image.color has {channels} channels, but the program takes {}",
                shape.channels
            ));
        }
        let input = shape.zeros().map_err(|error| error.to_string())?;
        let corners = (settings.pad == Some(Pad::Corners)).then(Corners::default);
        Ok(Self {
            shape,
            largest: [shape.width, shape.height],
            settings,
            input,
            corners,
            plan: None,
            to_image: Affine::IDENTITY,
            to_source: Affine::IDENTITY,
            size: [0; 2],
            #[cfg(feature = "gpu")]
            preparation: crate::gpu::Preparation::default(),
        })
    }

    /// Shape of the input; with [`Resize::LongestSide`], that of the last image.
    pub fn shape(&self) -> &InputShape {
        &self.shape
    }

    /// Makes the input of the model from the whole image.
    ///
    /// # Errors
    /// [`ModelImage::prepare_region`].
    pub fn prepare(&mut self, image: &Image) -> Result<TensorView<'_>, String> {
        if self.settings.resize == Some(Resize::LongestSide) {
            let [width, height] = longest_side([image.width(), image.height()], self.largest);
            if [width, height] != [self.shape.width, self.shape.height] {
                (self.shape.width, self.shape.height) = (width, height);
                self.input.resize(&self.shape.sizes()).map_err(|error| error.to_string())?;
                self.plan = None;
            }
        }
        let fit = self.fit(image.width(), image.height());
        self.prepare_region(image, &fit)
    }

    /// Makes the input of the model from the region of the image that `to_image` maps its pixels to.
    /// A rotated region is sampled without antialiasing.
    ///
    /// # Errors
    /// The pixel format that is not supported.
    pub fn prepare_region(
        &mut self,
        image: &Image,
        to_image: &Affine,
    ) -> Result<TensorView<'_>, String> {
        let source = source_of(image)?;
        let is_known = matches!(
            &self.plan, Some((known, transform, _)) if known == &source && transform == to_image
        );
        if !is_known {
            let plan = self.plan_for(source, to_image)?;
            self.plan = Some((source, *to_image, plan));
        }
        (self.to_image, self.to_source) = (*to_image, image.to_source);
        self.size = [image.width(), image.height()];
        let Some((.., plan)) = &mut self.plan else { return Ok(self.input.view()) };
        let (isa, input) = (Isa::best(), &mut self.input);
        let run = with_planes(image, |planes| match self.shape.dtype {
            ScalarType::Half => input.data_mut::<f16>().map(|out| plan.run(isa, planes, out)),
            ScalarType::BFloat16 => input.data_mut::<bf16>().map(|out| plan.run(isa, planes, out)),
            ScalarType::Byte => input.data_mut::<u8>().map(|out| plan.run(isa, planes, out)),
            _ => input.data_mut::<f32>().map(|out| plan.run(isa, planes, out)),
        });
        run?.map_err(|error| error.to_string())?;
        if let Some(corners) = &mut self.corners {
            let color = corners.color(image, self.settings.color)?;
            self.fill_border(color)?;
        }
        Ok(self.input.view())
    }

    /// Fills what lies outside of the image with the color `pad`, from 0 to 255 in each channel.
    fn fill_border(&mut self, pad: [f32; 3]) -> Result<(), String> {
        let (shape, to_image) = (self.shape, self.to_image);
        let [width, height] = self.size.map(|side| side as f64);
        let is_outside = |x: usize, y: usize| {
            let [x, y] = to_image.apply([x as f64 + 0.5, y as f64 + 0.5]);
            x < 0.0 || y < 0.0 || x >= width || y >= height
        };
        let values = [0, 1, 2].map(|channel| self.normalized(pad[channel], channel));
        let Self { input, .. } = self;
        let cells = Cells { shape, first: 0 };
        let filled = match shape.dtype {
            ScalarType::Half => input
                .data_mut()
                .map(|all| cells.fill_where(all, values.map(f16::from_f32), is_outside)),
            ScalarType::BFloat16 => input
                .data_mut()
                .map(|all| cells.fill_where(all, values.map(bf16::from_f32), is_outside)),
            ScalarType::Byte => {
                let values = values.map(|value| value.round_ties_even() as u8);
                input.data_mut().map(|all| cells.fill_where(all, values, is_outside))
            }
            _ => input.data_mut().map(|all| cells.fill_where(all, values, is_outside)),
        };
        filled.map_err(|error| error.to_string())
    }

    /// Makes the input of the model from a region, as [`ModelImage::prepare_region`], but only its
    /// first `columns`; `end` says what the others hold.
    ///
    /// # Errors
    /// [`ModelImage::prepare_region`].
    pub fn prepare_strip(
        &mut self,
        image: &Image,
        to_image: &Affine,
        columns: usize,
        end: StripEnd,
    ) -> Result<TensorView<'_>, String> {
        self.prepare_region(image, to_image)?;
        let shape = self.shape;
        if columns >= shape.width {
            return Ok(self.input.view());
        }
        let border = [0, 1, 2].map(|channel| self.border(channel));
        let cells = Cells { shape, first: columns };
        let input = &mut self.input;
        let filled = match (shape.dtype, end) {
            (ScalarType::Half, StripEnd::Border) => {
                input.data_mut().map(|all| cells.fill(all, border.map(f16::from_f32)))
            }
            (ScalarType::BFloat16, StripEnd::Border) => {
                input.data_mut().map(|all| cells.fill(all, border.map(bf16::from_f32)))
            }
            (ScalarType::Byte, StripEnd::Border) => {
                input.data_mut().map(|all| cells.fill(all, border.map(|value| value as u8)))
            }
            (_, StripEnd::Border) => input.data_mut().map(|all| cells.fill(all, border)),
            (ScalarType::Half, StripEnd::LastColumn) => {
                input.data_mut::<f16>().map(|all| cells.repeat(all))
            }
            (ScalarType::BFloat16, StripEnd::LastColumn) => {
                input.data_mut::<bf16>().map(|all| cells.repeat(all))
            }
            (ScalarType::Byte, StripEnd::LastColumn) => {
                input.data_mut::<u8>().map(|all| cells.repeat(all))
            }
            (_, StripEnd::LastColumn) => input.data_mut::<f32>().map(|all| cells.repeat(all)),
        };
        filled.map_err(|error| error.to_string())?;
        Ok(self.input.view())
    }

    /// Value of the border in a channel of the input.
    fn border(&self, channel: usize) -> f32 {
        self.normalized(self.pad(), channel)
    }

    /// Value of the border before the normalization; 0 where it is filled later.
    fn pad(&self) -> f32 {
        match self.settings.pad {
            Some(Pad::Value(value)) => value,
            Some(Pad::Corners) => 0.0,
            None => 114.0,
        }
    }

    /// The value `value`, from 0 to 255, in a channel of the input.
    fn normalized(&self, value: f32, channel: usize) -> f32 {
        let settings = &self.settings;
        let scale = settings.scale.unwrap_or(1.0 / 255.0);
        let of =
            |values: Option<[f64; 3]>, default: f64| values.map_or(default, |all| all[channel]);
        ((f64::from(value) * scale - of(settings.mean, 0.0)) / of(settings.std, 1.0)) as f32
    }

    /// Map from pixels of the last input to those of its image.
    pub fn to_image(&self) -> Affine {
        self.to_image
    }

    /// The input of the last call.
    pub fn input(&self) -> TensorView<'_> {
        self.input.view()
    }

    /// Map from pixels of the model to those of an image of this size.
    pub fn fit(&self, width: usize, height: usize) -> Affine {
        let (image, size) = ([width, height], [self.shape.width, self.shape.height]);
        match self.settings.resize {
            // The size has the aspect ratio.
            Some(Resize::Stretch | Resize::LongestSide) => Fit::Stretch.to_image(image, size),
            Some(Resize::Crop) => crop(image, size, self.settings.crop_fraction.unwrap_or(1.0)),
            Some(Resize::Letterbox) | None => Fit::Letterbox.to_image(image, size),
        }
    }

    /// Output that is written for each image.
    fn target(&self) -> Target {
        let settings = &self.settings;
        let is_gray = self.shape.channels == 1;
        let channels = match settings.color {
            _ if is_gray => Channels::Gray,
            Some(Color::Bgr) => Channels::Bgr,
            _ => Channels::Rgb,
        };
        Target {
            width: self.shape.width,
            height: self.shape.height,
            channels,
            order: if self.shape.is_interleaved { Order::Nhwc } else { Order::Nchw },
            pad: self.pad(),
            scale: settings.scale.unwrap_or(1.0 / 255.0),
            mean: settings.mean.unwrap_or([0.0; 3]),
            std: settings.std.unwrap_or([1.0; 3]),
        }
    }

    fn plan_for(&self, source: Source, to_image: &Affine) -> Result<Plan, String> {
        let plan = Plan::new(source, self.target(), to_image.0, self.sampling(to_image));
        plan.map_err(|error| error.to_string())
    }

    fn sampling(&self, to_image: &Affine) -> Sampling {
        match self.settings.resampling {
            Some(Resampling::Nearest) => Sampling::Nearest,
            _ if !to_image.is_axis_aligned() => Sampling::Bilinear,
            Some(Resampling::AntialiasBilinear) => Sampling::AntialiasBilinear,
            Some(Resampling::AntialiasBicubic) => Sampling::AntialiasBicubic,
            Some(Resampling::Bilinear) | None => Sampling::Bilinear,
        }
    }

    /// Map from pixels of the last input to those of the source image.
    pub fn to_source(&self) -> Affine {
        self.to_source.after(&self.to_image)
    }

    /// True if a point of the last input lies in the image, and not in a border.
    pub fn shows(&self, point: [f64; 2]) -> bool {
        let [x, y] = self.to_image.apply(point);
        let [width, height] = self.size.map(|side| side as f64);
        (0.0..=width).contains(&x) && (0.0..=height).contains(&y)
    }

    /// A box of the last input, clipped to the image, as a box of the source image; `None` if it lies
    /// outside.
    pub fn box_in_source(&self, edges: Edges) -> Option<Box2d> {
        let [left, top, right, bottom] = edges.0.map(f64::from);
        let [one, other] = [[left, top], [right, bottom]].map(|corner| self.to_image.apply(corner));
        let clip = |value: f64, axis: usize| value.clamp(0.0, self.size[axis] as f64);
        let [one, other] = [one, other].map(|[x, y]| [clip(x, 0), clip(y, 1)]);
        if one[0] >= other[0] || one[1] >= other[1] {
            return None;
        }
        let [one, other] = [one, other].map(|corner| self.to_source.apply(corner));
        // A source that is mirrored or turned by right angles swaps the corners.
        let least = [0, 1].map(|axis| one[axis].min(other[axis]) as f32);
        let most = [0, 1].map(|axis| one[axis].max(other[axis]) as f32);
        Some(Box2d::from_corners(least, most))
    }
}

#[cfg(test)]
mod tests {
    use afferent_messages::PixelFormat;

    use super::*;

    const ORDER: [u8; 4] = [0, 1, 2, 3];

    fn shape(width: usize, height: usize) -> InputShape {
        InputShape::of(&[1, 3, height, width], &ORDER, ScalarType::Float).unwrap()
    }

    fn image(width: usize, height: usize) -> Image {
        let bytes: Vec<u8> = (0..width * height * 3).map(|at| (at % 251) as u8).collect();
        Image::new(PixelFormat::Rgb8, width, height, width * 3, &bytes).unwrap()
    }

    #[test]
    fn shapes_of_inputs() {
        let found = InputShape::of(&[1, 192, 256, 3], &ORDER, ScalarType::Byte).unwrap();
        assert_eq!((found.width, found.height, found.is_channels_last), (256, 192, true));
        assert_eq!(InputShape::of(&[1, 1, 32, 320], &ORDER, ScalarType::Half).unwrap().channels, 1);
        let found = InputShape::of(&[1, 3, 4, 8], &[0, 2, 3, 1], ScalarType::Float).unwrap();
        assert_eq!((found.is_channels_last, found.is_interleaved), (false, true));
        // As PyTorch gives a transposed image.
        let found = InputShape::of(&[1, 3, 4, 8], &[2, 0, 3, 1], ScalarType::Float).unwrap();
        assert!(found.is_interleaved);
        assert!(InputShape::of(&[1, 3, 4, 8], &[0, 3, 2, 1], ScalarType::Float).is_err());
        for sizes in [&[64, 64][..], &[4, 64, 64], &[2, 3, 64, 64], &[1, 4, 64, 64], &[1, 3, 0, 64]]
        {
            assert!(
                InputShape::of(sizes, &ORDER, ScalarType::Float).unwrap_err().contains("height")
            );
        }
        assert!(InputShape::of(&[1, 3, 64, 64], &ORDER, ScalarType::Long).is_err());
    }

    #[test]
    fn inputs_without_a_batch_have_the_same_values() {
        let values = |sizes: &[usize], order: &[u8]| {
            let shape = InputShape::of(sizes, order, ScalarType::Float).unwrap();
            let mut model = ModelImage::new(shape, &ImageInput::default()).unwrap();
            let input = model.prepare(&image(16, 12)).unwrap();
            assert_eq!((input.sizes(), input.dim_order()), (sizes, order));
            input.data::<f32>().unwrap().to_vec()
        };
        assert_eq!(values(&[3, 6, 8], &[0, 1, 2]), values(&[1, 3, 6, 8], &ORDER));
        let pixels = values(&[1, 6, 8, 3], &ORDER);
        assert_eq!(values(&[6, 8, 3], &[0, 1, 2]), pixels);
        assert_eq!(values(&[3, 6, 8], &[1, 2, 0]), pixels);
        for (sizes, order) in [([3, 6, 8], &[0, 2, 1][..]), ([3, 6, 8], &ORDER)] {
            let told = InputShape::of(&sizes, order, ScalarType::Float).unwrap_err();
            assert!(told.contains("dim order"), "{told}");
        }
    }

    #[test]
    fn pixels_and_boxes_are_mapped_to_the_model_and_back() {
        let mut model = ModelImage::new(shape(64, 64), &ImageInput::default()).unwrap();
        let mut image = image(128, 96);
        // A crop at (10, 20) of a source with twice the size.
        image.to_source = Affine::scale_and_shift([2.0; 2], [10.0, 20.0]);
        let input = model.prepare(&image).unwrap();
        let values = input.data::<f32>().unwrap();
        assert_eq!(values.len(), 3 * 64 * 64);
        assert!(values[..8 * 64].iter().all(|value| (value - 114.0 / 255.0).abs() < 1e-6));
        // The mean of four pixels: the scale is 2.
        let byte = |x: usize, y: usize| f32::from(image.bytes()[(y * 128 + x) * 3]);
        let expected = (byte(0, 0) + byte(1, 0) + byte(0, 1) + byte(1, 1)) / 4.0 / 255.0;
        assert!((values[8 * 64] - expected).abs() < 1e-4, "{} {expected}", values[8 * 64]);
        let found = model.box_in_source(Edges([16.0, 8.0, 80.0, 24.0])).unwrap();
        // In the image (32, 0) to (128, 32), which is its right edge.
        assert_eq!(found, Box2d::from_corners([74.0, 20.0], [266.0, 84.0]));
        assert_eq!(model.box_in_source(Edges([0.0, 0.0, 64.0, 7.0])), None, "in the border");
    }

    #[test]
    fn crops_keep_the_middle() {
        let settings = ImageInput {
            resize: Some(Resize::Crop),
            crop_fraction: Some(0.5),
            ..ImageInput::default()
        };
        let model = ModelImage::new(shape(50, 50), &settings).unwrap();
        let fit = model.fit(400, 200);
        assert_eq!((fit.apply([0.0; 2]), fit.apply([50.0; 2])), ([150.0, 50.0], [250.0, 150.0]));
    }

    #[test]
    fn columns_after_a_strip_have_the_value_of_the_border() {
        let settings = ImageInput {
            pad: Some(Pad::Value(127.5)),
            mean: Some([0.5, 0.0, 0.5]),
            std: Some([0.5; 3]),
            ..ImageInput::default()
        };
        let check = |order: &[u8], dtype: ScalarType| {
            let shape = InputShape::of(&[1, 3, 2, 4], order, dtype).unwrap();
            let mut model = ModelImage::new(shape, &settings).unwrap();
            let image = image(8, 4);
            let mut values = |end: StripEnd| {
                model.prepare_strip(&image, &Affine::IDENTITY, 3, end).unwrap();
                let mut all = Vec::new();
                // Also reads inputs whose channels are adjacent.
                afferent_core::read_floats(&model.input(), &mut all).unwrap();
                all
            };
            let (all, repeated) = (values(StripEnd::Border), values(StripEnd::LastColumn));
            let index_of = |x: usize, y: usize, channel: usize| (channel * 2 + y) * 4 + x;
            let at = |x: usize, y: usize, channel: usize| all[index_of(x, y, channel)];
            for (channel, border) in [0.0, 1.0, 0.0].into_iter().enumerate() {
                assert_eq!((at(3, 0, channel), at(3, 1, channel)), (border, border));
                assert!(at(2, 1, channel) != border);
                for y in [0, 1] {
                    assert_eq!(repeated[index_of(3, y, channel)], at(2, y, channel));
                }
            }
        };
        check(&[0, 1, 2, 3], ScalarType::Float);
        check(&[0, 2, 3, 1], ScalarType::Float);
        check(&[0, 1, 2, 3], ScalarType::Half);
        check(&[0, 1, 2, 3], ScalarType::BFloat16);
    }

    #[test]
    fn the_longest_side_has_the_size_without_a_border() {
        let settings = ImageInput {
            resize: Some(Resize::LongestSide),
            scale: Some(1.0),
            ..ImageInput::default()
        };
        let told = ModelImage::new(shape(16, 16), &settings).err().unwrap();
        assert!(told.contains("takes images of 16 x 16 only"), "{told}");
        let shape = InputShape::of(&[3, 16, 16], &[0, 1, 2], ScalarType::Byte).unwrap();
        let mut model = ModelImage::with_sizes(shape, &settings).unwrap();
        for (size, expected) in
            [([32, 24], [3, 12, 16]), ([10, 20], [3, 16, 8]), ([16, 16], [3, 16, 16])]
        {
            let image = image(size[0], size[1]);
            let input = model.prepare(&image).unwrap();
            assert_eq!(input.sizes(), expected, "{size:?}");
            let bytes = input.data::<u8>().unwrap();
            if size == [16, 16] {
                assert!(
                    bytes.iter().eq(image
                        .bytes()
                        .iter()
                        .step_by(3)
                        .chain(image.bytes()[1..].iter().step_by(3))
                        .chain(image.bytes()[2..].iter().step_by(3)))
                );
            }
        }
        let [x, y] = model.to_image().apply([8.0, 4.0]);
        assert_eq!([x, y], [8.0, 4.0]);
    }

    #[test]
    fn the_border_has_the_color_of_the_corners() {
        let settings = ImageInput {
            pad: Some(Pad::Corners),
            scale: Some(1.0),
            std: Some([1.0, 2.0, 1.0]),
            ..ImageInput::default()
        };
        // Corners of 2 x 2 pixels in an image of 96 x 64; everything else is 9.
        let mut bytes = vec![9_u8; 96 * 64 * 3];
        for (corner, (x, y)) in [(0, 0), (94, 0), (0, 62), (94, 62)].into_iter().enumerate() {
            for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                let at = ((y + dy) * 96 + x + dx) * 3;
                bytes[at..at + 3].copy_from_slice(&[10 * corner as u8, 100, 3 + (dx as u8)]);
            }
        }
        let image = Image::new(PixelFormat::Rgb8, 96, 64, 288, &bytes).unwrap();
        let check = |sizes: &[usize], order: &[u8], dtype: ScalarType| {
            let shape = InputShape::of(sizes, order, dtype).unwrap();
            let mut model = ModelImage::new(shape, &settings).unwrap();
            let input = model.prepare(&image).unwrap();
            let all: Vec<f32> = match dtype {
                ScalarType::Byte => {
                    input.data::<u8>().unwrap().iter().map(|v| f32::from(*v)).collect()
                }
                ScalarType::BFloat16 => {
                    input.data::<bf16>().unwrap().iter().map(|v| v.to_f32()).collect()
                }
                _ => input.data::<f32>().unwrap().to_vec(),
            };
            let is_planar = sizes[1] == 3;
            let at = |x: usize, y: usize, channel: usize| {
                all[if is_planar {
                    (channel * 48 + y) * 48 + x
                } else {
                    (y * 48 + x) * 3 + channel
                }]
            };
            // The image has the rows 8 to 40. The mean of the third channel, 3.5, is rounded down.
            for (x, y) in [(0, 0), (47, 7), (0, 40), (47, 47)] {
                assert_eq!(
                    [0, 1, 2].map(|channel| at(x, y, channel)),
                    [15.0, 50.0, 3.0],
                    "{x}, {y}"
                );
            }
            assert_eq!(
                [0, 1, 2].map(|channel| at(24, 20, channel)),
                [9.0, if dtype == ScalarType::Byte { 4.0 } else { 4.5 }, 9.0]
            );
            assert_eq!(at(47, 39, 0), 30.0);
        };
        check(&[1, 3, 48, 48], &ORDER, ScalarType::Float);
        check(&[1, 3, 48, 48], &ORDER, ScalarType::BFloat16);
        check(&[1, 48, 48, 3], &ORDER, ScalarType::Byte);
    }

    #[test]
    fn settings_and_formats_that_do_not_fit_are_refused() {
        let told = |settings: ImageInput| ModelImage::new(shape(64, 64), &settings).err().unwrap();
        let size = ImageInput { size: Some([32, 64]), ..ImageInput::default() };
        assert!(told(size).contains("image.size is 32 x 64"));
        let gray = ImageInput { color: Some(Color::Gray), ..ImageInput::default() };
        assert!(told(gray).contains("image.color has 1 channels"));
        let mut model = ModelImage::new(shape(8, 8), &ImageInput::default()).unwrap();
        let depth = Image::new(PixelFormat::Depth16, 2, 2, 4, &[0; 8]).unwrap();
        assert!(model.prepare(&depth).unwrap_err().contains("16UC1"));
    }
}

//! Images with channels last in memory.

use afferent_core::{Args, Error, TensorMut, TensorView};

use super::arguments::{check_int8, elements, invalid, same_order};

/// Order of the sizes of an image. The memory order is always N, H, W, C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Sizes N, C, H, W; dim order N, H, W, C.
    ChannelsLast,
    /// Sizes N, H, W, C; row-major.
    Nhwc,
}

/// Sizes of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) batch: usize,
    pub(crate) size: [usize; 2],
    pub(crate) channels: usize,
}

impl Layout {
    /// Sizes of `image` in the order of the layout.
    fn sizes(self, image: Image) -> [usize; 4] {
        let Image { batch, size: [height, width], channels } = image;
        match self {
            Self::ChannelsLast => [batch, channels, height, width],
            Self::Nhwc => [batch, height, width, channels],
        }
    }

    /// Memory order of the layout.
    fn order(self) -> [u8; 4] {
        match self {
            Self::ChannelsLast => [0, 2, 3, 1],
            Self::Nhwc => [0, 1, 2, 3],
        }
    }

    /// Input image at `index`, and its elements.
    pub(crate) fn input<'a>(self, args: &Args<'a>, index: u8) -> Result<(Image, &'a [i8]), Error> {
        let tensor = args.tensor(index.into())?;
        let data = elements(tensor, index)?;
        Ok((self.image(&tensor, index)?, data))
    }

    fn image(self, tensor: &TensorView<'_>, index: u8) -> Result<Image, Error> {
        let expected = "an image with channels last in memory";
        let &[batch, a, b, c] = tensor.sizes() else {
            return Err(invalid(index.into(), expected));
        };
        if !same_order(tensor.sizes(), tensor.dim_order(), &self.order()) {
            return Err(invalid(index.into(), expected));
        }
        Ok(match self {
            Self::ChannelsLast => Image { batch, size: [b, c], channels: a },
            Self::Nhwc => Image { batch, size: [a, b], channels: c },
        })
    }

    /// Resizes output `index` to `image` and checks its dtype and dim order.
    pub(crate) fn resize(
        self,
        out: &mut TensorMut<'_, '_>,
        image: Image,
        index: u8,
    ) -> Result<(), Error> {
        check_int8(out, index)?;
        let sizes = self.sizes(image);
        if !same_order(&sizes, out.dim_order(), &self.order()) {
            return Err(invalid(index.into(), "an image with channels last in memory"));
        }
        out.resize(&sizes)
    }
}

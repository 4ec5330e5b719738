//! What a step is: an operation that was prepared for its constants, and then runs on any sizes.
//!
//! | file        | holds                                                                  |
//! |-------------|------------------------------------------------------------------------|
//! | `binary`    | functions of two numbers, with broadcasting                            |
//! | `block`     | convolutions one after the other, some rows at a time                  |
//! | `bytes`     | sums, products and means of integers, conversions                      |
//! | `conv`      | convolutions, plain and transposed, of `f32`                           |
//! | `depthwise` | convolutions with a kernel for each channel, of `f32` and integers     |
//! | `integer`   | convolutions and fully connected layers of integers                    |
//! | `keep`      | prepared constants that several may share                              |
//! | `linear`    | fully connected layers and products of matrices, of `f32`              |
//! | `max_pool`  | the largest in windows of pictures                                     |
//! | `moves`     | transposition, padding, slices, concatenation, copies                  |
//! | `narrow`    | convolutions over pictures of few channels                             |
//! | `nibbles`   | fully connected layers with weights of 4 bits                          |
//! | `pool`      | means of windows, places of the largest in them, and resizing          |
//! | `quantise`  | numbers → integers, with scales that are found at run time             |
//! | `quantised` | any operation on integers, by way of `f32`                             |
//! | `trial`     | operations run by themselves, for their tests                          |
//! | `unary`     | functions of one number, softmax                                       |
//! | `weights`   | constants as the operations take them                                  |

pub(crate) mod binary;
pub(crate) mod block;
pub(crate) mod bytes;
pub(crate) mod conv;
pub(crate) mod depthwise;
pub(crate) mod integer;
pub(crate) mod keep;
pub(crate) mod linear;
pub(crate) mod max_pool;
pub(crate) mod moves;
pub(crate) mod narrow;
pub(crate) mod nibbles;
pub(crate) mod pool;
pub(crate) mod quantise;
pub(crate) mod quantised;
#[cfg(test)]
mod trial;
pub(crate) mod unary;
pub(crate) mod weights;

use afferent_core::{Element, Error, Workers};
use afferent_simd::Isa;

use crate::shape::{Room, Shape, TOO_LARGE};

/// An operation whose constants are prepared.
pub(crate) trait Op: Send {
    /// The shape of the result; what depends on shapes is prepared, in memory of this room.
    ///
    /// # Errors
    /// When shapes do not fit each other, or the operation, or there is no room.
    fn shape(&mut self, inputs: &[Shape], room: &mut Room) -> Result<Shape, Error>;

    /// Computes the result, whose bytes are those of the shape that `shape` gave last.
    ///
    /// # Errors
    /// When the inputs are not those that `shape` saw.
    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error>;
}

/// What an operation may use while it runs.
pub(crate) struct Cx<'c> {
    pub(crate) isa: Isa,
    pub(crate) workers: Option<&'c dyn Workers>,
    pub(crate) scratch: &'c mut Scratch,
    /// Whether products begin with their last weights: every second run does, because the run before
    /// it read them last, so that they may still be in the cache.
    pub(crate) from_end: bool,
}

/// Memory that operations use while they run; it grows to what the largest needs.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) words: Vec<i32>,
    pub(crate) zeros: Vec<i8>,
    pub(crate) bytes: Vec<i8>,
    pub(crate) floats: Vec<f32>,
    /// Of operations that call others.
    pub(crate) outer: Vec<f32>,
    /// For all of these to grow.
    pub(crate) room: Room,
}

impl Scratch {
    /// The bytes that it has taken from its room.
    pub(crate) fn bytes(&self) -> usize {
        let Self { words, zeros, bytes, floats, outer, .. } = self;
        size_of_val(&words[..])
            + size_of_val(&zeros[..])
            + size_of_val(&bytes[..])
            + size_of_val(&floats[..])
            + size_of_val(&outer[..])
    }
}

/// An operand.
#[derive(Clone, Copy)]
pub(crate) struct Input<'d> {
    pub(crate) shape: &'d Shape,
    pub(crate) bytes: &'d [u8],
}

impl<'d> Input<'d> {
    /// In place of one that there is not.
    pub(crate) const NONE: Self = Self { shape: &Shape::NONE, bytes: &[] };

    pub(crate) fn data<T: Element>(&self) -> Result<&'d [T], Error> {
        bytemuck::try_cast_slice(self.bytes).map_err(|_| ALIGNED)
    }
}

const ALIGNED: Error = Error::Internal { reason: "tensors of a delegate are aligned" };

/// The input that an operation with one has.
pub(crate) fn only<T>(inputs: &[T]) -> Result<&T, Error> {
    inputs.first().ok_or(Error::Internal { reason: "a step has all its inputs" })
}

/// The two inputs of an operation.
pub(crate) fn both<T>(inputs: &[T]) -> Result<[&T; 2], Error> {
    match inputs {
        [a, b] => Ok([a, b]),
        _ => Err(Error::Internal { reason: "a step has all its inputs" }),
    }
}

/// The result as elements.
pub(crate) fn elements<T: Element>(out: &mut [u8]) -> Result<&mut [T], Error> {
    bytemuck::try_cast_slice_mut(out).map_err(|_| ALIGNED)
}

/// `len` items of a buffer that grows.
///
/// # Errors
/// When there is no room, or no memory, for them.
pub(crate) fn some<'b, T: Copy + Default>(
    buffer: &'b mut Vec<T>,
    len: usize,
    room: &mut Room,
) -> Result<&'b mut [T], Error> {
    if let Some(more) = len.checked_sub(buffer.len()).filter(|more| *more > 0) {
        room.take::<T>(more)?;
        buffer.try_reserve_exact(more).map_err(|_| TOO_LARGE)?;
        buffer.resize(len, T::default());
    }
    Ok(&mut buffer[..len])
}

/// `len` zeros.
///
/// # Errors
/// When there is no memory for them.
pub(crate) fn zeros<T: Copy + Default>(len: usize) -> Result<Vec<T>, Error> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(len).map_err(|_| TOO_LARGE)?;
    zeros.resize(len, T::default());
    Ok(zeros)
}

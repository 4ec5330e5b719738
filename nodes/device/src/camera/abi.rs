//! Structures and calls of Video4Linux (`linux/videodev2.h`), for 64-bit systems.

#![expect(unsafe_code, reason = "calls the driver")]

use std::os::fd::AsFd;

use rustix::{
    io::{Errno, Result, retry_on_intr},
    ioctl::{Opcode, Updater, ioctl, opcode},
};

/// `V4L2_BUF_TYPE_VIDEO_CAPTURE`.
pub(super) const CAPTURE: u32 = 1;
/// `V4L2_MEMORY_MMAP`.
pub(super) const MMAP: u32 = 1;
/// `V4L2_FIELD_NONE`: progressive images.
pub(super) const PROGRESSIVE: u32 = 1;

/// Bits of [`Capability::device_caps`].
pub(super) const CAN_CAPTURE: u32 = 0x1;
pub(super) const CAN_CAPTURE_PLANES: u32 = 0x1000;
pub(super) const CAN_STREAM: u32 = 0x0400_0000;

/// Bits of [`Buffer::flags`].
pub(super) const DAMAGED: u32 = 0x40;
pub(super) const CLOCK: u32 = 0xe000;
pub(super) const CLOCK_MONOTONIC: u32 = 0x2000;
pub(super) const STAMP_SOURCE: u32 = 0x7_0000;
pub(super) const STAMP_START_OF_EXPOSURE: u32 = 0x1_0000;

/// Kinds of [`FrameSize`] and [`FrameInterval`].
pub(super) const DISCRETE: u32 = 1;

/// Controls.
pub(super) const GAIN: u32 = 0x0098_0913;
pub(super) const EXPOSURE_AUTO: u32 = 0x009a_0901;
pub(super) const EXPOSURE_ABSOLUTE: u32 = 0x009a_0902;
pub(super) const FOCUS_ABSOLUTE: u32 = 0x009a_090a;
pub(super) const FOCUS_AUTO: u32 = 0x009a_090c;
/// Value of [`EXPOSURE_AUTO`] for a fixed exposure.
pub(super) const EXPOSURE_MANUAL: i32 = 1;

macro_rules! structure {
    ($(#[$meta:meta])* $name:ident, $size:literal, { $($field:ident: $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(dead_code, reason = "the layout is that of the kernel")]
        pub(super) struct $name {
            $(pub(super) $field: $ty),*
        }

        const _: () = assert!(size_of::<$name>() == $size);

        impl Default for $name {
            fn default() -> Self {
                // SAFETY: all fields are integers.
                unsafe { std::mem::zeroed() }
            }
        }
    };
}

structure!(
    /// `v4l2_capability`.
    Capability, 104, {
        driver: [u8; 16],
        card: [u8; 32],
        bus_info: [u8; 32],
        version: u32,
        capabilities: u32,
        device_caps: u32,
        reserved: [u32; 3],
    }
);

structure!(
    /// `v4l2_fmtdesc`.
    FormatDescription, 64, {
        index: u32,
        kind: u32,
        flags: u32,
        description: [u8; 32],
        fourcc: [u8; 4],
        mbus_code: u32,
        reserved: [u32; 3],
    }
);

structure!(
    /// `v4l2_frmsizeenum`; the first two numbers of `size` are width and height of a discrete one,
    /// otherwise least, greatest and step of the width and then of the height.
    FrameSize, 44, {
        index: u32,
        fourcc: [u8; 4],
        kind: u32,
        size: [u32; 6],
        reserved: [u32; 2],
    }
);

structure!(
    /// `v4l2_frmivalenum`; the first fraction is a discrete interval, or the shortest one.
    FrameInterval, 52, {
        index: u32,
        fourcc: [u8; 4],
        width: u32,
        height: u32,
        kind: u32,
        interval: [[u32; 2]; 3],
        reserved: [u32; 2],
    }
);

structure!(
    /// `v4l2_format` with `v4l2_pix_format`.
    Format, 208, {
        kind: u32,
        padding: u32,
        width: u32,
        height: u32,
        fourcc: [u8; 4],
        field: u32,
        bytes_per_line: u32,
        size_image: u32,
        colorspace: u32,
        private: u32,
        flags: u32,
        encoding: u32,
        quantization: u32,
        transfer: u32,
        rest: [u8; 152],
    }
);

structure!(
    /// `v4l2_streamparm` with `v4l2_captureparm`.
    StreamParameters, 204, {
        kind: u32,
        capability: u32,
        mode: u32,
        interval: [u32; 2],
        extended: u32,
        buffers: u32,
        reserved: [u32; 4],
        rest: [u8; 160],
    }
);

structure!(
    /// `v4l2_requestbuffers`.
    BufferRequest, 20, {
        count: u32,
        kind: u32,
        memory: u32,
        capabilities: u32,
        flags: u8,
        reserved: [u8; 3],
    }
);

structure!(
    /// `v4l2_buffer`.
    Buffer, 88, {
        index: u32,
        kind: u32,
        bytes_used: u32,
        flags: u32,
        field: u32,
        padding: u32,
        seconds: i64,
        microseconds: i64,
        timecode: [u32; 4],
        sequence: u32,
        memory: u32,
        offset: u64,
        length: u32,
        reserved: [u32; 3],
    }
);

structure!(
    /// `v4l2_control`.
    Control, 8, {
        id: u32,
        value: i32,
    }
);

structure!(
    /// `v4l2_queryctrl`.
    ControlQuery, 68, {
        id: u32,
        kind: u32,
        name: [u8; 32],
        minimum: i32,
        maximum: i32,
        step: i32,
        default: i32,
        flags: u32,
        reserved: [u32; 2],
    }
);

/// A call of the driver that reads and writes `value`.
pub(super) fn call<const OPCODE: Opcode, T>(device: impl AsFd, value: &mut T) -> Result<()> {
    retry_on_intr(|| {
        // SAFETY: every opcode below stands with the structure that the kernel defines for it, whose
        // size is part of the opcode.
        let updater = unsafe { Updater::<OPCODE, T>::new(value) };
        // SAFETY: as above.
        unsafe { ioctl(device.as_fd(), updater) }
    })
}

macro_rules! calls {
    ($($(#[$meta:meta])* $name:ident($direction:ident, $number:literal, $ty:ty);)*) => {
        $(
            $(#[$meta])*
            pub(super) fn $name(device: impl AsFd, value: &mut $ty) -> Result<()> {
                call::<{ opcode::$direction::<$ty>(b'V', $number) }, $ty>(device, value)
            }
        )*
    };
}

calls! {
    /// What the device is.
    query_capability(read, 0, Capability);
    /// The format with `index`.
    enumerate_format(read_write, 2, FormatDescription);
    /// Sets the format; the driver may choose another.
    set_format(read_write, 5, Format);
    /// Requests buffers.
    request_buffers(read_write, 8, BufferRequest);
    /// Size and offset of the buffer with `index`.
    query_buffer(read_write, 9, Buffer);
    /// Gives a buffer to the driver.
    queue(read_write, 15, Buffer);
    /// Takes a filled buffer from the driver.
    dequeue(read_write, 17, Buffer);
    /// Starts the stream of a buffer type.
    start(write, 18, i32);
    /// Stops the stream of a buffer type.
    stop(write, 19, i32);
    /// Sets the time between images.
    set_parameters(read_write, 22, StreamParameters);
    /// Value of a control.
    get_control(read_write, 27, Control);
    /// Sets a control.
    set_control(read_write, 28, Control);
    /// Range of a control.
    query_control(read_write, 36, ControlQuery);
    /// The size with `index`.
    enumerate_size(read_write, 74, FrameSize);
    /// The interval with `index`.
    enumerate_interval(read_write, 75, FrameInterval);
}

/// Text of a field that ends with the first zero.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// True if an enumeration has ended, rather than failed.
pub(super) fn is_end(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOTTY)
}

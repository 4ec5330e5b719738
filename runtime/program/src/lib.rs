//! Reads program files: bytes in, a checked `Program` out.

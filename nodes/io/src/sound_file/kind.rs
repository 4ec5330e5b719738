//! Recognition of file formats by their first bytes.

use super::wav;

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Wav,
    /// Decoded by `symphonia`.
    Coded,
    /// A known format that is not supported.
    Unsupported(&'static str),
    Unknown,
}

impl Kind {
    /// Format of a file that begins with `head`.
    pub(crate) fn of(head: &[u8]) -> Self {
        let word = |at: usize| head.get(at..at + 4).unwrap_or_default();
        if wav::is_wav(word(0), word(8)) {
            return Self::Wav;
        }
        let contains = |text: &[u8]| head.windows(text.len()).any(|window| window == text);
        match (word(0), word(8)) {
            (b"FORM", b"AIFF" | b"AIFC") | (b"fLaC", _) | ([b'I', b'D', b'3', _], _) => Self::Coded,
            (b"OggS", _) if contains(b"OpusHead") => Self::Unsupported("an Ogg Opus file"),
            (b"OggS", _) if contains(b"Speex   ") => Self::Unsupported("an Ogg Speex file"),
            (b"OggS", _) => Self::Coded,
            (b"RIFF", b"AVI ") => Self::Unsupported("an AVI video"),
            (b"RIFX", _) => Self::Unsupported("a big-endian WAV file"),
            (b"\x1aE\xdf\xa3", _) => Self::Unsupported("a Matroska or WebM file"),
            (b"caff", _) => Self::Unsupported("a CAF file"),
            (b".snd", _) => Self::Unsupported("an AU file"),
            (b"#!AM", _) => Self::Unsupported("an AMR file"),
            (b"wvpk", _) => Self::Unsupported("a WavPack file"),
            (b"MAC ", _) => Self::Unsupported("a Monkey's Audio file"),
            (b"MThd", _) => Self::Unsupported("a MIDI file, which holds notes and no sound"),
            (b"\x30\x26\xb2\x75", _) => Self::Unsupported("a Windows Media file"),
            (b"riff", _) => Self::Unsupported("a Wave64 file"),
            _ if word(4) == b"ftyp" => Self::Unsupported("an MP4 or M4A file"),
            _ => Self::of_mpeg(head),
        }
    }

    /// Format of a file without a name, which may begin with the synchronization of MPEG audio.
    fn of_mpeg(head: &[u8]) -> Self {
        match head {
            // Layer bits: 01 for layer III, 00 for AAC in ADTS.
            [0xff, flags, ..] if flags & 0xe6 == 0xe2 => Self::Coded,
            [0xff, flags, ..] if flags & 0xf6 == 0xf0 => Self::Unsupported("an AAC file"),
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognized_by_their_first_bytes() {
        let check = |head: &[u8], expected: Kind| {
            assert_eq!(Kind::of(head), expected, "{}", String::from_utf8_lossy(head));
        };
        check(b"RIFF\0\0\0\0WAVEfmt ", Kind::Wav);
        check(b"RF64\xff\xff\xff\xffWAVEds64", Kind::Wav);
        check(b"RIFF\0\0\0\0AVI ", Kind::Unsupported("an AVI video"));
        check(b"FORM\0\0\0\0AIFC", Kind::Coded);
        check(b"fLaC", Kind::Coded);
        check(b"ID3\x04", Kind::Coded);
        check(b"\xff\xfb\x90\x00", Kind::Coded);
        check(b"\xff\xf1\x50\x80", Kind::Unsupported("an AAC file"));
        check(b"OggS....\x01vorbis", Kind::Coded);
        check(b"OggS....OpusHead", Kind::Unsupported("an Ogg Opus file"));
        check(b"\0\0\0\x20ftypM4A ", Kind::Unsupported("an MP4 or M4A file"));
        check(b"some text", Kind::Unknown);
        check(b"", Kind::Unknown);
    }
}

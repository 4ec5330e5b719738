//! Folders of PNG and JPEG images.

use std::{
    cmp::Ordering,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use afferent_messages::Image;

use super::Frames;

pub(super) struct Sequence {
    files: Vec<PathBuf>,
    period: Duration,
    number: u32,
}

/// Ends of the names of image files.
const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];

impl Sequence {
    /// Images of `folder` in the order of their names: numbers count as numbers.
    pub(super) fn open(folder: &Path, period: Duration) -> Result<Self, String> {
        let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
        let is_image = |path: &PathBuf| {
            let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
            EXTENSIONS.iter().any(|known| end.eq_ignore_ascii_case(known))
        };
        let files = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let mut files: Vec<PathBuf> = files.filter(is_image).collect();
        files.sort_by(|one, other| compare(&name(one), &name(other)));
        match files.is_empty() {
            true => Err("the folder has no images; they are files *.png, *.jpg, *.jpeg".to_owned()),
            false => Ok(Self { files, period, number: 0 }),
        }
    }
}

impl Frames for Sequence {
    fn next(&mut self, image: &mut Image) -> Result<Option<Duration>, String> {
        let Some(path) = self.files.get(self.number as usize) else { return Ok(None) };
        let fault = |error: &dyn ToString| format!("{}: {}", name(path), error.to_string());
        let file = fs::read(path).map_err(|error| fault(&error))?;
        image.read_file(&file).map_err(|error| fault(&error))?;
        let at = self.period.saturating_mul(self.number);
        self.number += 1;
        Ok(Some(at))
    }

    fn period(&self) -> Option<Duration> {
        Some(self.period)
    }
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Compares names; digits that follow each other are a number.
fn compare(one: &str, other: &str) -> Ordering {
    let parts = |name: &str| -> Vec<(String, Option<u128>)> {
        let chunks = name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
        let part = |chunk: &[u8]| {
            let text = String::from_utf8_lossy(chunk).into_owned();
            let number = text.parse().ok();
            (if number.is_some() { String::new() } else { text }, number)
        };
        chunks.map(part).collect()
    };
    parts(one).cmp(&parts(other)).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use afferent_messages::PixelFormat;

    use super::*;
    use crate::testing::TempFolder;

    #[test]
    fn images_are_read_in_the_order_of_their_numbers() {
        let folder = TempFolder::new();
        for number in [2_u8, 10, 1] {
            let image = Image::new(PixelFormat::Mono8, 1, 1, 1, &[number]).unwrap();
            fs::write(folder.path(format!("a{number}.png")), image.to_png().unwrap()).unwrap();
        }
        fs::write(folder.path("notes.txt"), "").unwrap();
        let mut frames = Sequence::open(&folder.path(""), Duration::from_millis(100)).unwrap();
        let mut image = Image::default();
        for (number, expected) in [1, 2, 10].into_iter().enumerate() {
            let at = Duration::from_millis(100) * number as u32;
            assert_eq!(frames.next(&mut image), Ok(Some(at)));
            assert_eq!(image.bytes(), [expected]);
        }
        assert_eq!(frames.next(&mut image), Ok(None));
    }

    #[test]
    fn damaged_images_are_named() {
        let folder = TempFolder::new();
        assert!(Sequence::open(&folder.path(""), Duration::ZERO).err().unwrap().contains("*.png"));
        fs::write(folder.path("bad.JPG"), [0xff, 0xd8, 0xff]).unwrap();
        let mut frames = Sequence::open(&folder.path(""), Duration::ZERO).unwrap();
        let told = frames.next(&mut Image::default()).unwrap_err();
        assert!(told.starts_with("bad.JPG: "), "{told}");
    }
}

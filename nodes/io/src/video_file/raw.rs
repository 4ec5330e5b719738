//! Pixels without a header.

use std::{io::Read, time::Duration};

use afferent_messages::Image;

use super::{Frames, RawLayout, Reader};

pub(super) struct Raw {
    file: Reader,
    layout: RawLayout,
    period: Duration,
    number: u32,
}

impl Raw {
    pub(super) fn new(file: Reader, layout: RawLayout, period: Duration) -> Self {
        Self { file, layout, period, number: 0 }
    }
}

impl Frames for Raw {
    fn next(&mut self, image: &mut Image) -> Result<Option<Duration>, String> {
        let RawLayout { format, width, height } = self.layout;
        let bytes = image.reshape(format, width, height).map_err(|error| error.to_string())?;
        let mut found = 0;
        while found < bytes.len() {
            match self.file.read(&mut bytes[found..]) {
                Ok(0) if found == 0 => return Ok(None),
                Ok(0) => {
                    let len = bytes.len();
                    return Err(format!("the last image has {found} bytes of {len}"));
                }
                Ok(more) => found += more,
                Err(error) => return Err(error.to_string()),
            }
        }
        let at = self.period.saturating_mul(self.number);
        self.number += 1;
        Ok(Some(at))
    }

    fn period(&self) -> Option<Duration> {
        Some(self.period)
    }
}

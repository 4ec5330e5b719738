//! Profile of `afferent model run`: an ETDump, or JSON with mean times of instructions.

use std::{path::Path, time::Instant};

use afferent_inspect::{EtDumpRecorder, InstructionProfile};
use afferent_runtime::{RunObserver, program::MethodPlan};
use anyhow::bail;

use crate::output::Output;

/// Output file of a profile, opened before the model is loaded.
pub(super) struct ProfileFile {
    file: Output,
    is_etdump: bool,
}

/// Profile of the runs, and its output file.
pub(super) struct Profile {
    file: Output,
    kind: Kind,
}

enum Kind {
    EtDump(EtDumpRecorder),
    Json(InstructionProfile),
}

impl ProfileFile {
    /// Opens the file. Its extension selects the format.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let is_etdump = match path.extension().and_then(|extension| extension.to_str()) {
            Some("etdp" | "etdump") => true,
            Some("json") => false,
            _ => bail!("--profile {}: the name must end in .etdp or .json", path.display()),
        };
        Ok(Self { file: Output::open(path)?, is_etdump })
    }
}

impl Profile {
    /// Starts the profile right after loading. Loading of the program began at `origin`, and of the
    /// method at `method`.
    pub(super) fn new(file: ProfileFile, origin: Instant, method: Instant) -> Self {
        let kind = match file.is_etdump {
            true => Kind::EtDump(EtDumpRecorder::new(origin, method)),
            false => Kind::Json(InstructionProfile::default()),
        };
        Self { file: file.file, kind }
    }

    pub(super) fn observer(&self) -> &dyn RunObserver {
        match &self.kind {
            Kind::EtDump(recorder) => recorder,
            Kind::Json(profile) => profile,
        }
    }

    /// Ends the run that started at `start`.
    pub(super) fn end_run(&self, start: Instant) {
        if let Kind::EtDump(recorder) = &self.kind {
            recorder.end_run(start);
        }
    }

    /// Writes the file. `plan` is the method that ran.
    pub(super) fn write(self, plan: &MethodPlan<'_>) -> anyhow::Result<()> {
        let bytes = match &self.kind {
            Kind::EtDump(recorder) => recorder.to_bytes(plan)?,
            Kind::Json(profile) => serde_json::to_vec_pretty(&profile.mean_times(plan))?,
        };
        self.file.write(&bytes)
    }
}

//! A program file with its data files, parsed once and shared by instances.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use afferent_core::AlignedBytes;
use afferent_program::{ExternalData, MethodPlan, Program, Value};
use self_cell::self_cell;

use super::ModelError;

/// A program in memory, with its data files. Instances share it.
pub struct ModelFile {
    path: PathBuf,
    parsed: ParsedFile,
}

struct Files {
    program: AlignedBytes,
    data: Vec<AlignedBytes>,
}

struct Parsed<'a> {
    program: Program<'a>,
    external: Vec<ExternalData<'a>>,
}

self_cell!(
    struct ParsedFile {
        owner: Files,
        #[covariant]
        dependent: Parsed,
    }
);

impl ModelFile {
    /// Reads the program at `path` and its data files.
    ///
    /// # Errors
    /// [`ModelError::Read`] and [`ModelError::Program`].
    pub fn open(path: impl AsRef<Path>, data: &[PathBuf]) -> Result<Arc<Self>, ModelError> {
        let path = path.as_ref();
        let program = read(path)?;
        let data = data.iter().map(|path| Ok((path.clone(), read(path)?)));
        Self::parse(path, program, data.collect::<Result<_, _>>()?)
    }

    /// A program that is in memory already; `path` stands for it in messages.
    ///
    /// # Errors
    /// [`ModelError::Program`].
    pub fn from_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<Arc<Self>, ModelError> {
        Self::parse(path.as_ref(), bytes.into(), Vec::new())
    }

    fn parse(
        path: &Path,
        program: AlignedBytes,
        data: Vec<(PathBuf, AlignedBytes)>,
    ) -> Result<Arc<Self>, ModelError> {
        let (paths, data): (Vec<_>, Vec<_>) = data.into_iter().unzip();
        let parsed = ParsedFile::try_new(Files { program, data }, |files| {
            let failed = |path: &Path| {
                let path = path.to_owned();
                move |error| ModelError::Program { path, error }
            };
            let program = Program::parse(files.program.as_slice()).map_err(failed(path))?;
            let external =
                files.data.iter().zip(&paths).map(|(bytes, path)| {
                    ExternalData::parse(bytes.as_slice()).map_err(failed(path))
                });
            Ok(Parsed { program, external: external.collect::<Result<_, _>>()? })
        })?;
        Ok(Arc::new(Self { path: path.to_owned(), parsed }))
    }

    /// Its data files.
    pub(super) fn external(&self) -> &[ExternalData<'_>] {
        &self.parsed.borrow_dependent().external
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the program file.
    pub fn size(&self) -> usize {
        self.parsed.borrow_owner().program.as_slice().len()
    }

    /// What is in it.
    pub fn program(&self) -> &Program<'_> {
        &self.parsed.borrow_dependent().program
    }

    /// The plan of method `name`.
    ///
    /// # Errors
    /// [`ModelError::MethodMissing`].
    pub fn method(&self, name: &str) -> Result<MethodPlan<'_>, ModelError> {
        self.program().method(name).ok_or_else(|| ModelError::MethodMissing {
            path: self.path.clone(),
            name: name.to_owned(),
            available: self.program().method_names().map(str::to_owned).collect(),
        })
    }

    /// The integer that the metadata method `name` returns, if there is one.
    pub fn metadata_int(&self, name: &str) -> Option<i64> {
        let plan = self.program().method(name)?;
        match (plan.num_instructions(), plan.value(plan.outputs().get(0)? as usize)) {
            (0, Value::Int(value)) => Some(value),
            _ => None,
        }
    }
}

fn read(path: &Path) -> Result<AlignedBytes, ModelError> {
    let failed = |error: std::io::Error| ModelError::Read {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    Ok(AlignedBytes::from(fs::read(path).map_err(failed)?.as_slice()))
}

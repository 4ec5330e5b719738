//! Program file with its data files, parsed once and shared by all instances.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use afferent_program::{BundledProgram, ExternalData, MethodPlan, Program, Value};
use self_cell::self_cell;
use twox_hash::XxHash3_128;

use super::{
    ModelError,
    file_bytes::{FileAccess, FileBytes, FileIdentity},
    open_files,
    packed_constants::PackedConstants,
};

/// Program in memory, its data files, and the constants that backends have packed. All instances of
/// the program share it.
pub struct ModelFile {
    path: PathBuf,
    parsed: ParsedFile,
    pub(super) constants: PackedConstants,
    content_hash: OnceLock<u128>,
}

struct Files {
    program: FileBytes,
    data: Vec<FileBytes>,
}

struct Parsed<'a> {
    program: Program<'a>,
    bundled: Option<BundledProgram<'a>>,
    /// Named data of the program and of the data files. The program takes precedence.
    named_data: HashMap<&'a str, &'a [u8]>,
}

self_cell!(
    struct ParsedFile {
        owner: Files,
        #[covariant]
        dependent: Parsed,
    }
);

impl ModelFile {
    /// Maps the program at `path`, a `.pte` or a `.bpte`, and its data files. The files must not
    /// change ([`FileAccess::Map`]). Files that are mapped already, and have not changed since, are
    /// shared.
    ///
    /// # Errors
    /// [`ModelError::Read`] and [`ModelError::Program`].
    pub fn open(path: impl AsRef<Path>, data: &[PathBuf]) -> Result<Arc<Self>, ModelError> {
        Self::open_with(path, data, FileAccess::Map)
    }

    /// As [`ModelFile::open`], with a choice of access to the files.
    ///
    /// # Errors
    /// As [`ModelFile::open`].
    pub fn open_with(
        path: impl AsRef<Path>,
        data: &[PathBuf],
        access: FileAccess,
    ) -> Result<Arc<Self>, ModelError> {
        let path = path.as_ref();
        let open = |path: &Path| {
            FileBytes::open(path, access).map_err(|error| ModelError::Read {
                path: path.to_owned(),
                reason: error.to_string(),
            })
        };
        let program = open(path)?;
        let data = data.iter().map(|path| Ok((path.clone(), open(path)?)));
        let data = data.collect::<Result<Vec<_>, ModelError>>()?;
        let all = std::iter::once(&program).chain(data.iter().map(|(_, bytes)| bytes));
        let identity: Option<Vec<_>> = all.map(FileBytes::identity).collect();
        let same = identity.as_deref().and_then(|identity| open_files::find(path, identity));
        if let Some(same) = same {
            return Ok(same);
        }
        let file = Self::parse(path, program, data)?;
        Ok(if identity.is_some() { open_files::share(file) } else { file })
    }

    /// Copies and parses a program in memory. `path` names it in error messages.
    ///
    /// # Errors
    /// [`ModelError::Program`].
    pub fn from_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<Arc<Self>, ModelError> {
        Self::parse(path.as_ref(), FileBytes::Owned(bytes.into()), Vec::new())
    }

    fn parse(
        path: &Path,
        program: FileBytes,
        data: Vec<(PathBuf, FileBytes)>,
    ) -> Result<Arc<Self>, ModelError> {
        let (paths, data): (Vec<_>, Vec<_>) = data.into_iter().unzip();
        let parsed = ParsedFile::try_new(Files { program, data }, |files| {
            let failed = |path: &Path| {
                let path = path.to_owned();
                move |error| ModelError::Program { path, error }
            };
            let bytes = files.program.as_slice();
            let bundled = BundledProgram::is_bundled(bytes).then(|| BundledProgram::parse(bytes));
            let bundled = bundled.transpose().map_err(failed(path))?;
            let program = bundled.map_or(bytes, |bundled| bundled.program());
            let program = Program::parse(program).map_err(failed(path))?;
            let mut named_data = HashMap::new();
            // The first entry with a key wins.
            let mut add = |key, data| _ = named_data.entry(key).or_insert(data);
            program.named_data_entries().for_each(|(key, data)| add(key, data));
            for (bytes, path) in files.data.iter().zip(&paths) {
                let external = ExternalData::parse(bytes.as_slice()).map_err(failed(path))?;
                external.entries().for_each(|(key, data)| add(key, data));
            }
            Ok(Parsed { program, bundled, named_data })
        })?;
        let (constants, content_hash) = (PackedConstants::default(), OnceLock::new());
        Ok(Arc::new(Self { path: path.to_owned(), parsed, constants, content_hash }))
    }

    /// Program file and data files.
    pub(super) fn files(&self) -> impl Iterator<Item = &FileBytes> {
        let Files { program, data } = self.parsed.borrow_owner();
        std::iter::once(program).chain(data)
    }

    /// Identities of the files, if all of them are mapped.
    pub(super) fn identity(&self) -> Option<Vec<FileIdentity>> {
        self.files().map(FileBytes::identity).collect()
    }

    /// Hash of the contents of all files.
    pub(super) fn content_hash(&self) -> u128 {
        *self.content_hash.get_or_init(|| {
            let mut hash = XxHash3_128::new();
            for bytes in self.files().map(FileBytes::as_slice) {
                hash.write(&(bytes.len() as u64).to_le_bytes());
                hash.write(bytes);
            }
            hash.finish_128()
        })
    }

    /// Named data `key` of the program or of a data file.
    pub fn named_data(&self, key: &str) -> Option<&[u8]> {
        self.parsed.borrow_dependent().named_data.get(key).copied()
    }

    /// Path of the program file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of the program file in bytes.
    pub fn size(&self) -> usize {
        self.parsed.borrow_owner().program.as_slice().len()
    }

    /// The parsed program.
    pub fn program(&self) -> &Program<'_> {
        &self.parsed.borrow_dependent().program
    }

    /// Bundled test cases, if the file is a bundled program.
    pub fn bundled(&self) -> Option<&BundledProgram<'_>> {
        self.parsed.borrow_dependent().bundled.as_ref()
    }

    /// Plan of method `name`.
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

    /// Integer that the constant method `name` returns, if there is such a method.
    pub fn metadata_int(&self, name: &str) -> Option<i64> {
        let plan = self.program().method(name)?;
        match (plan.num_instructions(), plan.value(plan.outputs().get(0)? as usize)) {
            (0, Value::Int(value)) => Some(value),
            _ => None,
        }
    }
}

//! Weight cache: models of one file share packed weights, a cache file keeps them across processes,
//! and an invalid cache file is rejected.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use afferent_backend_xnnpack::Xnnpack;
use afferent_core::{
    Backend, DelegateHandle, DelegateSource, Error, SharedBytes, Tensor, WeightCache,
};
use afferent_kernels::KERNELS;
use afferent_runtime::{Input, Model, ModelOptions};
use tempfile::TempDir;

/// XNNPACK, and the bytes of weights that were packed.
#[derive(Default)]
struct Watched {
    packed: AtomicUsize,
}

struct Watch<'w> {
    inner: &'w dyn WeightCache,
    packed: &'w AtomicUsize,
}

impl WeightCache for Watch<'_> {
    fn get_or_pack(
        &self,
        source: &[u8],
        form: u64,
        len: usize,
        make: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<SharedBytes, Error> {
        self.inner.get_or_pack(source, form, len, &mut |to| {
            self.packed.fetch_add(to.len(), SeqCst);
            make(to)
        })
    }
}

impl Backend for Watched {
    fn name(&self) -> &'static str {
        Xnnpack.name()
    }

    fn is_available(&self) -> bool {
        true
    }

    fn layout(&self) -> (u32, &'static str) {
        Xnnpack.layout()
    }

    fn init<'a>(&self, source: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error> {
        let inner = source.weight_cache.expect("a model keeps what is prepared");
        let watch = Watch { inner, packed: &self.packed };
        Xnnpack.init(&DelegateSource { weight_cache: Some(&watch), ..*source })
    }
}

/// A model in a temporary folder, which also contains its weight cache.
struct TestModel {
    folder: TempDir,
    watched: Arc<Watched>,
}

impl TestModel {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let model = "../../pipelines/models/wake_word/wake_word_xnnpack.pte";
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join(model);
        fs::copy(model, folder.path().join("model.pte")).expect("the model is copied");
        Self { folder, watched: Arc::default() }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("weights")
    }

    fn options(&self, cache: Option<PathBuf>) -> ModelOptions {
        let weight_cache = cache.map(Arc::from);
        let watched = self.watched.clone() as Arc<dyn Backend>;
        ModelOptions { weight_cache, ..ModelOptions::new(KERNELS).with_backends([watched]) }
    }

    fn open(&self, cache: Option<PathBuf>) -> Model {
        Model::open(self.folder.path().join("model.pte"), self.options(cache))
            .expect("the model loads")
    }

    /// Returns the number of bytes that are packed during `work`.
    fn packed(&self, work: impl FnOnce()) -> usize {
        let before = self.watched.packed.load(SeqCst);
        work();
        self.watched.packed.load(SeqCst) - before
    }

    /// Opens and runs the model. Returns the number of packed bytes, the warnings and the output.
    fn start(&self, cache: PathBuf) -> (usize, Vec<String>, Vec<f32>) {
        let (mut problems, mut result) = (Vec::new(), Vec::new());
        let packed = self.packed(|| {
            let mut model = self.open(Some(cache));
            problems = model.weight_cache_errors().iter().map(ToString::to_string).collect();
            result = run(&mut model);
        });
        (packed, problems, result)
    }

    /// The only file in the cache folder.
    fn cached(&self) -> PathBuf {
        let mut files =
            fs::read_dir(self.cache()).expect("a folder").flatten().map(|entry| entry.path());
        let file = files.next().expect("the cache was written");
        assert_eq!(files.next(), None, "nothing but the cache is left");
        file
    }
}

fn run(model: &mut Model) -> Vec<f32> {
    use afferent_runtime::program::Value;
    let plan = model.file().method("forward").expect("the program has `forward`");
    let inputs = plan.inputs().iter().map(|id| match plan.value(id as usize) {
        Value::Tensor(meta) => {
            let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
            let numbers: Vec<f32> =
                (0..sizes.iter().product()).map(|at| (at % 17) as f32 / 8.0 - 1.0).collect();
            Tensor::new(&sizes, &numbers).expect("data matches the sizes")
        }
        _ => panic!("an input is not a tensor"),
    });
    let inputs: Vec<Tensor> = inputs.collect();
    let inputs: Vec<_> = inputs.iter().map(|input| Input::Tensor(input.view())).collect();
    let outputs = model.run("forward", &inputs).expect("the model runs");
    let result = outputs.tensor(0).and_then(|tensor| tensor.data::<f32>());
    result.expect("the output is an f32 tensor").to_vec()
}

#[test]
fn models_of_one_file_share_packed_weights() {
    let model_folder = TestModel::new();
    let mut models = Vec::new();
    let first = model_folder.packed(|| models.push(model_folder.open(None)));
    assert!(first > 0);
    let more = model_folder.packed(|| models.extend((0..3).map(|_| model_folder.open(None))));
    assert_eq!(more, 0, "the weights are already packed");
    let results: Vec<_> = models.iter_mut().map(run).collect();
    assert!(results.iter().all(|result| *result == results[0]));
    // A new model shares the weights with the remaining one.
    models.truncate(1);
    assert_eq!(model_folder.packed(|| models.push(model_folder.open(None))), 0);
    drop(models);
    let mut model = None;
    assert_eq!(
        model_folder.packed(|| model = Some(model_folder.open(None))),
        first,
        "the last model freed the weights"
    );
    assert_eq!(model.as_mut().map(run).as_ref(), results.first());
}

#[test]
fn replaced_file_shares_nothing() {
    let model_folder = TestModel::new();
    let path = model_folder.folder.path().join("model.pte");
    let mut old = model_folder.open(None);
    let other = model_folder.folder.path().join("other.pte");
    fs::copy(&path, &other).unwrap();
    fs::rename(&other, &path).unwrap();
    assert!(model_folder.packed(|| _ = model_folder.open(None)) > 0);
    run(&mut old);
}

#[test]
fn second_start_packs_nothing() {
    let model_folder = TestModel::new();
    let (packed, problems, result) = model_folder.start(model_folder.cache());
    assert!(packed > 0 && problems.is_empty(), "{problems:?}");
    assert_eq!(model_folder.start(model_folder.cache()), (0, vec![], result.clone()));
    // A copy of the model has the same contents.
    let path = model_folder.folder.path().join("model.pte");
    fs::rename(&path, model_folder.folder.path().join("other.pte")).unwrap();
    fs::copy(model_folder.folder.path().join("other.pte"), &path).unwrap();
    assert_eq!(model_folder.start(model_folder.cache()), (0, vec![], result));
}

#[test]
fn corrupted_cache_is_rejected_and_rewritten() {
    let model_folder = TestModel::new();
    let (packed, _, result) = model_folder.start(model_folder.cache());
    let file = model_folder.cached();
    let good = fs::read(&file).unwrap();
    let check = |bytes: &[u8], expected: &str| {
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
        let (again, problems, found) = model_folder.start(model_folder.cache());
        assert_eq!((again, &found), (packed, &result));
        assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
        assert_eq!(fs::read(model_folder.cached()).unwrap(), good);
        assert_eq!(model_folder.start(model_folder.cache()), (0, vec![], result.clone()));
    };
    for at in [0, 15, 16, 40, 200, good.len() / 2, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 4;
        check(&bytes, if at < 16 { "of this version" } else { "damaged" });
    }
    for len in [0, 7, 20] {
        check(&good[..len], "truncated");
    }
    check(&good[..good.len() - 64], "damaged");
    // Valid cache of another model.
    let model = model_folder.folder.path().join("model.pte");
    let mut bytes = fs::read(&model).unwrap();
    let program = bytes.clone();
    bytes.push(0);
    fs::remove_file(&model).unwrap();
    fs::write(&model, &bytes).unwrap();
    let elsewhere = model_folder.folder.path().join("elsewhere");
    model_folder.start(elsewhere.clone());
    let foreign = fs::read_dir(&elsewhere).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&model).unwrap();
    fs::write(&model, program).unwrap();
    check(&fs::read(foreign).unwrap(), "another model");
}

#[test]
fn unwritable_cache_is_a_warning() {
    let model_folder = TestModel::new();
    let (_, _, result) = model_folder.start(model_folder.cache());
    // A folder cannot be created below a file.
    let below = model_folder.folder.path().join("model.pte").join("weights");
    let (packed, problems, found) = model_folder.start(below);
    assert!(packed > 0);
    assert_eq!(found, result);
    assert!(problems.iter().any(|problem| problem.contains("cannot be written")), "{problems:?}");
}

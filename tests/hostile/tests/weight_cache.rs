//! Prepared weights: shared by all who use a file, kept on disk, and never taken from a file that
//! is not what it should be.

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

/// A model of its own, and a folder for its weights.
struct Place {
    folder: TempDir,
    watched: Arc<Watched>,
}

impl Place {
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

    /// Bytes that `work` packs.
    fn packed(&self, work: impl FnOnce()) -> usize {
        let before = self.watched.packed.load(SeqCst);
        work();
        self.watched.packed.load(SeqCst) - before
    }

    /// Bytes that a start packs, its warnings and its result.
    fn start(&self, cache: PathBuf) -> (usize, Vec<String>, Vec<f32>) {
        let (mut problems, mut result) = (Vec::new(), Vec::new());
        let packed = self.packed(|| {
            let mut model = self.open(Some(cache));
            problems = model.weight_cache_errors().iter().map(ToString::to_string).collect();
            result = run(&mut model);
        });
        (packed, problems, result)
    }

    /// The only file of the cache.
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
    let plan = model.file().method("forward").expect("a method");
    let inputs = plan.inputs().iter().map(|id| match plan.value(id as usize) {
        Value::Tensor(meta) => {
            let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
            let numbers: Vec<f32> =
                (0..sizes.iter().product()).map(|at| (at % 17) as f32 / 8.0 - 1.0).collect();
            Tensor::new(&sizes, &numbers).expect("as many numbers")
        }
        _ => panic!("an input is no tensor"),
    });
    let inputs: Vec<Tensor> = inputs.collect();
    let inputs: Vec<_> = inputs.iter().map(|input| Input::Tensor(input.view())).collect();
    let outputs = model.run("forward", &inputs).expect("a result");
    let result = outputs.tensor(0).and_then(|tensor| tensor.data::<f32>());
    result.expect("numbers").to_vec()
}

#[test]
fn models_of_one_file_share_their_weights() {
    let place = Place::new();
    let mut models = Vec::new();
    let first = place.packed(|| models.push(place.open(None)));
    assert!(first > 0);
    let more = place.packed(|| models.extend((0..3).map(|_| place.open(None))));
    assert_eq!(more, 0, "they are packed");
    let results: Vec<_> = models.iter_mut().map(run).collect();
    assert!(results.iter().all(|result| *result == results[0]));
    // Whoever comes later shares with whoever is left.
    models.truncate(1);
    assert_eq!(place.packed(|| models.push(place.open(None))), 0);
    drop(models);
    let mut model = None;
    assert_eq!(place.packed(|| model = Some(place.open(None))), first, "the last took them along");
    assert_eq!(model.as_mut().map(run).as_ref(), results.first());
}

#[test]
fn a_file_that_changed_shares_nothing() {
    let place = Place::new();
    let path = place.folder.path().join("model.pte");
    let mut old = place.open(None);
    let other = place.folder.path().join("other.pte");
    fs::copy(&path, &other).unwrap();
    fs::rename(&other, &path).unwrap();
    assert!(place.packed(|| _ = place.open(None)) > 0);
    run(&mut old);
}

#[test]
fn a_second_start_packs_nothing() {
    let place = Place::new();
    let (packed, problems, result) = place.start(place.cache());
    assert!(packed > 0 && problems.is_empty(), "{problems:?}");
    assert_eq!(place.start(place.cache()), (0, vec![], result.clone()));
    // A copy of the model has the same contents.
    let path = place.folder.path().join("model.pte");
    fs::rename(&path, place.folder.path().join("other.pte")).unwrap();
    fs::copy(place.folder.path().join("other.pte"), &path).unwrap();
    assert_eq!(place.start(place.cache()), (0, vec![], result));
}

#[test]
fn a_damaged_cache_is_refused_and_made_anew() {
    let place = Place::new();
    let (packed, _, result) = place.start(place.cache());
    let file = place.cached();
    let good = fs::read(&file).unwrap();
    let check = |bytes: &[u8], expected: &str| {
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
        let (again, problems, found) = place.start(place.cache());
        assert_eq!((again, &found), (packed, &result));
        assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
        assert_eq!(fs::read(place.cached()).unwrap(), good);
        assert_eq!(place.start(place.cache()), (0, vec![], result.clone()));
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
    // The cache of another model, by itself good.
    let model = place.folder.path().join("model.pte");
    let mut bytes = fs::read(&model).unwrap();
    let program = bytes.clone();
    bytes.push(0);
    fs::remove_file(&model).unwrap();
    fs::write(&model, &bytes).unwrap();
    let elsewhere = place.folder.path().join("elsewhere");
    place.start(elsewhere.clone());
    let foreign = fs::read_dir(&elsewhere).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&model).unwrap();
    fs::write(&model, program).unwrap();
    check(&fs::read(foreign).unwrap(), "another model");
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning() {
    let place = Place::new();
    let (_, _, result) = place.start(place.cache());
    // No folder can be made below a file, whoever asks.
    let below = place.folder.path().join("model.pte").join("weights");
    let (packed, problems, found) = place.start(below);
    assert!(packed > 0);
    assert_eq!(found, result);
    assert!(problems.iter().any(|problem| problem.contains("cannot be written")), "{problems:?}");
}

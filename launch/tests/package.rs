//! `afferent package`: packages from programs, as a user calls it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use afferent_package::ModelPackage;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn vision(name: &str) -> String {
    format!("{ROOT}/nodes/vision/tests/data/{name}.pte")
}

/// Runs the command; returns standard output, standard error, and true on success.
fn package(folder: &Path, args: &[&str]) -> (String, String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
    command.current_dir(folder).arg("package").args(args);
    let Output { status, stdout, stderr } = command.output().unwrap();
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.success())
}

/// Packages `args` in a new folder `out`.
fn written(folder: &Path, args: &[&str]) -> (ModelPackage, String) {
    let output = folder.join("out");
    if output.exists() {
        fs::remove_dir_all(&output).unwrap();
    }
    let (text, errors, success) = package(folder, &[args, &["-o", "out"]].concat());
    assert!(success, "{args:?} {errors}");
    (ModelPackage::open(&output).unwrap(), text)
}

#[test]
fn models_of_images_and_sound_are_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let check = |args: &[&str], task: &str, contract: &str| {
        let (package, text) = written(folder.path(), args);
        let manifest = &package.manifest;
        assert_eq!((&*manifest.task, &*manifest.contract), (task, contract), "{text}");
        assert!(
            text.contains(&format!("task {task}, contract {contract}, for the node")),
            "{text}"
        );
        package.verify().unwrap();
    };
    check(&[&vision("dense")], "detection", "ultralytics");
    check(&[&vision("split")], "detection", "boxes_scores_classes");
    check(&[&vision("queries")], "detection", "detr");
    check(&[&vision("pose_simcc")], "body_pose", "simcc");
    check(&[&vision("mask_classes")], "segmentation", "logits");
    check(&[&vision("mask_dense")], "segmentation", "ultralytics");
    check(&[&vision("mask_prompts")], "segmentation", "efficientsam");
    let depth = ["--task", "depth", "--contract", "inverse_depth"];
    check(&[&[&*vision("depth")][..], &depth].concat(), "depth", "inverse_depth");
    for (model, task, contract) in [
        ("vad", "voice_activity", "silero_vad"),
        ("log_mel", "features", "log_mel"),
        ("turn", "end_of_turn", "end_of_turn"),
    ] {
        check(&[&format!("{ROOT}/pipelines/models/{model}/{model}_portable.pte")], task, contract);
    }
    let llm = format!("{ROOT}/pipelines/models/llm");
    let files = [format!("{llm}/llm_8da4w.pte"), format!("{llm}/tokenizer.json")];
    let (package, _) = written(folder.path(), &files.each_ref().map(|file| &**file));
    let manifest = package.manifest;
    assert_eq!((&*manifest.task, manifest.tokenizer.as_deref()), ("chat", Some("tokenizer.json")));
    assert_eq!(manifest.variants[0].precision, "8da4w");
}

#[test]
fn programs_with_the_same_methods_are_variants() {
    let folder = tempfile::tempdir().unwrap();
    let vad = format!("{ROOT}/pipelines/models/vad");
    let files = [format!("{vad}/vad_portable.pte"), format!("{vad}/vad_xnnpack.pte")];
    let [portable, xnnpack] = files.each_ref().map(|file| &**file);
    let options = ["--name", "my vad", "--license", "MIT", "--provenance", "trained: here"];
    let (package, text) = written(folder.path(), &[&[portable, xnnpack], &options[..]].concat());
    let shipped = ModelPackage::open(&vad).unwrap().manifest;
    let manifest = package.manifest;
    assert_eq!(manifest.name, "my vad");
    assert_eq!((&*manifest.license, &*manifest.provenance), ("MIT", "trained: here"));
    assert_eq!(manifest.sample_rate, Some(16_000));
    assert_eq!(manifest.variants.len(), 2, "{text}");
    for (found, shipped) in manifest.variants.iter().zip(&shipped.variants) {
        assert_eq!((&found.file, &found.backend), (&shipped.file, &shipped.backend));
        assert_eq!((found.bytes, &found.sha256), (shipped.bytes, &shipped.sha256));
        assert_eq!(found.precision, "fp32");
    }
    let args = [portable, "-o", "out"];
    let (_, errors, success) = self::package(folder.path(), &args);
    assert!(!success && errors.contains("model.yaml exists: remove it"), "{errors}");
}

#[test]
fn a_folder_of_ultralytics_has_its_names_task_and_license() {
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("yolo_executorch_model");
    fs::create_dir(&export).unwrap();
    fs::copy(vision("dense"), export.join("model.pte")).unwrap();
    let metadata = "description: a detector\nlicense: AGPL-3.0 License (x)\ntask: detect\nnames:\n  \
                    0: cat\n  1: dog\n  2: 'no'\n";
    fs::write(export.join("metadata.yaml"), metadata).unwrap();
    let (package, text) = written(folder.path(), &["yolo_executorch_model"]);
    let manifest = package.manifest;
    assert_eq!(manifest.labels, ["cat", "dog", "no"]);
    assert_eq!((&*manifest.license, &*manifest.provenance), ("AGPL-3.0", "a detector"));
    assert!(text.contains("3 names of classes"), "{text}");
    let metadata = metadata.replace("detect\n", "segment\n");
    fs::write(export.join("metadata.yaml"), metadata).unwrap();
    let (_, errors, success) = self::package(folder.path(), &["yolo_executorch_model", "-o", "b"]);
    assert!(!success && errors.contains("not recognized"), "{errors}");
}

#[test]
fn an_optimum_export_has_its_names_and_images() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("vit")).unwrap();
    fs::copy(vision("classes"), path("vit/model.pte")).unwrap();
    let names = r#"{"id2label": {"0": "a", "1": "b", "2": "c", "3": "d", "4": "e", "5": "f"}}"#;
    fs::write(path("vit/config.json"), names).unwrap();
    let images = r#"{"do_resize": true, "size": {"height": 64, "width": 64}, "resample": 2,
                     "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}"#;
    fs::write(path("vit/preprocessor_config.json"), images).unwrap();
    let (package, _) = written(folder.path(), &["vit"]);
    let manifest = package.manifest;
    assert_eq!((&*manifest.task, manifest.labels.len()), ("classification", 6));
    let image = manifest.image.unwrap();
    assert_eq!(image.resize, Some(afferent_package::Resize::Stretch));
    assert_eq!((image.mean, image.std), (Some([0.5; 3]), Some([0.5; 3])));
}

#[test]
fn several_programs_have_roles() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    fs::copy(vision("classes"), path("tiny_encoder_fp32.pte")).unwrap();
    fs::copy(vision("depth"), path("tiny_decoder_fp32.pte")).unwrap();
    let files = ["tiny_encoder_fp32.pte", "tiny_decoder_fp32.pte"];
    let (_, errors, success) = package(folder.path(), &[&files[..], &["-o", "out"]].concat());
    assert!(!success && errors.contains("2 different programs"), "{errors}");
    assert!(errors.contains("forward(f32[1, 3, 64, 64]) -> (f32[1, 6])"), "{errors}");
    let named = ["--task", "captions", "--contract", "mine"];
    let (package, _) = written(folder.path(), &[&files[..], &named].concat());
    let programs = package.manifest.programs.iter();
    let programs: Vec<_> = programs.map(|(role, all)| (&**role, &*all[0].file)).collect();
    let expected = [("decoder", "tiny_decoder_fp32.pte"), ("encoder", "tiny_encoder_fp32.pte")];
    assert_eq!(programs, expected);
    let options = afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS);
    package.open_program("encoder", &options).unwrap();
}

/// Copies files to `folder`, under the names that their publishers give them.
fn publish(folder: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(folder).unwrap();
    for (source, name) in files {
        fs::copy(format!("{ROOT}/{source}"), folder.join(name)).unwrap();
    }
}

#[test]
fn models_in_the_cache_of_the_hub_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let hub = folder.path().join("models--org--yolo");
    let snapshot = hub.join("snapshots/0123abcd");
    publish(&snapshot.join("xnnpack"), &[("nodes/vision/tests/data/dense.pte", "yolo.pte")]);
    publish(&hub.join("refs"), &[]);
    fs::write(hub.join("refs/v0.9"), "0123abcd").unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
        command.current_dir(folder.path()).env("HF_HUB_CACHE", folder.path());
        let Output { status, stdout, stderr } =
            command.arg("package").args(args).args(["-o", "out"]).output().unwrap();
        let text = String::from_utf8([stdout, stderr].concat()).unwrap();
        (text, status.success())
    };
    let (told, success) = run(&["org/yolo"]);
    assert!(!success && told.contains("download it with `hf download org/yolo`"), "{told}");
    let (told, success) = run(&["org/yolo@v0.8"]);
    assert!(!success && told.contains("hf download org/yolo --revision v0.8"), "{told}");
    let (told, success) = run(&["org/yolo@v0.9"]);
    let programs = snapshot.join("xnnpack").display().to_string();
    assert!(!success && told.contains("name one of them") && told.contains(&programs), "{told}");
    publish(&snapshot, &[("nodes/vision/tests/data/dense.pte", "yolo.pte")]);
    let (told, success) = run(&["org/yolo@v0.9"]);
    assert!(success && told.contains("for the node detect"), "{told}");
}

#[test]
fn what_is_not_recognized_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let told = |args: &[&str]| {
        let (_, errors, success) = package(folder.path(), &[args, &["-o", "out"]].concat());
        assert!(!success && !folder.path().join("out/model.yaml").exists());
        errors
    };
    let several = told(&[&vision("classes")]);
    for choice in ["--task classification --contract classes (node classify)", "image_embedding"] {
        assert!(several.contains(choice), "{several}");
    }
    let other = told(&[&vision("dense"), "--task", "depth"]);
    assert!(other.contains("another contract") && other.contains("--task detection"), "{other}");
    let tts = told(&[&format!("{ROOT}/pipelines/models/tts/tts_xnnpack.pte")]);
    assert!(tts.contains("the contract of the program is not recognized"), "{tts}");
    assert!(tts.contains("  forward(") && tts.contains("  detect: image -> "), "{tts}");
    assert!(told(&["."]).contains("there is no program"));
    fs::write(folder.path().join("a.ptd"), "").unwrap();
    let files = [vision("classes"), vision("dense"), "a.ptd".to_owned()];
    let data = told(&files.each_ref().map(|file| &**file));
    assert!(data.contains("a.ptd is of none of the programs"), "{data}");
}

const SPEECH: &str = "nodes/speech/tests/data";

#[test]
fn voices_are_listed_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let check = |source: &[(&str, &[(&str, &str)])], contract: &str, expected: &[(&str, &str)]| {
        let model = folder.path().join("model");
        fs::remove_dir_all(&model).unwrap_or_default();
        for (into, files) in source {
            let files: Vec<_> =
                files.iter().map(|(from, name)| (format!("{SPEECH}/{from}"), *name)).collect();
            let files: Vec<_> = files.iter().map(|(from, name)| (&**from, *name)).collect();
            publish(&model.join(into), &files);
        }
        let (package, text) = written(folder.path(), &["model"]);
        let voices = &package.manifest.voices;
        let voices: Vec<_> = voices.iter().map(|(name, file)| (&**name, &**file)).collect();
        assert_eq!((&*package.manifest.contract, &*voices), (contract, expected), "{text}");
        let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
        assert!(text.contains(&format!("voices {}\n", names.join(", "))), "{text}");
        voices
            .iter()
            .for_each(|(_, file)| assert!(package.folder().join(file).is_file(), "{file}"));
    };
    let programs: &[(&str, &str)] = &[
        ("kokoro/one/duration_predictor_xnnpack_fp32.pte", "duration_predictor_xnnpack_fp32.pte"),
        ("kokoro/one/synthesizer_xnnpack_fp32.pte", "synthesizer_xnnpack_fp32.pte"),
        ("kokoro/lexicon.txt", "lexicon.txt"),
    ];
    let voices: &[(&str, &str)] =
        &[("kokoro/bm_two.bin", "bm_lewis.bin"), ("kokoro/af_one.bin", "af_heart.bin")];
    let expected = [("af_heart", "af_heart.bin"), ("bm_lewis", "bm_lewis.bin")];
    check(&[("", programs), ("voices", voices)], "kokoro-rne@0.10", &expected);
    check(&[("", programs), ("", voices)], "kokoro-rne@0.10", &expected);
    let files: &[(&str, &str)] = &[
        ("supertonic/one/supertonic.pte", "model.pte"),
        ("supertonic/unicode_indexer.json", "unicode_indexer.json"),
    ];
    let voices: &[(&str, &str)] =
        &[("supertonic/M1.json", "M1.json"), ("supertonic/F1.json", "F1.json")];
    let expected = [("F1", "F1.json"), ("M1", "M1.json")];
    check(&[("", files), ("voice_styles", voices)], "supertonic", &expected);
}

#[test]
fn a_prompt_is_that_of_the_configuration_or_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let translator = [
        ("nodes/speech/tests/data/seq2seq/model.pte", "model.pte"),
        ("runtime/text/tests/data/bpe.model", "tokenizer.model"),
    ];
    publish(&folder.path().join("t5"), &translator);
    let config = |text: &str| fs::write(folder.path().join("t5/config.json"), text).unwrap();
    let prompt = |args: &[&str]| written(folder.path(), args).0.manifest.prompt;
    assert_eq!(prompt(&["t5"]), "");
    let german = "translate English to German: ";
    config(&format!(
        r#"{{"task_specific_params": {{"translation_en_to_de": {{"prefix": "{german}"}}}}}}"#
    ));
    assert_eq!(prompt(&["t5"]), german);
    assert_eq!(prompt(&["t5", "--prompt", "a: \"b\""]), "a: \"b\"");
    config(
        r#"{"task_specific_params": {"summarization": {"prefix": "summarize: "},
            "translation_en_to_fr": {"prefix": "translate English to French: "}}}"#,
    );
    assert_eq!(prompt(&["t5", "--prompt", ""]), "");
    let (_, errors, success) = package(folder.path(), &["t5", "-o", "several"]);
    let choice = "--prompt 'translate English to French: ' (translation_en_to_fr)";
    assert!(!success && errors.contains(choice) && errors.contains("summarize: "), "{errors}");
    assert!(!folder.path().join("several").exists());

    let encoder = [
        ("nodes/speech/tests/data/embed_text/pooled.pte", "model.pte"),
        ("runtime/text/tests/data/wordpiece.json", "tokenizer.json"),
    ];
    publish(&folder.path().join("e5"), &encoder);
    let config = |text: &str| {
        fs::write(folder.path().join("e5/config_sentence_transformers.json"), text).unwrap();
    };
    config(
        r#"{"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": "query"}"#,
    );
    assert_eq!(prompt(&["e5"]), "query: ");
    config(r#"{"prompts": {"query": "", "document": ""}, "default_prompt_name": null}"#);
    assert_eq!(prompt(&["e5"]), "");
    config(r#"{"prompts": {"query": "query: ", "document": ""}}"#);
    let (_, errors, success) = package(folder.path(), &["e5", "-o", "several"]);
    assert!(!success && errors.contains("--prompt '' (document)"), "{errors}");
    let (_, errors, success) =
        package(folder.path(), &[&vision("dense"), "--prompt", "query: ", "-o", "out2"]);
    assert!(!success && errors.contains("the node detect takes no text"), "{errors}");
}

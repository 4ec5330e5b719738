//! Preparation of images, by the `preprocessor_config.json` of an image processor of Hugging Face.

use serde_json::Value;

/// The section `image` of model.yaml; `None` for another processor.
pub(super) fn image(config: &Value) -> Option<String> {
    let is_set = |name: &str| config.get(name).and_then(Value::as_bool);
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    config.get("do_resize").or(config.get("image_mean"))?;
    let mut fields = Vec::new();
    let side = |name: &str| {
        let size = config.get(name)?;
        // Old configurations have a number.
        number(size.get("height")).or(number(size.get("shortest_edge"))).or(number(Some(size)))
    };
    if is_set("do_center_crop") == Some(true) {
        fields.push("resize: crop".to_owned());
        if let (Some(crop), Some(size)) = (side("crop_size"), side("size"))
            && crop > 0.0
            && crop <= size
        {
            fields.push(format!("crop_fraction: {}", crop / size));
        }
    } else if config.get("size").is_some_and(|size| size.get("height").is_some()) {
        fields.push("resize: stretch".to_owned());
    }
    let scale = match is_set("do_rescale") {
        Some(false) => 1.0,
        _ => number(config.get("rescale_factor")).unwrap_or(1.0 / 255.0),
    };
    fields.push(format!("scale: {scale}"));
    if is_set("do_normalize") != Some(false) {
        for (name, field) in [("image_mean", "mean"), ("image_std", "std")] {
            let values = config.get(name).and_then(Value::as_array);
            if let Some(values) = values.filter(|values| values.len() == 3) {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                fields.push(format!("{field}: [{}]", values.join(", ")));
            }
        }
    }
    // Numbers of Pillow.
    let resampling = match config.get("resample").and_then(Value::as_u64) {
        Some(0) => Some("nearest"),
        Some(2) => Some("antialias_bilinear"),
        Some(3) => Some("antialias_bicubic"),
        _ => None,
    };
    fields.extend(resampling.map(|word| format!("resampling: {word}")));
    Some(format!("{{{}}}", fields.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_become_settings() {
        let check = |config: Value, expected: Option<&str>| {
            assert_eq!(image(&config).as_deref(), expected, "{config}");
        };
        check(
            serde_json::json!({
                "do_center_crop": true, "crop_size": {"height": 224, "width": 224},
                "do_resize": true, "size": {"shortest_edge": 256}, "do_normalize": true,
                "do_rescale": true, "rescale_factor": 0.5, "resample": 3,
                "image_mean": [0.5, 0.25, 0.5], "image_std": [0.5, 0.5, 0.5],
            }),
            Some(
                "{resize: crop, crop_fraction: 0.875, scale: 0.5, mean: [0.5, 0.25, 0.5], std: \
                 [0.5, 0.5, 0.5], resampling: antialias_bicubic}",
            ),
        );
        check(
            serde_json::json!({
                "do_resize": true, "size": {"height": 512, "width": 512}, "do_normalize": false,
                "do_rescale": false, "image_mean": [0.5, 0.5, 0.5], "resample": 2,
            }),
            Some("{resize: stretch, scale: 1, resampling: antialias_bilinear}"),
        );
        check(serde_json::json!({"feature_size": 80, "sampling_rate": 16000}), None);
    }
}

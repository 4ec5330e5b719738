//! Tools of the activity of a wearer.

use afferent_messages::{Activity, ActivityKind, ToolMessage};
use serde_json::{Value, json};

/// Length of a step as a share of the height of a walker.
const STEP_SHARE: f64 = 0.414;

/// Runs a tool call.
///
/// # Errors
/// What is wrong with the call, for the language model.
pub(crate) fn run(
    call: &ToolMessage,
    now: &Activity,
    height_m: Option<f64>,
) -> Result<Value, String> {
    match call.tool.as_str() {
        "how_many_steps" => {
            let steps = now.steps;
            let phrase = match steps {
                0 => "you have made no steps.".to_owned(),
                1 => "you have made one step.".to_owned(),
                _ => format!("you have made {steps} steps."),
            };
            Ok(json!({"steps": steps, "phrase": phrase}))
        }
        "cadence" => {
            let cadence = f64::from(now.cadence_per_min).round();
            let phrase = match now.kind {
                ActivityKind::Resting => "you are not walking.".to_owned(),
                kind => format!("you are {} at {cadence} steps per minute.", kind.name()),
            };
            Ok(json!({"activity": now.kind.name(), "cadence_per_min": cadence, "phrase": phrase}))
        }
        "how_far" => Ok(match height_m {
            Some(height) => {
                let meters = (now.steps as f64 * STEP_SHARE * height).round();
                json!({"distance_m": meters, "phrase": format!("about {meters} meters, by your steps and your height.")})
            }
            None => {
                json!({"distance_m": null, "phrase": "I count steps. For a distance I need your height."})
            }
        }),
        "heart_rate" => {
            Ok(json!({"heart_rate": null, "phrase": "there is no sensor for your heart rate."}))
        }
        other => Err(format!(
            "unknown tool {other}; available tools: cadence, heart_rate, how_far, how_many_steps"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_say_what_is_measured_and_nothing_else() {
        let walk = Activity { kind: ActivityKind::Walking, steps: 240, cadence_per_min: 111.6 };
        let say = |tool: &str, now: &Activity, height| {
            let call = ToolMessage { turn: 1, tool: tool.into(), json: "{}".into() };
            let result = run(&call, now, height);
            result.map_or_else(
                |error| error,
                |found| found["phrase"].as_str().unwrap_or_default().to_owned(),
            )
        };
        assert_eq!(say("how_many_steps", &walk, None), "you have made 240 steps.");
        assert_eq!(say("how_many_steps", &Activity::default(), None), "you have made no steps.");
        assert_eq!(say("cadence", &walk, None), "you are walking at 112 steps per minute.");
        assert_eq!(say("cadence", &Activity::default(), None), "you are not walking.");
        assert_eq!(
            say("how_far", &walk, None),
            "I count steps. For a distance I need your height."
        );
        let far = "about 179 meters, by your steps and your height.";
        assert_eq!(say("how_far", &walk, Some(1.8)), far);
        assert_eq!(say("heart_rate", &walk, Some(1.8)), "there is no sensor for your heart rate.");
        assert!(say("calories", &walk, None).starts_with("unknown tool calories; available tools"));
    }
}

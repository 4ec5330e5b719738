//! Tools of the activity of a wearer.

use afferent_messages::{Activity, ActivityKind, ToolMessage};
use serde_json::{Value, json};

/// Length of a step as a share of the height of a walker.
const STEP_SHARE: f64 = 0.414;

/// Runs a tool call; `None` if the tool is one of another node.
pub(crate) fn run(call: &ToolMessage, now: &Activity, height_m: Option<f64>) -> Option<Value> {
    Some(match call.tool.as_str() {
        "how_many_steps" => {
            let steps = now.steps;
            let phrase = match steps {
                0 => "You have taken no steps.".to_owned(),
                1 => "You have taken one step.".to_owned(),
                _ => format!("You have taken {steps} steps."),
            };
            json!({"steps": steps, "phrase": phrase})
        }
        "cadence" => {
            let cadence = f64::from(now.cadence_per_min).round();
            let phrase = match now.kind {
                ActivityKind::Resting => "You are not walking.".to_owned(),
                kind => format!("You are {} at {cadence} steps per minute.", kind.name()),
            };
            json!({"activity": now.kind.name(), "cadence_per_min": cadence, "phrase": phrase})
        }
        "how_far" => match height_m {
            Some(height) => {
                let meters = (now.steps as f64 * STEP_SHARE * height).round();
                let phrase = format!("About {meters} meters, by your steps and your height.");
                json!({"distance_m": meters, "phrase": phrase})
            }
            None => json!({"distance_m": null, "phrase": NO_HEIGHT}),
        },
        "heart_rate" => json!({"heart_rate": null, "phrase": NO_HEART_RATE}),
        _ => return None,
    })
}

const NO_HEIGHT: &str = "I count steps. For a distance I need your height.";
const NO_HEART_RATE: &str = "There is no sensor for your heart rate.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_say_what_is_measured_and_nothing_else() {
        let walk = Activity { kind: ActivityKind::Walking, steps: 240, cadence_per_min: 111.6 };
        let rest = Activity::default();
        let say = |tool: &str, now: &Activity, height| {
            let call = ToolMessage { turn: 1, tool: tool.into(), json: "{}".into() };
            let result = run(&call, now, height)?;
            result["phrase"].as_str().map(str::to_owned)
        };
        let check = |tool: &str, now: &Activity, height, expected: &str| {
            assert_eq!(say(tool, now, height).as_deref(), Some(expected), "{tool}");
        };
        check("how_many_steps", &walk, None, "You have taken 240 steps.");
        check("how_many_steps", &rest, None, "You have taken no steps.");
        check("cadence", &walk, None, "You are walking at 112 steps per minute.");
        check("cadence", &rest, None, "You are not walking.");
        check("how_far", &walk, None, NO_HEIGHT);
        check("how_far", &walk, Some(1.8), "About 179 meters, by your steps and your height.");
        check("heart_rate", &walk, Some(1.8), NO_HEART_RATE);
        assert_eq!(say("calories", &walk, None), None, "a tool of another node");
    }
}

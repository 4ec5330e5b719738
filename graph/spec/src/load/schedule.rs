//! Reads `thread`, `cpu`, `priority` and `spin`.
//!
//! ```yaml
//! thread: vision    # with other nodes that say so
//! cpu: 1            # the processor that the thread stays on
//! priority: 50      # real-time, 1 to 99
//! spin: 50us        # looks for work so long before it sleeps
//! ```

use crate::{Schedule, load::reader::Reader, yaml::Node};

impl Reader {
    /// Schedule of the thread of `node`; `what` names the node.
    pub(crate) fn schedule(&mut self, node: &Node, what: &str) -> Schedule {
        let mut schedule = Schedule::default();
        let given = |key: &str| node.get(key).filter(|value| !value.is_null());
        if let Some(value) = given("thread") {
            schedule.thread = self.text(value, &format!("\"thread\" of {what}")).map(str::to_owned);
        }
        if let Some(value) = given("cpu") {
            let what = format!("\"cpu\" of {what}");
            schedule.cpu = self.number(value, &what, "the number of a processor, from 0 on");
        }
        if let Some(value) = given("priority") {
            let (what, form) = (format!("\"priority\" of {what}"), "an integer from 1 to 99");
            let priority = self.number::<u8>(value, &what, form);
            schedule.priority = priority.filter(|priority| (1..=99).contains(priority));
            if let (Some(priority), None) = (priority, schedule.priority) {
                self.error(&value.location, format!("{what} must be {form}, not \"{priority}\""));
            }
        }
        if let Some(value) = given("spin") {
            schedule.spin = self.duration(value, &format!("\"spin\" of {what}"));
        }
        schedule
    }

    /// A number in the form of `form`.
    fn number<T: std::str::FromStr>(&mut self, node: &Node, what: &str, form: &str) -> Option<T> {
        let text = self.text(node, what)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.error(&node.location, format!("{what} must be {form}, not \"{text}\""));
        }
        number
    }
}

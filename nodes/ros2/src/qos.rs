//! Quality of service, as liveliness tokens state it.

use crate::Error;

/// Reliability of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reliability {
    /// Messages are sent again until they arrive.
    #[default]
    Reliable,
    /// Messages may be lost.
    BestEffort,
}

/// Durability of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A subscriber gets messages from its start on.
    #[default]
    Volatile,
    /// A subscriber gets the last messages from before its start too.
    TransientLocal,
}

/// Messages that a topic keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// The last ones.
    KeepLast(u32),
    /// All.
    KeepAll,
}

/// Quality of service of a publisher or subscriber. Deadline, lifespan and liveliness are those of
/// the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qos {
    /// Reliability.
    pub reliability: Reliability,
    /// Durability.
    pub durability: Durability,
    /// History.
    pub history: History,
}

impl Default for Qos {
    /// Reliable, volatile, the last 10 messages.
    fn default() -> Self {
        let (reliability, durability) = (Reliability::Reliable, Durability::Volatile);
        Self { reliability, durability, history: History::KeepLast(10) }
    }
}

impl Qos {
    /// Best effort, volatile, the last 5 messages: the profile of sensor data.
    pub const SENSOR_DATA: Self = Self {
        reliability: Reliability::BestEffort,
        durability: Durability::Volatile,
        history: History::KeepLast(5),
    };

    /// Numbers of `rmw` enumerations; defaults are left out.
    pub(crate) fn text(self) -> String {
        let reliability = match self.reliability {
            Reliability::Reliable => "",
            Reliability::BestEffort => "2",
        };
        let durability = match self.durability {
            Durability::Volatile => "",
            Durability::TransientLocal => "1",
        };
        let history = match self.history {
            History::KeepLast(depth) => format!(",{depth}"),
            History::KeepAll => "2,".to_owned(),
        };
        format!("{reliability}:{durability}:{history}:,:,:,,")
    }

    /// Reads the text in a token of a peer. Deadline, lifespan and liveliness are ignored.
    ///
    /// # Errors
    /// [`Error::Peer`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fault = |reason| Error::Peer { part: "QoS", text: text.to_owned(), reason };
        let parts: Vec<&str> = text.split(':').collect();
        let [reliability, durability, history, _, _, _] = parts[..] else {
            return Err(fault("it must have six parts"));
        };
        let default = Self::default();
        let reliability = match reliability {
            "" | "0" => default.reliability,
            "1" => Reliability::Reliable,
            "2" => Reliability::BestEffort,
            _ => return Err(fault("reliability is none of 0, 1, 2")),
        };
        let durability = match durability {
            "" | "0" => default.durability,
            "1" => Durability::TransientLocal,
            "2" => Durability::Volatile,
            _ => return Err(fault("durability is none of 0, 1, 2")),
        };
        let (kind, depth) = history.split_once(',').unwrap_or((history, ""));
        let history = match (kind, depth) {
            ("" | "0" | "1", "") => default.history,
            ("" | "0" | "1", depth) => {
                let depth = depth.parse().map_err(|_| fault("the history depth is no number"))?;
                History::KeepLast(depth)
            }
            ("2", _) => History::KeepAll,
            _ => return Err(fault("history is none of 0, 1, 2")),
        };
        Ok(Self { reliability, durability, history })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qos_round_trips() {
        let check = |qos: Qos, text: &str| {
            assert_eq!(qos.text(), text);
            assert_eq!(Qos::parse(text), Ok(qos));
        };
        check(Qos::default(), "::,10:,:,:,,");
        check(Qos::SENSOR_DATA, "2::,5:,:,:,,");
        check(Qos { history: History::KeepAll, ..Qos::default() }, "::2,:,:,:,,");
        let latched = Qos {
            durability: Durability::TransientLocal,
            history: History::KeepLast(1),
            ..Qos::default()
        };
        check(latched, ":1:,1:,:,:,,");
        assert_eq!(Qos::parse("1:2:1,10:1,5:,:1,2,3"), Ok(Qos::default()));
        assert_eq!(Qos::parse("::,:,:,:,,"), Ok(Qos::default()));
        for wrong in
            ["", "::,10:,:,", "3::,10:,:,:,,", ":x:,10:,:,:,,", "::,-1:,:,:,,", "::3,:,:,:,,"]
        {
            assert!(Qos::parse(wrong).is_err(), "{wrong}");
        }
    }
}

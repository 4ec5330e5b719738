//! Each shipped graph on recorded input, virtual clock, expected events.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod captions;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod first_word;
#[cfg(test)]
mod images;
#[cfg(test)]
mod language;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod regions;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod translation;
#[cfg(test)]
mod vision;
#[cfg(test)]
mod voice_agent;
#[cfg(test)]
mod wake_word;

//! Rules of the house that the compiler cannot check, as ordinary tests.
//!
//! | module      | rules                                                                          |
//! |-------------|--------------------------------------------------------------------------------|
//! | `arrows`    | which crate may depend on which                                                |
//! | `manifests` | what a crate inherits from the workspace                                       |
//! | `licences`  | where dependencies come from, and under which terms                            |
//! | `files`     | length, header, name and size of a file                                        |
//! | `lists`     | a kernel and a node stand in the list of their folder                          |
//! | `language`  | standard terms, US spelling, first sentences of doc comments                   |
//! | `imports`   | no circular imports between the files of a crate                               |
//! | `documents` | length of the documents, and that they agree with the workspace                |
//! | `words`     | no unfinished work, no skipped tests, no paths of one machine                  |
//! | `unsafety`  | which files may opt out of safe Rust, and why                                  |
//!
//! A rule is a function from a file to its faults; one test applies it to the tree, another shows
//! it a file that breaks it.

#[cfg(test)]
mod arrows;
#[cfg(test)]
mod code;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod files;
#[cfg(test)]
mod imports;
#[cfg(test)]
mod language;
#[cfg(test)]
mod licences;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod manifests;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod unsafety;
#[cfg(test)]
mod words;

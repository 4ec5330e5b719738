//! Rules for the repository that the compiler cannot check, as ordinary tests.
//!
//! | module      | rules                                                                          |
//! |-------------|--------------------------------------------------------------------------------|
//! | `arrows`    | allowed dependencies between crates                                            |
//! | `manifests` | settings that every crate inherits from the workspace                          |
//! | `licenses`  | registry and licenses of dependencies                                          |
//! | `files`     | length, header, name and size of files                                         |
//! | `lists`     | every kernel and node is in the list of its folder                             |
//! | `language`  | standard terms, US spelling, first sentences of doc comments                   |
//! | `imports`   | no circular imports between the files of a crate                               |
//! | `documents` | length of the documents, and that they agree with the workspace                |
//! | `words`     | no unfinished work, no skipped tests, no machine-specific paths                |
//! | `unsafety`  | files that may contain `unsafe`, with reasons                                  |
//!
//! A rule is a function from a file to its violations. One test applies it to all files, another one
//! to a file that violates it.

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
mod licenses;
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

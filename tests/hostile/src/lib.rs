//! Builds hostile files from valid ones and executes them. The tests here and the fuzz targets in
//! `fuzz/` share these modules.
//!
//! | module       | contents                                                       |
//! |--------------|----------------------------------------------------------------|
//! | `schema`     | tables of the file formats, as data                            |
//! | `flatbuffer` | tables of a file that may be corrupted                         |
//! | `edit`       | changes a field of a file by its name                          |
//! | `locations`  | all numbers and references of a file                           |
//! | `mutate`     | changes random locations or bytes, reproducibly                |
//! | `invariants` | reads a whole file and checks the guarantees of the parser     |
//! | `execute`    | loads a file and runs its methods, within limits               |
//! | `call`       | calls an operator with random arguments                        |
//! | `random`     | reproducible random numbers                                    |
//! | `seeds`      | valid files to start from                                      |
//! | `wire`       | decodes values of payload types                                |

pub mod call;
pub mod edit;
pub mod execute;
mod flatbuffer;
pub mod invariants;
mod locations;
pub mod message;
pub mod mutate;
mod random;
pub mod schema;
pub mod seeds;
pub mod wire;

pub use random::Random;

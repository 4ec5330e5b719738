//! Hostile files: made from good ones, and tried.
//!
//! | module       | holds                                                                       |
//! |--------------|-----------------------------------------------------------------------------|
//! | `schema`     | the tables of the file formats, as data                                     |
//! | `flatbuffer` | tables of a file that may be damaged                                        |
//! | `edit`       | changes one named field of a file                                           |
//! | `spots`      | every place of a file that the format gives a meaning                       |
//! | `mutate`     | changes some of these places by chance, repeatably                          |
//! | `reading`    | reads everything that a file gives                                          |
//! | `attempt`    | loads a file and runs its methods, within limits                            |
//! | `call`       | one operator with arguments made by chance                                  |
//! | `seeds`      | good files to start from                                                    |
//!
//! The fuzz targets in `fuzz/` are made of these parts, and so are the tests here.

pub mod attempt;
pub mod call;
pub mod edit;
mod flatbuffer;
pub mod mutate;
mod random;
pub mod reading;
pub mod schema;
pub mod seeds;
mod spots;

pub use random::Random;

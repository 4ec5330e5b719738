//! Rules of the house that the compiler cannot check, as ordinary tests.

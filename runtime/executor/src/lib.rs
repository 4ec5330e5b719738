//! Loads programs, plans their memory and runs their methods.

//! Pictures, by value.

//! Windows releases, builds and which host runs which image.
//!
//! A build is the third number of `10.0.B`. Everything here compares builds as integers: as text, `10.0.9200` is greater than `10.0.20348`.

pub mod build;
pub mod compat;
pub mod release;
pub mod runtime;
pub mod support;

//! What good policies do that their author may not have meant.
//!
//! Nothing is guessed from keys: [`refused`] and [`everything`] ask the engine what becomes of typical pods, and look up
//! who decided it; [`idle`] finds what never decides. A warning is certain or it is not given: what depends on a cluster that nobody knows here is left to
//! `mullion policy test` and `mullion policy diff`.

pub mod all_warnings;
pub mod decider;
pub mod everything;
pub mod idle;
pub mod refused;
pub mod warning;

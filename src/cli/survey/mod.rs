//! `mullion survey`: what a cluster holds, and what is wrong in it.

mod command;
mod dumps;
mod live;
mod saved;

pub use command::SurveyArgs;
pub(crate) use command::run;

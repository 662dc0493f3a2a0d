//! How the cost of a review grows with the object: time and size of the response for every shape of object.

mod collections;
mod measure;
mod objects;
mod pairs;
mod requests;

pub use measure::run;

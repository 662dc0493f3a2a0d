//! Pod templates in objects of other kinds than those of Kubernetes: which kinds have some, and the pods that their
//! controllers create from them.
//!
//! Most of these pods are created by an operator and not by a built-in controller, so the webhook reviews them as bare pods.
//! Some operators create a workload of Kubernetes, whose template the webhook reviews too. For a file, [`template_pods()`] makes the same pod from the object, with the place in the object from which each part of it
//! comes. What only the cluster has (a template in another object, a parameter) is unknown: it never decides, and an
//! object that consists of it is not read. Imports `model` only.

mod argo;
mod by_shape;
mod expressions;
mod knative;
mod kruise;
mod openshift;
mod part;
mod pod_builder;
mod pod_collector;
mod runners;
mod table;
mod tekton;
mod template_kind;
mod template_pod;
mod template_pods;

pub use by_shape::{PATTERN_GROUPS, PatternGroup};
pub use table::TEMPLATE_KINDS;
pub use template_kind::{TemplateKind, TemplateWrites};
pub use template_pod::{TemplatePod, UnreadTemplate};
pub use template_pods::{TemplatePods, template_pods};

//! Sets of metrics, each declared once.

/// Declares a struct of metrics. A member has the name that the metric has after the prefix `mullion_`, its type, and its
/// help text. Members under `with` are sets of their own. Clones of a set share its numbers.
macro_rules! metric_set {
    ($(#[$about:meta])* $visibility:vis struct $type:ident {
        $($name:ident: $metric:ty = $help:literal,)+
    } $(with {
        $($(#[$about_part:meta])* $part:ident: $set:ty,)+
    })?) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default)]
        #[allow(clippy::struct_field_names, reason = "the names of metrics")]
        $visibility struct $type {
            $(#[doc = $help] $visibility $name: $metric,)+
            $($($(#[$about_part])* $visibility $part: $set,)+)?
        }

        impl $type {
            /// Adds the metrics to `registry`.
            pub(crate) fn register(&self, registry: &mut ::prometheus_client::registry::Registry) {
                $(registry.register(stringify!($name), $help, self.$name.clone());)+
                $($(self.$part.register(registry);)+)?
            }
        }
    };
}

pub(crate) use metric_set;

//! Enums whose variants are the values of a label of a metric.

/// Declares enums, each variant with its label value, which `name` returns.
macro_rules! label_values {
    ($($(#[$about:meta])* $visibility:vis enum $type:ident {
        $($(#[$about_variant:meta])* $variant:ident = $name:literal,)+
    })+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $visibility enum $type {
            $($(#[$about_variant])* $variant,)+
        }

        impl $type {
            /// The value of the label.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    )+};
}

pub(crate) use label_values;

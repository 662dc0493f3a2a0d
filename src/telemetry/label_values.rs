//! Enums whose variants are the values of a label of a metric.

/// Declares enums, each with the name of its label, and each variant with its label value, which `name` returns. An enum
/// is a label set of its own: `Family<LookupOutcome, Counter>`.
macro_rules! label_values {
    ($($(#[$about:meta])* $visibility:vis enum $type:ident: $label:literal {
        $($(#[$about_variant:meta])* $variant:ident = $name:literal,)+
    })+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $visibility enum $type {
            $($(#[$about_variant])* $variant,)+
        }

        impl $type {
            /// Every value.
            $visibility const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The value of the label.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl ::prometheus_client::encoding::EncodeLabelSet for $type {
            fn encode(
                &self,
                encoder: &mut ::prometheus_client::encoding::LabelSetEncoder<'_>,
            ) -> ::std::result::Result<(), ::std::fmt::Error> {
                [($label, self.name())].encode(encoder)
            }
        }
    )+};
}

pub(crate) use label_values;

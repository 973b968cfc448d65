//! A closed enum in Rust over a plain bounded string in the schema.
//!
//! An `enum` in the schema would make the API server refuse the *whole* status as soon as a newer program writes a value
//! that an older definition does not list. So the schema only bounds the length, and a reader keeps what it cannot name.

/// Declares an enum of words with an `Unrecognised` fallback that keeps the text, and its string forms and schema.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$vmeta:meta])* $variant:ident ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$vmeta])* $variant, )+
            /// A word of another version of the program; kept as it was read.
            Unrecognised(Box<str>),
        }

        impl $name {
            /// Every word this version knows, in the order of the declaration.
            pub const ALL: &[Self] = &[ $( Self::$variant ),+ ];

            /// The word as it stands in the object.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => stringify!($variant), )+
                    Self::Unrecognised(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $( stringify!($variant) => Self::$variant, )+
                    other => Self::Unrecognised(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Ok(Self::from(word.as_ref()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "maxLength": 64 })
            }
        }
    };
}

pub(crate) use open_enum;

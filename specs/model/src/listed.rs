/// Declares an enum whose variants are sentences, and a set of them.
macro_rules! sentences {
    (
        $(#[$doc:meta])* $name:ident,
        $(#[$set_doc:meta])* $set:ident($bits:ty) {
            $($variant:ident = $sentence:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each variant is its sentence")]
        pub enum $name {
            $($variant,)+
        }

        impl $name {
            /// Every one, in order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The sentence.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$variant => $sentence,)+
                }
            }
        }

        $(#[$set_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set($bits);

        const _: () = assert!($name::ALL.len() <= <$bits>::BITS as usize);

        impl $set {
            /// Adds one.
            pub const fn insert(&mut self, one: $name) {
                self.0 |= 1 << one as $bits;
            }

            /// Adds one if a condition holds.
            pub const fn insert_if(&mut self, condition: bool, one: $name) {
                if condition {
                    self.insert(one);
                }
            }

            /// Adds all of another set.
            pub const fn extend(&mut self, other: Self) {
                self.0 |= other.0;
            }

            /// Whether one is in it.
            #[must_use]
            pub const fn contains(self, one: $name) -> bool {
                self.0 & (1 << one as $bits) != 0
            }

            /// Whether nothing is in it.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }
    };
}

pub(crate) use sentences;

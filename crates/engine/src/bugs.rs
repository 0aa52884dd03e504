//! Deliberate errors, so that tests can show that they would find them.
//!
//! Each is a place where an engine like this goes wrong easily. They exist only with the feature `bugs`; without it
//! [`Bug`] has no value and every check for one is constant.

/// An error that the engine makes on purpose.
#[cfg(not(feature = "bugs"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {}

#[cfg(feature = "bugs")]
pub use with_bugs::Bug;

/// Whether the configuration asks for this bug.
macro_rules! bug {
    ($config:expr, $bug:ident) => {{
        #[cfg(feature = "bugs")]
        let made = $config.bug == Some($crate::bugs::Bug::$bug);
        #[cfg(not(feature = "bugs"))]
        let made = false;
        made
    }};
}
pub(crate) use bug;

#[cfg(feature = "bugs")]
mod with_bugs {
    /// Declares the bugs once, with what each does.
    macro_rules! bugs {
        ($($name:ident: $what:literal,)*) => {
            /// An error that the engine makes on purpose.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum Bug {
                $(#[doc = $what] $name,)*
            }

            impl Bug {
                /// Every bug with what it does.
                pub const ALL: &[(Bug, &'static str)] = &[$((Bug::$name, $what),)*];
            }
        };
    }

    bugs! {
        FlushNotSent: "a flush of the host is answered without one to the device",
    }
}

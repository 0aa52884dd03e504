//! Settings that are described once: one table makes the fields, the parser, the bounds and the list of keys.

use crate::{Bytes, Time};

/// A value of a setting, and its text.
pub trait Setting: Sized {
    /// Reads the form of [`Setting::show`], and other common forms.
    ///
    /// # Errors
    /// A sentence that states what the text must be.
    fn read(text: &str) -> Result<Self, String>;

    /// A text without spaces that [`Setting::read`] reads as the same value.
    fn show(&self) -> String;
}

/// One key of a table of settings, as a list of settings shows it.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// Its name in settings files and on command lines.
    pub name: &'static str,
    /// A value, as a settings file has it: the default, where that is a value.
    pub value: &'static str,
    /// The default, where that is no value.
    pub default: &'static str,
    /// What it sets, in sentences.
    pub text: &'static str,
    /// Whether the default is right for nearly everybody.
    pub expert: bool,
}

/// Why `value` is not within `range`, if so.
#[must_use]
pub fn beyond<T: Setting + PartialOrd>(
    value: &T,
    range: &std::ops::RangeInclusive<T>,
) -> Option<String> {
    let (least, most) = (range.start().show(), range.end().show());
    (!range.contains(value)).then(|| format!("is {}, must be {least} to {most}", value.show()))
}

/// Sizes: `4096`, `4KiB`, `1.92TB`.
impl Setting for Bytes {
    fn read(text: &str) -> Result<Bytes, String> {
        text.parse().map_err(|error: crate::ParseBytesError| error.to_string())
    }

    fn show(&self) -> String {
        self.compact()
    }
}

/// Times: `0`, `250us`, `30s`.
impl Setting for Time {
    fn read(text: &str) -> Result<Time, String> {
        text.parse().map_err(|error: crate::ParseTimeError| error.to_string())
    }

    fn show(&self) -> String {
        format!("{}us", self.as_nanos() as f64 / 1e3)
    }
}

/// Counts.
impl Setting for u32 {
    fn read(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| format!("`{text}` must be a number, at most {}", u32::MAX))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Shares and ratios.
impl Setting for f64 {
    fn read(text: &str) -> Result<f64, String> {
        let (number, one) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 100.0));
        let number = number.trim().parse().ok().filter(|number: &f64| number.is_finite());
        number
            .map(|number| number / one)
            .ok_or_else(|| format!("`{text}` must be a number, such as 0.25 or 25%"))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Switches.
impl Setting for bool {
    fn read(text: &str) -> Result<bool, String> {
        match text {
            "on" | "true" => Ok(true),
            "off" | "false" => Ok(false),
            _ => Err(format!("`{text}` must be true or false")),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u32);

impl Setting for Seconds {
    fn read(text: &str) -> Result<Seconds, String> {
        match text.parse::<Time>() {
            Ok(time) if text != "0" && time.as_nanos() % 1_000_000_000 == 0 => {
                Ok(Seconds((time.as_nanos() / 1_000_000_000) as u32))
            }
            _ => u32::read(text)
                .map(Seconds)
                .map_err(|error| error + " of seconds, such as 10 or 10s"),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl From<Seconds> for Time {
    fn from(seconds: Seconds) -> Time {
        Time::seconds(seconds.0.into())
    }
}

/// A struct of settings, each an `Option` of a [`Setting`], from one table. A row is
/// `name: Type [=> RANGE], common | expert, "value" [("default in words")], "text";`.
#[macro_export]
macro_rules! settings {
    (@expert common) => { false };
    (@expert expert) => { true };
    (
        $(#[$outer:meta])*
        pub struct $struct:ident {
            $($name:ident: $type:ty $(=> $range:expr)?, $who:ident,
                $value:literal $(($default:literal))?, $text:literal;)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $struct {
            $(#[doc = $text] pub $name: Option<$type>,)*
        }

        impl $struct {
            /// Every key, in the order of the table.
            pub const KEYS: &'static [$crate::SettingKey] = &[$($crate::SettingKey {
                name: stringify!($name),
                value: $value,
                default: concat!($($default)?),
                text: $text,
                expert: $crate::settings!(@expert $who),
            },)*];

            /// Sets `key` to the value that `text` has; `None`: there is no such key.
            #[must_use = "the text may be wrong"]
            pub fn set(&mut self, key: &str, text: &str) -> Option<Result<(), String>> {
                match key {
                    $(stringify!($name) => Some(<$type as $crate::Setting>::read(text).and_then(|value| {
                        $(if let Some(reason) = $crate::beyond(&value, &$range) {
                            return Err(reason);
                        })?
                        self.$name = Some(value);
                        Ok(())
                    })),)*
                    _ => None,
                }
            }

            /// The stated settings, in the form that [`Self::set`] reads.
            #[must_use]
            pub fn stated(&self) -> Vec<(&'static str, String)> {
                let all = [$((stringify!($name), self.$name.as_ref().map($crate::Setting::show)),)*];
                all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
            }
        }
    };
}

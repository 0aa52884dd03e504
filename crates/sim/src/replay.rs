//! The current place of the simulation: a panic prints it for a replay.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

/// A crash state: of which seed, at which point of its run, and which of the states there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The seed.
    pub seed: u64,
    /// The point, counted from 1; 0 is before the first.
    pub point: u64,
    /// The state, counted from 0.
    pub state: u64,
}

/// Shows as `--only` reads it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.seed, self.point, self.state)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let numbers: Result<Vec<u64>, _> = text.split(':').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[seed, point, state]) => Ok(Place { seed, point, state }),
            _ => Err(format!("`{text}` is no place: write seed:point:state, such as 7:3:120")),
        }
    }
}

thread_local! {
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// This thread goes to `place`.
pub fn enter(place: Place) {
    PLACE.set(Some(place));
}

/// Where this thread is.
#[must_use]
pub fn current() -> Option<Place> {
    PLACE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_shown() {
        let place = Place { seed: 7, point: 3, state: 120 };
        assert_eq!(place.to_string().parse(), Ok(place));
        for text in ["", "7", "7:3", "7:3:x", "7:3:1:2"] {
            let error = text.parse::<Place>().unwrap_err();
            assert!(error.contains("seed:point:state"), "{text}: {error}");
        }
    }
}

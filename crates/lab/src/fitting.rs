//! How large a drive must be, said where one is too small.

use thermocline_types::Bytes;

use crate::{Error, Settings};

/// Capacities up to which one is looked for.
const MOST: Bytes = Bytes::gib(256);
/// How close the capacity told is to the smallest that works, in parts of itself. Chosen: such sizes are short to
/// write.
const PARTS: u64 = 8;

/// What `make` makes as `settings` say. Where a drive is too small for that, the error says how large it must be: a
/// multiple of `step`.
///
/// # Errors
/// Those of `make`.
pub(crate) fn made<T>(
    settings: &Settings,
    step: Bytes,
    make: impl Fn(&Settings) -> Result<T, Error>,
) -> Result<T, Error> {
    let error = match make(settings) {
        Ok(made) => return Ok(made),
        Err(error) => error,
    };
    let (is_fast, or) = match &error {
        Error::TooSmall { fast, or, .. } => (*fast, *or),
        Error::Profile(wrong) if wrong.key() == "capacity" => (false, ""),
        Error::Profile(wrong) if wrong.key() == "op" => (false, "a larger device.op"),
        _ => return Err(error),
    };
    let asked = if is_fast { settings.fast_capacity } else { settings.capacity };
    let name = match (settings.of_pool, is_fast) {
        (false, true) => "a `fast_capacity`",
        (false, false) => "a `capacity`",
        (true, true) => "a pool with a fast device",
        (true, false) => "a pool with a device for capacity",
    };
    let least = least(step, |size| {
        let settings = match is_fast {
            true => Settings { fast_capacity: Some(size), ..*settings },
            false => Settings { capacity: Some(size), ..*settings },
        };
        make(&settings).is_ok()
    });
    // Size is not the problem if a smaller drive works or if no size works.
    let larger = least
        .filter(|least| asked.is_none_or(|asked| asked < *least))
        .map(|least| format!("{name} of {} or more", exact(least)));
    let other = Some(or.to_owned()).filter(|or| !or.is_empty());
    let remedies: Vec<String> = larger.into_iter().chain(other).collect();
    if remedies.is_empty() {
        return Err(error);
    }
    let reason = format!("{error}; give {}", remedies.join(", or "));
    Err(Error::TooSmall { reason, fast: is_fast, or })
}

/// The smallest size that `works`, to an eighth of itself at most too large: a multiple of `step`.
fn least(step: Bytes, works: impl Fn(Bytes) -> bool) -> Option<Bytes> {
    let mut high = step;
    while !works(high) {
        high = Bytes(high.0 * 2);
        if high > MOST {
            return None;
        }
    }
    let mut low = if high > step { high.0 / 2 } else { 0 };
    let part = (high.0 / (2 * PARTS) / step.0).max(1) * step.0;
    while high.0 - low > part {
        let middle = Bytes((low + high.0) / 2 / part * part);
        if works(middle) { high = middle } else { low = middle.0 }
    }
    Some(high)
}

/// A size in the largest unit of which it is a multiple, as it can be given.
fn exact(size: Bytes) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| size.0.is_multiple_of(1 << shift));
    unit.map_or_else(|| size.0.to_string(), |(name, shift)| format!("{}{name}", size.0 >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_told_works_and_is_little_larger_than_the_smallest() {
        for smallest in [1, 4096, 5000, 65_536, 70_000, 1 << 20, 1_500_000, 40_000_000_000] {
            let found = least(Bytes::kib(4), |size| size.0 >= smallest).unwrap();
            assert!(found.0 >= smallest && found.0.is_multiple_of(4096), "{smallest}: {found}");
            assert!(found.0 < smallest + (smallest / 8).max(4096), "{smallest}: {found}");
            assert_eq!(exact(found).parse::<Bytes>().unwrap(), found);
        }
        assert_eq!(least(Bytes::kib(4), |_| false), None);
    }
}

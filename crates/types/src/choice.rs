//! Names and paths as users write them: misspelt names, and `~` for the folder of the user.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Similarity from which a name is proposed. Chosen: `p5361` is this near to `p5316`, and `zns` to no drive.
const NEAR: f64 = 0.6;

/// The name that `given` most likely misspells, if one is near. Parameters after a colon do not count.
#[must_use]
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name_of = |text: &'a str| text.split([':', ' ']).next().unwrap_or_default();
    let given = given.split(':').next().unwrap_or_default().to_lowercase();
    let likeness = |name: &'a str| (strsim::normalized_damerau_levenshtein(&given, name), name);
    let best = names.into_iter().map(name_of).map(likeness).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness >= NEAR).map(|(_, name)| name)
}

/// The end of an error about the unknown name `given`: all `names`, then the nearest, if one is near.
#[must_use]
pub fn choices(given: &str, names: impl IntoIterator<Item: Display>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let meant = nearest(given, names.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    format!("there are {}{meant}", names.join(", "))
}

/// `path`, with a first component `~` replaced by the folder `home` of the user. Shells replace it only at the start
/// of a word.
#[must_use]
pub fn at_home(path: &Path, home: Option<OsString>) -> PathBuf {
    let below = path.strip_prefix("~").ok().zip(home);
    below.map_or_else(|| path.to_owned(), |(below, home)| Path::new(&home).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest_one() {
        let near = [("p5361", Some("p5316")), ("PM9D3", Some("pm9d3")), ("zns", None), ("", None)];
        for (given, meant) in near {
            assert_eq!(nearest(given, ["p5316", "p5800x", "pm9d3"]), meant, "{given}");
        }
        assert_eq!(nearest("zipff:0.9", ["uniform", "zipf:THETA"]), Some("zipf"));
        assert_eq!(choices("rwa", ["raw", "tag"]), "there are raw, tag; did you mean `raw`?");
        let home = |path: &str| at_home(path.as_ref(), Some("/users/ada".into()));
        assert_eq!(home("~/x.toml"), Path::new("/users/ada/x.toml"));
        assert_eq!(home("a/~/x"), Path::new("a/~/x"));
        assert_eq!(choices("other", ["raw", "tag"]), "there are raw, tag");
    }
}

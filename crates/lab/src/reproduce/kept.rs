//! Results of experiments, kept for later repetitions. Each result has one file.
//!
//! Invariants:
//! * A result is used only if its key matches: experiment, options, traces and program.
//! * A changed or damaged file is never used.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thermocline_record::plot::Plot;

use super::point::Reference;
use super::{Experiment, Figure, FiguresDrawn, Options};
use crate::Error;
use crate::spec::{hash, hash_of};

/// The schema, in the first line of each file.
const SCHEMA: &str = "thermocline.kept/1";

/// A folder of kept results.
pub struct KeptResults {
    folder: PathBuf,
    /// Hash of the program: another build may give different figures.
    program: String,
}

/// The file of a result.
pub struct Place {
    /// Path of the file. The file may be missing.
    pub path: PathBuf,
    key: String,
}

#[derive(Serialize, Deserialize)]
struct Results {
    figures: Vec<Row>,
    plots: Vec<Plot>,
}

/// A figure with the source of its published value.
#[derive(Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    figure: Figure,
    reference: Option<Reference>,
}

impl KeptResults {
    /// The results of `program` (its hash) in `folder`.
    #[must_use]
    pub fn new(folder: PathBuf, program: String) -> KeptResults {
        KeptResults { folder, program }
    }

    /// The place of the result of `experiment` under `options`.
    ///
    /// # Errors
    /// [`Error::Read`] for a trace.
    pub fn place(&self, experiment: &Experiment, options: &Options) -> Result<Place, Error> {
        let Options { seed, quick, points, .. } = options;
        let (program, text) = (&self.program, experiment.text());
        let mut key =
            format!("{SCHEMA} {program} seed={seed} quick={quick} points={points}\n{text}");
        for path in experiment.traces(options) {
            key += &format!("\n{}", hash_of(&path.to_string_lossy())?);
        }
        let key = hash(key.as_bytes());
        let path = self.folder.join(format!("{}-{}.toml", experiment.name, &key[..16]));
        Ok(Place { path, key })
    }
}

impl Place {
    /// Reads the kept result; `None` without a file.
    ///
    /// # Errors
    /// The reason why the file cannot be used.
    pub fn read(&self) -> Result<Option<FiguresDrawn>, String> {
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| error.to_string())?,
        };
        let (head, body) = text.split_once('\n').unwrap_or_default();
        if !head.starts_with(&self.head()) {
            return Err("the file is of something else".to_owned());
        }
        if head != format!("{} {}", self.head(), hash(body.as_bytes())) {
            return Err("the file was changed or is damaged".to_owned());
        }
        let Results { figures, plots } = toml::from_str(body).map_err(|error| error.to_string())?;
        let whole = |Row { figure, reference }| Figure { reference, ..figure };
        Ok(Some((figures.into_iter().map(whole).collect(), plots)))
    }

    /// Writes the result to the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, (figures, plots): &FiguresDrawn) -> io::Result<()> {
        let row = |figure: &Figure| Row { figure: figure.clone(), reference: figure.reference };
        let results = Results { figures: figures.iter().map(row).collect(), plots: plots.clone() };
        let body = toml::to_string(&results).map_err(io::Error::other)?;
        let text = format!("{} {}\n{body}", self.head(), hash(body.as_bytes()));
        let folder = self.path.parent().unwrap_or(&self.path);
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.persist(&self.path)?;
        Ok(())
    }

    fn head(&self) -> String {
        format!("# {SCHEMA} {}", self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::point::{CHOI, Standing};

    fn result() -> FiguresDrawn {
        let knob = Standing::Knob { what: "half", ours: 0.1 + 0.2 };
        let reference = Reference::new(CHOI, "times as long", "times").standing(knob);
        let figures =
            vec![Figure::new("a", 1.0 / 3.0, 2.0 / 3.0, reference), Figure::ours("b", 7.0)];
        let plot = Plot { title: "c".to_owned(), ..Plot::default() };
        (figures, vec![plot])
    }

    fn options(seed: u64) -> Options {
        Options { seed, traces: None, quick: true, points: false }
    }

    #[test]
    fn a_result_comes_back_as_it_was_under_its_own_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |program: &str| KeptResults::new(folder.path().join("kept"), program.to_owned());
        let place = |program, name, seed| {
            kept(program).place(Experiment::find(name).unwrap(), &options(seed)).unwrap()
        };
        let own = place("one", "csal", 1);
        assert_eq!(own.read(), Ok(None));
        own.write(&result()).unwrap();
        assert_eq!(own.read(), Ok(Some(result())));
        for other in [place("two", "csal", 1), place("one", "csal", 2), place("one", "refresh", 1)]
        {
            assert_eq!(other.read(), Ok(None));
            std::fs::copy(&own.path, &other.path).unwrap();
            assert!(other.read().unwrap_err().contains("something else"));
        }
    }

    #[test]
    fn a_damaged_file_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptResults::new(folder.path().to_owned(), "one".to_owned());
        let place = kept.place(Experiment::find("csal").unwrap(), &options(1)).unwrap();
        place.write(&result()).unwrap();
        let whole = std::fs::read_to_string(&place.path).unwrap();
        for text in
            [whole.replace("7.0", "8.0"), whole[..whole.len() / 2].to_owned(), String::new()]
        {
            std::fs::write(&place.path, text).unwrap();
            assert!(place.read().is_err());
        }
    }
}

//! Records of a sweep: from the cache, or from a run that the cache keeps.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use thermocline_lab::spec::{Planned, hash};
use thermocline_record::{RunRecord, RunSpec};

use crate::file;
use crate::interrupt::Interrupt;
use crate::lab::args::of_arguments;
use crate::lab::run::run_planned;

/// A folder of run records, by specification and program.
pub struct RunCache {
    folder: PathBuf,
    /// SHA-256 of this program: another program may give other figures.
    program: String,
}

impl RunCache {
    /// Opens the cache in `folder`; makes a missing folder.
    ///
    /// # Errors
    /// When the folder cannot be made, or this program cannot be read.
    pub fn open(folder: &Path) -> anyhow::Result<RunCache> {
        let shown = folder.display();
        std::fs::create_dir_all(folder).with_context(|| {
            format!("cannot make the folder {shown}; name another with --cache")
        })?;
        let program = std::env::current_exe().and_then(std::fs::read);
        let program = hash(&program.context("cannot read this program")?);
        Ok(RunCache { folder: folder.to_owned(), program })
    }

    /// The hash that names the record of `spec`.
    pub fn key(&self, spec: &RunSpec) -> String {
        hash(format!("{}{}", self.program, spec.to_json()).as_bytes())
    }

    /// The file of that record.
    pub fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    /// The record of `spec`, if a complete record exists.
    pub fn find(&self, spec: &RunSpec) -> Option<RunRecord> {
        let text = std::fs::read_to_string(self.path(&self.key(spec))).ok()?;
        let record = RunRecord::from_json(&text).ok()?;
        (record.spec.as_deref() == Some(spec)).then_some(record)
    }

    /// Runs `spec` and keeps the record. Returns `None` after an interrupt.
    ///
    /// # Errors
    /// When `spec` cannot be run, or the record cannot be written.
    pub fn make(
        &self,
        spec: &RunSpec,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(f64),
    ) -> anyhow::Result<Option<RunRecord>> {
        let Some(record) =
            run_planned(&Planned::of(spec).map_err(of_arguments)?, interrupt, progress)?
        else {
            return Ok(None);
        };
        if record.interrupted.is_some() {
            return Ok(None);
        }
        let record = RunRecord { spec: Some(Box::new(spec.clone())), ..record };
        file::write(&self.path(&self.key(spec)), &record.to_json())?;
        Ok(Some(record))
    }
}

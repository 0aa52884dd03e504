//! The repository: its files and its crates.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A rule that a file breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// File, from the root of the repository.
    pub path: String,
    /// Line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// The fault, and the correct form.
    pub message: String,
}

impl Violation {
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Violation { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// A file of the repository.
#[derive(Clone, Debug)]
pub struct File {
    /// From the root of the repository, with forward slashes.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Contents, unless the file is no UTF-8 text.
    pub text: Option<String>,
}

impl File {
    /// Whether it is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The manifest of a crate.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// From the root of the repository.
    pub path: String,
    /// Contents.
    pub table: toml::Table,
}

impl Manifest {
    /// The name of the crate's folder: `ftl` for `thermocline-ftl`.
    pub fn short_name(&self) -> &str {
        self.path.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or(&self.path)
    }

    /// The name of the package.
    pub fn package_name(&self) -> &str {
        self.table.get("package").and_then(|package| package.get("name")?.as_str()).unwrap_or("")
    }
}

/// Folders that tools make.
const BUILT: [&str; 3] = [".git", "target", "node_modules"];

/// The part of `path`, from the root of the repository, that is a folder made by tools. A crate may have such a name.
pub fn built_folder(path: &str) -> Option<&str> {
    let path = path.strip_prefix("crates/target/").unwrap_or(path);
    path.split('/').find(|part| BUILT.contains(part))
}

/// Collects the files under `folder` of `root`.
fn walk(root: &Path, folder: &str, out: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            if built_folder(&format!("{path}/")).is_none() {
                walk(root, &path, out)?;
            }
        } else {
            out.push(path);
        }
    }
    Ok(())
}

/// The checkout this program works on.
#[derive(Clone, Debug)]
pub struct Repo {
    root: PathBuf,
}

impl Repo {
    /// Finds the repository: the folder above this package. Cargo says at run time where that is; built copies may be
    /// shared between checkouts.
    ///
    /// # Errors
    /// When there is no workspace.
    pub fn open() -> Result<Repo> {
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.parent().context("xtask lies in the root of the repository")?;
        if !root.join("Cargo.toml").is_file() {
            bail!("{} is no workspace; run this as `cargo xtask`", root.display());
        }
        Ok(Repo { root: root.to_path_buf() })
    }

    /// The folder that holds everything.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every file that is tracked, or new and not ignored, in order of path. Where Git does not answer (no clone, or
    /// somebody else's), every file outside folders that [tools make](built_folder).
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn files(&self) -> Result<Vec<File>> {
        let mut paths = match self.listed_by_git() {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(&self.root, "", &mut paths)?;
                paths
            }
        };
        paths.retain(|path| self.root.join(path).is_file());
        paths.sort_unstable();
        paths.dedup();
        paths.iter().map(|path| self.read(path)).collect()
    }

    fn listed_by_git(&self) -> Option<Vec<String>> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .output()
            .ok()?;
        let listing = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }

    /// The hash of the commit that is checked out, where Git knows it.
    pub fn commit(&self) -> Option<String> {
        let output = Command::new("git")
            .args(["rev-parse", "HEAD"])
            .current_dir(&self.root)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    }

    fn read(&self, path: &str) -> Result<File> {
        let bytes = fs::read(self.root.join(path)).with_context(|| path.to_owned())?;
        let size = bytes.len() as u64;
        Ok(File { path: path.to_owned(), size, text: String::from_utf8(bytes).ok() })
    }

    /// The manifests of all crates, in order of path.
    ///
    /// # Errors
    /// When one cannot be read or is no TOML.
    pub fn manifests(&self) -> Result<Vec<Manifest>> {
        let mut paths = vec!["xtask/Cargo.toml".to_owned()];
        for entry in fs::read_dir(self.root.join("crates")).context("crates")? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let path = format!("crates/{name}/Cargo.toml");
            if self.root.join(&path).is_file() {
                paths.push(path);
            }
        }
        paths.sort_unstable();
        paths
            .into_iter()
            .map(|path| {
                let text = fs::read_to_string(self.root.join(&path)).context(path.clone())?;
                let table = text.parse().with_context(|| path.clone())?;
                Ok(Manifest { path, table })
            })
            .collect()
    }
}

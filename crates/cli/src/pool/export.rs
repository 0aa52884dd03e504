//! `thermocline volume export`.

mod source;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use thermocline_format::VolumeId;
use thermocline_runtime::Settings;
use thermocline_serve::{Serving, fetch, status_socket};
use thermocline_types::Bytes;

use self::source::{Original, Piece};
use super::open::on_trial;
use super::print;
use super::volume::Listed;
use crate::file;
use crate::progress::Progress;

/// Text below the help.
pub fn help() -> String {
    format!(
        "\
A full export makes FILE, a raw image as large as the volume. Space that the volume does not use stays a hole. FILE must
not exist. FILE.export beside it names the snapshot that FILE holds.

With --since, FILE holds the export of snapshot OLDER of the same volume. Only the changes since OLDER are copied; FILE
then holds the newer snapshot. FILE.export must name OLDER. After an interruption, repeat the command.

Export a snapshot, not the volume: clients may write to the volume during the copy.

Examples:
  thermocline volume snapshot pool.toml main friday
  thermocline volume export pool.toml main@friday main.img
  thermocline volume snapshot pool.toml main saturday
  thermocline volume export pool.toml main@saturday main.img --since friday
  thermocline volume delete pool.toml main@friday --yes-destroy main@friday

{}",
        super::CODES
    )
}

/// Arguments of `volume export`.
#[derive(Args)]
pub struct ExportArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Name of the snapshot or the volume
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    name: String,
    /// The image
    file: PathBuf,
    /// Copy only changes since this snapshot, into FILE, which holds the export of this snapshot
    #[arg(long, value_name = "OLDER")]
    since: Option<String>,
    /// Print JSON, schema thermocline.exported/1
    #[arg(long)]
    json: bool,
}

/// The snapshot that an image holds, in FILE.export.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Held {
    schema: String,
    /// Identifier of the pool.
    pool: String,
    /// Identifier of the snapshot in the pool.
    id: u32,
    /// `VOLUME@SNAPSHOT` at the time of the export.
    name: String,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    name: &'a str,
    file: &'a Path,
    since: Option<&'a str>,
    size_bytes: u64,
    copied_bytes: u64,
    zeroed_bytes: u64,
}

/// The volume to export.
struct Wanted {
    pool: String,
    of: Listed,
    /// The older snapshot, and its name without that of the volume.
    since: Option<(Listed, String)>,
}

/// `thermocline volume export`.
pub fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let (wanted, mut source) = open(&settings, args)?;
    let size = wanted.of.size_bytes;
    let held = Held {
        schema: "thermocline.export/1".to_owned(),
        pool: wanted.pool.clone(),
        id: wanted.of.id,
        name: wanted.of.name.clone(),
    };
    let (copied, zeroed) = match &wanted.since {
        Some((since, _)) => {
            let image = base(&args.file, &wanted.pool, since, size)?;
            let done = fill(&mut source, &image, size, &wanted.of.name)?;
            image.set_len(size)?;
            image.sync_all().with_context(|| cannot(&args.file))?;
            done
        }
        None => whole(&mut source, &args.file, &wanted)?,
    };
    let text = serde_json::to_string_pretty(&held)? + "\n";
    file::write(&beside(&args.file), &text)?;
    let since = wanted.since.as_ref().map(|(since, _)| since.name.as_str());
    if args.json {
        let (schema, name, file) = ("thermocline.exported/1", &held.name, &args.file);
        let (copied_bytes, zeroed_bytes, size_bytes) = (copied, zeroed, size);
        let report = Report { schema, name, file, since, size_bytes, copied_bytes, zeroed_bytes };
        return print(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    }
    let [copied, zeroed, size] = [copied, zeroed, size].map(Bytes);
    let (name, file) = (&held.name, args.file.display());
    print(&match since {
        Some(since) => format!(
            "{file} holds `{name}`: {copied} copied and {zeroed} zeroed of {size}, changed since `{since}`\n"
        ),
        None => format!("{file} holds `{name}`: {copied} copied of {size}\n"),
    })
}

/// Finds the volume and the older snapshot, and opens what they are read from.
fn open(settings: &Settings, args: &ExportArgs) -> anyhow::Result<(Wanted, Original)> {
    if Serving::of(&args.settings).is_some() {
        let mut status = fetch(&status_socket(&args.settings))?;
        let volumes: Vec<Listed> = serde_json::from_value(status["volumes"].take())
            .context("the server lists no volumes")?;
        let pool = status["pool"].as_str().unwrap_or_default().to_owned();
        let wanted = wanted(pool, volumes, args)?;
        let since = wanted.since.as_ref().map(|(_, own)| own.as_str());
        let source = Original::connect(&status, &args.name, since)?;
        return Ok((wanted, source));
    }
    let mut pool = Box::new(on_trial(settings)?);
    // Blocks whose map page is not in memory would count as changed.
    pool.driver.load_map();
    let volumes = pool.driver.engine().volumes().iter().map(Listed::new).collect();
    let wanted = wanted(pool.driver.engine().pool_id().to_string(), volumes, args)?;
    let volume = VolumeId(wanted.of.id);
    let since = wanted.since.as_ref().map(|(since, _)| VolumeId(since.id));
    Ok((wanted, Original::Here { pool, volume, since }))
}

fn wanted(pool: String, volumes: Vec<Listed>, args: &ExportArgs) -> anyhow::Result<Wanted> {
    let names: Vec<String> = volumes.iter().map(|one| format!("`{}`", one.name)).collect();
    let mut found: Vec<Option<Listed>> = volumes.into_iter().map(Some).collect();
    let mut take = |name: &str| {
        let has = |one: &&mut Option<Listed>| one.as_ref().is_some_and(|one| one.name == name);
        found.iter_mut().find(has).and_then(Option::take)
    };
    let of = take(&args.name);
    let of = of.with_context(|| {
        format!("there is no volume or snapshot `{}`; there are {}", args.name, names.join(", "))
    })?;
    let Some(since) = &args.since else { return Ok(Wanted { pool, of, since: None }) };
    // Names of volumes and of snapshots may have an `@` each.
    let cuts = args.name.match_indices('@').map(|(at, _)| (&args.name[..at], false));
    for (volume, is_top) in std::iter::once((args.name.as_str(), true)).chain(cuts) {
        let rest = since.strip_prefix(volume).and_then(|rest| rest.strip_prefix('@'));
        let own = rest.unwrap_or(since);
        // Identifiers rise with time.
        let older = take(&format!("{volume}@{own}")).filter(|older| is_top || older.id < of.id);
        if let Some(older) = older {
            return Ok(Wanted { pool, of, since: Some((older, own.to_owned())) });
        }
    }
    bail!(
        "`{}` has no older snapshot `{since}`: without --since, everything is exported into a new file",
        args.name
    )
}

/// Makes the image, which appears when it is complete. Returns the bytes copied and zeroed.
fn whole(source: &mut Original, path: &Path, wanted: &Wanted) -> anyhow::Result<(u64, u64)> {
    ensure!(
        !path.exists(),
        "{} exists: name a new file, or copy the changes into this one with --since OLDER",
        path.display()
    );
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut new = tempfile::Builder::new();
    let new = new.prefix(".thermocline-");
    let new = new.tempfile_in(folder.unwrap_or(Path::new("."))).with_context(|| cannot(path))?;
    new.as_file().set_len(wanted.of.size_bytes).with_context(|| cannot(path))?;
    let done = fill(source, new.as_file(), wanted.of.size_bytes, &wanted.of.name)?;
    new.as_file().sync_all().with_context(|| cannot(path))?;
    new.persist_noclobber(path).map_err(|error| error.error).with_context(|| cannot(path))?;
    Ok(done)
}

/// Opens the image of the older snapshot.
fn base(path: &Path, pool: &str, older: &Listed, size: u64) -> anyhow::Result<File> {
    let note = beside(path);
    let again = "without --since, everything is exported into a new file";
    let text = std::fs::read_to_string(&note).with_context(|| {
        format!("{} does not tell which snapshot the image holds; {again}", note.display())
    })?;
    let held: Held = serde_json::from_str(&text)
        .with_context(|| format!("{} was not made by `volume export`; {again}", note.display()))?;
    if held.pool != pool || held.id != older.id {
        bail!(
            "{} holds `{}` of pool {}, and `{}` of pool {pool} is another snapshot; {again}",
            path.display(),
            held.name,
            held.pool,
            older.name
        );
    }
    let image = File::options().write(true).open(path).with_context(|| cannot(path))?;
    // An export that was interrupted may have changed the size already.
    let (has, needs) = (image.metadata()?.len(), older.size_bytes.min(size));
    ensure!(
        has >= needs,
        "{} has {has} bytes and `{}` {needs}: it is not the export; {again}",
        path.display(),
        older.name
    );
    Ok(image)
}

/// Brings the image to the state of the source. Returns the bytes copied and zeroed.
fn fill(source: &mut Original, image: &File, size: u64, name: &str) -> anyhow::Result<(u64, u64)> {
    let mut bar = Progress::default().aloud(name);
    let (mut at, mut copied, mut zeroed) = (0, 0, 0);
    while at < size {
        for (length, piece) in source.pieces(at, size)? {
            match piece {
                Piece::Keep => {}
                Piece::Zero => {
                    clear(image, at, length)?;
                    zeroed += length;
                }
                Piece::Copy => {
                    source.read(at, length, &mut |offset, bytes| {
                        image.write_all_at(bytes, offset).context("the image cannot be written")
                    })?;
                    copied += length;
                }
            }
            at += length;
        }
        bar.set(at as f64 / size as f64);
    }
    Ok((copied, zeroed))
}

/// Makes a hole, or writes zeros where the file system has no holes.
fn clear(image: &File, offset: u64, length: u64) -> anyhow::Result<()> {
    let end = offset + length;
    let reaches = image.metadata()?.len().min(end);
    if reaches <= offset || punch(image, offset, reaches - offset) {
        return Ok(());
    }
    let zeros = vec![0; 1 << 20];
    let mut at = offset;
    while at < reaches {
        let count = (reaches - at).min(zeros.len() as u64);
        image.write_all_at(&zeros[..count as usize], at).context("the image cannot be written")?;
        at += count;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn punch(image: &File, offset: u64, length: u64) -> bool {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(image, flags, offset, length).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn punch(_: &File, _: u64, _: u64) -> bool {
    false
}

/// The file that tells which snapshot the image at `path` holds.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".export");
    PathBuf::from(name)
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

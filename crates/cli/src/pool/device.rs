//! `thermocline device`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use serde::Serialize;
use thermocline_format::MediaClass;
use thermocline_runtime::Settings;
use thermocline_types::Bytes;

use super::open::on_trial;
use super::serve::control::Serving;
use super::serve::devices::{MirrorStatus, NewSide, refuse_to_destroy};
use super::serve::{STATUS, sockets};
use super::{CODES, print};

/// What can be done with devices.
#[derive(Subcommand)]
pub enum Command {
    /// List the devices that the settings name, and how the sides of mirrored pairs stand
    #[command(after_help = example("list pool.toml"))]
    List(ListArgs),
    /// Have a side of a mirrored pair filled, that is new or was written without the pool: at once if the pool is
    /// served, or else when it is served next. The settings name it already
    #[command(after_help = example("replace mirrored.toml b.img --yes-destroy b.img"))]
    Replace(ReplaceArgs),
    /// Believe one side of a mirrored pair whatever the other one has, which is lost or to be filled anew
    #[command(after_help = example("keep mirrored.toml a.img"))]
    Keep(KeepArgs),
}

/// The end of a help text.
fn example(arguments: &str) -> String {
    format!("Example:\n  thermocline device {arguments}\n\n{CODES}")
}

/// Arguments of `device list`.
#[derive(Args)]
pub struct ListArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Print JSON, schema thermocline.devices/1
    #[arg(long)]
    json: bool,
}

/// Arguments of `device replace`.
#[derive(Args)]
pub struct ReplaceArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// The side to be filled, as the settings name it
    path: PathBuf,
    /// Say the path once more if something is there: it will be gone
    #[arg(long, value_name = "PATH")]
    yes_destroy: Option<String>,
}

/// Arguments of `device keep`.
#[derive(Args)]
pub struct KeepArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// The side to be believed, as the settings name it
    path: PathBuf,
    /// Also if it is known to lack something that was flushed
    #[arg(long)]
    despite_loss: bool,
}

/// `thermocline device`.
pub fn device(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List(args) => list(args),
        Command::Replace(args) => replace(args),
        Command::Keep(args) => keep(args),
    }
}

/// A device of the settings.
#[derive(Serialize)]
struct ListedDevice {
    path: String,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<String>,
    /// Of a side: current, filling or out.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Serialize)]
struct Listing {
    schema: &'static str,
    devices: Vec<ListedDevice>,
    mirrors: Vec<MirrorStatus>,
}

fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let socket = sockets::beside(&args.settings, STATUS);
    let mirrors: Vec<MirrorStatus> = if Serving::at(&socket).is_some() {
        let mut status = super::stat::fetch(&socket)?;
        let mirrors = status.get_mut("mirrors").map(serde_json::Value::take);
        mirrors.map_or(Ok(Vec::new()), serde_json::from_value).context("no list of mirrors")?
    } else {
        let pool = on_trial(&settings)?;
        pool.pairs.iter().map(|(_, pair)| MirrorStatus::new(&pair.status())).collect()
    };
    let listed = |device: &thermocline_runtime::DeviceSettings| {
        let path = device.path.display().to_string();
        let sides = mirrors.iter().flat_map(|mirror| &mirror.sides);
        let side = sides.into_iter().find(|side| side.path == path);
        ListedDevice {
            class: match device.class {
                MediaClass::Capacity => "capacity",
                MediaClass::Fast => "fast",
            },
            mirror: device.mirror.clone(),
            state: side.map(|side| side.state.clone()),
            why: side.and_then(|side| side.why.clone()),
            path,
        }
    };
    let devices: Vec<ListedDevice> = settings.devices.iter().map(listed).collect();
    if args.json {
        let listing = Listing { schema: "thermocline.devices/1", devices, mirrors };
        return print(&format!("{}\n", serde_json::to_string_pretty(&listing)?));
    }
    let mut table = crate::table::plain();
    table.set_header(["path", "class", "mirror", "state"]);
    for ListedDevice { path, class, mirror, state, why } in devices {
        let state = state.map_or(String::new(), |state| match why {
            Some(why) => format!("{state}: {why}"),
            None => state,
        });
        table.add_row([path, class.to_owned(), mirror.unwrap_or_default(), state]);
    }
    let lacking = mirrors.iter().filter(|mirror| mirror.lacking_bytes > 0).map(|mirror| {
        format!("mirror `{}`: {} to be copied\n", mirror.name, Bytes(mirror.lacking_bytes))
    });
    print(&format!("{table}\n{}", lacking.collect::<String>()))
}

/// The path of a device as the settings have it.
fn named(settings: &Settings, path: &Path) -> anyhow::Result<PathBuf> {
    settings.named(path).ok_or_else(|| {
        anyhow!(
            "{} is no device of {}: set it as the path of a side of the mirror first",
            path.display(),
            settings.file().display()
        )
    })
}

fn replace(args: &ReplaceArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let path = named(&settings, &args.path)?;
    let side = NewSide { path: path.clone(), yes_destroy: args.yes_destroy.clone() };
    if let Some(server) = Serving::at(&sockets::beside(&args.settings, STATUS)) {
        server.join(&side)?;
        return print(&format!("{} is being filled\n", path.display()));
    }
    refuse_to_destroy(&settings, &side)?;
    settings.replace_side(&path)?;
    print(&format!("{} is filled when the pool is served next\n", path.display()))
}

fn keep(args: &KeepArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let path = named(&settings, &args.path)?;
    settings.keep_side(&path, args.despite_loss)?;
    print(&format!(
        "{} is believed from now on; the other side is filled from it\n",
        path.display()
    ))
}

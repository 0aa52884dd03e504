//! `thermocline volume`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use serde::Serialize;
use thermocline_engine::{HostRequest, VolumeInfo};
use thermocline_format::VolumeName;
use thermocline_runtime::Settings;
use thermocline_types::Bytes;

use super::open::{is_in_use, on_trial, to_write};
use super::serve::control::ask_for_volume;
use super::serve::{STATUS, sockets};
use super::{CODES, print};

/// What can be done with volumes.
#[derive(Subcommand)]
pub enum Command {
    /// Create a volume; its space is taken as it is written. A pool that is served serves it at once
    #[command(after_help = CODES)]
    Create(SizedArgs),
    /// List the volumes
    #[command(after_help = CODES)]
    List(ListArgs),
    /// Change the size of a volume; what is beyond a smaller size is gone
    #[command(after_help = CODES)]
    Resize(SizedArgs),
    /// Delete a volume and all that is in it
    #[command(after_help = CODES)]
    Delete(DeleteArgs),
}

/// A volume and a size.
#[derive(Args)]
pub struct SizedArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Name of the volume
    name: String,
    /// Its size, a multiple of 4 KiB
    size: Bytes,
}

/// Arguments of `volume list`.
#[derive(Args)]
pub struct ListArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Print JSON, schema thermocline.volumes/1
    #[arg(long)]
    json: bool,
}

/// Arguments of `volume delete`.
#[derive(Args)]
pub struct DeleteArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Name of the volume
    name: String,
    /// Say the name once more: everything in the volume will be gone
    #[arg(long, value_name = "NAME")]
    yes_destroy: String,
}

/// A volume as JSON.
#[derive(Serialize)]
pub struct Listed {
    id: u32,
    name: String,
    size_bytes: u64,
}

#[derive(Serialize)]
struct Listing {
    schema: &'static str,
    volumes: Vec<Listed>,
}

impl Listed {
    /// The volume that `info` describes.
    pub fn new(info: &VolumeInfo) -> Listed {
        Listed { id: info.id.0, name: info.name.to_string(), size_bytes: info.blocks * 4096 }
    }
}

/// `thermocline volume`.
pub fn volume(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Create(args) => {
            let name = VolumeName::new(&args.name).filter(|name| !name.as_str().is_empty());
            let name = name.context("a name has 1 to 64 bytes and no control characters")?;
            let blocks = blocks(args.size)?;
            match to_write(&Settings::load(&args.settings)?, false) {
                Ok(mut pool) => {
                    pool.carry_out(HostRequest::CreateVolume { name, blocks })?;
                    pool.close()?;
                }
                Err(error) if is_in_use(&error) => {
                    let socket = sockets::beside(&args.settings, STATUS);
                    ask_for_volume(&socket, name.as_str(), args.size.0)
                        .with_context(|| format!("{error:#}"))?;
                }
                Err(error) => return Err(error),
            }
            print(&format!("volume `{}` of {}\n", args.name, args.size))
        }
        Command::Resize(args) => {
            let blocks = blocks(args.size)?;
            let mut pool = to_write(&Settings::load(&args.settings)?, false)?;
            let volume = pool.volume(Some(&args.name))?.id;
            pool.carry_out(HostRequest::ResizeVolume { volume, blocks })?;
            pool.close()?;
            print(&format!("volume `{}` has {} now\n", args.name, args.size))
        }
        Command::Delete(args) => {
            let (name, again) = (&args.name, &args.yes_destroy);
            ensure!(name == again, "--yes-destroy names `{again}`, not `{name}`");
            let mut pool = to_write(&Settings::load(&args.settings)?, false)?;
            let volume = pool.volume(Some(name))?.id;
            pool.carry_out(HostRequest::DeleteVolume { volume })?;
            pool.close()?;
            print(&format!("volume `{name}` is gone\n"))
        }
        Command::List(args) => list(args),
    }
}

fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let pool = on_trial(&Settings::load(&args.settings)?)?;
    let volumes = pool.driver.engine().volumes();
    if args.json {
        let volumes = volumes.iter().map(Listed::new).collect();
        let listing = Listing { schema: "thermocline.volumes/1", volumes };
        return print(&format!("{}\n", serde_json::to_string_pretty(&listing)?));
    }
    let mut table = crate::table::plain();
    table.set_header(["id", "name", "size"]);
    for info in &volumes {
        let size = Bytes(info.blocks * 4096).to_string();
        table.add_row([info.id.0.to_string(), info.name.to_string(), size]);
    }
    print(&format!("{table}\n"))
}

fn blocks(size: Bytes) -> anyhow::Result<u64> {
    let whole = size.0 > 0 && size.0.is_multiple_of(4096);
    ensure!(whole, "a volume has a multiple of 4 KiB, and not 0; {size} is not");
    Ok(size.0 / 4096)
}

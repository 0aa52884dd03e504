//! `thermocline volume`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{ArgGroup, Args, Subcommand};
use serde::{Deserialize, Serialize};
use thermocline_engine::{Extent, HostRequest, Reply, VolumeInfo};
use thermocline_format::{VolumeMedia, VolumeName};
use thermocline_runtime::{AnyStorage, Settings};
use thermocline_serve::{Error, LimitChange, Serving, Subject, fetch, lost, status_socket};
use thermocline_target::EXTENTS_MAX;
use thermocline_types::Bytes;

use super::device::Room;
use super::open::{Advised as _, Opened, on_trial, to_write};
use super::{CODES, ListArgs, print};
use super::{export, give_up};

/// What can be done with volumes.
#[derive(Subcommand)]
pub enum Command {
    /// Create a volume; writes allocate its space. A served pool serves the volume at once
    #[command(after_help = example("create pool.toml backup 16MiB"))]
    Create(CreateArgs),
    /// Keep what a volume has now as a read-only volume `VOLUME@NAME`, be its pool served or not; `volume delete`
    /// removes it. A volume shares all blocks with its snapshots that it has not written since
    #[command(after_help = example("snapshot pool.toml main monday"))]
    Snapshot(SnapshotArgs),
    /// Make a volume that begins as a snapshot `VOLUME@NAME`, and shares its blocks until they are written; be its pool
    /// served or not
    #[command(after_help = example("clone pool.toml main@monday trial"))]
    Clone(CloneArgs),
    /// Copy a snapshot to a raw image, or the changes since an older snapshot, be its pool served or not
    #[command(after_help = export::help())]
    Export(export::ExportArgs),
    /// List the volumes and their snapshots
    #[command(after_help = example("list pool.toml"))]
    List(ListArgs),
    /// Change the size of a volume, be its pool served or not; what is beyond a smaller size is gone, if that is wanted
    #[command(after_help = example("resize pool.toml backup 32MiB"))]
    Resize(ResizeArgs),
    /// Give a volume another name, be its pool served or not. Connected clients keep the volume; new clients use the
    /// new name
    #[command(after_help = example("rename pool.toml backup archive\n  thermocline volume rename pool.toml archive backup"))]
    Rename(RenameArgs),
    /// Set the device class of a volume in a pool with fast devices: auto (on fast devices until destage), fast (on
    /// fast devices while room is left) or capacity. What is there already goes elsewhere when it is
    /// written or destaged next
    #[command(after_help = example("media pool.toml backup auto"))]
    Media(MediaArgs),
    /// Limit what a volume of a served pool does beside others: its share when several want more than there is,
    /// requests and bytes per second; and keep room for it. Until the service ends; the settings state limits for
    /// good, in `[[volumes]]`
    #[command(after_help = example("limit pool.toml main --iops 500 --bandwidth 50MiB"))]
    Limit(LimitArgs),
    /// Give up blocks of a volume that cannot be read, so that their units come free; with the pool stopped
    #[command(after_help = give_up::help())]
    GiveUp(give_up::GiveUpArgs),
    /// Delete a volume and all that is in it, or a snapshot, be its pool served or not
    #[command(after_help = example("delete pool.toml backup --yes-destroy backup"))]
    Delete(DeleteArgs),
}

/// The end of a help text.
pub(super) fn example(arguments: &str) -> String {
    format!("Example:\n  thermocline volume {arguments}\n\n{CODES}")
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

/// Arguments of `volume create`.
#[derive(Args)]
pub struct CreateArgs {
    #[command(flatten)]
    sized: SizedArgs,
    /// Keep so many bytes writable for it, such as 10GiB, until the service ends; the settings state it for good
    #[arg(long, value_name = "BYTES")]
    reserve: Option<Bytes>,
}

/// Arguments of `volume snapshot`.
#[derive(Args)]
pub struct SnapshotArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Name of the volume
    volume: String,
    /// Name of the snapshot, without the name of the volume
    name: String,
}

/// Arguments of `volume clone`.
#[derive(Args)]
pub struct CloneArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Name of the snapshot
    #[arg(value_name = "VOLUME@NAME")]
    snapshot: String,
    /// Name of the new volume
    name: String,
}

/// Arguments of `volume resize`.
#[derive(Args)]
pub struct ResizeArgs {
    #[command(flatten)]
    sized: SizedArgs,
    /// Say the name once more if there are data beyond the new size: they will be gone
    #[arg(long, value_name = "NAME")]
    yes_destroy: Option<String>,
    #[command(flatten)]
    clients: Clients,
}

/// Arguments of `volume rename`.
#[derive(Args)]
pub struct RenameArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Name of the volume
    name: String,
    /// Its new name
    new_name: String,
}

/// Arguments of `volume media`.
#[derive(Args)]
pub struct MediaArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Name of the volume
    name: String,
    /// auto, fast or capacity
    media: VolumeMedia,
}

/// Arguments of `volume limit`.
#[derive(Args)]
#[command(group = ArgGroup::new("limits").required(true).multiple(true).args(["share", "iops", "bandwidth", "reserve"]))]
pub struct LimitArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Name of the volume
    name: String,
    /// Share of the pool's throughput, relative to other volumes [default: 1]
    #[arg(long, value_name = "N")]
    share: Option<u32>,
    /// Reads, writes, trims and zeroings per second; 0 lifts the limit
    #[arg(long, value_name = "N")]
    iops: Option<u64>,
    /// Bytes read and written per second, such as 100MiB; 0 lifts the limit
    #[arg(long, value_name = "BYTES")]
    bandwidth: Option<Bytes>,
    /// Bytes that the pool keeps writable for the volume, with the bytes in use, such as 10GiB; 0 lifts the reserve
    #[arg(long, value_name = "BYTES")]
    reserve: Option<Bytes>,
}

/// What is to become of clients, when the pool is being served.
#[derive(Args)]
pub struct Clients {
    /// Also if clients of a server use what will be gone; they get errors
    #[arg(long)]
    despite_clients: bool,
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
    #[command(flatten)]
    clients: Clients,
}

/// A volume as JSON.
#[derive(Serialize, Deserialize)]
pub struct Listed {
    pub id: u32,
    pub name: String,
    pub size_bytes: u64,
    mapped_bytes: u64,
    reserve_bytes: u64,
    media: String,
    /// Identifier of the snapshot of which it is a clone, while that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clone_of: Option<u32>,
}

#[derive(Serialize)]
struct Listing {
    schema: &'static str,
    volumes: Vec<Listed>,
}

impl Listed {
    /// The volume that `info` describes.
    pub fn new(info: &VolumeInfo) -> Listed {
        Listed {
            id: info.id.0,
            name: info.name.to_string(),
            size_bytes: info.blocks * 4096,
            mapped_bytes: info.mapped * 4096,
            reserve_bytes: info.reserve * 4096,
            media: info.media.to_string(),
            clone_of: info.clone_of.map(|snapshot| snapshot.0),
        }
    }
}

/// `thermocline volume`.
pub fn volume(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Create(args) => create(args),
        Command::Snapshot(args) => snapshot(args),
        Command::Clone(args) => clone(args),
        Command::Export(args) => export::export(args),
        Command::Resize(args) => resize(args),
        Command::Rename(args) => rename(args),
        Command::Media(args) => media(args),
        Command::Limit(args) => limit(args),
        Command::GiveUp(args) => give_up::give_up(args),
        Command::Delete(args) => delete(args),
        Command::List(args) => list(args),
    }
}

fn create(args: &CreateArgs) -> anyhow::Result<ExitCode> {
    let CreateArgs { sized: SizedArgs { settings, name, size }, reserve } = args;
    let new = VolumeName::for_new(name)?;
    let blocks = blocks(*size)?;
    let room = change(
        settings,
        |server| server.create(name, size.0, reserve.map(|bytes| bytes.0)),
        |pool| {
            ensure!(reserve.is_none(), "the pool is not served, and {RESERVE_SERVED}");
            pool.ask(HostRequest::CreateVolume { name: new, blocks })
        },
    )?;
    print(&format!("volume `{name}` of {size}{}\n", promised(room)))
}

fn snapshot(args: &SnapshotArgs) -> anyhow::Result<ExitCode> {
    let SnapshotArgs { settings, volume, name } = args;
    let new = VolumeName::for_new(name)?;
    change(
        settings,
        |server| server.snapshot(volume, name),
        |pool| {
            let volume = pool.volume(Some(volume))?.id;
            pool.ask(HostRequest::SnapshotVolume { volume, name: new })
        },
    )?;
    print(&format!("`{volume}@{name}` is a snapshot of volume `{volume}`\n"))
}

fn clone(args: &CloneArgs) -> anyhow::Result<ExitCode> {
    let CloneArgs { settings, snapshot, name } = args;
    let new = VolumeName::for_new(name)?;
    let room = change(
        settings,
        |server| server.clone_volume(snapshot, name),
        |pool| {
            let snapshot = pool.volume(Some(snapshot))?.id;
            pool.ask(HostRequest::CloneVolume { snapshot, name: new })
        },
    )?;
    print(&format!("volume `{name}` begins as `{snapshot}`{}\n", promised(room)))
}

/// Advice about the place of a reserve.
const RESERVE_SERVED: &str = "a reserve on the command line lasts as long as the service: state it in [[volumes]] of the settings";

fn resize(args: &ResizeArgs) -> anyhow::Result<ExitCode> {
    let ResizeArgs { sized: SizedArgs { settings, name, size }, yes_destroy, clients } = args;
    let blocks = blocks(*size)?;
    let room = change(
        settings,
        |server| server.resize(&clients.subject(name), size.0, yes_destroy.clone()),
        |pool| {
            let VolumeInfo { id: volume, blocks: had, .. } = pool.volume(Some(name))?;
            if blocks < had {
                // Map pages that cannot be loaded count as data.
                pool.driver.load_map();
                let beyond = Extent { volume, lba: blocks, blocks: had - blocks };
                let runs = |extent| pool.driver.engine().runs(extent, EXTENTS_MAX);
                lost::agree(name, beyond, yes_destroy.as_deref(), runs)?;
            }
            pool.ask(HostRequest::ResizeVolume { volume, blocks })
        },
    )?;
    print(&format!("volume `{name}` has {size} now{}\n", promised(room)))
}

fn rename(args: &RenameArgs) -> anyhow::Result<ExitCode> {
    let RenameArgs { settings, name, new_name } = args;
    let new = VolumeName::for_new(new_name)?;
    change(
        settings,
        |server| server.rename(name, new_name),
        |pool| {
            let volume = pool.volume(Some(name))?.id;
            pool.ask(HostRequest::RenameVolume { volume, name: new })
        },
    )?;
    let stated = Settings::load(settings)?.volumes.iter().any(|volume| volume.name == *name);
    let file = settings.display();
    let hint = if stated {
        format!("; rename it in [[volumes]] of {file} as well")
    } else {
        String::new()
    };
    print(&format!("volume `{name}` is called `{new_name}` now{hint}\n"))
}

fn media(args: &MediaArgs) -> anyhow::Result<ExitCode> {
    let MediaArgs { settings, name, media } = args;
    change(
        settings,
        |server| server.set_media(name, *media),
        |pool| {
            let volume = pool.volume(Some(name))?.id;
            pool.ask(HostRequest::SetMedia { volume, media: *media })
        },
    )?;
    print(&format!("volume `{name}` is to be on {media} media from now on\n"))
}

fn limit(args: &LimitArgs) -> anyhow::Result<ExitCode> {
    Settings::load(&args.settings)?;
    let server = Serving::of(&args.settings).context(
        "the pool is not served, and limits are those of a service: state them in [[volumes]] of the settings",
    )?;
    let [bandwidth_bytes, reserve_bytes] =
        [args.bandwidth, args.reserve].map(|bytes| bytes.map(|bytes| bytes.0));
    let LimitArgs { share, iops, .. } = *args;
    server.limit(&args.name, LimitChange { share, iops, bandwidth_bytes, reserve_bytes })?;
    print(&format!("volume `{}` has other limits until the service ends\n", args.name))
}

fn delete(args: &DeleteArgs) -> anyhow::Result<ExitCode> {
    let DeleteArgs { settings, name, yes_destroy: again, clients } = args;
    ensure!(name == again, "--yes-destroy names `{again}`, not `{name}`");
    change(
        settings,
        |server| server.delete(&clients.subject(name)),
        |pool| {
            let volume = pool.volume(Some(name))?.id;
            pool.ask(HostRequest::DeleteVolume { volume })
        },
    )?;
    print(&format!("volume `{name}` is gone\n"))
}

impl Clients {
    fn subject(&self, name: &str) -> Subject {
        Subject { name: name.to_owned(), despite_clients: self.despite_clients }
    }
}

/// Changes a pool by its server, or with `here` if no server runs.
fn change(
    settings: &Path,
    ask: impl FnOnce(Serving) -> Result<(), Error>,
    here: impl FnOnce(&mut Opened<AnyStorage>) -> anyhow::Result<Reply>,
) -> anyhow::Result<Option<Room>> {
    let loaded = Settings::load(settings)?;
    if let Some(server) = Serving::of(settings) {
        ask(server)?;
        return Ok(fetch(&status_socket(settings)).ok().as_ref().and_then(Room::told));
    }
    let mut pool = to_write(&loaded, false)?;
    here(&mut pool)?;
    let room = Room::of(&pool);
    pool.close()?;
    Ok(Some(room))
}

/// A warning if the pool's volumes are larger than its capacity; empty otherwise.
fn promised(room: Option<Room>) -> String {
    let short = room.filter(Room::is_overpromised);
    short.map_or(String::new(), |room| {
        format!("; {room}; `reserve` in [[volumes]] keeps room for one of them")
    })
}

fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let volumes: Vec<Listed> = if Serving::of(&args.settings).is_some() {
        let mut status = fetch(&status_socket(&args.settings))?;
        serde_json::from_value(status["volumes"].take()).context("no list of volumes")?
    } else {
        let mut pool = on_trial(&settings)?;
        // The counts of mapped blocks are known for loaded pages only.
        pool.driver.load_map();
        let reserve = |name: &str| settings.volumes.iter().find(|one| one.name == name)?.reserve;
        let mut volumes: Vec<_> = pool.driver.engine().volumes().iter().map(Listed::new).collect();
        for one in &mut volumes {
            one.reserve_bytes = reserve(&one.name).map_or(0, |bytes| bytes.0);
        }
        volumes
    };
    if args.json {
        let listing = Listing { schema: "thermocline.volumes/1", volumes };
        return print(&format!("{}\n", serde_json::to_string_pretty(&listing)?));
    }
    let mut table = crate::table::plain();
    table.set_header(["id", "name", "size", "in use", "reserve", "media", "clone of"]);
    for Listed { id, name, size_bytes, mapped_bytes, reserve_bytes, media, clone_of } in &volumes {
        let origin = volumes.iter().find(|one| Some(one.id) == *clone_of);
        let origin = origin.map_or_else(|| "-".to_owned(), |one| one.name.clone());
        let [size, mapped] = [size_bytes, mapped_bytes].map(|bytes| Bytes(*bytes).to_string());
        let reserve = match reserve_bytes {
            0 => "-".to_owned(),
            bytes => Bytes(*bytes).to_string(),
        };
        table.add_row([id.to_string(), name.clone(), size, mapped, reserve, media.clone(), origin]);
    }
    print(&format!("{table}\n"))
}

fn blocks(size: Bytes) -> anyhow::Result<u64> {
    let whole = size.0 > 0 && size.0.is_multiple_of(4096);
    ensure!(whole, "a volume has a multiple of 4 KiB, and not 0; {} is not", size.exactly());
    Ok(size.0 / 4096)
}

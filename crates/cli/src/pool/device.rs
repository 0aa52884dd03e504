//! `thermocline device`.

mod change;
pub mod lose;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use thermocline_format::{DeviceState, MediaClass};
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{DeviceSettings, GroupKind, Settings};
use thermocline_serve::{
    DeviceRequest, DrainStatus, GroupsTold, Serving, ensure_member, fetch, refuse_to_destroy,
    status_socket,
};
use thermocline_types::{Bytes, DeviceId};

use super::advice;
use super::open::{Opened, on_trial};
use super::{CODES, ListArgs, print};

/// What can be done with devices.
#[derive(Subcommand)]
pub enum Command {
    /// List the devices that the settings name, and how members of pairs and striped groups stand
    #[command(after_help = example("list pool.toml"))]
    List(ListArgs),
    /// Make a device one of the pool's, which grows by it. The settings name it already
    #[command(after_help = example("attach grown.toml new.img"))]
    Attach(NewArgs),
    /// Use all of a device that is larger than it was, such as a disk of a virtual machine or a logical volume
    #[command(after_help = format!("\
Of a file, state a larger `size` in the settings first: it is made as long. The pool may be served meanwhile. Only the
last device of a pool grows, and only one that is no member of a pair or group; where others come behind it, or it has
zones, attach another device.

{}", example("grow larger.toml old.img")))]
    Grow(MemberArgs),
    /// Copy the data of a device to the other devices, to detach the device afterwards
    #[command(after_help = format!("\
The pool may be served meanwhile. The volumes must fit on the devices that remain. A crash or Ctrl-C loses nothing: the
work goes on whenever the pool is served, and with `drain` again. Exit code 130: Ctrl-C ended it before the device was
empty.

{}", example("drain grown.toml old.img")))]
    Drain(DrainArgs),
    /// Take a device that was drained out of the pool; then take it out of the settings as well
    #[command(after_help = example("detach grown.toml old.img"))]
    Detach(MemberArgs),
    /// Go on without a device that is broken or gone. What only it held is lost, and is listed before anything is done
    #[command(after_help = format!("\
Lists what would be lost, by volume and range, and changes nothing unless told to. After that, reading what is lost is an
error until it is written again or trimmed; it never reads as an older version. `device drain` comes first where the
device can still be read in parts: it saves what it can. A fast device that is no mirrored pair cannot be lost without the
pool, nor can pages of maps, which are on any device where none is fast.

{}", example("lose tiered.toml cap1.img --yes-destroy cap1.img")))]
    Lose(LoseArgs),
    /// Have a side of a mirrored pair, or a member of a striped group, filled that is new or was written without the
    /// pool: at once if the pool is served, or else when it is served next. The settings name it already
    #[command(after_help = format!("\
With --instead-of the new device is attached, the old one drained and detached, the pool being served or not. Both are
named in the settings, and both are in use until the old one is empty. A crash or Ctrl-C loses nothing: say it again.
The new device must be of the class of the old one, and none of the pool yet unless an earlier attempt attached it.
Exit code 130: Ctrl-C ended it before the old one was detached.

{}", example("replace mirrored.toml b.img --yes-destroy b.img")))]
    Replace(ReplaceArgs),
    /// Believe one side of a mirrored pair, or member of a striped group, whatever the others have, which are lost or
    /// to be filled anew
    #[command(after_help = example("keep mirrored.toml a.img"))]
    Keep(KeepArgs),
}

/// The end of a help text.
fn example(arguments: &str) -> String {
    format!("Example:\n  thermocline device {arguments}\n\n{CODES}")
}

/// A device of a pool: what most commands on devices name.
#[derive(Args)]
pub struct MemberArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// The device, as the settings name it
    path: PathBuf,
}

/// A device that something new is to be written to: arguments of `device attach` and `device replace`.
#[derive(Args)]
pub struct NewArgs {
    #[command(flatten)]
    device: MemberArgs,
    /// Say the path once more if something is there: it will be gone. For a group, each member where something is
    #[arg(long, value_name = "PATH")]
    yes_destroy: Vec<String>,
}

/// Arguments of `device replace`.
#[derive(Args)]
pub struct ReplaceArgs {
    #[command(flatten)]
    new: NewArgs,
    /// The old device, which leaves the pool when the new device has all its data
    #[arg(long, value_name = "PATH")]
    instead_of: Option<PathBuf>,
}

/// Arguments of `device drain`.
#[derive(Args)]
pub struct DrainArgs {
    #[command(flatten)]
    device: MemberArgs,
    /// Do not wait: the device is drained while the pool is served
    #[arg(long, conflicts_with = "cancel")]
    later: bool,
    /// Use the device as before
    #[arg(long)]
    cancel: bool,
}

/// Arguments of `device lose`.
#[derive(Args)]
pub struct LoseArgs {
    #[command(flatten)]
    device: MemberArgs,
    /// Confirm with the path of the device. Data that only this device has is lost
    #[arg(long, value_name = "PATH")]
    yes_destroy: Option<String>,
    /// Also if the pool was not closed in order: blocks that were written just before may read as they were before that
    #[arg(long)]
    despite_loss: bool,
    /// Print JSON with all ranges, schema thermocline.lost/1
    #[arg(long)]
    json: bool,
}

/// Arguments of `device keep`.
#[derive(Args)]
pub struct KeepArgs {
    #[command(flatten)]
    device: MemberArgs,
    /// Proceed even if the device lacks flushed data
    #[arg(long)]
    despite_loss: bool,
}

/// `thermocline device`.
pub fn device(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List(args) => list(args),
        Command::Attach(args) => change::attach(args),
        Command::Grow(args) => change::grow(args),
        Command::Drain(args) => change::drain(args),
        Command::Detach(args) => change::detach(args),
        Command::Lose(args) => lose::lose(args),
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    write_mostly: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    raid5: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raid0: Option<String>,
    /// State in the pool: active, draining, or unattached.
    state: &'static str,
    /// Units of a draining device that are not empty yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    units_left: Option<u32>,
    /// State of a mirror side: current, filling or out.
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<String>,
    /// State of a member of a striped group: current, filling or out.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Serialize)]
struct Listing {
    schema: &'static str,
    devices: Vec<ListedDevice>,
    #[serde(flatten)]
    groups: GroupsTold,
}

impl ListedDevice {
    /// The group of the device, as text.
    fn group(&self) -> String {
        let keys = [("mirror", &self.mirror), ("raid5", &self.raid5), ("raid0", &self.raid0)];
        let named = keys.into_iter().find_map(|(kind, name)| Some((kind, name.as_ref()?)));
        let how = if self.write_mostly { ", written mostly" } else { "" };
        named.map_or(String::new(), |(kind, name)| format!("{kind} {name}{how}"))
    }
}

fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let (geometry, numbers) = settings.device_numbers()?;
    let Looked { groups, left, .. } = Looked::at(&settings, &args.settings)?;
    let listed = |(device, number): (&DeviceSettings, Option<DeviceId>)| {
        let path = device.path.display().to_string();
        let mut members = groups
            .all()
            .flat_map(|(kind, _, members)| members.iter().map(move |member| (kind, member)));
        let member = members.find(|(_, member)| member.path == path);
        let state_in = |is: fn(&str) -> bool| {
            member.filter(|(kind, _)| is(kind)).map(|(_, member)| member.state.clone())
        };
        let state = number.map(|number| geometry.device(number).state);
        let named =
            |kind| device.group().filter(|(one, _)| *one == kind).map(|(_, name)| name.to_owned());
        ListedDevice {
            class: class_name(device.class),
            mirror: named(GroupKind::Mirror),
            write_mostly: device.write_mostly,
            raid5: named(GroupKind::Parity),
            raid0: named(GroupKind::Striped),
            state: state.map_or("unattached", state_name),
            units_left: number.and_then(|number| left.get(&number.0).copied()),
            side: state_in(|kind| kind == "mirror"),
            member: state_in(|kind| kind != "mirror"),
            why: member.and_then(|(_, member)| member.why.clone()),
            path,
        }
    };
    let devices: Vec<ListedDevice> = settings.devices.iter().zip(numbers).map(listed).collect();
    if args.json {
        let listing = Listing { schema: "thermocline.devices/1", devices, groups };
        return print(&format!("{}\n", serde_json::to_string_pretty(&listing)?));
    }
    let mut table = crate::table::plain();
    table.set_header(["path", "class", "state", "group", "member"]);
    for device in devices {
        let group = device.group();
        let ListedDevice { path, class, state, units_left, side, member, why, .. } = device;
        let state = units_left.map_or(state.to_owned(), |left| match left {
            0 => format!("{state}: empty, it can be detached"),
            left => format!("{state}: {left} units left"),
        });
        let member = side.or(member).map_or(String::new(), |member| match why {
            Some(why) => format!("{member}: {why}"),
            None => member,
        });
        table.add_row([path, class.to_owned(), state, group, member]);
    }
    let lacking = groups.all().filter(|(_, group, _)| group.lacking_bytes > 0);
    let lacking = lacking.map(|(kind, group, _)| {
        format!("{kind} `{}`: {} to be filled\n", group.name, Bytes(group.lacking_bytes))
    });
    print(&format!("{table}\n{}", lacking.collect::<String>()))
}

/// Facts about devices that need an open pool.
#[derive(Default)]
struct Looked {
    groups: GroupsTold,
    /// Remaining units of draining devices, by device number.
    left: BTreeMap<u8, u32>,
    /// The reason if a served pool takes no writes.
    failure: Option<String>,
    room: Option<Room>,
}

/// Total size of a pool's volumes, and the pool's capacity for data.
#[derive(Clone, Copy)]
pub(super) struct Room {
    volumes: Bytes,
    holds: Bytes,
}

impl Room {
    /// Of an open pool.
    pub fn of<S: Storage>(pool: &Opened<S>) -> Room {
        Room { volumes: Bytes(pool.sizes().iter().sum::<u64>() * 4096), holds: pool.holds() }
    }

    /// Whether the volumes are larger than the pool's capacity.
    pub fn is_overpromised(&self) -> bool {
        self.volumes > self.holds
    }

    /// From the status of a server.
    pub fn told(status: &Value) -> Option<Room> {
        let volumes = status["volumes"].as_array()?.iter();
        let volumes = volumes.map(|volume| volume["size_bytes"].as_u64()).sum::<Option<u64>>()?;
        let holds = status["engine"]["capacity_bytes"].as_u64()?;
        Some(Room { volumes: Bytes(volumes), holds: Bytes(holds) })
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Room { volumes, holds } = self;
        write!(f, "the pool holds {holds} of data now")?;
        if self.is_overpromised() {
            write!(
                f,
                ", and its volumes have {volumes}: when it is full, writes get \"no space\""
            )?;
        }
        Ok(())
    }
}

impl Looked {
    /// Asks the server, or opens the pool on trial.
    fn at(settings: &Settings, file: &Path) -> anyhow::Result<Looked> {
        if Serving::of(file).is_some() {
            return Looked::at_server(&status_socket(file));
        }
        let pool = on_trial(settings)?;
        let room = Some(Room::of(&pool));
        let groups =
            GroupsTold::new(pool.groups.iter(), pool.driver.engine().geometry(), advice::of_news);
        let draining = DrainStatus::all(pool.driver.engine());
        let left = draining.into_iter().map(|one| (one.device, one.units_left));
        Ok(Looked { groups, left: left.collect(), failure: None, room })
    }
}

impl Looked {
    /// Asks the server.
    fn at_server(socket: &Path) -> anyhow::Result<Looked> {
        let mut status = fetch(socket)?;
        let room = Room::told(&status);
        let mut of = |key| status.get_mut(key).map(Value::take);
        let draining = of("draining").map_or(Ok(Vec::new()), serde_json::from_value);
        let draining: Vec<DrainStatus> = draining.context("no list of devices")?;
        let left = draining.into_iter().map(|one| (one.device, one.units_left)).collect();
        let groups = GroupsTold::deserialize(&status).context("no list of groups")?;
        let failure = status["failure"].as_str().map(str::to_owned);
        Ok(Looked { groups, left, failure, room })
    }
}

pub(super) fn class_name(class: MediaClass) -> &'static str {
    match class {
        MediaClass::Capacity => "capacity",
        MediaClass::Fast => "fast",
    }
}

pub(super) fn state_name(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Active => "active",
        DeviceState::Draining => "draining",
        DeviceState::Detached => "detached",
        DeviceState::Lost => "lost",
    }
}

/// The path of a device as written in the settings.
fn named(settings: &Settings, path: &Path) -> anyhow::Result<PathBuf> {
    settings.named(path).ok_or_else(|| {
        anyhow!(
            "{} is no device of {}: set it as the path of a member of the group first",
            path.display(),
            settings.file().display()
        )
    })
}

fn replace(args: &ReplaceArgs) -> anyhow::Result<ExitCode> {
    let ReplaceArgs { new: args, instead_of } = args;
    if let Some(old) = instead_of {
        return change::exchange(args, old);
    }
    let settings = Settings::load(&args.device.settings)?;
    let path = named(&settings, &args.device.path)?;
    let side =
        DeviceRequest { change: None, path: path.clone(), yes_destroy: args.yes_destroy.clone() };
    if let Some(server) = Serving::of(&args.device.settings) {
        server.change_device(&side)?;
        return print(&format!("{} is being filled\n", path.display()));
    }
    ensure_member(&settings, &path)?;
    refuse_to_destroy(&settings, &side)?;
    settings.replace_side(&path)?;
    print(&format!("{} is filled when the pool is served next\n", path.display()))
}

fn keep(args: &KeepArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.device.settings)?;
    let path = named(&settings, &args.device.path)?;
    settings.keep_side(&path, args.despite_loss)?;
    print(&format!("{} is believed from now on; what others lack is filled\n", path.display()))
}

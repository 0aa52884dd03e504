//! Remedies in the words of the command line: its flags and commands.

use std::path::Path;

use thermocline_engine::HostError;
use thermocline_runtime::opening::{LittleMemory, OpeningError, OpeningNote};
use thermocline_runtime::{GroupStatus, MediaError, Remedy};
use thermocline_serve::{Error, News};
use thermocline_types::Bytes;

use super::Broken;
use super::open::advised;

/// The consequence and the remedy after a file of the pool was removed or truncated.
const LOST_FILE: &str = "no write is taken any more; copy from the volumes what can still be read, then stop the service";

/// Remedy for a pool that is nearly full.
pub const ROOM: &str = "attach a device (`thermocline device attach`), trim (`fstrim`, `mount -o discard`) or delete a \
                        volume";

/// Remedy for fast devices that are too small for the maps of volumes.
pub const MORE_FAST: &str =
    "add a fast device (`thermocline device attach`), or make the volumes smaller";

/// The reason why an engine stopped writing although no device failed.
pub const NO_UNIT: &str = "no unit is free, and none can be emptied";

/// Remedy for a pool without a free unit.
pub const MORE_ROOM: &str =
    "attach another device (`thermocline device attach`), or delete a volume";

/// Advice for a pool without free units after `damaged` reads found damaged blocks.
pub fn because_of_damage(damaged: u64) -> String {
    match damaged {
        0 => String::new(),
        reads => format!(
            ". {reads} reads have met damaged blocks, and units with such blocks cannot be collected: `thermocline volume \
             give-up POOL.toml NAME`, with the pool stopped, lists them by range, and lets their units come free"
        ),
    }
}

/// A note with its remedy.
pub fn note(file: &Path, note: &OpeningNote) -> String {
    let shown = file.display();
    let remedy = match note {
        OpeningNote::UnusedDevice { path } => return unused_device(file, path),
        OpeningNote::OtherSize { path, stated, used } if stated > used => {
            format!("; `thermocline device grow {shown} {}` uses more of it", path.display())
        }
        OpeningNote::OtherSize { .. } => {
            "; state that size: a device does not become smaller".to_owned()
        }
        OpeningNote::NoSuchVolume { .. } => String::new(),
        OpeningNote::ReserveTooLarge { .. } => {
            ": no other volume can take new room until there is more".to_owned()
        }
    };
    format!("{note}{remedy}")
}

/// Advice for a device in the settings that the pool does not use.
pub fn unused_device(file: &Path, path: &Path) -> String {
    let note = OpeningNote::UnusedDevice { path: path.to_owned() };
    let (file, path) = (file.display(), path.display());
    format!(
        "{note}: `thermocline device attach {file} {path}` adds it, or take it out of the settings"
    )
}

/// Advice for too little memory, with the setting to change.
pub fn more_memory(little: &LittleMemory) -> String {
    let smaller =
        little.smaller.map_or(String::new(), |name| format!(", or set placement = \"{name}\""));
    format!("{little}. Raise pool.memory{smaller}")
}

/// The remedy as a command, to append to a sentence.
fn words(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Format => ". `thermocline format` makes a new one".to_owned(),
        Remedy::NewerProgram => {
            ". A newer thermocline wrote this format: use that program; `thermocline --version` names the format that a \
             program reads"
                .to_owned()
        }
        Remedy::OlderProgram => {
            ". No release wrote this format: serve the pool with the program that wrote it, copy the volumes (`nbdcopy`) \
             into a new pool, and keep this pool until then"
                .to_owned()
        }
        Remedy::Attach { path } => format!(
            "; `thermocline device attach POOL.toml {}` makes it one, or take it out of the settings",
            path.display()
        ),
        Remedy::Drain => ": `thermocline device drain` first".to_owned(),
        Remedy::DrainIfReadable => {
            ". If it can still be read, `thermocline device drain` moves what it holds".to_owned()
        }
        Remedy::Lose { path } => format!(
            "; if it is gone for good, `thermocline device lose POOL.toml {}` lists what is lost with it",
            path.display()
        ),
        Remedy::Exchange => {
            ", or have it take the place of this one with `thermocline device replace --instead-of`"
                .to_owned()
        }
        Remedy::ReplaceMember => {
            "; set `path` in the settings to a new device and run `thermocline device replace POOL.toml PATH`"
                .to_owned()
        }
        Remedy::ChooseLost => {
            ". Choose the side to lose: `thermocline device replace POOL.toml PATH --yes-destroy PATH`"
                .to_owned()
        }
        Remedy::ChooseKept => {
            ". Choose the member to believe: `thermocline device keep POOL.toml PATH`".to_owned()
        }
        Remedy::Overwrite { path } => {
            let path = path.display();
            format!(
                ". To lose {path}, run `thermocline device replace POOL.toml {path} --yes-destroy {path}`"
            )
        }
        Remedy::Keep { path, lost, despite_loss: false } => format!(
            ". If {} is lost, run `thermocline device keep POOL.toml {}`",
            lost.display(),
            path.display()
        ),
        Remedy::Keep { path, lost, despite_loss: true } => {
            let path = path.display();
            format!(
                ". If {} is lost, `thermocline device keep POOL.toml {path} --despite-loss` uses the data on {path}",
                lost.display()
            )
        }
    }
}

/// A sentence with its remedy.
pub fn with(text: &str, remedy: Option<&Remedy>) -> String {
    format!("{text}{}", remedy.map(words).unwrap_or_default())
}

/// News with a remedy, if the remedy does not name the settings file.
pub fn of_news(news: &News) -> String {
    match news {
        News::ShortOfFast(short) => format!("{short}: {MORE_FAST}"),
        News::LittleMemory(little) => {
            let little = more_memory(little);
            format!("{little}; until then the service takes more memory than that")
        }
        News::Failed { trouble: None, damaged } => format!(
            "{NO_UNIT}: {MORE_ROOM}; no write is taken until the pool is opened again{}",
            because_of_damage(*damaged)
        ),
        News::Fullness(report) if !report.is_normal() => format!("{report}; {ROOM}"),
        News::Group(_, text, remedy) => with(text, remedy.as_ref()),
        News::LostFile(what) => format!("{what}: {LOST_FILE}"),
        news => news.to_string(),
    }
}

/// The risk of a group with its remedy.
pub fn risk(group: &GroupStatus) -> Option<String> {
    group.risk().map(|risk| with(&risk, group.remedy().as_ref()))
}

/// An error of a server, with a remedy and an exit code.
pub fn worded(file: &Path, error: Error) -> anyhow::Error {
    match error {
        Error::Opening(error) => advised(file, error),
        Error::Settings(error) => error.into(),
        Error::Broken(text) => Broken(text).into(),
        Error::Io { what, source } => anyhow::Error::from(source).context(what),
        Error::System(source) => source.into(),
        error => error.into(),
    }
}

/// The text of an error with its remedy.
pub fn told(error: &anyhow::Error) -> String {
    format!("{}{}", crate::lab::args::told(error), remedy(error).unwrap_or_default())
}

/// The remedy of an error, to append to its text.
fn remedy(error: &anyhow::Error) -> Option<String> {
    let of_server =
        |one: &(dyn std::error::Error + 'static)| one.downcast_ref().and_then(of_server);
    let of_host = |one: &(dyn std::error::Error + 'static)| one.downcast_ref().and_then(of_host);
    let of_media = |one: &(dyn std::error::Error + 'static)| one.downcast_ref().and_then(of_media);
    error.chain().find_map(|one| of_server(one).or_else(|| of_host(one)).or_else(|| of_media(one)))
}

fn of_host(error: &HostError) -> Option<String> {
    let HostError::NoMemory { needed, .. } = error else { return None };
    Some(format!(": set `memory` in [pool] of the settings to {} or more", Bytes(*needed)))
}

fn of_media(error: &MediaError) -> Option<String> {
    error.remedy().as_ref().map(words)
}

fn of_server(error: &Error) -> Option<String> {
    Some(match error {
        Error::Host(error) => return of_host(error),
        Error::Opening(OpeningError::Media(error)) => return of_media(error),
        Error::TlsWithoutTcp => {
            ": say --listen ADDRESS (`listen` in [serve]) as well, or leave out --tls-certificate, --tls-key and \
             --tls-clients (`tls_...` in [serve])"
                .to_owned()
        }
        Error::OpenNetwork(_) => {
            ": give --tls-certificate, --tls-key and --tls-clients, or say --insecure-network".to_owned()
        }
        Error::OpenNvme(_) => {
            ": take an address of loopback, or say --insecure-network".to_owned()
        }
        Error::LongPath(_) => {
            "; choose a shorter one (--socket, for the sockets of clients), or run in the folder and name the settings \
             without it"
                .to_owned()
        }
        Error::NotServed { .. } => "; `thermocline serve` serves a pool".to_owned(),
        Error::InUse { .. } => {
            ": end that first, or say --despite-clients (?despite=clients)".to_owned()
        }
        Error::DataBeyond { volume, named: None, .. } => {
            format!(", which would be gone: to destroy them, say --yes-destroy {volume}")
        }
        Error::DataBeyond { named: Some(other), .. } => {
            format!("; --yes-destroy names `{other}`, which is not that volume")
        }
        Error::Occupied { path, .. } => {
            format!(": to destroy it, say --yes-destroy {}", path.display())
        }
        Error::NoMember { path, file } => {
            let (path, file) = (path.display(), file.display());
            format!(
                ": `thermocline device replace {file} NEW --instead-of {path}` has NEW take its place"
            )
        }
        _ => return None,
    })
}

//! Stacks: a layer over a device, as in `raw:p5316`.

use std::fmt;
use std::str::FromStr;

use thermocline_ftl::placement::UnknownPolicy;
use thermocline_nand::profile::{self, builtin};
use thermocline_nand::{HostLimits, Kind, Profile};
use thermocline_types::choices;
use thermocline_workload::at_home;

use crate::Error;
use crate::log::{GroupOption, LogOptions};
use crate::tag::Tagging;

/// The layer between the host and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Nothing: host writes go straight to the drive.
    Raw,
    /// Addresses unchanged; every write carries a placement handle.
    Tag,
    /// The log engine: units are written front to back, and the engine collects garbage.
    Log,
    /// The log engine over two drives: writes go to the fast drive, and surviving data is destaged to the capacity
    /// drive.
    Tier,
}

impl Layer {
    /// Every layer with a line about it, for listings.
    pub const ALL: [(Layer, &'static str); 4] = [
        (
            Layer::Raw,
            "host writes go straight to the drive; DEVICE*8 is eight of it under one host, striped",
        ),
        (
            Layer::Tag,
            "every write carries a placement handle: that of its tenant; by `tag_by`: file, directory, volume; or by \
             `placement`: hint, or a policy (multi-stream, FDP drives)",
        ),
        (
            Layer::Log,
            "the log engine: zones or units written front to back, garbage collected by the host (any drive); \
             `tag_by` gives it handles of files, directories, volumes",
        ),
        (
            Layer::Tier,
            "the log engine over two drives, as tier:FAST+CAPACITY: writes go to the fast one; what is still valid when \
             its units are needed goes on to the other",
        ),
    ];

    fn named(name: &str) -> Result<Layer, String> {
        let found = Layer::ALL.iter().find(|(layer, _)| layer.to_string() == name);
        found.map(|(layer, _)| *layer).ok_or_else(|| {
            let names = Layer::ALL.iter().map(|(layer, _)| layer);
            format!("`{name}` is no layer; {}", choices(name, names))
        })
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Layer::Raw => "raw",
            Layer::Tag => "tag",
            Layer::Log => "log",
            Layer::Tier => "tier",
        })
    }
}

/// Several drives of one kind under one host, striped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveArray {
    /// How many.
    pub count: u32,
    /// Limits of the host.
    pub host: HostLimits,
}

/// A layer over a device profile.
#[derive(Clone, Debug)]
pub struct Stack {
    /// As given.
    pub text: String,
    /// The layer above the device.
    pub layer: Layer,
    /// The device with overrides applied; the capacity device in a tiered stack.
    pub profile: Profile,
    /// The array of equal devices under one host; `None` for a single device.
    pub array: Option<DriveArray>,
    /// The fast device of a tiered stack.
    pub fast: Option<Profile>,
    /// The rule that chooses the handle of a write under `tag`; `None` is the tenant. No effect under other layers.
    pub tag: Option<Tagging>,
    /// Settings of the log; of no effect under other layers.
    pub log: LogOptions,
    /// The overrides, as given.
    pub overrides: Vec<String>,
}

impl Stack {
    /// Reads `LAYER:DEVICE[,KEY=VALUE...]`, where the device is a built-in profile or the path of a profile file, under
    /// `tier` two of them, `FAST+CAPACITY`. Applies `overrides` of the form `device.KEY=VALUE`, `fast.KEY=VALUE`,
    /// `pool.KEY=VALUE`, `log.KEY=VALUE` and `tag.placement=NAME`, then those of the stack itself, whose keys are the
    /// device's unless they begin with one of these. The device under `tier` is that for capacity. Under `raw`,
    /// `DEVICE*N` is so many of it, striped by a host that `host.KEY=VALUE` describes.
    ///
    /// # Errors
    /// [`Error::Stack`] for unknown layers and devices, [`Error::Profile`] for a mistake inside a profile.
    pub fn parse(text: &str, overrides: &[String]) -> Result<Stack, Error> {
        let refuse = |reason: String| Error::Stack { stack: text.to_owned(), reason };
        let (layer, rest) = text
            .split_once(':')
            .ok_or_else(|| refuse("a stack is LAYER:DEVICE, such as raw:p5316".into()))?;
        let layer = Layer::named(layer).map_err(refuse)?;
        let mut parts = rest.split(',');
        let device = parts.next().unwrap_or_default();
        let given = overrides.iter().cloned().chain(parts.map(own_override));
        let given: Vec<String> = given.map(|text| LogOptions::canonical(&text)).collect();
        let (mut log, mut overrides, mut tag) = (LogOptions::default(), Vec::new(), None);
        let (mut of_fast, mut host, mut of_host) = (Vec::new(), HostLimits::default(), None);
        for text in &given {
            match split_override(text)? {
                Override::Device(key, value) => overrides.push((key, value)),
                Override::Fast(key, value) => of_fast.push((key, value)),
                Override::Log(key, value) => log
                    .set(&key, &value)
                    .map_err(|reason| Error::Settings(format!("{text}: {reason}")))?,
                Override::Host(key, value) => {
                    set_host(&mut host, &key, &value)
                        .map_err(|reason| Error::Settings(format!("{text}: {reason}")))?;
                    of_host = Some(text);
                }
                Override::Tag(name) => tag = Some((text, named::<Tagging>(text, &name)?)),
            }
        }
        let (fast, device) = match (layer, device.split_once('+')) {
            (Layer::Tier, Some((fast, device))) => (Some(fast), device),
            (Layer::Tier, None) => {
                return Err(refuse("tier is over two drives, such as tier:p5800x+p5316".into()));
            }
            (_, _) => (None, device),
        };
        let (device, count) = several(device, layer, of_host).map_err(refuse)?;
        if fast.is_none() && !of_fast.is_empty() {
            return Err(refuse("there is no fast device for fast.KEY=VALUE; tier has one".into()));
        }
        let profile = |device: &str, overrides: &[(String, String)]| {
            let content = load(device).map_err(refuse)?;
            Ok::<Profile, Error>(Profile::with_overrides(device, &content, overrides)?)
        };
        let fast = fast.map(|fast| profile(fast, &of_fast)).transpose()?;
        let profile = profile(device, &overrides)?;
        if layer == Layer::Tag && !matches!(profile.kind, Kind::MultiStream | Kind::Fdp) {
            return Err(refuse(format!(
                "a {} drive takes no placement handles; tag needs a multi-stream or FDP drive",
                profile.kind.name()
            )));
        }
        if let (Layer::Tag, Some((given, tagging))) = (layer, &tag) {
            tagging
                .check(&profile)
                .map_err(|reason| Error::Settings(format!("{given}: {reason}")))?;
        }
        let tag = tag.map(|(_, tagging)| tagging);
        let (text, array) = (text.to_owned(), count.map(|count| DriveArray { count, host }));
        Ok(Stack { text, layer, profile, array, fast, tag, log, overrides: given })
    }

    /// The drive of `profile` alone.
    #[must_use]
    pub fn raw(profile: Profile) -> Stack {
        Stack {
            text: format!("raw:{}", profile.name),
            layer: Layer::Raw,
            profile,
            array: None,
            fast: None,
            tag: None,
            log: LogOptions::default(),
            overrides: Vec::new(),
        }
    }

    /// Gives the layer the placement policy `name`, unless the stack's own text or an override chose one. Under `tag`,
    /// there are `tenant`, `file`, `directory`, `volume` and `hint` as well.
    ///
    /// # Errors
    /// [`Error::Settings`] when there is no such policy, or the layer cannot use it.
    pub fn place(&mut self, name: &str) -> Result<(), Error> {
        let given = format!("`placement` {name}");
        match self.layer {
            Layer::Raw if name != "none" => {
                Err(Error::key("placement", format!("{name}: {} takes none", self.text)))
            }
            Layer::Raw => Ok(()),
            Layer::Tag => {
                let tagging: Tagging = named(&given, name)?;
                let refuse = |reason| Error::Settings(format!("{given}, {}: {reason}", self.text));
                tagging.check(&self.profile).map_err(refuse)?;
                self.tag.get_or_insert(tagging);
                Ok(())
            }
            Layer::Log | Layer::Tier => {
                self.log.engine.placement.get_or_insert(named(&given, name)?);
                Ok(())
            }
        }
    }

    /// Gives writes the handles of `what`: `file`, `directory` or `volume`. Under `log`, the placement becomes
    /// `handles`, unless the stack's own text or an override chose one. Other layers take no handles.
    ///
    /// # Errors
    /// [`Error::Settings`] when `what` is unknown.
    pub fn tag_by(&mut self, what: &str) -> Result<(), Error> {
        match self.layer {
            Layer::Raw | Layer::Tier => {}
            Layer::Tag => self.place(what)?,
            Layer::Log => {
                self.tag = Some(named(&format!("`tag_by` {what}"), what)?);
                self.place("handles")?;
            }
        }
        Ok(())
    }

    /// The group that the device for capacity is.
    #[must_use]
    pub fn group(&self) -> Option<GroupOption> {
        self.log.group.filter(|_| matches!(self.layer, Layer::Log | Layer::Tier))
    }

    /// Drives that the host's requests go to; the fast one of a tier is not counted.
    #[must_use]
    pub fn drives(&self) -> u32 {
        let members = self.group().map_or(1, |group| group.members as u32);
        self.array.map_or(members, |array| array.count)
    }

    /// The same stack without time, for when only write amplification is asked.
    #[must_use]
    pub fn untimed(mut self) -> Stack {
        self.profile.timing = None;
        if let Some(fast) = &mut self.fast {
            fast.timing = None;
        }
        self
    }
}

/// What a part of a stack's own text overrides: the device, unless it says otherwise.
fn own_override(part: &str) -> String {
    let said = ["fast.", "log.", "pool.", "tag.", "host."];
    if said.iter().any(|whose| part.trim_start().starts_with(whose)) {
        return part.to_owned();
    }
    format!("device.{part}")
}

/// The device of `DEVICE*N`, and N; `of_host` is what was said of a host over several.
fn several<'a>(
    device: &'a str,
    layer: Layer,
    of_host: Option<&String>,
) -> Result<(&'a str, Option<u32>), String> {
    let Some((device, count)) = device.rsplit_once('*') else {
        return of_host.map_or(Ok((device, None)), |given| {
            Err(format!("{given} is of a host over several drives, such as raw:pci-c*8"))
        });
    };
    let count: u32 =
        count.parse().ok().filter(|count| (1..=64).contains(count)).ok_or_else(|| {
            format!("`*{count}` is no number of drives from 1 to 64, such as raw:pci-c*8")
        })?;
    if layer != Layer::Raw {
        return Err(format!("several drives stand side by side under raw, not under {layer}"));
    }
    Ok((device, Some(count)))
}

/// Sets what a host over several drives can do.
fn set_host(host: &mut HostLimits, key: &str, value: &str) -> Result<(), String> {
    let number = |least: f64| {
        let number = value.parse::<f64>().ok().filter(|n| (least..=1e9).contains(n));
        number.ok_or_else(|| format!("must be a number from {least} to 10^9"))
    };
    match key {
        "stripe" => host.stripe = value.parse().map_err(|error| format!("{error}"))?,
        "link_mb_per_s" => host.link_mb_per_s = Some(number(1e-3)?),
        "cpu_us" => host.cpu_us = number(0.0)?,
        "threads" => {
            let threads = value.parse().ok().filter(|n| (1..=4096).contains(n));
            host.threads = threads.ok_or("must be a number from 1 to 4096")?;
        }
        _ => return Err("a host has stripe, link_mb_per_s, cpu_us and threads".to_owned()),
    }
    Ok(())
}

/// The text of a built-in profile, or of the profile file at that path.
fn load(device: &str) -> Result<String, String> {
    if let Some(text) = builtin(device) {
        return Ok(text.to_owned());
    }
    let is_path = device.ends_with(".toml") || device.contains('/');
    if !is_path {
        return Err(format!(
            "no built-in device is called `{device}`, and the path of a profile ends in .toml; {}",
            choices(device, profile::names())
        ));
    }
    std::fs::read_to_string(at_home(device.as_ref()))
        .map_err(|error| format!("cannot read the profile {device}: {error}"))
}

/// The policy or tagging called `name`; `given` is the setting named in the error.
fn named<T: FromStr<Err = UnknownPolicy>>(given: &str, name: &str) -> Result<T, Error> {
    name.parse().map_err(|error| Error::Settings(format!("{given}: {error}")))
}

/// The part of a stack that a setting changes, with the key and the value.
enum Override {
    Device(String, String),
    Fast(String, String),
    Log(String, String),
    Host(String, String),
    /// The placement.
    Tag(String),
}

fn split_override(text: &str) -> Result<Override, Error> {
    let form = || {
        Error::Settings(format!(
            "`set` {text}: write device.KEY=VALUE, such as device.op=0.07, fast.KEY=VALUE, pool.KEY=VALUE, \
             log.KEY=VALUE, host.KEY=VALUE or tag.placement=NAME"
        ))
    };
    let (key, value) = text.split_once('=').ok_or_else(form)?;
    let (whose, key) = key.trim().split_once('.').ok_or_else(form)?;
    let (key, value) = (key.to_owned(), value.trim().to_owned());
    match whose {
        "device" | "capacity" => Ok(Override::Device(key, value)),
        "fast" => Ok(Override::Fast(key, value)),
        "log" | "pool" => Ok(Override::Log(format!("{whose}.{key}"), value)),
        "host" => Ok(Override::Host(key, value)),
        "tag" if key == "placement" => Ok(Override::Tag(value)),
        _ => Err(form()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_is_there() {
        let cases = [
            ("p5316", "LAYER:DEVICE"),
            ("fast:p5316", "raw, tag, log, tier"),
            ("tier:p5316", "two drives"),
            ("log:p5800x+p5316", "no built-in device"),
            ("log:p5316,fast.op=0.1", "no fast device"),
            ("raw:p5317", "p5316, pm9d3"),
            ("raw:pci-c*0", "from 1 to 64"),
            ("log:pci-c*2", "under raw, not under log"),
            ("raw:pci-c,host.threads=2", "over several drives"),
            ("raw:none/such.toml", "cannot read"),
            ("tag:p5316", "takes no placement handles"),
        ];
        for (text, expected) in cases {
            let error = Stack::parse(text, &[]).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(expected), "{text}: {error}");
        }
        let error = Stack::parse("raw:pci-c*2,host.thread=2", &[]).unwrap_err().to_string();
        assert!(error.contains("host.thread=2: a host has stripe"), "{error}");
        let error = Stack::parse("raw:ideal", &["op=1".into()]).unwrap_err().to_string();
        assert!(error.contains("device.KEY=VALUE"), "{error}");
        let error = Stack::parse("raw:ideal", &["device.opp=1".into()]).unwrap_err().to_string();
        assert!(error.contains("`opp`"), "{error}");
    }

    #[test]
    fn overrides_reach_the_profile() {
        let given = ["device.op = 0.07".to_owned()];
        let stack = Stack::parse("raw:ideal", &given).unwrap();
        assert!((stack.profile.op - 0.07).abs() < 1e-12);
        let stack = Stack::parse("raw:ideal,op=0.2,gc.victim=fifo", &given).unwrap();
        assert!((stack.profile.op - 0.2).abs() < 1e-12, "a stack's own override comes last");
        assert_eq!(stack.profile.gc.victim, "fifo");
    }
}

//! The `tag` layer: addresses stay as they are, every write carries a placement handle, and the drive does the rest.
//! Handles come with the write (its tenant, or its file, [`By`]), are what its application could tell ([`Told`]), or
//! are found out by a placement policy.

mod told;

use std::fmt;
use std::str::FromStr;

use thermocline_ftl::placement::{Policy, UnknownPolicy};
use thermocline_nand::profile::Cut;
use thermocline_nand::{Kind, Profile, Tagger};
use thermocline_types::{Op, Request, StreamId};

use self::told::Known;
use crate::stack::{Layer, Stack};
use crate::{Error, Prepared};

pub use self::told::Told;

/// What of a file chooses the handle of its writes, where the workload knows files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Files have handles in turn, as they are made.
    File,
    /// Each directory or kind of file has a handle; directories beyond the last handle share the last handle.
    Directory,
}

/// The rule that chooses the handle of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Tagging {
    /// The number of its tenant.
    Tenant,
    /// A hint that the application could give.
    Told(Told),
    /// Its file.
    Stream(By),
    /// The class chosen by a policy.
    Policy(Box<Policy>),
}

impl Tagging {
    /// Checks that a drive of `profile` can be written with it.
    ///
    /// # Errors
    /// Why not, and what can.
    pub(crate) fn check(&self, profile: &Profile) -> Result<(), String> {
        match self {
            Tagging::Tenant | Tagging::Told(_) | Tagging::Stream(_) => Ok(()),
            Tagging::Policy(policy) => check(policy, profile),
        }
    }
}

impl FromStr for Tagging {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        match name {
            "tenant" => Ok(Tagging::Tenant),
            "volume" => Ok(Tagging::Told(Told::Volume)),
            "hint" => Ok(Tagging::Told(Told::Hint)),
            "file" => Ok(Tagging::Stream(By::File)),
            "directory" => Ok(Tagging::Stream(By::Directory)),
            _ => name.parse().map(|policy| Tagging::Policy(Box::new(policy))),
        }
    }
}

impl fmt::Display for Tagging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tagging::Tenant => f.write_str("tenant"),
            Tagging::Told(Told::Volume) => f.write_str("volume"),
            Tagging::Told(Told::Hint) => f.write_str("hint"),
            Tagging::Stream(By::File) => f.write_str("file"),
            Tagging::Stream(By::Directory) => f.write_str("directory"),
            Tagging::Policy(policy) => policy.fmt(f),
        }
    }
}

/// Which handle a write carries.
#[derive(Debug)]
pub(crate) enum Tags {
    /// Always the first handle.
    First,
    /// The number of its tenant.
    Tenant,
    /// A hint known in advance from the application.
    Known(Known),
    /// The file, with the number of handles.
    Stream(By, u16),
    /// The class chosen by a policy.
    Placed(Box<Tagger>),
}

impl Tags {
    /// How the writes of `workload` are tagged under `stack`, on a drive cut as `cut` says.
    ///
    /// # Errors
    /// Those of reading the workload in advance.
    pub(crate) fn new(stack: &Stack, workload: &mut Prepared, cut: &Cut) -> Result<Tags, Error> {
        let handles = match (stack.layer, &stack.log.engine.placement) {
            (Layer::Log, Some(Policy::Handles(placement))) => placement.count(),
            _ => handles(&stack.profile),
        };
        Ok(match (stack.layer, &stack.tag) {
            (Layer::Raw, _) => Tags::First,
            (Layer::Tag | Layer::Log, Some(Tagging::Told(told))) => {
                Tags::Known(Known::new(workload, *told)?)
            }
            (Layer::Tag | Layer::Log, Some(Tagging::Stream(by))) => {
                if workload.directories().is_empty() {
                    return Err(Error::Settings(format!(
                        "{}: the workload does not know its files: it takes an application such as lsm, or a trace \
                         with a stream column",
                        stack.text
                    )));
                }
                Tags::Stream(*by, u16::from(handles.max(1)))
            }
            (Layer::Tag, Some(Tagging::Policy(policy))) => {
                let policy = (**policy).clone();
                Tags::Placed(Box::new(Tagger::new(policy, handles, cut)))
            }
            (Layer::Tag | Layer::Log | Layer::Tier, _) => Tags::Tenant,
        })
    }

    /// The handle of the request that falls into `pieces`, in the order of requests.
    #[inline]
    pub(crate) fn handle(&mut self, pieces: &[Request]) -> u16 {
        match self {
            Tags::First => 0,
            Tags::Tenant => pieces[0].tenant.0.min(u32::from(u16::MAX)) as u16,
            Tags::Known(known) => known.handle(&pieces[0]),
            Tags::Stream(by, handles) => by.handle(pieces[0].stream, *handles),
            Tags::Placed(placed) if pieces[0].op == Op::Write => placed.handle(pieces),
            Tags::Placed(_) => 0,
        }
    }
}

impl By {
    /// The handle of `stream` among `handles`; the first for what is of no known file, such as a prefill.
    fn handle(self, stream: StreamId, handles: u16) -> u16 {
        let directory = stream.directory.saturating_sub(1);
        match self {
            By::Directory => directory.min(handles - 1),
            By::File => directory.wrapping_add(stream.file) % handles,
        }
    }
}

/// Handles available to writes: streams, or the handles of a reclaim group.
fn handles(profile: &Profile) -> u8 {
    match (profile.kind, &profile.streams, &profile.fdp) {
        (Kind::MultiStream, Some(streams), _) => streams.count,
        (Kind::Fdp, _, Some(fdp)) => fdp.handles,
        _ => 1,
    }
}

/// Checks that `policy` can choose handles on a drive of `profile`.
///
/// # Errors
/// Why not, and what can.
fn check(policy: &Policy, profile: &Profile) -> Result<(), String> {
    if !Tagger::suits(policy) {
        let able: Vec<String> = Policy::list()
            .iter()
            .filter(|(policy, _)| Tagger::suits(policy))
            .map(|(policy, _)| policy.to_string())
            .collect();
        return Err(format!(
            "it tells host writes apart by what garbage collection does, which is the drive's here and not seen, or \
             not at all; a tag layer takes tenant, file, directory, {}, volume, hint",
            able.join(", ")
        ));
    }
    match &profile.fdp {
        Some(fdp) if fdp.groups > 1 => Err(format!(
            "a policy needs all handles in one reclaim group, {} has {} groups; set device.fdp.groups=1",
            profile.name, fdp.groups
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use thermocline_record::RunRecord;
    use thermocline_types::{Bytes, StreamId, TenantId, Time};
    use thermocline_workload::synthetic::{Limit, Options, Spec};

    use super::*;
    use crate::{Input, Prepared, Settings, run};

    fn placed(name: &str, handles: u8) -> Tagger {
        let stack = Stack::parse("tag:pm9d3", &[]).unwrap();
        let cut = Cut::new(&stack.profile, Some(Bytes::mib(256))).unwrap();
        Tagger::new(name.parse().unwrap(), handles, &cut)
    }

    fn write(block: u64, blocks: u64) -> Request {
        Request {
            at: Time::ZERO,
            offset: Bytes(block * Bytes::BLOCK.0),
            length: Bytes(blocks * Bytes::BLOCK.0),
            tenant: TenantId(0),
            stream: StreamId::UNKNOWN,
            op: Op::Write,
            outstanding: None,
        }
    }

    #[test]
    fn files_have_handles_in_turn_and_directories_their_own() {
        let stream = |directory, file| StreamId { directory, file };
        let all = [stream(0, 0), stream(1, 0), stream(1, 1), stream(2, 0), stream(9, 4)];
        assert_eq!(all.map(|stream| By::Directory.handle(stream, 4)), [0, 0, 0, 1, 3]);
        assert_eq!(all.map(|stream| By::File.handle(stream, 4)), [0, 0, 1, 1, 0]);
    }

    #[test]
    fn files_of_one_kind_in_a_stream_of_their_own_lower_write_amplification() {
        let span = Bytes::mib(512);
        let waf = |stack: &str| {
            let drive = ["unit=2MiB", "gc.separate=false", "buffer.merge=false", "op=0.2"];
            let stack = Stack::parse(stack, &drive.map(|set| format!("device.{set}"))).unwrap();
            let keys = "memtable=2MiB,keys=12%,fs.discard=off,fs.extent=512KiB,fs.turn=128KiB";
            let spec = format!("lsm:tier.small=0,log.segment=1MiB,{keys}").parse().unwrap();
            let options = Options::new(span, Limit::drive_writes(6.0, span).unwrap());
            let input = Input::Synthetic { spec, options };
            let mut workload = Prepared::new(input, None, Bytes::BLOCK, None).unwrap();
            run(&mut workload, &stack.untimed(), &Settings::default(), &mut |_| {}).unwrap().waf
        };
        let (raw, directory) = (waf("raw:pm9d3"), waf("tag:pm9d3,tag.placement=directory"));
        assert!(directory < raw, "{directory:?} against {raw:?}");
        assert!(waf("tag:pm9d3,tag.placement=file") != raw);
        let stack = Stack::parse("tag:pm9d3,tag.placement=file", &[]).unwrap();
        let options = Options::new(span, Limit::Writes(1));
        let input = Input::Synthetic { spec: Spec::load("uniform").unwrap(), options };
        let mut workload = Prepared::new(input, None, Bytes::BLOCK, None).unwrap();
        let error = run(&mut workload, &stack, &Settings::default(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("does not know its files"), "{error}");
    }

    #[test]
    fn a_command_goes_where_most_of_its_blocks_do_and_classes_share_the_last_handle() {
        let mut dac = placed("dac:6", 3);
        // A level up with every write: the last three classes share handle 2.
        let levels: Vec<u16> = (0..6).map(|_| dac.handle(&[write(0, 1)])).collect();
        let mut alone = placed("dac:6", 6);
        let own: Vec<u16> = (0..6).map(|_| alone.handle(&[write(0, 1)])).collect();
        assert_ne!(own[0], own[5]);
        let clamped: Vec<u16> = own.iter().map(|&handle| handle.min(2)).collect();
        assert_eq!(levels, clamped);
        // One hot block and two new ones, then two hot ones and a new one in two pieces.
        let new = placed("dac:6", 6).handle(&[write(0, 1)]);
        assert_eq!(alone.handle(&[write(0, 3)]), new);
        (0..5).for_each(|_| _ = alone.handle(&[write(8, 1)]));
        let hot = alone.handle(&[write(8, 1)]);
        assert_eq!(alone.handle(&[write(8, 1), write(0, 1), write(20, 1)]), hot);
    }

    fn hot_and_cold(stack: &str) -> RunRecord {
        // Survivors stay in their stream, and units are cleaned by age: greedy gains little from separation alone.
        let drive = ["buffer.merge=false", "gc.separate=false", "gc.victim=kawaguchi"];
        let stack = Stack::parse(stack, &drive.map(|set| format!("device.{set}"))).unwrap();
        let stack = stack.untimed();
        let span = Bytes::mib(256);
        let options = Options::new(span, Limit::drive_writes(8.0, span).unwrap());
        let input = Input::Synthetic { spec: Spec::load("hotcold:10:90").unwrap(), options };
        let mut workload = Prepared::new(input, None, Bytes::BLOCK, None).unwrap();
        run(&mut workload, &stack, &Settings::default(), &mut |_| {}).unwrap()
    }

    #[test]
    fn streams_chosen_by_a_policy_lower_write_amplification_and_repeat_exactly() {
        let waf = |stack: &str| hot_and_cold(stack).lasting.waf.expect("something was written");
        let raw = waf("raw:pm9d3");
        for policy in ["dac:6", "sfr:9", "mq:9", "auto"] {
            let stack = format!("tag:pm9d3,tag.placement={policy}");
            let record = hot_and_cold(&stack);
            let tagged = record.lasting.waf.expect("something was written");
            assert!(tagged < 0.7 * raw, "{policy}: {tagged} against {raw}");
            assert_eq!(record.config["tag.placement"], policy);
            let again = hot_and_cold(&stack);
            assert_eq!(record.media_bytes_written, again.media_bytes_written, "{policy}");
            assert_eq!(record.series, again.series, "{policy}");
        }
        // A stream means the same under every rule: data that survived an earlier rule does not mix with hot data.
        let near = waf("tag:pm9d3,tag.placement=auto") / waf("tag:pm9d3,tag.placement=dac:6");
        assert!(near < 1.05, "auto takes {near} times what dac does");
        // One tenant has one handle.
        assert!((waf("tag:pm9d3") - raw).abs() < 1e-12);
    }

    #[test]
    fn being_told_beats_finding_out_where_volumes_are_exact() {
        let spec = "tenant = [{workload='uniform', span='10%', share=9}, {workload='uniform'}]";
        let span = Bytes::mib(256);
        let options = Options::new(span, Limit::drive_writes(8.0, span).unwrap());
        let input = Input::Synthetic { spec: Spec::from_toml(spec).unwrap(), options };
        let stack = |text: &str| {
            let drive = ["buffer.merge=false", "gc.separate=false", "gc.victim=kawaguchi"];
            Stack::parse(text, &drive.map(|set| format!("device.{set}"))).unwrap()
        };
        let waf_of = |stack: Stack| {
            let mut workload = Prepared::new(input.clone(), None, Bytes::BLOCK, None).unwrap();
            let record =
                run(&mut workload, &stack.untimed(), &Settings::default(), &mut |_| {}).unwrap();
            record.lasting.waf.expect("something was written")
        };
        let waf = |text: &str| waf_of(stack(text));
        let (raw, volume) = (waf("raw:pm9d3"), waf("tag:pm9d3,tag.placement=volume"));
        assert!(volume < 0.7 * raw, "{volume} against {raw}");
        assert!(volume < waf("tag:pm9d3,tag.placement=auto"));
        // Each tenant has a class of its own, and a number: it is all the same.
        for same in ["hint", "tenant"] {
            let waf = waf(&format!("tag:pm9d3,tag.placement={same}"));
            assert!((waf / volume - 1.0).abs() < 1e-12, "{same}: {waf} against {volume}");
        }
        // The log has an open unit for each handle.
        let mut log = stack("log:pm9d3,log.unit=2MiB");
        log.tag_by("volume").unwrap();
        let (told, mixed) = (waf_of(log), waf("log:pm9d3,log.unit=2MiB,pool.placement=sepgc"));
        assert!(told < 0.9 * mixed, "{told} against {mixed}");
    }

    #[test]
    fn policies_that_need_the_drives_collection_are_refused_by_name() {
        let stack = Stack::parse("tag:pm9d3", &[]).unwrap();
        for (policy, _) in Policy::list() {
            let done = stack.clone().place(&policy.to_string());
            assert_eq!(done.is_ok(), Tagger::suits(&policy), "{policy}");
            if let Err(error) = done {
                let text = error.to_string();
                assert!(text.contains("auto, ") && text.contains(&policy.to_string()), "{text}");
            }
        }
        let error = Stack::parse("tag:pm9d3,tag.placement=sepbit", &[]).unwrap_err().to_string();
        assert!(error.contains("dac:6"), "{error}");
    }
}

//! The arguments of a run as a specification, and back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use anyhow::{Context, ensure};
use sha2::{Digest as _, Sha256};
use thermocline_record::{RunSpec, SPEC_SCHEMA, WorkloadSpec};
use thermocline_types::{Bytes, Time};
use thermocline_workload::trace::BuiltIn;

use super::{DeviceArgs, ReplayArgs, SourceArgs, parse_prefill};

/// Everything that decides a run.
#[derive(Clone)]
pub struct RunOf {
    /// The stack's text.
    pub stack: String,
    /// Where requests come from.
    pub source: SourceArgs,
    /// How they are put on the drive.
    pub replay: ReplayArgs,
    /// What they run on.
    pub device: DeviceArgs,
}

/// Version of this program, as specifications and records name it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl RunOf {
    /// The specification of this run, with the hashes of the files that it reads.
    ///
    /// # Errors
    /// When there is no workload, or a file cannot be read.
    pub fn spec(&self) -> anyhow::Result<RunSpec> {
        let RunOf { stack, source, replay, device } = self;
        let workload = workload(source, replay)?;
        Ok(RunSpec {
            schema: SPEC_SCHEMA.into(),
            version: VERSION.into(),
            stack: stack.clone(),
            set: device.set.clone(),
            placement: device.placement.clone(),
            tag_by: device.tag_by.clone(),
            victim: device.victim.map(|victim| victim.to_string()),
            files: files(stack, &workload)?,
            workload,
            prefill: replay.prefill.map(|prefill| prefill.name().into()),
            at_rest: replay.at_rest,
            capacity_bytes: device.capacity.map(|size| size.0),
            fast_capacity_bytes: device.fast_capacity.map(|size| size.0),
            utilisation: device.utilisation,
            queue_depth: device.queue_depth,
            think_us: device.think.map(micros),
            speed: device.speed,
            daily_writes_bytes: device.daily_writes.map(|size| size.0),
            seed: source.seed,
        })
    }

    /// The command that runs this: `lab run` with what differs from its defaults, but for what only traces have.
    pub fn command(&self) -> String {
        let RunOf { stack, source, replay, device } = self;
        let mut words = vec!["thermocline lab run --stack".to_owned(), stack.clone()];
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.push(format!("--{name} {value}"));
            }
        };
        let size = |size: Option<Bytes>| size.map(|size| size.0.to_string());
        add("trace", source.trace.as_ref().map(|path| path.display().to_string()));
        add("workload", source.workload.clone());
        add("span", size(source.span));
        add("drive-writes", source.drive_writes.map(|times| times.to_string()));
        add("writes", source.writes.map(|writes| writes.to_string()));
        add("requests", source.requests.map(|requests| requests.to_string()));
        add("io-size", size(source.io_size));
        let share = |share: f64| (share > 0.0).then(|| share.to_string());
        add("read-share", share(source.read_share));
        add("trim-share", share(source.trim_share));
        add("rate", source.rate.map(|rate| rate.to_string()));
        add("burst", size(source.burst));
        add("idle", source.idle.map(|idle| format!("{}us", micros(idle))));
        add("seed", (source.seed != 1).then(|| source.seed.to_string()));
        add("prefill", replay.prefill.map(|prefill| prefill.name().to_owned()));
        add("at-rest", replay.at_rest.map(|share| share.to_string()));
        add("think", device.think.map(|think| format!("{}us", micros(think))));
        add("queue-depth", device.queue_depth.map(|depth| depth.to_string()));
        add("utilisation", (device.utilisation < 1.0).then(|| device.utilisation.to_string()));
        add("capacity", size(device.capacity));
        add("fast-capacity", size(device.fast_capacity));
        add("victim", device.victim.map(|victim| victim.to_string()));
        add("placement", device.placement.clone());
        add("tag-by", device.tag_by.clone());
        add("speed", device.speed.map(|speed| speed.to_string()));
        add("daily-writes", size(device.daily_writes));
        device.set.iter().for_each(|set| add("set", Some(set.clone())));
        words.join(" ")
    }

    /// The run that `spec` describes.
    ///
    /// # Errors
    /// When a name in it is unknown here.
    pub fn of(spec: &RunSpec) -> anyhow::Result<RunOf> {
        let device = DeviceArgs {
            set: spec.set.clone(),
            capacity: spec.capacity_bytes.map(Bytes),
            fast_capacity: spec.fast_capacity_bytes.map(Bytes),
            utilisation: spec.utilisation,
            victim: spec.victim.as_ref().map(|name| name.parse()).transpose()?,
            placement: spec.placement.clone(),
            tag_by: spec.tag_by.clone(),
            queue_depth: spec.queue_depth,
            think: spec.think_us.map(Time::micros_f64),
            speed: spec.speed,
            daily_writes: spec.daily_writes_bytes.map(Bytes),
            of_pool: false,
        };
        let prefill = spec.prefill.as_deref().map(parse_prefill).transpose();
        let prefill = prefill.map_err(anyhow::Error::msg)?;
        let source = SourceArgs { seed: spec.seed, ..SourceArgs::default() };
        let replay =
            ReplayArgs { prefill, loops: None, at_rest: spec.at_rest, ..ReplayArgs::default() };
        let (source, replay) = match &spec.workload {
            WorkloadSpec::Trace { path, format, volume, skip_bad, remap, loops, ignore_trims } => {
                let source = SourceArgs {
                    trace: Some(path.into()),
                    format: format.as_ref().map(|name| name.parse()).transpose()?,
                    skip_bad: *skip_bad,
                    volume: volume.clone(),
                    ..source
                };
                let (loops, ignore_trims) = (*loops, *ignore_trims);
                (source, ReplayArgs { loops, remap: remap.parse()?, ignore_trims, ..replay })
            }
            WorkloadSpec::Generator {
                generator,
                span_bytes,
                drive_writes,
                writes,
                requests,
                io_size_bytes,
                read_share,
                trim_share,
                rate,
                burst_bytes,
                idle_us,
            } => {
                let source = SourceArgs {
                    workload: Some(generator.clone()),
                    span: span_bytes.map(Bytes),
                    drive_writes: *drive_writes,
                    writes: *writes,
                    requests: *requests,
                    io_size: io_size_bytes.map(Bytes),
                    read_share: *read_share,
                    trim_share: *trim_share,
                    rate: *rate,
                    burst: burst_bytes.map(Bytes),
                    idle: idle_us.map(Time::micros_f64),
                    ..source
                };
                (source, replay)
            }
        };
        Ok(RunOf { stack: spec.stack.clone(), source, replay, device })
    }
}

fn micros(time: Time) -> f64 {
    time.0 as f64 / 1e3
}

/// Reads a specification, or the record of a run that holds one, and checks that its files are those it names.
///
/// # Errors
/// When it cannot be read, or a file is missing or another.
pub fn load(path: &Path) -> anyhow::Result<RunSpec> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| unreadable(&shown.to_string(), &error))?;
    let spec = RunSpec::from_json(&text).with_context(|| format!("{shown} specifies no run"))?;
    for (file, expected) in &spec.files {
        let found = hash_of(file)?;
        ensure!(
            found == *expected,
            "{file} is not the file that {shown} was written for: SHA-256 {expected}, and now {found}; bring that file \
             back, or print a new specification with `thermocline lab run ... --print-spec`"
        );
    }
    if spec.version != VERSION {
        eprintln!(
            "note: {shown} was written by version {}, this is {VERSION}: figures may differ",
            spec.version
        );
    }
    Ok(spec)
}

fn workload(source: &SourceArgs, replay: &ReplayArgs) -> anyhow::Result<WorkloadSpec> {
    // Says what is wrong with the arguments before they are written down.
    source.input(replay)?;
    Ok(match (&source.trace, &source.workload) {
        (Some(path), _) => WorkloadSpec::Trace {
            path: path.to_str().context("the trace's path is no text")?.to_owned(),
            format: source.format.map(|format| format.to_string()),
            volume: source.volume.clone(),
            skip_bad: source.skip_bad,
            remap: replay.remap.to_string(),
            loops: replay.loops,
            ignore_trims: replay.ignore_trims,
        },
        (None, workload) => WorkloadSpec::Generator {
            generator: workload.clone().context("there is no workload")?,
            span_bytes: source.span.map(|size| size.0),
            drive_writes: source.drive_writes,
            writes: source.writes,
            requests: source.requests,
            io_size_bytes: source.io_size.map(|size| size.0),
            read_share: source.read_share,
            trim_share: source.trim_share,
            rate: source.rate,
            burst_bytes: source.burst.map(|size| size.0),
            idle_us: source.idle.map(micros),
        },
    })
}

/// The files that the run reads, with their hashes: the trace or the file of tenants, and profiles.
fn files(stack: &str, workload: &WorkloadSpec) -> anyhow::Result<BTreeMap<String, String>> {
    let devices = stack.split_once(':').map_or("", |(_, rest)| rest);
    let devices = devices.split(',').next().unwrap_or_default().split('+');
    let is_path = |name: &&str| name.ends_with(".toml") || name.contains('/');
    let mut read: Vec<&str> = devices.filter(is_path).collect();
    match workload {
        WorkloadSpec::Trace { path, .. } if path != "-" => read.push(path),
        WorkloadSpec::Generator { generator, .. } if generator.ends_with(".toml") => {
            read.push(generator);
        }
        _ => {}
    }
    read.into_iter().map(|name| Ok((name.to_owned(), hash_of(name)?))).collect()
}

/// SHA-256 of a file, or of a trace that comes with the program.
fn hash_of(name: &str) -> anyhow::Result<String> {
    if let Some(trace) = BuiltIn::named(Path::new(name)) {
        return Ok(hash(trace.bytes()));
    }
    let file = File::open(name).map_err(|error| unreadable(name, &error))?;
    let (mut file, mut hasher) = (BufReader::new(file), Sha256::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(|error| unreadable(name, &error))? {
            0 => return Ok(hexadecimal(&hasher.finalize())),
            length => hasher.update(&buffer[..length]),
        }
    }
}

/// What cannot be read is wrong input, which an error of the system by itself would not say.
fn unreadable(name: &str, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot read {name}: {error}")
}

/// SHA-256 of `bytes` in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[arg(long)]
        stack: String,
        #[command(flatten)]
        source: SourceArgs,
        #[command(flatten)]
        replay: ReplayArgs,
        #[command(flatten)]
        device: DeviceArgs,
    }

    fn parsed(words: &str) -> RunOf {
        let words = std::iter::once("test").chain(words.split_whitespace());
        let Words { stack, source, replay, device } = Words::parse_from(words);
        RunOf { stack, source, replay, device }
    }

    /// Every argument that decides a run is in its specification: what is read back gives the same one.
    #[test]
    fn a_specification_gives_the_run_that_it_was_written_for() {
        let all = [
            "--stack tag:pm9d3,op=0.2 --trace postgres-tpcc --volume a --skip-bad --format csv --loops 3 --remap fold \
             --ignore-trims --prefill none --at-rest 0.375 --think 1500us --capacity 7GiB --victim fifo --placement volume --queue-depth 9 \
             --daily-writes 3GB --seed 18446744073709551615 --set device.unit=2MiB --set log.write_depth=4",
            "--stack tier:p5800x+p5316 --workload zipf:0.99 --span 3GiB --drive-writes 2.5 --io-size 8KiB \
             --read-share 0.25 --trim-share 0.125 --rate 1000.5 --speed 1.25 --utilisation 0.75 --fast-capacity 1GiB",
            "--stack tag:pm9d3 --workload uniform --writes 77 --tag-by volume --burst 5MiB --idle 777us",
            "--stack raw:p5316 --workload uniform --requests 99 --read-share 1",
        ];
        for words in all {
            let words = words.replace("--format csv", "--format thermocline-csv");
            let spec = parsed(&words).spec().unwrap();
            let again = RunOf::of(&RunSpec::from_json(&spec.to_json()).unwrap()).unwrap();
            assert_eq!(again.spec().unwrap(), spec, "{words}");
            let text = spec.to_json();
            for word in words.split_whitespace().filter(|word| !word.starts_with("--")) {
                let bytes =
                    word.parse::<Bytes>().map_or(word.to_owned(), |size| size.0.to_string());
                let time = word.strip_suffix("us").unwrap_or(word);
                let found = [word, &bytes, time].iter().any(|form| text.contains(*form));
                assert!(found, "{word} is not in {text}");
            }
        }
    }

    #[test]
    fn files_are_named_with_their_hashes() {
        let spec = parsed("--stack raw:p5316 --trace cassandra-ycsb-a").spec().unwrap();
        let hash = &spec.files["cassandra-ycsb-a"];
        assert!(hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()));
        // The published value for no bytes at all.
        assert!(super::hash(b"").starts_with("e3b0c44298fc1c14"));
        let missing = parsed("--stack raw:none.toml --workload uniform").spec().unwrap_err();
        assert!(missing.to_string().contains("none.toml"), "{missing}");
    }
}

//! A run as command-line arguments and as a specification.

use std::path::Path;

use thermocline_lab::spec::{self, Planned};
use thermocline_record::RunSpec;
use thermocline_types::{Bytes, Time};

use super::{DeviceArgs, ReplayArgs, SourceArgs, micros, of_arguments};

/// Everything that decides a run.
#[derive(Clone)]
pub struct RunOf {
    /// The stack's text.
    pub stack: String,
    /// The source of the requests.
    pub source: SourceArgs,
    /// The replay of the requests.
    pub replay: ReplayArgs,
    /// The simulated device.
    pub device: DeviceArgs,
}

impl RunOf {
    /// The specification of this run, without the hashes of its input files.
    ///
    /// # Errors
    /// When there is no workload.
    pub fn spec(&self) -> anyhow::Result<RunSpec> {
        let workload = self.source.workload(&self.replay)?;
        Ok(RunSpec {
            prefill: self.replay.prefill.map(|prefill| prefill.name().into()),
            at_rest: self.replay.at_rest,
            seed: self.source.seed,
            ..self.device.fill(RunSpec::new(&self.stack, workload))
        })
    }

    /// The run, ready to begin.
    ///
    /// # Errors
    /// When an argument is wrong.
    pub fn planned(&self) -> anyhow::Result<Planned> {
        let mut planned = Planned::of(&self.spec()?).map_err(of_arguments)?;
        planned.settings.of_pool = self.device.of_pool;
        Ok(planned)
    }

    /// The `lab run` command of this run, with all arguments other than defaults, except arguments for traces alone.
    pub fn command(&self) -> String {
        let RunOf { stack, source, replay, device } = self;
        let mut words = vec!["thermocline lab run --stack".to_owned(), stack.clone()];
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.push(format!("--{name} {value}"));
            }
        };
        let size = |size: Option<Bytes>| size.map(Bytes::compact);
        let time = |time: Option<Time>| time.map(|time| format!("{}us", micros(time)));
        add("trace", source.trace.as_ref().map(|path| path.display().to_string()));
        add("from", time(source.from));
        add("until", time(source.until));
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
        add("idle", time(source.idle));
        add("seed", (source.seed != 1).then(|| source.seed.to_string()));
        add("prefill", replay.prefill.map(|prefill| prefill.name().to_owned()));
        add("at-rest", replay.at_rest.map(|share| share.to_string()));
        add("think", time(device.think));
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
}

/// As [`spec::load`]. If another version wrote the specification, prints that version on standard error.
///
/// # Errors
/// As there, with a remedy.
pub fn load(path: &Path) -> anyhow::Result<RunSpec> {
    let spec = spec::load(path).map_err(of_arguments)?;
    if spec.version != RunSpec::VERSION {
        eprintln!(
            "note: {} was written by version {}, this is {}: figures may differ",
            path.display(),
            spec.version,
            RunSpec::VERSION
        );
    }
    Ok(spec)
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

    /// Every argument that decides a run is in its specification, and the specification can be run.
    #[test]
    fn a_specification_gives_the_run_that_it_was_written_for() {
        let all = [
            "--stack tag:pm9d3,op=0.2 --trace postgres-tpcc --volume a --skip-bad --format csv --loops 3 --remap fold \
             --ignore-trims --prefill none --at-rest 0.375 --think 1500us --capacity 7GiB --victim fifo --placement volume --queue-depth 9 \
             --daily-writes 3GB --seed 18446744073709551615 --set device.unit=2MiB --set pool.write_depth=4",
            "--stack tier:p5800x+p5316 --workload zipf:0.99 --span 3GiB --drive-writes 2.5 --io-size 8KiB \
             --read-share 0.25 --trim-share 0.125 --rate 1000.5 --speed 1.25 --utilisation 0.75 --fast-capacity 1GiB",
            "--stack tag:pm9d3 --workload uniform --writes 77 --tag-by volume --burst 5MiB --idle 777us",
            "--stack raw:p5316 --workload uniform --requests 99 --read-share 1",
        ];
        for words in all {
            let words = words.replace("--format csv", "--format thermocline-csv");
            let spec = parsed(&words).spec().unwrap();
            assert_eq!(RunSpec::from_json(&spec.to_json()).unwrap(), spec, "{words}");
            Planned::of(&spec).map_err(of_arguments).unwrap();
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
}

//! The answers, from measurements, and from closed forms for effects that are not simulated.

mod heat;
mod life;

use serde::Serialize;
use thermocline_nand::Profile;
use thermocline_record::RunRecord;
use thermocline_types::Bytes;

use super::Sheet;
use super::questions::{Measure, Question};
use crate::table::nanos;

/// An answer to one question.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The question.
    pub question: &'static str,
    /// The answer in a sentence.
    pub finding: String,
    /// Heads of the columns.
    pub heads: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row of an answer.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The cells of the row. The first cell is the label.
    pub cells: Vec<String>,
    /// The command that repeats the row's run.
    pub command: Option<String>,
    /// The key of the row's stated value, prefixed with the name of the profile or other owner.
    pub value: Option<String>,
}

/// Every answer, sixteen.
pub fn answers(sheet: &Sheet) -> Vec<Answer> {
    let mut all = vec![
        sheet.by_size(Question::Reads, "How fast does it read, by size?"),
        sheet.by_size(Question::Writes, "How fast does it write in the long run, by size?"),
        sheet.mix(),
        sheet.burst(),
        sheet.rated(Question::Relation, "How do writes follow each other?", "writes of 4 KiB"),
        sheet.depth(),
        sheet.rated(Question::Reserve, "How much is held in reserve?", "random writes of 4 KiB"),
        sheet.latency(),
    ];
    all.extend(life::answers(sheet));
    all.push(sheet.throttling());
    all.push(sheet.conditions());
    all
}

/// Read and write bandwidth together over the second half of a run, in bytes a second; over the whole run if that is
/// less. At the end of a short run buffers hold data that the drive has yet to write, so the second half looks too
/// fast.
pub fn late_rate(record: &RunRecord) -> f64 {
    let all = &record.series;
    let whole = record
        .bandwidth
        .as_ref()
        .map_or(0.0, |rates| rates.host_read_bytes_per_second + rates.host_write_bytes_per_second);
    let written = record.host_bytes_written as f64;
    // Points lie at the ends of equal parts, so the first half has half of the points.
    let half = all.len().saturating_sub(1) / 2;
    let (Some(from), Some(to)) = (all.get(half), all.last()) else { return whole };
    let seconds = to.seconds - from.seconds;
    if seconds <= 0.0 || written <= 0.0 {
        return whole;
    }
    let late = (to.host_bytes - from.host_bytes) as f64 / seconds;
    whole.min(late * (written + record.host_bytes_read as f64) / written)
}

/// Whether the measure's requests are 4 KiB each.
fn is_block(measure: &Measure) -> bool {
    measure.label == Bytes::BLOCK.to_string()
}

fn mb(bytes_per_second: f64) -> String {
    match bytes_per_second / 1e6 {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate => format!("{rate:.1}"),
    }
}

fn kiops(record: &RunRecord) -> String {
    let bytes = record.host_bytes_read + record.host_bytes_written;
    let size = bytes as f64 / record.requests.max(1) as f64;
    format!("{:.1}", late_rate(record) / size / 1e3)
}

fn waf(record: &RunRecord) -> String {
    let mark = if record.steady_state.reached { "" } else { "~" };
    record.lasting.waf.map_or("-".into(), |waf| format!("{mark}{waf:.2}"))
}

/// The limit where no resource of the drive is always busy.
const IN_FLIGHT: &str = "requests in flight";

/// The resource that limited a run, in words for readers who do not know a drive's resources.
fn limit(record: &RunRecord) -> String {
    let limit = record.bandwidth.as_ref().and_then(|rates| rates.limit.as_deref());
    match limit {
        None => "-",
        Some("dies") => "flash dies",
        Some("program_power") => "power for programs",
        Some("link" | "link_in" | "link_out") => "link to the host",
        Some("host") => IN_FLIGHT,
        Some(other) => other,
    }
    .into()
}

fn row(measure: &Measure, cells: Vec<String>) -> Row {
    let cells = std::iter::once(measure.label.clone()).chain(cells).collect();
    Row { cells, command: Some(measure.run.command()), value: None }
}

fn stated(cells: &[&str]) -> Row {
    Row { cells: cells.iter().map(|cell| (*cell).to_owned()).collect(), command: None, value: None }
}

/// A row that states the value of `key`.
fn stated_by(key: String, cells: &[&str]) -> Row {
    Row { value: Some(key), ..stated(cells) }
}

impl Sheet {
    /// The runs of `question`.
    pub fn of(&self, question: Question) -> impl Iterator<Item = &(Measure, RunRecord)> {
        self.measured.iter().filter(move |(measure, _)| measure.question == question)
    }

    /// The limit of a run. If a run only writes, and more requests in flight bring no speed, the log is the limit.
    fn limit(&self, record: &RunRecord) -> String {
        let limit = limit(record);
        let writes_alone = record.host_bytes_read == 0;
        match writes_alone && limit == IN_FLIGHT && self.more_in_flight_gain_nothing() {
            true => "the log, not the drive".into(),
            false => limit,
        }
    }

    /// Whether writes are as fast at the lowest depth as at the highest, and the drive limits no write.
    fn more_in_flight_gain_nothing(&self) -> bool {
        let writes = self.of(Question::Depth).filter(|(m, _)| m.label.ends_with("writes"));
        let (rates, limits): (Vec<f64>, Vec<String>) =
            writes.map(|(_, record)| (late_rate(record), limit(record))).unzip();
        let ends = rates.first().zip(rates.last());
        limits.iter().all(|limit| limit == IN_FLIGHT)
            && ends.is_some_and(|(fewest, most)| *most < 1.1 * fewest)
    }

    fn by_size(&self, question: Question, text: &'static str) -> Answer {
        let cells = |(measure, record): &(Measure, RunRecord)| {
            let cells = vec![mb(late_rate(record)), kiops(record), waf(record), self.limit(record)];
            row(measure, cells)
        };
        let best = self.of(question).max_by(|a, b| late_rate(&a.1).total_cmp(&late_rate(&b.1)));
        let small = self.of(question).find(|(measure, _)| is_block(measure));
        let (best, small) = best.zip(small).expect("both were run");
        Answer {
            question: text,
            finding: format!(
                "{} MB/s at most ({}), {} thousand a second of 4 KiB in random places",
                mb(late_rate(&best.1)),
                best.0.label,
                kiops(&small.1)
            ),
            heads: vec![
                "random unless said, 64 in flight",
                "MB/s",
                "thousand requests a second",
                "WAF",
                "limit",
            ],
            rows: self.of(question).map(cells).collect(),
        }
    }

    fn mix(&self) -> Answer {
        let rates: Vec<f64> = self.of(Question::Mix).map(|(_, record)| late_rate(record)).collect();
        let rows = self.of(Question::Mix).map(|(measure, record)| {
            row(
                measure,
                vec![mb(late_rate(record)), kiops(record), waf(record), self.limit(record)],
            )
        });
        Answer {
            question: "How does it do with reads and writes mixed?",
            finding: of_mixes(&rates),
            heads: vec![
                "4 KiB, random, 64 in flight",
                "MB/s",
                "thousand requests a second",
                "WAF",
                "limit",
            ],
            rows: rows.collect(),
        }
    }

    fn burst(&self) -> Answer {
        let (measure, record) = self.of(Question::Burst).next().expect("it was run");
        let (first, last) = (first_rate(record), late_rate(record));
        let lasts = format!("{:.2}", burst_lasts(record, last));
        let finding = if first > 1.1 * last {
            format!(
                "a drive that was erased writes {:.1} times as fast at first as in the long run, which it comes to \
                 after {lasts} capacities",
                first / last
            )
        } else {
            "a drive that was erased is no faster at first".into()
        };
        let rows = vec![row(measure, vec![mb(first), lasts, mb(last), waf(record)])];
        Answer {
            question: "Is that a burst, or steady?",
            finding,
            heads: vec![
                "random writes of 4 KiB",
                "MB/s at first",
                "faster until capacities written",
                "MB/s later",
                "WAF",
            ],
            rows,
        }
    }

    /// Rates and write amplification of writes.
    fn rated(&self, question: Question, text: &'static str, head: &'static str) -> Answer {
        let all: Vec<&(Measure, RunRecord)> = self.of(question).collect();
        let rate = |pair: &&&(Measure, RunRecord)| late_rate(&pair.1);
        let best = all.iter().max_by(|a, b| rate(a).total_cmp(&rate(b))).expect("runs");
        let worst = all.iter().min_by(|a, b| rate(a).total_cmp(&rate(b))).expect("runs");
        let rows = all.iter().map(|(measure, record)| {
            row(measure, vec![mb(late_rate(record)), waf(record), self.limit(record)])
        });
        Answer {
            question: text,
            finding: format!(
                "from {} MB/s ({}) to {} MB/s ({})",
                mb(rate(&worst)),
                worst.0.label,
                mb(rate(&best)),
                best.0.label
            ),
            heads: vec![head, "MB/s", "WAF", "limit"],
            rows: rows.collect(),
        }
    }

    fn depth(&self) -> Answer {
        let cells = |(measure, record): &(Measure, RunRecord)| {
            let kind = if measure.label.ends_with("reads") { "read" } else { "write" };
            row(
                measure,
                vec![kiops(record), percentile(record, kind, |ns| ns.p99), self.limit(record)],
            )
        };
        let of = |what: &str| {
            let runs = self.of(Question::Depth).filter(|(m, _)| m.label.ends_with(what));
            let rates: Vec<f64> = runs.map(|(_, record)| late_rate(record)).collect();
            rates[rates.len() - 1] / rates[0]
        };
        Answer {
            question: "How does it scale with requests in flight?",
            finding: format!(
                "from one to the most in flight, reads get {:.1} and writes {:.1} times as fast",
                of("reads"),
                of("writes")
            ),
            heads: vec![
                "4 KiB, random, in flight",
                "thousand requests a second",
                "99 % within",
                "limit",
            ],
            rows: self.of(Question::Depth).map(cells).collect(),
        }
    }

    fn latency(&self) -> Answer {
        let mut rows = Vec::new();
        for (measure, record) in self.of(Question::Latency) {
            for kind in ["read", "write"] {
                if record.latency_ns.as_ref().is_none_or(|all| !all.contains_key(kind)) {
                    continue;
                }
                let cells = vec![
                    kind.to_owned(),
                    percentile(record, kind, |ns| ns.p50),
                    percentile(record, kind, |ns| ns.p99),
                    percentile(record, kind, |ns| ns.p99_9),
                    percentile(record, kind, |ns| ns.p99_99),
                ];
                rows.push(row(measure, cells));
            }
        }
        let finding = format!("half of the reads alone take {}", rows[0].cells[2]);
        let heads = vec!["4 KiB, random", "kind", "50 % within", "99 %", "99.9 %", "99.99 %"];
        Answer { question: "How long do requests take?", finding, heads, rows }
    }

    /// Throttling by power, program rate and bottleneck, and limits of the model.
    fn throttling(&self) -> Answer {
        let mut rows = Vec::new();
        for profile in self.profiles() {
            let timing = profile.timing.as_ref();
            let power = timing.and_then(|timing| timing.program_mb_per_s);
            let power = power.map_or("none stated".into(), |rate| format!("{rate} MB/s"));
            let label = format!("{}: all dies together program", profile.name);
            let key = format!("{}.timing.program_mb_per_s", profile.name);
            rows.push(stated_by(key, &[&label, &power]));
            if let Ok(price) = self.prices.drive(&profile.name) {
                let watts = format!("{} W idle, {} W at its limit", price.idle_w, price.active_w);
                let key = format!("drive.{}.active_w", profile.name);
                rows.push(stated_by(key, &[&format!("{}: power", profile.name), &watts]));
            }
        }
        let watts: f64 = self
            .profiles()
            .filter_map(|p| self.prices.drive(&p.name).ok())
            .map(|p| p.active_w)
            .sum();
        let small = self.of(Question::Reads).find(|(measure, _)| is_block(measure));
        if let Some((measure, record)) = small.filter(|_| watts > 0.0) {
            let per_watt = late_rate(record) / 4096.0 / watts;
            let cells = vec![format!("{per_watt:.0}")];
            let labelled = row(measure, cells);
            let cells = vec!["4 KiB reads a second and watt".into(), labelled.cells[1].clone()];
            rows.push(Row { cells, ..labelled });
        }
        let (heat, found) = self.heat();
        rows.extend(heat);
        Answer {
            question: "What holds it back: power, heat, its controller?",
            finding: format!("what limited each run stands beside it; {found}"),
            heads: vec!["limit", "value"],
            rows,
        }
    }

    fn conditions(&self) -> Answer {
        let (_, record) = &self.measured[0];
        let device = &record.device;
        let mut rows = vec![
            stated(&["stack", &self.stack.text]),
            stated(&[
                "product",
                &format!("{}, {}", device.title, Bytes(device.product_capacity_bytes)),
            ]),
            stated(&[
                "simulated",
                &format!(
                    "{} addressed, on a drive of {}, {:.0} % full, units of {}, overprovisioning {:.1} %",
                    self.span,
                    Bytes(device.capacity_bytes),
                    100.0 * device.utilisation.unwrap_or(1.0),
                    Bytes(device.unit_bytes),
                    100.0 * device.overprovisioning
                ),
            ]),
            stated(&["before", "filled in order; the burst is on an erased drive"]),
            stated(&[
                "measured",
                "rates over the later half of each run; ~ is a WAF before steady state (SNIA PTS)",
            ]),
            stated(&["version, seed", &format!("{}, {}", record.version, record.seed)]),
        ];
        if let Some(fast) = &record.fast {
            let text = format!(
                "{}, simulated at {}",
                fast.device.title,
                Bytes(fast.device.capacity_bytes)
            );
            rows.push(stated(&["fast device", &text]));
        }
        if !self.too_full.is_empty() {
            let text = format!("{}: the log needs more than the rest", self.too_full.join(", "));
            rows.push(stated(&["not run", &text]));
        }
        // The notes of one run with writes: notes differ little between runs.
        let written = self.of(Question::Writes).find(|(measure, _)| is_block(measure));
        rows.extend(written.iter().flat_map(|(_, r)| &r.notes).map(|note| stated(&["note", note])));
        Answer {
            question: "How was it tested?",
            finding: format!("{} runs in virtual time; no drive was touched", self.measured.len()),
            heads: vec!["condition", "value"],
            rows,
        }
    }

    /// The drives of the stack, the capacity drive first.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        std::iter::once(&self.stack.profile).chain(self.stack.fast.iter())
    }
}

/// Bandwidth over the first fiftieth of a run, in bytes a second.
fn first_rate(record: &RunRecord) -> f64 {
    let first = record.series.len().div_ceil(50).max(1) - 1;
    // Skip points at second 0: a memory buffer took their writes.
    let timed = record.series.iter().skip(first).find(|point| point.seconds > 0.0);
    timed.map_or_else(|| late_rate(record), |point| point.host_bytes as f64 / point.seconds)
}

/// Capacities written until the rate is first within a tenth of `last`, bytes a second.
fn burst_lasts(record: &RunRecord, last: f64) -> f64 {
    let (mut seconds, mut written) = (0.0, 0);
    for point in &record.series {
        if point.host_bytes_written as f64 <= 1.1 * last * (point.seconds - seconds) {
            break;
        }
        (seconds, written) = (point.seconds, point.host_bytes);
    }
    written as f64 / record.device.capacity_bytes as f64
}

fn percentile(
    record: &RunRecord,
    kind: &str,
    of: fn(&thermocline_record::LatencyNs) -> Option<u64>,
) -> String {
    let latency = record.latency_ns.as_ref().and_then(|all| all.get(kind));
    latency.map_or("-".into(), |latency| of(latency).map_or("in memory".into(), nanos))
}
/// Compares the rates of mixes with the rates of reads alone and writes alone.
fn of_mixes(rates: &[f64]) -> String {
    let &[reads, ref mixes @ .., writes] = rates else { unreachable!("both alone are measured") };
    let least = mixes.iter().copied().fold(f64::INFINITY, f64::min);
    let most = mixes.iter().copied().fold(0.0, f64::max);
    let (below, above) = (least < 0.98 * reads.min(writes), most > 1.02 * reads.max(writes));
    let how = match (below, above) {
        (true, true) => "fall below both and rise above both",
        (true, false) => "fall below both",
        (false, true) => "reach more than either",
        (false, false) => "lie between the two",
    };
    format!(
        "{} MB/s of reads alone, {} of writes alone; mixes {how}, {} to {}",
        mb(reads),
        mb(writes),
        mb(least),
        mb(most)
    )
}

#[cfg(test)]
mod tests {
    use thermocline_record::SeriesPoint;

    use super::*;

    /// A run of so many host bytes, at the ends of equal parts of which so many seconds have passed.
    fn run(written: u64, ends: &[f64], rate: f64) -> RunRecord {
        let settings = thermocline_lab::Settings::default();
        let stack = thermocline_lab::Stack::parse("raw:micron2300", &[]).unwrap();
        let args = crate::lab::args::SourceArgs::generated("uniform", Bytes::mib(16), 0.1);
        let replay = crate::lab::args::ReplayArgs::default();
        let mut workload = args.prepare(&replay, Bytes::BLOCK, None).unwrap();
        let mut record =
            thermocline_lab::run(&mut workload, &stack, &settings, &mut |_| {}).unwrap();
        let point = record.series[0].clone();
        let part = written / ends.len().max(1) as u64;
        let series = ends.iter().zip(1..).map(|(&seconds, parts)| SeriesPoint {
            host_bytes: parts * part,
            seconds,
            ..point.clone()
        });
        record.series = series.collect();
        (record.host_bytes_written, record.host_bytes_read) = (written, 0);
        let rates = record.bandwidth.as_mut().expect("a drive with time");
        (rates.host_write_bytes_per_second, rates.host_read_bytes_per_second) = (rate, 0.0);
        record
    }

    #[test]
    fn the_late_rate_is_that_of_the_later_half_however_few_points_there_are() {
        let near = |record: &RunRecord, rate: f64| {
            let found = late_rate(record);
            assert!((found / rate - 1.0).abs() < 1e-9, "{found}, not {rate}");
        };
        // The first half takes a second, the later one four.
        near(&run(4000, &[0.5, 1.0, 3.0, 5.0], 800.0), 500.0);
        near(&run(4000, &[1.0, 5.0], 800.0), 500.0);
        near(&run(4000, &[5.0], 800.0), 800.0);
        near(&run(4000, &[], 800.0), 800.0);
        // Buffers took what came late, and are written after the run.
        near(&run(4000, &[0.5, 1.0, 1.1, 1.2], 2000.0), 2000.0);
    }

    #[test]
    fn mixes_are_said_to_be_where_they_are() {
        let said = |rates: &[f64]| {
            let said = of_mixes(rates);
            said[said.find("mixes").expect("it speaks of them")..].to_owned()
        };
        let most = said(&[2208e6, 2585e6, 1698e6, 1185e6, 914e6]);
        assert_eq!(most, "mixes reach more than either, 1185 to 2585");
        assert_eq!(said(&[900e6, 800e6, 700e6]), "mixes lie between the two, 800 to 800");
        assert_eq!(said(&[900e6, 600e6, 700e6]), "mixes fall below both, 600 to 600");
        let both = said(&[900e6, 1000e6, 500e6, 700e6]);
        assert_eq!(both, "mixes fall below both and rise above both, 500 to 1000");
    }
}

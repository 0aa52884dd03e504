//! The tables `thermocline lab theory` prints.

use std::num::NonZeroU32;

use thermocline_types::Bytes;
use thermocline_workload::synthetic::JESD219_SIZES;

use super::indirection::IndirectionUnit;
use super::{Overprovisioning, Population, separation, skew, uniform};

/// A table of closed-form values.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: &'static str,
    /// Assumptions and source.
    pub note: &'static str,
    /// Heading of the first column, which labels the rows.
    pub corner: &'static str,
    /// Headings of the value columns.
    pub columns: Vec<String>,
    /// The rows, each with one value per column.
    pub rows: Vec<Row>,
    /// Decimals that are worth printing.
    pub decimals: usize,
}

/// One row of a [`Table`].
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which parameters the values belong to.
    pub label: String,
    /// One value per column.
    pub values: Vec<f64>,
}

/// Units of the Zipf tables: one million, 4 GB of 4 KiB blocks.
const ZIPF_UNITS: u64 = 1_000_000;
/// Block sizes, in mapping units, of the greedy table.
const BLOCK_SIZES: [u32; 6] = [32, 64, 128, 256, 512, 1024];
/// Class counts of the log-rank table.
const CLASS_COUNTS: [u32; 8] = [2, 4, 6, 8, 12, 16, 32, 80];

/// All tables; later tables build on earlier tables.
#[must_use]
pub fn tables() -> Vec<Table> {
    vec![
        uniform_random(),
        d_choices(),
        mixed(),
        separated(),
        split(),
        log_rank_classes(),
        jesd219(),
    ]
}

/// The overprovisionings of all tables: round ones, and 17.65 % as the garbage proportion of 15 % of the literature.
fn spares() -> [(String, Overprovisioning); 6] {
    let round = |percent: f64| {
        let op = Overprovisioning::from_ratio(percent / 100.0)
            .expect("the tables' overprovisionings are above 0");
        (format!("{percent} %"), op)
    };
    [round(7.0), round(10.0), round(15.0), garbage_fifteen(), round(20.0), round(28.0)]
}

fn garbage_fifteen() -> (String, Overprovisioning) {
    let op = Overprovisioning::from_garbage(0.15).expect("0.15 is between 0 and 1");
    ("17.65 % (GP 15 %)".to_owned(), op)
}

fn non_zero(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).expect("the tables' counts are above 0")
}

/// The workloads of the skew tables. Shares are (data, writes).
fn skewed() -> Vec<(String, Population)> {
    let hot_cold = [(0.2, 0.8), (0.1, 0.9), (0.05, 0.95), (0.5, 0.9)].map(|(data, writes)| {
        let population = Population::hot_cold(data, writes).expect("shares between 0 and 1");
        (format!("hot {:.0} % gets {:.0} %", data * 100.0, writes * 100.0), population)
    });
    let zipf = [0.6, 0.8, 0.9, 0.99, 1.0, 1.2].map(|theta| {
        let population = Population::zipf(theta, ZIPF_UNITS).expect("exponents above 0");
        (format!("Zipf {theta}, N = 1M"), population)
    });
    hot_cold.into_iter().chain(zipf).collect()
}

fn uniform_random() -> Table {
    let greedy = BLOCK_SIZES.map(|b| format!("greedy b={b}"));
    let columns = [
        vec!["alpha".to_owned(), "FIFO/LRU".to_owned()],
        greedy.to_vec(),
        vec!["random".to_owned()],
    ]
    .concat();
    let row = |(label, op): (String, Overprovisioning)| {
        let greedy = BLOCK_SIZES.map(|b| uniform::greedy_waf(op, non_zero(b)));
        let first = vec![op.alpha(), uniform::fifo_waf(op)];
        Row {
            label,
            values: [first, greedy.to_vec(), vec![uniform::random_victim_waf(op)]].concat(),
        }
    };
    Table {
        title: "WAF, uniform random writes, by victim policy and block size b",
        note: "FIFO: Menon 1995, Desnoyers 2012. Greedy: fluid limit of Bux and Iliadis 2010, Desnoyers 2012. Infinitely many blocks.",
        corner: "OP (P-L)/L",
        columns,
        rows: spares().map(row).to_vec(),
        decimals: 4,
    }
}

fn d_choices() -> Table {
    const CHOICES: [u32; 6] = [1, 2, 3, 5, 10, 100];
    let row = |(label, op): (String, Overprovisioning)| {
        let values = CHOICES.map(|d| uniform::d_choices_waf(op, non_zero(128), non_zero(d)));
        Row { label, values: values.to_vec() }
    };
    Table {
        title: "WAF, uniform random writes, victim the best of d random blocks, b = 128",
        note: "Mean-field model of Van Houdt 2013; d = 1 is a random victim, d to infinity is greedy.",
        corner: "OP (P-L)/L",
        columns: CHOICES.map(|d| format!("d={d}")).to_vec(),
        rows: spares().map(row).to_vec(),
        decimals: 4,
    }
}

/// A table with one row per skewed workload and one column per overprovisioning.
fn by_workload(
    title: &'static str,
    note: &'static str,
    waf: impl Fn(&Population, Overprovisioning) -> f64,
) -> Table {
    let row = |(label, population): (String, Population)| {
        let values = spares().map(|(_, op)| waf(&population, op));
        Row { label, values: values.to_vec() }
    };
    let columns = spares().map(|(label, _)| label).to_vec();
    Table {
        title,
        note,
        corner: "workload",
        columns,
        rows: skewed().into_iter().map(row).collect(),
        decimals: 4,
    }
}

fn mixed() -> Table {
    by_workload(
        "WAF, skewed writes, hot and cold data mixed in the same blocks",
        "FIFO victims, by OP (Desnoyers 2012).",
        skew::fifo_waf,
    )
}

fn separated() -> Table {
    by_workload(
        "WAF, skewed writes, every rate in blocks of its own with the best split of the spare space",
        "The least for a policy that knows every rate but not the future; FIFO victims in each class, by OP (Desnoyers 2014).",
        |population, op| separation::optimum(population, op).waf,
    )
}

fn split() -> Table {
    let hot_cold = skewed().into_iter().filter(|(_, population)| population.parts().len() == 2);
    let row = |(label, population): (String, Population)| {
        let best = separation::optimum(&population, garbage_fifteen().1);
        Row { label, values: best.split.iter().map(|op| op.ratio()).collect() }
    };
    Table {
        title: "Overprovisioning of the hot and the cold part in the best split, at 17.65 % altogether",
        note: "Ratios (P-L)/L of each part by itself.",
        corner: "workload",
        columns: vec!["hot".to_owned(), "cold".to_owned()],
        rows: hot_cold.map(row).collect(),
        decimals: 3,
    }
}

fn log_rank_classes() -> Table {
    let row = |classes: u32| {
        let population =
            Population::zipf_log_rank(1.0, ZIPF_UNITS, classes).expect("at least one class");
        let waf = separation::optimum(&population, garbage_fifteen().1).waf;
        Row { label: classes.to_string(), values: vec![waf] }
    };
    Table {
        title: "WAF, Zipf 1.0, N = 1M, OP 17.65 %, by number of classes of equal width in log(rank)",
        note: "Infinitely large blocks: on a real drive more classes cost more open blocks.",
        corner: "classes",
        columns: vec!["WAF".to_owned()],
        rows: CLASS_COUNTS.map(row).to_vec(),
        decimals: 3,
    }
}

fn jesd219() -> Table {
    let row = |kib: u64| {
        let unit = IndirectionUnit::new(Bytes::kib(kib)).expect("the tables' units are above 0");
        let sub_block_sectors =
            |size: Bytes| if size < Bytes::BLOCK { Bytes::SECTOR } else { Bytes::BLOCK };
        let values = vec![
            unit.random_waf(Bytes::BLOCK, Bytes::BLOCK),
            unit.mix_waf(&JESD219_SIZES, |_| Bytes::BLOCK),
            unit.mix_waf(&JESD219_SIZES, sub_block_sectors),
        ];
        Row { label: format!("{kib} KiB"), values }
    };
    Table {
        title: "WAF by read-modify-write of the indirection unit alone, JESD219 mix",
        note: "Random starts. JESD219 enterprise sizes; writes below 4 KiB start on 4 KiB in one column, on any 512 B in the other.",
        corner: "unit",
        columns: ["4 KiB writes", "JESD219, 4 KiB starts", "JESD219, 512 B starts"]
            .map(str::to_owned)
            .to_vec(),
        rows: [4, 8, 16, 32, 64].map(row).to_vec(),
        decimals: 3,
    }
}

#[cfg(test)]
mod tests;

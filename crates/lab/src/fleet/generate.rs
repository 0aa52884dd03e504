//! A believable fleet whose future is known.
//!
//! It shares nothing with the forecast. Hosts have seasons, quarters that end, growth that stops, and loads that return
//! to their mean; some get another role, and releases of software change a whole class. WAF follows from the space in
//! use, which grows. Drives wear at rates of their own, count in steps, and are replaced when they are worn out.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use thermocline_types::Rng;

use super::day::{DAY, YEAR, date};
use super::forecast::normal;

/// The moment of the last rows: 2026-01-01.
const NOW: f64 = 1_767_225_600.0;
/// Length of a step, years: a week.
const WEEK: f64 = 7.0 / 365.25;
/// Service of a drive, years of power-on hours.
const SERVICE: f64 = 5.0;
/// Bytes of a data unit of the health page.
const DATA_UNIT: f64 = 512_000.0;

/// A kind of host. All are chosen, none measured.
struct Role {
    name: &'static str,
    /// Drives of a hundred.
    share: f64,
    /// Capacities a day, and the deviation of its logarithm between hosts.
    writes: f64,
    spread: f64,
    /// Space in use at first, and its growth a year.
    used: f64,
    fills: f64,
    /// Share of the WAF of uniform random writes: how badly lifetimes are mixed.
    mixed: f64,
    /// Swing of the year.
    season: f64,
}

const ROLES: [Role; 12] = [
    role("oltp", 14.0, [0.75, 0.45], [0.72, 0.05], 0.8, 0.15),
    role("kv-cache", 7.0, [1.5, 0.35], [0.85, 0.01], 0.25, 0.3),
    role("logs", 10.0, [0.85, 0.3], [0.6, 0.02], 0.08, 0.1),
    role("web", 14.0, [0.06, 0.7], [0.4, 0.08], 0.6, 0.25),
    role("vm-images", 16.0, [0.35, 0.6], [0.65, 0.07], 0.7, 0.1),
    role("ci-builds", 8.0, [1.1, 0.4], [0.7, 0.02], 0.5, 0.2),
    role("analytics", 9.0, [0.6, 0.5], [0.75, 0.05], 0.15, 0.35),
    role("backup", 6.0, [0.3, 0.3], [0.85, 0.03], 0.05, 0.05),
    role("mail", 5.0, [0.2, 0.4], [0.7, 0.06], 0.65, 0.1),
    role("search", 6.0, [0.9, 0.3], [0.7, 0.03], 0.4, 0.15),
    role("metadata", 3.0, [0.5, 0.5], [0.5, 0.06], 0.9, 0.1),
    role("checkpoints", 2.0, [1.6, 0.4], [0.6, 0.02], 0.1, 0.2),
];

const fn role(
    name: &'static str,
    share: f64,
    [writes, spread]: [f64; 2],
    [used, fills]: [f64; 2],
    mixed: f64,
    season: f64,
) -> Role {
    Role { name, share, writes, spread, used, fills, mixed, season }
}

/// A model of drive.
struct Model {
    name: &'static str,
    capacity: f64,
    spare: f64,
    /// Media writes of its raw capacity until it is worn out.
    cycles: f64,
    /// Step of its counter of media bytes; 0: it has none.
    media_step: f64,
    /// Added before its percent are cut to a whole number.
    rounding: f64,
    /// Deviation of the wear of a byte between its drives.
    spread: f64,
}

const MODELS: [Model; 6] = [
    model("TLC-A 3.84TB", 3.84e12, 0.09, [7000.0, 0.05], [1.0, 0.0]),
    model("TLC-A 7.68TB", 7.68e12, 0.09, [7000.0, 0.05], [1.0, 0.0]),
    model("TLC-B 6.4TB MU", 6.4e12, 0.28, [7000.0, 0.04], [32e6, 0.5]),
    model("TLC-C 3.84TB", 3.84e12, 0.08, [6000.0, 0.06], [0.0, 0.0]),
    model("QLC-D 15.36TB", 15.36e12, 0.07, [2800.0, 0.06], [1e9, 0.0]),
    model("SATA-E 1.92TB", 1.92e12, 0.1, [5000.0, 0.08], [0.0, 0.99]),
];

const fn model(
    name: &'static str,
    capacity: f64,
    spare: f64,
    [cycles, spread]: [f64; 2],
    [media_step, rounding]: [f64; 2],
) -> Model {
    Model { name, capacity, spare, cycles, media_step, rounding, spread }
}

/// What becomes of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TruthDrive {
    /// Its serial number.
    pub serial: String,
    /// Its class.
    pub class: String,
    /// When it is worn out, if before its service ends.
    pub worn_out: Option<String>,
    /// Endurance used when its service ends, in percent.
    pub used_at_end_percent: f64,
}

/// What becomes of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TruthClass {
    /// Its name.
    pub name: String,
    /// Its drives.
    pub drives: usize,
    /// Those that are worn out before their service ends.
    pub worn_out: usize,
}

/// What becomes of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetTruth {
    /// Version of the form, `thermocline.fleet-truth/1`.
    pub schema: String,
    /// The seed.
    pub seed: u64,
    /// Length of a service.
    pub service_years: f64,
    /// Rows that cannot be read.
    pub refused: usize,
    /// Classes in the order of their names.
    pub classes: Vec<TruthClass>,
    /// Drives in the order of their serial numbers.
    pub drives: Vec<TruthDrive>,
}

/// A fleet, and what becomes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Rows as CSV: one of every drive, and more of those with a history.
    pub rows: String,
    /// What becomes of it.
    pub truth: FleetTruth,
}

/// What a class is like in this fleet, and what happens to it in each week since ten years ago.
struct Era {
    growth: f64,
    /// Years after which growth stops.
    until: f64,
    /// Factor of all loads in each week.
    weeks: Vec<f64>,
    writes: f64,
}

/// Years of [`Era::weeks`] before now.
const BEFORE: f64 = 6.0;

/// A fleet of `drives` drives, of which the share `sampled` has a history. Equal arguments give equal fleets.
#[must_use]
pub fn generate(drives: usize, seed: u64, sampled: f64) -> Generated {
    let mut rng = Rng::new(seed);
    let eras: Vec<Era> = ROLES.iter().map(|role| era(role, &mut rng)).collect();
    let mut rows = String::from(
        "serial,model,time,host,class,capacity_bytes,host_bytes,media_bytes,used_percent,power_on_hours\n",
    );
    let mut all = Vec::new();
    for number in 0..drives {
        let life = Life::new(number, &eras, &mut rng);
        all.push(life.live(&eras, sampled, &mut rows, &mut rng));
    }
    // What collectors make of a crash of theirs.
    rows += "S999990,TLC-A 3.84TB,2026-01-01,h1,web,3840000000000,-1,,12,4000\n";
    rows += "S999991,TLC-A 3.84TB,2026-01-01,h1,web,38400000";
    let mut classes: Vec<TruthClass> = Vec::new();
    for role in &ROLES {
        let own = || all.iter().filter(|drive: &&TruthDrive| drive.class == role.name);
        let worn_out = own().filter(|drive| drive.worn_out.is_some()).count();
        classes.push(TruthClass { name: role.name.to_owned(), drives: own().count(), worn_out });
    }
    classes.sort_by(|one, other| one.name.cmp(&other.name));
    all.sort_by(|one, other| one.serial.cmp(&other.serial));
    let schema = "thermocline.fleet-truth/1".to_owned();
    let truth =
        FleetTruth { schema, seed, service_years: SERVICE, refused: 2, classes, drives: all };
    Generated { rows, truth }
}

fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * rng.unit_f64()
}

fn happens(rng: &mut Rng, share: f64) -> bool {
    rng.unit_f64() < share
}

fn era(role: &Role, rng: &mut Rng) -> Era {
    let weeks = ((BEFORE + SERVICE + 1.0) / WEEK) as usize;
    let phase = between(rng, 0.0, 1.0);
    let quarters = happens(rng, 0.3);
    let mut software = 1.0;
    let week = |week: usize, rng: &mut Rng| {
        let year = week as f64 * WEEK;
        // A release about every seven years.
        if happens(rng, 0.15 * WEEK) {
            software *= (0.25 * normal(rng)).exp();
        }
        let season = 1.0 + role.season * (std::f64::consts::TAU * (year + phase)).sin();
        let ends = if quarters && (year * 4.0).fract() > 0.85 { 1.8 } else { 1.0 };
        software * season * ends
    };
    let mut week_of = week;
    Era {
        growth: 0.07 + 0.09 * normal(rng),
        until: between(rng, 2.0, 9.0),
        writes: role.writes * (0.25 * normal(rng)).exp(),
        weeks: (0..weeks).map(|number| week_of(number, rng)).collect(),
    }
}

/// A drive that is in use now, before its first week.
struct Life {
    serial: String,
    host: String,
    model: &'static Model,
    class: usize,
    /// Years since it was put in.
    age: f64,
    /// Media bytes of its endurance.
    endurance: f64,
    /// Share of the hours with power.
    duty: f64,
}

impl Life {
    fn new(number: usize, eras: &[Era], rng: &mut Rng) -> Life {
        let mut lot = rng.unit_f64() * 100.0;
        let class = ROLES.iter().position(|role| {
            lot -= role.share;
            lot < 0.0
        });
        let class = class.unwrap_or(eras.len() - 1);
        let model = &MODELS[rng.below(MODELS.len() as u64) as usize];
        // Hosts are bought twice a year.
        let age = (between(rng, 0.3, 4.9) * 2.0).round() / 2.0 + between(rng, -0.2, 0.3);
        let wear = (model.spread * normal(rng)).exp();
        let endurance = model.capacity * (1.0 + model.spare) * model.cycles / wear;
        Life {
            serial: format!("S{number:06}"),
            host: format!("{}-{:04}", ROLES[class].name, number / 2),
            model,
            class,
            age: age.clamp(0.15, 4.95),
            endurance,
            duty: between(rng, 0.985, 1.0),
        }
    }

    /// Lives from its first week to the end of its service, writes its rows, and tells what became of it.
    fn live(&self, eras: &[Era], sampled: f64, rows: &mut String, rng: &mut Rng) -> TruthDrive {
        let is_sampled = happens(rng, sampled);
        let kept = if is_sampled { between(rng, 0.35, 1.5) } else { 0.0 };
        let mut load = Load::new(self.class, rng);
        let (mut state, mut time, mut own) = (State::default(), -self.age, String::new());
        let mut truth = TruthDrive {
            serial: self.serial.clone(),
            class: ROLES[self.class].name.to_owned(),
            worn_out: None,
            used_at_end_percent: 0.0,
        };
        loop {
            let [host, waf] = load.week(time, self.model, eras, rng);
            let bytes = host * self.model.capacity * 7.0;
            state.host += bytes;
            state.media += bytes * waf;
            state.powered += WEEK * self.duty;
            time += WEEK;
            let worn = state.media / self.endurance;
            if time <= 0.0 && worn > 1.03 {
                // Another drive takes its place. Some collectors name drives by their place.
                state = State::default();
                if happens(rng, 0.5) {
                    own = own.replace(&self.serial, &format!("R{}", &self.serial));
                }
            }
            let is_last = time <= 0.0 && time + WEEK > 0.0;
            let is_kept = time <= 0.0 && -time < kept && !happens(rng, 0.05);
            if is_last || is_kept {
                let at = if is_last { NOW - rng.unit_f64() * DAY } else { NOW + time * YEAR };
                self.row(at, &state, &mut own);
            }
            if is_last {
                rows.push_str(&own);
            }
            if is_kept && happens(rng, 0.0004) {
                // New firmware counts bytes anew.
                (state.counted_host, state.counted_media) = (state.host, state.media);
            }
            if time > 0.0 && worn >= 1.0 && truth.worn_out.is_none() {
                truth.worn_out = Some(date(NOW + time * YEAR));
            }
            if time > 0.0 && state.powered >= SERVICE {
                truth.used_at_end_percent = 100.0 * worn;
                return truth;
            }
        }
    }

    fn row(&self, at: f64, state: &State, rows: &mut String) {
        let Model { name, capacity, media_step, rounding, .. } = self.model;
        let steps = |bytes: f64, step: f64| (bytes / step).floor() * step;
        let host = steps(state.host - state.counted_host, DATA_UNIT);
        let media = match *media_step > 0.0 {
            true => format!("{:.0}", steps(state.media - state.counted_media, *media_step)),
            false => String::new(),
        };
        let used = (100.0 * state.media / self.endurance + rounding).floor().min(255.0);
        let hours = (state.powered * 365.25 * 24.0).floor();
        let (serial, host_name, class) = (&self.serial, &self.host, ROLES[self.class].name);
        let _ = writeln!(
            rows,
            "{serial},{name},{at:.0},{host_name},{class},{capacity:.0},{host:.0},{media},{used},{hours}"
        );
    }
}

/// Bytes so far, years with power, and bytes at which counters began anew.
#[derive(Default)]
struct State {
    host: f64,
    media: f64,
    powered: f64,
    counted_host: f64,
    counted_media: f64,
}

/// The load of a host.
struct Load {
    role: usize,
    /// Logarithm of its own factor, which returns to `mean`.
    own: f64,
    mean: f64,
    used: f64,
    years: f64,
}

impl Load {
    fn new(role: usize, rng: &mut Rng) -> Load {
        let mean = ROLES[role].spread * normal(rng);
        let used = ROLES[role].used + 0.06 * normal(rng);
        Load { role, own: mean + 0.2 * normal(rng), mean, used, years: 0.0 }
    }

    /// Capacities a day of the next week, and their WAF.
    fn week(&mut self, time: f64, model: &Model, eras: &[Era], rng: &mut Rng) -> [f64; 2] {
        if happens(rng, 0.05 * WEEK) {
            let role = rng.below(ROLES.len() as u64) as usize;
            *self = Load { years: self.years, ..Load::new(role, rng) };
        }
        let (role, era) = (&ROLES[self.role], &eras[self.role]);
        self.own += 0.6 * (self.mean - self.own) * WEEK + 0.28 * WEEK.sqrt() * normal(rng);
        self.years += WEEK;
        self.used = (self.used + role.fills * WEEK).min(0.95);
        let year = time + BEFORE;
        let week = ((year / WEEK) as usize).min(era.weeks.len() - 1);
        let grown = (era.growth * year.clamp(0.0, era.until)).exp();
        let noise = (0.15 * normal(rng)).exp();
        let host = era.writes * self.own.exp() * grown * era.weeks[week] * noise;
        // Free space of greedy collection under uniform writes, for the share that is mixed.
        let free = 1.0 - self.used.clamp(0.1, 0.95) / (1.0 + model.spare);
        let waf = 1.0 + role.mixed * (1.0 - free) / (2.0 * free);
        [host.min(30.0), waf * if model.media_step >= 1e9 { 1.15 } else { 1.0 }]
    }
}

#[cfg(test)]
mod tests {
    use super::super::FleetRows;
    use super::*;

    #[test]
    fn a_fleet_follows_from_its_seed_and_has_rows_of_every_drive() {
        let one = generate(150, 7, 0.2);
        assert_eq!(one, generate(150, 7, 0.2));
        assert_ne!(one.rows, generate(150, 8, 0.2).rows);
        let mut rows = FleetRows::default();
        rows.read("rows", one.rows.as_bytes()).unwrap();
        let mut serials: Vec<&str> = rows.rows.iter().map(|row| row.serial.as_str()).collect();
        let all = serials.len();
        serials.sort_unstable();
        serials.dedup();
        serials.retain(|serial| serial.starts_with('S'));
        assert_eq!((serials.len(), rows.refused.len()), (150, one.truth.refused));
        assert!(all > 150 * 5, "{all}");
        let of_classes: usize = one.truth.classes.iter().map(|class| class.drives).sum();
        assert_eq!((of_classes, one.truth.drives.len()), (150, 150));
    }
}

//! Run records as a lab could have made them; invented, so that every part of a page has something to show.

use std::collections::BTreeMap;

use serde_json::json;
use thermocline_record::{
    Bandwidth, DeviceInfo, Lasting, LatencyNs, Life, LifeAt, MediaBytes, RunRecord, SCHEMA, STEADY,
    SeriesPoint, SteadyState, Units, Wear, WorkloadInfo,
};

const GIB: u64 = 1 << 30;

/// What differs between the samples.
pub struct Shape {
    pub stack: &'static str,
    pub title: &'static str,
    /// WAF that the run tends to.
    pub waf: f64,
    /// Share of the writes beyond the host's that is read-modify-write.
    pub modify_share: f64,
    pub units: usize,
    pub steady: bool,
    pub timed: bool,
    /// Median life in years.
    pub life: Option<f64>,
}

/// Three drives under one load, as `lab compare` would run them.
pub fn three(timed: bool) -> Vec<RunRecord> {
    let shapes = [
        Shape {
            stack: "raw:p5316",
            title: "Solidigm D5-P5316 15.36 TB",
            waf: 4.12,
            modify_share: 0.7,
            units: 256,
            steady: true,
            timed,
            life: Some(3.2),
        },
        Shape {
            stack: "tag:pm9d3",
            title: "Samsung PM9D3 3.84 TB, FDP",
            waf: 1.31,
            modify_share: 0.0,
            units: 600,
            steady: true,
            timed,
            life: Some(41.0),
        },
        Shape {
            stack: "raw:micron2300",
            title: "Micron 2300 1 TB",
            waf: 2.45,
            modify_share: 0.0,
            units: 1500,
            steady: false,
            timed,
            life: Some(7.4),
        },
    ];
    shapes.iter().map(record).collect()
}

/// A number in 0..1 that depends on `n` only.
fn noise(n: usize) -> f64 {
    let mixed = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f64 / (1u64 << 24) as f64
}

/// One record of a given shape.
pub fn record(shape: &Shape) -> RunRecord {
    let series = series(shape);
    let host: u64 = series.iter().map(|point| point.host_bytes_written).sum();
    let media: u64 = series.iter().map(|point| point.media_bytes_written).sum();
    let by_cause = by_cause(shape, host, media);
    let waf = media as f64 / host as f64;
    RunRecord {
        schema: SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        stack: shape.stack.to_owned(),
        spec: None,
        command: Some("thermocline lab run --stack raw:p5316 --workload uniform".into()),
        device: device(shape),
        fast: None,
        drives: Vec::new(),
        tenants: None,
        handles: Vec::new(),
        heating: None,
        read_attempts: None,
        media_bytes_patrolled: None,
        workload: workload(),
        config: config(shape),
        seed: 7,
        prefill_bytes_written: 16 * GIB,
        host_bytes_written: host,
        host_bytes_read: host / 3,
        host_bytes_trimmed: host / 40,
        requests: host / 9000,
        interrupted: None,
        engine_bytes_written: BTreeMap::new(),
        device_bytes_written: host,
        media_bytes_written: MediaBytes {
            total: media,
            by_cause,
            absorbed_in_buffer: 0,
            left_in_buffer: 0,
            in_slc_mode: None,
        },
        media_bytes_erased: media / 4096 * 4096,
        alwa: Some(1.0),
        dlwa: Some(waf),
        waf: Some(waf),
        alwa_steady: shape.steady.then_some(1.0),
        dlwa_steady: shape.steady.then_some(shape.waf),
        waf_steady: shape.steady.then_some(shape.waf),
        waf_last_half: Some(shape.waf),
        waf_last_quarter: Some(shape.waf),
        lasting: lasting(shape, waf),
        steady_state: steady_state(shape, host),
        fdp: None,
        latency_ns: shape.timed.then(|| latencies(shape.waf)),
        bandwidth: shape.timed.then(|| bandwidth(shape)),
        life_of_drive: None,
        life: shape.life.map(life),
        series,
        device_series: Vec::new(),
        units: units(shape),
        wear: wear(shape),
        notes: vec!["Capacity is scaled down from the product's; ratios are kept.".to_owned()],
        host_blocks_per_cpu_second: 8.3e6,
        peak_rss_bytes: 210 << 20,
    }
}

fn lasting(shape: &Shape, waf: f64) -> Lasting {
    let (waf, over) = if shape.steady { (shape.waf, STEADY) } else { (waf, "whole run") };
    Lasting { waf: Some(waf), alwa: Some(1.0), dlwa: Some(waf), over: over.to_owned() }
}

fn bandwidth(shape: &Shape) -> Bandwidth {
    Bandwidth {
        seconds: 180.0,
        seconds_to_media: None,
        host_write_bytes_per_second: 4.1e9 / shape.waf,
        host_read_bytes_per_second: 1.4e9 / shape.waf,
        media_write_bytes_per_second: 4.1e9,
        requests_per_second: 1e6 / shape.waf,
        queue_depth: Some(32),
        limit: Some("dies".to_owned()),
        ..Bandwidth::default()
    }
}

fn config(shape: &Shape) -> BTreeMap<String, serde_json::Value> {
    BTreeMap::from([
        ("victim".to_owned(), json!("greedy")),
        ("device.op".to_owned(), json!(0.07)),
        ("remap".to_owned(), json!("dense")),
        ("units".to_owned(), json!(shape.units)),
    ])
}

fn by_cause(shape: &Shape, host: u64, media: u64) -> BTreeMap<String, u64> {
    let extra = media - host;
    let modify = (extra as f64 * shape.modify_share) as u64;
    let levelling = extra / 50;
    BTreeMap::from([
        ("host".to_owned(), host),
        ("padding".to_owned(), 0),
        ("read_modify_write".to_owned(), modify),
        ("relocation".to_owned(), extra - modify - levelling),
        ("wear_levelling".to_owned(), levelling),
    ])
}

fn steady_state(shape: &Shape, host: u64) -> SteadyState {
    SteadyState {
        reached: shape.steady,
        rule: "five windows of a quarter drive fill: range within 20 % and slope within 10 % \
                of their mean, after 3 fills"
            .to_owned(),
        window: shape.steady.then_some([host / 2, host]),
        drive_fills: host as f64 / (16 * GIB) as f64,
    }
}

fn device(shape: &Shape) -> DeviceInfo {
    DeviceInfo {
        profile: shape.stack.split(':').next_back().unwrap_or_default().to_owned(),
        title: shape.title.to_owned(),
        kind: "conventional".to_owned(),
        product_capacity_bytes: 15_360_000_000_000,
        capacity_bytes: 16 * GIB,
        utilisation: Some(1.0),
        media_bytes: 17 * GIB,
        overprovisioning: 1.0 / 16.0,
        mapping_unit_bytes: 65_536,
        unit_bytes: 17 * GIB / shape.units.max(1) as u64,
        units: shape.units as u64,
        timed: shape.timed,
    }
}

fn workload() -> WorkloadInfo {
    WorkloadInfo {
        name: "postgres-tpcc.csv.gz".to_owned(),
        kind: "trace".to_owned(),
        format: Some("thermocline-csv".to_owned()),
        span_bytes: 15 * GIB,
        working_set_bytes: Some(11 * GIB),
        duration_seconds: Some(5400.0),
        remap: Some("dense".to_owned()),
        prefill: "first-touch".to_owned(),
        skipped_lines: 0,
        empty_requests: 0,
        reordered_requests: 0,
        lost_events: 0,
    }
}

fn series(shape: &Shape) -> Vec<SeriesPoint> {
    let step = GIB / 2;
    let mut seconds = 0.0;
    let point = |i: usize| {
        let settled = 1.0 - (-(i as f64) / 22.0).exp();
        let waf = 1.0 + (shape.waf - 1.0) * settled * (0.96 + 0.08 * noise(i));
        seconds += waf * step as f64 / 4.1e9 * (0.9 + 0.2 * noise(i + 999));
        let base = 12_000.0 * waf * (0.9 + 0.2 * noise(i + 77));
        let percentiles = [base as u64, (base * 30.0) as u64, (base * 160.0) as u64];
        SeriesPoint {
            host_bytes: step * (i as u64 + 1),
            seconds: if shape.timed { seconds } else { 0.0 },
            host_bytes_written: step,
            media_bytes_written: (step as f64 * waf) as u64,
            waf: Some(waf),
            write_latency_ns: shape.timed.then_some(percentiles.map(Some)),
            read_latency_ns: shape.timed.then_some(percentiles.map(|ns| Some(ns * 7))),
            free_units: 5 + (noise(i) * 4.0) as u64,
        }
    };
    (0..130).map(point).collect()
}

fn latencies(waf: f64) -> BTreeMap<String, LatencyNs> {
    let write = |scale: f64| LatencyNs {
        count: 1_000_000,
        in_memory: 0,
        mean: Some(40_000.0 * scale),
        p50: Some((12_000.0 * scale) as u64),
        p90: Some((60_000.0 * scale) as u64),
        p99: Some((400_000.0 * scale) as u64),
        p99_9: Some((2_000_000.0 * scale) as u64),
        p99_99: Some((6_000_000.0 * scale) as u64),
        max: Some((11_000_000.0 * scale) as u64),
        bins: (0..11u32).map(|i| [1000 << (i + 2), 250_000 >> (i.abs_diff(3))]).collect(),
    };
    BTreeMap::from([("write".to_owned(), write(waf)), ("read".to_owned(), write(waf * 4.0))])
}

fn life(median: f64) -> Life {
    Life {
        years_p10: median * 0.66,
        years_p50: median,
        years_p90: median * 1.5,
        drive_writes_per_day: 1.8,
        product_utilisation: Some(1.0),
        waf: Some(3.0),
        range: vec![
            LifeAt { product_utilisation: 0.0, years_p50: median * 2.0, ..LifeAt::default() },
            LifeAt { product_utilisation: 1.0, years_p50: median, ..LifeAt::default() },
        ],
        tbw_bytes: median * 1.8 * 365.0 * 15.36e12,
        rated_tbw_bytes: Some(22.9e15),
        warranty_years: Some(5.0),
        verdict: if median > 10.0 {
            "Nothing needed: it outlives its warranty several times.".to_owned()
        } else {
            "It wears out before its warranty ends; write in larger units or use a drive with a \
             smaller mapping unit."
                .to_owned()
        },
        assumptions: vec![
            "3000 P/E cycles (data sheet class, unverified), spread \u{b1}20 %.".to_owned(),
            "The load goes on as recorded, day and night.".to_owned(),
        ],
    }
}

fn units(shape: &Shape) -> Units {
    let mut units = Units { units_per_cell: 1, ..Units::default() };
    units.valid_histogram = vec![0; 20];
    for i in 0..shape.units {
        let valid = (1.0 - noise(i).powi(3) * 0.9) as f32;
        let (state, fill, valid) = match i {
            _ if noise(i + 5000) < 0.03 => ('f', 0.0, 0.0),
            _ if i % 97 == 13 => ('o', 0.4, 0.38),
            _ if i % 211 == 50 => ('r', 0.0, 0.0),
            _ => ('c', 1.0, valid),
        };
        units.state.push(state);
        units.fill.push(fill);
        units.valid.push(valid);
        if state == 'c' {
            units.valid_histogram[((valid * 20.0) as usize).min(19)] += 1;
        }
    }
    units
}

fn wear(shape: &Shape) -> Wear {
    let erase_counts: Vec<f32> = (0..shape.units)
        .map(|i| (18.0 * shape.waf + 9.0 * (noise(i) + noise(i + 31) - 1.0)).round() as f32)
        .collect();
    let sum: f64 = erase_counts.iter().copied().map(f64::from).sum();
    Wear {
        min: erase_counts.iter().copied().fold(f32::MAX, f32::min) as u64,
        mean: sum / erase_counts.len().max(1) as f64,
        max: erase_counts.iter().copied().fold(0.0, f32::max) as u64,
        erase_counts,
        percentiles: None,
        first_worn_out_host_bytes: None,
        failed_early: None,
        failed_programs: None,
        retired: 2,
        spare_left: 14,
        end_of_life: false,
    }
}

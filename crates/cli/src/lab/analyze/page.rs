//! A workload as charts: sizes, skew, rewrite distance, and which addresses are written when.

use thermocline_lab::analyze::{Analysis, Heat, analyze, heat};
use thermocline_lab::{Error, Input};
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_report::{BarChart, GridChart, PlotPage};
use thermocline_types::Bytes;
use thermocline_workload::profile::Profile;
use thermocline_workload::synthetic::Limit;

/// Requests of a generator that its charts show, at most. Chosen: they take a few seconds.
const GENERATED: u64 = 1_000_000;

/// The charts of the workload `input`, read once more for them; of a long generator, of its begin. Nothing for a
/// workload that can be read only once.
///
/// # Errors
/// When it cannot be read.
pub fn charts_of(input: &Input) -> Result<Option<PlotPage>, Error> {
    let (mut input, mut is_cut) = (input.clone(), false);
    match &mut input {
        Input::Trace { path, .. } if path.as_os_str() == "-" => return Ok(None),
        Input::Trace { .. } => {}
        Input::Synthetic { options, .. } => {
            let limit = shortened(options.limit);
            is_cut = limit != options.limit;
            options.limit = limit;
        }
    }
    let analysis = analyze(&input, None, &mut |_, _| {})?;
    let mut charts = charts(&analysis, Some(&heat(&input, &analysis.profile)?));
    if is_cut {
        let cut = format!(" The first {GENERATED} requests of the generator are shown.");
        charts.bars.iter_mut().for_each(|chart| chart.caption += &cut);
        charts.grids.iter_mut().for_each(|chart| chart.caption += &cut);
        charts.plots.iter_mut().for_each(|chart| chart.caption += &cut);
    }
    Ok(Some(charts))
}

/// A limit within [`GENERATED`] requests, as far as it tells.
fn shortened(limit: Limit) -> Limit {
    match limit {
        Limit::BytesWritten(bytes) if bytes.0 / Bytes::BLOCK.0 <= GENERATED => limit,
        Limit::Writes(requests) | Limit::Requests(requests) if requests <= GENERATED => limit,
        _ => Limit::Requests(GENERATED),
    }
}

/// The charts of an analysed workload.
pub fn charts(analysis: &Analysis, heat: Option<&Heat>) -> PlotPage {
    let profile = &analysis.profile;
    let bars = vec![sizes(profile), rewrites(profile)].into_iter().chain(headroom(analysis));
    PlotPage {
        bars: bars.collect(),
        grids: heat.map(|heat| addresses(profile, heat)).into_iter().collect(),
        plots: vec![skew(profile)],
        ..PlotPage::default()
    }
}

fn sizes(profile: &Profile) -> BarChart {
    let moving = ["read", "write"];
    let shown: Vec<_> = profile
        .operations
        .iter()
        .filter(|operation| moving.contains(&operation.operation) && operation.requests > 0)
        .collect();
    let mut classes: Vec<u64> = shown
        .iter()
        .flat_map(|operation| operation.sizes.iter().map(|class| class.bytes_max))
        .collect();
    classes.sort_unstable();
    classes.dedup();
    let group = |bytes: &u64| {
        let share = |operation: &&thermocline_workload::profile::OperationProfile| {
            let class = operation.sizes.iter().find(|class| class.bytes_max == *bytes);
            let requests = class.map_or(0, |class| class.requests);
            Some(100.0 * requests as f64 / operation.requests as f64)
        };
        (format!("up to {}", Bytes(*bytes)), shown.iter().map(share).collect())
    };
    BarChart {
        title: "Sizes of requests".to_owned(),
        caption: "Share of the requests of each kind. A size is counted in the class that ends at or above it.".to_owned(),
        unit: "share of requests, %".to_owned(),
        series: shown.iter().map(|operation| format!("{}s", operation.operation)).collect(),
        groups: classes.iter().map(group).collect(),
        origin: None,
    }
}

fn rewrites(profile: &Profile) -> BarChart {
    let rewrites = &profile.rewrites;
    let total = (rewrites.first_writes + rewrites.rewrites).max(1) as f64;
    let share = |blocks: u64| vec![Some(100.0 * blocks as f64 / total)];
    let class = |class: &thermocline_workload::profile::IntervalClass| {
        let name = format!("{} to {}", Bytes(class.bytes_min), Bytes(2 * class.bytes_min));
        (name, share(class.blocks))
    };
    let some = rewrites.classes.iter().filter(|class| class.blocks > 0).map(class);
    BarChart {
        title: "Rewrite distance".to_owned(),
        caption: "How much is written, over all addresses, before a block of 4 KiB is written again. Memory absorbs short \
            distances; placement separates short from long ones."
            .to_owned(),
        unit: "share of block writes, %".to_owned(),
        series: vec!["block writes".to_owned()],
        groups: some.chain([("first write".to_owned(), share(rewrites.first_writes))]).collect(),
        origin: None,
    }
}

fn skew(profile: &Profile) -> Plot {
    let hottest = profile.skew.hottest.iter();
    let point = |hot: &thermocline_workload::profile::HotShare| {
        [100.0 * hot.share_of_blocks, 100.0 * hot.share_of_writes]
    };
    let mut points: Vec<[f64; 2]> = hottest.map(point).collect();
    points.push([100.0, 100.0]);
    let even = points.iter().map(|point| [point[0], point[0]]).collect();
    Plot {
        title: "Skew".to_owned(),
        caption: "How much of the writes the most written blocks take. Under uniform writes each share of blocks takes the \
            same share of writes."
            .to_owned(),
        x: PlotAxis::logarithmic("share of written blocks, hottest first, %"),
        y: PlotAxis::linear("share of block writes, %"),
        lines: vec![PlotLine::ours("this workload", points), PlotLine::reference("uniform", even)],
    }
}

fn addresses(profile: &Profile, heat: &Heat) -> GridChart {
    let (name, end) = match heat.by_time {
        true => ("time, seconds", profile.duration_s),
        false => ("requests", profile.requests as f64),
    };
    GridChart {
        title: "Addresses over time".to_owned(),
        caption: "Bytes written by address and time: the darker, the more, on a logarithmic scale. A slope is a sequence, a \
            level line a hot spot."
            .to_owned(),
        x: (name.to_owned(), end),
        y: ("address, GiB".to_owned(), profile.span_bytes as f64 / Bytes::gib(1).as_f64()),
        rows: heat.rows.clone(),
    }
}

fn headroom(analysis: &Analysis) -> Option<BarChart> {
    let headroom = analysis.headroom.as_ref()?;
    let group = |line: &thermocline_lab::headroom::Line| {
        (format!("{}, {}", line.knowledge, line.victim), vec![Some(line.waf)])
    };
    Some(BarChart {
        title: "What placement can reach".to_owned(),
        caption: format!(
            "WAF on a full drive with {:.0} % garbage, by what placement knows, each with its best victim policy.",
            100.0 * headroom.garbage
        ),
        unit: "WAF".to_owned(),
        series: vec!["WAF".to_owned()],
        groups: headroom.lines.iter().map(group).collect(),
        origin: None,
    })
}

//! Throughput of a run, the bottleneck, and the possible throughput.

use std::collections::BTreeMap;

use thermocline_nand::BusyShare;
use thermocline_record::{Bandwidth, ResourceBusy, RunRecord};
use thermocline_types::{Bytes, Time};

use super::Outcome;
use crate::byte_counts::ByteCounts;
use crate::settings::Pacing;
use crate::theory::bandwidth::FlashArray;

/// From which share of the time on a resource is what limits a run. Chosen: queues that are never empty leave a few
/// per cent to chance.
const SATURATED: f64 = 0.9;

/// Rates over the measured run, which took time.
pub fn bandwidth(outcome: &Outcome, run: &ByteCounts) -> Bandwidth {
    let seconds = outcome.simulated.as_secs_f64();
    let shares = busy(outcome);
    let named = |share: &BusyShare| {
        let BusyShare { resource, mean, busiest } = *share;
        (resource.to_owned(), ResourceBusy { mean, busiest })
    };
    Bandwidth {
        seconds,
        seconds_to_media: None,
        host_write_bytes_per_second: run.host_written as f64 / seconds,
        host_read_bytes_per_second: run.host_read as f64 / seconds,
        media_write_bytes_per_second: run.drive.media_total as f64 / seconds,
        requests_per_second: outcome.requests as f64 / seconds,
        queue_depth: match outcome.pacing {
            Pacing::QueueDepth(depth) | Pacing::Clients { count: depth, .. } => Some(depth),
            Pacing::Clock { .. } => None,
        },
        limit: Some(limit(&shares, outcome.pacing).to_owned()),
        busy: shares.iter().map(named).collect::<BTreeMap<_, _>>(),
        theoretical_bytes_per_second: theoretical(outcome, run),
    }
}

/// Puts the rates of `record` over the time until all that the host wrote was on the media, `on_media` after the start:
/// else what a drive or a log still holds at the end of a short run would have been written in no time.
pub fn until_on_media(record: &mut RunRecord, on_media: Time) {
    let wrote = record.host_bytes_written > 0;
    let Some(rates) = record.bandwidth.as_mut().filter(|_| wrote) else { return };
    let seconds = on_media.as_secs_f64().max(rates.seconds);
    let share = rates.seconds / seconds;
    rates.seconds_to_media = Some(seconds);
    rates.host_write_bytes_per_second *= share;
    rates.host_read_bytes_per_second *= share;
    rates.media_write_bytes_per_second *= share;
    rates.requests_per_second *= share;
}

fn busy(outcome: &Outcome) -> Vec<BusyShare> {
    let start = outcome.before.busy.clone().unwrap_or_default();
    let now = outcome.drive.busy();
    now.map_or_else(Vec::new, |now| now.shares(&start, outcome.simulated))
}

/// The busiest resource if it is busy nearly always, else who decides when requests come.
fn limit(shares: &[BusyShare], pacing: Pacing) -> &'static str {
    let saturated = shares.iter().filter(|share| share.busiest >= SATURATED);
    let busiest = saturated.max_by(|a, b| a.busiest.total_cmp(&b.busiest));
    match (busiest, pacing) {
        (Some(share), _) => share.resource,
        (None, Pacing::QueueDepth(_) | Pacing::Clients { .. }) => "host",
        (None, Pacing::Clock { .. }) => "clock",
    }
}

/// What the drive could do at the run's mix and mean size, were garbage collection free; not said of two drives, of
/// several, nor of one whose cells are of two kinds.
fn theoretical(outcome: &Outcome, run: &ByteCounts) -> Option<f64> {
    let bytes = run.host_read + run.host_written;
    let single = outcome.fast.is_none() && outcome.stack.drives() == 1;
    if !single || outcome.stack.profile.slc.is_some() || bytes == 0 {
        return None;
    }
    let read = run.host_read as f64 / bytes as f64;
    let request = Bytes(bytes / outcome.requests.max(1));
    let array = FlashArray::of_profile(&outcome.stack.profile)?;
    Some(array.bandwidth(read, Some(request)).mb_per_s * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_is_nearly_always_busy_or_who_paces() {
        let share = |resource, busiest| BusyShare { resource, mean: 0.5, busiest };
        let depth = Pacing::QueueDepth(8);
        assert_eq!(limit(&[share("dies", 0.92), share("buses", 0.97)], depth), "buses");
        assert_eq!(limit(&[share("dies", 0.8), share("link", 0.1)], depth), "host");
        assert_eq!(limit(&[share("dies", 0.8)], Pacing::Clock { speed: 1.0 }), "clock");
    }
}

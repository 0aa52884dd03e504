//! How long each resource of a drive was busy.

use thermocline_types::Time;

/// Time that the dies, buses, controller and link of a drive spent at work since it was made, by kind of resource; of
/// several drives under one host, that of all of them and of what the host has besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusyTimes {
    /// Nanoseconds of each resource of a kind.
    kinds: Vec<(&'static str, Vec<u64>)>,
}

/// How busy the resources of one kind were: shares of the time, 0..=1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusyShare {
    /// `dies`, `buses`, `controller`, `program_power`, `link`, `link_in` or `link_out`; of a host over several drives
    /// `host_cpu`, `host_link_in` or `host_link_out`.
    pub resource: &'static str,
    /// Mean over the resources of that kind.
    pub mean: f64,
    /// The busiest of them.
    pub busiest: f64,
}

impl BusyTimes {
    /// Adds resources of the kind `resource`, which were busy for so many nanoseconds each.
    pub(crate) fn add(&mut self, resource: &'static str, times: impl IntoIterator<Item = u64>) {
        match self.kinds.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, all)) => all.extend(times),
            None => self.kinds.push((resource, times.into_iter().collect())),
        }
    }

    /// Adds all that `other` has.
    pub(crate) fn join(&mut self, other: BusyTimes) {
        for (resource, times) in other.kinds {
            self.add(resource, times);
        }
    }

    /// The shares of `elapsed` between `start` and now. Work that is queued for later counts where it was queued, so
    /// that shares are cut at 1.
    #[must_use]
    pub fn shares(&self, start: &BusyTimes, elapsed: Time) -> Vec<BusyShare> {
        let share =
            |now: u64, then: u64| ((now - then) as f64 / elapsed.as_nanos().max(1) as f64).min(1.0);
        let kind = |(resource, now): &(&'static str, Vec<u64>)| {
            let then = start.kinds.iter().find(|(known, _)| known == resource);
            let then = then.into_iter().flat_map(|(_, times)| times).chain(std::iter::repeat(&0));
            let shares: Vec<f64> = now.iter().zip(then).map(|(&n, &t)| share(n, t)).collect();
            BusyShare {
                resource,
                mean: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
                busiest: shares.iter().copied().fold(0.0, f64::max),
            }
        };
        self.kinds.iter().map(kind).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(all: &[(&'static str, &[u64])]) -> BusyTimes {
        let mut times = BusyTimes::default();
        all.iter().for_each(|(resource, of)| times.add(resource, of.iter().copied()));
        times
    }

    #[test]
    fn shares_are_of_the_time_between_two_instants() {
        let start = times(&[("dies", &[10, 20]), ("buses", &[5]), ("link", &[7])]);
        let end = times(&[("dies", &[60, 120]), ("buses", &[205]), ("link", &[17])]);
        let shares = end.shares(&start, Time(100));
        let of = |name| shares.iter().find(|share| share.resource == name).copied().unwrap();
        let per_cent = |share: f64| (share * 100.0).round() as u32;
        assert_eq!([of("dies").mean, of("dies").busiest].map(per_cent), [75, 100]);
        assert_eq!(per_cent(of("buses").busiest), 100, "cut, as some of it is queued for later");
        assert_eq!(per_cent(of("link").mean), 10);
        assert!(shares.iter().all(|share| share.resource != "program_power"));
    }

    #[test]
    fn drives_side_by_side_have_the_resources_of_all() {
        let mut both = times(&[("dies", &[10, 20]), ("host_cpu", &[3])]);
        both.join(times(&[("dies", &[30])]));
        assert_eq!(both, times(&[("dies", &[10, 20, 30]), ("host_cpu", &[3])]));
    }
}

//! How long each resource of a drive was busy.

use thermocline_types::Time;

/// Time that the dies, buses, controller and link of a drive spent at work since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusyTimes {
    pub(crate) dies: Vec<u64>,
    pub(crate) buses: Vec<u64>,
    pub(crate) controller: u64,
    /// What all dies together may program; `None` where nothing limits it.
    pub(crate) program_power: Option<u64>,
    pub(crate) link_in: u64,
    /// `None` where both directions share the link.
    pub(crate) link_out: Option<u64>,
}

/// How busy the resources of one kind were: shares of the time, 0..=1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusyShare {
    /// `dies`, `buses`, `controller`, `program_power`, `link`, `link_in` or `link_out`.
    pub resource: &'static str,
    /// Mean over the resources of that kind.
    pub mean: f64,
    /// The busiest of them.
    pub busiest: f64,
}

impl BusyTimes {
    /// The shares of `elapsed` between `start` and now. Work that is queued for later counts where it was queued, so
    /// that shares are cut at 1.
    #[must_use]
    pub fn shares(&self, start: &BusyTimes, elapsed: Time) -> Vec<BusyShare> {
        let share =
            |now: u64, then: u64| ((now - then) as f64 / elapsed.as_nanos().max(1) as f64).min(1.0);
        let kind = |resource, now: &[u64], then: &[u64]| {
            let then = then.iter().chain(std::iter::repeat(&0));
            let shares: Vec<f64> = now.iter().zip(then).map(|(&n, &t)| share(n, t)).collect();
            BusyShare {
                resource,
                mean: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
                busiest: shares.iter().copied().fold(0.0, f64::max),
            }
        };
        let one = |resource, now: u64, then: u64| kind(resource, &[now], &[then]);
        let mut all = vec![
            kind("dies", &self.dies, &start.dies),
            kind("buses", &self.buses, &start.buses),
            one("controller", self.controller, start.controller),
        ];
        if let Some(now) = self.program_power {
            all.push(one("program_power", now, start.program_power.unwrap_or(0)));
        }
        match self.link_out {
            Some(out) => {
                all.push(one("link_in", self.link_in, start.link_in));
                all.push(one("link_out", out, start.link_out.unwrap_or(0)));
            }
            None => all.push(one("link", self.link_in, start.link_in)),
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_between_two_instants() {
        let start =
            BusyTimes { dies: vec![10, 20], buses: vec![5], link_in: 7, ..BusyTimes::default() };
        let end = BusyTimes { dies: vec![60, 120], buses: vec![205], link_in: 17, ..start.clone() };
        let shares = end.shares(&start, Time(100));
        let of = |name| shares.iter().find(|share| share.resource == name).copied().unwrap();
        let per_cent = |share: f64| (share * 100.0).round() as u32;
        assert_eq!([of("dies").mean, of("dies").busiest].map(per_cent), [75, 100]);
        assert_eq!(per_cent(of("buses").busiest), 100, "cut, as some of it is queued for later");
        assert_eq!(per_cent(of("link").mean), 10);
        assert!(shares.iter().all(|share| share.resource != "program_power"));
    }
}

//! Heat: the effect of work on temperature, and of temperature on speed.
//!
//! Model: a single heat capacity behind a single thermal resistance. Power is a floor plus a fixed amount for each busy
//! die, bus and direction of the host link. The temperature tends to `ambient_c + kelvin_per_w · power` with
//! `time_constant_s`. At `throttle_c` the drive begins to move no more than `throttled_mb_per_s` to and from the host,
//! both together, and ends that at `resume_c`.
//!
//! Invariants:
//! * Heat changes when things happen, never what is written (ADR 0003).
//! * Equal on every machine: the approach to the final temperature is by implicit Euler steps and needs no function of
//!   the math library.

use serde::Deserialize;
use thermocline_types::Time;

use crate::server::Server;

/// Heating, cooling and throttling of a drive. Every value that a profile does not give is assumed, of the order of a
/// bare M.2 module in still air: reviews have such modules throttle within a minute or two of writing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thermal {
    /// Temperature of the coolant, °C.
    pub ambient_c: f64,
    /// Watts that are always there: controller, memory.
    pub idle_w: f64,
    /// Watts of a die that reads, programs or erases. Assumed: some 30 mA at 3.3 V, as data sheets of NAND have.
    pub die_w: f64,
    /// Watts of a bus that transfers.
    pub bus_w: f64,
    /// Watts of a direction of the host link that transfers, with the controller's part in it.
    pub link_w: f64,
    /// Kelvin above the ambient for each watt.
    pub kelvin_per_w: f64,
    /// Seconds in which a step of power has had 63 % of its effect.
    pub time_constant_s: f64,
    /// Temperature at which the drive slows down, °C.
    pub throttle_c: f64,
    /// Temperature at which it no longer does, °C.
    pub resume_c: f64,
    /// What it moves to and from the host then, both together, 10^6 bytes per second.
    pub throttled_mb_per_s: f64,
}

impl Default for Thermal {
    fn default() -> Self {
        Thermal {
            ambient_c: 30.0,
            idle_w: 1.5,
            die_w: 0.1,
            bus_w: 0.1,
            link_w: 1.5,
            kelvin_per_w: 10.0,
            time_constant_s: 60.0,
            throttle_c: 80.0,
            resume_c: 75.0,
            throttled_mb_per_s: 500.0,
        }
    }
}

/// How many of its parts work in the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AtWork {
    /// Dies.
    pub dies: f64,
    /// Buses.
    pub buses: f64,
    /// Directions of the host link, 0..=2.
    pub link: f64,
}

impl Thermal {
    /// Watts with so many parts at work.
    #[must_use]
    pub fn watts(&self, work: AtWork) -> f64 {
        self.idle_w + self.die_w * work.dies + self.bus_w * work.buses + self.link_w * work.link
    }

    /// The temperature that so much power leads to if it is kept up, °C.
    #[must_use]
    pub fn final_c(&self, watts: f64) -> f64 {
        self.ambient_c + self.kelvin_per_w * watts
    }

    /// Seconds of so much power until a drive that was idle throttles; nothing if it never does.
    #[must_use]
    pub fn seconds_until_throttled(&self, watts: f64) -> Option<f64> {
        let (from, to) = (self.final_c(self.idle_w), self.final_c(watts));
        if from >= self.throttle_c {
            return Some(0.0);
        }
        (to > self.throttle_c)
            .then(|| self.time_constant_s * ((to - from) / (to - self.throttle_c)).ln())
    }

    /// The rules for the values: key, whether the value is acceptable, requirement.
    pub(crate) fn rules(&self) -> Vec<(&'static str, bool, &'static str)> {
        let celsius = [self.ambient_c, self.throttle_c, self.resume_c];
        let watts = [self.idle_w, self.die_w, self.bus_w, self.link_w];
        vec![
            (
                "thermal",
                celsius.iter().all(|c| (-100.0..=300.0).contains(c)),
                "temperatures must be -100 to 300 °C",
            ),
            ("thermal", watts.iter().all(|w| (0.0..=1e6).contains(w)), "watts must be 0 to 10^6"),
            ("thermal.kelvin_per_w", (0.0..=1e6).contains(&self.kelvin_per_w), "must be 0 to 10^6"),
            (
                "thermal.time_constant_s",
                (1e-6..=1e6).contains(&self.time_constant_s),
                "must be 10^-6 to 10^6",
            ),
            (
                "thermal.resume_c",
                self.resume_c <= self.throttle_c,
                "must be at most thermal.throttle_c",
            ),
            (
                "thermal.throttled_mb_per_s",
                self.throttled_mb_per_s > 0.0 && self.throttled_mb_per_s <= 1e9,
                "must be above 0 and at most 10^9",
            ),
        ]
    }
}

/// How warm a drive is, and how long it was held back by that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Warmth {
    /// Now, °C.
    pub celsius: f64,
    /// The most since the drive was made, °C.
    pub most_celsius: f64,
    /// How long it was held back since then.
    pub throttled: Time,
}

/// Steps of a time constant in which the temperature is followed. Chosen: half a percent of a step of power at most.
const STEPS: u64 = 256;
/// Steps at most after a long pause: sixteen time constants, of which a ten-millionth is left.
const MOST_STEPS: u64 = 16 * STEPS;

/// The temperature of a drive as it works. Times are nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Heat {
    thermal: Thermal,
    step: u64,
    warmth: Warmth,
    hot: bool,
    /// Until when it was followed, and how long dies, buses and link had worked by then.
    at: u64,
    worked: [u64; 3],
    pace: Server,
}

impl Heat {
    /// A drive that was idle for long.
    pub(crate) fn new(thermal: &Thermal) -> Heat {
        let celsius = thermal.final_c(thermal.idle_w);
        Heat {
            step: ((thermal.time_constant_s * 1e9) as u64 / STEPS).max(1),
            warmth: Warmth { celsius, most_celsius: celsius, throttled: Time::ZERO },
            hot: celsius >= thermal.throttle_c,
            at: 0,
            worked: [0; 3],
            pace: Server::default(),
            thermal: thermal.clone(),
        }
    }

    /// Whether it is time to follow the temperature again.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.at + self.step
    }

    /// Follows the temperature until `now`, when dies, buses and link have worked for so long in all.
    pub(crate) fn follow(&mut self, now: u64, worked: [u64; 3]) {
        let elapsed = now - self.at;
        let share = |index: usize| (worked[index] - self.worked[index]) as f64 / elapsed as f64;
        let work = AtWork { dies: share(0), buses: share(1), link: share(2) };
        let end = self.thermal.final_c(self.thermal.watts(work));
        let steps = elapsed.div_ceil(self.step).min(MOST_STEPS);
        let part = elapsed as f64 / steps as f64 / (self.thermal.time_constant_s * 1e9);
        let each = elapsed / steps;
        for _ in 0..steps {
            self.warmth.throttled.0 += if self.hot { each } else { 0 };
            self.warmth.celsius = (self.warmth.celsius + part * end) / (1.0 + part);
            self.warmth.most_celsius = self.warmth.most_celsius.max(self.warmth.celsius);
            let limit = if self.hot { self.thermal.resume_c } else { self.thermal.throttle_c };
            self.hot = self.warmth.celsius >= limit;
        }
        (self.at, self.worked) = (now, worked);
    }

    /// When `bytes`, which cross the link at `end`, are through if the drive is held back.
    pub(crate) fn hold_back(&mut self, now: u64, end: u64, bytes: f64) -> u64 {
        if !self.hot {
            return end;
        }
        let takes = (bytes * 1e3 / self.thermal.throttled_mb_per_s) as u64;
        end.max(self.pace.serve(now, now, takes))
    }

    pub(crate) fn warmth(&self) -> Warmth {
        self.warmth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of work by a drive of ten dies in steps of a millisecond: all of them, or none.
    fn work(heat: &mut Heat, seconds: f64, dies: u64) {
        let ms = 1_000_000;
        for _ in 0..(seconds * 1e3) as u64 {
            let (now, worked) = (heat.at + ms, heat.worked[0] + dies * ms);
            heat.follow(now, [worked, 0, 0]);
        }
    }

    #[test]
    fn the_temperature_follows_the_exponential_and_throttles_when_the_closed_form_says() {
        let thermal = Thermal { die_w: 0.6, time_constant_s: 2.0, ..Thermal::default() };
        let watts = thermal.watts(AtWork { dies: 10.0, ..AtWork::default() });
        let due = thermal.seconds_until_throttled(watts).unwrap();
        let mut heat = Heat::new(&thermal);
        work(&mut heat, 0.99 * due, 10);
        assert!(!heat.hot, "{:?}", heat.warmth);
        work(&mut heat, 0.03 * due, 10);
        assert!(heat.hot, "{:?}", heat.warmth);
        work(&mut heat, 2.0, 10);
        let expected = thermal.final_c(watts);
        let left = (expected - heat.warmth.celsius) / (expected - 45.0);
        let exact = (-(1.02 * due + 2.0) / 2.0_f64).exp();
        assert!((left - exact).abs() < 0.005, "{left} and {exact}");
        assert!((heat.warmth.throttled.as_secs_f64() / (2.0 + 0.02 * due) - 1.0).abs() < 0.05);
        // Idle, it cools below resume_c and goes on as before.
        work(&mut heat, 20.0, 0);
        assert!(!heat.hot && (heat.warmth.celsius - 45.0).abs() < 0.1, "{:?}", heat.warmth);
        assert_eq!(heat.hold_back(heat.at, 7, 1e9), 7);
    }

    #[test]
    fn a_long_pause_cools_as_many_short_ones_do() {
        let thermal = Thermal { die_w: 0.6, time_constant_s: 2.0, ..Thermal::default() };
        let mut heats = [Heat::new(&thermal), Heat::new(&thermal)];
        heats.iter_mut().for_each(|heat| work(heat, 10.0, 10));
        let [at_once, step_by_step] = &mut heats;
        at_once.follow(at_once.at + 3_000_000_000, at_once.worked);
        work(step_by_step, 3.0, 0);
        let apart = (at_once.warmth.celsius - step_by_step.warmth.celsius).abs();
        assert!(apart < 0.3, "{apart}");
        assert!(thermal.seconds_until_throttled(2.0).is_none());
    }
}

//! The rate of wear of a drive in years to come, and what follows from that.

use thermocline_types::Rng;

use super::habits::{Habit, Measured, Roles, Wearing, weighted};

/// Share of a class's trend that goes on, and its deviation. Chosen: whether a trend goes on is not known.
const GOES_ON: [f64; 2] = [0.75, 0.5];
/// Least deviation of a trend to come, a year. Chosen.
const NEW_TRENDS: f64 = 0.1;
/// Least deviation of a drive's rate to come. Chosen.
const LEAST: f64 = 0.05;
/// Share of the variance of a class's trend that all classes have in common. Chosen.
const SHARED: f64 = 0.5;
/// Deviations from the middle of a normal distribution to the ends of its inner 90 %.
pub(crate) const ENDS: f64 = 1.644_85;

/// Futures that are drawn.
pub(crate) const DRAWS: usize = 1000;

/// Rate of wear in years to come, as the logarithm of a share of the endurance a year.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Future {
    pub ln: f64,
    /// Deviation that is the drive's own.
    pub own: f64,
    /// Deviation that the drives of a class have in common.
    pub common: f64,
    /// Years before now in which its role may have changed unseen.
    pub unseen: f64,
}

impl Future {
    /// The mean rate of the next `years`; `None`: neither the drive nor its class has a rate.
    pub(crate) fn of(drive: &Wearing, habit: &Habit, years: f64) -> Option<Future> {
        let own = drive.level(habit);
        // The further a drive is from its class, the less the class says of it.
        let class = habit.level.map(|class| {
            let apart = own.map_or(0.0, |(own, _)| {
                (own.ln - class.ln).powi(2) / (own.variance + class.variance)
            });
            (Measured { variance: class.variance * (1.0 + apart), ..class }, 0.0)
        });
        let all = || own.into_iter().chain(class);
        all().next()?;
        let (ln, variance) = weighted(all().map(|(Measured { ln, variance }, _)| (ln, variance)));
        let middle: f64 = all().map(|(rate, middle)| middle * variance / rate.variance).sum();
        let half = years / 2.0;
        let fresh = (GOES_ON[1] * habit.trend).powi(2)
            + (GOES_ON[1] * habit.trends).powi(2)
            + NEW_TRENDS * NEW_TRENDS;
        let past = habit.trend_error * middle;
        let rest = drive.worn_error / (1.0 - drive.worn).max(0.02);
        Some(Future {
            ln: ln + GOES_ON[0] * habit.trend * half,
            own: (variance + habit.walk * years / 3.0 + rest * rest).sqrt().max(LEAST),
            common: (fresh * half * half + past * past + habit.seasons).sqrt(),
            unseen: if drive.recent.is_some() { 0.0 } else { drive.age / 2.0 },
        })
    }

    fn deviation(&self) -> f64 {
        self.own.hypot(self.common)
    }

    /// Rates of which 5, 50 and 95 % of the futures are below.
    pub(crate) fn rates(&self) -> [f64; 3] {
        [-ENDS, 0.0, ENDS].map(|ends| (self.ln + ends * self.deviation()).exp())
    }

    /// Probability that the rate is at least `rate`.
    fn at_least(&self, rate: f64) -> f64 {
        if rate <= 0.0 {
            return 1.0;
        }
        let least = (rate.ln() - self.ln) / self.deviation();
        0.5 * statrs::function::erf::erfc(least / std::f64::consts::SQRT_2)
    }

    /// Probability to wear `rest` in `years`, whether the role changes or not.
    pub(crate) fn probability(&self, rest: f64, years: f64, roles: &Roles) -> f64 {
        if rest <= 0.0 {
            return 1.0;
        }
        if years <= 0.0 {
            return 0.0;
        }
        if roles.rates.is_empty() {
            return self.at_least(rest / years);
        }
        let kept = |years: f64| (-roles.a_year * years).exp();
        let [past, later] =
            [1.0 - kept(self.unseen), kept(self.unseen) - kept(self.unseen + years)];
        let stays = self.at_least(rest / years);
        let enough = roles.rates.partition_point(|rate| rate * years < rest);
        let changed = 1.0 - enough as f64 / roles.rates.len() as f64;
        // Means over moments of the change and over rates after it.
        let (mut sum, mut count) = (0.0, 0.0);
        for moment in [1.0 / 6.0, 0.5, 5.0 / 6.0] {
            for ninth in 0..9 {
                let Some(rate) = roles.rates.get(roles.rates.len() * (2 * ninth + 1) / 18) else {
                    break;
                };
                let (before, after) = (years * moment, years * (1.0 - moment));
                sum += self.at_least((rest - rate * after) / before);
                count += 1.0;
            }
        }
        (1.0 - past - later) * stays + past * changed + later * sum / f64::max(count, 1.0)
    }
}

/// The `x` from 0 to `most` at which `rising` reaches `share`; `None`: it does not.
pub(crate) fn reaches(share: f64, most: f64, rising: impl Fn(f64) -> f64) -> Option<f64> {
    if rising(most) < share {
        return None;
    }
    let (mut low, mut high) = (0.0, most);
    for _ in 0..24 {
        let middle = f64::midpoint(low, high);
        if rising(middle) < share { low = middle } else { high = middle }
    }
    Some(high)
}

/// A drive whose future is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Runner {
    pub class: usize,
    pub future: Future,
    /// Endurance that is left.
    pub rest: f64,
    /// Years with power until its service ends.
    pub left: f64,
}

/// Drives worn out, in each drawn future.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drawn {
    /// By class: before the end of service.
    pub by_class: Vec<Vec<u32>>,
    /// By step of half a year from now: so many by then.
    pub by_step: Vec<Vec<u32>>,
}

/// Length of a step of [`Drawn::by_step`], years.
pub(crate) const STEP: f64 = 0.5;

/// Draws the futures of `runners`. Wear of class `c` comes `factors[c]` times as fast. Equal arguments give equal
/// draws, and a factor changes no draw of another class.
pub(crate) fn draw(runners: &[Runner], roles: &Roles, factors: &[f64], steps: usize) -> Drawn {
    let mut rng = Rng::new(1);
    let mut drawn = Drawn {
        by_class: vec![vec![0; DRAWS]; factors.len()],
        by_step: vec![vec![0; DRAWS]; steps + 1],
    };
    for at in 0..DRAWS {
        let shared = normal(&mut rng) * SHARED.sqrt();
        let a_year =
            roles.a_year * (roles.error * normal(&mut rng) - roles.error * roles.error / 2.0).exp();
        let classes: Vec<f64> =
            factors.iter().map(|_| shared + normal(&mut rng) * (1.0 - SHARED).sqrt()).collect();
        for runner in runners {
            let Runner { class, future, rest, left } = *runner;
            let ln = future.ln + future.common * classes[class] + future.own * normal(&mut rng);
            let [moment, other] = [rng.unit_f64(), rng.unit_f64()];
            let change = (-moment.max(1e-9).ln() / a_year - future.unseen).max(0.0);
            let rate = ln.exp() * factors[class];
            let mut years = rest.max(0.0) / rate;
            if change < years.min(left) && !roles.rates.is_empty() {
                let other = roles.rates[(other * roles.rates.len() as f64) as usize];
                years = change + (rest - rate * change) / (other * factors[class]);
            }
            if years > left {
                continue;
            }
            drawn.by_class[class][at] += 1;
            let step = ((years / STEP).ceil() as usize).min(steps);
            drawn.by_step[step][at] += 1;
        }
        for step in 1..=steps {
            drawn.by_step[step][at] += drawn.by_step[step - 1][at];
        }
    }
    drawn
}

/// A number of the normal distribution (Box and Muller).
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit_f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future(rate: f64) -> Future {
        Future { ln: rate.ln(), own: 0.3, common: 0.2, unseen: 0.3 }
    }

    #[test]
    fn draws_agree_with_the_closed_form() {
        for a_year in [1e-9, 0.2] {
            let roles = Roles {
                a_year,
                error: 0.0,
                rates: (1..100).map(|rate| f64::from(rate) / 100.0).collect(),
            };
            let runner = |class| Runner { class, future: future(0.2), rest: 0.5, left: 2.0 };
            let runners: Vec<Runner> = (0..200).map(|drive| runner(drive % 2)).collect();
            let drawn = draw(&runners, &roles, &[1.0, 0.5], 4);
            let mean = f64::from(drawn.by_class[0].iter().sum::<u32>()) / 1e3;
            let expected = 100.0 * future(0.2).probability(0.5, 2.0, &roles);
            assert!((mean - expected).abs() < 2.0, "{mean} {expected}");
            let halved = f64::from(drawn.by_class[1].iter().sum::<u32>()) / 1e3;
            assert!(halved < mean);
            let last: u32 = drawn.by_step[4].iter().sum();
            assert_eq!(last, drawn.by_class.iter().flatten().sum::<u32>());
            assert!(drawn.by_step.windows(2).all(|pair| pair[0][7] <= pair[1][7]));
        }
    }

    #[test]
    fn worn_drives_are_worn_and_drives_past_their_service_are_not_at_risk() {
        let roles = Roles { a_year: 0.1, error: 0.0, rates: vec![0.1] };
        let of = |rest, years| future(0.1).probability(rest, years, &roles);
        assert!(of(0.0, 1.0) >= 1.0 && of(0.5, 0.0) <= 0.0);
        let half = reaches(0.5, 100.0, |years| of(0.5, years)).unwrap();
        assert!((4.0..6.0).contains(&half), "{half}");
        assert_eq!(reaches(0.5, 1.0, |years| of(0.5, years)), None);
    }
}

//! How warm the drive got, and how long that held it back.

use thermocline_record::Heating;
use thermocline_types::Time;

use super::Outcome;

/// Temperatures and time held back over the measured run, where heat is modelled.
pub fn heating(outcome: &Outcome) -> Option<Heating> {
    let (now, before) = (outcome.drive.warmth()?, outcome.before.throttled);
    let seconds = now.throttled.since(before.min(now.throttled)).as_secs_f64();
    let run = outcome.simulated.as_secs_f64();
    Some(Heating {
        end_celsius: now.celsius,
        most_celsius: now.most_celsius,
        throttled_seconds: seconds.min(run),
        throttled_share: if outcome.simulated > Time::ZERO {
            (seconds / run).min(1.0)
        } else {
            0.0
        },
    })
}

/// Explains a run with thermal throttling, or a run too short to show throttling.
pub fn note(outcome: &Outcome) -> Option<String> {
    let heating = heating(outcome)?;
    let thermal = outcome.stack.profile.thermal.as_ref()?;
    Some(if heating.throttled_seconds > 0.0 {
        format!(
            "heat held the drive back for {:.3} s of the run ({:.0} %), to {} MB/s; at the end it had {:.1} °C",
            heating.throttled_seconds,
            100.0 * heating.throttled_share,
            thermal.throttled_mb_per_s,
            heating.end_celsius
        )
    } else {
        format!(
            "heat did not hold the drive back: {:.1} °C at most, after {:.3} s of the time constant of {} s",
            heating.most_celsius,
            outcome.simulated.as_secs_f64(),
            thermal.time_constant_s
        )
    })
}

//! Effects of heat on the drive.

use thermocline_nand::thermal::AtWork;

use super::super::Sheet;
use super::super::questions::{HEATED_S, IN_ORDER, Question};
use super::{Row, late_rate, mb, row, stated, stated_by};

impl Sheet {
    /// Rows on heat, and the finding in words.
    pub fn heat(&self) -> (Vec<Row>, String) {
        let (profile, measured) = (&self.stack.profile, self.of(Question::Heat).next());
        let Some(((measure, record), thermal)) = measured.zip(profile.thermal.as_ref()) else {
            let text = "not modelled; thermal.ambient_c=30 behind the device models it with assumed values";
            return (vec![stated(&["by heat", text])], "throttling by heat is not modelled".into());
        };
        // The same writes with the product's time constant end before the drive is hot.
        let cool = self.of(Question::Writes).find(|(measure, _)| measure.label == IN_ORDER);
        let cool = cool.map_or(record, |(_, record)| record);
        let busy = |resource: &str, of: f64| {
            let rates = cool.bandwidth.as_ref();
            rates.and_then(|rates| rates.busy.get(resource)).map_or(0.0, |busy| of * busy.mean)
        };
        let parts = |of: fn(&thermocline_nand::profile::Geometry) -> u32| {
            profile.geometry.as_ref().map_or(0.0, |geometry| f64::from(of(geometry)))
        };
        let heating = record.heating.unwrap_or_default();
        let work = AtWork {
            dies: busy("dies", parts(|geometry| geometry.dies)),
            buses: busy("buses", parts(|geometry| geometry.channels)),
            link: busy("link_in", 1.0).max(busy("link", 1.0)),
        };
        let watts = thermal.watts(work);
        let until = thermal.seconds_until_throttled(watts);
        let until = until.map_or("never".into(), |seconds| format!("after {seconds:.0} s"));
        let rates =
            format!("{} MB/s cool, {} MB/s warm", mb(late_rate(cool)), mb(late_rate(record)));
        let text = format!(
            "{rates}; held back {:.0} % of the run, {:.1} °C at the end",
            100.0 * heating.throttled_share,
            heating.end_celsius
        );
        let measured = row(measure, vec![text]);
        let product = format!(
            "{watts:.1} W while cool lead to {:.0} °C; throttled at {} °C {until} (time constant {} s, {HEATED_S} s in the \
             run above)",
            thermal.final_c(watts),
            thermal.throttle_c,
            thermal.time_constant_s
        );
        let rows = vec![
            measured,
            stated_by(
                format!("{}.thermal", profile.name),
                &["by heat: the product, by closed form", &product],
            ),
        ];
        let finding = if heating.throttled_share > 0.0 {
            format!("writing in order, heat throttles it ({until}): {rates}")
        } else {
            "heat does not hold it back when it writes in order".into()
        };
        (rows, finding)
    }
}

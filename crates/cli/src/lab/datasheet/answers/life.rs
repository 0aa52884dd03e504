//! Properties of a drive over its life: endurance, correction, parity, retention, wear. Closed forms with the measured
//! write amplification.

use thermocline_lab::theory::integrity::{Outlook, Use, outlook, wear_years};
use thermocline_lab::{media_endurance, rated_bytes};
use thermocline_nand::{Kind, Profile};
use thermocline_types::Bytes;

use super::super::Sheet;
use super::super::questions::Question;
use super::{Answer, Row, row, stated_by};

/// The answers, for the capacity drive.
pub fn answers(sheet: &Sheet) -> Vec<Answer> {
    let profile = &sheet.stack.profile;
    let usage = usage(sheet);
    let outlooks: Option<Vec<Outlook>> =
        [0.0, 0.5, 1.0].into_iter().map(|wear| outlook(profile, &usage, wear)).collect();
    let command = format!(
        "thermocline lab theory integrity --device {} --drive-writes {:.3} --waf {:.3}",
        device(sheet),
        usage.drive_writes_per_day,
        usage.waf
    );
    let told = outlooks.as_deref().map(|points| (points, command.as_str()));
    vec![
        ages(told),
        endurance(sheet),
        correction(profile, told),
        parity(profile, told),
        retention(told),
        wear(profile, &usage, &command),
    ]
}

/// The device's name in the stack, with its overrides.
fn device(sheet: &Sheet) -> String {
    let text = sheet.stack.text.split_once(':').map_or("", |(_, device)| device);
    text.rsplit('+').next().unwrap_or(text).to_owned()
}

/// The use of a drive at its rated writes, or at 0.3 drive writes per day. The write amplification is measured with
/// random writes of one mapping unit or the next larger measured size, because ratings of drives with large mapping
/// units assume such writes.
fn usage(sheet: &Sheet) -> Use {
    let usage = Use::default();
    let unit = sheet.stack.profile.mapping_unit.max(Bytes::BLOCK).as_f64();
    let run = sheet.of(Question::Writes).find(|(measure, _)| measure.x >= unit);
    let waf = run.and_then(|(_, record)| record.lasting.waf).unwrap_or(usage.waf);
    let drive_writes_per_day =
        sheet.stack.profile.wear.rated_dwpd.unwrap_or(usage.drive_writes_per_day);
    Use { waf: waf.max(1.0), drive_writes_per_day, ..usage }
}

const NOT_MODELLED: &str = "not modelled for this drive";

fn ages(told: Option<(&[Outlook], &str)>) -> Answer {
    let question = "Is it as fast at the end of its life as at the beginning?";
    let heads =
        vec!["rated cycles used up", "mean read of a page", "99 / 99.9 / 99.99 % of pages within"];
    let Some((points, command)) = told else { return unknown(question, heads) };
    let us = |us: f64| format!("{us:.0} us");
    let rows = points.iter().map(|point| Row {
        cells: vec![
            format!("{:.0} %", 100.0 * point.wear),
            point.read_us.map_or("-".into(), us),
            point
                .read_us_within
                .map_or("-".into(), |[a, b, c]| format!("{a:.0} / {b:.0} / {c:.0} us")),
        ],
        command: Some(command.to_owned()),
        value: None,
    });
    let slower = points[0].read_us.zip(points[2].read_us);
    let finding = slower.map_or(NOT_MODELLED.into(), |(new, worn)| {
        format!(
            "at the rated cycles pages are read {:.0} % slower than new, by retries",
            100.0 * (worn / new - 1.0)
        )
    });
    Answer { question, finding, heads, rows: rows.collect() }
}

fn endurance(sheet: &Sheet) -> Answer {
    let mut rows = Vec::new();
    let profile = &sheet.stack.profile;
    let years = profile.wear.warranty_years.unwrap_or(5.0);
    let media = media_endurance(profile);
    let mut random = None;
    for (measure, record) in sheet.of(Question::Relation) {
        let waf = record.lasting.waf.filter(|waf| *waf > 0.0);
        let Some((media, waf)) = media.zip(waf) else { continue };
        let bytes = media.host_bytes(waf);
        let dwpd = bytes / (profile.capacity.as_f64() * 365.0 * years);
        random = Some((bytes, dwpd));
        let cells = vec![format!("{waf:.2}"), format!("{:.0}", bytes / 1e12), format!("{dwpd:.2}")];
        rows.push(row(measure, cells));
    }
    for profile in sheet.profiles() {
        if let Some((bytes, dwpd)) = rated_bytes(profile).zip(profile.wear.rated_dwpd) {
            let name = format!("{}, rated by its maker", profile.name);
            let (tb, dwpd) = (format!("{:.0}", bytes / 1e12), format!("{dwpd:.2}"));
            let key = format!("{}.wear.rated_dwpd", profile.name);
            rows.push(stated_by(key, &[&name, "-", &tb, &dwpd]));
        }
    }
    let finding = random.map_or("its endurance is not known".into(), |(bytes, dwpd)| {
        format!(
            "{:.0} TB of uniform random writes of 4 KiB, {dwpd:.2} capacities a day for {years} years, P/E cycles as \
             assumed in the profile",
            bytes / 1e12
        )
    });
    let heads = vec!["writes of 4 KiB", "WAF", "TB written", "capacities a day"];
    Answer { question: "How much can be written in its life?", finding, heads, rows }
}

fn correction(profile: &Profile, told: Option<(&[Outlook], &str)>) -> Answer {
    let question = "How are errors corrected, and how many are left?";
    let heads =
        vec!["rated cycles used up", "share of bits wrong", "codewords read again a year", "UBER"];
    let Some(((points, command), model)) = told.zip(profile.integrity.as_ref()) else {
        return unknown(question, heads);
    };
    let rows = points.iter().map(|point| Row {
        cells: vec![
            format!("{:.0} %", 100.0 * point.wear),
            format!("{:.1e}", point.bit_error_rate),
            point.retried_per_year.to_string(),
            point.uber.to_string(),
        ],
        command: Some(command.to_owned()),
        value: None,
    });
    let ecc = &model.ecc;
    let soft = match ecc.soft_bits {
        0 => String::new(),
        bits => format!(", {bits} with soft information"),
    };
    let finding = format!(
        "{} wrong bits in {}{soft}, {} retries; codes take {:.1} % of the cells (assumed values, a factor of {} either way)",
        ecc.hard_bits,
        ecc.codeword,
        model.retry.steps,
        100.0 * ecc.overhead / (1.0 + ecc.overhead),
        model.errors.uncertainty
    );
    Answer { question, finding, heads, rows: rows.collect() }
}

fn parity(profile: &Profile, told: Option<(&[Outlook], &str)>) -> Answer {
    let question = "What if a page or a die cannot be read?";
    let heads = vec!["rated cycles used up", "codewords rebuilt a year", "codewords lost a year"];
    let Some(((points, command), model)) = told.zip(profile.integrity.as_ref()) else {
        return unknown(question, heads);
    };
    let rows = points.iter().map(|point| Row {
        cells: vec![
            format!("{:.0} %", 100.0 * point.wear),
            point.rebuilt_per_year.to_string(),
            point.lost_per_year.to_string(),
        ],
        command: Some(command.to_owned()),
        value: None,
    });
    let failures = &model.failures;
    let dies = match model.parity.dies {
        0 => "there is no parity over dies".to_owned(),
        dies => format!(
            "one page of {dies} is parity, {:.1} % of the media",
            100.0 * model.parity.share()
        ),
    };
    let finding = format!(
        "{dies}; {:.1} % of drives fail as a whole in their first year, {:.1} % in later ones",
        100.0 * failures.between(0.0, 365.0),
        100.0 * failures.between(730.0, 1095.0)
    );
    Answer { question, finding, heads, rows: rows.collect() }
}

fn retention(told: Option<(&[Outlook], &str)>) -> Answer {
    let question = "How long is data kept, warm and without power?";
    let heads = vec![
        "rated cycles used up",
        "refreshed after",
        "WAF of refresh",
        "UBER after 3 months off",
    ];
    let Some((points, command)) = told else { return unknown(question, heads) };
    let days = |days: Option<f64>| days.map_or("-".into(), |days| format!("{days:.0} days"));
    let rows = points.iter().map(|point| Row {
        cells: vec![
            format!("{:.0} %", 100.0 * point.wear),
            days(point.refresh_days),
            format!("+{:.3}", point.waf_of_refresh),
            point.uber_jesd218.to_string(),
        ],
        command: Some(command.to_owned()),
        value: None,
    });
    let finding = format!(
        "at 55 °C what rests is rewritten after {} at the rated cycles; JESD218 asks for an UBER of 1e-16 (data centres) \
         or 1e-15 (clients)",
        points[2]
            .refresh_days
            .map_or("no time within five years".into(), |d| format!("{d:.0} days"))
    );
    Answer { question, finding, heads, rows: rows.collect() }
}

fn wear(profile: &Profile, usage: &Use, command: &str) -> Answer {
    let question = "How is wear levelled, and what replaces worn-out blocks?";
    let heads = vec!["data at rest", "first block worn out", "spares used up"];
    let Some(both) = wear_years(profile, usage).filter(|_| profile.kind != Kind::Disk) else {
        return unknown(question, heads);
    };
    let rows = ["is moved", "stays where it is"].into_iter().zip(both).map(|(name, years)| Row {
        cells: vec![
            name.to_owned(),
            format!("{:.1} years", years.first_block),
            format!("{:.1} years", years.spares_used_up),
        ],
        command: Some(command.to_owned()),
        value: None,
    });
    let moved = match profile.wear.levelling_spread {
        Some(span) => format!("data at rest is moved when erases differ by more than {span}"),
        None if profile.kind == Kind::Zns => "the host levels wear".into(),
        None => "data at rest is not moved".into(),
    };
    let finding = format!(
        "{moved}; {:.1} % of the blocks are spare; at {:.2} capacities a day of random writes as large as its mapping unit (WAF {:.2}), half of the data \
         at rest",
        100.0 * profile.wear.spare,
        usage.drive_writes_per_day,
        usage.waf
    );
    Answer { question, finding, heads, rows: rows.collect() }
}

fn unknown(question: &'static str, heads: Vec<&'static str>) -> Answer {
    Answer { question, finding: NOT_MODELLED.into(), heads, rows: Vec::new() }
}

//! Fleets whose future is known.

use super::*;

fn answer_of(rows: &str) -> FleetAnswer {
    let mut read = FleetRows::default();
    read.read("rows.csv", rows.as_bytes()).expect("CSV");
    assess(&read, &FleetQuestion::default()).expect("rows")
}

#[test]
fn what_became_of_most_classes_is_inside_the_intervals() {
    // No seed was seen before the rules of the forecast were fixed.
    let grades: Vec<Grade> = (101..105)
        .map(|seed| {
            let fleet = generate(3000, seed, 0.08);
            let answer = answer_of(&fleet.rows);
            assert_eq!(answer.refused.len(), fleet.truth.refused);
            grade(&answer, &fleet.truth)
        })
        .collect();
    let mean = grades.iter().map(Grade::classes_inside).sum::<f64>() / grades.len() as f64;
    assert!(mean >= 0.85, "{mean}: {grades:#?}");
    // Intervals that hold everything would say nothing.
    for grade in &grades {
        let FleetRange { low, likely, high } = grade.fleet.forecast;
        assert!(high - low < 0.75 * likely, "{:?}", grade.fleet);
    }
}

const HEAD: &str =
    "serial,model,time,class,capacity_bytes,host_bytes,media_bytes,used_percent,power_on_hours\n";

#[test]
fn every_drive_is_forecast_or_has_a_reason() {
    let rows = format!(
        "{HEAD}A,M,2026-01-01,c,1e12,1e15,3e15,90,35000\nB,M,2026-01-01,c,1e12,1e13,2e13,1,35000\n\
         C,M,2026-01-01,c,1e12,,,,35000\nD,M,2026-01-01,c,1e12,,,20,\nE,M,2025-06-01,c,1e12,,,20,9000\n\
         F,M,2026-01-01,c,1e12,1e15,3e15,101,35000\nG,M,2026-01-01,c,1e12,1e15,3e15,40,50000\n"
    );
    let answer = answer_of(&rows);
    let of = |serial: &str| {
        answer
            .drives
            .iter()
            .find(|one| one.serial == serial)
            .expect("it can be forecast")
            .probability
    };
    assert!(of("F") >= 1.0 && of("A") > 0.8 && of("B") < 0.05 && of("G") <= 0.0);
    let unsaid: Vec<&str> = answer.unsaid.iter().map(|one| one.serial.as_str()).collect();
    assert_eq!(unsaid, ["C", "D", "E"]);
    for (one, part) in answer.unsaid.iter().zip(["used_percent", "power_on_hours", "2025-06-01"]) {
        assert!(one.reason.contains(part), "{one:?}");
    }
    let class = &answer.classes[0];
    assert_eq!((class.drives, class.past_service, class.worn_already), (4, 1, 1));
    assert!(answer.assumptions.iter().any(|one| one.contains("no drive has a history")));
    let lines: Vec<String> = answer.csv().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 5);
    assert!(lines.iter().all(|line| line.split(',').count() == 20), "{lines:?}");
}

#[test]
fn options_of_a_trial_save_drives_and_money() {
    let fleet = generate(400, 3, 0.2);
    let mut rows = FleetRows::default();
    rows.read("rows.csv", fleet.rows.as_bytes()).expect("CSV");
    let tried = |option: &str, factor: Option<f64>| TriedMend {
        option: option.to_owned(),
        factor: factor.map(|likely| FleetRange { low: likely, likely, high: likely }),
        reason: factor.is_none().then(|| "no volumes".to_owned()),
    };
    let trial = ClassTrial {
        class: "kv-cache".to_owned(),
        device: "p5316".to_owned(),
        waf: FleetRange { low: 2.0, likely: 2.0, high: 2.0 },
        causes: vec![("relocation".to_owned(), 1.0)],
        traces: [1, 1],
        is_narrow: false,
        options: vec![tried("hints", None), tried("discards", Some(0.9)), tried("FDP", Some(0.5))],
    };
    let trials = vec![trial.clone()];
    let question = FleetQuestion { price: Some(500.0), trials, ..FleetQuestion::default() };
    let answer = assess(&rows, &question).expect("rows");
    let class =
        answer.classes.iter().find(|class| class.name == "kv-cache").expect("it has drives");
    let options: Vec<&str> = class.mends.iter().map(|one| one.option.as_str()).collect();
    assert_eq!(options, ["FDP", "discards", "hints"]);
    let worn = |index: usize| class.mends[index].worn_out.expect("it was tried").likely;
    assert!(worn(0) < worn(1) && worn(1) < class.worn_out.likely, "{class:#?}");
    assert!(class.mends[0].saves.expect("there is a price") > 500.0);
    assert!(class.why.iter().any(|why| why.contains("FDP helps most")), "{:?}", class.why);
    assert!(class.why.iter().any(|why| why.contains("nothing is known of other hosts")));
    let trials = vec![ClassTrial { class: "none".to_owned(), ..trial }];
    let question = FleetQuestion { trials, ..FleetQuestion::default() };
    assert!(assess(&rows, &question).expect_err("no drive is of it").contains("class none"));
}

#[test]
fn a_drive_that_began_to_write_more_wears_out_sooner() {
    // 400 days at 10 TB a day, and then a hundred at twice that, or as before.
    let rows = |serial: &str, factor: u32| -> String {
        (400..=500)
            .step_by(10)
            .map(|day| {
                let written = 400 + (day - 400) * factor;
                let (seconds, used) = (1_700_000_000 + day * 86_400, written / 10);
                format!(
                    "{serial},M,{seconds},c,1e13,{written}e13,{written}e13,{used},{}\n",
                    day * 24
                )
            })
            .collect()
    };
    let answer = answer_of(&(HEAD.to_owned() + &rows("slow", 1) + &rows("fast", 2)));
    let of = |serial: &str| {
        answer.drives.iter().find(|one| one.serial == serial).expect("it can be forecast")
    };
    let rate = |serial: &str| of(serial).percent_per_year.likely;
    assert!((0.8..1.3).contains(&(rate("slow") / 36.5)), "{}", rate("slow"));
    assert!(rate("fast") > 1.4 * rate("slow"), "{} {}", rate("fast"), rate("slow"));
    assert!(of("fast").worn_out.likely < of("slow").worn_out.likely);
    assert_eq!(of("fast").waf, Some(1.0));
}

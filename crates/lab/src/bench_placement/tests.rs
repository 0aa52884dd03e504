use std::sync::Mutex;

use super::*;

fn plan(laws: &[&str]) -> Plan {
    let named = |name: &&str| LAWS.iter().find(|(law, _)| law == name).expect("a law");
    Plan {
        candidates: ["none", "sepgc", "oracle-rates", "oracle-future"]
            .map(|name| name.parse().unwrap())
            .to_vec(),
        victims: vec![Victim::Greedy, "kawaguchi".parse().unwrap()],
        garbage: vec![0.15],
        blocks_per_unit: NonZeroU32::new(64).unwrap(),
        laws: laws.iter().map(named).map(|&(name, law)| (name.to_owned(), law)).collect(),
        blocks: 64 * 500,
        turnovers: 8.0,
        traces: Vec::new(),
        reading: Default::default(),
        discards: false,
        reserve: None,
        through: None,
        seed: 1,
        jobs: 2,
    }
}

fn tables(plan: &Plan) -> Vec<Table> {
    let mut tables = Vec::new();
    let take = |table| {
        tables.push(table);
        Ok(())
    };
    bench(plan, &|_, _| ControlFlow::Continue(()), take).unwrap();
    tables
}

#[test]
fn uniform_writes_meet_the_closed_form_and_skew_ranks_knowledge() {
    let tables = tables(&plan(&["uniform", "hotcold-10-90"]));
    let best = |table: usize, line: usize| tables[table].lines[line].best().expect("it fits").0;
    let limit = tables[0].limit.expect("a closed form");
    // Open and reserve units take 1 % of the space that garbage has.
    assert!((best(0, 0) / limit - 1.0).abs() < 0.03, "{} against {limit}", best(0, 0));
    let [none, sepgc, rates, future] = [0, 1, 2, 3].map(|line| best(1, line));
    assert!(
        none > 1.2 * sepgc && sepgc > rates && rates > future,
        "{none} {sepgc} {rates} {future}"
    );
    assert!(rates > 0.97 * tables[1].limit.expect("a closed form"), "{rates} is below the limit");
}

#[test]
fn threads_change_nothing() {
    let wafs = |jobs| {
        let tables = tables(&Plan { jobs, turnovers: 2.0, ..plan(&["logs", "drift-zipf"]) });
        let lines = tables.into_iter().flat_map(|table| table.lines);
        lines.flat_map(|line| line.wafs).map(|(_, waf)| waf).collect::<Vec<_>>()
    };
    let one = wafs(1);
    assert_eq!(one, wafs(3));
    assert!(one.iter().all(Option::is_some));
}

/// Progress rises within a simulation, and ends it there: what was not measured by then is not there.
#[test]
fn a_simulation_ends_as_soon_as_progress_says_so() {
    let mut plan = Plan { jobs: 1, ..plan(&["uniform"]) };
    plan.candidates.truncate(2);
    plan.victims.truncate(1);
    let until = |most: f64| {
        let (told, mut tables) = (Mutex::new(Vec::new()), Vec::new());
        let progress = |_: &str, share: f64| {
            told.lock().unwrap().push(share);
            if share > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let take = |table| {
            tables.push(table);
            Ok(())
        };
        bench(&plan, &progress, take).unwrap();
        (told.into_inner().unwrap(), tables)
    };
    let (told, tables) = until(0.1);
    assert!(tables.is_empty(), "nothing was measured");
    assert!(told.is_sorted() && told.len() > 20, "{told:?}");
    let (told, tables) = until(0.75);
    assert!(told.iter().filter(|share| **share > 0.76).all(|share| *share >= 1.0), "{told:?}");
    let measured = tables[0].lines.iter().map(|line| line.best().is_some());
    assert!(measured.eq([true, false]));
    let (_, tables) = until(1.0);
    assert!(tables[0].lines.iter().all(|line| line.best().is_some()));
}

#[test]
fn what_does_not_fit_is_left_out() {
    let tiny = Plan { blocks: 64 * 50, ..plan(&["uniform"]) };
    let lines = &tables(&tiny)[0].lines;
    assert!(lines[0].best().is_some(), "one open unit fits into eight to spare");
    assert!(lines[3].best().is_none(), "sixteen do not");
}

#[test]
fn the_causes_sum_to_all_that_the_engine_writes_more_than_the_yardstick() {
    let mut plan = plan(&["uniform", "zipf-1.0"]);
    plan.candidates.truncate(2);
    plan.victims.truncate(1);
    plan.garbage = vec![0.25];
    plan.blocks_per_unit = NonZeroU32::new(256).unwrap();
    plan.blocks = 256 * 300;
    plan.turnovers = 3.0;
    let through = |plan: &Plan, ahead: u32| {
        let through = Some(vec![format!("pool.ahead_units={ahead}")]);
        let tables = tables(&Plan { through, ..plan.clone() });
        tables.into_iter().flat_map(|table| table.through).collect::<Vec<_>>()
    };
    let (few, many) = (through(&plan, 8), through(&plan, 24));
    assert_eq!(few.len(), 4, "two policies on two workloads");
    for one in &few {
        let sum: f64 = one.causes.iter().map(Cost::total).sum();
        let difference = one.engine - one.yardstick;
        assert!((sum - difference).abs() < 1e-9, "{sum} of {difference}: {one:?}");
        assert!(difference > 0.0 && (0.0..1.0).contains(&one.absorbed), "{one:?}");
    }
    let unexplained = few[0].causes.last().expect("there is one").total();
    assert!(unexplained.abs() < 0.1 * (few[0].engine - few[0].yardstick), "{:?}", few[0]);
    for (few, many) in few.iter().zip(&many) {
        let held = |one: &Through| {
            one.causes.iter().find(|cost| cost.cause == "empty units").expect("it is one").units
        };
        assert!(held(few) + 8.0 < held(many), "{few:?} {many:?}");
        assert!(few.engine < many.engine, "{few:?} {many:?}");
    }
}

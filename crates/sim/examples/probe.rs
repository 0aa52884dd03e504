//! temporary
use thermocline_sim::fail::fail_every_action;
fn main() {
    let from: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(0);
    let to: u64 = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(24);
    for seed in from..to {
        let r = std::panic::catch_unwind(|| fail_every_action(seed, 40));
        match r {
            Ok(r) => {
                println!("{seed}: {} commands {} runs {} wrong", r.commands, r.runs, r.wrong.len());
                for (n, w) in &r.wrong { println!("BAD {seed} {n} {}", &w[..w.len().min(300)]); }
            }
            Err(_) => println!("PANIC {seed} {:?}", thermocline_sim::replay::current()),
        }
    }
}

//! Compares the yardstick with the log engine, as text.

use comfy_table::{Cell, CellAlignment};
use thermocline_lab::bench_placement::{Table, Through};

use crate::table::plain;

/// The engine's writes by cause, for each policy that ran in the engine.
pub fn show(table: &Table) -> String {
    table.through.iter().map(one).collect()
}

fn one(through: &Through) -> String {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let Through { policy, victim, absorbed, yardstick, engine, causes } = through;
    let share = |waf: f64| format!("{:+.2} %", waf / yardstick * 100.0);
    let mut drawn = plain();
    let heads = ["units", "written", "copied", "of the yardstick"].map(|head| right(head.into()));
    drawn.set_header(std::iter::once(Cell::new("cause")).chain(heads).collect::<Vec<_>>());
    for cost in causes {
        drawn.add_row([
            Cell::new(cost.cause),
            right(format!("{:.1}", cost.units)),
            right(format!("{:.4}", cost.written)),
            right(format!("{:.4}", cost.copied)),
            right(share(cost.total())),
        ]);
    }
    format!(
        "\n{policy} with {victim}, for the {:.1} % of the writes that reached media: WAF of the yardstick \
         {yardstick:.3}, of the engine {engine:.3}, {}\n{drawn}\n",
        100.0 * (1.0 - absorbed),
        share(engine - yardstick),
    )
}

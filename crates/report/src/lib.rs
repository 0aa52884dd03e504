//! Run records as one static HTML page with charts.
//!
//! Invariants:
//! * [`render`] is pure: the same records give the same bytes. No clock, no I/O, no randomness.
//! * The page loads nothing and runs no script: style and drawings are inside it, and its content security policy
//!   forbids every request.
//! * Charts are SVG, drawn when the page is written. They follow the page's style: light, dark, phone, paper.
//! * What a record does not hold is called `unknown` or `not modelled`, never 0 or 1. A ratio taken before steady state
//!   is marked `transient`.

mod bytes;
mod data;
mod facts;
mod figure;
mod finding;
mod fleet;
mod handles;
mod life;
mod page;
mod palette;
mod plots;
mod svg;
mod sweep;
mod table;
mod tenants;
mod text;
mod units;

pub use fleet::{FleetPage, fleet_page};
pub use page::{render, render_plots, render_with_workload};
pub use plots::{BarChart, GridChart, Origin, PlotPage, TextTable};
pub use sweep::{SweepCell, SweepKey, sweep_page};

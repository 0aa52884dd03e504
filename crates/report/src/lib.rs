//! Run records as one static HTML page with charts.
//!
//! Invariants:
//! * [`render`] is pure: the same records give the same bytes. No clock, no I/O, no randomness.
//! * The page loads nothing: style, scripts, charting library and data are inside it, and its content security policy
//!   forbids every request.
//! * Findings and tables are HTML made here and stand without JavaScript; only the charts are drawn by the scripts in
//!   `assets/`, from the run records that the page carries as JSON.
//! * What a record does not hold is called `unknown` or `not modelled`, never 0 or 1. A ratio taken before steady state
//!   is marked `transient`.

mod bytes;
mod data;
mod facts;
mod figure;
mod finding;
mod life;
mod page;
mod palette;
mod plots;
mod sweep;
mod table;
mod tenants;
mod text;
mod units;

pub use page::{render, render_plots};
pub use plots::{Origin, PlotPage, TextTable};
pub use sweep::{SweepCell, SweepKey, sweep_page};

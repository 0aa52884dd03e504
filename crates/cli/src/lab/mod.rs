//! `thermocline lab`.

mod analyze;
pub mod args;
mod bench_placement;
mod convert;
mod datasheet;
mod explain;
mod jobs;
mod kvcache;
mod life_from;
mod list;
mod output;
mod parallel;
pub mod plots;
mod pts;
#[cfg(feature = "papers")]
mod reproduce;
mod run;
mod sheets;
mod sweep;
mod tco;
mod theory;
mod whatif;

use clap::Subcommand;

/// What `thermocline lab` can do.
#[derive(Subcommand)]
pub enum Command {
    /// Run one workload against one stack
    Run(run::RunArgs),
    /// Run the same workload against several stacks: one table, one report
    Compare(run::CompareArgs),
    /// Run several jobs at once, each with a depth and a cap of its own, through one queue or apart
    Jobs(jobs::JobsArgs),
    /// The cache of a language model on flash: hits, writes and life of the drive for each admission rule
    Kvcache(kvcache::KvCacheArgs),
    /// Run a workload for each value of a key, or of two against each other: table, curves, heat maps
    Sweep(sweep::SweepArgs),
    /// What discards, hints, streams, FDP, zones or a fast tier would buy: each alone, on equal media
    Whatif(whatif::WhatIfArgs),
    /// What a workload costs on several stacks over five years: drives, replacements, energy, servers, racks, carbon
    Tco(tco::TcoArgs),
    /// The questions to ask of any drive, answered for a stack on one page
    Datasheet(datasheet::DatasheetArgs),
    /// The performance test specification of the SNIA on a stack: IOPS, throughput, latency, write saturation
    Pts(pts::PtsArgs),
    /// Ratings of drives' data sheets beside simulated figures
    Sheets(sheets::SheetsArgs),
    /// Tell what a workload is made of, and whether placement can help it
    Analyze(analyze::AnalyzeArgs),
    /// Closed forms: write amplification without simulating anything
    Theory(theory::TheoryArgs),
    /// Repeat a published experiment: our figures beside theirs
    #[cfg(feature = "papers")]
    Reproduce(reproduce::ReproduceArgs),
    /// Every placement policy with every victim rule on a full drive: the yardstick of placement
    BenchPlacement(bench_placement::BenchArgs),
    /// Which placement policy wins on a trace, why, and what a perfect one would reach
    Explain(explain::ExplainArgs),
    /// Rewrite a trace of any format as plain csv
    Convert(convert::ConvertArgs),
    /// List devices, traces, workloads, trace formats, victims, placements and experiments
    List(list::ListArgs),
}

/// Executes `command`.
///
/// # Errors
/// Any failure, with a text for the user.
pub fn execute(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => run::compare(&args),
        Command::Jobs(args) => jobs::jobs(&args),
        Command::Kvcache(args) => kvcache::kvcache(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Whatif(args) => whatif::whatif(&args),
        Command::Tco(args) => tco::tco(&args),
        Command::Datasheet(args) => datasheet::datasheet(&args),
        Command::Pts(args) => pts::pts(&args),
        Command::Sheets(args) => sheets::sheets(&args),
        Command::Analyze(args) => analyze::analyze(&args),
        Command::Theory(args) => theory::theory(&args),
        #[cfg(feature = "papers")]
        Command::Reproduce(args) => reproduce::reproduce(&args),
        Command::BenchPlacement(args) => bench_placement::bench_placement(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::List(args) => list::list(&args),
    }
}

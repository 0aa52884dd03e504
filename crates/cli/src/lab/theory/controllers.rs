//! `lab theory controllers`.

use std::io::Write as _;

use clap::Args;
use thermocline_nand::Drive;
use thermocline_nand::profile::{Profile, builtin};
use thermocline_types::{Bytes, Cause, Op, Request, StreamId, TenantId, Time};

/// Arguments of `lab theory controllers`.
#[derive(Args)]
#[command(after_help = "\
The worked examples of the SNIA tutorial of 2009, on simulated drives with erase blocks of four pages of four blocks:
what each step reads, erases and writes, and how much of that is the user's. Speed and write amplification of the same
controllers by size and mix: `lab reproduce snia-controllers`.

Example:
  thermocline lab theory controllers")]
pub struct ControllersArgs {}

/// Blocks in an erase block, and in a page.
const BLOCKS: u64 = 16;
const PAGE: usize = 4;
/// Host writes after the first half of the erase block: two steps.
const STEPS: [std::ops::Range<u64>; 2] = [8..11, 8..13];

/// `lab theory controllers`.
pub fn controllers(_args: &ControllersArgs) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "An erase block of {BLOCKS} blocks in pages of {PAGE}; 8 hold data. h: the host's, c: copied, -: fill, .: erased\n"
    )?;
    let cases = [
        ("in-place", "Read/erase/modify/write: into the block it came from"),
        (
            "elsewhere",
            "Read/modify/write: into another block, the old one erased when there is time",
        ),
    ];
    for (order, title) in cases {
        let (text, _) = rewrite(order)?;
        writeln!(out, "{title}\n{text}")?;
    }
    let (text, _) = collect();
    writeln!(
        out,
        "Garbage collection: what is valid moves on, and the host writes behind it\n{text}"
    )?;
    Ok(())
}

/// The steps on a block-mapped drive, as text, and the host's share of the writes.
fn rewrite(order: &str) -> anyhow::Result<(String, f64)> {
    let given = [
        ("capacity", "1MiB"),
        ("unit", "64KiB"),
        ("op", "0.25"),
        ("geometry.page", "16KiB"),
        ("geometry.block", "64KiB"),
        ("rewrite.order", order),
    ];
    let given = given.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let text = builtin("sata-a").expect("it comes with the program");
    let profile = Profile::with_overrides("sata-a", text, &given)?;
    let mut drive = Drive::new(&profile, None, 1)?;
    drive.submit(Time::ZERO, &write(0..8), 0)?;
    let start = drive.counters();
    let mut held: Vec<bool> = (0..BLOCKS).map(|block| block < 8).collect();
    let mut lines = String::new();
    for (step, blocks) in STEPS.into_iter().enumerate() {
        let before = drive.counters();
        drive.submit(Time::ZERO, &write(blocks.clone()), 0)?;
        let done = drive.counters().since(&before);
        let [host, copied, fill] = [Cause::Host, Cause::ReadModifyWrite, Cause::Padding]
            .map(|cause| done.media[cause.index()] / Bytes::BLOCK.0);
        let letter = |(block, held): (u64, &bool)| match () {
            () if blocks.contains(&block) => 'h',
            () if *held => 'c',
            () => '-',
        };
        let picture: Vec<char> = (0..).zip(&held).map(letter).collect();
        lines += &format!(
            "  step {}: {}   {host} new + {copied} copied + {fill} fill = {} written, {} erase\n",
            step + 1,
            pages(&picture),
            done.media_total / Bytes::BLOCK.0,
            done.erased / drive.cut().unit().0,
        );
        blocks.for_each(|block| held[block as usize] = true);
    }
    let run = drive.counters().since(&start);
    let share = run.host_written as f64 / run.media_total as f64;
    lines += &format!(
        "  {} of {} written are the host's: {:.0} %, WAF {:.1}, {} erases\n",
        run.host_written / Bytes::BLOCK.0,
        run.media_total / Bytes::BLOCK.0,
        share * 100.0,
        1.0 / share,
        run.erased / drive.cut().unit().0,
    );
    Ok((lines, share))
}

/// The step of a garbage collection whose victim is half valid, as text, and the host's share.
fn collect() -> (String, f64) {
    let valid: Vec<bool> = (0..BLOCKS).map(|block| block % 2 == 0).collect();
    let copied = valid.iter().filter(|valid| **valid).count();
    let host = valid.len() - copied;
    let victim: Vec<char> = valid.iter().map(|valid| if *valid { 'c' } else { '.' }).collect();
    let filled: Vec<char> = (0..valid.len()).map(|b| if b < copied { 'c' } else { 'h' }).collect();
    let share = host as f64 / valid.len() as f64;
    let text = format!(
        "  victim: {}   {copied} of {BLOCKS} valid; erased when they are copied\n  opened: {}   {host} new + {copied} \
         copied = {BLOCKS} written, 1 erase\n  {host} of {BLOCKS} written are the host's: {:.0} %, WAF {:.1}: 1 / the \
         invalid share of the victim\n",
        pages(&victim),
        pages(&filled),
        share * 100.0,
        1.0 / share,
    );
    (text, share)
}

fn pages(blocks: &[char]) -> String {
    let pages: Vec<String> = blocks.chunks(PAGE).map(|page| page.iter().collect()).collect();
    format!("[{}]", pages.join("|"))
}

fn write(blocks: std::ops::Range<u64>) -> Request {
    Request {
        at: Time::ZERO,
        op: Op::Write,
        offset: Bytes(blocks.start * Bytes::BLOCK.0),
        length: Bytes((blocks.end - blocks.start) * Bytes::BLOCK.0),
        tenant: TenantId(0),
        stream: StreamId::UNKNOWN,
        outstanding: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_those_of_the_tutorial() {
        for order in ["in-place", "elsewhere"] {
            let (text, share) = rewrite(order).unwrap();
            assert!((share - 0.25).abs() < 1e-12, "{text}");
            assert!(
                text.contains("[cccc|cccc|hhh-|----]   3 new + 8 copied + 5 fill = 16"),
                "{text}"
            );
            assert!(text.contains("8 of 32") && text.contains("WAF 4.0, 2 erases"), "{text}");
        }
        assert!((collect().1 - 0.5).abs() < 1e-12);
    }
}

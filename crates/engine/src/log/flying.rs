//! Blocks and pages whose chunks are still on their way: they are read from memory.

use thermocline_format::{Location, LogicalBlock};

use super::{Flight, Log};
use crate::bugs::bug;
use crate::config::Config;
use crate::device::{Body, PageBytes};
use crate::marks::mark;

impl<P> Log<P> {
    /// The block at `at` if its chunk is still on its way.
    pub(crate) fn in_flight(&self, at: Location, config: &Config) -> Option<&P> {
        let geometry = &config.geometry;
        let covers = |flight: &&Flight<P>| {
            let origin = &flight.chunk.header.origin.location;
            let end = origin.block + flight.chunk.header.blocks;
            flight.pending > 0 && origin.unit == at.unit && (origin.block..end).contains(&at.block)
        };
        let flight = self.flights.iter().find(covers)?;
        let header = &flight.chunk.header;
        mark!(PackedInFlight if header.packed.is_some());
        let shift = header.packed.is_some() && bug!(config, PackedShiftForgotten);
        let number = header.places(geometry).number(at)? + u32::from(shift);
        match &flight.chunk.body {
            Body::User(blocks) => blocks.get(number as usize),
            Body::Pages(_) => None,
        }
    }

    /// The page of a map at `at` if its chunk is still on its way.
    pub(crate) fn page_in_flight(&self, at: Location, block: LogicalBlock) -> Option<&PageBytes> {
        self.flights.iter().find_map(|flight| {
            let header = &flight.chunk.header;
            let origin = header.origin.location;
            let first = origin.block + block.chunk_header(header.entries.len());
            match &flight.chunk.body {
                Body::Pages(pages)
                    if flight.pending > 0 && origin.unit == at.unit && at.block >= first =>
                {
                    pages.get(((at.block - first) / block.per_block()) as usize)
                }
                _ => None,
            }
        })
    }
}

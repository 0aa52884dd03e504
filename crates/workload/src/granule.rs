//! Dense numbers for the granules a workload touches.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use thermocline_types::TenantId;

use crate::chunked::Chunked;

/// Granules whose slots are kept together. At 4 KiB granules a page of slots spans 256 KiB.
const PAGE: u64 = 64;

/// Marks a granule without a slot.
const NONE: u32 = u32::MAX;

/// Numbers granules, keyed by tenant and index, densely in order of first touch.
///
/// Memory: 4 bytes per granule and about 40 per page of 64, for pages of which any granule was touched: about 5 bytes
/// per granule where the working set is contiguous, 300 where each touched granule lies alone.
#[derive(Debug, Default)]
pub(crate) struct GranuleMap {
    pages: HashMap<(u32, u64), u32, BuildHasherDefault<Mixer>>,
    slots: Chunked<[u32; PAGE as usize]>,
    /// The page looked up last, since neighbours follow each other.
    recent: Option<((u32, u64), u32)>,
    len: u32,
}

/// There are more granules than 32 bits can number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl GranuleMap {
    /// How many granules have a slot.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The slot of a granule, if it has one.
    #[inline]
    pub fn get(&self, tenant: TenantId, granule: u64) -> Option<u32> {
        let key = (tenant.0, granule / PAGE);
        let page = match self.recent {
            Some((recent, page)) if recent == key => page,
            _ => *self.pages.get(&key)?,
        };
        let slot = self.slots[page as usize][(granule % PAGE) as usize];
        (slot != NONE).then_some(slot)
    }

    /// The slot of a granule, and whether it was given now.
    #[inline]
    pub fn insert(&mut self, tenant: TenantId, granule: u64) -> Result<(u32, bool), Full> {
        let page = self.page(tenant, granule / PAGE);
        let slot = &mut self.slots[page as usize][(granule % PAGE) as usize];
        if *slot != NONE {
            return Ok((*slot, false));
        }
        if self.len == NONE {
            return Err(Full);
        }
        *slot = self.len;
        self.len += 1;
        Ok((*slot, true))
    }

    /// The granules with a slot among `first..=last`, in order, in time bounded by the smaller of the range and the
    /// map.
    pub fn present(&self, tenant: TenantId, first: u64, last: u64) -> Vec<u64> {
        let (first_page, last_page) = (first / PAGE, last / PAGE);
        let pages: Vec<u64> = if last_page - first_page <= self.pages.len() as u64 {
            (first_page..=last_page).collect()
        } else {
            let in_range =
                |key: &&(u32, u64)| key.0 == tenant.0 && (first_page..=last_page).contains(&key.1);
            let mut pages: Vec<u64> = self.pages.keys().filter(in_range).map(|key| key.1).collect();
            // The order of the hash map must not show.
            pages.sort_unstable();
            pages
        };
        let granules = pages.into_iter().flat_map(|page| page * PAGE..(page + 1) * PAGE);
        let granules = granules.filter(|granule| (first..=last).contains(granule));
        granules.filter(|&granule| self.get(tenant, granule).is_some()).collect()
    }

    #[inline]
    fn page(&mut self, tenant: TenantId, index: u64) -> u32 {
        let key = (tenant.0, index);
        if let Some((recent, page)) = self.recent
            && recent == key
        {
            return page;
        }
        let next = self.slots.len() as u32;
        let page = *self.pages.entry(key).or_insert(next);
        if page == next {
            self.slots.push([NONE; PAGE as usize]);
        }
        self.recent = Some((key, page));
        page
    }
}

/// Mixes 64 bits so that every input bit reaches every output bit (the finaliser of splitmix64, Steele et al. 2014).
#[inline]
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A fast hasher for small integer keys that no adversary chooses.
#[derive(Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ value);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_first_touch_and_tenants_stay_apart() {
        let mut map = GranuleMap::default();
        let (a, b) = (TenantId(0), TenantId(1));
        assert_eq!(map.insert(a, 1_000_000), Ok((0, true)));
        assert_eq!(map.insert(b, 1_000_000), Ok((1, true)));
        assert_eq!(map.insert(a, 3), Ok((2, true)));
        assert_eq!(map.insert(a, 1_000_000), Ok((0, false)));
        assert_eq!((map.get(a, 3), map.get(b, 3), map.len()), (Some(2), None, 3));
    }

    #[test]
    fn ranges_far_larger_than_the_map_are_searched_in_order() {
        let mut map = GranuleMap::default();
        let tenant = TenantId(0);
        for granule in [u64::MAX >> 12, 70, 5, 69] {
            map.insert(tenant, granule).unwrap();
        }
        map.insert(TenantId(9), 6).unwrap();
        assert_eq!(map.present(tenant, 6, u64::MAX >> 12), [69, 70, u64::MAX >> 12]);
        assert_eq!(map.present(tenant, 5, 69), [5, 69]);
        assert_eq!(map.present(tenant, 6, 68), Vec::<u64>::new());
    }
}

//! Cutting a profile to a capacity.

use thermocline_ftl::Shape;
use thermocline_types::Bytes;

use super::{Geometry, Profile, ProfileError, SuperblockSize};

/// A profile cut to a capacity: the sizes a simulation needs.
///
/// The ratios of the product are kept: overprovisioning exactly (down to a whole unit), the number of units as far as
/// that leaves units of useful size. A device of `T` blocks gets units of at least `√(T/8)` blocks: small units flatter
/// garbage collection (finite-b greedy) and few units waste space on open ones; this balances both below a few
/// percent. Chosen, not measured. With `geometry.superblock = "product"` they have the product's size instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Units, blocks per unit, exported blocks; a block is one mapping unit.
    pub shape: Shape,
    /// Mapping unit.
    pub mapping_unit: Bytes,
    /// Blocks per program operation.
    pub blocks_per_page: u32,
}

impl Cut {
    /// Cuts `profile` to export `capacity`, or what the product does.
    ///
    /// # Errors
    /// [`ProfileError`] when the capacity is too small to make units of, or too large to simulate.
    pub fn new(profile: &Profile, capacity: Option<Bytes>) -> Result<Cut, ProfileError> {
        let refuse = |reason: String| ProfileError::new(&profile.name, "capacity", &reason);
        let capacity = capacity.unwrap_or(profile.capacity);
        let block = profile.mapping_unit.0;
        let exported = capacity.0 / block;
        let physical = (exported as f64 * (1.0 + profile.overprovisioning())).round() as u64;
        let blocks_per_page = (profile.program_unit().0 / block) as u32;
        let per_unit = blocks_per_unit(profile, physical, u64::from(blocks_per_page));
        let units = if profile.kind.relocates() {
            physical / per_unit.max(1)
        } else {
            physical.div_ceil(per_unit.max(1)) // Nothing is spare, so that the last unit may be needed in part.
        };
        if exported == 0 || units < 4 || per_unit >= 1 << 31 || units >= 1 << 31 {
            let size = Bytes(per_unit.saturating_mul(block));
            let bound = if units < 4 { "a drive needs 4 at least" } else { "2^31 are too many" };
            return Err(refuse(format!("{capacity} makes {units} units of {size}; {bound}")));
        }
        let shape = Shape::new(exported, units as u32, per_unit as u32)
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Cut { shape, mapping_unit: profile.mapping_unit, blocks_per_page })
    }

    /// Blocks of a unit in SLC mode, where cells hold `bits` bits otherwise: whole pages, one at least.
    #[must_use]
    pub fn slc_blocks_per_unit(&self, bits: u32) -> u32 {
        let pages = self.shape.blocks_per_unit() / self.blocks_per_page;
        super::slc_pages(pages, bits) * self.blocks_per_page
    }

    /// Units of the static part of the SLC cache, in proportion to the capacity and two at least; 0 without one.
    #[must_use]
    pub fn slc_units(&self, profile: &Profile) -> u32 {
        let Some(slc) = profile.slc.as_ref().filter(|slc| slc.capacity.0 > 0) else { return 0 };
        let unit = Bytes(u64::from(self.slc_blocks_per_unit(slc.bits)) * self.mapping_unit.0);
        let share = self.capacity().as_f64() / profile.capacity.as_f64();
        ((slc.capacity.as_f64() * share / unit.as_f64()).round() as u32).max(2)
    }

    /// Capacity exported.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        Bytes(self.shape.exported() * self.mapping_unit.0)
    }

    /// Media behind it.
    #[must_use]
    pub fn media(&self) -> Bytes {
        Bytes(self.shape.physical() * self.mapping_unit.0)
    }

    /// Size of a unit.
    #[must_use]
    pub fn unit(&self) -> Bytes {
        Bytes(u64::from(self.shape.blocks_per_unit()) * self.mapping_unit.0)
    }

    /// Overprovisioning after rounding to whole units.
    #[must_use]
    pub fn overprovisioning(&self) -> f64 {
        self.shape.physical() as f64 / self.shape.exported() as f64 - 1.0
    }
}

fn blocks_per_unit(profile: &Profile, physical: u64, page: u64) -> u64 {
    let block = profile.mapping_unit.0;
    if let Some(unit) = profile.unit {
        return unit.0 / block;
    }
    let whole_pages = |blocks: u64| blocks.div_ceil(page) * page;
    let balanced = whole_pages((physical / 8).isqrt().max(1));
    let Some(product) = profile.product_unit() else { return balanced };
    let product = product.0 / block;
    let keeps = |geometry: &Geometry| geometry.superblock == SuperblockSize::Product;
    if profile.geometry.as_ref().is_some_and(keeps) {
        return product;
    }
    let media = profile.capacity.as_f64() * (1.0 + profile.overprovisioning()) / block as f64;
    let same_count = whole_pages((product as f64 * physical as f64 / media).ceil() as u64);
    balanced.max(same_count).min(product).max(page)
}

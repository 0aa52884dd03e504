//! How much more space a layer has than it exports, in the four ratios people use.

use super::DomainError;

/// Physical space beyond the logical space, held as `OP = (P − L)/L` for P physical and L logical units.
///
/// | name | definition | from OP | who uses it |
/// |---|---|---|---|
/// | overprovisioning, OP | (P − L)/L | – | drive makers, SNIA |
/// | garbage proportion, GP | 1 − L/P | OP/(1 + OP) | SepBIT and MiDAS simulators |
/// | spare factor | (T − U)/T | OP/(1 + OP) | Desnoyers' ftlsim (T total, U user units) |
/// | alpha | P/L | 1 + OP | Desnoyers 2012 |
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Overprovisioning(f64);

impl Overprovisioning {
    /// From `OP = (P − L)/L`, a ratio, not per cent.
    ///
    /// # Errors
    /// Unless `op` is finite and above 0: without spare space no block can ever be reclaimed.
    pub fn from_ratio(op: f64) -> Result<Self, DomainError> {
        DomainError::unless(
            op.is_finite() && op > 0.0,
            "overprovisioning (P-L)/L",
            op,
            "finite and above 0",
        )?;
        Ok(Overprovisioning(op))
    }

    /// From the garbage proportion `GP = 1 − L/P`.
    ///
    /// # Errors
    /// Unless `0 < gp < 1`.
    pub fn from_garbage(gp: f64) -> Result<Self, DomainError> {
        DomainError::unless(
            gp > 0.0 && gp < 1.0,
            "garbage proportion 1-L/P",
            gp,
            "between 0 and 1",
        )?;
        Ok(Overprovisioning(gp / (1.0 - gp)))
    }

    /// From the spare factor `(T − U)/T`; the same number as the garbage proportion of a full drive.
    ///
    /// # Errors
    /// Unless `0 < spare < 1`.
    pub fn from_spare(spare: f64) -> Result<Self, DomainError> {
        DomainError::unless(
            spare > 0.0 && spare < 1.0,
            "spare factor (T-U)/T",
            spare,
            "between 0 and 1",
        )?;
        Ok(Overprovisioning(spare / (1.0 - spare)))
    }

    /// From `alpha = P/L`.
    ///
    /// # Errors
    /// Unless `alpha` is finite and above 1.
    pub fn from_alpha(alpha: f64) -> Result<Self, DomainError> {
        DomainError::unless(
            alpha.is_finite() && alpha > 1.0,
            "alpha P/L",
            alpha,
            "finite and above 1",
        )?;
        Ok(Overprovisioning(alpha - 1.0))
    }

    /// `OP = (P − L)/L`.
    #[must_use]
    pub fn ratio(self) -> f64 {
        self.0
    }

    /// `GP = 1 − L/P`.
    #[must_use]
    pub fn garbage(self) -> f64 {
        self.0 / (1.0 + self.0)
    }

    /// `(T − U)/T`, equal to [`Self::garbage`].
    #[must_use]
    pub fn spare(self) -> f64 {
        self.garbage()
    }

    /// `alpha = P/L`.
    #[must_use]
    pub fn alpha(self) -> f64 {
        1.0 + self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_ratios_name_the_same_space() {
        let op = Overprovisioning::from_garbage(0.15).expect("in range");
        assert!((op.ratio() - 0.176_470_588).abs() < 1e-9);
        assert!((op.alpha() - 1.176_470_588).abs() < 1e-9);
        assert!((op.spare() - 0.15).abs() < 1e-12);
        let again = [
            Overprovisioning::from_ratio(op.ratio()),
            Overprovisioning::from_alpha(op.alpha()),
            Overprovisioning::from_spare(op.spare()),
        ];
        for same in again {
            assert!((same.expect("in range").ratio() - op.ratio()).abs() < 1e-12);
        }
        // 21.9 % spare is the 28 % overprovisioning of Desnoyers' examples.
        assert!(
            (Overprovisioning::from_spare(0.219).expect("in range").ratio() - 0.2804).abs() < 1e-4
        );
    }

    #[test]
    fn refuses_what_no_drive_has_and_says_which_ratio() {
        for bad in [0.0, -0.1, f64::NAN, f64::INFINITY] {
            assert!(Overprovisioning::from_ratio(bad).is_err(), "{bad}");
            assert!(Overprovisioning::from_garbage(bad).is_err(), "{bad}");
            assert!(Overprovisioning::from_spare(bad).is_err(), "{bad}");
            assert!(Overprovisioning::from_alpha(bad).is_err(), "{bad}");
        }
        let error = Overprovisioning::from_spare(1.0).expect_err("all spare is no drive");
        assert_eq!(error.to_string(), "spare factor (T-U)/T is 1, must be between 0 and 1");
    }
}

//! Roots of monotone functions.

/// The `x` in `low..=high` at which `f`, which must not decrease, crosses zero; the nearer end if it does not cross.
///
/// Bisection down to neighbouring floating-point numbers: about 60 evaluations, and nothing can diverge.
pub(super) fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if f(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bisect;

    #[test]
    fn finds_the_crossing_to_the_last_bit_and_clamps() {
        assert!((bisect(0.0, 2.0, |x| x * x - 2.0) - 2.0_f64.sqrt()).abs() < 1e-15);
        assert!((bisect(0.0, 1.0, |_| -1.0) - 1.0).abs() < 1e-15);
        assert!(bisect(1.0, 2.0, |_| 1.0) - 1.0 < 1e-15);
    }
}

//! Media bytes over host bytes.

use super::TENTHS;

/// Cumulative host, media and erased bytes, at least two points. Host and media bytes never fall, and the host wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<[f64; 2]>,
    /// Erased bytes of each point, or empty.
    erased: Vec<f64>,
}

impl Curve {
    /// A curve of `points`, host and media bytes each, and `erased` bytes of each, or of none. `None` when host or
    /// media bytes fall, or the host wrote nothing.
    #[must_use]
    pub fn new(points: Vec<[f64; 2]>, erased: Vec<f64>) -> Option<Curve> {
        let rises = points.windows(2).all(|p| p[0][0] <= p[1][0] && p[0][1] <= p[1][1]);
        let written = points.last().is_some_and(|last| last[0] > points[0][0]);
        let erased = if erased.len() == points.len() { erased } else { Vec::new() };
        (rises && written).then_some(Curve { points, erased })
    }

    /// Host bytes of the whole curve.
    #[must_use]
    pub fn host_bytes(&self) -> f64 {
        self.points.last().map_or(0.0, |last| last[0]) - self.points[0][0]
    }

    /// Host and media bytes since the first point.
    pub fn points(&self) -> impl Iterator<Item = [f64; 2]> {
        let [host, media] = self.points[0];
        self.points.iter().map(move |point| [point[0] - host, point[1] - media])
    }

    /// What the counter of erased bytes rose by, wherever it did.
    pub(super) fn erases(&self) -> impl Iterator<Item = f64> {
        self.erased.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0.0)
    }

    /// Media by host bytes of each tenth of the host bytes.
    #[must_use]
    pub fn tenths(&self) -> Vec<f64> {
        let step = self.host_bytes() / TENTHS as f64;
        let at = |tenth: usize| self.media_at(self.points[0][0] + tenth as f64 * step);
        (0..TENTHS).map(|tenth| (at(tenth + 1) - at(tenth)) / step).collect()
    }

    /// Media bytes when the host had written `host` bytes, between two points in proportion.
    pub(super) fn media_at(&self, host: f64) -> f64 {
        let last = self.points.len() - 1;
        let next = self.points.iter().position(|point| point[0] >= host).unwrap_or(last);
        let ([x0, y0], [x1, y1]) = (self.points[next.saturating_sub(1)], self.points[next]);
        if x1 > x0 { y0 + (y1 - y0) * (host - x0) / (x1 - x0) } else { y1 }
    }
}

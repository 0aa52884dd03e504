//! Colours, dashes, marks and fills: the same in tables and charts, and never told apart by colour alone.

/// How one stack is drawn everywhere.
#[derive(Debug, PartialEq)]
pub(crate) struct Style {
    /// Colour, of the palette of Okabe and Ito ("Color Universal Design", 2008).
    pub colour: &'static str,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub dash: &'static [u32],
    /// SVG path of the mark, about 10 units wide around the origin.
    pub mark: &'static str,
}

/// Yellow and black of the palette are lost on white or on dark: purple and olive are in their place.
const COLOURS: [&str; 8] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7E57C2", "#8A8D00"];
const DASHES: [&[u32]; 8] =
    [&[], &[8, 4], &[2, 3], &[10, 3, 2, 3], &[14, 4], &[4, 2, 1, 2, 1, 2], &[6, 2], &[12, 3, 4, 3]];
const MARKS: [&str; 8] = [
    "M-5,0A5,5,0,1,1,5,0A5,5,0,1,1,-5,0Z",
    "M-4.5,-4.5L4.5,-4.5L4.5,4.5L-4.5,4.5Z",
    "M0,-5.5L5.5,4.5L-5.5,4.5Z",
    "M0,-6L6,0L0,6L-6,0Z",
    "M-5.5,-4.5L5.5,-4.5L0,5.5Z",
    "M-2,-6L2,-6L2,-2L6,-2L6,2L2,2L2,6L-2,6L-2,2L-6,2L-6,-2L-2,-2Z",
    "M-6,-2L6,-2L6,2L-6,2Z",
    "M-2,-6L2,-6L2,6L-2,6Z",
];

/// The style of the stack at a position; repeated colours have different marks, so 64 stacks differ.
pub(crate) fn style(index: usize) -> Style {
    let round = index / COLOURS.len();
    Style {
        colour: COLOURS[index % COLOURS.len()],
        dash: DASHES[index % DASHES.len()],
        mark: MARKS[(index + round) % MARKS.len()],
    }
}

/// How one cause of written bytes is filled.
pub(crate) struct CauseStyle {
    /// Key in the run record.
    pub key: &'static str,
    /// Fill colour, of the same palette.
    pub colour: &'static str,
    /// Hatch drawn over it, by name in `svg`.
    pub hatch: &'static str,
}

/// The causes in the order shown. A cause that is not here is drawn grey.
pub(crate) const CAUSES: [CauseStyle; 16] = [
    CauseStyle { key: "host", colour: "#0072B2", hatch: "none" },
    CauseStyle { key: "read_modify_write", colour: "#E69F00", hatch: "rising" },
    CauseStyle { key: "padding", colour: "#CC79A7", hatch: "dots" },
    CauseStyle { key: "relocation", colour: "#D55E00", hatch: "falling" },
    CauseStyle { key: "wear_levelling", colour: "#009E73", hatch: "upright" },
    CauseStyle { key: "folding", colour: "#F0E442", hatch: "level" },
    CauseStyle { key: "refresh", colour: "#56B4E9", hatch: "upright" },
    CauseStyle { key: "program_failure", colour: "#CC79A7", hatch: "falling" },
    CauseStyle { key: "destage", colour: "#56B4E9", hatch: "level" },
    CauseStyle { key: "parity", colour: "#009E73", hatch: "none" },
    CauseStyle { key: "parity_log", colour: "#009E73", hatch: "rising" },
    CauseStyle { key: "parity_log_heads", colour: "#009E73", hatch: "dots" },
    CauseStyle { key: "row_padding", colour: "#009E73", hatch: "falling" },
    CauseStyle { key: "metadata", colour: "#8A8A8A", hatch: "dots" },
    CauseStyle { key: "labels", colour: "#8A8A8A", hatch: "falling" },
    CauseStyle { key: "checkpoint", colour: "#8A8A8A", hatch: "upright" },
];

/// Colours of equal steps in lightness, from little to much.
pub(crate) type Ramp = [&'static str; 6];

/// A colour of a ramp at a share from 0 to 1, rounded to a few steps: cells share colours.
pub(crate) fn at(ramp: &Ramp, share: f64) -> String {
    let steps = 3.0 * (ramp.len() - 1) as f64;
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let at = (share * steps).round() / 3.0;
    let low = (at as usize).min(ramp.len() - 2);
    let channel = |colour: &str, i: usize| {
        let digits = &colour[1 + 2 * i..3 + 2 * i];
        f64::from(u8::from_str_radix(digits, 16).expect("the ramps are hexadecimal"))
    };
    let mixed = [0, 1, 2].map(|i| {
        let (from, to) = (channel(ramp[low], i), channel(ramp[low + 1], i));
        (from + (to - from) * (at - low as f64)).round() as u8
    });
    format!("#{:02X}{:02X}{:02X}", mixed[0], mixed[1], mixed[2])
}

/// Valid share: one hue from light to dark, which grey print keeps.
pub(crate) const VALID: Ramp = ["#E6EFF7", "#BDD4E9", "#8DB4D6", "#578FBE", "#25659B", "#0B3A66"];

/// Wear: a different hue keeps the two maps apart.
pub(crate) const WEAR: Ramp = ["#FAEEDC", "#F2D0A2", "#E3A968", "#C97E37", "#9C5717", "#643306"];

/// A small drawing of a stack's line and mark, for headings and tables.
pub(crate) fn swatch(index: usize) -> String {
    let Style { colour, dash, mark } = style(index);
    let dashes: Vec<String> = dash.iter().map(u32::to_string).collect();
    let dashes = dashes.join(" ");
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 34 14\" width=\"34\" height=\"14\" \
         aria-hidden=\"true\">\
         <path d=\"M1,7H33\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\" \
         fill=\"none\"/>\
         <path transform=\"translate(17 7)\" d=\"{mark}\" fill=\"{colour}\"/></svg>"
    )
}

/// A bar in the colours of a ramp, between the words for its ends.
pub(crate) fn ramp_key(ramp: &Ramp, from: &str, to: &str) -> String {
    format!(
        "<span class=\"ramp-key\">{from} <i class=\"ramp\" \
         style=\"background:linear-gradient(90deg,{})\"></i> {to}</span>",
        ramp.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::style;

    #[test]
    fn sixty_four_stacks_differ() {
        for i in 0..64 {
            assert!((0..i).all(|j| style(i) != style(j)), "style {i} occurs twice");
        }
    }
}

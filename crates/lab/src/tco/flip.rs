//! The input that, changed by itself, first makes another stack the cheapest.

use serde::Serialize;

use super::{Bill, Demand, MeasuredStack, Prices, bills};
use crate::Error;

/// Steps of a doubling, and doublings, that an input is moved up and down. Chosen.
const STEPS: f64 = 8.0;
const DOUBLINGS: i32 = 7;
/// Halvings of the last step.
const HALVINGS: i32 = 20;

/// Where another stack becomes the cheapest, all other inputs at their medians.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flip {
    /// The input, with its unit.
    pub input: String,
    /// Its value as put in.
    pub from: f64,
    /// Its value where the bills are equal.
    pub value: f64,
    /// The stack that is cheapest beyond it.
    pub cheapest: String,
}

impl Flip {
    /// The finding, in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Flip { input, from, value, cheapest } = self;
        let side = if value > from { "above" } else { "below" };
        let digits = |value: f64| match value.abs() {
            size if size >= 100.0 => format!("{value:.0}"),
            size if size >= 1.0 => format!("{value:.2}"),
            _ => format!("{value:.4}"),
        };
        format!(
            "{input} flips it first: {side} {} ({} here) {cheapest} costs least",
            digits(*value),
            digits(*from)
        )
    }
}

/// Everything that a bill is made of.
#[derive(Clone)]
struct Inputs {
    prices: Prices,
    demand: Demand,
    stacks: Vec<MeasuredStack>,
}

/// The place of an input.
#[derive(Clone, Debug)]
enum Input {
    Daily,
    Data,
    Kwh,
    Server,
    Rack,
    /// Years of service.
    Years,
    /// The price of a drive.
    Drive(String),
    /// The wear of a stack's capacity drive.
    Wear(usize),
}

impl Input {
    fn all(of: &Inputs) -> Vec<Input> {
        let mut all =
            vec![Input::Daily, Input::Data, Input::Kwh, Input::Server, Input::Rack, Input::Years];
        let mut names: Vec<_> =
            of.stacks.iter().flat_map(|stack| &stack.devices).map(|device| &device.name).collect();
        names.sort_unstable();
        names.dedup();
        all.extend(names.into_iter().cloned().map(Input::Drive));
        all.extend((0..of.stacks.len()).map(Input::Wear));
        all
    }

    fn name(&self, of: &Inputs) -> String {
        match self {
            Input::Daily => "the load, TB written a day,".into(),
            Input::Data => "the data, TB,".into(),
            Input::Kwh => "energy.usd_per_kwh".into(),
            Input::Server => "server.usd".into(),
            Input::Rack => "rack.usd_per_year".into(),
            Input::Years => "service.years".into(),
            Input::Drive(name) => format!("drive.{name}.usd_per_tb"),
            Input::Wear(stack) => {
                let stack = &of.stacks[*stack];
                format!("the wear of {} for each byte written", stack.stack)
            }
        }
    }

    /// The inputs with this one so many `times` as large, and its value.
    fn changed(&self, of: &Inputs, times: f64) -> Result<(Inputs, f64), Error> {
        let mut inputs = of.clone();
        let scaled = |value: &mut f64| {
            *value *= times;
            *value
        };
        let Inputs { prices, demand, stacks } = &mut inputs;
        let value = match self {
            Input::Daily => scaled(&mut demand.daily_write_bytes) / 1e12,
            Input::Data => scaled(&mut demand.data_bytes) / 1e12,
            Input::Kwh => scaled(&mut prices.energy.usd_per_kwh),
            Input::Server => scaled(&mut prices.server.usd),
            Input::Rack => scaled(&mut prices.rack.usd_per_year),
            Input::Years => scaled(&mut prices.service.years),
            Input::Drive(name) => {
                let mut price = prices.drive(name)?;
                let value = scaled(&mut price.usd_per_tb);
                prices.drive.insert(name.clone(), price);
                value
            }
            Input::Wear(stack) => scaled(&mut stacks[*stack].devices[0].wear_per_host_byte),
        };
        Ok((inputs, value))
    }
}

/// The stack with the lowest bill.
fn cheapest(inputs: &Inputs) -> Result<usize, Error> {
    let totals = bills(&inputs.prices, &inputs.demand, &inputs.stacks)?;
    let least = totals.iter().map(Bill::total).enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
    Ok(least.map_or(0, |(index, _)| index))
}

/// The input that has to change least, as a factor, for another stack to have the lowest bill; fleets are planned anew.
/// `None` where no factor up to 128 does.
///
/// # Errors
/// [`Error::Settings`] for drives without a price.
pub fn flip(
    prices: &Prices,
    demand: &Demand,
    stacks: &[MeasuredStack],
) -> Result<Option<Flip>, Error> {
    let of = Inputs { prices: prices.clone(), demand: *demand, stacks: stacks.to_vec() };
    let mut nearest: Option<(f64, Input)> = None;
    for input in Input::all(&of) {
        for way in [1.0, -1.0] {
            let most = nearest.as_ref().map_or(f64::from(DOUBLINGS), |(power, _)| power.abs());
            if let Some(power) = edge(&of, &input, way, most)? {
                nearest = Some((power, input.clone()));
            }
        }
    }
    let Some((power, input)) = nearest else { return Ok(None) };
    let (beyond, value) = input.changed(&of, power.exp2())?;
    Ok(Some(Flip {
        input: input.name(&of),
        from: input.changed(&of, 1.0)?.1,
        value,
        cheapest: stacks[cheapest(&beyond)?].stack.clone(),
    }))
}

/// The power of two, below `most` doublings up (`way` 1) or down (-1), from which on another stack is the cheapest.
fn edge(of: &Inputs, input: &Input, way: f64, most: f64) -> Result<Option<f64>, Error> {
    let first = cheapest(of)?;
    let stays = |power: f64| -> Result<bool, Error> {
        Ok(cheapest(&input.changed(of, (way * power).exp2())?.0)? == first)
    };
    let mut last = 0.0;
    while last < most {
        let mut power = last + 1.0 / STEPS;
        if stays(power)? {
            last = power;
            continue;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(last, power);
            match stays(middle)? {
                true => last = middle,
                false => power = middle,
            }
        }
        return Ok((power < most).then_some(way * power));
    }
    Ok(None)
}

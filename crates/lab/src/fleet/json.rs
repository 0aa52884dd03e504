//! Rows in JSON: flat objects, readings of `drive stat --json`, and range queries of Prometheus.

use std::collections::BTreeMap;

use serde_json::Value;

use super::rows::{Fields, FleetRows};

/// Figure of a reading, metric of `drive export` without its prefix, column, and the factor from metric to column.
const FIGURES: [(&str, &str, &str, f64); 5] = [
    ("capacity", "capacity_bytes", "capacity_bytes", 1.0),
    ("host_written", "host_written_bytes_total", "host_bytes", 1.0),
    ("media_written", "media_written_bytes_total", "media_bytes", 1.0),
    ("used", "used_ratio", "used_percent", 100.0),
    ("power_on_hours", "power_on_hours_total", "power_on_hours", 1.0),
];

/// Page, column and its text.
type Told<'a> = (String, &'static str, String);

/// Reads every object of `text`. What is no JSON is refused up to the next line that begins with a brace.
pub(crate) fn read(rows: &mut FleetRows, file: &str, text: &str) -> Result<(), String> {
    let (mut at, mut line, mut counted) = (0, 1, 0);
    while !text[at..].trim_start().is_empty() {
        at = text.len() - text[at..].trim_start().len();
        line += text[counted..at].matches('\n').count() as u64;
        counted = at;
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                at += values.byte_offset();
                if value.get("status").is_some() && value.get("data").is_some() {
                    prometheus(rows, file, &value)?;
                } else {
                    rows.take(file, line, &fields(&value));
                }
            }
            Some(Err(error)) => {
                rows.refuse(file, line, format!("it is no JSON: {error}"));
                at += text[at..].find("\n{").map_or(text.len() - at, |next| next + 1);
            }
            None => break,
        }
    }
    Ok(())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Fields of an object: its own, and those of a reading of `drive stat --json` inside.
fn fields(value: &Value) -> Fields {
    let own = |value: &Value| -> Fields {
        let all = value.as_object().into_iter().flatten();
        all.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect()
    };
    let mut fields = own(value);
    let Some(reading) = value.get("reading") else { return fields };
    for (name, value) in own(reading) {
        fields.entry(name).or_insert(value);
    }
    let counter = |one: &Value| {
        let (figure, value) = (one.get("figure")?.as_str()?, text(one.get("value")?)?);
        let column = FIGURES.iter().find(|known| known.0 == figure)?.2;
        Some((one.get("page")?.to_string(), column, value))
    };
    let counters = reading.get("counters").and_then(Value::as_array);
    let told: Vec<Told<'_>> = counters.into_iter().flatten().filter_map(counter).collect();
    for (column, value) in chosen(&told) {
        fields.entry(column.to_owned()).or_insert(value);
    }
    fields
}

/// One value of each column. Host bytes are of the page that has media bytes, so that both are of equal times.
fn chosen(told: &[Told<'_>]) -> BTreeMap<&'static str, String> {
    let media = told.iter().find(|one| one.1 == "media_bytes").map(|one| &one.0);
    let mut all = BTreeMap::new();
    let own = told.iter().filter(|one| one.1 == "host_bytes" && Some(&one.0) == media);
    for (_, column, value) in own.chain(told) {
        all.entry(*column).or_insert_with(|| value.clone());
    }
    all
}

/// Rows of an answer of `query_range`: metrics of one drive and moment are a row.
fn prometheus(rows: &mut FleetRows, file: &str, answer: &Value) -> Result<(), String> {
    let series = answer.pointer("/data/result").and_then(Value::as_array);
    if answer.pointer("/data/resultType").and_then(Value::as_str) != Some("matrix") {
        return Err("it is an answer of Prometheus, but none of query_range (a matrix)".to_owned());
    }
    let mut drives: BTreeMap<String, Fields> = BTreeMap::new();
    let mut moments: BTreeMap<(String, String), Vec<Told<'_>>> = BTreeMap::new();
    for one in series.into_iter().flatten() {
        let labels = one.get("metric").map(fields).unwrap_or_default();
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let name = label("__name__");
        let name = name.strip_prefix("thermocline_drive_").unwrap_or(&name);
        let Some((_, _, column, factor)) = FIGURES.iter().find(|known| known.1 == name) else {
            continue;
        };
        let serial = label("serial");
        drives.entry(serial.clone()).or_insert_with(|| of_labels(&labels));
        for pair in one.get("values").and_then(Value::as_array).into_iter().flatten() {
            let time = pair.get(0).and_then(text);
            let value = pair.get(1).and_then(text).and_then(|text| text.parse::<f64>().ok());
            let Some((time, value)) = time.zip(value) else {
                rows.refuse(
                    file,
                    1,
                    format!("a value of {name} of drive {serial} is no number: {pair}"),
                );
                continue;
            };
            let told = (label("page"), *column, (value * factor).to_string());
            moments.entry((serial.clone(), time)).or_default().push(told);
        }
    }
    for ((serial, time), told) in moments {
        let values = chosen(&told).into_iter().map(|(column, value)| (column.to_owned(), value));
        let mut fields: Fields = drives[&serial].clone().into_iter().chain(values).collect();
        fields.insert("time".to_owned(), time);
        rows.take(file, 1, &fields);
    }
    Ok(())
}

fn of_labels(labels: &Fields) -> Fields {
    let mut drive = Fields::new();
    for name in ["serial", "model", "class", "host", "instance"] {
        let Some(value) = labels.get(name) else { continue };
        let column = if name == "instance" { "host" } else { name };
        drive.entry(column.to_owned()).or_insert_with(|| value.clone());
    }
    drive
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> FleetRows {
        let mut rows = FleetRows::default();
        rows.read("f", text.as_bytes()).unwrap();
        rows
    }

    #[test]
    fn readings_of_drive_stat_are_rows_once_they_have_host_and_time() {
        let text = r#"{"schema": "thermocline.drive/1", "host": "h1", "time": 100,
 "reading": {"model": "M", "serial": "S", "counters": [
  {"figure": "host_written", "value": 5, "step": 1, "page": "health"},
  {"figure": "used", "value": 3, "step": 1, "page": "health"},
  {"figure": "host_written", "value": 7, "step": 1, "page": "ocp"},
  {"figure": "media_written", "value": 14, "step": 1, "page": "ocp"}]}}
{"serial": "T", "model": "M", "time": "2026-01-01", "host_bytes": 12}
{"broken
{"serial": "U", "model": "M"}
"#;
        let all = rows(text);
        let of = |index: usize| (all.rows[index].host_bytes, all.rows[index].media_bytes);
        assert_eq!((of(0), of(1)), ((Some(7.0), Some(14.0)), (Some(12.0), None)));
        assert_eq!((all.rows[0].used_percent, all.rows[0].host.as_str()), (Some(3.0), "h1"));
        let refused: Vec<u64> = all.refused.iter().map(|one| one.line).collect();
        assert_eq!(refused, [8, 9], "{:?}", all.refused);
    }

    #[test]
    fn metrics_of_a_drive_and_moment_are_a_row() {
        let one = |name: &str, page: &str, values: &str| {
            format!(
                r#"{{"metric": {{"__name__": "thermocline_drive_{name}", "serial": "S", "model": "M",
                 "instance": "h1:9400", "page": "{page}"}}, "values": [{values}]}}"#
            )
        };
        let all = [
            one("host_written_bytes_total", "a", r#"[1, "10"], [2, "20"]"#),
            one("used_ratio", "a", r#"[1, "0.03"], [2, "NaN?"]"#),
            one("temperature_celsius", "a", r#"[1, "33"]"#),
        ];
        let text = format!(
            r#"{{"status": "success", "data": {{"resultType": "matrix", "result": [{}]}}}}"#,
            all.join(",")
        );
        let all = rows(&text);
        let read: Vec<(f64, Option<f64>, Option<f64>)> =
            all.rows.iter().map(|row| (row.time, row.host_bytes, row.used_percent)).collect();
        assert_eq!(read, [(1.0, Some(10.0), Some(3.0)), (2.0, Some(20.0), None)]);
        assert_eq!((all.rows[0].host.as_str(), all.refused.len()), ("h1:9400", 1));
    }
}

// The maps of a drive's units, and the histograms beside them.

const STATE_NAMES = { f: "free", o: "open", c: "closed", r: "retired", m: "of several states" };

// Cells of equal size in as many columns as fill the width; no cell larger than a thumbnail.
function layout(count, width) {
  const columns = Math.max(
    1,
    Math.min(count, Math.max(Math.floor(width / 34), Math.ceil(Math.sqrt(count * 1.7)))),
  );
  const size = Math.max(2, Math.min(34, Math.floor(width / columns)));
  return {
    columns,
    size,
    gap: size > 12 ? 2 : size > 5 ? 1 : 0.5,
    height: Math.ceil(count / columns) * size + 2,
  };
}

function cellTip(record, index) {
  const { units, wear } = record;
  const each = Math.max(1, units.units_per_cell);
  const first = index * each;
  const last = Math.min(first + each, Math.max(record.device.units, first + 1)) - 1;
  const name = each > 1 ? `Units ${first} to ${last}` : `Unit ${first}`;
  const count = wear.erase_counts[index];
  return tip(name, [
    ["", "state", STATE_NAMES[units.state[index]] || "unknown"],
    ["", "written", percent(units.fill[index])],
    ["", "valid", percent(units.valid[index])],
    ["", each > 1 ? "erase count, mean" : "erase count", Number.isFinite(count) ? tick(count) : "unknown"],
  ]);
}

// A map whose cells `draw(index, box, theme)` paints as a list of shapes.
function cellMap(record, count, draw) {
  return (element, t) => {
    const grid = layout(count, element.clientWidth);
    element.style.height = grid.height + "px";
    const shapes = (_, api) => {
      const index = api.value(0);
      const x = (index % grid.columns) * grid.size + 1;
      const y = Math.floor(index / grid.columns) * grid.size + 1;
      const side = grid.size - grid.gap;
      return { type: "group", children: draw(index, { x, y, width: side, height: side }, t) };
    };
    return frame(t, {
      tooltip: { trigger: "item", formatter: (item) => cellTip(record, item.dataIndex) },
      series: {
        type: "custom",
        coordinateSystem: "none",
        renderItem: shapes,
        data: Array.from({ length: count }, (_, index) => [index]),
        progressive: 0,
      },
    });
  };
}

// A border drawn inside its box, and the two strokes of a retired unit.
function border(box, colour, width, dash) {
  const shape = {
    x: box.x + width / 2,
    y: box.y + width / 2,
    width: box.width - width,
    height: box.height - width,
  };
  return { type: "rect", shape, style: { fill: "none", stroke: colour, lineWidth: width, lineDash: dash } };
}

function cross(box, colour) {
  const stroke = (y1, y2) => ({
    type: "line",
    shape: { x1: box.x, y1, x2: box.x + box.width, y2 },
    style: { stroke: colour, lineWidth: box.width > 12 ? 2 : 1 },
  });
  return [stroke(box.y, box.y + box.height), stroke(box.y + box.height, box.y)];
}

function unitMap(record) {
  const { fill, valid, state } = record.units;
  const draw = (index, box, t) => {
    const written = Math.min(1, Math.max(0, fill[index] || 0));
    const height = box.height * written;
    const back = { type: "rect", shape: box, style: { fill: t.surface, stroke: "none" } };
    const data = {
      type: "rect",
      shape: { ...box, y: box.y + box.height - height, height },
      style: { fill: rampColour(page.ramps.valid, written > 0 ? valid[index] / written : 0) },
    };
    const thick = box.width > 12 ? 2 : 1;
    switch (state[index]) {
      case "r":
        return [back, border(box, t.muted, 1), ...cross(box, t.text)];
      case "o":
        return [back, data, border(box, t.text, thick)];
      case "m":
        return [back, data, border(box, t.text, 1, box.width > 12 ? [3, 2] : [1, 1])];
      case "c":
        return [data];
      default:
        return [back, data, border(box, t.muted, 1)];
    }
  };
  return cellMap(record, fill.length, draw);
}

function wearMap(record) {
  const counts = record.wear.erase_counts;
  const most = counts.reduce((a, b) => Math.max(a, b || 0), 0);
  const draw = (index, box, t) => {
    const fill = rampColour(page.ramps.wear, most > 0 ? counts[index] / most : 0);
    const cell = { type: "rect", shape: box, style: { fill } };
    return record.units.state[index] === "r" ? [cell, ...cross(box, t.text)] : [cell];
  };
  return cellMap(record, counts.length, draw);
}

// Bars of equal bins that touch.
function histogram(t, bins, names, xName, colour, tipText) {
  return frame(t, {
    grid: { top: 24, left: 8, right: 16, bottom: 30 },
    tooltip: {
      trigger: "item",
      formatter: (item) => tip(tipText(item.dataIndex), [["", "units", tick(item.value)]]),
    },
    xAxis: axis(t, {
      type: "category",
      data: names,
      name: xName,
      nameGap: 26,
      splitLine: { show: false },
      axisLabel: { formatter: (text) => text },
    }),
    yAxis: axis(t, {
      name: "units",
      nameLocation: "end",
      nameTextStyle: { color: t.muted, align: "right" },
      minInterval: 1,
    }),
    series: { type: "bar", data: bins, barCategoryGap: "8%", color: colour },
  });
}

function validHistogram(record) {
  const bins = record.units.valid_histogram;
  const edge = (i) => Math.round((100 * i) / bins.length);
  return (_, t) =>
    histogram(
      t,
      bins,
      bins.map((_, i) => `${edge(i)}`),
      "valid share, % (lower edge of the bin)",
      page.ramps.valid[4],
      (i) => `${edge(i)} to ${edge(i + 1)} % valid`,
    );
}

// Bins of whole erase counts where the spread allows, at most 24 of them.
function wearHistogram(record) {
  const counts = record.wear.erase_counts.filter(Number.isFinite);
  const low = Math.floor(Math.min(...counts));
  const high = Math.max(...counts);
  const width = Math.max(1, Math.ceil((high - low + 1) / 24));
  const bins = Array.from({ length: Math.floor((high - low) / width) + 1 }, () => 0);
  for (const count of counts) bins[Math.floor((count - low) / width)] += 1;
  const from = (i) => low + i * width;
  const range = (i) => (width > 1 ? `${from(i)} to ${from(i + 1) - 1} erases` : `${from(i)} erases`);
  const xName = width > 1 ? `erase count (lower edge; bins of ${width})` : "erase count";
  return (_, t) =>
    histogram(
      t,
      bins,
      bins.map((_, i) => `${from(i)}`),
      xName,
      page.ramps.wear[4],
      range,
    );
}

// What all charts share: theme, axes, lines in the style of their stack, tooltips.

const page = JSON.parse(document.getElementById("data").textContent);
const { records, labels } = page;
const styleOf = (index) => page.styles[index];

// Hatches of the causes, by the names that the palette uses.
const HATCHES = {
  none: null,
  rising: { dashArrayX: [1, 0], dashArrayY: [2, 5], rotation: -Math.PI / 4 },
  falling: { dashArrayX: [1, 0], dashArrayY: [2, 5], rotation: Math.PI / 4 },
  upright: { dashArrayX: [1, 0], dashArrayY: [2, 5], rotation: Math.PI / 2 },
  level: { dashArrayX: [1, 0], dashArrayY: [2, 5] },
  dots: {
    symbol: "circle",
    symbolSize: 0.7,
    dashArrayX: [
      [6, 6],
      [0, 6, 6, 0],
    ],
    dashArrayY: [6, 0],
  },
};

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  return {
    text: colour("text"),
    muted: colour("muted"),
    grid: colour("grid"),
    rule: colour("rule"),
    surface: colour("surface"),
    font: getComputedStyle(document.body).fontFamily,
  };
}

// The parts of an option that do not depend on the chart.
function frame(t, rest) {
  return {
    animation: false,
    textStyle: { fontFamily: t.font, color: t.text },
    tooltip: {
      confine: true,
      backgroundColor: t.surface,
      borderColor: t.rule,
      textStyle: { color: t.text, fontSize: 12 },
      ...rest.tooltip,
    },
    ...Object.fromEntries(Object.entries(rest).filter(([key]) => key !== "tooltip")),
  };
}

function axis(t, rest) {
  return {
    type: "value",
    nameLocation: "middle",
    nameTextStyle: { color: t.muted },
    axisLine: { show: true, lineStyle: { color: t.muted } },
    axisTick: { show: true, lineStyle: { color: t.muted } },
    splitLine: { lineStyle: { color: t.grid } },
    ...rest,
    axisLabel: { color: t.muted, hideOverlap: true, formatter: tick, ...rest.axisLabel },
  };
}

function legend(t, names) {
  return {
    top: 0,
    left: 0,
    itemWidth: 34,
    itemHeight: 9,
    itemGap: 18,
    textStyle: { color: t.text },
    inactiveColor: t.muted,
    data: names,
  };
}

// The width of each name as the charts write it.
function widths(t, names) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px " + t.font;
  return names.map((name) => pen.measureText(name).width);
}

// The height that a legend takes in a chart of some width, with room below it.
function legendHeight(t, names, width) {
  let [rows, used] = [1, 0];
  for (const text of widths(t, names)) {
    const entry = 34 + 5 + text + 18;
    if (used > 0 && used + entry > width) [rows, used] = [rows + 1, 0];
    used += entry;
  }
  return 24 + 31 * (rows - 1);
}

// A line in the style of a stack, with its mark at about eight of its points.
function line(index, points, rest = {}) {
  const style = styleOf(index);
  const step = Math.max(1, Math.ceil(points.length / 8));
  const offset = Math.floor((step * (index % 4)) / 4);
  return {
    type: "line",
    name: labels[index],
    data: points,
    color: style.colour,
    lineStyle: { width: 2, color: style.colour, type: style.dash.length ? style.dash : "solid" },
    symbol: "path://" + style.mark,
    symbolSize: (_, item) => (item.dataIndex % step === offset || points.length < 9 ? 9 : 0),
    showAllSymbol: true,
    connectNulls: false,
    emphasis: { disabled: true },
    ...rest,
  };
}

// Lines of a tooltip: a head and one row per series, all given as text.
function tip(head, rows) {
  const body = rows.map(
    ([marker, name, value]) => `<tr><td>${marker}${escape(name)}</td><td><b>${escape(value)}</b></td></tr>`,
  );
  return `<div>${escape(head)}</div><table style="font-size:12px">${body.join("")}</table>`;
}

const marker = (colour) =>
  `<span style="display:inline-block;width:10px;height:10px;margin-right:4px;background:${colour}"></span>`;

// A tooltip over one point of every line: the one nearest to the pointer along the axis, as the points of runs that
// differ in speed lie at different times. `value(point, index)` gives the words for a point of a line.
function axisTip(lines, head, value) {
  const nearest = (points, x) => points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
  const formatter = (items) => {
    const { axisIndex, axisValue: x } = items[0];
    const rows = lines.flatMap(({ name, color, data, xAxisIndex = 0 }, index) => {
      if (xAxisIndex !== axisIndex || data.length === 0 || x > data[data.length - 1][0]) return [];
      const point = nearest(data, x);
      return point[1] === null ? [] : [[marker(color), name, value(point, index)]];
    });
    return rows.length > 0 ? tip(head(x), rows) : "";
  };
  return { trigger: "axis", formatter };
}

// A colour of a ramp at a share from 0 to 1, mixed between its steps.
function rampColour(ramp, share) {
  const at = Math.min(1, Math.max(0, share || 0)) * (ramp.length - 1);
  const low = Math.min(ramp.length - 2, Math.floor(at));
  const channel = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
  const mixed = [0, 1, 2].map((i) => {
    const [a, b] = [channel(ramp[low], i), channel(ramp[low + 1], i)];
    return Math.round(a + (b - a) * (at - low));
  });
  return `rgb(${mixed.join(",")})`;
}

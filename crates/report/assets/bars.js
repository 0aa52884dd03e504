// The bars: bytes by cause, and lifetime.

// One bar per tier written to: the layer above the device, then the media.
function tiers() {
  const rows = [];
  records.forEach((record, index) => {
    const host = record.host_bytes_written;
    for (const [tier, causes] of Object.entries(record.engine_bytes_written))
      rows.push({ name: `${labels[index]}, ${tier}`, host, causes });
    const several = Object.keys(record.engine_bytes_written).length > 0;
    rows.push({
      name: labels[index] + (several ? ", media" : ""),
      host,
      causes: record.media_bytes_written.by_cause,
    });
  });
  return rows.filter((row) => row.host > 0);
}

function causes() {
  const rows = tiers();
  const total = (row) => Object.values(row.causes).reduce((a, b) => a + b, 0) / row.host;
  const top = Math.max(...rows.map(total), 1);
  const known = page.causes.map((cause) => cause.key);
  const others = [...new Set(rows.flatMap((row) => Object.keys(row.causes)))].filter(
    (key) => !known.includes(key),
  );
  const styles = [...page.causes, ...others.map((key) => ({ key, colour: "#8A8A8A", hatch: "level" }))];
  const used = styles.filter(({ key }) => rows.some((row) => row.causes[key] > 0));
  return (element, t) => {
    const rowNames = rows.map((row) => row.name);
    // A label needs about 56 pixels.
    const smallest = (56 * top) / Math.max(1, element.clientWidth - nameWidth(t, rowNames, element) - 60);
    const keys = used.map(({ key }) => words(key));
    const part = ({ key, colour, hatch }, position) => ({
      type: "bar",
      stack: "tier",
      name: words(key),
      color: colour,
      barMaxWidth: 24,
      itemStyle: {
        decal: HATCHES[hatch] && { color: "rgba(255,255,255,0.55)", ...HATCHES[hatch] },
        borderColor: t.surface,
        borderWidth: 1,
      },
      label: {
        show: true,
        color: "#111",
        backgroundColor: "rgba(255,255,255,0.88)",
        padding: [1, 4],
        borderRadius: 2,
        formatter: ({ value }) => (position > 0 ? "+" : "") + significant(value),
      },
      data: rows.map((row) => {
        const value = (row.causes[key] || 0) / row.host;
        return { value, label: { show: value > smallest } };
      }),
    });
    const sum = {
      type: "bar",
      stack: "tier",
      name: "total",
      silent: true,
      data: rows.map(() => 0),
      label: {
        show: true,
        position: "right",
        color: t.text,
        fontWeight: 700,
        formatter: ({ dataIndex }) => significant(total(rows[dataIndex])),
      },
    };
    return frame(t, {
      grid: { top: 16 + legendHeight(t, keys, element.clientWidth), left: 8, right: 48, bottom: 40 },
      legend: { ...legend(t, keys), itemWidth: 22, itemHeight: 13 },
      tooltip: {
        trigger: "item",
        formatter: (item) => {
          const row = rows[item.dataIndex];
          return tip(row.name, [
            [
              item.marker,
              item.seriesName,
              `${amount(item.value * row.host)}, ${significant(item.value)} per host byte`,
            ],
          ]);
        },
      },
      xAxis: axis(t, { name: "bytes per host byte", nameGap: 28, min: 0 }),
      yAxis: names(
        t,
        rows.map((row) => row.name),
        element,
      ),
      series: [...used.map(part), sum],
    });
  };
}

// Names of stacks beside horizontal bars, broken where the page is narrow.
const nameWidth = (t, data, element) =>
  Math.ceil(Math.min(Math.max(...widths(t, data)) + 2, 260, element.clientWidth * 0.28));

function names(t, data, element) {
  const width = nameWidth(t, data, element);
  return axis(t, {
    type: "category",
    inverse: true,
    data,
    axisTick: { show: false },
    splitLine: { show: false },
    axisLabel: {
      color: t.text,
      formatter: (text) => text,
      width,
      overflow: "break",
      lineHeight: 14,
      interval: 0,
      hideOverlap: false,
    },
  });
}

function life() {
  const rows = records.flatMap((record, index) => (record.life ? [{ index, ...record.life }] : []));
  const ratedYears = (row) =>
    row.rated_tbw_bytes > 0 && row.tbw_bytes > 0
      ? (row.years_p50 * row.rated_tbw_bytes) / row.tbw_bytes
      : null;
  const all = rows
    .flatMap((row) => [row.years_p10, row.years_p50, row.years_p90, row.warranty_years, ratedYears(row)])
    .filter((x) => x > 0);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const log = high > 20 * low;
  const scale = log
    ? { type: "log", min: 10 ** Math.floor(Math.log10(low)), max: 10 ** Math.ceil(Math.log10(high * 1.6)) }
    : { min: 0, max: ceiling(high * 1.3) };
  return (element, t) => {
    const draw = (_, api) => lifeRow(rows[api.value(1)], api, t, ratedYears, log);
    return frame(t, {
      grid: { top: 16, left: 8, right: 24, bottom: 40 },
      tooltip: {
        trigger: "item",
        formatter: (item) => lifeTip(rows[item.dataIndex], ratedYears),
      },
      xAxis: axis(t, { ...scale, name: "years" + (log ? " (logarithmic)" : ""), nameGap: 28 }),
      yAxis: names(
        t,
        rows.map((row) => labels[row.index]),
        element,
      ),
      series: { type: "custom", renderItem: draw, data: rows.map((row, i) => [row.years_p50, i]) },
    });
  };
}

// One lifetime: the band, its median, its marks, its figures in words.
function lifeRow(row, api, t, ratedYears, log) {
  const floor = log ? 1e-9 : 0;
  const at = (years) => api.coord([Math.max(floor, years), api.value(1)]);
  const [left, y] = at(row.years_p10);
  const [middle] = at(row.years_p50);
  const [right] = at(row.years_p90);
  const style = styleOf(row.index);
  const text = {
    text: `${years(row.years_p50)} years (${years(row.years_p10)}\u2013${years(row.years_p90)})`,
    fill: t.text,
    fontWeight: 600,
    fontSize: 12,
    fontFamily: t.font,
    verticalAlign: "middle",
  };
  const fits = api.getWidth() - left > 170;
  const caption = fits ? { ...text, x: left, y: y - 22 } : { ...text, x: right, y: y - 22, align: "right" };
  const children = [
    {
      type: "rect",
      shape: { x: left, y: y - 9, width: Math.max(2, right - left), height: 18 },
      style: { fill: style.colour, opacity: 0.4, stroke: style.colour },
    },
    {
      type: "rect",
      shape: { x: middle - 2, y: y - 13, width: 4, height: 26 },
      style: { fill: style.colour, opacity: 1 },
    },
    { type: "text", style: caption },
  ];
  const mark = (years, points) => {
    if (!(years > 0)) return;
    const [x] = at(years);
    children.push({
      type: "polygon",
      shape: { points: points.map(([dx, dy]) => [x + dx, y + dy]) },
      style: { fill: t.text, stroke: t.surface, lineWidth: 1.5 },
    });
  };
  mark(row.warranty_years, [
    [0, -8],
    [7, 0],
    [0, 8],
    [-7, 0],
  ]);
  mark(ratedYears(row), [
    [0, 2],
    [7, 15],
    [-7, 15],
  ]);
  return { type: "group", children };
}

function lifeTip(row, ratedYears) {
  const rated = ratedYears(row);
  return tip(labels[row.index], [
    ["", "P10", years(row.years_p10) + " years"],
    ["", "median", years(row.years_p50) + " years"],
    ["", "P90", years(row.years_p90) + " years"],
    ["", "warranty", row.warranty_years > 0 ? years(row.warranty_years) + " years" : "unknown"],
    ["", "rated bytes used up after", rated > 0 ? years(rated) + " years" : "unknown"],
  ]);
}

// The charts over the length of the run, and latency by percentile. Each returns `(element, theme) => option`.

const series = records.map((record) => record.series);
const everyPoint = series.flat();
const most = (value) => everyPoint.reduce((a, point) => Math.max(a, value(point) || 0), 0);
const hostEnd = most((point) => point.host_bytes) / GIB;

// A top axis in drive fills beside the bottom one in GiB, where all drives have one capacity.
function hostAxes(t) {
  const capacities = new Set(records.map((record) => record.device.capacity_bytes));
  const [capacity] = capacities;
  const bottom = axis(t, {
    name: "host bytes written, GiB",
    nameGap: 28,
    min: 0,
    max: hostEnd,
    axisLabel: { showMaxLabel: false },
  });
  if (capacities.size > 1 || !capacity) return [bottom];
  const fills = {
    name: "drive fills",
    nameGap: 24,
    position: "top",
    min: 0,
    max: (hostEnd * GIB) / capacity,
    splitLine: { show: false },
    axisLabel: { showMaxLabel: false },
  };
  return [bottom, axis(t, fills)];
}

function waf() {
  return (element, t) => {
    const lines = records.map((record, index) => {
      const points = record.series.map((point) => [point.host_bytes / GIB, point.waf, point.free_units]);
      return line(index, points, { markLine: steadyLine(record, index, t), markArea: steadyArea(record, t) });
    });
    const fills = (x, index) => significant((x * GIB) / (records[index].device.capacity_bytes || NaN));
    const words = ([x, y, free], index) =>
      `${significant(y)} after ${fills(x, index)} drive fills, ${free} units free`;
    return frame(t, {
      grid: { top: 44 + legendHeight(t, labels, element.clientWidth), left: 44, right: 24, bottom: 34 },
      legend: legend(t, labels),
      tooltip: axisTip(lines, (x) => `${significant(x)} GiB written by the host`, words),
      xAxis: hostAxes(t),
      yAxis: axis(t, { name: "WAF", nameGap: 34, min: ({ min }) => Math.min(1, Math.floor(min * 10) / 10) }),
      series: lines,
    });
  };
}

// The mean over the steady window as a thick line across it.
function steadyLine(record, index, t) {
  const { window, reached } = record.steady_state;
  if (!reached || !window || record.waf_steady === null) return undefined;
  const y = record.waf_steady;
  const label = {
    show: true,
    // Neighbouring values would print over each other at one place.
    position: ["insideEndTop", "insideMiddleTop", "insideStartTop"][index % 3],
    formatter: `steady ${significant(y)}`,
    color: t.text,
    fontWeight: 600,
    backgroundColor: t.surface + "d0",
    padding: [1, 4],
  };
  const style = { color: styleOf(index).colour + "70", width: 6, type: "solid" };
  const [from, to] = window.map((bytes) => ({ coord: [bytes / GIB, y], symbol: "none" }));
  return { silent: true, data: [[{ ...from, label, lineStyle: style }, to]] };
}

// The steady window shaded, where there is only one.
function steadyArea(record, t) {
  const { window, reached } = record.steady_state;
  if (!reached || !window || records.length > 1) return undefined;
  const [from, to] = window.map((bytes) => ({ xAxis: bytes / GIB }));
  const label = { color: t.muted, position: "insideBottom" };
  return {
    silent: true,
    itemStyle: { color: t.grid, opacity: 0.7 },
    data: [[{ ...from, name: "steady window", label }, to]],
  };
}

// Axis of seconds, or of the hours or days they amount to.
function clock(t) {
  const end = most((point) => point.seconds);
  const [unit, seconds] =
    end > 3 * 86400
      ? ["days", 86400]
      : end > 3 * 3600
        ? ["hours", 3600]
        : end > 600
          ? ["minutes", 60]
          : ["seconds", 1];
  const at = (point) => point.seconds / seconds;
  return {
    unit,
    at,
    axis: axis(t, {
      name: `time, ${unit}`,
      nameGap: 28,
      min: 0,
      max: end / seconds,
      axisLabel: { showMaxLabel: false },
    }),
  };
}

// A rate in MB/s between one point and the next, on a scale that both rate charts share.
function rate(bytes) {
  const perSecond = (points, i, of) => {
    const seconds = points[i].seconds - (i > 0 ? points[i - 1].seconds : 0);
    return seconds > 0 ? of(points[i]) / seconds / 1e6 : null;
  };
  const both = [(p) => p.host_bytes_written, (p) => p.media_bytes_written];
  const top = series.reduce(
    (a, points) =>
      points.reduce((b, _, i) => Math.max(b, ...both.map((of) => perSecond(points, i, of) || 0)), a),
    0,
  );
  return (element, t) => {
    const time = clock(t);
    const lines = series.map((points, index) =>
      line(
        index,
        points.map((point, i) => [time.at(point), perSecond(points, i, bytes)]),
      ),
    );
    return frame(t, {
      grid: { top: 16 + legendHeight(t, labels, element.clientWidth), left: 58, right: 20, bottom: 40 },
      legend: legend(t, labels),
      tooltip: axisTip(
        lines,
        (x) => `${significant(x)} ${time.unit}`,
        ([, y]) => significant(y) + " MB/s",
      ),
      xAxis: time.axis,
      yAxis: axis(t, { name: "MB/s", nameGap: 44, min: 0, max: top > 0 ? ceiling(top) : 1 }),
      series: lines,
    });
  };
}

// The next number upwards with one digit and a half.
function ceiling(x) {
  const step = 10 ** Math.floor(Math.log10(x)) / 2;
  return Math.ceil(x / step) * step;
}

function cumulative() {
  return (element, t) => {
    const lines = series.map((points, index) => {
      let sum = 0;
      return line(
        index,
        points.map((point) => [point.host_bytes / GIB, (sum += point.media_bytes_written) / GIB]),
      );
    });
    const host = {
      type: "line",
      name: "host",
      data: [
        [0, 0],
        [hostEnd, hostEnd],
      ],
      symbol: "none",
      color: t.muted,
      lineStyle: { width: 1, color: t.muted },
    };
    return frame(t, {
      grid: { top: 44 + legendHeight(t, labels, element.clientWidth), left: 58, right: 24, bottom: 34 },
      legend: legend(t, labels),
      tooltip: axisTip(
        lines,
        (x) => `${significant(x)} GiB written by the host`,
        ([, y]) => significant(y) + " GiB",
      ),
      xAxis: hostAxes(t),
      yAxis: axis(t, { name: "media bytes written, GiB", nameGap: 44, min: 0 }),
      series: [...lines, host],
    });
  };
}

// Latency over time: a panel per percentile, so that the stacks of each share one axis.
function latencyOverTime(key) {
  const percentiles = ["p50", "p99", "p99.9"];
  const values = everyPoint.flatMap((point) => point[key] || []).filter((ns) => ns > 0);
  const low = 10 ** Math.floor(Math.log10(values.reduce((a, b) => Math.min(a, b), Infinity)));
  const high = 10 ** Math.ceil(Math.log10(values.reduce((a, b) => Math.max(a, b), 0)));
  return (element, t) => {
    const stacked = element.clientWidth < 560;
    const top = 40 + legendHeight(t, labels, element.clientWidth);
    const wide = element.clientWidth / 3;
    element.style.height = top + (stacked ? 600 : 250) + "px";
    const box = (i) =>
      stacked
        ? { left: 58, right: 16, top: top + 206 * i, height: 130 }
        : { left: wide * i + 58, width: wide - 74, top, bottom: 40 };
    const now = clock(t);
    const time = (i) => ({ ...now.axis, gridIndex: i });
    const title = (i) => ({
      name: percentiles[i],
      nameLocation: "end",
      nameGap: 10,
      nameTextStyle: { color: t.text, fontWeight: 600, align: "left" },
    });
    const scale = (i) =>
      axis(t, {
        type: "log",
        gridIndex: i,
        min: low,
        max: high > low ? high : low * 10,
        ...title(i),
        axisLabel: { formatter: (ns) => latency(ns, tick) },
      });
    const panel = (i) =>
      series.map((points, index) =>
        line(
          index,
          points.map((point) => [now.at(point), (point[key] && point[key][i]) || null]),
          { xAxisIndex: i, yAxisIndex: i },
        ),
      );
    const lines = percentiles.flatMap((_, i) => panel(i));
    return frame(t, {
      grid: percentiles.map((_, i) => box(i)),
      legend: legend(t, labels),
      tooltip: axisTip(
        lines,
        (x) => `${significant(x)} ${now.unit}`,
        ([, ns], at) => `${percentiles[lines[at].xAxisIndex]} ${latency(ns)}`,
      ),
      xAxis: percentiles.map((_, i) => time(i)),
      yAxis: percentiles.map((_, i) => scale(i)),
      series: lines,
    });
  };
}

// One line per stack over the percentiles of a kind of request.
function percentiles(kind) {
  const keys = ["p50", "p90", "p99", "p99_9", "p99_99", "max"];
  const names = keys.map((key) => key.replace("_", "."));
  const of = (record) => record.latency_ns && record.latency_ns[kind];
  return (element, t) =>
    frame(t, {
      grid: { top: 16 + legendHeight(t, labels, element.clientWidth), left: 58, right: 20, bottom: 26 },
      legend: legend(
        t,
        labels.filter((_, index) => of(records[index])),
      ),
      tooltip: {
        trigger: "axis",
        formatter: (items) =>
          tip(
            items[0].name,
            items.filter((item) => item.value).map((item) => [item.marker, item.seriesName, latency(item.value)]),
          ),
      },
      xAxis: axis(t, {
        type: "category",
        data: names,
        boundaryGap: true,
        axisLabel: {
          formatter: (text) => text,
          interval: 0,
          hideOverlap: false,
          fontSize: element.clientWidth < 440 ? 10 : 12,
        },
      }),
      yAxis: axis(t, { type: "log", axisLabel: { formatter: (ns) => latency(ns, tick) } }),
      series: records.flatMap((record, index) =>
        of(record)
          ? [
              line(
                index,
                keys.map((key) => of(record)[key] || null),
              ),
            ]
          : [],
      ),
    });
}

// Charts of theory and experiments: lines that were measured here, and marks for what others published.

function plot(spec) {
  return (element, t) => {
    const names = spec.lines.map((one) => one.name);
    const lines = spec.lines.map((one, index) => {
      const drawn = { ...line(index, one.points), name: one.name };
      if (!one.reference) return drawn;
      const hollow = { color: t.surface, borderColor: drawn.color, borderWidth: 2 };
      return { ...drawn, lineStyle: { width: 0 }, symbolSize: 11, itemStyle: hollow };
    });
    const kind = (axis) => (axis.logarithmic ? "log" : "value");
    return frame(t, {
      grid: { top: 24 + legendHeight(t, names, element.clientWidth), left: 66, right: 24, bottom: 44 },
      legend: legend(t, names),
      tooltip: axisTip(
        lines,
        (x) => `${spec.x.name}: ${significant(x)}`,
        ([, y]) => significant(y),
      ),
      xAxis: axis(t, { type: kind(spec.x), name: spec.x.name, nameGap: 28 }),
      yAxis: axis(t, { type: kind(spec.y), name: spec.y.name, nameGap: 50 }),
      series: lines,
    });
  };
}

// What is read from and written to each device of a record over time.
function deviceRates(record) {
  const perSecond = (name, bytes, step) => ({
    name,
    points: bytes.map((sum, i) => [i * step, sum / step / 1e6]),
  });
  const both = ({ tier, step_seconds: step, bytes_read, bytes_written }) => [
    perSecond(`${tier}, read`, bytes_read, step),
    perSecond(`${tier}, written`, bytes_written, step),
  ];
  const lines = record.device_series.flatMap(both);
  return plot({ x: { name: "time, seconds" }, y: { name: "MB/s" }, lines });
}

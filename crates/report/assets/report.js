// The charts by the name that the page gives them, and when they are drawn.

const BUILDERS = {
  waf,
  host_rate: () => rate((point) => point.host_bytes_written),
  media_rate: () => rate((point) => point.media_bytes_written),
  cumulative,
  device_rates: deviceRates,
  write_latency: () => latencyOverTime("write_latency_ns"),
  read_latency: () => latencyOverTime("read_latency_ns"),
  write_percentiles: () => percentiles("write"),
  read_percentiles: () => percentiles("read"),
  causes,
  life,
  unit_map: unitMap,
  wear_map: wearMap,
  valid_histogram: validHistogram,
  wear_histogram: wearHistogram,
  plot,
};

// Above this many cells a map is drawn as pixels: as many SVG elements would make the page slow.
const MOST_SVG_CELLS = 1024;

let charts = [];

function draw() {
  for (const chart of charts) chart.dispose();
  const t = theme();
  charts = [...document.querySelectorAll(".chart")].map((element) => {
    const { chart: name, record, title } = element.dataset;
    const of = name === "plot" ? page.plots : records;
    const build = BUILDERS[name](of[Number(record)]);
    const option = build(element, t);
    const cells = name.endsWith("_map") ? option.series.data.length : 0;
    const renderer = cells > MOST_SVG_CELLS ? "canvas" : "svg";
    const chart = echarts.init(element, null, {
      renderer,
      devicePixelRatio: Math.max(2, window.devicePixelRatio),
    });
    chart.setOption({ ...option, aria: { enabled: true, label: { description: title } } });
    return chart;
  });
}

// Paper is light and as wide as A4 within its margins, whatever the screen is.
function printing(on) {
  document.documentElement.classList.toggle("printing", on);
  for (const details of document.querySelectorAll("details:not(.licences)"))
    details.open = on || details.open;
  draw();
}

let pending;
let drawnWidth = 0;
addEventListener("resize", () => {
  clearTimeout(pending);
  pending = setTimeout(() => {
    if (document.body.clientWidth === drawnWidth) return;
    drawnWidth = document.body.clientWidth;
    draw();
  }, 150);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("beforeprint", () => printing(true));
addEventListener("afterprint", () => printing(false));
drawnWidth = document.body.clientWidth;
draw();

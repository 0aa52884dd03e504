// Numbers and words for charts; the same conventions as the tables (three digits, GiB for data, MB/s for rates).

const GIB = 2 ** 30;

function significant(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "unknown";
  if (Math.abs(x) < 1e-9) return "0";
  if (Math.abs(x) >= 9999.5) return Math.round(x).toLocaleString("en").replace(/,/g, "\u202f");
  return Math.abs(x) >= 999.5 ? x.toFixed(0) : x.toPrecision(3);
}

// A number for an axis: no digits that say nothing.
function tick(x) {
  return Math.abs(x) >= 1e4 || (x !== 0 && Math.abs(x) < 1e-3)
    ? significant(x)
    : String(Number(x.toPrecision(4)));
}

function latency(ns, digits = significant) {
  if (ns < 999.5) return digits(ns) + " ns";
  if (ns < 999.5e3) return digits(ns / 1e3) + " us";
  if (ns < 999.5e6) return digits(ns / 1e6) + " ms";
  return digits(ns / 1e9) + " s";
}

function years(x) {
  if (x >= 999.5) return "over 1000";
  if (x >= 99.5) return String(Math.round(x / 10) * 10);
  return x >= 9.95 ? x.toFixed(0) : x >= 0.095 ? x.toFixed(1) : x.toFixed(3);
}

function amount(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let step = 0;
  while (bytes >= 1024 && step < units.length - 1) {
    bytes /= 1024;
    step += 1;
  }
  return significant(bytes) + " " + units[step];
}

const percent = (share) => (Number.isFinite(share) ? Math.round(share * 1000) / 10 + " %" : "unknown");
const words = (key) => key.replace(/_/g, " ");

// Text as HTML: names come from command lines and files.
const escape = (text) =>
  String(text).replace(
    /[&<>"']/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c],
  );

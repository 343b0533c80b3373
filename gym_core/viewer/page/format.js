// Numbers for people.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function whole(value) {
  return WHOLE.format(value);
}

/** "812", "12.4k", "3.1M". */
export function short(value) {
  const size = Math.abs(value);
  if (size < 1000) return size === Math.round(size) ? String(value) : value.toFixed(1);
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return (value / unit).toFixed(size / unit < 100 ? 1 : 0) + name;
  }
  return String(value);
}

export function reward(value) {
  if (value === null || value === undefined) return "\u2013";
  return value === 0 || value === 1 ? String(value) : value.toFixed(3);
}

export function score(value) {
  return value === null || value === undefined ? "\u2013" : value.toFixed(3);
}

export function interval(estimate) {
  if (estimate.ci_low_95 === null || estimate.ci_low_95 === undefined) return "";
  return `${estimate.ci_low_95.toFixed(3)} \u2013 ${estimate.ci_high_95.toFixed(3)}`;
}

/** "35 ms", "4.2 s", "12 min 03 s", "2 h 05 min". */
export function seconds(value) {
  if (value === null || value === undefined) return "\u2013";
  if (value < 0.0005) return "0 s";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const rounded = Math.round(value);
  if (rounded < 3600) return `${Math.floor(rounded / 60)} min ${String(rounded % 60).padStart(2, "0")} s`;
  return `${Math.floor(rounded / 3600)} h ${String(Math.floor((rounded % 3600) / 60)).padStart(2, "0")} min`;
}

export function bytes(value) {
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${(value / 1e3).toFixed(0)} kB` : `${(value / 1e6).toFixed(1)} MB`;
}

export function when(unix) {
  if (!unix) return "\u2013";
  const date = new Date(unix * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function ago(unix) {
  const passed = Date.now() / 1000 - unix;
  return passed < 1 ? "now" : `${seconds(Math.max(1, Math.round(passed)))} ago`;
}

export function counted(count, noun) {
  return `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** An identifier of ours as words; anything else stays as it is. */
export function words(name) {
  const text = String(name);
  return /^[a-z0-9]+(?:_[a-z0-9]+)+$/.test(text) ? text.replaceAll("_", " ") : text;
}

export function money(value, currency) {
  if (value === null || value === undefined) return "";
  return `${value.toFixed(value < 1 ? 4 : 2)} ${currency || ""}`.trim();
}

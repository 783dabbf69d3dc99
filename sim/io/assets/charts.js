// Small line charts: title, last (or pointed-at) values, axes with round ticks, linear or logarithmic, gaps where there is no number.
//
// A chart is { name, unit, over, x, log, series, references, band, goals }: `series` is a list of { name, y, style },
// `style` a class of the style sheet (dots where it ends in "dots"); `references` are levels drawn dashed, `band` is a
// range [low, high] that is tinted, `goals` are points [x, y] that should be met, `least` is the least range of the vertical axis.
const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes, parent, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function shortNumber(value, digits = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
  return text.replace(/\.?0+e/, "e").replace("e+", "e").replaceAll("-", "−");
}

function linearTicks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((part) => part * power).find((size) => size >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
}

function logTicks(low, high, wanted) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const decades = [];
  const every = Math.max(1, Math.ceil(Math.log10(high / low) / wanted));
  for (let power = first; power <= last; power += every) decades.push(power);
  const inside = (tick) => tick >= low * 0.999 && tick <= high * 1.001;
  const whole = decades.map((power) => 10 ** power).filter(inside);
  if (whole.length >= 3 || (every > 1 && whole.length === 2)) return whole;
  const finer = decades.flatMap((power) => [1, 2, 5].map((part) => part * 10 ** power)).filter(inside);
  return finer.length >= 2 ? finer : linearTicks(low, high, wanted);
}

// The parts of a chart: a title, values on the right with the colours of their series, and an empty drawing.
function chartFrame(figure, chart, height) {
  figure.replaceChildren();
  const caption = document.createElement("figcaption"), title = document.createElement("span"), values = document.createElement("span");
  title.textContent = chart.name + (chart.unit ? ` [${chart.unit}]` : "");
  values.className = "values";
  caption.append(title, values);
  figure.append(caption);
  const width = Math.max(180, figure.clientWidth);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": chart.name, style: `height: ${height}px` }, figure);
  return { svg, values, width };
}

// The range of the vertical axis, with a margin; in powers of ten where it is logarithmic.
function levelRange(chart) {
  const levels = chart.series.flatMap(({ y }) => y.filter((v) => v !== null));
  levels.push(...chart.references, ...(chart.band ?? []), ...chart.goals.map(([, y]) => y));
  const used = chart.log ? levels.filter((v) => v > 0) : levels;
  const map = chart.log ? Math.log10 : (y) => y, back = chart.log ? (y) => 10 ** y : (y) => y;
  let low = used.reduce((a, b) => Math.min(a, b), Infinity), high = used.reduce((a, b) => Math.max(a, b), -Infinity);
  const missing = (chart.least ?? 0) - (high - low);
  if (missing > 0) [low, high] = [low - missing / 2, high + missing / 2];
  let margin = 0.07 * (map(high) - map(low));
  if (!(margin > 1e-6 * Math.max(Math.abs(map(high)), 1e-300))) margin = chart.log ? 0.2 : 0.1 * Math.abs(high) || 1;
  return { low: back(map(low) - margin), high: back(map(high) + margin), map };
}

// Draws a chart into a figure; returns a function that moves its time mark, which is null where there is none.
function drawChart(figure, chart, { height = 190, onPick = null, quiet = false } = {}) {
  const { svg, values, width } = chartFrame(figure, chart, height);
  const xs = chart.x, seen = chart.series.filter(({ y }) => y.some((v) => v !== null));
  if (!seen.length) {
    values.textContent = "no finite value";
    return null;
  }
  const { low, high, map } = levelRange(chart);
  const place = chart.log ? logTicks : linearTicks, wanted = height > 120 ? 4 : 3;
  let ticks = place(low, high, wanted);
  if (ticks.length < 2) ticks = place(low, high, 2 * wanted);
  const digits = tickDigits(ticks);
  const left = 14 + 6.3 * Math.max(...ticks.map((tick) => shortNumber(tick, digits).length)), right = 8, top = 8, bottom = 22;
  const counts = chart.over === "iteration"; // whole numbers, from the first
  const x0 = counts ? xs[0] : Math.min(0, xs[0]), x1 = counts ? Math.max(xs.at(-1), x0 + 1) : xs.at(-1);
  const px = (x) => left + ((x - x0) / (x1 - x0 || 1)) * (width - left - right);
  const py = (y) => height - bottom - ((map(y) - map(low)) / (map(high) - map(low))) * (height - top - bottom);

  for (const tick of ticks) {
    element("line", { class: "rule", x1: left, x2: width - right, y1: py(tick), y2: py(tick) }, svg);
    element("text", { x: left - 7, y: py(tick) + 4, "text-anchor": "end" }, svg, shortNumber(tick, digits));
  }
  const acrossTicks = linearTicks(x0, x1, Math.min(6, width / 60)).filter((tick) => !counts || Number.isInteger(tick));
  acrossTicks.forEach((tick, i) => {
    const unit = !counts && i === acrossTicks.length - 1 ? ` ${chart.over}` : "";
    const anchor = px(tick) > width - 24 ? "end" : "middle";
    element("text", { x: Math.min(px(tick), width - 2), y: height - 6, "text-anchor": anchor }, svg, shortNumber(tick) + unit);
  });
  if (chart.band) {
    const [a, b] = chart.band;
    element("rect", { class: "band", x: left, width: width - left - right, y: py(b), height: Math.max(0, py(a) - py(b)) }, svg);
  }
  for (const level of chart.references) {
    if (!chart.log || level > 0) element("line", { class: "reference", x1: left, x2: width - right, y1: py(level), y2: py(level) }, svg);
  }
  for (const { y, style } of seen) drawSeries(svg, xs, y, style, px, py, seen.length === 1 && height > 120 ? height - bottom : null);
  for (const [x, y] of chart.goals) element("circle", { class: "goal", cx: px(x), cy: py(y), r: 5 }, svg);

  const mark = element("line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" }, svg);
  const points = element("g", {}, svg);
  const show = (index, named) => {
    points.replaceChildren();
    const parts = seen.map(({ name, y, style }) => {
      const i = index ?? y.findLastIndex((v) => v !== null), part = document.createElement("span");
      if (y[i] !== null && (named || !quiet)) element("circle", { class: `dot ${style}`, r: 4, cx: px(xs[i]), cy: py(y[i]) }, points);
      if (seen.length > 1) part.className = `key ${style}`;
      part.textContent = (seen.length > 1 && name ? `${name} ` : "") + (y[i] === null ? "–" : shortNumber(y[i], 4));
      return part;
    });
    if (named) parts.unshift(counts ? `iteration ${xs[index]}: ` : `${shortNumber(xs[index], 4)} ${chart.over}: `);
    values.replaceChildren(...(named || !quiet ? parts : [])); // quiet: only what is pointed at
  };
  const nearest = (event) => {
    const box = svg.getBoundingClientRect(), x = ((event.clientX - box.left) / box.width) * width;
    return xs.reduce((best, one, i) => (Math.abs(px(one) - x) < Math.abs(px(xs[best]) - x) ? i : best), 0);
  };
  show(null, false);
  svg.addEventListener("pointermove", (event) => show(nearest(event), true));
  svg.addEventListener("pointerleave", () => show(null, false));
  if (onPick) svg.addEventListener("click", (event) => onPick(xs[nearest(event)]));
  return (x) => {
    const inside = x >= x0 && x <= x1;
    mark.setAttribute("visibility", inside ? "visible" : "hidden");
    if (inside) for (const end of ["x1", "x2"]) mark.setAttribute(end, px(x));
  };
}

// A line with gaps, or dots; `base`: the height down to which the area below a line is tinted.
function drawSeries(svg, xs, y, style, px, py, base) {
  let path = "", pen = "M";
  xs.forEach((x, i) => {
    if (y[i] === null) pen = "M"; // a gap
    else {
      path += `${pen}${px(x).toFixed(1)},${py(y[i]).toFixed(1)}${pen === "M" ? "h0" : ""}`; // h0: a lone point is a dot
      pen = style.endsWith("dots") ? "M" : "L";
    }
  });
  const whole = y.every((v) => v !== null) && y.length > 1 && !style.endsWith("dots");
  if (base !== null && whole) element("path", { class: `area ${style}`, d: `${path}L${px(xs.at(-1))},${base}L${px(xs[0])},${base}Z` }, svg);
  element("path", { class: `curve ${style}`, d: path }, svg);
}

// As many digits as neighbouring ticks need to differ.
function tickDigits(ticks) {
  const step = ticks.length > 1 ? Math.min(...ticks.slice(1).map((tick, i) => tick - ticks[i])) : 0;
  const size = Math.max(...ticks.map(Math.abs));
  return step > 0 && size > 0 ? Math.min(9, Math.max(3, Math.ceil(Math.log10(size / step) + 1e-9) + 1)) : 3;
}

function drawCharts(curves) {
  for (const figure of document.querySelectorAll(".chart[data-curve]")) drawChart(figure, curves[Number(figure.dataset.curve)]);
}

// One small line chart per curve: title, last (or pointed-at) value, axes with round ticks, linear or logarithmic.
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
  if (whole.length >= 3) return whole;
  const finer = decades.flatMap((power) => [1, 2, 5].map((part) => part * 10 ** power)).filter(inside);
  return finer.length >= 2 ? finer : linearTicks(low, high, wanted);
}

function drawChart(figure, curve) {
  const points = curve.x.map((x, i) => [x, curve.y[i]]).filter(([, y]) => y !== null);
  figure.replaceChildren();
  const caption = document.createElement("figcaption");
  const title = document.createElement("span"), value = document.createElement("span");
  title.textContent = curve.name + (curve.unit ? ` [${curve.unit}]` : "");
  value.className = "value";
  caption.append(title, value);
  figure.append(caption);
  if (!points.length) {
    value.textContent = "no finite value";
    return;
  }
  const width = Math.max(220, figure.clientWidth), height = 190;
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": curve.name }, figure);

  const levels = points.map(([, y]) => y);
  if (curve.reference !== null && (!curve.log || curve.reference > 0)) levels.push(curve.reference);
  let low = Math.min(...levels), high = Math.max(...levels);
  const map = curve.log ? Math.log10 : (y) => y, back = curve.log ? (y) => 10 ** y : (y) => y;
  let margin = 0.07 * (map(high) - map(low));
  if (!(margin > 0)) margin = curve.log ? 0.2 : 0.1 * Math.abs(high) || 1;
  low = back(map(low) - margin);
  high = back(map(high) + margin);
  const ticks = (curve.log ? logTicks : linearTicks)(low, high, 4);
  const left = 14 + 6.3 * Math.max(...ticks.map((tick) => shortNumber(tick).length)), right = 8, top = 8, bottom = 22;
  const counts = curve.over === "iteration"; // whole numbers, from the first
  const x0 = counts ? curve.x[0] : 0, x1 = counts ? Math.max(curve.x.at(-1), x0 + 1) : curve.x.at(-1);
  const px = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - right);
  const py = (y) => height - bottom - ((map(y) - map(low)) / (map(high) - map(low))) * (height - top - bottom);

  for (const tick of ticks) {
    element("line", { class: "rule", x1: left, x2: width - right, y1: py(tick), y2: py(tick) }, svg);
    element("text", { x: left - 7, y: py(tick) + 4, "text-anchor": "end" }, svg, shortNumber(tick));
  }
  for (const tick of linearTicks(x0, x1, Math.min(6, width / 60))) {
    if (counts && !Number.isInteger(tick)) continue;
    element("text", { x: px(tick), y: height - 6, "text-anchor": "middle" }, svg, shortNumber(tick));
  }
  let path = "", pen = "M";
  curve.x.forEach((x, i) => {
    const y = curve.y[i];
    if (y === null) pen = "M"; // a gap
    else {
      path += `${pen}${px(x).toFixed(1)},${py(y).toFixed(1)}${pen === "M" ? "h0" : ""}`; // h0: a lone point is a dot
      pen = "L";
    }
  });
  if (!path.slice(1).includes("M") && points.length > 1) {
    const base = height - bottom;
    element("path", { class: "area", d: `${path}L${px(points.at(-1)[0])},${base}L${px(points[0][0])},${base}Z` }, svg);
  }
  if (curve.reference !== null && (!curve.log || curve.reference > 0)) {
    const y = py(curve.reference);
    element("line", { class: "reference", x1: left, x2: width - right, y1: y, y2: y }, svg);
  }
  element("path", { class: "curve", d: path }, svg);
  const dot = element("circle", { class: "dot", r: 4.5 }, svg);

  const show = ([x, y], named) => {
    dot.setAttribute("cx", px(x));
    dot.setAttribute("cy", py(y));
    value.textContent = (named ? `${counts ? `iteration ${x}` : `${shortNumber(x)} ${curve.over}`}: ` : "") + shortNumber(y, 4);
  };
  show(points.at(-1), false);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    show(points.reduce((best, point) => (Math.abs(px(point[0]) - x) < Math.abs(px(best[0]) - x) ? point : best)), true);
  });
  svg.addEventListener("pointerleave", () => show(points.at(-1), false));
}

function drawCharts(curves) {
  for (const figure of document.querySelectorAll(".chart")) drawChart(figure, curves[Number(figure.dataset.curve)]);
}

// What was measured and what is simulated, over time: a row of charts for each marker, the worst first, with what is left between.
const FIRST_ROWS = 3;

function decodeTrack(track) {
  const [frames, markers, axes] = track.shape, numbers = {};
  for (const [name, text] of Object.entries(track.series)) {
    if (text) numbers[name] = decode(text, Float32Array);
  }
  const line = (name, marker, axis) => numbers[name] && Array.from({ length: frames }, (_, k) => {
    const value = numbers[name][(k * markers + marker) * axes + axis];
    return Number.isFinite(value) ? value : null;
  });
  return { frames, markers, axes, line };
}

function startTracks(root, tracks) {
  const choice = root.querySelector(".which"), rows = root.querySelector(".rows"), more = root.querySelector(".more");
  let marks = [], shownRows = FIRST_ROWS, now = null;

  const chart = (track, name, unit, series, extra = {}) => ({
    name, unit, over: "s", x: track.times, log: false, references: [], band: null, goals: [], ...extra, series,
  });

  function axisCharts(track, { line }, marker, axis) {
    const holder = document.createElement("div"), upper = document.createElement("figure"), lower = document.createElement("figure");
    upper.className = lower.className = "chart";
    const series = [["before", "before"], ["measured", "measured-dots"], ["skipped", "skipped-dots"], ["after", "after"]]
      .map(([key, style]) => ({ name: "", y: line(key, marker, axis), style })).filter(({ y }) => y);
    const goals = track.goals.map(({ time, values }) => [time, values[axis]]);
    const references = track.levels.map((levels) => levels[axis]);
    const charts = [[upper, chart(track, track.axes[axis], track.unit, series, { goals, references, least: track.least }), 150]];
    const residual = line("residual", marker, axis);
    if (residual) {
      const band = track.noise > 0 ? [-track.noise, track.noise] : null;
      const style = residual.filter((v) => v !== null).length > 3 ? "residual" : "residual-dots";
      charts.push([lower, chart(track, "simulated − measured", track.residualUnit, [{ name: "", y: residual, style }], { band }), 92]);
    }
    holder.append(...charts.map(([figure]) => figure));
    return { holder, charts };
  }

  function draw() {
    const track = tracks[Number(choice.value)], numbers = decodeTrack(track);
    const shown = Math.min(shownRows, numbers.markers), jobs = [];
    rows.replaceChildren();
    for (let marker = 0; marker < shown; marker++) {
      const heading = document.createElement("h3"), row = document.createElement("div");
      heading.textContent = track.markers[marker];
      row.className = "trio";
      for (let axis = 0; axis < numbers.axes; axis++) {
        const { holder, charts } = axisCharts(track, numbers, marker, axis);
        row.append(holder);
        jobs.push(...charts);
      }
      rows.append(heading, row);
    }
    const onPick = (time) => document.dispatchEvent(new CustomEvent("seek", { detail: { take: track.experiment, time } }));
    marks = jobs.map(([figure, one, height]) => drawChart(figure, one, { height, onPick, quiet: true })).filter(Boolean);
    move();
    root.querySelector(".track-note").textContent = track.note;
    for (const key of ["before", "measured", "skipped", "after", "goals", "noise", "levels"]) {
      const there = { goals: track.goals.length, noise: track.noise > 0 && track.series.residual, levels: track.levels.length }[key] ?? track.series[key];
      root.querySelector(`.key.${key}`).hidden = !there;
    }
    root.querySelector(".key.after").textContent = track.words.after;
    more.hidden = numbers.markers <= FIRST_ROWS;
    more.textContent = shown < numbers.markers ? `Show ${numbers.markers - shown} more` : `Show the worst ${FIRST_ROWS} only`;
  }

  function move() {
    const track = tracks[Number(choice.value)];
    const time = now && now.take === track.experiment ? now.time : NaN;
    for (const mark of marks) mark(time);
  }

  choice.replaceChildren(...tracks.map((track, i) => new Option(track.name, i)));
  choice.hidden = tracks.length < 2;
  choice.addEventListener("change", () => {
    shownRows = FIRST_ROWS;
    draw();
  });
  more.addEventListener("click", () => {
    shownRows = shownRows === FIRST_ROWS ? Infinity : FIRST_ROWS;
    draw();
  });
  document.addEventListener("player", ({ detail }) => {
    now = detail;
    move();
  });
  draw();
  return draw;
}

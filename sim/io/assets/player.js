// The player: camera by mouse, touch and keys, time line, layer switches.
const ICONS = {
  play: '<svg viewBox="0 0 14 14"><path d="M3 1l10 6-10 6z"/></svg>',
  pause: '<svg viewBox="0 0 14 14"><path d="M2 1h3.5v12H2zM8.5 1H12v12H8.5z"/></svg>',
};
const FOV = 0.6;

function length(metres) {
  if (metres >= 1) return `${shortNumber(metres)} m`;
  return metres >= 0.01 ? `${shortNumber(100 * metres)} cm` : `${shortNumber(1000 * metres)} mm`;
}

function startPlayer(root, takes) {
  const part = (name) => root.querySelector(name);
  const canvas = part("canvas"), slider = part(".frame"), message = part(".message");
  let renderer;
  try {
    renderer = new Renderer(canvas);
  } catch (error) {
    part(".stage").classList.add("empty");
    message.textContent = `There is no 3-D picture here: ${error.message}. The tables and curves below are complete.`;
    return;
  }
  message.remove();
  part(".controls").hidden = false;

  const darkness = window.matchMedia("(prefers-color-scheme: dark)");
  let take, frame = 0, playing = false, paused = false, last = 0, dirty = true, edges = false, trails = false, halves = false, tint = "";
  let shown = new Set();
  const camera = { fov: FOV };

  // One picture, or before and after: beside each other, in a tall window one above the other.
  function panes() {
    const tall = canvas.clientHeight > canvas.clientWidth;
    if (!halves) return [{ box: [0, 0, 1, 1], shown }];
    return ["before", "after"].map((side, i) => ({
      box: tall ? [0, (1 - i) / 2, 1, 0.5] : [i / 2, 0, 0.5, 1],
      shown: new Set([...shown].filter((key) => !key.startsWith("layer") || ["", side].includes(take.layers[key.slice(5)].side))),
    }));
  }
  const paneHeight = () => canvas.clientHeight * panes()[0].box[3];
  const paneAspect = () => (canvas.clientWidth * panes()[0].box[2]) / Math.max(paneHeight(), 1);

  function resetView() {
    Object.assign(camera, { azimuth: 0.45, elevation: 0.2, target: renderer.center });
    camera.distance = renderer.fittingDistance(camera, paneAspect());
    dirty = true;
  }

  // Times: the layers' first frame is at `begin`; frame number n is the one at n times the interval.
  const timeOf = (at) => take.begin + at * take.stride * take.interval;
  const numberOf = (at) => Math.round(timeOf(at) / (take.interval || 1));
  const seconds = (t) => t.toFixed(Math.min(6, Math.max(2, Math.ceil(-Math.log10(0.99 * (take.interval || 1))))));

  function chooseTake(index) {
    take = takes[index];
    renderer.load(take);
    slider.max = take.frames - 1;
    shown = new Set(["floor"]);
    const rows = [
      ...take.layers.map((layer, i) => [`layer${i}`, layer.name, layer.color, layer.visible]),
      ...take.shapes.map((shape, i) => [`shape${i}`, shape.name, shape.color, true]),
    ];
    const buttons = rows.map(([key, name, color, visible]) => {
      const button = document.createElement("button"), chip = document.createElement("i");
      button.type = "button";
      chip.style.setProperty("--chip", color);
      button.append(chip, name);
      const toggle = (on) => {
        if (on) shown.add(key);
        else shown.delete(key);
        button.setAttribute("aria-pressed", on);
        dirty = true;
      };
      toggle(visible);
      button.addEventListener("click", () => toggle(!shown.has(key)));
      return button;
    });
    part(".layers").replaceChildren(...buttons);
    part(".trails").hidden = !take.layers.some((layer) => layer.trail && !layer.static);
    press(part(".trails"), (trails = take.layers.some((layer) => layer.trail && layer.visible && layer.points <= 8)));
    const tints = [...new Set(take.layers.flatMap((layer) => layer.tints.map(({ name }) => name)))];
    part(".colour").replaceChildren(new Option("one colour", ""), ...tints.map((name) => new Option(`by ${name}`, name)));
    part(".colour").hidden = !tints.length;
    setTint(tints.includes(tint) ? tint : (tints[0] ?? ""));
    part(".halves").hidden = !["before", "after"].every((side) => take.layers.some((layer) => layer.side === side));
    setHalves(halves && !part(".halves").hidden);
    const thinned = take.stride > 1 ? `1 frame in ${take.stride}, ` : "";
    part(".caption").textContent = `${thinned}grid ${length(renderer.cell)}`;
    frame = Math.min(frame, take.frames - 1);
    resetView();
  }

  function press(button, on) {
    button.setAttribute("aria-pressed", on);
    dirty = true;
  }

  function setTint(name) {
    const scale = part(".scale"), found = take.layers.flatMap((layer) => layer.tints).find((one) => one.name === name);
    part(".colour").value = tint = name;
    scale.hidden = !found;
    if (found) {
      const [low, high] = [found.low, found.high].map((value) => shortNumber(value));
      scale.replaceChildren(`${low} `, document.createElement("i"), ` ${high} ${found.unit}${found.log ? ", log scale" : ""}`);
    }
    dirty = true;
  }

  function setHalves(on) {
    halves = on;
    press(part(".halves"), on);
    part(".sides").hidden = !on;
    part(".sides").classList.toggle("tall", canvas.clientHeight > canvas.clientWidth);
  }

  function setPlaying(on) {
    playing = on && take.frames > 1;
    last = 0;
    part(".play").innerHTML = playing ? ICONS.pause : ICONS.play;
  }

  function goTo(value) {
    setPlaying(false);
    paused = true;
    frame = Math.max(0, Math.min(take.frames - 1, Math.round(value)));
    dirty = true;
  }

  function tick(now) {
    if (playing) {
      const speed = Number(part(".speed").value), step = last ? Math.min(now - last, 100) / 1000 : 0;
      frame += (step * speed) / (take.interval * take.stride);
      if (frame > take.frames - 1) frame = 0;
      last = now;
      dirty = true;
    }
    if (dirty) {
      dirty = false;
      const whole = Math.round(frame);
      slider.value = whole;
      part(".clock").textContent = `${seconds(timeOf(frame))} s · frame ${numberOf(whole)} of ${numberOf(take.frames - 1)}`;
      document.dispatchEvent(new CustomEvent("player", { detail: { take: take.name, time: timeOf(frame) } }));
      const ink = getComputedStyle(root).getPropertyValue("--soft").trim();
      renderer.draw({ camera, frame, panes: panes(), solid: halves, edges, trails, tint, ink, dark: darkness.matches });
    }
    requestAnimationFrame(tick);
  }

  function turn(dx, dy) {
    camera.azimuth -= 0.008 * dx;
    camera.elevation = Math.max(-1.5, Math.min(1.5, camera.elevation + 0.008 * dy));
    dirty = true;
  }
  function pan(dx, dy) {
    const { right, top } = renderer.look(camera, 1), metres = (2 * camera.distance * Math.tan(FOV / 2)) / paneHeight();
    camera.target = add(add(camera.target, right, -dx * metres), top, dy * metres);
    dirty = true;
  }
  function zoom(factor) {
    camera.distance = Math.max(0.02 * renderer.radius, Math.min(60 * renderer.radius, camera.distance * factor));
    dirty = true;
  }

  const fingers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  }
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before[0], dy = event.clientY - before[1];
    const spread = () => {
      const [a, b] = [...fingers.values()];
      return Math.hypot(a[0] - b[0], a[1] - b[1]);
    };
    const apart = fingers.size === 2 ? spread() : 0;
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    if (fingers.size === 2) {
      zoom(apart / Math.max(spread(), 1));
      pan(dx / 2, dy / 2);
    } else if (event.shiftKey || event.buttons & 6) pan(dx, dy);
    else turn(dx, dy);
  });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("dblclick", resetView);
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas) return; // the wheel scrolls the page until the player is clicked
    event.preventDefault();
    zoom(Math.exp(0.0012 * event.deltaY * (event.deltaMode === 1 ? 16 : 1)));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const action = {
      " ": () => setPlaying(!(paused = playing)), ArrowRight: () => goTo(Math.floor(frame) + 1), ArrowLeft: () => goTo(Math.ceil(frame) - 1),
      Home: () => goTo(0), End: () => goTo(take.frames - 1), "+": () => zoom(0.9), "-": () => zoom(1.1),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  part(".play").addEventListener("click", () => setPlaying(!(paused = playing)));
  slider.addEventListener("input", () => goTo(Number(slider.value)));
  part(".reset").addEventListener("click", resetView);
  part(".edges").addEventListener("click", (event) => press(event.currentTarget, (edges = !edges)));
  part(".trails").addEventListener("click", (event) => press(event.currentTarget, (trails = !trails)));
  part(".halves").addEventListener("click", () => {
    setHalves(!halves);
    camera.distance = renderer.fittingDistance(camera, paneAspect());
  });
  part(".colour").addEventListener("change", (event) => setTint(event.currentTarget.value));
  part(".full").hidden = !document.fullscreenEnabled;
  part(".full").addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else root.requestFullscreen();
  });
  const choice = part(".take");
  choice.hidden = takes.length < 2;
  choice.replaceChildren(...takes.map((one, i) => new Option(one.name, i)));
  choice.addEventListener("change", () => chooseTake(Number(choice.value)));
  document.addEventListener("seek", ({ detail }) => { // a chart over time was clicked
    const index = takes.findIndex((one) => one.name === detail.take);
    if (index < 0) return;
    if (takes[index] !== take) chooseTake((choice.value = index));
    goTo((detail.time - take.begin) / (take.interval * take.stride || 1));
  });
  document.addEventListener("takes", ({ detail }) => { // a run goes on: they move otherwise, and are looked at as before
    const names = () => take.layers.map((layer) => layer.name).join();
    const seen = { ...camera }, before = names(), layers = shown;
    takes.splice(0, takes.length, ...detail);
    chooseTake(Math.max(0, takes.findIndex((one) => one.name === take.name)));
    Object.assign(camera, seen);
    if (names() === before) {
      for (const [i, button] of [...part(".layers").children].entries()) {
        const key = i < take.layers.length ? `layer${i}` : `shape${i - take.layers.length}`;
        if (shown.has(key) !== layers.has(key)) button.click();
      }
    }
    if (take.frames > 1 && !paused) setPlaying(true);
  });
  new ResizeObserver(() => setHalves(halves)).observe(canvas);
  darkness.addEventListener("change", () => (dirty = true));

  chooseTake(0);
  const openAtHash = () => {
    const wanted = /^#(\d+)$/.exec(location.hash);
    if (wanted) goTo((Number(wanted[1]) - numberOf(0)) / take.stride);
    return Boolean(wanted);
  };
  window.addEventListener("hashchange", openAtHash);
  if (!openAtHash()) setPlaying(!window.matchMedia("(prefers-reduced-motion: reduce)").matches);
  requestAnimationFrame(tick);
}

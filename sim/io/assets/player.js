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
    part(".stage").classList.add("empty");
    message.textContent = `There is no 3-D picture here: ${error.message}. The tables and curves below are complete.`;
    return;
  }
  message.remove();
  part(".controls").hidden = false;

  const darkness = window.matchMedia("(prefers-color-scheme: dark)");
  let take, frame = 0, playing = false, last = 0, dirty = true, edges = false;
  let shown = new Set();
  const camera = { fov: FOV };

  function resetView() {
    const aspect = canvas.clientWidth / Math.max(canvas.clientHeight, 1);
    const half = Math.atan(Math.tan(FOV / 2) * Math.min(1, aspect));
    const distance = (0.94 * renderer.radius) / Math.sin(half);
    Object.assign(camera, { azimuth: 0.45, elevation: 0.2, distance, target: renderer.center });
    dirty = true;
  }

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
    const thinned = take.stride > 1 ? `1 frame in ${take.stride}, ` : "";
    part(".caption").textContent = `${thinned}grid ${length(renderer.cell)}`;
    frame = Math.min(frame, take.frames - 1);
    resetView();
  }

  function setPlaying(on) {
    playing = on && take.frames > 1;
    last = 0;
    part(".play").innerHTML = playing ? ICONS.pause : ICONS.play;
  }

  function goTo(value) {
    setPlaying(false);
    frame = Math.max(0, Math.min(take.frames - 1, Math.round(value)));
    dirty = true;
  }

  function tick(now) {
    if (playing) {
      const speed = Number(part(".speed").value), step = last ? Math.min(now - last, 100) / 1000 : 0;
      frame += (step * take.fps * speed) / take.stride;
      if (frame > take.frames - 1) frame = 0;
      last = now;
      dirty = true;
    }
    if (dirty) {
      dirty = false;
      const whole = Math.round(frame);
      slider.value = whole;
      const seconds = ((frame * take.stride) / take.fps).toFixed(2);
      part(".clock").textContent = `${seconds} s · frame ${whole * take.stride}/${(take.frames - 1) * take.stride}`;
      const ink = getComputedStyle(root).getPropertyValue("--soft").trim();
      renderer.draw({ camera, frame, shown, edges, ink, dark: darkness.matches });
    }
    requestAnimationFrame(tick);
  }

  function turn(dx, dy) {
    camera.azimuth -= 0.008 * dx;
    camera.elevation = Math.max(-1.5, Math.min(1.5, camera.elevation + 0.008 * dy));
    dirty = true;
  }
  function pan(dx, dy) {
    const { right, top } = renderer.look(camera), metres = (2 * camera.distance * Math.tan(FOV / 2)) / canvas.clientHeight;
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
      " ": () => setPlaying(!playing), ArrowRight: () => goTo(Math.floor(frame) + 1), ArrowLeft: () => goTo(Math.ceil(frame) - 1),
      Home: () => goTo(0), End: () => goTo(take.frames - 1), "+": () => zoom(0.9), "-": () => zoom(1.1),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  part(".play").addEventListener("click", () => setPlaying(!playing));
  slider.addEventListener("input", () => goTo(Number(slider.value)));
  part(".reset").addEventListener("click", resetView);
  part(".edges").addEventListener("click", (event) => {
    edges = !edges;
    event.currentTarget.setAttribute("aria-pressed", edges);
    dirty = true;
  });
  part(".full").hidden = !document.fullscreenEnabled;
  part(".full").addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else root.requestFullscreen();
  });
  const choice = part(".take");
  choice.hidden = takes.length < 2;
  choice.replaceChildren(...takes.map((one, i) => new Option(one.name, i)));
  choice.addEventListener("change", () => chooseTake(Number(choice.value)));
  new ResizeObserver(() => (dirty = true)).observe(canvas);
  darkness.addEventListener("change", () => (dirty = true));

  chooseTake(0);
  const openAtHash = () => {
    const wanted = /^#(\d+)$/.exec(location.hash);
    if (wanted) goTo(Number(wanted[1]) / take.stride);
    return Boolean(wanted);
  };
  window.addEventListener("hashchange", openAtHash);
  if (!openAtHash()) setPlaying(!window.matchMedia("(prefers-reduced-motion: reduce)").matches);
  requestAnimationFrame(tick);
}

const data = JSON.parse(document.getElementById("data").textContent);
drawCharts(data.curves);
window.addEventListener("resize", () => drawCharts(data.curves));
const player = document.querySelector(".player");
if (player) startPlayer(player, data.takes);

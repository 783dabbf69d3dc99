// Draws a take: floor and planes, shadows, what is opaque, markers, what is translucent.
class Renderer {
  constructor(canvas) {
    this.canvas = canvas;
    const gl = canvas.getContext("webgl2", { antialias: true, stencil: true, premultipliedAlpha: true });
    if (!gl) throw new Error("WebGL 2 is not available");
    this.gl = gl;
    this.programs = {};
    for (const [name, [vertex, fragment]] of Object.entries(PROGRAMS)) this.programs[name] = this.program(vertex, fragment);
    const quad = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, quad);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), gl.STATIC_DRAW);
    this.quad = gl.createVertexArray();
    gl.bindVertexArray(this.quad);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    gl.bindVertexArray(null);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  program(vertex, fragment) {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, GLSL_OUT + fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, GLSL_COMMON + text);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    const uniforms = {};
    for (let i = 0; i < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); i++) {
      const { name, type } = gl.getActiveUniform(program, i), location = gl.getUniformLocation(program, name);
      uniforms[name] = {
        [gl.FLOAT]: (v) => gl.uniform1f(location, v),
        [gl.FLOAT_VEC2]: (v) => gl.uniform2fv(location, v),
        [gl.FLOAT_VEC3]: (v) => gl.uniform3fv(location, v),
        [gl.FLOAT_VEC4]: (v) => gl.uniform4fv(location, v),
        [gl.FLOAT_MAT4]: (v) => gl.uniformMatrix4fv(location, false, v),
      }[type];
    }
    return { program, uniforms };
  }

  use(name, values) {
    const { program, uniforms } = this.programs[name];
    this.gl.useProgram(program);
    for (const [key, value] of Object.entries({ ...this.common, ...values })) uniforms[key]?.(value);
  }

  load(take) {
    this.take = take;
    this.layers = take.layers.map((layer) => new LayerGeometry(this.gl, layer));
    const [low, high] = take.box;
    this.center = add(low, high).map((v) => v / 2);
    this.radius = Math.max(Math.hypot(...add(high, low, -1)) / 2, 1e-6);
    [this.e1, this.e2] = planeAxes(take.up);
    const ground = take.shapes.find((shape) => shape.kind === "plane" && dot(unit(shape.normal), take.up) > 0.7);
    if (ground) this.floor = [...unit(ground.normal), dot(unit(ground.normal), ground.center)];
    else {
      const half = add(high, low, -1).map((v) => v / 2);
      const reach = take.up.reduce((sum, u, i) => sum + Math.abs(u) * half[i], 0);
      this.floor = [...take.up, dot(take.up, this.center) - reach - 0.05 * this.radius];
    }
    const rough = this.radius / 3, power = 10 ** Math.floor(Math.log10(rough));
    this.cell = [1, 2, 5].map((part) => part * power).filter((size) => size <= rough * 1.001).at(-1) ?? power;
    this.spheres = take.shapes.map((shape) => {
      if (shape.kind !== "sphere") return null;
      const [points, triangles] = sphereMesh(36, 72), gl = this.gl;
      const moved = points.map((v, i) => shape.center[i % 3] + shape.radius * v);
      const buffers = [moved, points].map((values) => {
        const buffer = gl.createBuffer();
        gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
        gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
        return buffer;
      });
      const attributes = [[0, buffers[0], 0, 0], [1, buffers[1], 0, 0]];
      return { array: LayerGeometry.prototype.vertexArray.call(this, attributes, triangles), count: triangles.length };
    });
  }

  // The distance [m] from which the whole box is seen, with room at the borders, in a picture of this aspect.
  fittingDistance(camera, aspect) {
    const { right, top, back } = this.look({ ...camera, distance: 1 }, aspect), half = Math.tan(camera.fov / 2);
    const [low, high] = this.take.box;
    let distance = 0.1 * this.radius;
    for (let corner = 0; corner < 8; corner++) {
      const at = low.map((v, c) => ((corner >> c) & 1 ? high[c] : v) - camera.target[c]);
      const wide = Math.abs(dot(at, right)) / (0.86 * aspect), tall = Math.abs(dot(at, top)) / 0.84;
      distance = Math.max(distance, dot(at, back) + Math.max(wide, tall) / half);
    }
    return distance;
  }

  // The camera's axes and the matrix from the world to the screen.
  look(camera, aspect) {
    const { up } = this.take, { azimuth, elevation, distance, target } = camera;
    const level = add(this.e1.map((v) => v * Math.cos(azimuth)), this.e2, Math.sin(azimuth));
    const back = add(level.map((v) => v * Math.cos(elevation)), up, Math.sin(elevation));
    const eye = add(target, back, distance), right = unit(cross(up, back)), top = cross(back, right);
    const near = Math.max(distance - 8 * this.radius, distance * 0.02), far = distance + 12 * this.radius;
    const k = 1 / Math.tan(camera.fov / 2);
    const a = -(far + near) / (far - near), b = (-2 * far * near) / (far - near);
    const view = new Float32Array(16);
    for (let j = 0; j < 4; j++) {
      const [x, y, z] = j < 3 ? [right[j], top[j], back[j]] : [-dot(right, eye), -dot(top, eye), -dot(back, eye)];
      view.set([(k / aspect) * x, k * y, a * z + (j === 3 ? b : 0), -z], 4 * j);
    }
    return { eye, right, top, back, view };
  }

  // Panes: parts of the canvas [x, y, width, height] as shares of it, each with the keys of what is shown there.
  draw({ camera, frame, panes, solid, edges, trails, tint, ink, dark }) {
    const gl = this.gl, { canvas } = this, ratio = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
    this.solid = solid;
    this.tint = tint;
    for (const { box, shown } of panes) {
      const pixels = box.map((share, i) => Math.round(share * (i % 2 ? canvas.height : canvas.width)));
      gl.viewport(...pixels);
      this.drawPane({ camera, frame, shown, edges, trails, ink, dark, ratio, pixels: pixels.slice(2) });
    }
  }

  opacity(layer) {
    return this.solid ? 1 : layer.opacity;
  }

  drawPane({ camera, frame, shown, edges, trails, ink, dark, ratio, pixels }) {
    const gl = this.gl, { take } = this;
    const { eye, right, back, view } = this.look(camera, pixels[0] / pixels[1]);
    const light = unit(add(add(back, take.up, 1.1), right, -0.55));
    this.common = {
      view, eye, light, up: take.up, floorPlane: this.floor, shadow: 0, opacity: 1, tinted: 0,
      pixels, width: 2.6 * ratio,
    };
    const layers = this.layers.filter((layer, i) => shown.has(`layer${i}`) && layer.show(frame));
    const spheres = this.spheres.filter((sphere, i) => sphere && shown.has(`shape${i}`));
    const opaque = layers.filter(({ layer }) => this.opacity(layer) >= 1), clear = layers.filter(({ layer }) => this.opacity(layer) < 1);

    gl.depthMask(false);
    if (shown.has("floor")) {
      this.drawPlane(this.floor.slice(0, 3), this.floor[3], rgb(ink), 0);
      if (dot(add(eye, this.floor.slice(0, 3), -this.floor[3]), this.floor.slice(0, 3)) > 0) this.drawShadows(opaque, spheres, dark);
    }
    take.shapes.forEach((shape, i) => {
      const normal = unit(shape.normal);
      if (shape.kind === "plane" && shown.has(`shape${i}`)) this.drawPlane(normal, dot(normal, shape.center), rgb(shape.color), 0.16);
    });
    gl.depthMask(true);

    take.shapes.forEach((shape, i) => {
      if (!this.spheres[i] || !shown.has(`shape${i}`)) return;
      this.use("surface", { color: rgb(shape.color) });
      this.drawIndexed(gl.TRIANGLES, this.spheres[i].array, this.spheres[i].count);
    });
    for (const layer of opaque) this.drawBody(layer, edges);
    if (trails) for (const layer of layers) this.drawTrail(layer, frame, ratio);
    for (const layer of layers) this.drawPoints(layer, ratio, 1);
    for (const layer of clear) this.drawBody(layer, edges);
    gl.disable(gl.DEPTH_TEST); // markers behind a surface shine through a little
    for (const layer of layers) this.drawPoints(layer, ratio, layer.layer.behind);
    gl.enable(gl.DEPTH_TEST);
  }

  drawTrail(geometry, frame, ratio) {
    const { layer } = geometry;
    if (!layer.trail || layer.static || layer.frames < 2) return;
    const { array, count } = geometry.trail(), past = count(Math.min(frame, layer.frames - 1));
    if (!past) return;
    this.use("lines", { color: rgb(layer.color), opacity: 0.7, width: 1.5 * ratio });
    this.gl.bindVertexArray(array);
    this.gl.drawArraysInstanced(this.gl.TRIANGLE_STRIP, 0, 4, past);
  }

  drawPlane(normal, offset, color, filling) {
    const gl = this.gl, [e1, e2] = planeAxes(normal);
    const center = add(this.center, normal, offset - dot(this.center, normal));
    this.use("floor", { center, e1, e2, extent: 5 * this.radius, cell: this.cell, color, filling, opacity: 0.28 });
    gl.bindVertexArray(this.quad);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  }

  drawShadows(layers, spheres, dark) {
    const gl = this.gl, look = { shadow: dark ? 0.38 : 0.15 };
    gl.enable(gl.STENCIL_TEST); // each pixel once, however many triangles fall on it
    gl.stencilFunc(gl.EQUAL, 0, 1);
    gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR);
    this.use("surface", look);
    for (const layer of layers) if (layer.triangles) this.drawIndexed(gl.TRIANGLES, layer.surface, layer.triangles.length);
    for (const sphere of spheres) this.drawIndexed(gl.TRIANGLES, sphere.array, sphere.count);
    this.use("lines", look);
    for (const layer of layers) if (layer.segments) this.drawRibbons(layer);
    gl.disable(gl.STENCIL_TEST);
  }

  drawBody(geometry, edges) {
    const gl = this.gl, { layer } = geometry, look = { color: rgb(layer.color), opacity: this.opacity(layer) };
    if (geometry.triangles) {
      if (look.opacity < 1) { // depth first: of a translucent surface only its nearest sheet is painted
        gl.colorMask(false, false, false, false);
        this.use("surface", look);
        this.drawIndexed(gl.TRIANGLES, geometry.surface, geometry.triangles.length);
        gl.colorMask(true, true, true, true);
      }
      const tinted = geometry.tinted(this.tint);
      this.use("surface", { ...look, tinted: tinted ? 1 : 0 });
      this.drawIndexed(gl.TRIANGLES, tinted ?? geometry.surface, geometry.triangles.length);
      if (edges) {
        const array = geometry.edges();
        this.use("edges", { ...look, opacity: 0.5 * look.opacity });
        this.drawIndexed(gl.LINES, array, geometry.edgeCount);
      }
    }
    if (geometry.segments) {
      this.use("lines", look);
      this.drawRibbons(geometry);
    }
  }

  drawRibbons(geometry) {
    this.gl.bindVertexArray(geometry.ribbon);
    this.gl.drawArraysInstanced(this.gl.TRIANGLE_STRIP, 0, 4, geometry.segments.length / 2);
  }

  drawPoints(geometry, ratio, strength) {
    const { layer } = geometry;
    if (!(layer.pointSize > 0)) return;
    this.use("points", { color: rgb(layer.color), size: layer.pointSize * ratio, opacity: strength * this.opacity(layer) });
    this.drawIndexed(this.gl.POINTS, geometry.beads, geometry.dots.length);
  }

  drawIndexed(mode, array, count) {
    this.gl.bindVertexArray(array);
    this.gl.drawElements(mode, count, this.gl.UNSIGNED_INT, 0);
  }
}

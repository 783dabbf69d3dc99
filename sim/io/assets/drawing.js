// The WebGL half of the player: shaders, the geometry of layers and shapes, one picture for a camera and a frame.
const GLSL_COMMON = `#version 300 es
precision highp float;
uniform mat4 view;
uniform vec3 eye, up, light, color;
uniform vec4 floorPlane;
uniform float opacity, shadow;
vec3 place(vec3 p) {  // where a point is drawn: itself, or its shadow on the floor
  return shadow > 0.0 ? p - light * (dot(p, floorPlane.xyz) - floorPlane.w) / dot(light, floorPlane.xyz) : p;
}`;
const GLSL_OUT = `
out vec4 result;
void paint(vec3 c, float a) { result = vec4(c * a, a); }
vec3 scaleColor(float t) { // dark blue, teal, yellow: brighter is more
  vec3 a = vec3(0.19, 0.20, 0.55), b = vec3(0.13, 0.56, 0.55), c = vec3(0.98, 0.87, 0.28);
  return t < 0.5 ? mix(a, b, 2.0 * t) : mix(b, c, 2.0 * t - 1.0);
}
vec3 shade(vec3 n, vec3 p, vec3 base) {
  vec3 toEye = normalize(eye - p);
  vec3 flatNormal = normalize(cross(dFdx(p), dFdy(p)));  // on the side that is seen, whatever the triangles' winding
  if (dot(flatNormal, toEye) < 0.0) flatNormal = -flatNormal;
  n = normalize(n);
  if (dot(n, flatNormal) < 0.0) n = -n;
  n = normalize(mix(flatNormal, n, smoothstep(0.6, 0.9, dot(n, flatNormal))));  // sharp edges stay sharp
  float key = max(dot(n, light), 0.0);
  float gleam = pow(max(dot(n, normalize(light + toEye)), 0.0), 36.0);
  float rim = pow(1.0 - clamp(dot(n, toEye), 0.0, 1.0), 3.0);
  return base * (0.52 + 0.14 * dot(n, up) + 0.52 * key) + vec3(0.09 * gleam + 0.10 * rim);
}`;

const PROGRAMS = {
  surface: [`
layout(location = 0) in vec3 position;
layout(location = 1) in vec3 normal;
layout(location = 2) in float tint;
out vec3 n, p;
out float t;
void main() { n = normal; p = position; t = tint; gl_Position = view * vec4(place(position), 1.0); }`, `
in vec3 n, p;
in float t;
uniform float tinted;
void main() {
  if (shadow > 0.0) { if (dot(p, floorPlane.xyz) < floorPlane.w) discard; paint(vec3(0.0), shadow); }
  else paint(shade(n, p, tinted > 0.0 && t <= 1.0 ? scaleColor(t) : color), opacity);
}`],
  edges: [`
layout(location = 0) in vec3 position;
void main() { gl_Position = view * vec4(position, 1.0); gl_Position.z -= 3e-4 * gl_Position.w; }`, `
void main() { paint(color * 0.45, opacity); }`],
  lines: [`
layout(location = 0) in vec3 a;
layout(location = 1) in vec3 b;
uniform vec2 pixels;
uniform float width;
out vec3 p;
void main() {  // a segment is a ribbon of constant width on the screen
  vec4 A = view * vec4(place(a), 1.0), B = view * vec4(place(b), 1.0);
  vec2 along = (B.xy / B.w - A.xy / A.w) * pixels;
  vec2 side = vec2(-along.y, along.x) / max(length(along), 1e-6);
  bool far = gl_VertexID > 1;
  p = far ? b : a;
  gl_Position = far ? B : A;
  gl_Position.xy += side * (gl_VertexID % 2 == 0 ? width : -width) / pixels * gl_Position.w;
}`, `
in vec3 p;
void main() {
  if (shadow > 0.0) { if (dot(p, floorPlane.xyz) < floorPlane.w) discard; paint(vec3(0.0), shadow); }
  else paint(color * 0.95, opacity);
}`],
  points: [`
layout(location = 0) in vec3 position;
uniform float size;
void main() {
  gl_Position = view * vec4(position, 1.0);
  gl_Position.z -= 2e-3 * gl_Position.w;  // a marker sits on its surface, not half in it
  gl_PointSize = size;
}`, `
void main() {
  vec2 d = gl_PointCoord * 2.0 - 1.0;
  float r = length(d), soft = fwidth(r);
  float inside = 1.0 - smoothstep(1.0 - 1.5 * soft, 1.0, r);
  if (inside <= 0.0) discard;
  float ball = 0.78 + 0.34 * dot(vec3(d.x, -d.y, sqrt(max(0.0, 1.0 - r * r))), normalize(vec3(-0.4, 0.6, 0.7)));
  paint(color * min(ball, 1.12), inside * opacity);
}`],
  floor: [`
layout(location = 0) in vec2 corner;
uniform vec3 center, e1, e2;
uniform float extent;
out vec3 p;
void main() { p = center + extent * (corner.x * e1 + corner.y * e2); gl_Position = view * vec4(p, 1.0); }`, `
in vec3 p;
uniform vec3 center, e1, e2;
uniform float extent, cell, filling;
void main() {
  vec2 g = vec2(dot(p, e1), dot(p, e2)) / cell;
  vec2 w = max(fwidth(g), vec2(1e-6));
  vec2 near = abs(fract(g - 0.5) - 0.5) / w;
  float line = (1.0 - min(min(near.x, near.y), 1.0)) * clamp(0.4 / max(w.x, w.y), 0.0, 1.0);
  float fade = 1.0 - smoothstep(0.25, 1.0, length(p - center) / extent);
  paint(color, fade * max(filling, opacity * line));
}`],
};

const add = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = (a) => add([0, 0, 0], a, 1 / (Math.hypot(...a) || 1));
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);

// Two directions that span the plane across `up`, chosen so that the first view looks along a familiar axis.
function planeAxes(up) {
  const seed = Math.abs(up[2]) < 0.9 ? [0, 0, 1] : [0, -1, 0];
  const e1 = unit(add(seed, up, -dot(seed, up)));
  return [e1, cross(up, e1)];
}

function decode(text, Type) {
  const bytes = atob(text), buffer = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) buffer[i] = bytes.charCodeAt(i);
  return new Type(buffer.buffer);
}

// A unit sphere, as positions (equal to normals) and triangles.
function sphereMesh(rings, columns) {
  const points = [], triangles = [];
  for (let i = 0; i <= rings; i++) {
    for (let j = 0; j <= columns; j++) {
      const a = (Math.PI * i) / rings, b = (2 * Math.PI * j) / columns;
      points.push(Math.sin(a) * Math.cos(b), Math.cos(a), Math.sin(a) * Math.sin(b));
      const k = i * (columns + 1) + j;
      if (i < rings && j < columns) triangles.push(k, k + 1, k + columns + 1, k + 1, k + columns + 2, k + columns + 1);
    }
  }
  return [new Float32Array(points), new Uint32Array(triangles)];
}

function uniqueEdges(triangles) {
  const seen = new Map();
  for (let t = 0; t < triangles.length; t += 3) {
    for (const [a, b] of [[0, 1], [1, 2], [2, 0]]) {
      const low = Math.min(triangles[t + a], triangles[t + b]), high = Math.max(triangles[t + a], triangles[t + b]);
      seen.set(low * 4294967296 + high, [low, high]);
    }
  }
  return new Uint32Array([...seen.values()].flat());
}

const WORLD = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]; // the pose of what stays, as below

// The pose between two poses (x, y, z, then a quaternion x, y, z, w) that lie at `a` and `b` in an array, as a matrix of
// three rows: turned the shorter way round.
function poseBetween(poses, a, b, weight) {
  const mix = (i) => poses[a + i] + weight * (poses[b + i] - poses[a + i]);
  let sign = 0;
  for (let i = 3; i < 7; i++) sign += poses[a + i] * poses[b + i];
  const turn = [3, 4, 5, 6].map((i) => (1 - weight) * poses[a + i] + weight * (sign < 0 ? -1 : 1) * poses[b + i]);
  const size = Math.hypot(...turn) || 1, [x, y, z, w] = turn.map((v) => v / size);
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), mix(0)],
    [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), mix(1)],
    [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), mix(2)],
  ];
}

const UNSEEN = 65535, MOST_TRAIL = 100000; // segments of a trail; beyond it frames are left out

// One layer: its quantised frames, and buffers that hold the frame last asked for.
class LayerGeometry {
  constructor(gl, layer) {
    this.gl = gl;
    this.layer = layer;
    this.frames = decode(layer.positions, Uint16Array);
    this.triangles = layer.triangles && decode(layer.triangles, Uint32Array);
    this.segments = layer.segments && decode(layer.segments, Uint32Array);
    this.dots = layer.dots ? decode(layer.dots, Uint32Array) : Uint32Array.from({ length: layer.points }, (_, i) => i);
    this.position = new Float32Array(3 * layer.points);
    this.normal = new Float32Array(this.triangles ? 3 * layer.points : 0);
    this.ends = new Float32Array(this.segments ? 3 * this.segments.length : 0);
    this.poses = layer.poses && decode(layer.poses, Float32Array);
    this.owners = layer.owners && decode(layer.owners, Int32Array);
    if (this.poses) this.own = Float32Array.from(this.frames, (v, i) => layer.low[i % 3] + layer.step[i % 3] * v); // in the bodies' frames
    this.shownAt = -1;
    this.positionBuffer = gl.createBuffer();
    this.surface = this.vertexArray([[0, this.positionBuffer, 0, 0]]);
    if (this.triangles) {
      this.normalBuffer = gl.createBuffer();
      this.surface = this.vertexArray([[0, this.positionBuffer, 0, 0], [1, this.normalBuffer, 0, 0]], this.triangles);
    }
    this.beads = this.vertexArray([[0, this.positionBuffer, 0, 0]], this.dots);
    if (this.segments) {
      this.endsBuffer = gl.createBuffer();
      this.ribbon = this.vertexArray([[0, this.endsBuffer, 24, 0], [1, this.endsBuffer, 24, 12]], null, 1);
    }
  }

  vertexArray(attributes, indices, divisor = 0) {
    const gl = this.gl, array = gl.createVertexArray();
    gl.bindVertexArray(array);
    for (const [location, buffer, stride, offset, size = 3] of attributes) {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(location);
      gl.vertexAttribPointer(location, size, gl.FLOAT, false, stride, offset);
      gl.vertexAttribDivisor(location, divisor);
    }
    if (indices) {
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, indices, gl.STATIC_DRAW);
    }
    gl.bindVertexArray(null);
    return array;
  }

  edges() { // only made when somebody wants to see them
    if (!this.edgeArray) {
      const pairs = uniqueEdges(this.triangles);
      this.edgeCount = pairs.length;
      this.edgeArray = this.vertexArray([[0, this.positionBuffer, 0, 0]], pairs);
    }
    return this.edgeArray;
  }

  // The surface coloured by one of the layer's tints: a share of the range at each point, 2 where there is none.
  tinted(name) {
    const index = this.layer.tints.findIndex((tint) => tint.name === name);
    if (index < 0 || !this.triangles) return null;
    this.tintArrays ??= {};
    if (!this.tintArrays[index]) {
      const shares = Float32Array.from(decode(this.layer.tints[index].values, Uint8Array), (v) => (v === 255 ? 2 : v / 254));
      const buffer = this.gl.createBuffer();
      this.upload(buffer, shares);
      this.tintArrays[index] = this.vertexArray(
        [[0, this.positionBuffer, 0, 0], [1, this.normalBuffer, 0, 0], [2, buffer, 0, 0, 1]], this.triangles);
    }
    return this.tintArrays[index];
  }

  // Whether the layer exists at this frame (a fraction is between two frames); fills the buffers if so.
  show(frame) {
    const { layer, position } = this;
    const at = layer.static ? 0 : frame;
    if (!layer.frames || at > layer.frames - 1) return false;
    if (at === this.shownAt) return true;
    this.shownAt = at;
    if (this.poses) this.carry(at);
    else this.blend(at);
    this.upload(this.positionBuffer, position);
    if (this.triangles) this.upload(this.normalBuffer, this.smoothNormals());
    if (this.segments) {
      for (let i = 0; i < this.segments.length; i++) {
        for (let c = 0; c < 3; c++) this.ends[3 * i + c] = position[3 * this.segments[i] + c];
      }
      this.upload(this.endsBuffer, this.ends);
    }
    return true;
  }

  blend(at) { // positions between two frames
    const { layer, position } = this, first = Math.floor(at), weight = at - first, size = 3 * layer.points, q = this.frames;
    const from = first * size, to = weight > 0 ? from + size : from;
    for (let i = 0; i < size; i++) {
      const a = q[from + i], b = q[to + i];
      // An unseen point is put beyond the far plane, where it is clipped.
      position[i] = a === UNSEEN || b === UNSEEN ? 1e9 : layer.low[i % 3] + layer.step[i % 3] * (a + weight * (b - a));
    }
  }

  carry(at) { // positions on rigid bodies, between two frames of their poses
    const { layer, position, owners, own } = this, first = Math.floor(at), weight = at - first, size = 7 * layer.bodies;
    const poses = Array.from({ length: layer.bodies }, (_, body) => {
      const from = first * size + 7 * body;
      return poseBetween(this.poses, from, weight > 0 ? from + size : from, weight);
    });
    for (let i = 0, k = 0; i < layer.points; i++, k += 3) {
      const rows = owners[i] < 0 ? WORLD : poses[owners[i]];
      for (let c = 0; c < 3; c++) position[k + c] = rows[c][0] * own[k] + rows[c][1] * own[k + 1] + rows[c][2] * own[k + 2] + rows[c][3];
    }
  }

  coordinate(i, frame) { // of a point, counted through x, y, z of all points; null: not seen
    const { layer } = this, q = this.frames[frame * 3 * layer.points + i];
    return q === UNSEEN ? null : layer.low[i % 3] + layer.step[i % 3] * q;
  }

  // The paths of all points as segments ordered by time, made when first asked for; `count(frame)`: how many are past.
  trail() {
    if (!this.trailArray) {
      const { layer } = this, size = layer.points, stride = Math.max(1, Math.ceil((layer.frames * size) / MOST_TRAIL));
      const steps = Math.floor((layer.frames - 1) / stride), ends = new Float32Array(Math.max(0, steps) * size * 6);
      for (let k = 0, at = 0; k < steps; k++) {
        for (let point = 0; point < size; point++, at += 6) {
          const seen = [0, 1].every((j) => this.coordinate(3 * point, (k + j) * stride) !== null);
          for (let c = 0; c < 6; c++) ends[at + c] = seen ? this.coordinate(3 * point + (c % 3), (k + (c > 2)) * stride) : 1e9;
        }
      }
      const buffer = this.gl.createBuffer();
      this.upload(buffer, ends);
      const array = this.vertexArray([[0, buffer, 24, 0], [1, buffer, 24, 12]], null, 1);
      this.trailArray = { array, count: (frame) => Math.min(steps, Math.floor(frame / stride + 1e-6)) * size };
    }
    return this.trailArray;
  }

  upload(buffer, values) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, buffer);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.DYNAMIC_DRAW);
  }

  smoothNormals() { // sums of the triangles' area vectors; the shader normalises
    const { position: x, normal, triangles } = this;
    normal.fill(0);
    for (let t = 0; t < triangles.length; t += 3) {
      const a = 3 * triangles[t], b = 3 * triangles[t + 1], c = 3 * triangles[t + 2];
      const ux = x[b] - x[a], uy = x[b + 1] - x[a + 1], uz = x[b + 2] - x[a + 2];
      const vx = x[c] - x[a], vy = x[c + 1] - x[a + 1], vz = x[c + 2] - x[a + 2];
      const nx = uy * vz - uz * vy, ny = uz * vx - ux * vz, nz = ux * vy - uy * vx;
      for (const k of [a, b, c]) {
        normal[k] += nx;
        normal[k + 1] += ny;
        normal[k + 2] += nz;
      }
    }
    return normal;
  }
}

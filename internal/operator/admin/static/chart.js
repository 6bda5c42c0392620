// Chart: allowed, served and denied requests of a span, stacked, on a canvas, with the rate and the limit as lines
// where they are known. The rate of a rule that counts another cost has an axis of its own at the right. Colours come
// from the style sheet, so the chart follows the colour scheme.

import { cellRate, clock, costRate, el, rate } from "./text.js";

const margin = { left: 46, right: 10, top: 12, bottom: 24 };
const lowMargin = { top: 6, bottom: 16 }; // of a chart that has no place for more
const costMargin = 76; // at the right, for the axis of a cost

export class Chart {
  #canvas; #tip; #points = []; #pointer = null; #paused = false; #span = 0; #gap = 0; #ago = []; #cost = "";

  constructor(canvas, tip) {
    this.across(twoMinutes);
    this.#canvas = canvas;
    this.#tip = tip;
    redrawn(canvas, () => this.draw());
    canvas.addEventListener("pointermove", (e) => { this.#pointer = e.offsetX; this.draw(); });
    canvas.addEventListener("pointerleave", () => { this.#pointer = null; this.draw(); });
  }

  // across sets the span that is shown, and gap, the longest silence that is not drawn as a gap, both in milliseconds.
  // ago lists the times that the axis names, with their names.
  across({ span, gap, ago }) {
    [this.#span, this.#gap, this.#ago] = [span, gap, ago];
  }

  // of sets the cost in whose units the rates of points are, or "" if they are of requests.
  of(cost) { this.#cost = cost; }

  // has reports whether some point has a number other than 0 of that name, such as served.
  has(name) { return this.#points.some((p) => p[name] > 0); }

  // set shows points; at is milliseconds since 1970. rate and limit may be null, served and would may be absent.
  // would is the part of allowed that something in shadow mode would have denied.
  set(points) {
    this.#points = points;
    this.draw();
  }

  add(point) {
    this.#points = this.#points.filter((p) => p.at > point.at - this.#span - this.#gap && p.at < point.at);
    this.#points.push(point);
    this.draw();
  }

  // pause stops drawing; the chart still takes points.
  pause(yes) {
    this.#paused = yes;
    this.draw();
  }

  draw() {
    if (this.#paused) return;
    const drawing = cleared(this.#canvas);
    if (!drawing) return;
    const { c, colour } = drawing, frame = this.#frame(drawing);
    this.#grid(c, frame);
    for (const run of runs(this.#points, this.#gap)) {
      this.#area(c, frame, run, () => 0, (p) => p.allowed, colour("--allowed"));
      this.#area(c, frame, run, (p) => p.allowed - (p.would ?? 0), (p) => p.allowed, colour("--denied"), hatch);
      this.#area(c, frame, run, (p) => p.allowed, passed, colour("--served"));
      this.#area(c, frame, run, passed, all, colour("--denied"));
      this.#curve(c, frame, run, (p) => p.rate, { y: frame.yRate, colour: colour("--accent"), dashes: [] });
      this.#curve(c, frame, run, (p) => p.limit, { y: frame.yRate, colour: colour("--ink"), dashes: [5, 4] });
    }
    if (this.#points.length === 0) this.#nothing(c, frame);
    this.#hover(c, frame);
    const last = this.#points.at(-1);
    if (!last) return;
    const served = last.served > 0 ? `, ${rate(last.served)} from the cache` : "";
    const would = last.would > 0 ? `; ${rate(last.would)} would be denied` : "";
    const cost = this.#cost && last.rate != null ? `; the key costs ${costRate(last.rate, this.#cost)}` : "";
    const end = `${rate(last.allowed)} allowed${served} and ${rate(last.denied)} denied${would}${cost}`;
    this.#canvas.setAttribute("aria-label", `Requests a second; at the end ${end}`);
  }

  // frame returns the functions that place a time and a rate on the canvas, with the size of the canvas and its font.
  #frame({ w, h, colour, font }) {
    const end = this.#points.at(-1)?.at ?? Date.now();
    const most = (least, of) => roundUp(1.08 * Math.max(least, ...this.#points.map(of)));
    const lines = (p) => Math.max(p.rate ?? 0, p.limit ?? 0); // in units of the cost
    const top = most(3, (p) => Math.max(all(p), this.#cost ? 0 : lines(p)));
    const topRate = this.#cost ? most(1e-6, lines) : top;
    const low = h < 120, edge = low ? lowMargin : margin;
    const right = w - (this.#cost ? costMargin : margin.right), bottom = h - edge.bottom;
    return {
      w, h, right, bottom, end, top, topRate, lines: low ? 2 : 4, above: edge.top,
      x: (t) => right - ((end - t) / this.#span) * (right - margin.left),
      y: (v) => bottom - (v / top) * (bottom - edge.top),
      yRate: (v) => bottom - (v / topRate) * (bottom - edge.top),
      colour, font: `11px ${font}`,
    };
  }

  #grid(c, f) {
    c.font = f.font;
    c.lineWidth = 1;
    c.fillStyle = f.colour("--muted");
    c.strokeStyle = f.colour("--grid");
    c.textBaseline = "middle";
    c.textAlign = "right";
    for (let i = 0; i <= f.lines; i++) {
      const v = (f.top * i) / f.lines, y = Math.round(f.y(v)) + 0.5;
      line(c, margin.left, y, f.right, y);
      c.fillText(rate(v), margin.left - 8, y);
    }
    if (this.#cost) {
      c.textAlign = "left";
      c.fillStyle = f.colour("--accent");
      for (let i = 0; i <= f.lines; i++) {
        const v = (f.topRate * i) / f.lines;
        c.fillText(costRate(v, this.#cost), f.right + 8, Math.round(f.yRate(v)) + 0.5);
      }
      c.fillStyle = f.colour("--muted");
    }
    c.textBaseline = "alphabetic";
    for (const [i, [time, name]] of this.#ago.entries()) {
      if (f.w < 500 && i % 2 === 1 && time > 0) continue;
      c.textAlign = time === this.#span ? "left" : time === 0 ? "right" : "center";
      c.fillText(name, f.x(f.end - time), f.h - 4);
    }
  }

  // area fills the room between two values, with the colour or with a pattern that paint makes of it.
  #area(c, f, run, low, high, colour, paint) {
    const points = run.filter((p) => p.at >= f.end - this.#span);
    if (points.length === 0) return;
    c.beginPath();
    points.forEach((p, i) => c[i ? "lineTo" : "moveTo"](f.x(p.at), f.y(high(p))));
    c.strokeStyle = colour;
    c.lineWidth = 1.75;
    c.lineJoin = "round";
    if (!points.some((p) => high(p) > low(p))) return;
    c.stroke();
    for (const p of points.toReversed()) c.lineTo(f.x(p.at), f.y(low(p)));
    c.closePath();
    c.globalAlpha = paint ? 1 : 0.22;
    c.fillStyle = paint ? paint(c, colour) : colour;
    c.fill();
    c.globalAlpha = 1;
  }

  // curve draws a line through the points at which its value is known.
  #curve(c, f, run, value, { y, colour, dashes }) {
    c.beginPath();
    let pen = "moveTo";
    for (const p of run) {
      if (value(p) == null || p.at < f.end - this.#span) {
        pen = "moveTo";
        continue;
      }
      c[pen](f.x(p.at), y(value(p)));
      pen = "lineTo";
    }
    c.strokeStyle = colour;
    c.lineWidth = 1.5;
    c.setLineDash(dashes);
    c.stroke();
    c.setLineDash([]);
  }

  #nothing(c, f) {
    c.fillStyle = f.colour("--muted");
    c.textAlign = "center";
    c.fillText(this.#canvas.dataset.empty, (margin.left + f.right) / 2, (f.above + f.bottom) / 2);
  }

  #hover(c, f) {
    const shown = this.#pointer == null ? [] : this.#points.filter((p) => p.at >= f.end - this.#span);
    this.#tip.hidden = shown.length === 0;
    if (this.#tip.hidden) return;
    const away = (p) => Math.abs(f.x(p.at) - this.#pointer);
    const near = shown.reduce((best, p) => (away(p) < away(best) ? p : best));
    const x = f.x(near.at);
    c.strokeStyle = f.colour("--muted");
    c.setLineDash([3, 3]);
    line(c, x, f.above, x, f.bottom);
    c.setLineDash([]);
    this.#tip.replaceChildren(
      el("strong", {}, clock(near.at)),
      el("span", { class: "key-allowed" }, `${rate(near.allowed)} allowed/s`),
      ...(near.served > 0 ? [el("span", { class: "key-served" }, `${rate(near.served)} from the cache/s`)] : []),
      el("span", { class: "key-denied" }, `${rate(near.denied)} denied/s`),
      ...(near.would > 0 ? [el("span", { class: "key-would" }, `${rate(near.would)} would be denied/s`)] : []),
      ...(near.rate == null ? [] : [el("span", { class: "key-rate" }, `${cellRate(near.rate, this.#cost)} rate`)]),
      ...(near.limit == null ? [] : [el("span", { class: "key-limit" }, `${cellRate(near.limit, this.#cost)} limit`)]));
    this.#tip.classList.toggle("flip", x > f.w / 2);
    this.#tip.style.left = `${x}px`; // by the object model, because the policy forbids styles only in markup
  }
}

// hatch returns a pattern of slanting lines.
export function hatch(c, colour) {
  const tile = new OffscreenCanvas(6, 6), t = tile.getContext("2d");
  t.strokeStyle = colour;
  t.lineWidth = 1.5;
  for (const x of [-6, 0, 6]) line(t, x, 6, x + 6, 0);
  return c.createPattern(tile, "repeat");
}

// passed returns the requests of a point that were not denied, and all returns all its requests.
const passed = (p) => p.allowed + (p.served ?? 0);
const all = (p) => passed(p) + p.denied;

// redrawn calls draw whenever the size of a canvas or the colour scheme changes.
export function redrawn(canvas, draw) {
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

// cleared returns an empty canvas ready to draw on, sharp on every screen: its context, its size, and the colours and
// font of the style sheet. It returns null while the canvas has no size, as in a hidden view.
export function cleared(canvas) {
  const { clientWidth: w, clientHeight: h } = canvas;
  if (!w || !h) return null;
  const dpr = devicePixelRatio || 1;
  if (canvas.width !== Math.round(w * dpr)) canvas.width = Math.round(w * dpr);
  if (canvas.height !== Math.round(h * dpr)) canvas.height = Math.round(h * dpr);
  const c = canvas.getContext("2d"), style = getComputedStyle(canvas);
  c.setTransform(dpr, 0, 0, dpr, 0, 0);
  c.clearRect(0, 0, w, h);
  return { c, w, h, colour: (name) => style.getPropertyValue(name).trim(), font: style.fontFamily };
}

function line(c, x1, y1, x2, y2) {
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x2, y2);
  c.stroke();
}

// runs splits the points wherever seconds are missing.
function runs(points, gap) {
  const out = [];
  points.forEach((p, i) => {
    if (i === 0 || p.at - points[i - 1].at > gap) out.push([]);
    out.at(-1).push(p);
  });
  return out;
}

// roundUp returns the next of 1, 2, 4, 6, 8 or 10 times a power of ten: numbers whose quarters are easy to read.
function roundUp(v) {
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 4, 6, 8, 10].map((m) => m * power).find((n) => n >= v) ?? 10 * power;
}

const ago = (times, unit, name) => times.map((n) => [n * unit, n ? `${n} ${name} ago` : "now"]);
export const twoMinutes = { span: 120_000, gap: 3500, ago: ago([120, 90, 60, 30, 0], 1000, "s") };
export const quarter = { span: 900_000, gap: 3500, ago: ago([15, 10, 5, 0], 60_000, "min") };
export const day = { span: 86_400_000, gap: 150_000, ago: ago([24, 18, 12, 6, 0], 3600_000, "h") };

const svg = "http://www.w3.org/2000/svg";
const sparkWidth = 84, sparkHeight = 22;

// spark returns an element for a small line of a key's last minute.
export function spark() {
  const node = document.createElementNS(svg, "svg");
  node.setAttribute("class", "spark");
  node.setAttribute("viewBox", `0 0 ${sparkWidth} ${sparkHeight}`);
  node.setAttribute("aria-hidden", "true");
  node.append(document.createElementNS(svg, "line"), document.createElementNS(svg, "polyline"));
  return node;
}

// drawSpark shows the shape of the rates and the position of the limit, centred, but not their size. The span is at
// least a third of the highest value, which is taken as at least least, so that small noise stays small.
export function drawSpark(node, rates, slots, { limit, least = 0 }) {
  const shown = limit === undefined || rates.length === 0 ? rates : [...rates, limit];
  const most = Math.max(least, ...shown), lowest = Math.min(...shown);
  const span = Math.max(most - lowest, most / 3) || 1, low = (most + lowest - span) / 2;
  const step = sparkWidth / (slots - 1), from = sparkWidth - (rates.length - 1) * step;
  const y = (r) => sparkHeight - 2 - ((r - low) / span) * (sparkHeight - 4);
  const [line, curve] = node.children;
  line.setAttribute("visibility", shown === rates ? "hidden" : "visible");
  const ends = shown === rates ? {} : { x1: 0, x2: sparkWidth, y1: y(limit), y2: y(limit) };
  for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
  curve.setAttribute("points", rates.map((r, i) => `${(from + i * step).toFixed(1)},${y(r).toFixed(1)}`).join(" "));
}

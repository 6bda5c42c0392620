// Heatmap: time by key on a canvas. Pointer and arrow keys move a cursor; the cell under it is described in words, a
// click or Enter chooses it, and a span that the pointer or Shift with an arrow marks is shown by itself. A state has a
// shape beside its colour, because colour alone does not reach everyone: hot cells fill their row, loops are hatched,
// and other cells are thin.

import { cleared, hatch, redrawn } from "./chart.js";
import { holdsOf, isByPerson, isTried, stacked } from "./marks.js";

export const rowHeight = 24;
const strip = 26; // height of the strip of events above the rows
const inset = { hot: 1, loop: 4, cold: 8 };
const apart = 11; // pixels between two marks of events
const thick = 3; // of the lines of overrides and denials

export class Heatmap {
  #canvas; #map = null; #row = 0; #cell = 0; #stack = 0; #anchor = null; #dragging = false; #stacks = []; #most = {};
  #told; #chosen; #marked; #out;

  // told(cursor) is called when the cursor moves, chosen(cursor) when it is clicked, marked({from, until}) when a span
  // is marked, and out() when the person wants to see a longer time. A cursor is {at, until, key, cell, holds}, or
  // {events} in the strip, or {from, until} while a span is marked, with times in milliseconds.
  constructor(canvas, { told, chosen, marked, out }) {
    this.#canvas = canvas;
    [this.#told, this.#chosen, this.#marked, this.#out] = [told, chosen, marked, out];
    redrawn(canvas, () => this.draw());
    canvas.addEventListener("pointerdown", (e) => this.#down(e));
    canvas.addEventListener("pointermove", (e) => this.#point(e));
    canvas.addEventListener("pointerup", (e) => this.#up(e));
    canvas.addEventListener("pointercancel", () => this.#forget());
    canvas.addEventListener("keydown", (e) => this.#press(e));
    for (const event of ["focus", "blur", "pointerleave"]) canvas.addEventListener(event, () => this.draw());
  }

  // isMarking reports whether a person is marking a span, which new data would disturb.
  get isMarking() { return this.#anchor !== null; }

  // most returns the highest peak of each cost, because two costs have no common scale.
  get most() { return this.#most; }

  // show takes the answer of the server, with its events from the oldest on, and the overrides that are present. The
  // cursor stays at its key and time, and a mark is dropped.
  show(map, present) {
    const was = this.#map && this.#cursor(), begin = Date.parse(map.from), end = Date.parse(map.to);
    const step = map.step * 1000, cells = Math.max(1, Math.ceil((end - begin) / step));
    this.#map = { ...map, begin, end, step, cells, holds: holdsOf(map.events, present, begin, end) };
    this.#most = {};
    for (const { cost = "", cells: list } of map.keys) {
      this.#most[cost] = list.reduce((most, c) => Math.max(most, c.peak), this.#most[cost] ?? (cost ? 0 : 1));
    }
    const row = map.keys.findIndex((k) => k.href === was?.key?.href && k.cost === was.key.cost);
    this.#row = was?.events ? -1 : Math.max(0, row);
    this.#cell = Math.max(0, Math.min(cells - 1, was?.at ? Math.floor((was.at - begin) / step) : this.#cell));
    if (this.isMarking) [this.#anchor, this.#dragging] = [null, false];
    this.#canvas.style.height = `${strip + rowHeight * map.keys.length}px`;
    this.draw();
  }

  draw() {
    const m = this.#map, drawing = m && cleared(this.#canvas);
    if (!drawing) return;
    const { c, w, colour } = drawing, ink = colour("--ink"), width = w / m.cells;
    const hot = colour("--denied"), loop = colour("--loop"), cold = colour("--accent");
    const paints = { hot, loop: hatch(c, loop), cold };
    const x = (at) => ((at - m.begin) / m.step) * width;
    m.keys.forEach((k, row) => {
      const y = strip + row * rowHeight;
      c.globalAlpha = 1;
      c.fillStyle = colour("--soft");
      c.fillRect(0, y + 1, w, rowHeight - 2);
      for (const cell of k.cells) {
        c.fillStyle = paints[cell.state];
        c.globalAlpha = 0.25 + 0.75 * Math.sqrt(cell.peak / (this.#most[k.cost ?? ""] || 1));
        const thin = inset[cell.state], gap = width > 8 ? 1 : 0;
        c.fillRect(cell.at * width, y + thin, Math.max(1, width - gap), rowHeight - 2 * thin);
      }
      [c.globalAlpha, c.fillStyle] = [1, ink];
      for (const cell of k.cells) {
        if (cell.denied > 0) c.fillRect(cell.at * width, y + rowHeight - thick, Math.max(1, width), thick);
      }
      for (const h of m.holds) if (h.of(k)) this.#hold(c, h, x, y);
    });
    const placed = (e) => Math.max(5, Math.min(w - 5, x(Date.parse(e.at)))); // a mark at an edge is whole
    this.#stacks = stacked(m.events, placed, apart);
    c.font = `10px ${drawing.font}`;
    const muted = colour("--muted");
    this.#stacks.forEach((s, i) => this.#mark(c, s, { ink, muted, at: this.#row < 0 && i === this.#stack }));
    if (this.#anchor !== null) this.#span(c, width, { h: drawing.h, w, card: colour("--card"), ink });
    else if (this.#row >= 0 && this.#canvas.matches(":focus, :hover")) this.#outline(c, width, ink);
  }

  // hold draws the time in which an override holds a key along the upper edge of its row, with a flag at its begin. The
  // line of an override that is only tried is dashed.
  #hold(c, h, x, y) {
    const from = x(h.from), until = Math.max(from + thick, x(h.until)), step = isTried(h) ? 8 : until - from;
    for (let at = from; at < until; at += step) {
      c.fillRect(at, y, isTried(h) ? Math.min(5, until - at) : step, thick);
    }
    if (h.from <= this.#map.begin) return;
    c.beginPath();
    c.moveTo(from, y);
    c.lineTo(from + 8, y);
    c.lineTo(from, y + 10);
    c.fill();
  }

  // mark draws a stack of events: full if a person acted, and with the number of events if there are several.
  #mark(c, { x, events }, { ink, muted, at }) {
    c.fillStyle = c.strokeStyle = events.some(isByPerson) || at ? ink : muted;
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(x - 4, strip - 12);
    c.lineTo(x + 4, strip - 12);
    c.lineTo(x, strip - 4);
    c.closePath();
    if (events.some(isByPerson)) c.fill();
    else c.stroke();
    c.textAlign = "center";
    if (events.length > 1) c.fillText(events.length > 99 ? "99+" : events.length, x, strip - 15);
    if (at) c.strokeRect(x - 7.5, 0.5, 15, strip - 1);
  }

  // span dims the time outside the span that is being marked.
  #span(c, width, { h, w, card, ink }) {
    const [from, until] = this.#marks().map((cell) => cell * width);
    [c.globalAlpha, c.fillStyle] = [0.6, card];
    c.fillRect(0, 0, from, h);
    c.fillRect(until, 0, w - until, h);
    [c.globalAlpha, c.strokeStyle, c.lineWidth] = [1, ink, 2];
    c.strokeRect(from, 1, until - from, h - 2);
  }

  #outline(c, width, colour) {
    if (this.#map.keys.length === 0) return;
    c.strokeStyle = colour;
    c.lineWidth = 2;
    c.strokeRect(this.#cell * width, strip + this.#row * rowHeight + 1, Math.max(4, width), rowHeight - 2);
  }

  // marks returns the first cell of the span that is being marked, and the cell behind its last one.
  #marks() { return [Math.min(this.#anchor, this.#cell), Math.max(this.#anchor, this.#cell) + 1]; }

  #down(e) {
    if (e.button !== 0 || !this.#point(e)) return;
    this.#canvas.setPointerCapture(e.pointerId);
    this.#dragging = true;
  }

  // point moves the cursor to the pointer, and reports whether something is there.
  #point(e) {
    const m = this.#map;
    if (!m || m.keys.length === 0 || (this.isMarking && !this.#dragging)) return false;
    const row = Math.floor((e.offsetY - strip) / rowHeight), was = this.#cell;
    if (!this.#dragging && e.offsetY < strip) return this.#pointStack(e.offsetX);
    const cell = Math.floor((e.offsetX / this.#canvas.clientWidth) * m.cells);
    if (this.#dragging && this.#anchor === null && cell !== was) this.#anchor = was;
    this.#move(Math.max(0, row), cell);
    return row < m.keys.length;
  }

  #pointStack(x) {
    const i = this.#stacks.findIndex((s) => Math.abs(s.x - x) <= apart / 2);
    if (i >= 0) this.#moveToStack(i);
    return false;
  }

  #up() {
    if (!this.#dragging) return;
    this.#dragging = false;
    if (this.#anchor === null) this.#chosen(this.#cursor());
    else this.#finish();
  }

  #finish() {
    const { begin, step } = this.#map, [from, until] = this.#marks().map((cell) => begin + cell * step);
    this.#forget();
    this.#marked({ from, until });
  }

  #forget() {
    [this.#anchor, this.#dragging] = [null, false];
    this.draw();
  }

  #press(e) {
    const m = this.#map;
    if (!m || m.keys.length === 0 || e.ctrlKey || e.metaKey || e.altKey) return;
    const rows = { ArrowUp: -1, ArrowDown: 1 }[e.key];
    const cells = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -m.cells, End: m.cells }[e.key];
    if (cells && this.#row < 0) this.#moveToStack(this.#stack + Math.sign(cells) * (Math.abs(cells) > 1 ? 1e6 : 1));
    else if (cells || rows) {
      if (rows || !e.shiftKey) this.#anchor = null;
      else this.#anchor ??= this.#cell;
      const row = this.#row + (rows ?? 0);
      if (row < 0 && this.#stacks.length > 0) this.#moveToStack(this.#stack);
      else this.#move(row, this.#cell + (cells ?? 0));
    } else if (e.key === "Enter" || e.key === " ") {
      if (this.#anchor !== null) this.#finish();
      else if (this.#row >= 0) this.#chosen(this.#cursor());
    } else if (e.key === "Escape" && this.#anchor !== null) this.#forget();
    else if (e.key === "-" || e.key === "Backspace") this.#out();
    else return;
    e.preventDefault();
  }

  #moveToStack(i) {
    [this.#row, this.#stack] = [-1, Math.max(0, Math.min(this.#stacks.length - 1, i))];
    this.draw();
    this.#told(this.#cursor());
  }

  #move(row, cell) {
    this.#row = Math.max(0, Math.min(this.#map.keys.length - 1, row));
    this.#cell = Math.max(0, Math.min(this.#map.cells - 1, cell));
    this.draw();
    this.#told(this.#cursor());
  }

  #cursor() {
    const m = this.#map;
    if (this.#anchor !== null) {
      const [from, until] = this.#marks().map((cell) => m.begin + cell * m.step);
      return { from, until };
    }
    if (this.#row < 0) return { events: this.#stacks[this.#stack]?.events ?? [] };
    const key = m.keys[this.#row], at = m.begin + this.#cell * m.step, until = at + m.step;
    const holds = key ? m.holds.filter((h) => h.of(key) && h.from < until && h.until > at) : [];
    return { at, until, key, cell: key?.cells.find((c) => c.at === this.#cell), holds };
  }
}

// Heatmap: time by key on a canvas. Pointer and arrow keys move a cursor; the cell under it is described in words, and
// a click or Enter chooses it.

import { cleared, redrawn } from "./chart.js";

const rowHeight = 24;
const marks = 16; // height of the strip of events above the rows
const inset = { hot: 1, loop: 4, cold: 7 }; // hotter cells are taller, because colour alone does not reach everyone

export class Heatmap {
  #canvas; #map = null; #row = 0; #cell = 0; #most = {}; #told; #chosen;

  // told(cursor) is called when the cursor moves, and chosen(cursor) when it is clicked. A cursor is {at, until, key,
  // cell}, with times in milliseconds.
  constructor(canvas, told, chosen) {
    this.#canvas = canvas;
    this.#told = told;
    this.#chosen = chosen;
    redrawn(canvas, () => this.draw());
    canvas.addEventListener("pointermove", (e) => this.#point(e));
    canvas.addEventListener("click", (e) => { if (this.#point(e)) this.#chosen(this.#cursor()); });
    canvas.addEventListener("keydown", (e) => this.#press(e));
  }

  show(map) {
    this.#map = { ...map, begin: Date.parse(map.from), end: Date.parse(map.to), step: map.step * 1000 };
    this.#map.cells = Math.max(1, Math.ceil((this.#map.end - this.#map.begin) / this.#map.step));
    this.#most = {}; // the highest peak of each cost, because two costs have no common scale
    for (const { cost = "", cells } of map.keys) {
      this.#most[cost] = Math.max(this.#most[cost] ?? (cost ? 0 : 1), ...cells.map((c) => c.peak));
    }
    this.#row = 0;
    this.#cell = Math.min(this.#cell, this.#map.cells - 1);
    this.#canvas.style.height = `${marks + rowHeight * map.keys.length}px`;
    this.draw();
  }

  draw() {
    const m = this.#map, drawing = m && cleared(this.#canvas);
    if (!drawing) return;
    const { c, w, colour } = drawing;
    const colours = { hot: colour("--denied"), loop: colour("--loop"), cold: colour("--accent") };
    const width = w / m.cells;
    m.keys.forEach((k, row) => {
      const y = marks + row * rowHeight;
      c.globalAlpha = 1;
      c.fillStyle = colour("--soft");
      c.fillRect(0, y + 1, w, rowHeight - 2);
      for (const cell of k.cells) {
        c.fillStyle = colours[cell.state];
        c.globalAlpha = 0.15 + 0.85 * Math.sqrt(cell.peak / (this.#most[k.cost ?? ""] || 1));
        const thin = inset[cell.state], gap = width > 4 ? 1 : 0;
        c.fillRect(cell.at * width, y + thin, Math.max(1, width - gap), rowHeight - 2 * thin);
      }
    });
    c.globalAlpha = 1;
    c.fillStyle = colour("--ink");
    for (const e of m.events) this.#mark(c, ((Date.parse(e.at) - m.begin) / m.step) * width);
    this.#outline(c, width, colour("--ink"));
  }

  #mark(c, x) {
    c.beginPath();
    c.moveTo(x - 4, 4);
    c.lineTo(x + 4, 4);
    c.lineTo(x, 12);
    c.fill();
  }

  #outline(c, width, colour) {
    if (this.#map.keys.length === 0) return;
    c.strokeStyle = colour;
    c.lineWidth = 2;
    c.strokeRect(this.#cell * width, marks + this.#row * rowHeight + 1, Math.max(4, width), rowHeight - 2);
  }

  // point moves the cursor to the pointer, and reports whether a row is there.
  #point(e) {
    const m = this.#map;
    if (!m || m.keys.length === 0) return false;
    const row = Math.floor((e.offsetY - marks) / rowHeight);
    this.#move(row, Math.floor((e.offsetX / this.#canvas.clientWidth) * m.cells));
    return row >= 0 && row < m.keys.length;
  }

  #press(e) {
    const m = this.#map;
    if (!m || m.keys.length === 0 || e.ctrlKey || e.metaKey || e.altKey) return;
    const far = e.shiftKey ? 10 : 1;
    const to = {
      ArrowLeft: [this.#row, this.#cell - far], ArrowRight: [this.#row, this.#cell + far],
      ArrowUp: [this.#row - 1, this.#cell], ArrowDown: [this.#row + 1, this.#cell],
      Home: [this.#row, 0], End: [this.#row, m.cells - 1],
    }[e.key];
    if (to) this.#move(...to);
    else if (e.key === "Enter" || e.key === " ") this.#chosen(this.#cursor());
    else return;
    e.preventDefault();
  }

  #move(row, cell) {
    this.#row = Math.max(0, Math.min(this.#map.keys.length - 1, row));
    this.#cell = Math.max(0, Math.min(this.#map.cells - 1, cell));
    this.draw();
    this.#told(this.#cursor());
  }

  #cursor() {
    const m = this.#map, key = m.keys[this.#row];
    const at = m.begin + this.#cell * m.step;
    return { at, until: at + m.step, key, cell: key.cells.find((c) => c.at === this.#cell) };
  }
}

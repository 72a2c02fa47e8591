"use strict";
// The map: words as points on a canvas that can be moved and zoomed, and the neighbours of a chosen word as text.

const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("map");
const pen = canvas.getContext("2d");
const byId = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString("en");
const percent = (share) => (100 * share).toFixed(1) + " %";

const FONT = "13px system-ui, sans-serif";
const MARGIN = 24; // pixels around the whole map
const REACH = 14; // how many pixels from a point still mean it
const STEP = 60; // pixels that an arrow key moves
const MOST_ZOOM = 200;
const widths = new Map(); // of labels, in pixels

// A point is drawn at (x * scale + left, y * scale + top).
const view = { scale: 1, left: 0, top: 0, fit: 1, width: 0, height: 0 };
let chosen = -1;
let hovered = -1;
let waiting = false;

// The view

function place(index) {
  const [x, y] = data.points[index];
  return [x * view.scale + view.left, -y * view.scale + view.top];
}

function showAll() {
  const [xs, ys] = [0, 1].map((axis) => data.points.map((point) => point[axis]));
  const ends = [xs, ys].map((values) => [Math.min(...values), Math.max(...values)]);
  const sizes = ends.map(([low, high]) => Math.max(high - low, 1));
  view.fit = Math.min((view.width - 2 * MARGIN) / sizes[0], (view.height - 2 * MARGIN) / sizes[1]);
  view.scale = view.fit;
  view.left = view.width / 2 - ((ends[0][0] + ends[0][1]) / 2) * view.scale;
  view.top = view.height / 2 + ((ends[1][0] + ends[1][1]) / 2) * view.scale;
  draw();
}

function zoom(factor, x = view.width / 2, y = view.height / 2) {
  const scale = Math.min(Math.max(view.scale * factor, view.fit / 2), view.fit * MOST_ZOOM);
  view.left = x - ((x - view.left) * scale) / view.scale;
  view.top = y - ((y - view.top) * scale) / view.scale;
  view.scale = scale;
  draw();
}

function move(right, down) {
  view.left += right;
  view.top += down;
  draw();
}

function centre(index) {
  view.scale = Math.max(view.scale, view.fit * 2);
  const [x, y] = place(index);
  move(view.width / 2 - x, view.height / 2 - y);
}

function resize() {
  const { width, height } = canvas.getBoundingClientRect();
  if (!width || !height) return;
  const first = view.width === 0;
  const [across, down] = [width - view.width, height - view.height];
  const density = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  pen.setTransform(density, 0, 0, density, 0, 0);
  view.width = width;
  view.height = height;
  if (first) showAll();
  else move(across / 2, down / 2);
}

// Drawing

function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    paint();
  });
}

function paint() {
  const style = getComputedStyle(document.documentElement);
  const [ink, paper, muted, accent] = ["ink", "paper", "muted", "accent"].map((name) =>
    style.getPropertyValue("--" + name).trim(),
  );
  const near = chosen < 0 ? [] : data.neighbours[chosen];
  pen.clearRect(0, 0, view.width, view.height);
  pen.font = FONT;
  pen.textBaseline = "middle";
  paintPoints(muted);
  pen.strokeStyle = accent;
  for (const index of near) join(place(chosen), place(index));
  const taken = [];
  if (chosen >= 0) paintLabel(chosen, accent, paper, taken, true);
  for (const index of near) paintLabel(index, accent, paper, taken);
  if (hovered >= 0) paintLabel(hovered, ink, paper, taken, true);
  for (let index = 0; index < data.words.length; index++) paintLabel(index, ink, null, taken);
  if (chosen >= 0) ring(place(chosen), accent);
}

function paintPoints(colour) {
  pen.fillStyle = colour;
  for (let index = 0; index < data.words.length; index++) {
    const [x, y] = place(index);
    if (isInside(x, y)) pen.fillRect(x - 1.5, y - 1.5, 3, 3);
  }
}

function join([x, y], [toX, toY]) {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(toX, toY);
  pen.stroke();
}

function ring([x, y], colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(x, y, 6, 0, 2 * Math.PI);
  pen.stroke();
  pen.lineWidth = 1;
}

// Draws a label beside its point unless it would cover another one; frequent words come first. A word that must be
// read stands on paper and covers what it meets.
function paintLabel(index, colour, paper, taken, always = false) {
  const [x, y] = place(index);
  if (!isInside(x, y)) return;
  const width = labelWidth(data.words[index]);
  const left = x + 9 + width > view.width ? x - 9 - width : x + 9;
  const box = [left - 2, y - 9, left + width + 2, y + 9];
  const meets = (other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3];
  if (!always && taken.some(meets)) return;
  taken.push(box);
  if (paper) {
    pen.fillStyle = paper;
    pen.fillRect(box[0], box[1], box[2] - box[0], box[3] - box[1]);
  }
  pen.fillStyle = colour;
  pen.fillText(data.words[index], left, y);
}

function labelWidth(word) {
  if (!widths.has(word)) widths.set(word, pen.measureText(word).width);
  return widths.get(word);
}

function isInside(x, y) {
  return x >= 0 && y >= 0 && x <= view.width && y <= view.height;
}

// Choosing a word

function choose(index) {
  chosen = index;
  const word = data.words[index];
  const near = data.neighbours[index];
  byId("result").hidden = false;
  byId("chosen").textContent = word;
  byId("explained").textContent =
    `Its ${near.length} nearest words by the cosine of the whole vectors, among the words of the map:`;
  byId("neighbours").replaceChildren(...near.map((other, rank) => listItem(other, data.hundredths[index][rank])));
  byId("status").textContent = `${word}: the ${near.length} nearest words are listed.`;
  canvas.setAttribute("aria-label", `Map of ${number(data.words.length)} words, centred on ${word}`);
  centre(index);
}

function listItem(index, hundredths) {
  const item = document.createElement("li");
  const row = document.createElement("div");
  const button = document.createElement("button");
  const similarity = document.createElement("span");
  button.type = "button";
  button.textContent = data.words[index];
  button.addEventListener("click", () => {
    choose(index);
    byId("neighbours").querySelector("button").focus(); // the button that was pressed is gone
  });
  similarity.textContent = (hundredths / 100).toFixed(2);
  row.append(button, similarity);
  item.append(row);
  return item;
}

const plain = (word) => word.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

// A word as it is written, else without regard to case, else without accents.
function find(asked) {
  const lower = asked.toLowerCase();
  const tests = [(word) => word === asked, (word) => word.toLowerCase() === lower, (word) => plain(word) === plain(asked)];
  for (const test of tests) {
    const index = data.words.findIndex(test);
    if (index >= 0) return index;
  }
  return -1;
}

function beginning(asked) {
  return asked ? data.words.filter((word) => plain(word).startsWith(plain(asked))).slice(0, 12) : [];
}

function search() {
  const asked = byId("word").value.trim().normalize("NFC");
  if (!asked) return;
  const index = find(asked);
  if (index >= 0) {
    choose(index);
    return;
  }
  const near = beginning(asked);
  byId("status").textContent =
    `“${asked}” is not on the map.` + (near.length ? ` Words that begin like this: ${near.join(", ")}.` : "");
}

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
byId("word").addEventListener("input", (event) => {
  const options = beginning(event.target.value.trim()).map((word) => {
    const option = document.createElement("option");
    option.value = word;
    return option;
  });
  byId("matches").replaceChildren(...options);
  if (!event.inputType || event.inputType === "insertReplacementText") search(); // taken from the list
});

// Pointer and keys

const pointers = new Map();
let travelled = 0;

function spot(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function wordAt([x, y]) {
  let [found, least] = [-1, REACH * REACH];
  for (let index = 0; index < data.words.length; index++) {
    const [wordX, wordY] = place(index);
    const distance = (wordX - x) ** 2 + (wordY - y) ** 2;
    if (distance < least) [found, least] = [index, distance];
  }
  return found;
}

function hover(index) {
  if (index === hovered) return;
  hovered = index;
  canvas.classList.toggle("over-word", index >= 0);
  draw();
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, spot(event));
  if (pointers.size === 1) travelled = 0;
});

canvas.addEventListener("pointermove", (event) => {
  const now = spot(event);
  const before = pointers.get(event.pointerId);
  if (!before) {
    hover(wordAt(now));
    return;
  }
  const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)?.[1];
  const [across, down] = [now[0] - before[0], now[1] - before[1]];
  travelled += Math.hypot(across, down);
  canvas.classList.add("moving");
  if (other) {
    const distance = (point) => Math.max(Math.hypot(point[0] - other[0], point[1] - other[1]), 1);
    zoom(distance(now) / distance(before), other[0], other[1]);
  } else {
    move(across, down);
  }
  pointers.set(event.pointerId, now);
});

function lift(event) {
  const held = pointers.delete(event.pointerId);
  canvas.classList.remove("moving");
  if (event.type !== "pointerup" || !held || pointers.size || travelled > 5) return;
  const index = wordAt(spot(event));
  if (index >= 0) choose(index);
}
canvas.addEventListener("pointerup", lift);
canvas.addEventListener("pointercancel", lift);
canvas.addEventListener("pointerleave", () => hover(-1));
canvas.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...spot(event));
  },
  { passive: false },
);

const keys = {
  ArrowLeft: () => move(STEP, 0),
  ArrowRight: () => move(-STEP, 0),
  ArrowUp: () => move(0, STEP),
  ArrowDown: () => move(0, -STEP),
  "+": () => zoom(1.5),
  "=": () => zoom(1.5),
  "-": () => zoom(1 / 1.5),
  0: showAll,
};
canvas.addEventListener("keydown", (event) => {
  if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  keys[event.key]();
});
byId("closer").addEventListener("click", () => zoom(1.5));
byId("farther").addEventListener("click", () => zoom(1 / 1.5));
byId("whole").addEventListener("click", showAll);

// Beginning

const [first, second] = data.explained;
byId("about").textContent =
  `The ${number(data.words.length)} most frequent words, and beginnings of words, of the embedding table (${data.table}), on the two axes of ` +
  `largest variance (PCA). The axes hold ${percent(first)} and ${percent(second)} of the variance, so words that lie ` +
  "together here need not be near each other; the lists of nearest words tell.";
canvas.setAttribute("aria-label", `Map of ${number(data.words.length)} words`);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
new ResizeObserver(resize).observe(canvas);

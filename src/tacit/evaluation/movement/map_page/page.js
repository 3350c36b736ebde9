// The page: time, buttons, legend, tables, and one frame after the other.

const $ = (id) => document.getElementById(id);
const state = {
  time: 16,
  playing: false,
  speed: 1,
  layers: { trips: true, density: true, flows: false },
  whole: true,
  last: null,
};
const PER_SECOND = 1; // slots of half an hour, at speed 1

const clockOf = (time) => {
  const minutes = Math.min(48 * 30, Math.round(time * 30));
  return `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
};
const short = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toPrecision(2));
const per = (share) => `${short(1000 * share)} of 1,000 days`;
const many = (count) => count.toLocaleString("en");
const named = ({ x, y }, place) => {
  const [latitude, longitude] = [mercator.latitude(y[place]), mercator.longitude(x[place])];
  return `${degrees(latitude, "NS", 0.001)}, ${degrees(longitude, "EW", 0.001)}`;
};

function toggle(on = !state.playing) {
  state.playing = on;
  state.last = null;
  $("play").setAttribute("aria-pressed", on);
  $("play").setAttribute("aria-label", on ? "Pause" : "Play");
  if (!on) tell();
  redraw();
}

function setTime(time) {
  state.time = Math.max(0, Math.min(48, time));
  $("slider").value = state.time;
  $("slider").setAttribute("aria-valuetext", clockOf(state.time));
  $("clock").textContent = clockOf(state.time);
  for (const [k, bar] of [...$("pulse").children].entries()) bar.classList.toggle("past", k + 0.5 < state.time);
  redraw();
}

/** What a map shows now, in words, beneath it; read out when the time stands still. */
function describe(screen) {
  const { panel } = screen;
  return `${clockOf(state.time)}: ${Math.round(100 * panel.onTheMove(state.time))} of 100 are on the move`;
}

function tell() {
  $("live").textContent = screens.map((screen) => `${screen.panel.label}, ${describe(screen)}.`).join(" ");
  tabulate();
}

function rowsOf(element, caption, heads, rows) {
  const table = document.createElement("table");
  table.createCaption().textContent = caption;
  const head = table.createTHead().insertRow();
  for (const text of heads) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = text;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const text of row) line.insertCell().textContent = text;
  }
  element.append(table);
}

function tabulate() {
  const element = document.querySelector(".tables");
  element.replaceChildren();
  if (!element.parentElement.open) return;
  for (const { panel } of screens) {
    const shares = panel.density(state.time);
    const busiest = Array.from(shares.keys()).sort((a, b) => shares[b] - shares[a]).slice(0, 8);
    const places = busiest.filter((i) => shares[i] > 0).map((i) => [named(panel, i), short(1000 * shares[i])]);
    rowsOf(element, `${panel.label}: busiest cells at ${clockOf(state.time)}`, ["Centre", "of 1,000 days"], places);
    const { origin, destination } = panel.flows;
    const largest = Array.from(origin.keys()).slice(0, 8);
    const flows = largest.map((i) => [
      named(panel.flows, origin[i]),
      named(panel.flows, destination[i]),
      short(1000 * panel.flow(i, null)),
    ]);
    rowsOf(element, `${panel.label}: largest flows of the day`, ["From", "To", "per 1,000 days"], flows);
  }
}

const EARTH = 40075016.686;
function showScale(screen) {
  const metres = (EARTH * Math.cos((mercator.latitude(camera.y) * Math.PI) / 180)) / camera.scale;
  const most = 120 * metres;
  const power = 10 ** Math.floor(Math.log10(most));
  const length = [5, 2, 1].map((k) => k * power).find((one) => one <= most);
  const [bar, text] = [screen.figure.querySelector(".scale i"), screen.figure.querySelector(".scale span")];
  bar.style.width = `${length / metres}px`;
  text.textContent = length >= 1000 ? `${many(length / 1000)} km` : `${many(length)} m`;
}

function showHover(screen) {
  const hover = screen.figure.querySelector(".hover");
  const place = screen.point ? placeAt(screen, screen.point) : -1;
  hover.hidden = place < 0;
  if (place < 0) return;
  const share = screen.panel.density(state.time)[place];
  hover.textContent = `${named(screen.panel, place)} · ${share > 0 ? per(share) : "nobody"} at ${clockOf(state.time)}`;
}

function paint(screen) {
  const { context, ratio } = screen;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, screen.width, screen.height);
  const view = `${camera.x},${camera.y},${camera.scale}`;
  if (given.tiles) paintTiles(screen, context);
  screen.stored("grid", view, (layer) => paintGrid(screen, layer));
  const quarter = Math.round(state.time * 8) / 8;
  if (state.layers.density) {
    context.globalAlpha = state.layers.flows ? 0.45 : 1;
    screen.stored("density", `${view},${quarter}`, (layer) => paintDensity(screen, layer, quarter));
    context.globalAlpha = 1;
  }
  if (state.layers.flows) {
    const time = state.whole ? null : Math.round(state.time * 2) / 2;
    screen.stored("flows", `${view},${time}`, (layer) => paintFlows(screen, layer, time));
  }
  const seen = state.layers.trips ? paintTrips(screen, context, state.time) : 0;
  screen.canvas.dataset.trips = seen;
  const hidden = screen.panel.shown - seen;
  const outside = state.layers.trips && hidden ? `; ${many(hidden)} trips are outside this view` : "";
  screen.figure.querySelector(".told").textContent = `${describe(screen)}${outside}.`;
  showScale(screen);
  showHover(screen);
}

function frame(now) {
  for (const screen of screens) screen.resize();
  if (state.playing) {
    if (state.last !== null) {
      const next = state.time + (Math.min(100, now - state.last) / 1000) * PER_SECOND * state.speed;
      setTime(next > 48 ? 0 : next);
    }
    state.last = now;
  }
  if (invalid) {
    invalid = false;
    screens.forEach(paint);
  }
  requestAnimationFrame(frame);
}

function press(selector, chosen) {
  for (const button of document.querySelectorAll(selector)) {
    button.setAttribute("aria-pressed", chosen(button));
  }
}

function listen() {
  $("play").addEventListener("click", () => toggle());
  $("slider").addEventListener("input", () => {
    if (state.playing) toggle(false);
    setTime(Number($("slider").value));
  });
  $("slider").addEventListener("change", tell);
  $("slider").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.5, ArrowRight: 0.5, ArrowDown: -0.5, ArrowUp: 0.5, PageUp: 2, PageDown: -2 }[event.key];
    if (!step) return;
    event.preventDefault();
    if (state.playing) toggle(false);
    setTime(Math.round(state.time * 2) / 2 + step);
    tell();
  });
  for (const button of document.querySelectorAll("[data-layer]")) {
    button.addEventListener("click", () => {
      state.layers[button.dataset.layer] = !state.layers[button.dataset.layer];
      layersChanged();
    });
  }
  for (const button of document.querySelectorAll("[data-span]")) {
    button.addEventListener("click", () => {
      state.whole = button.dataset.span === "day";
      state.layers.flows = true;
      layersChanged();
    });
  }
  for (const button of document.querySelectorAll("[data-speed]")) {
    button.addEventListener("click", () => {
      state.speed = Number(button.dataset.speed);
      press("[data-speed]", (one) => Number(one.dataset.speed) === state.speed);
    });
  }
  for (const button of document.querySelectorAll("[data-fit]")) {
    button.addEventListener("click", () => fit(Number(button.dataset.fit)));
  }
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(Number(button.dataset.zoom), screens[0]));
  }
  document.querySelector("details").addEventListener("toggle", tabulate);
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme === "dark";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    readTheme();
  });
}

function layersChanged() {
  press("[data-layer]", (button) => state.layers[button.dataset.layer]);
  press("[data-span]", (button) => (button.dataset.span === "day") === state.whole);
  for (const item of document.querySelectorAll(".legend li")) item.hidden = !state.layers[item.dataset.of];
  redraw();
}

function words() {
  for (const screen of screens) {
    const { panel } = screen;
    const notice = screen.figure.querySelector(".notice");
    const strong = document.createElement("strong");
    strong.textContent = `${many(panel.shown)} of ${many(panel.days)} days`;
    const flows = panel.flows.origin.length;
    const rest =
      panel.shown < panel.days
        ? " are drawn as trips; density and flows count them all."
        : " are drawn: all of them.";
    const cut =
      flows < panel.flows.pairs
        ? ` Flows: the largest ${many(flows)} of ${many(panel.flows.pairs)} pairs of blocks, ${Math.round(100 * panel.flows.share)} % of all moves.`
        : "";
    notice.append(strong, rest + cut);
  }
  $("ramp").textContent = `0 to ${per(TOP)} in a cell, and more`;
  $("widest").textContent = `moves between blocks, from pale to strong; the widest is ${short(1000 * WIDEST)} per 1,000 days`;
  const moving = panels[0].moving;
  const most = Math.max(1e-9, ...moving);
  for (let slot = 1; slot < SLOTS; slot++) {
    // Moves take the half-hour between the middles of two slots.
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const height = Math.max(1.5, (44 * moving[slot - 1]) / most);
    for (const [name, at] of Object.entries({ x: slot * 10 - 4, y: 48 - height, width: 8, height })) {
      bar.setAttribute(name, at);
    }
    $("pulse").append(bar);
  }
  for (let hour = 0; hour <= 24; hour += 3) {
    const mark = document.createElement("span");
    mark.textContent = String(hour).padStart(2, "0");
    mark.style.left = `${(100 * hour) / 24}%`;
    document.querySelector(".hours").append(mark);
  }
}

/** The address may end in #HH:MM, dark, light, flows: a link to a moment. */
function begin() {
  const asked = decodeURIComponent(location.hash.slice(1)).split(",");
  const wanted = asked.find((word) => /^\d\d:\d\d$/.test(word));
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = asked.find((w) => w === "dark" || w === "light") || (dark ? "dark" : "light");
  screens = [...document.querySelectorAll(".panel")].map((figure, k) => new Screen(panels[k], figure));
  for (const screen of screens) screen.resize();
  state.layers.flows = asked.includes("flows");
  words();
  listen();
  layersChanged();
  readTheme();
  fit(0.95);
  setTime(wanted ? Number(wanted.slice(0, 2)) * 2 + Number(wanted.slice(3)) / 30 : 13);
  tell();
  if (!wanted && !window.matchMedia("(prefers-reduced-motion: reduce)").matches) toggle(true);
  requestAnimationFrame(frame);
}

begin();

// What a screen shows: ground, density, flows, trips, and the words on top.

const BINS = 28;
const colours = {};

/** Colours of the theme, and the ramp of the density in steps. */
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ground", "grid", "ink", "soft", "trip", "rest", "flow", "halo"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
  const stops = [0, 1, 2, 3, 4].map((k) => parse(style.getPropertyValue(`--ramp-${k}`)));
  colours.ramp = Array.from({ length: BINS }, (_, bin) => {
    const at = ((bin + 0.5) / BINS) * 4;
    const [low, part] = [Math.min(3, Math.floor(at)), at - Math.min(3, Math.floor(at))];
    const mixed = stops[low].map((value, k) => value + (stops[low + 1][k] - value) * part);
    return `rgb(${mixed.map(Math.round).join(" ")} / ${(0.34 + (0.6 * bin) / BINS).toFixed(3)})`;
  });
  for (const screen of screens) screen.stores.clear();
  redraw();
}

const parse = (text) => [1, 3, 5].map((at) => parseInt(text.trim().slice(at, at + 2), 16));

/** The share at which the ramp ends, the same for all panels: what 99.8 % of the visited places stay below. */
const TOP = (() => {
  const all = [];
  for (const panel of panels) {
    const stride = Math.max(1, Math.floor(panel.counts.length / 50000));
    for (let i = 0; i < panel.counts.length; i += stride) all.push(panel.counts[i] / panel.days);
  }
  all.sort((a, b) => a - b);
  return all.length ? all[Math.floor(0.998 * (all.length - 1))] : 1;
})();
const binOf = (share) => Math.min(BINS - 1, Math.floor(BINS * Math.cbrt(share / TOP)));

const WIDEST = Math.max(...panels.map((panel) => Math.max(1e-9, ...panel.flows.total) / panel.days));

const tiles = new Map();
function paintTiles(screen, context) {
  const level = Math.max(0, Math.min(given.tiles.deepest, Math.round(Math.log2(camera.scale / 256))));
  const many = 2 ** level;
  const [left, top] = [camera.x - screen.width / 2 / camera.scale, camera.y - screen.height / 2 / camera.scale];
  const [right, bottom] = [camera.x + screen.width / 2 / camera.scale, camera.y + screen.height / 2 / camera.scale];
  context.globalAlpha = 0.55;
  for (let j = Math.max(0, Math.floor(top * many)); j < Math.min(many, bottom * many); j++) {
    for (let i = Math.floor(left * many); i < right * many; i++) {
      const address = given.tiles.address
        .replace("{z}", level)
        .replace("{x}", ((i % many) + many) % many)
        .replace("{y}", j);
      if (!tiles.has(address)) {
        const image = new Image();
        image.onload = redraw;
        image.src = address;
        tiles.set(address, image);
      }
      const image = tiles.get(address);
      const side = camera.scale / many + 0.5;
      if (image.complete && image.naturalWidth) {
        context.drawImage(image, screen.toX(i / many), screen.toY(j / many), side, side);
      }
    }
  }
  context.globalAlpha = 1;
}

const STEPS = [60, 30, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005];
const degrees = (value, names, step) =>
  `${Math.abs(value).toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))}° ${names[value < 0 ? 1 : 0]}`;

/** Meridians and parallels, named at the edges. */
function paintGrid(screen, context) {
  const across = (screen.width / camera.scale) * 360;
  const step = STEPS.find((one) => across / one >= Math.max(2, screen.width / 190)) || STEPS[STEPS.length - 1];
  const west = mercator.longitude(camera.x - screen.width / 2 / camera.scale);
  const [south, north] = [1, -1].map((s) => mercator.latitude(camera.y + (s * screen.height) / 2 / camera.scale));
  context.strokeStyle = colours.grid;
  context.fillStyle = colours.soft;
  context.lineWidth = 1;
  context.font = "11px system-ui, sans-serif";
  context.beginPath();
  for (let k = Math.ceil(west / step); k * step < west + across; k++) {
    const at = Math.round(screen.toX(mercator.x(k * step))) + 0.5;
    context.moveTo(at, 0);
    context.lineTo(at, screen.height);
    if (at > 160 && at < screen.width - 40) {
      context.textAlign = "center";
      context.fillText(degrees(k * step, "EW", step), at, screen.height - 7);
    }
  }
  for (let k = Math.ceil(south / step); k * step < north; k++) {
    const at = Math.round(screen.toY(mercator.y(k * step))) + 0.5;
    context.moveTo(0, at);
    context.lineTo(screen.width, at);
    if (at > 96 && at < screen.height - 60) {
      context.textAlign = "right";
      context.fillText(degrees(k * step, "NS", step), screen.width - 7, at - 5);
    }
  }
  context.stroke();
}

function paintDensity(screen, context, time) {
  const { panel } = screen;
  const shares = panel.density(time);
  const bins = Array.from({ length: BINS }, () => []);
  for (let i = 0; i < panel.places; i++) if (shares[i] > 0) bins[binOf(shares[i])].push(i);
  const { sides, cornerX, cornerY } = panel;
  for (const [bin, members] of bins.entries()) {
    if (!members.length) continue;
    context.beginPath();
    for (const i of members) {
      const [px, py, reach] = [screen.toX(panel.x[i]), screen.toY(panel.y[i]), panel.size[i] * camera.scale];
      if (px < -reach || py < -reach || px > screen.width + reach || py > screen.height + reach) continue;
      if (reach < 2.2) {
        context.rect(px - 1.1, py - 1.1, 2.2, 2.2);
        continue;
      }
      const inset = 1 - Math.min(0.06, 1 / reach); // a hair of ground between cells that are large enough
      for (let k = 0; k < sides; k++) {
        const at = i * sides + k;
        const [x, y] = [
          px + (screen.toX(cornerX[at]) - px) * inset,
          py + (screen.toY(cornerY[at]) - py) * inset,
        ];
        if (k) context.lineTo(x, y);
        else context.moveTo(x, y);
      }
      context.closePath();
    }
    context.fillStyle = colours.ramp[bin];
    context.fill();
  }
}

const widthOf = (perDay) => 0.5 + 6.5 * Math.sqrt(Math.min(1, perDay / WIDEST));

/** Arcs that bend to the right of their way, so that there and back are two. */
function paintFlows(screen, context, time) {
  const { panel } = screen;
  const { origin, destination, x, y } = panel.flows;
  context.lineCap = "round";
  for (let i = origin.length - 1; i >= 0; i--) {
    const perDay = panel.flow(i, time);
    if (perDay <= 0) continue;
    const [ax, ay] = [screen.toX(x[origin[i]]), screen.toY(y[origin[i]])];
    const [bx, by] = [screen.toX(x[destination[i]]), screen.toY(y[destination[i]])];
    if (Math.hypot(bx - ax, by - ay) < 3) continue;
    const fade = context.createLinearGradient(ax, ay, bx, by);
    const strength = Math.min(1, 0.25 + 0.75 * Math.sqrt(perDay / WIDEST));
    fade.addColorStop(0, `rgb(from ${colours.flow} r g b / ${0.06 * strength})`);
    fade.addColorStop(1, `rgb(from ${colours.flow} r g b / ${0.85 * strength})`);
    context.strokeStyle = fade;
    context.lineWidth = widthOf(time === null ? perDay : perDay * 12);
    context.beginPath();
    context.moveTo(ax, ay);
    context.quadraticCurveTo((ax + bx) / 2 - 0.2 * (by - ay), (ay + by) / 2 + 0.2 * (bx - ax), bx, by);
    context.stroke();
  }
}

const TAIL = 7;
const smooth = (part) => part * part * (3 - 2 * part);

/** Where a trip is inside a cell: nobody knows, so a place that depends on trip and cell alone. */
function spot(panel, trip, place) {
  const size = panel.size[place] * 0.62;
  return [
    panel.x[place] + (hash(trip, 2 * place) - 0.5) * size,
    panel.y[place] + (hash(trip, 2 * place + 1) - 0.5) * size,
  ];
}

const bend = (ax, ay, bx, by) => [(ax + bx) / 2 - 0.08 * (by - ay), (ay + by) / 2 + 0.08 * (bx - ax)];

/** Points on the way of a trip from one place to another, as a function of how far it has come. */
function way(screen, trip, from, to) {
  const { panel } = screen;
  const [[ax, ay], [bx, by]] = [spot(panel, trip, from), spot(panel, trip, to)];
  const [mx, my] = bend(ax, ay, bx, by);
  return (p) => {
    const q = 1 - p;
    return [
      screen.toX(q * q * ax + 2 * q * p * mx + p * p * bx),
      screen.toY(q * q * ay + 2 * q * p * my + p * p * by),
    ];
  };
}

/** A tail in pieces that grow stronger towards `head`; it starts at `back`, and both are parts of the way. */
function drag(tails, along, back, head) {
  if (head - back < 0.01) return;
  let before = along(back);
  for (let k = 0; k < TAIL; k++) {
    const point = along(back + ((head - back) * (k + 1)) / TAIL);
    tails[k].moveTo(...before);
    tails[k].lineTo(...point);
    before = point;
  }
}

/** Whoever stays is a dot; whoever moves, a comet from cell to cell. Returns how many are in view. */
function paintTrips(screen, context, time) {
  const { panel } = screen;
  const [slot, part] = Panel.between(time);
  const tails = Array.from({ length: TAIL }, () => new Path2D());
  const [resting, heads] = [new Path2D(), new Path2D()];
  const radius = Math.max(1.1, Math.min(2.6, 2.6 - 0.7 * Math.log10(Math.max(1, panel.shown / 30))));
  const head = smooth(part);
  const inside = (x, y, room) => x > -room && y > -room && x < screen.width + room && y < screen.height + room;
  let seen = 0;
  for (let trip = 0; trip < panel.shown; trip++) {
    const at = trip * SLOTS + slot;
    const [from, to] = [panel.trips[at], panel.trips[at + 1]];
    const along = way(screen, trip, from, to);
    const [hx, hy] = along(head);
    if (!inside(hx, hy, 0)) continue;
    seen++;
    const circle = from === to ? resting : heads;
    const size = from === to ? radius : radius + 0.5;
    circle.moveTo(hx + size, hy);
    circle.arc(hx, hy, size, 0, 7);
    if (from !== to) drag(tails, along, Math.max(0, head - 0.6), head);
    // Of a trip that has just ended the tail follows.
    if (slot && part < 0.5 && panel.trips[at - 1] !== from) {
      drag(tails, way(screen, trip, panel.trips[at - 1], from), 0.4 + 1.2 * part, 1);
    }
  }
  context.fillStyle = colours.rest;
  context.fill(resting);
  context.lineCap = "round";
  context.strokeStyle = colours.trip;
  for (const [k, tail] of tails.entries()) {
    context.globalAlpha = (0.85 * (k + 1)) / TAIL;
    context.lineWidth = 0.5 + (1.5 * (k + 1)) / TAIL;
    context.stroke(tail);
  }
  context.globalAlpha = 1;
  context.strokeStyle = colours.halo;
  context.lineWidth = 1;
  context.stroke(heads);
  context.fillStyle = colours.trip;
  context.fill(heads);
  return seen;
}

/** The place under a point, or -1. */
function placeAt(screen, [px, py]) {
  const { panel } = screen;
  let [best, nearest] = [-1, Infinity];
  for (let i = 0; i < panel.places; i++) {
    const reach = Math.max(3, (panel.size[i] * camera.scale) / 2);
    const away = Math.max(Math.abs(screen.toX(panel.x[i]) - px), Math.abs(screen.toY(panel.y[i]) - py));
    if (away <= reach && away < nearest) [best, nearest] = [i, away];
  }
  return best;
}

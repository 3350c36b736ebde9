// One camera for all panels, and the hands that move it.

const camera = { x: 0.5, y: 0.5, scale: 1000, least: 100, most: 1e8 };
let screens = [];
let invalid = true;

const redraw = () => {
  invalid = true;
};

/** The camera over which the middle `part` of all visits lies in view. */
function fit(part) {
  const [width, height] = [screens[0].width, screens[0].height];
  const ends = [[], []];
  for (const panel of panels) {
    const weight = new Float64Array(panel.places);
    for (let i = 0; i < panel.where.length; i++) weight[panel.where[i]] += panel.counts[i] / panel.days;
    for (const [axis, values] of [panel.x, panel.y].entries()) {
      const order = Array.from(values.keys()).sort((a, b) => values[a] - values[b]);
      const total = weight.reduce((sum, w) => sum + w, 0);
      const cut = (total * (1 - part)) / 2;
      const edge = (list) => {
        let seen = 0;
        for (const i of list) if ((seen += weight[i]) >= cut) return i;
        return list[list.length - 1];
      };
      const [first, last] = [edge(order), edge(order.slice().reverse())];
      ends[axis].push(values[first] - panel.size[first], values[last] + panel.size[last]);
    }
  }
  const [left, right] = [Math.min(...ends[0]), Math.max(...ends[0])];
  const [top, bottom] = [Math.min(...ends[1]), Math.max(...ends[1])];
  camera.x = (left + right) / 2;
  camera.y = (top + bottom) / 2;
  camera.scale = Math.min((0.92 * width) / (right - left), (0.82 * height) / (bottom - top));
  camera.least = Math.min(camera.least, camera.scale / 4);
  redraw();
}

function pan(dx, dy) {
  camera.x -= dx / camera.scale;
  camera.y = Math.max(0, Math.min(1, camera.y - dy / camera.scale));
  redraw();
}

/** Zoom by a factor around a point of a screen, in CSS pixels. */
function zoom(factor, screen, px = screen.width / 2, py = screen.height / 2) {
  const to = Math.max(camera.least, Math.min(camera.most, camera.scale * factor));
  const [dx, dy] = [px - screen.width / 2, py - screen.height / 2];
  camera.x += dx / camera.scale - dx / to;
  camera.y += dy / camera.scale - dy / to;
  camera.scale = to;
  redraw();
}

/** A canvas with its size in CSS pixels, sharp on every display. */
class Screen {
  constructor(panel, figure) {
    Object.assign(this, { panel, figure, canvas: figure.querySelector("canvas"), width: 0, height: 0, point: null });
    this.context = this.canvas.getContext("2d");
    this.stores = new Map();
    this.fingers = new Map();
    this.listen();
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    if (box.width === this.width && box.height === this.height && ratio === this.ratio) return;
    Object.assign(this, { width: box.width, height: box.height, ratio });
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    this.stores.clear();
    redraw();
  }

  toX = (x) => (x - camera.x) * camera.scale + this.width / 2;
  toY = (y) => (y - camera.y) * camera.scale + this.height / 2;

  /** A layer that is painted again only when its key changes. */
  stored(name, key, paint) {
    let store = this.stores.get(name);
    if (!store) {
      const canvas = document.createElement("canvas");
      canvas.width = this.canvas.width;
      canvas.height = this.canvas.height;
      store = { canvas, key: null };
      this.stores.set(name, store);
    }
    if (store.key !== key) {
      const context = store.canvas.getContext("2d");
      context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      context.clearRect(0, 0, this.width, this.height);
      paint(context);
      store.key = key;
    }
    this.context.drawImage(store.canvas, 0, 0, this.width, this.height);
  }

  listen() {
    const { canvas, fingers } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, at(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      this.point = [px, py];
      const before = fingers.get(event.pointerId);
      if (before) {
        if (fingers.size === 1) pan(px - before[0], py - before[1]);
        if (fingers.size === 2) {
          const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
          const apart = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
          pan((px - before[0]) / 2, (py - before[1]) / 2);
          zoom(apart([px, py]) / Math.max(1, apart(before)), this, (px + other[0]) / 2, (py + other[1]) / 2);
        }
        fingers.set(event.pointerId, [px, py]);
      }
      redraw();
    });
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
    }
    canvas.addEventListener("pointerleave", () => {
      this.point = null;
      redraw();
    });
    const wheel = (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), this, ...at(event));
    };
    canvas.addEventListener("wheel", wheel, { passive: false });
    canvas.addEventListener("dblclick", (event) => zoom(2, this, ...at(event)));
    canvas.addEventListener("keydown", (event) => {
      const step = 60;
      const moves = {
        ArrowLeft: () => pan(step, 0),
        ArrowRight: () => pan(-step, 0),
        ArrowUp: () => pan(0, step),
        ArrowDown: () => pan(0, -step),
        "+": () => zoom(1.5, this),
        "=": () => zoom(1.5, this),
        "-": () => zoom(1 / 1.5, this),
        0: () => fit(0.95),
        " ": () => toggle(),
      };
      if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      moves[event.key]();
    });
  }
}

"use strict";
// From the arrays of the page to panels: places in Web Mercator, visits by slot, trips and flows.

const SLOTS = 48;
const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };
const given = JSON.parse(document.getElementById("data").textContent);

/** A typed array from {kind, base64}; little-endian, as every browser has it. */
function unpack(packed) {
  const text = atob(packed.base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new KINDS[packed.kind](bytes.buffer);
}

/** Web Mercator, the world from 0 to 1. */
const mercator = {
  x: (longitude) => longitude / 360 + 0.5,
  y: (latitude) => {
    const sine = Math.sin((Math.max(-85, Math.min(85, latitude)) * Math.PI) / 180);
    return 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI);
  },
  longitude: (x) => (x - 0.5) * 360,
  latitude: (y) => (Math.atan(Math.sinh((0.5 - y) * 2 * Math.PI)) * 180) / Math.PI,
};

/** A number in [0, 1) that depends on two integers alone. */
function hash(a, b) {
  let h = (Math.imul(a + 1, 374761393) + Math.imul(b + 1, 668265263)) | 0;
  h = Math.imul(h ^ (h >>> 13), 1274126177);
  return ((h ^ (h >>> 16)) >>> 0) / 4294967296;
}

class Panel {
  constructor(packed) {
    Object.assign(this, { label: packed.label, kind: packed.kind, days: packed.days, shown: packed.shown });
    const corners = unpack(packed.corners);
    const sides = packed.sides;
    const count = corners.length / (2 * sides);
    this.sides = sides;
    this.places = count;
    this.cornerX = new Float64Array(count * sides);
    this.cornerY = new Float64Array(count * sides);
    this.x = new Float64Array(count);
    this.y = new Float64Array(count);
    this.size = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      let low = Infinity;
      let high = -Infinity;
      for (let k = 0; k < sides; k++) {
        const at = i * sides + k;
        this.cornerY[at] = mercator.y(corners[2 * at]);
        this.cornerX[at] = mercator.x(corners[2 * at + 1]);
        this.x[i] += this.cornerX[at] / sides;
        this.y[i] += this.cornerY[at] / sides;
        low = Math.min(low, this.cornerX[at]);
        high = Math.max(high, this.cornerX[at]);
      }
      this.size[i] = high - low;
    }
    this.trips = unpack(packed.trips);
    this.moving = unpack(packed.moving);
    this.starts = unpack(packed.visits.starts);
    this.where = unpack(packed.visits.where);
    this.counts = unpack(packed.visits.counts);
    const ends = unpack(packed.flows.places);
    this.flows = {
      y: ends.filter((_, k) => k % 2 === 0).map(mercator.y),
      x: ends.filter((_, k) => k % 2 === 1).map(mercator.x),
      origin: unpack(packed.flows.origin),
      destination: unpack(packed.flows.destination),
      total: unpack(packed.flows.total),
      profile: unpack(packed.flows.profile),
      pairs: packed.flows.pairs,
      share: packed.flows.share,
    };
    this.filled = [-1, -1];
    this.level = [new Float32Array(count), new Float32Array(count)];
    this.shares = new Float32Array(count);
  }

  /** Which slots a time lies between, and how far: a slot says where somebody was in its middle. */
  static between(time) {
    const at = Math.max(0, Math.min(SLOTS - 1, time - 0.5));
    const slot = Math.min(SLOTS - 2, Math.floor(at));
    return [slot, at - slot];
  }

  slotShares(slot, side) {
    if (this.filled[side] !== slot) {
      const level = this.level[side].fill(0);
      for (let i = this.starts[slot]; i < this.starts[slot + 1]; i++) level[this.where[i]] = this.counts[i] / this.days;
      this.filled[side] = slot;
    }
    return this.level[side];
  }

  /** Share of the days that are at each place at a time, between two slots in proportion. */
  density(time) {
    const [slot, part] = Panel.between(time);
    const [one, two] = [this.slotShares(slot, slot % 2), this.slotShares(slot + 1, (slot + 1) % 2)];
    for (let i = 0; i < this.places; i++) this.shares[i] = one[i] + (two[i] - one[i]) * part;
    return this.shares;
  }

  /** Moves of a flow per day: of the whole day, or within an hour of a time. */
  flow(index, time) {
    if (time === null) return this.flows.total[index] / this.days;
    const [slot] = Panel.between(time);
    let sum = 0;
    for (let s = Math.max(0, slot - 1); s <= Math.min(SLOTS - 2, slot + 1); s++) {
      sum += this.flows.profile[index * (SLOTS - 1) + s];
    }
    return sum / this.days;
  }

  /** Share of the days that change place around a time. */
  onTheMove(time) {
    const [slot] = Panel.between(time);
    return this.moving[slot];
  }
}

const panels = given.panels.map((packed) => new Panel(packed));

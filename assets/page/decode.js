// The data block: names as JSON, numbers as bytes. Decoded once; weights of a head when asked for.

const KEPT_CELLS = 1 << 24; // decoded weights that stay in memory: 64 MB

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const raw = atob(base64);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// Values by key, the least recently used ones dropped beyond `most` cells.
class Cache {
  constructor(most) {
    this.most = most;
    this.cells = 0;
    this.map = new Map();
  }

  get(key, size, make) {
    let value = this.map.get(key);
    if (value !== undefined) {
      this.map.delete(key);
    } else {
      value = make();
      this.cells += size;
      for (const [old, gone] of this.map) {
        if (this.cells <= this.most) break;
        this.map.delete(old);
        this.cells -= gone.size;
      }
      value = { size, value };
    }
    this.map.set(key, value);
    return value.value;
  }
}

class Sheet {
  constructor(data, bytes, bits, key) {
    Object.assign(this, data);
    this.key = key;
    this.columns ??= this.rows;
    this.square = this.columns === this.rows;
    this.layers = this.counts.length;
    this.bits = bits;
    this.bytes = bytes;
    this.places = new Map(this.heads.map(([layer, head], at) => [layer + "." + head, at]));
    this.gone = new Set(this.pruned.map(([layer, head]) => layer + "." + head));
    this.cache = new Cache(KEPT_CELLS);
    const largest = bits === 16 ? 65535 : 255;
    this.squares = Float64Array.from({ length: largest + 1 }, (_, code) => (code / largest) ** 2);
  }

  has(layer, head) {
    return this.places.has(layer + "." + head);
  }

  // Heads of a layer that are here.
  headsOf(layer) {
    return this.heads.filter(([at]) => at === layer).map(([, head]) => head);
  }

  // [T, S] as one run of numbers.
  weights(layer, head) {
    const place = this.places.get(layer + "." + head);
    if (place === undefined) return null;
    const [t, s] = [this.rows.tokens.length, this.columns.tokens.length];
    return this.cache.get(place, t * s, () => this.decode(place, t, s));
  }

  decode(place, t, s) {
    const scales = this.floats(this.scales_at + place * t * 4, t);
    const at = this.codes_at + place * t * s * (this.bits / 8);
    const codes = this.bits === 16
      ? new Uint16Array(this.bytes.buffer, at, t * s)
      : new Uint8Array(this.bytes.buffer, at, t * s);
    const out = new Float32Array(t * s);
    for (let i = 0, k = 0; i < t; i++) {
      for (let j = 0; j < s; j++, k++) out[k] = scales[i] * this.squares[codes[k]];
    }
    return out;
  }

  floats(at, count) {
    return new Float32Array(this.bytes.buffer, at, count);
  }

  // Queries and keys of a head, if they are here.
  neuron(layer, head) {
    return this.neurons.find((one) => one.layer === layer && one.head === head);
  }
}

let pagesRead = 0; // in the keys of caches: a served page reads several

function readPage(text) {
  const data = JSON.parse(text);
  const number = pagesRead++;
  const bytes = bytesOf(data.block);
  delete data.block;
  data.sides.forEach((side, i) => {
    side.sheets = side.sheets.map((sheet, k) => new Sheet(sheet, bytes, data.bits, [number, i, k].join("/")));
  });
  return data;
}

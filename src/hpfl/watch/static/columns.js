// Rounds of one run as columns of numbers in fixed room: when it is full, every other point goes.

const ROOM = 4096;

/** Columns by name; NaN where nothing is known. */
export class Columns {
  constructor(answer) {
    this.size = 0;
    this.count = answer.count ?? 0;
    this.evaluated = answer.evaluated ?? [];
    this.columns = new Map();
    this.version = 0;
    this.append(answer.columns);
    this.count = Math.max(this.count, answer.count ?? 0);
  }

  get names() {
    return [...this.columns.keys()];
  }

  has(name) {
    return this.columns.has(name);
  }

  /** Adds rows that came later than all there are. */
  append(rows) {
    const rounds = rows.round ?? [];
    const last = this.size ? this.columns.get("round")[this.size - 1] : 0;
    for (let k = 0; k < rounds.length; k++) {
      if (rounds[k] > last) this.push(rows, k);
    }
    this.version++;
  }

  push(rows, k) {
    if (this.size === ROOM) this.thin();
    for (const [name, values] of Object.entries(rows)) {
      if (!this.columns.has(name)) this.columns.set(name, new Float64Array(ROOM).fill(NaN));
      const value = values[k];
      this.columns.get(name)[this.size] = typeof value === "number" ? value : typeof value === "boolean" ? +value : NaN;
    }
    this.size++;
    this.count = Math.max(this.count, rows.round[k]);
  }

  /** Keeps one of each pair: the one that was evaluated, else the later. */
  thin() {
    const seen = this.columns.get(this.evaluated[0] ?? "personalised_accuracy");
    let kept = 0;
    for (let k = 0; k + 1 < this.size; k += 2) {
      const from = seen && Number.isNaN(seen[k + 1]) && !Number.isNaN(seen[k]) ? k : k + 1;
      for (const column of this.columns.values()) column[kept] = column[from];
      kept++;
    }
    for (const column of this.columns.values()) column.fill(NaN, kept);
    this.size = kept;
  }

  /** Where the last point at or before a round stands. */
  indexOf(round) {
    const rounds = this.columns.get("round");
    let low = 0;
    let high = this.size - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (rounds[middle] <= round) low = middle;
      else high = middle - 1;
    }
    return high < 0 ? -1 : low;
  }

  /** A value at a round, or that of the last point before it; null where unknown. */
  at(name, round) {
    const index = this.indexOf(round);
    const value = index < 0 ? NaN : (this.columns.get(name)?.[index] ?? NaN);
    return Number.isNaN(value) ? null : value;
  }

  /** The last known value of a column at or before a round: evaluations are not made in every round. */
  lastKnown(name, round) {
    const column = this.columns.get(name);
    for (let k = this.indexOf(round); column && k >= 0; k--) {
      if (!Number.isNaN(column[k])) return { value: column[k], round: this.columns.get("round")[k] };
    }
    return null;
  }

  /** Points (x, y) where both are known. */
  points(x, y) {
    const [across, up] = [this.columns.get(x), this.columns.get(y)];
    const xs = [];
    const ys = [];
    for (let k = 0; across && up && k < this.size; k++) {
      if (Number.isNaN(across[k]) || Number.isNaN(up[k])) continue;
      xs.push(across[k]);
      ys.push(up[k]);
    }
    return [xs, ys];
  }
}

// Answers kept for a while: the least recently used one goes first.

import { ask, carriedRounds } from "./data.js";

const MOST_WISHES = 12;

/** A map that never holds more than `room` answers. */
export class Cache {
  constructor(room) {
    this.room = room;
    this.kept = new Map();
  }

  get(key) {
    const value = this.kept.get(key);
    if (value !== undefined) {
      this.kept.delete(key);
      this.kept.set(key, value);
    }
    return value;
  }

  put(key, value) {
    this.kept.delete(key);
    this.kept.set(key, value);
    if (this.kept.size > this.room) this.kept.delete(this.kept.keys().next().value);
  }
}

/** Asks for answers and keeps them: at most `lanes` requests at once, each lane rests after one; the newest wish comes first. */
export class Shelf {
  constructor(room, onArrival, { lanes = 3, restMs = 0 } = {}) {
    this.cache = new Cache(room);
    this.onArrival = onArrival;
    Object.assign(this, { lanes, restMs, wishes: [], asked: new Set(), resting: 0 });
  }

  /** The answer where it is here; else undefined, and it is asked for. `{error}` where it cannot be had. */
  get(path) {
    const value = this.cache.get(path);
    if (value === undefined) this.wish(path);
    return value;
  }

  wish(path) {
    if (this.asked.has(path) || this.cache.kept.has(path)) return;
    this.wishes = this.wishes.filter((one) => one !== path);
    this.wishes.push(path);
    if (this.wishes.length > MOST_WISHES) this.wishes.shift();
    this.work();
  }

  work() {
    while (this.asked.size + this.resting < this.lanes && this.wishes.length) this.fetchOne(this.wishes.pop());
  }

  async fetchOne(path) {
    this.asked.add(path);
    const answer = await ask(path).catch((problem) => ({ error: problem.message }));
    this.asked.delete(path);
    this.cache.put(path, answer);
    this.onArrival(path, answer);
    if (!this.restMs) return this.work();
    this.resting++;
    return void setTimeout(() => {
      this.resting--;
      this.work();
    }, this.restMs);
  }

  forget(path) {
    this.cache.kept.delete(path);
  }
}

/** The path of a round's details. In an exported file: of the last round at or before it that the file carries. */
export function roundPath(run, round) {
  const carried = carriedRounds(run);
  const there = carried ? (carried.findLast((one) => one <= round) ?? carried[0]) : round;
  return `api/runs/${run}/rounds/${there}`;
}

// An answer about the run at hand that is asked for once, and now and then again while rounds come.

import { ask } from "./data.js";
import { currentRun, lastRound, redraw } from "./session.js";

const AGAIN_MS = 3000;

/** The answer to `api/runs/RUN/part` as `pack` keeps it; `version` grows with every answer, `key` names it. */
export class Renewed {
  constructor(part, pack) {
    Object.assign(this, { part, pack, run: "", count: 0, asked: 0, busy: false, version: 0, kept: pack({}), problem: "" });
  }

  get key() {
    return `${this.run}/${this.version}`;
  }

  /** Asks where there is something new to ask for; what comes is drawn. */
  async refresh() {
    const [run, count] = [currentRun(), lastRound()];
    if (!run || this.busy || (this.run === run.id && this.count === count)) return;
    const wait = this.run === run.id ? this.asked + AGAIN_MS - performance.now() : 0;
    if (wait > 0) return void setTimeout(redraw, wait);
    Object.assign(this, { busy: true, asked: performance.now() });
    const answer = await ask(`api/runs/${run.id}/${this.part}`).catch((problem) => ({ error: problem.message }));
    Object.assign(this, { busy: false, run: run.id, count, version: this.version + 1, problem: answer.error ?? "", kept: this.pack(answer) });
    redraw();
  }
}

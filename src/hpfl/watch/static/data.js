// The only way to data: a server's answers, or those that an exported file carries.

const carried = readCarried();

function readCarried() {
  const node = document.getElementById("hpfl-data");
  return node ? JSON.parse(node.textContent) : null;
}

/** Whether this page is a file that carries its data. */
export function isExported() {
  return carried !== null;
}

/** The answer to a path such as `api/runs`; in an exported file the query is left to the caller. */
export async function ask(path) {
  if (carried) {
    const answer = carried[path.split("?")[0]];
    if (answer === undefined) throw new Error("This file does not carry it.");
    return answer;
  }
  const reply = await fetch(path, { headers: { accept: "application/json" } });
  if (reply.ok) return reply.json();
  const problem = await reply.json().catch(() => ({}));
  throw new Error(problem.error ?? `The server answered ${reply.status}.`);
}

/** Rounds of a run whose details an exported file carries; null where all can be asked for. */
export function carriedRounds(run) {
  return carried?.["api/exported"]?.rounds?.[run] ?? null;
}

/** What an exported file says of itself. */
export function carriedNote() {
  return carried?.["api/exported"]?.note ?? "";
}

/** Listens to news: `onRound`, `onState`, `onReset` take an event's data, `onRuns` says that there are others, `onLine` whether the connection stands. */
export function listen({ onRound, onState, onReset, onRuns, onLine }) {
  if (carried) return;
  const source = new EventSource("api/events");
  source.addEventListener("open", () => onLine(true));
  source.addEventListener("error", () => onLine(false));
  source.addEventListener("round", (event) => onRound(JSON.parse(event.data)));
  source.addEventListener("reset", (event) => onReset(JSON.parse(event.data)));
  source.addEventListener("runs", onRuns);
  source.addEventListener("state", (event) => onState(JSON.parse(event.data)));
}

// What is looked at, kept in the address so that a link shows a colleague the same thing.

const DEFAULTS = {
  view: "curves", run: "", round: "", x: "time_s", y: "personalised_accuracy", loss: "meta_loss", hide: "", band: "range",
  window: "5", edge: "", ue: "", metric: "", theme: "",
};
const listeners = [];
const settings = { ...DEFAULTS };
let pendingWrite = null;

/** The value of a setting, as text; "" where nothing was chosen. */
export function setting(name) {
  return settings[name];
}

/** Changes settings and tells everyone; a new view is a step of the browser's history. */
export function choose(changes) {
  const names = Object.keys(changes).filter((name) => settings[name] !== String(changes[name]));
  if (!names.length) return;
  const step = names.includes("view");
  if (step) writeAddress(false);
  for (const name of names) settings[name] = String(changes[name]);
  if (step) writeAddress(true);
  else if (pendingWrite === null) pendingWrite = setTimeout(() => writeAddress(false), 200);
  tell(names);
}

export function onChoice(listener) {
  listeners.push(listener);
}

function tell(names) {
  for (const listener of listeners) listener(names);
}

/** Takes the settings from the address. */
export function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) settings[name] = given.get(name) ?? DEFAULTS[name];
}

function writeAddress(step) {
  clearTimeout(pendingWrite);
  pendingWrite = null;
  const said = Object.entries(settings).filter(([name, value]) => value !== DEFAULTS[name]);
  const hash = `#${new URLSearchParams(said)}`;
  if (hash === location.hash || (hash === "#" && !location.hash)) return;
  if (step) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}

/** Listens to the address: a link that is followed or a step back changes what is seen. */
export function followAddress() {
  const again = () => {
    readAddress();
    tell(Object.keys(DEFAULTS));
  };
  addEventListener("hashchange", again);
}

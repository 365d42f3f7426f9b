// Playing an episode: one session of this page, the steps made, and which of them is looked at.

import { call, newKey, Refused } from "./env_calls.js";
import { $, callOf, describe, element, number, onSubmit, plural, say } from "./env_elements.js";

const FEW_ACTIONS = 12; // up to these nobody needs a filter
const BLANK = /(?<=\[)<[a-z_]+>(?=[\],])/; // search[<query>]
const LOST = ["no-session", "lease-expired", "broken", "env-error", "step-timeout"];
const MOVES = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1, Home: -Infinity, End: Infinity };

let play = null;
let busy = false;
let recalled = 0; // steps back from now whose action is in the field

/** Whether a shortened session id is that of this page. */
export const isMine = (shortId) => Boolean(play) && play.id.startsWith(shortId.replace("…", ""));

// ----------------------------------------------------------------------------- the session

/** Does one thing at a time, and says in a sentence why it could not be done. */
async function attempt(work) {
  if (busy) return;
  busy = true;
  const before = play?.id;
  $("play").setAttribute("aria-busy", "true");
  try {
    await work();
    say("");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    say(error.message);
    if (play && LOST.includes(error.slug)) {
      play.lost = true;
      if (play.steps.length) show(play.viewed);
    }
  } finally {
    busy = false;
    $("play").removeAttribute("aria-busy");
    if (play?.id !== before) dispatchEvent(new Event("session")); // the list is out of date
  }
}

async function start() {
  const wishes = {};
  if ($("split").value) wishes.split = $("split").value;
  if ($("task").value.trim()) wishes.task_id = $("task").value.trim();
  if ($("seed").value) wishes.seed = Number($("seed").value);
  const envId = $("env").value;
  if (!play || play.lost || play.envId !== envId) {
    await end();
    const made = await call("POST", "v1/sessions", { env_id: envId }, { key: newKey() });
    play = { id: made.session_id, envId, spec: made.spec, steps: [], viewed: 0, lost: false };
    play.renewal = setInterval(renew, (made.lease_s * 1000) / 3);
  }
  await reset(wishes);
}

async function reset(wishes) {
  const begun = await call("POST", `v1/sessions/${play.id}/reset`, wishes, { key: newKey() });
  Object.assign(play, { wishes, episode: begun.episode });
  play.steps = [{ ...begun, action: "", reward: 0 }];
  $("history").replaceChildren();
  $("action").value = $("filter").value = "";
  $("invitation").hidden = true;
  $("episode").hidden = false;
  remember();
  // elsewhere a keyboard would cover what is to be read
  if (matchMedia("(pointer: fine)").matches) $("action").focus();
}

async function step(action) {
  const from = document.activeElement;
  const among = $("actions").contains(from);
  const request = { episode: play.episode, step_index: play.steps.length - 1, action };
  const answer = await call("POST", `v1/sessions/${play.id}/step`, request);
  play.steps.push({ ...answer, action });
  $("action").value = $("filter").value = "";
  remember();
  if (isOver()) $("history").lastElementChild.firstElementChild.focus();
  else if (among) $("actions").querySelector("button")?.focus();
  else if (from === $("filter") && from.hidden) $("action").focus();
}

async function end() {
  if (!play) return;
  const id = forget();
  try {
    await call("DELETE", `v1/sessions/${id}`);
  } catch (error) {
    if (!LOST.includes(error.slug)) throw error;
  }
}

/** Puts this page's session away; its id. */
function forget() {
  const { id, renewal } = play;
  clearInterval(renewal);
  play = null;
  $("episode").hidden = true;
  $("invitation").hidden = false;
  return id;
}

async function renew() {
  try {
    await call("POST", `v1/sessions/${play.id}/renew`, {});
  } catch {
    // the next step will say it
  }
}

const last = () => play.steps[play.steps.length - 1];
const isOver = () => play.lost || last().terminated || last().truncated;

function send(action) {
  if (action && play?.steps.length && !isOver()) attempt(() => step(action));
}

/** Sends an action, or puts one with a blank into the field, its blank selected. */
function choose(action) {
  const blank = BLANK.exec(action);
  if (!blank) {
    send(action);
    return;
  }
  $("action").value = action;
  $("action").focus();
  $("action").setSelectionRange(blank.index, blank.index + blank[0].length);
}

// ----------------------------------------------------------------------- what is looked at

/** Adds the newest step to the history and looks at it. */
function remember() {
  const index = play.steps.length - 1;
  const { action, reward, info } = last();
  const entry = element("button", "", { type: "button" });
  const name = element("span", index ? action : "start", { className: "action" });
  entry.append(element("span", String(index), { className: "index" }), name);
  if (reward) entry.append(element("span", number(reward), { className: "reward" }));
  entry.classList.toggle("refused", !info.action_valid);
  entry.addEventListener("click", () => show(index));
  entry.addEventListener("focus", () => show(index));
  const item = element("li");
  item.append(entry);
  $("history").append(item);
  $("history").scrollTop = $("history").scrollHeight;
  recalled = 0;
  show(index);
}

function show(index) {
  play.viewed = index;
  const { action, info } = play.steps[index];
  const now = index === play.steps.length - 1;
  document.title = `${play.envId} · step ${index}`;
  $("goal").textContent = info[play.spec.goal_key] ?? "";
  const seed = info.seed < 0 ? "" : `seed ${info.seed}`;
  const origin = [play.envId, info.split, info.task_id, info.task_family, seed, `episode ${play.episode}`];
  $("task-line").textContent = origin.filter(Boolean).join(" · ");
  $("observation-title").textContent = index ? `Observation ${index}` : "First observation";
  $("action-error").textContent = info.action_error && `${action}: ${info.action_error}`;
  $("action-error").hidden = !info.action_error;
  $("now").hidden = now;
  $("episode").classList.toggle("past-shown", !now);
  $("action").disabled = isOver();
  $("history").querySelectorAll("button").forEach((entry, place) => {
    entry.tabIndex = place === index ? 0 : -1;
    entry.ariaCurrent = place === index ? "step" : null;
  });
  showFigures(index);
  showObservation(index);
  showActions();
  const texts = Object.entries(info).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]);
  describe($("info"), texts);
}

function showFigures(index) {
  const { reward, terminated, truncated, info } = play.steps[index];
  const sum = play.steps.slice(0, index + 1).reduce((total, each) => total + each.reward, 0);
  describe($("figures"), [
    ["step", number(info.step)],
    ["steps left", info.steps_left < 0 ? "∞" : number(info.steps_left)],
    ["reward", number(reward)],
    ["return", number(sum)],
    ["score", number(info.score)],
  ]);
  let [words, outcome] = ["running", ""];
  if (terminated || truncated) {
    outcome = info.success ? "success" : "failure";
    words = `${terminated ? "ended" : "out of steps"}, ${info.success ? "success" : "no success"}`;
  } else if (play.lost) {
    [words, outcome] = ["session lost", "failure"];
  }
  $("verdict").textContent = words;
  $("verdict").dataset.outcome = outcome;
}

/** The lines of an observation as people read them. */
const linesOf = (text) => text.split(/\n| ?\[SEP\] ?/);

function showObservation(index) {
  const { observation } = play.steps[index];
  const exact = $("exact").checked;
  const before = new Map(); // line -> how often it was there
  for (const line of index ? linesOf(play.steps[index - 1].observation) : []) {
    before.set(line, (before.get(line) ?? 0) + 1);
  }
  const lines = linesOf(observation).map((text) => {
    const known = before.get(text) ?? 0;
    before.set(text, known - 1);
    return element("div", text || "\n", { className: index && text && known < 1 ? "new" : "" });
  });
  const fresh = lines.filter((line) => line.className).length;
  $("observation").replaceChildren(...(exact ? [observation] : lines));
  $("observation").scrollTop = 0;
  $("novelty").textContent = index ? `${fresh} of ${plural(lines.length, "line")} new` : "";
}

function showActions() {
  const listed = play.steps[play.viewed].info.admissible_actions;
  const open = play.viewed === play.steps.length - 1 && !isOver();
  const actions = listed.length ? listed : play.spec.tools.map((tool) => callOf(tool.function));
  const words = $("filter").value.toLowerCase().split(/\s+/);
  const fits = (action) => words.every((word) => action.toLowerCase().includes(word));
  const found = actions.filter(fits);
  $("filter").hidden = actions.length <= FEW_ACTIONS;
  const count = found.length < actions.length ? `${found.length} of ${actions.length}` : actions.length;
  $("action-count").textContent = listed.length ? `${count} admissible` : "any text, in these calls";
  const buttons = found.map((action, place) => {
    const button = element("button", action, { type: "button", disabled: !open });
    button.tabIndex = place ? -1 : 0;
    button.classList.toggle("fill", BLANK.test(action));
    button.addEventListener("click", () => choose(action));
    return button;
  });
  $("actions").replaceChildren(...buttons);
}

// -------------------------------------------------------------------------------- keyboard

/** Arrows walk through a list of buttons, which is one stop of the tabulator. */
function walk(event) {
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  if (!(event.key in MOVES) || !buttons.length) return;
  event.preventDefault();
  const place = buttons.indexOf(document.activeElement) + MOVES[event.key];
  const next = Math.max(0, Math.min(place, buttons.length - 1));
  buttons.forEach((button, each) => (button.tabIndex = each === next ? 0 : -1));
  buttons[next].focus();
}

/** Up and down in the field bring back the actions of this episode. */
function recall(event) {
  if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
  event.preventDefault();
  const back = recalled - MOVES[event.key];
  recalled = Math.max(0, Math.min(back, play.steps.length - 1));
  $("action").value = recalled ? play.steps[play.steps.length - recalled].action : "";
}

/** Enter in the filter takes the only action left, or goes to the first. */
function leaveFilter(event) {
  if (event.key !== "Enter" && event.key !== "ArrowDown") return;
  event.preventDefault();
  const buttons = $("actions").querySelectorAll("button");
  if (event.key === "Enter" && buttons.length === 1) buttons[0].click();
  else buttons[0]?.focus();
}

function backToNow() {
  show(play.steps.length - 1);
  $(isOver() ? "reset" : "action").focus();
}

onSubmit("start-form", () => attempt(start));
onSubmit("action-form", () => send($("action").value));
$("reset").addEventListener("click", () => {
  const again = { ...play.wishes, task_id: play.steps[0].info.task_id };
  attempt(() => reset(again));
});
$("end").addEventListener("click", () => attempt(end));
$("now").addEventListener("click", backToNow);
$("exact").addEventListener("change", () => showObservation(play.viewed));
$("filter").addEventListener("input", showActions);
$("filter").addEventListener("keydown", leaveFilter);
$("action").addEventListener("keydown", recall);
$("actions").addEventListener("keydown", walk);
$("history").addEventListener("keydown", walk);
$("episode").addEventListener("keydown", (event) => {
  if (event.key === "Escape") backToNow();
});
addEventListener("pagehide", () => {
  if (!play) return;
  const address = `v1/sessions/${forget()}`;
  call("DELETE", address, null, { tries: 1, keepalive: true }).catch(() => {});
});

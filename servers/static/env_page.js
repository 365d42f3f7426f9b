// The page of an environment server: what is served, who plays, and the token if one is wanted.

import { call, connection, pause, Refused } from "./env_calls.js";
import { $, callOf, describe, duration, element, number, onSubmit, plural, say } from "./env_elements.js";
import { isMine } from "./env_play.js";

const REFRESH_S = 3;

let info = null; // the answer of /v1/info
let informed = { status: "", at: 0 }; // when it was given

async function refresh() {
  try {
    const { status, reason } = await once("readyz");
    showStatus(status, reason);
    if (status === "starting") return;
    if (informed.status !== status) {
      const first = !info;
      info = await once("v1/info");
      informed = { status, at: performance.now() };
      connection.patienceS = info.limits.step_timeout_s + 30;
      if (first) showEnvironments();
    }
    const { sessions } = await once("v1/sessions");
    showFacts();
    showSessions(sessions);
    open();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.slug === "unauthorized") say(connection.token ? error.message : "");
    else if (error.slug !== "loading") showStatus("away", error.message);
  }
}

const once = (path) => call("GET", path, null, { tries: 1 });

async function keepRefreshing() {
  for (;;) {
    if (!document.hidden && $("token-form").hidden) await refresh();
    await pause(REFRESH_S);
  }
}

function open() {
  if (!$("content").hidden) return;
  say("");
  $("token-form").hidden = true;
  $("content").hidden = false;
  $("env").focus({ preventScroll: true });
}

function askForToken() {
  $("token-form").hidden = false;
  $("content").hidden = true;
  $("token").focus();
}

function showStatus(status, reason) {
  $("status").dataset.status = status;
  if (status === "away") informed.status = ""; // it may come back with other limits
  $("status").textContent = reason && status !== "away" ? `${status}: ${reason}` : reason || status;
}

function showFacts() {
  const { limits } = info;
  const uptime = info.uptime_s + (performance.now() - informed.at) / 1000;
  describe($("facts"), [
    ["protocol", info.protocol],
    ["version", info.suite_version],
    ["up", duration(uptime)],
    ["sessions", `at most ${number(limits.max_sessions)}`],
    ["lease", duration(limits.lease_s)],
    ["step", `at most ${duration(limits.step_timeout_s)}`],
    ["threads", number(limits.threads)],
    ["queue", number(limits.queue)],
  ]);
}

function showEnvironments() {
  const choices = info.envs.map(({ env_id }) => element("option", env_id, { value: env_id }));
  $("env").replaceChildren(...choices);
  $("envs").replaceChildren(...info.envs.map(environmentCard));
  showSplits();
}

function environmentCard(env) {
  const card = element("article", "", { className: "env" });
  const choose = element("button", env.env_id, { type: "button", title: `Play ${env.env_id}` });
  choose.addEventListener("click", () => {
    $("env").value = env.env_id;
    showSplits();
    $("split").focus();
  });
  const head = element("h3");
  head.append(choose, element("span", `version ${env.version}`, { className: "quiet" }));
  const horizon = env.max_episode_steps ? plural(env.max_episode_steps, "step") : "no step limit";
  const splits = element("p", "", { className: "splits" });
  for (const [name, count] of Object.entries(env.splits)) {
    const split = element("span", `${name} `);
    split.append(element("b", number(count)));
    splits.append(split, " ");
  }
  const tools = element("p", "", { className: "tools" });
  for (const { function: tool } of env.tools) {
    tools.append(element("code", callOf(tool), { title: tool.description }), " ");
  }
  card.append(head, element("p", `${plural(env.tasks, "task")}, ${horizon}`), splits, tools);
  return card;
}

function showSplits() {
  const env = info.envs.find(({ env_id }) => env_id === $("env").value);
  const names = Object.keys(env?.splits ?? {});
  const choices = names.map((name) => element("option", name, { value: name }));
  const chosen = $("split").value;
  $("split").replaceChildren(element("option", "any", { value: "" }), ...choices);
  if (names.includes(chosen)) $("split").value = chosen;
}

function showSessions(sessions) {
  const most = number(info.limits.max_sessions);
  $("session-count").textContent = `${number(sessions.length)} of ${most}`;
  const rows = sessions.map(sessionRow);
  const none = element("tr");
  none.append(element("td", "none", { colSpan: 5, className: "quiet" }));
  $("sessions").replaceChildren(...(rows.length ? rows : [none]));
}

function sessionRow({ session, env_id, episode, step_index, age_s, broken }) {
  const mine = isMine(session);
  const row = element("tr", "", { className: mine ? "mine" : "" });
  row.title = mine ? "played on this page" : "";
  const where = broken ? `${env_id} (broken)` : env_id;
  const cells = [session, where, number(episode), number(step_index), duration(age_s)];
  row.append(...cells.map((text) => element("td", text)));
  return row;
}

connection.onUnauthorized = askForToken;
addEventListener("session", refresh);
$("env").addEventListener("change", showSplits);
onSubmit("token-form", () => {
  connection.token = $("token").value.trim();
  $("token").value = "";
  refresh();
});
keepRefreshing();

"use strict";
// Every text of a run enters the page through textContent: it is never read as markup.
(() => {
  const $ = (id) => document.getElementById(id);
  const episodes = JSON.parse($("data").textContent);
  const [list, viewer, filter, slider] = ["list", "viewer", "filter", "slider"].map($);
  // Each select with what it compares.
  const selects = { agent: "agent", env: "env", outcome: "outcome", family: "family" };
  const PAGE = 200;
  const MARK = {
    success: "✓", failure: "✗", truncated_steps: "…", truncated_context: "…", error: "!",
  };
  let shown = [];
  let drawn = 0;
  let current = null;
  let played = null; // the round shown: the episode itself, or one that was reflected on
  let step = 0;

  const keyOf = (e) => [e.agent, e.env, e.task, e.trial].map(encodeURIComponent).join("/");
  const byKey = new Map(episodes.map((e) => [keyOf(e), e]));
  const words = (name) => name.replaceAll("_", " ");
  const fixed = (value, decimals) => (value === null ? "–" : value.toFixed(decimals));
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const ms = (seconds) => (seconds === null ? "–" : `${fixed(1000 * seconds, 2)} ms`);
  const tone = (good) => (good ? "good" : "bad");

  function element(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function fill(select, values) {
    const distinct = [...new Set(values)].filter(Boolean).sort();
    for (const value of distinct) {
      const option = element("option", "", words(value));
      option.value = value;
      select.append(option);
    }
    select.hidden = distinct.length < 2;
  }

  // ---------------------------------------------------------------- the list

  /** What the filter searches: names as the records have them, and as the list shows them. */
  const searched = (e) =>
    [e.task, e.family, words(e.family), e.agent, e.env, e.outcome, words(e.outcome)]
      .join(" ").toLowerCase();

  function apply() {
    const wanted = filter.value.trim().toLowerCase();
    shown = episodes.filter((e) =>
      Object.entries(selects).every(([id, field]) => !$(id).value || e[field] === $(id).value) &&
      searched(e).includes(wanted));
    $("count").textContent = `${shown.length} of ${many(episodes.length, "episode")}`;
    list.hidden = !shown.length;
    list.replaceChildren();
    drawn = 0;
    draw(PAGE);
    const kept = shown.includes(current);
    if (kept) open(current, step, roundsOf(current).indexOf(played) + 1);
    else open(shown[0] || null, 0);
  }

  function draw(upTo) {
    list.querySelector(".more")?.remove();
    for (; drawn < Math.min(upTo, shown.length); drawn++) {
      const e = shown[drawn];
      const item = element("li");
      item.id = `episode-${drawn}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      item.append(
        element("span", tone(e.success), MARK[e.outcome]),
        element("bdi", "task", e.task + (e.trial ? ` (trial ${e.trial})` : "")),
        element("span", "quiet", fixed(e.score, 2)),
        element("small", "", [words(e.outcome), many(e.steps.length, "step"), e.agent, words(e.family)]
          .filter(Boolean).join(", ")));
      item.addEventListener("click", () => choose(e));
      list.append(item);
    }
    if (drawn < shown.length) {
      const more = element("li", "more", `show ${shown.length - drawn} more`);
      more.addEventListener("click", () => { draw(drawn + PAGE); mark(); });
      list.append(more);
    }
  }

  function mark() {
    const place = shown.indexOf(current);
    if (place >= drawn) draw(place + PAGE);
    list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    const item = list.children[place];
    if (!item) return void list.removeAttribute("aria-activedescendant");
    item.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", item.id);
    const top = item.offsetTop - list.offsetTop;
    const below = top + item.offsetHeight - list.clientHeight;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (below > list.scrollTop) list.scrollTop = below;
  }

  // -------------------------------------------------------------- the episode

  const roundsOf = (e) => [...e.earlier, e];

  function open(e, at, round) {
    current = e;
    mark();
    $("nothing").hidden = e !== null;
    $("nothing").textContent = "No episode matches the filter.";
    $("episode").hidden = e === null;
    if (e === null) return;
    $("task").textContent = e.task;
    $("facts").replaceChildren(...chips([
      [`${MARK[e.outcome]} ${words(e.outcome)}`, tone(e.success)],
      [`score ${fixed(e.score, 3)}`],
      [e.agent], [e.env], [words(e.family)], [e.split && `split ${e.split}`],
      [e.trial && `trial ${e.trial}`], [`seed ${e.seed}`], [`${fixed(e.wall_s, 2)} s`],
      [e.attempts > 1 && many(e.attempts, "attempt")],
      [e.usd !== null && `US $ ${fixed(e.usd, 4)}`],
    ]));
    $("failure").replaceChildren(...(e.failure
      ? block(`! ${words(e.failure.kind)}, where: ${e.failure.origin}`, e.failure.message) : []));
    const rounds = roundsOf(e);
    $("rounds").hidden = rounds.length < 2;
    $("rounds").replaceChildren(...rounds.map((one, i) => {
      const button = element("button", "", `${MARK[one.outcome]} round ${i + 1} of ${rounds.length}: ${words(one.outcome)}`);
      button.type = "button";
      button.addEventListener("click", () => { enter(one); go(0, true); });
      return button;
    }));
    enter(rounds[round - 1] || e);
    go(at);
  }

  /** Show one round of an episode: the last, which counts, or one that the agent reflected on. */
  function enter(round) {
    played = round;
    slider.max = round.steps.length;
    $("strip").replaceChildren(...round.steps.map(tile), tile(null, round.steps.length));
    roundsOf(current).forEach((one, i) =>
      $("rounds").children[i].setAttribute("aria-pressed", String(one === round)));
  }

  /** One step on or back, over the border to the next round or the one before. */
  function move(by) {
    const rounds = roundsOf(current);
    const next = rounds[rounds.indexOf(played) + by];
    const within = step + by >= 0 && step + by <= played.steps.length;
    if (within || !next) return go(step + by, true);
    enter(next);
    go(by > 0 ? 0 : Infinity, true);
  }

  function tile(s, i) {
    const item = element("li", "", s === null ? "end" : s.valid ? `${i + 1}` : `${i + 1} ✗`);
    if (s && !s.valid) item.classList.add("bad");
    if (s && s.reward > 0) {
      item.classList.add("good");
      item.textContent += " +";
      item.title = `reward ${s.reward}`;
    }
    item.addEventListener("click", () => go(i, true));
    return item;
  }

  function go(at, remember) {
    const e = current;
    const rounds = roundsOf(e);
    const last = played.steps.length;
    step = Math.max(0, Math.min(last, at));
    slider.value = step;
    $("back").disabled = step === 0 && played === rounds[0];
    $("next").disabled = step === last && played === e;
    $("place").textContent = step === last ? `end of ${many(last, "step")}` : `step ${step + 1} of ${last}`;
    slider.setAttribute("aria-valuetext", $("place").textContent);
    [...$("strip").children].forEach((item, i) => item.classList.toggle("here", i === step));
    $("step").replaceChildren(...(step < last ? stepParts(played.steps[step]) : endParts(played)));
    const address = `#${keyOf(e)}/${step + 1}` + (played === e ? "" : `/${rounds.indexOf(played) + 1}`);
    $("link").setAttribute("href", address);
    if (remember) history.replaceState(null, "", address);
  }

  const choose = (e) => { open(e, 0); go(0, true); };

  function chips(pairs) {
    return pairs.filter(([text]) => text).map(([text, className]) => element("span", className, text));
  }

  function block(title, text, className) {
    const body = element("pre", className, text || "(empty)");
    body.dir = "auto"; // a text of another direction stays in its own box
    return [element("h4", "", title), body];
  }

  function values(pairs) {
    const shownValues = element("dl", "values");
    for (const [name, value, className] of pairs) {
      const row = element("div", className);
      row.append(element("dt", "", name), element("dd", className === "long" ? "mono" : "", value));
      shownValues.append(row);
    }
    return shownValues;
  }

  function stepParts(s) {
    const parts = block("Observation", s.obs);
    if (s.messages.length) {
      const prompt = element("details");
      prompt.append(element("summary", "", `Prompt, ${many(s.messages.length, "message")}`));
      for (const m of s.messages) prompt.append(...block(m.role, m.content));
      if (current.tools) {
        prompt.append(element("p", "chips", "The environment's functions went with these messages, as tools."));
      }
      parts.push(prompt);
    }
    if (s.reply === s.action && !s.calls.length) {
      parts.push(...block("Reply and action", s.action, "action"));
    } else {
      if (s.reply || !s.calls.length) parts.push(...block("Reply", s.reply));
      for (const [name, given] of s.calls) parts.push(...block("Tool call", `${name}(${given})`));
      parts.push(...block("Action", s.action, "action"));
    }
    const t = s.tokens;
    const row = element("p", "chips");
    row.append(...chips([
      [s.valid ? "✓ valid" : `✗ invalid: ${s.error}`, tone(s.valid)],
      [s.dropped && `prompt without its ${many(s.dropped, "oldest step")}`],
      [s.cut && `prompt cut by ${many(s.cut, "character")}`],
      [s.truncated && "the horizon ended the episode here"],
    ]));
    parts.push(row, values([
      ["Reward", s.reward === null ? "–" : String(s.reward)],
      ["Admissible actions", s.admissible ? String(s.admissible) : "open-ended"],
      ["Tokens", t.prompt + t.completion ? `${t.prompt} + ${t.completion}, ${t.cached} cached` : "none"],
      ["Agent latency", ms(s.latency.model)],
      ["Environment latency", ms(s.latency.env)],
      ["State hash after the step", s.state, "long"],
    ]));
    return parts;
  }

  function endParts(e) {
    const parts = e.steps.length ? block("Final observation", e.final_obs) : [];
    if (e.reflection !== undefined) {
      const t = e.tokens;
      parts.push(...block("Reflection, before the task was played again", e.reflection, "action"));
      parts.push(values([["Score of this round", fixed(e.score, 3)],
        ["Tokens of the reflection", `${t.prompt} + ${t.completion}, ${t.cached} cached`]]));
    }
    const metrics = Object.entries(e.metrics || {});
    if (metrics.length) {
      parts.push(element("h4", "", "Metrics"));
      parts.push(values(metrics.map(([name, value]) => [words(name), value === null ? "–" : String(value)])));
    }
    return parts;
  }

  // ------------------------------------------------------------------ the keys

  function travel(by) {
    const next = shown[shown.indexOf(current) + by];
    if (next) choose(next);
  }

  /** Whether keys are meant for the episodes: the focus is there, or nowhere and they are in view. */
  function meant(target) {
    const browser = $("browser");
    if (browser.contains(target)) return true;
    if (target !== document.body) return false;
    const box = browser.getBoundingClientRect();
    return box.top < innerHeight / 2 && box.bottom > innerHeight / 2;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (event.key === "Escape") { // from a control to the episode, from there out
      const inner = target !== viewer && $("browser").contains(target);
      return void (inner ? viewer.focus({ preventScroll: true }) : target.blur());
    }
    if (target === filter && ["Enter", "ArrowDown"].includes(event.key)) {
      event.preventDefault();
      return void (shown.length && list.focus());
    }
    if (target === filter || target.tagName === "SELECT") return;
    if (event.key === "/") {
      event.preventDefault();
      return void filter.focus();
    }
    if (!meant(target)) return;
    const moves = {
      ArrowLeft: () => move(-1), ArrowRight: () => move(1),
      Home: () => go(0, true), End: () => go(Infinity, true),
      ArrowUp: () => travel(-1), ArrowDown: () => travel(1),
    };
    if (!moves[event.key]) return;
    event.preventDefault(); // also where nothing is shown: the page would run away
    if (current || event.key === "ArrowDown") moves[event.key]();
  });

  /** Parts of the address "#agent/env/task/trial", "/step" and "/round" behind it or not. */
  function visit() {
    const parts = location.hash.slice(1).split("/");
    if (parts.length < 4) return;
    const e = byKey.get(parts.slice(0, 4).join("/"));
    if (!e) return void missing(parts);
    const at = Math.max(0, Number(parts[4] || 1) - 1 || 0);
    if (!shown.includes(e)) {
      filter.value = "";
      for (const id of Object.keys(selects)) $(id).value = "";
      current = e;
      apply();
    }
    open(e, at, Number(parts[5] || 0));
    $("episodes").scrollIntoView();
    viewer.focus({ preventScroll: true });
  }

  function missing(parts) {
    open(null, 0);
    const [agent, env, task, trial] = parts.map(readable);
    $("nothing").textContent = "The address names an episode that is not on this page: " +
      `agent ${agent}, environment ${env}, task ${task}, trial ${trial}.`;
    $("episodes").scrollIntoView();
  }

  function readable(part) {
    try {
      return decodeURIComponent(part);
    } catch {
      return part; // no URL of ours, shown as it is
    }
  }

  // ---------------------------------------------------------------- the tables

  /** Tables take a stop of the Tab key only where they scroll. */
  const scrollers = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const table of document.querySelectorAll(".scroll")) scrollers.observe(table);

  for (const [id, field] of Object.entries(selects)) fill($(id), episodes.map((e) => e[field]));
  for (const control of [filter, ...Object.keys(selects).map($)]) control.addEventListener("input", apply);
  slider.addEventListener("input", () => go(Number(slider.value), true));
  $("back").addEventListener("click", () => move(-1));
  $("next").addEventListener("click", () => move(1));
  window.addEventListener("hashchange", visit);
  $("browser").hidden = false;
  apply();
  visit();
})();

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

  function apply() {
    const wanted = filter.value.toLowerCase();
    shown = episodes.filter((e) =>
      Object.entries(selects).every(([id, field]) => !$(id).value || e[field] === $(id).value) &&
      `${e.task} ${e.family} ${e.agent} ${e.env}`.toLowerCase().includes(wanted));
    $("count").textContent = `${shown.length} of ${many(episodes.length, "episode")}`;
    list.replaceChildren();
    drawn = 0;
    draw(PAGE);
    const kept = shown.includes(current);
    open(kept ? current : shown[0] || null, kept ? step : 0);
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

  function open(e, at) {
    current = e;
    mark();
    $("nothing").hidden = e !== null;
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
    slider.max = e.steps.length;
    $("strip").replaceChildren(...e.steps.map(tile), tile(null, e.steps.length));
    go(at);
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
    const last = e.steps.length;
    step = Math.max(0, Math.min(last, at));
    slider.value = step;
    $("back").disabled = step === 0;
    $("next").disabled = step === last;
    $("place").textContent = step === last ? `end of ${many(last, "step")}` : `step ${step + 1} of ${last}`;
    slider.setAttribute("aria-valuetext", $("place").textContent);
    [...$("strip").children].forEach((item, i) => item.classList.toggle("here", i === step));
    $("step").replaceChildren(...(step < last ? stepParts(e.steps[step]) : endParts(e)));
    const address = `#${keyOf(e)}/${step + 1}`;
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
      parts.push(prompt);
    }
    if (s.reply === s.action) parts.push(...block("Reply and action", s.action, "action"));
    else parts.push(...block("Reply", s.reply), ...block("Action", s.action, "action"));
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
    const metrics = Object.entries(e.metrics);
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
    if (event.key === "Escape") return void target.blur();
    if (target === filter || target.tagName === "SELECT") return;
    if (event.key === "/") {
      event.preventDefault();
      return void filter.focus();
    }
    if (!current || !meant(target)) return;
    const moves = {
      ArrowLeft: () => go(step - 1, true), ArrowRight: () => go(step + 1, true),
      Home: () => go(0, true), End: () => go(Infinity, true),
      ArrowUp: () => travel(-1), ArrowDown: () => travel(1),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });

  /** The episode and step of the address, "#agent/env/task/trial" with "/step" behind it or not. */
  function fromAddress() {
    const parts = location.hash.slice(1).split("/");
    return [byKey.get(parts.slice(0, 4).join("/")) || null, Math.max(0, Number(parts[4] || 1) - 1 || 0)];
  }

  function visit() {
    const [e, at] = fromAddress();
    if (!e) return;
    if (!shown.includes(e)) {
      filter.value = "";
      for (const id of Object.keys(selects)) $(id).value = "";
      current = e;
      apply();
    }
    open(e, at);
    $("episodes").scrollIntoView();
    viewer.focus({ preventScroll: true });
  }

  for (const [id, field] of Object.entries(selects)) fill($(id), episodes.map((e) => e[field]));
  for (const control of [filter, ...Object.keys(selects).map($)]) control.addEventListener("input", apply);
  slider.addEventListener("input", () => go(Number(slider.value), true));
  $("back").addEventListener("click", () => go(step - 1, true));
  $("next").addEventListener("click", () => go(step + 1, true));
  window.addEventListener("hashchange", visit);
  $("browser").hidden = false;
  apply();
  visit();
})();

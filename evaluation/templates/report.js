"use strict";
// Every text of a run enters the page through textContent: it is never read as markup.
(() => {
  const episodes = JSON.parse(document.getElementById("data").textContent);
  const list = document.getElementById("list");
  const viewer = document.getElementById("viewer");
  const filter = document.getElementById("filter");
  const outcome = document.getElementById("outcome");
  const agent = document.getElementById("agent");
  const count = document.getElementById("count");
  const PAGE = 300;
  const MARK = {
    success: "✓", failure: "✗", truncated_steps: "…", truncated_context: "…", error: "!",
  };
  let shown = [];
  let drawn = 0;
  let current = null;
  let step = 0;

  const keyOf = (e) => [e.agent, e.env, e.task, e.trial].map(encodeURIComponent).join("/");
  const words = (name) => name.replaceAll("_", " ");
  const fixed = (value, decimals) => (value === null ? "–" : value.toFixed(decimals));

  function element(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function options(select, values) {
    for (const value of [...new Set(values)].sort()) {
      const option = element("option", "", words(value));
      option.value = value;
      select.append(option);
    }
  }

  function apply() {
    const wanted = filter.value.toLowerCase();
    shown = episodes.filter((e) =>
      (!outcome.value || e.outcome === outcome.value) &&
      (!agent.value || e.agent === agent.value) &&
      `${e.task} ${e.family} ${e.agent} ${e.env}`.toLowerCase().includes(wanted));
    count.textContent = `${shown.length} of ${episodes.length} episodes`;
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
      item.append(
        element("span", e.success ? "good" : "bad", MARK[e.outcome]),
        element("span", "task", e.task + (e.trial ? ` (trial ${e.trial})` : "")),
        element("span", "quiet", fixed(e.score, 2)),
        element("small", "", [e.agent, e.family, words(e.outcome), `${e.steps.length} steps`]
          .filter(Boolean).join(" · ")));
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
    list.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const item = list.children[place];
    if (!item) return;
    item.setAttribute("aria-current", "true");
    const top = item.offsetTop - list.offsetTop;
    if (top < list.scrollTop) list.scrollTop = top;
    const below = top + item.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
  }

  function open(e, at) {
    current = e;
    step = at;
    mark();
    show();
  }

  function choose(e) {
    open(e, 0);
    history.replaceState(null, "", "#" + keyOf(e));
  }

  function chips(pairs) {
    const row = element("p", "chips");
    for (const [text, className] of pairs) row.append(element("span", className, text));
    return row;
  }

  function block(title, text, className) {
    return [element("h4", "", title), element("pre", className, text || "(empty)")];
  }

  function controls(last) {
    const row = element("div", "controls");
    const back = element("button", "", "← back");
    const next = element("button", "", "next →");
    const slider = element("input");
    Object.assign(slider, { type: "range", min: 0, max: last, value: step });
    slider.setAttribute("aria-label", "Step");
    slider.addEventListener("input", () => { step = Number(slider.value); show("slider"); });
    back.disabled = step === 0;
    next.disabled = step === last;
    back.addEventListener("click", () => move(-1));
    next.addEventListener("click", () => move(1));
    const label = step === last ? "end" : `step ${step + 1} of ${last}`;
    row.append(back, slider, next, element("span", "quiet", label));
    return row;
  }

  function show(focus) {
    viewer.replaceChildren();
    if (!current) {
      viewer.append(element("p", "quiet", "No episode matches the filter."));
      return;
    }
    const e = current;
    const head = [
      [`${MARK[e.outcome]} ${words(e.outcome)}`, e.success ? "good" : "bad"],
      [`score ${fixed(e.score, 3)}`, ""],
      [e.agent, ""],
      [e.env, ""],
    ];
    if (e.family) head.push([e.family, ""]);
    if (e.split) head.push([`split ${e.split}`, ""]);
    head.push([`seed ${e.seed}`, ""], [`${fixed(e.wall_s, 2)} s`, ""]);
    if (e.attempts > 1) head.push([`${e.attempts} attempts`, ""]);
    viewer.append(element("h3", "", e.task), chips(head), controls(e.steps.length));
    if (focus) viewer.querySelector("input").focus();
    if (e.failure) {
      viewer.append(...block(`Failure: ${words(e.failure.kind)} (${e.failure.origin})`, e.failure.message));
    }
    if (step < e.steps.length) showStep(e.steps[step]);
    else showEnd(e);
  }

  function showStep(s) {
    viewer.append(...block("Observation", s.obs));
    if (s.messages.length) {
      const details = element("details");
      details.append(element("summary", "", `Prompt, ${s.messages.length} messages`));
      for (const m of s.messages) details.append(...block(m.role, m.content));
      viewer.append(details);
    }
    if (s.reply !== s.action) viewer.append(...block("Reply", s.reply));
    viewer.append(...block("Action", s.action, "action"));
    const tokens = s.tokens.prompt + s.tokens.completion;
    const facts = [
      [s.valid ? "✓ valid" : `✗ invalid: ${s.error}`, s.valid ? "good" : "bad"],
      [`reward ${s.reward === null ? "–" : s.reward}`, ""],
      [s.admissible ? `${s.admissible} admissible` : "open-ended actions", ""],
      [`agent ${fixed(s.latency.model === null ? null : 1000 * s.latency.model, 2)} ms`, ""],
      [`environment ${fixed(s.latency.env === null ? null : 1000 * s.latency.env, 2)} ms`, ""],
    ];
    if (tokens) {
      facts.push([`${s.tokens.prompt} + ${s.tokens.completion} tokens, ${s.tokens.cached} cached`, ""]);
    }
    if (s.dropped) facts.push([`prompt without its ${s.dropped} oldest steps`, ""]);
    if (s.cut) facts.push([`prompt cut by ${s.cut} characters`, ""]);
    facts.push([`state ${s.state.slice(0, 12)}`, ""]);
    viewer.append(chips(facts));
  }

  function showEnd(e) {
    if (e.steps.length) viewer.append(...block("Final observation", e.final_obs));
    const metrics = Object.entries(e.metrics);
    if (!metrics.length) return;
    viewer.append(element("h4", "", "Metrics"));
    viewer.append(chips(metrics.map(([name, value]) => [`${words(name)} ${value}`, ""])));
  }

  function move(by) {
    if (!current) return;
    step = Math.max(0, Math.min(current.steps.length, step + by));
    show();
  }

  function travel(by) {
    const place = shown.indexOf(current) + by;
    if (shown[place]) choose(shown[place]);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === filter || event.target.tagName === "SELECT";
    if (event.key === "Escape") return void document.activeElement.blur();
    if (typing) return;
    const moves = {
      ArrowLeft: () => move(-1), ArrowRight: () => move(1),
      Home: () => move(-Infinity), End: () => move(Infinity),
      ArrowUp: () => travel(-1), ArrowDown: () => travel(1),
      "/": () => filter.focus(),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });

  function fromHash() {
    const key = location.hash.slice(1);
    return key.includes("/") ? episodes.find((e) => keyOf(e) === key) : undefined;
  }

  window.addEventListener("hashchange", () => { const e = fromHash(); if (e && e !== current) open(e, 0); });
  for (const control of [filter, outcome, agent]) control.addEventListener("input", apply);
  options(outcome, episodes.map((e) => e.outcome));
  options(agent, episodes.map((e) => e.agent));
  current = fromHash() || null;
  apply();
})();

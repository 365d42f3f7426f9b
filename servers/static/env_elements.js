// Elements and words of the page. Text becomes textContent, never markup.

export const $ = (id) => document.getElementById(id);

export function element(tag, text = "", properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.textContent = text;
  return made;
}

/** Fills a list of terms with [name, value] pairs. */
export function describe(list, facts) {
  const pairs = facts.map(([name, value]) => {
    const pair = element("div");
    pair.append(element("dt", name), element("dd", value));
    return pair;
  });
  list.replaceChildren(...pairs);
}

/** Shows the sentence of an error, or takes the last one away. */
export function say(sentence) {
  $("problem").textContent = sentence.charAt(0).toUpperCase() + sentence.slice(1);
  $("problem").hidden = !sentence;
}

export function onSubmit(id, work) {
  $(id).addEventListener("submit", (event) => {
    event.preventDefault();
    work();
  });
}

export function number(value) {
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toFixed(4)));
}

export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

export function duration(seconds) {
  if (seconds < 100) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** How a tool is written as an action, with a blank for each argument. */
export function callOf({ name, parameters }) {
  const blanks = Object.keys(parameters?.properties ?? {}).map((key) => `<${key}>`);
  return `${name}[${blanks.join(", ")}]`;
}

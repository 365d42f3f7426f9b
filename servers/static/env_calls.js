// Requests of agentgym-suite/1, any of which may be repeated, so a lost one is.

const TRIES = 5;
const LONGEST_PAUSE_S = 5;
const PASSING = ["busy", "overloaded", "loading"]; // gone by themselves

/** The token is here and nowhere else: it ends with the page. */
export const connection = { token: "", patienceS: 90, onUnauthorized: () => {} };

/** An answer that is an error: its sentence, and the last part of its type. */
export class Refused extends Error {
  constructor(sentence, slug = "") {
    super(sentence);
    this.slug = slug;
  }
}

export const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** A key for what must not be done twice; randomUUID is not there without TLS. */
export const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

/** What the server answers, null for nothing; what it refuses is thrown. */
export async function call(method, path, body, { key = "", tries = TRIES, keepalive = false } = {}) {
  const headers = {};
  // a header carries bytes: those of the token's UTF-8
  const bytes = String.fromCharCode(...new TextEncoder().encode(connection.token));
  if (bytes) headers.Authorization = `Bearer ${bytes}`;
  if (key) headers["Idempotency-Key"] = key;
  if (body) headers["Content-Type"] = "application/json";
  for (let attempt = 1; ; attempt += 1) {
    let wait = 0.25 * 2 ** attempt;
    let refusal = new Refused("The server does not answer; see whether it still runs.", "away");
    try {
      const signal = AbortSignal.timeout(connection.patienceS * 1000);
      const request = { method, headers, keepalive, signal, body: body && JSON.stringify(body) };
      const answer = await fetch(path, request);
      const text = await answer.text();
      if (answer.ok) return text ? JSON.parse(text) : null;
      if (path === "readyz" && answer.status === 503) return JSON.parse(text); // says why not
      refusal = refusalOf(answer, text);
      wait = Math.min(Number(answer.headers.get("Retry-After")) || wait, LONGEST_PAUSE_S);
    } catch {
      // lost on its way, or cut short
    }
    if (refusal.slug === "unauthorized") connection.onUnauthorized();
    const mayPass = refusal.slug === "away" || PASSING.includes(refusal.slug);
    if (!mayPass || attempt >= tries) throw refusal;
    await pause(wait);
  }
}

function refusalOf(answer, text) {
  try {
    const problem = JSON.parse(text);
    return new Refused(problem.detail, String(problem.type).split(":").pop());
  } catch {
    const slug = answer.status === 502 || answer.status === 503 ? "away" : "";
    return new Refused(`The answer was ${answer.status} without a reason; see the server's log.`, slug);
  }
}

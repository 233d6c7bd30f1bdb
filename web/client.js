/** The page's client of the API: reads a route, or follows events. */

/** Time in which the server must have answered. */
const ANSWER_MS = 10_000;
const MOST_WAIT_MS = 30_000;
const FIRST_WAIT_MS = 1_000;
/** Maximum characters of an event that is not complete yet. */
const MOST_PENDING = 1_000_000;
/** Matches a text of printable ASCII without spaces. */
const PRINTABLE = /^[!-~]+$/;

/** An error response of the API; its message is the server's sentence. */
export class Refused extends Error {
  /** @param {number} status @param {string} message @param {number} retryAfterMs */
  constructor(status, message, retryAfterMs) {
    super(message);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * Throws {@link Refused} for a key that no header can hold: `fetch` would fail as it does without a server.
 * @param {string | undefined} key @param {Record<string, string>} more
 */
function headersOf(key, more = {}) {
  if (key !== undefined && !PRINTABLE.test(key))
    throw new Refused(
      401,
      "That is no key: it has a space or another character that no key has. Copy it again.",
      0,
    );
  return { ...more, ...(key !== undefined && { Authorization: `Bearer ${key}` }) };
}

/**
 * Reads a route. Throws {@link Refused}, or another error if no whole answer comes within {@link ANSWER_MS}. It omits the
 * browser's credentials, so that the browser shows no login dialogue.
 * @param {string} path @param {string | undefined} key
 */
export async function read(path, key) {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new Error("The server does not answer.")), ANSWER_MS);
  const { signal } = late;
  try {
    return await answerOf(
      await fetch(path, { headers: headersOf(key), credentials: "omit", cache: "no-store", signal }),
    );
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the body of an answer. Throws {@link Refused}. @param {Response} response */
async function answerOf(response) {
  if (response.ok) return response.json();
  const body = await response.json().catch(() => ({}));
  const seconds = Number(response.headers.get("Retry-After")) || 2;
  throw new Refused(
    response.status,
    String(body.detail ?? `The server answers ${response.status}.`),
    seconds * 1_000,
  );
}

/**
 * Follows a stream of events until `signal` aborts; if the connection ends, it reconnects after the last event number.
 * @param {string} path
 * @param {() => string | undefined} key
 * @param {AbortSignal} signal
 * @param {string} from event number after which to begin
 * @param {(event: any, number: string | undefined) => void} hear
 */
export async function followEvents(path, key, signal, from, hear) {
  let [number, waitMs] = [from, FIRST_WAIT_MS];
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(number !== "0" && { "Last-Event-ID": number }) };
      const options = { headers: headersOf(key(), headers), signal };
      const response = await fetch(path, { ...options, credentials: "omit", cache: "no-store" });
      if (response.status === 401 || response.status === 403) return;
      if (response.ok && response.body) {
        waitMs = FIRST_WAIT_MS;
        for await (const { id, data } of eventsOf(response.body)) {
          number = id ?? number;
          hear(data, id);
        }
      }
    } catch {
      // A network error, or the abort: the loop condition decides.
    }
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    waitMs = Math.min(2 * waitMs, MOST_WAIT_MS);
  }
}

/** @param {ReadableStream<Uint8Array>} body */
async function* eventsOf(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = blocks.pop() ?? "";
      if (rest.length > MOST_PENDING) return;
      for (const block of blocks) {
        const data = fieldOf(block, "data: ");
        const id = fieldOf(block, "id: ");
        if (data !== undefined) yield { id, data: JSON.parse(data) };
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * Returns the rest of the line that begins with `name`. Only a line feed ends a line of the API: the `$` and `.` of a regular
 * expression also stop at U+2028 and U+2029, which JSON leaves as they are.
 * @param {string} block @param {string} name
 */
function fieldOf(block, name) {
  const line = block.split("\n").find((each) => each.startsWith(name));
  return line?.slice(name.length);
}

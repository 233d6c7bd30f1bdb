// @ts-check
/**
 * Program of a matching thread: answers one request after another. Plain JavaScript, so that a thread can start from this
 * file whether the package is built or not.
 *
 * 1. Every request is answered within seconds: every expression runs under `vm`'s time limit, which also interrupts V8's
 *    regular expressions. V8 compiles an expression at its first use; parsing takes time in proportion to its length. On
 *    Linux only the thread's CPU time counts: a pattern is not slow because a busy machine lets it wait.
 * 2. After a V8 timeout, an expression is run by re2js, whose time grows only with the length of the text. It cannot run
 *    look-around and back references: those get the answer `too_slow`.
 * 3. The thread has a lower priority than the main thread, if they share a processor.
 * 4. `vm`'s time limit takes four file descriptors, and Node ends the process if it gets none. The thread therefore keeps some
 *    open and gives them up for it. A request that finds them gone is not tried.
 */
import { closeSync, openSync, readFileSync } from "node:fs";
import { devNull, setPriority } from "node:os";
import { createContext, Script } from "node:vm";
import { parentPort } from "node:worker_threads";
import ignore from "ignore";
import picomatch from "picomatch";

/** @typedef {import("./request.ts").MatchRequest} MatchRequest */
/** @typedef {import("./request.ts").MatchAnswer} MatchAnswer */
/** @typedef {(text: string) => boolean} Test */
/** @typedef {{ v8: RegExp, linear?: Test }} Expression `linear` is set after V8 has timed out. */

/** CPU time for V8 on one batch of lines, ms; an ordinary expression takes less than 5. */
const V8_LIMIT_MS = 250;
/** CPU time for re2js on one batch of lines, ms; it is up to 900 times slower than V8. */
const LINEAR_LIMIT_MS = 2_000;
/** CPU time for any other part of a request, ms. */
const LIMIT_MS = 500;
/** Limit of one attempt, as a multiple of its time limit. */
const MOST_AT_ONCE = 4;
/** Total time of V8's attempts on a busy machine before re2js takes over, ms. */
const V8_PATIENCE_MS = 1_000;
/** Total time of the last engine's attempts on a busy machine, ms. */
const LONGEST_MS = 5_000;
/** Maximum number of compiled expressions of each kind. */
const MAX_COMPILED = 100;
/**
 * Twice as many descriptors as the time limit takes: another thread of the process may be faster. One that takes all that come
 * free, at just that moment, still ends the process.
 */
const RESERVED_DESCRIPTORS = 8;
/** picomatch's result for a pattern that can match nothing, such as one with unbalanced braces. */
const NOTHING = "$^";

/** @type {{ run: () => unknown }} */
const job = { run: () => undefined };
const jobContext = createContext({ run: () => job.run() });
const runJob = new Script("run()");

/** @type {number[]} */
const reserve = [];

/** Fills the reserve of descriptors. Returns false if the process has none left. */
function fillReserve() {
  try {
    while (reserve.length < RESERVED_DESCRIPTORS) reserve.push(openSync(devNull, "r"));
    return true;
  } catch {
    return false;
  }
}

/**
 * Runs `run` for at most `limitMs`. An attempt that times out is repeated with more time. Ends when this thread has used
 * half of the limit as CPU time (`slow`), or the attempts took `patienceMs` in total (`starved`).
 * @param {number} limitMs
 * @param {() => void} run
 * @param {number} patienceMs
 * @returns {"ended" | "slow" | "starved"}
 */
function runFor(limitMs, run, patienceMs = LONGEST_MS) {
  const before = computedMs();
  let givenMs = 0;
  for (let timeoutMs = limitMs; ; timeoutMs = Math.min(2 * timeoutMs, MOST_AT_ONCE * limitMs)) {
    if (endsInOneGo(timeoutMs, run)) return "ended";
    givenMs += timeoutMs;
    if (before === undefined || (computedMs() ?? 0) - before >= limitMs / 2) return "slow";
    if (givenMs >= patienceMs) return "starved";
  }
}

/**
 * Returns false also where the time limit would find no descriptors.
 * @param {number} timeout
 * @param {() => void} run
 */
function endsInOneGo(timeout, run) {
  if (!fillReserve()) return false;
  job.run = run;
  for (const descriptor of reserve.splice(0)) closeSync(descriptor);
  try {
    runJob.runInContext(jobContext, { timeout });
    return true;
  } catch (error) {
    if (
      typeof error === "object" &&
      error &&
      "code" in error &&
      error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"
    )
      return false;
    throw error;
  } finally {
    fillReserve();
  }
}

/** Returns this thread's CPU time so far, ms; undefined except on Linux. */
function computedMs() {
  try {
    return Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ")[0]) / 1e6;
  } catch {
    return undefined;
  }
}

/**
 * @template Value
 * @param {Map<string, Value>} known
 * @param {string} key
 * @param {() => Value} make
 * @returns {Value}
 */
function once(known, key, make) {
  const found = known.get(key);
  if (found !== undefined) return found;
  if (known.size >= MAX_COMPILED) known.clear();
  const made = make();
  known.set(key, made);
  return made;
}

/** @type {Map<string, Expression>} */
const expressions = new Map();

/**
 * Runs V8's expression, and after a V8 timeout re2js' from the line reached.
 * @param {Extract<MatchRequest, { kind: "lines" }>} request
 * @returns {Promise<MatchAnswer>}
 */
async function matchLines({ source, flags, texts }) {
  /** @type {Expression} */
  const expression = once(expressions, `${flags}/${source}`, () => ({ v8: new RegExp(source, flags) }));
  /** @type {number[]} */
  const hits = [];
  let next = 0;
  /** @param {Test} test */
  const scan = (test) => {
    for (; next < texts.length; next++) if (test(texts[next] ?? "")) hits.push(next);
  };
  const scanByV8 = () => scan((text) => expression.v8.test(text));
  if (expression.linear === undefined) {
    const end = runFor(V8_LIMIT_MS, scanByV8, V8_PATIENCE_MS);
    if (end === "ended") return { hits };
    expression.linear = await linearTest(source, flags);
    if (expression.linear === undefined && end === "slow") return { problem: "too_slow" };
  }
  const { linear } = expression;
  const end = linear ? runFor(LINEAR_LIMIT_MS, () => scan(linear)) : runFor(V8_LIMIT_MS, scanByV8);
  return end === "ended" ? { hits } : { problem: "too_slow" };
}

/**
 * Compiles an expression for re2js; undefined if re2js cannot run it.
 * @param {string} source
 * @param {string} flags
 * @returns {Promise<Test | undefined>}
 */
async function linearTest(source, flags) {
  const { RE2JS } = await import("re2js");
  /** @type {Test | undefined} */
  let test;
  try {
    runFor(LIMIT_MS, () => {
      const ignoreCase = flags.includes("i") ? RE2JS.CASE_INSENSITIVE : 0;
      const expression = RE2JS.compile(RE2JS.translateRegExp(source), ignoreCase);
      test = (text) => expression.matcher(text).find();
    });
  } catch {
    return undefined;
  }
  return test;
}

/** @type {Map<string, RegExp | null>} */
const globs = new Map();

/**
 * @param {Extract<MatchRequest, { kind: "glob" }>} request
 * @returns {MatchAnswer}
 */
function matchGlob({ pattern, texts }) {
  /** @type {number[]} */
  let hits = [];
  let malformed = false;
  const end = runFor(LIMIT_MS, () => {
    const glob = once(globs, pattern, () => globOf(pattern));
    malformed = glob === null;
    hits = indices(texts, (text) => glob?.test(text) === true);
  });
  if (end !== "ended") return { problem: "too_slow" };
  return malformed ? { problem: "malformed" } : { hits };
}

/**
 * @param {string} pattern
 * @returns {RegExp | null}
 */
function globOf(pattern) {
  try {
    const glob = picomatch.makeRe(pattern, { dot: true });
    return glob && glob.source !== NOTHING ? glob : null;
  } catch {
    return null;
  }
}

/** @type {Map<string, import("ignore").Ignore>} */
const rules = new Map();
/** @type {Map<string, boolean>} Texts of rule files that timed out or failed once: they are not retried. */
const slowRules = new Map();

/**
 * Returns the ignored names: the first of `files` with a rule for a name decides.
 * @param {Extract<MatchRequest, { kind: "ignore" }>} request
 * @returns {MatchAnswer}
 */
function matchIgnored({ files, texts }) {
  const key = files.map(({ text }) => text).join("\0");
  if (slowRules.get(key)) return { problem: "too_slow" };
  /** @param {string} name */
  const isIgnored = (name) => {
    for (const { text, above } of files) {
      const verdict = once(rules, text, () => ignore().add(text)).test(above + name);
      if (verdict.ignored || verdict.unignored) return verdict.ignored;
    }
    return false;
  };
  /** @type {number[]} */
  let hits = [];
  try {
    const end = runFor(LIMIT_MS, () => {
      hits = indices(texts, isIgnored);
    });
    if (end === "ended") return { hits };
  } catch {
    // A rule that cannot be compiled counts as one that times out: nothing is ignored.
  }
  once(slowRules, key, () => true);
  return { problem: "too_slow" };
}

/**
 * Checks whether the one text, JSON, fits a JSON Schema. The schema is interpreted, never compiled to code.
 * @param {Extract<MatchRequest, { kind: "schema" }>} request
 * @returns {Promise<MatchAnswer>}
 */
async function matchSchema({ schema, texts }) {
  const { Validator } = await import("@cfworker/json-schema");
  /** @type {MatchAnswer} */
  let answer = { problem: "too_slow" };
  const end = runFor(LIMIT_MS, () => {
    /** @type {import("@cfworker/json-schema").Schema} */
    const parsed = JSON.parse(schema);
    const validator = new Validator(parsed, draftOf(parsed.$schema), false);
    const { valid, errors } = validator.validate(JSON.parse(texts[0] ?? "", withoutInherited));
    answer = valid ? { hits: [0] } : { problem: "mismatch", message: mismatchOf(errors) };
  });
  return end === "ended" ? answer : { problem: "too_slow" };
}

/**
 * Removes the prototype, because the validator uses `key in value`: inherited members such as `toString` must not count.
 * @param {string} _key
 * @param {unknown} value
 * @returns {unknown}
 */
function withoutInherited(_key, value) {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? Object.setPrototypeOf(value, null) : value;
}

/**
 * @param {unknown} dialect
 * @returns {import("@cfworker/json-schema").SchemaDraft}
 */
function draftOf(dialect) {
  const draft = /draft-0?([47])\b|(2019-09)/.exec(String(dialect));
  return draft?.[1] === "4"
    ? "4"
    : draft?.[1] === "7"
      ? "7"
      : draft?.[2] === undefined
        ? "2020-12"
        : "2019-09";
}

/** Maximum number of reported errors; only those of the innermost places, because the others just repeat them. */
const MAX_MISMATCHES_TOLD = 5;
/** Longest message sent to the main thread, which shortens it further for its reader. */
const MAX_MISMATCH_CHARS = 2_000;

/**
 * @param {readonly { keyword: string, instanceLocation: string, error: string }[]} errors
 * @returns {string}
 */
function mismatchOf(errors) {
  const outer = new Set(["properties", "items", "prefixItems", "$ref", "allOf", "additionalProperties"]);
  const inner = errors.filter(({ keyword }) => !outer.has(keyword));
  const told = (inner.length > 0 ? inner : errors).slice(0, MAX_MISMATCHES_TOLD);
  return told
    .map(({ instanceLocation, error }) => `at ${instanceLocation}: ${error.replace(/\.$/, "")}`)
    .join("; ")
    .slice(0, MAX_MISMATCH_CHARS);
}

/**
 * @param {readonly string[]} texts
 * @param {Test} test
 */
function indices(texts, test) {
  /** @type {number[]} */
  const hits = [];
  for (const [index, text] of texts.entries()) if (test(text)) hits.push(index);
  return hits;
}

/**
 * @param {MatchRequest} request
 * @returns {Promise<MatchAnswer>}
 */
async function answerTo(request) {
  if (!fillReserve()) return { problem: "no_descriptor" };
  try {
    if (request.kind === "lines") return await matchLines(request);
    if (request.kind === "schema") return await matchSchema(request);
    return request.kind === "glob" ? matchGlob(request) : matchIgnored(request);
  } catch (error) {
    return { problem: "invalid", message: error instanceof Error ? error.message : "it cannot be read" };
  }
}

/** Low priority of this thread; only Linux sets it per thread, others per process. */
const NICE = 10;
if (process.platform === "linux") setPriority(NICE);

parentPort?.on("message", async (request) => parentPort?.postMessage(await answerTo(request)));

// @ts-check
/**
 * The program of a matching thread: answers one request after another. Plain JavaScript, so that a thread starts from
 * this file whether the package is built or not.
 *
 * 1. Whatever a request holds, an answer leaves within seconds: every expression is run under `vm`'s time limit, which also
 *    interrupts V8's regular expressions. V8 compiles one when it first runs; before that it is only read, in the time of its length. Where the system tells how long this thread computed, that is
 *    what counts: a pattern is not slow because a busy machine let it wait.
 * 2. An expression that V8 does not finish in time is run by re2js from then on, whose time grows with the length of the
 *    text alone. It cannot run look-around and back references: those get the answer `too_slow`.
 * 3. The thread gives way to the main thread where they share a processor.
 */
import { readFileSync } from "node:fs";
import { setPriority } from "node:os";
import { createContext, Script } from "node:vm";
import { parentPort } from "node:worker_threads";
import ignore from "ignore";
import picomatch from "picomatch";

/** @typedef {import("./request.ts").MatchRequest} MatchRequest */
/** @typedef {import("./request.ts").MatchAnswer} MatchAnswer */
/** @typedef {(text: string) => boolean} Test */
/** @typedef {{ v8: RegExp, linear?: Test }} Expression `linear` is there once V8 has run out of time. */

/** How long V8 may compute for one batch of lines, ms; an ordinary expression takes less than 5. */
const V8_LIMIT_MS = 250;
/** How long re2js may compute for one batch of lines, ms; it is up to 900 times slower than V8. */
const LINEAR_LIMIT_MS = 2_000;
/** How long anything else in one request may compute, ms. */
const LIMIT_MS = 500;
/** A try gets at most this many times its limit. */
const MOST_AT_ONCE = 4;
/** How long V8 tries on a busy machine before the other engine goes on, ms. */
const V8_PATIENCE_MS = 1_000;
/** How long the last engine tries on a busy machine, ms. */
const LONGEST_MS = 5_000;
/** Expressions of each kind kept compiled. */
const MAX_COMPILED = 100;
/** What picomatch makes of a pattern that can match nothing, such as one with unbalanced braces. */
const NOTHING = "$^";

/** @type {{ run: () => unknown }} */
const job = { run: () => undefined };
const jobContext = createContext({ run: () => job.run() });
const runJob = new Script("run()");

/**
 * Runs `run` for at most `limitMs`. A try that took longer is repeated with more time, until this thread has computed for half
 * of the limit (`slow`), or the tries had `patienceMs` together (`starved`).
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
 * @param {number} timeout
 * @param {() => void} run
 */
function endsInOneGo(timeout, run) {
  job.run = run;
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
  }
}

/** How long this thread has had a processor so far, ms; Linux alone tells. */
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
 * Runs V8's expression, and re2js' from the line on which V8 ran out of time.
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
 * Nothing where re2js cannot run the expression.
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
/** @type {Map<string, boolean>} Whether these files together took too long once: they are not tried again. */
const slowRules = new Map();

/**
 * The names that the first of `files` that speaks of them leaves out.
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
  const end = runFor(LIMIT_MS, () => {
    hits = indices(texts, isIgnored);
  });
  if (end === "ended") return { hits };
  once(slowRules, key, () => true);
  return { problem: "too_slow" };
}

/**
 * Whether the one text, JSON, fits a JSON Schema. The interpreter of schemas makes no code of them.
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
 * The validator asks `key in value`: what every object inherits, such as `toString`, must not count as there.
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

/** Errors of the innermost places, for the others only say that there are some. */
const MAX_MISMATCHES_TOLD = 5;
/** Bounds what is sent to the other thread, which clips it for its reader. */
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
  try {
    if (request.kind === "lines") return await matchLines(request);
    if (request.kind === "schema") return await matchSchema(request);
    return request.kind === "glob" ? matchGlob(request) : matchIgnored(request);
  } catch (error) {
    return { problem: "invalid", message: error instanceof Error ? error.message : "it cannot be read" };
  }
}

/** The priority of a thread that gives way; Linux alone sets it by thread, others by process. */
const NICE = 10;
if (process.platform === "linux") setPriority(NICE);

parentPort?.on("message", async (request) => parentPort?.postMessage(await answerTo(request)));

// @ts-check
/**
 * Program of a matching process: answers one request after another. Plain JavaScript, so that it can start from this file whether
 * the package is built or not. `process-pool.ts` owns the processes, and kills one that computes for too long: nothing here has a
 * time limit. A linear engine, re2js, cannot run look-around and back references: those get the answer `too_slow`.
 */
import { readFileSync } from "node:fs";
import { setPriority } from "node:os";
import ignore from "ignore";
import picomatch from "picomatch";

/** @typedef {import("./request.ts").MatchRequest} MatchRequest */
/** @typedef {import("./request.ts").MatchAnswer} MatchAnswer */
/** @typedef {import("./request.ts").ProcessMessage} ProcessMessage */
/** @typedef {(text: string) => boolean} Test */

/** Maximum number of compiled expressions of each kind that earlier requests leave. */
const MAX_COMPILED = 100;
/** Maximum length of their texts together: compiled rules of `.gitignore` take some 50 bytes a character. */
const MAX_COMPILED_CHARS = 200_000;
/** picomatch's result for a pattern that can match nothing, such as one with unbalanced braces. */
const NOTHING = "$^";

/**
 * Returns what Linux says of the CPU time of this process so far; undefined elsewhere, and where it has no file descriptor left.
 * @returns {string | undefined}
 */
function cpuReading() {
  try {
    return readFileSync("/proc/self/schedstat", "utf8");
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
  const made = make();
  known.set(key, made);
  return made;
}

/** @type {Map<string, Test>} */
const expressions = new Map();

/**
 * @param {Extract<MatchRequest, { kind: "lines" }>} request
 * @returns {MatchAnswer}
 */
function matchByV8({ source, flags, texts }) {
  const test = once(expressions, `v8/${flags}/${source}`, () => {
    const expression = new RegExp(source, flags);
    return (text) => expression.test(text);
  });
  return { hits: indices(texts, test) };
}

/**
 * @param {typeof import("re2js").RE2JS} RE2JS
 * @param {Extract<MatchRequest, { kind: "lines" }>} request
 * @returns {MatchAnswer}
 */
function matchByRe2(RE2JS, { source, flags, texts }) {
  /** @type {Test} */
  let test;
  try {
    test = once(expressions, `linear/${flags}/${source}`, () => {
      const ignoreCase = flags.includes("i") ? RE2JS.CASE_INSENSITIVE : 0;
      const expression = RE2JS.compile(RE2JS.translateRegExp(source), ignoreCase);
      return (text) => expression.matcher(text).find();
    });
  } catch {
    return { problem: "too_slow" };
  }
  return { hits: indices(texts, test) };
}

/** @type {Map<string, RegExp | null>} */
const globs = new Map();

/**
 * @param {Extract<MatchRequest, { kind: "glob" }>} request
 * @returns {MatchAnswer}
 */
function matchGlob({ pattern, texts }) {
  const glob = once(globs, pattern, () => globOf(pattern));
  return glob === null ? { problem: "malformed" } : { hits: indices(texts, (text) => glob.test(text)) };
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

/**
 * Returns the ignored names: the first of `files` with a rule for a name decides.
 * @param {Extract<MatchRequest, { kind: "ignore" }>} request
 * @returns {MatchAnswer}
 */
function matchIgnored({ files, texts }) {
  /** @param {string} name */
  const isIgnored = (name) => {
    for (const { text, above } of files) {
      const verdict = once(rules, text, () => ignore().add(text)).test(above + name);
      if (verdict.ignored || verdict.unignored) return verdict.ignored;
    }
    return false;
  };
  return { hits: indices(texts, isIgnored) };
}

/**
 * Checks whether the one text, JSON, fits a JSON Schema. The schema is interpreted, never compiled to code.
 * @param {typeof import("@cfworker/json-schema").Validator} Validator
 * @param {Extract<MatchRequest, { kind: "schema" }>} request
 * @returns {MatchAnswer}
 */
function matchSchema(Validator, { schema, texts }) {
  /** @type {import("@cfworker/json-schema").Schema} */
  const parsed = JSON.parse(schema);
  const validator = new Validator(parsed, draftOf(parsed.$schema), false);
  const { valid, errors } = validator.validate(JSON.parse(texts[0] ?? "", withoutInherited));
  return valid ? { hits: [0] } : { problem: "mismatch", message: mismatchOf(errors) };
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
/** Longest message sent to the owner, which shortens it further for its reader. */
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
 * Loads what a request needs, and returns the work that is left. Rejects if the machine gives no file descriptor for it.
 * @param {MatchRequest} request
 * @returns {Promise<() => MatchAnswer>}
 */
async function prepare(request) {
  if (request.kind === "glob") return () => matchGlob(request);
  if (request.kind === "ignore") return () => matchIgnored(request);
  if (request.kind === "schema") {
    const { Validator } = await import("@cfworker/json-schema");
    return () => matchSchema(Validator, request);
  }
  if (request.engine === "v8") return () => matchByV8(request);
  const { RE2JS } = await import("re2js");
  return () => matchByRe2(RE2JS, request);
}

/**
 * @param {() => MatchAnswer} work
 * @returns {MatchAnswer}
 */
function answerOf(work) {
  try {
    return work();
  } catch (error) {
    return { problem: "invalid", message: error instanceof Error ? error.message : "it cannot be read" };
  }
}

/**
 * Tells the owner, if it is still there.
 * @param {ProcessMessage} message
 */
function say(message) {
  process.send?.(message, undefined, undefined, () => undefined);
}

/** Forgets what was compiled, if it is so much that the next request would lack memory; never in the middle of a request. */
function leaveMemory() {
  for (const known of [expressions, globs, rules]) {
    const chars = [...known.keys()].reduce((sum, { length }) => sum + length, 0);
    if (known.size >= MAX_COMPILED || chars > MAX_COMPILED_CHARS) known.clear();
  }
}

/** CPU time after which the owner is asked for another process, µs: half of what this one may use in its life. */
const RETIRES_AFTER_US = 30_000_000;

/** Returns true if this process should take no further request. */
function retires() {
  const { user, system } = process.cpuUsage();
  return user + system > RETIRES_AFTER_US;
}

/** Low priority: a search gives way to the event loop of its owner. */
const NICE = 10;
setPriority(NICE);

// The owner decides when a search ends, also where a terminal or a supervisor signals all processes of a service.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => undefined);
process.on("disconnect", () => process.exit());
process.on("message", async (/** @type {MatchRequest} */ request) => {
  try {
    leaveMemory();
    const work = await prepare(request);
    say({ begun: cpuReading() });
    say({ answer: answerOf(work), retires: retires() });
  } catch {
    // Something could not be loaded: the owner tells the search to try again later.
    process.exit(1);
  }
});

/**
 * Matches lines against regular expressions, names against globs and `.gitignore` rules, and JSON against JSON Schemas, in
 * processes that can be killed.
 *
 * When the last matcher closes, one process stays for the next: a start costs 150 ms of CPU, as much as 75 turns. The process that
 * waits takes 15 MB and keeps no other alive. `search.ts` decides which search may open a matcher.
 *
 * 1. No expression, glob, rule or schema that a model or a stranger wrote is compiled or run in this process.
 * 2. A search has at most one batch in progress, so searches take turns and none waits for more than one batch of each other
 *    search.
 */

import { ToolFailure } from "../../../shared/errors.ts";
import { ProcessPool } from "./process-pool.ts";
import type { Engine, Expression, IgnoreFile, MatchAnswer, MatchRequest } from "./request.ts";

/** The matcher of one search; its requests are sequential. Every method throws {@link ToolFailure} once stopped. */
export interface Matcher {
  /**
   * Returns the indices of the lines that match.
   *
   * @throws {ToolFailure} `too_slow` if it times out and the expression cannot run in linear time.
   * @throws {ToolFailure} if it is no regular expression.
   */
  lines(expression: Expression, lines: readonly string[]): Promise<readonly number[]>;
  /**
   * Returns the indices of the relative paths that match the glob; dot files match like others.
   *
   * @throws {ToolFailure} `too_slow` if it times out.
   * @throws {ToolFailure} if the glob is malformed.
   */
  paths(glob: string, paths: readonly string[]): Promise<readonly number[]>;
  /**
   * Returns the indices of the ignored names: the first of `files` with a rule for a name decides. Directories end in "/".
   *
   * @throws {ToolFailure} `too_slow` if it times out, or a rule cannot be compiled.
   */
  ignored(files: readonly IgnoreFile[], names: readonly string[]): Promise<readonly number[]>;
  /**
   * Resolves to undefined if the JSON fits the JSON Schema, otherwise to one clause that says where it does not.
   *
   * @throws {ToolFailure} `unavailable` if its process gets too little of the processor now.
   * @throws {ToolFailure} if it times out, or the schema is not usable.
   */
  mismatch(schema: string, json: string): Promise<string | undefined>;
  /** Resolves when no process works for this matcher; the last matcher also ends all processes but one. Idempotent. */
  close(): Promise<void>;
}

/** Processes that matchers share; there are none until the first request. */
export interface MatcherProcesses {
  /** Opens a matcher for one search. If `signal` aborts, the process that works for it is killed. */
  open(signal: AbortSignal): Matcher;
}

/** More than one, so that a batch that uses all its time does not block other searches while another process is free. */
const MAX_PROCESSES = 2;
/** CPU time for V8 on one batch of lines, ms; an ordinary expression takes less than 5. */
const V8_LIMIT_MS = 250;
/** CPU time for re2js on one batch of lines, ms; it is up to 900 times slower than V8. */
const LINEAR_LIMIT_MS = 2_000;
/** CPU time for any other request, ms. */
const LIMIT_MS = 500;
/** Time limit of a request that gets too little of the processor, ms. */
const PATIENCE_MS = 5_000;
/** Names of one request: few enough that ordinary rules need a fraction of its time. */
const BATCH_NAMES = 1_000;

/** Creates an owner of matching processes. */
export function createMatcherProcesses(
  maxProcesses: number = MAX_PROCESSES,
  patienceMs: number = PATIENCE_MS,
): MatcherProcesses {
  const pool = new ProcessPool(maxProcesses, patienceMs);
  let open = 0;
  return {
    open(signal) {
      open++;
      let closing: Promise<void> | undefined;
      const ask = (request: MatchRequest, limitMs = LIMIT_MS) => pool.submit(request, limitMs, signal);
      return {
        ...createMatcher(ask),
        close() {
          closing ??= --open === 0 ? pool.dismiss() : Promise.resolve();
          return closing;
        },
      };
    },
  };
}

function createMatcher(
  ask: (request: MatchRequest, limitMs?: number) => Promise<MatchAnswer>,
): Omit<Matcher, "close"> {
  /** The expressions for which V8 has timed out: the next batch does not wait for it again. */
  const slowInV8 = new Set<string>();
  const askFor = async (request: MatchRequest) => hitsOf(request, await ask(request));
  const askEngine = async (engine: Engine, expression: Expression, texts: readonly string[]) => {
    const request: MatchRequest = { kind: "lines", engine, ...expression, texts };
    return hitsOf(request, await ask(request, engine === "v8" ? V8_LIMIT_MS : LINEAR_LIMIT_MS));
  };
  return {
    async lines(expression, texts) {
      const key = `${expression.flags}/${expression.source}`;
      if (!slowInV8.has(key)) {
        try {
          return await askEngine("v8", expression, texts);
        } catch (error) {
          if (!(error instanceof ToolFailure && error.reason === "too_slow")) throw error;
          slowInV8.add(key);
        }
      }
      return askEngine("linear", expression, texts);
    },
    paths: (pattern, texts) => inBatches(texts, (batch) => askFor({ kind: "glob", pattern, texts: batch })),
    ignored: (files, texts) => inBatches(texts, (batch) => askFor({ kind: "ignore", files, texts: batch })),
    async mismatch(schema, json) {
      const request: MatchRequest = { kind: "schema", schema, texts: [json] };
      const answer = await ask(request);
      if ("problem" in answer && answer.problem === "mismatch") return answer.message;
      hitsOf(request, answer);
      return undefined;
    },
  };
}

async function inBatches(
  texts: readonly string[],
  ask: (batch: readonly string[]) => Promise<readonly number[]>,
): Promise<readonly number[]> {
  const hits: number[] = [];
  // Sends the first batch even if it is empty: a glob without names may be malformed, too.
  for (let from = 0; from === 0 || from < texts.length; from += BATCH_NAMES) {
    for (const index of await ask(texts.slice(from, from + BATCH_NAMES))) hits.push(from + index);
  }
  return hits;
}

function hitsOf({ kind }: MatchRequest, answer: MatchAnswer): readonly number[] {
  if ("hits" in answer) return answer.hits;
  const isSlow = answer.problem === "too_slow";
  if (isSlow && answer.isStarved && kind === "schema")
    throw new ToolFailure("The machine is too busy for the check now. Try again later.", "unavailable");
  if (kind === "schema")
    throw new ToolFailure(isSlow ? "checking it takes too long" : "it is no valid JSON Schema");
  if (isSlow) throw new ToolFailure("The pattern takes too long; use a simpler one.", "too_slow");
  if (kind === "ignore") throw new ToolFailure("A rule cannot be compiled.", "too_slow");
  throw answer.problem === "invalid" && kind === "lines"
    ? new ToolFailure(`The pattern is not a valid JavaScript regular expression: ${answer.message}.`)
    : new ToolFailure("The pattern is malformed: check that its brackets and braces are balanced.");
}

/** The matching processes of this process, for all its tools. */
export const matcherProcesses: MatcherProcesses = createMatcherProcesses();

/**
 * A Redis written in JavaScript, for a machine that has none: for trying out, nothing is kept.
 *
 * Owns: the server's process. Its neighbour `embedded-redis-child.ts` is what runs in there.
 *
 * 1. The server dies with us, even when we are killed with -9: the channel to it closes.
 * 2. It stands in a session of its own: Ctrl-C reaches us alone, and we still need Redis to drain.
 * 3. It is handed out only after a script has shown that numbers reach commands undamaged.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { extname, join } from "node:path";
import { z } from "zod";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { closeRedis, openRedis } from "../../shared/redis/connection/connection.ts";
import { NUMBER_PROOF } from "./embedded-lua-numbers.ts";

/** For the banner, wherever this server is used. */
export const EMBEDDED_WARNING =
  "embedded, in memory, for trying out: everything is lost when it stops; install redis-server or set REDIS_URL to keep it";

/** The server comes with a clone alone: it is large, and names a newer Node than the package does. */
const IS_MISSING = /Cannot find package 'js-redis-server'/;
const NOT_INSTALLED =
  "No Redis was found: install redis-server, set REDIS_URL, or add one that keeps nothing with npm install js-redis-server@0.3.0";
const READY_WITHIN_MS = 10_000;
const LAST_WORDS_CHARS = 2_000;

const Ready = z.object({ url: z.string() });

/** A running embedded server that belongs to this process. */
export interface EmbeddedRedis {
  /** `redis://:password@127.0.0.1:port` */
  readonly url: string;
  /** `js-redis-server` */
  readonly program: string;
  readonly pid: number;
  /** Resolves when the server is gone, however it ended. */
  readonly gone: Promise<void>;
  /** Ends the server and forgets its data; resolves when the process is gone. Idempotent. */
  stop(): Promise<void>;
}

/** What starting the server needs from outside. */
export interface EmbeddedRedisOptions {
  clock: Clock;
  /** Arguments of the child's Node. Default: this process' own, so that a loader of TypeScript goes along. */
  nodeArguments?: readonly string[];
}

/**
 * Starts the server and waits until it answers. Throws `setup_failed` when it is not installed, ends at once, does not
 * answer within 10 s, or damages numbers.
 */
export async function startEmbeddedRedis({
  clock,
  nodeArguments = process.execArgv,
}: EmbeddedRedisOptions): Promise<EmbeddedRedis> {
  const entry = join(import.meta.dirname, `embedded-redis-child${extname(import.meta.filename)}`);
  const child = fork(entry, {
    execArgv: nodeArguments.filter((argument) => !argument.startsWith("--inspect")),
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    env: {},
    detached: true,
  });
  const lastWords = listen(child);
  const gone = once(child, "close").then(() => {});
  const late = new AbortController();
  const failed = (sentence: () => string) => () =>
    Promise.reject(new SubagentError("setup_failed", sentence()));
  try {
    const ready = once(child, "message").then(([message]) => prove(Ready.parse(message).url));
    const ended = gone.then(failed(() => lastWords() || "it ended at once"));
    const silent = clock
      .sleep(READY_WITHIN_MS, late.signal)
      .then(failed(() => `it did not answer within ${READY_WITHIN_MS / 1_000} s`));
    const url = await Promise.race([ready, ended, silent]);
    return { url, program: "js-redis-server", pid: child.pid ?? 0, gone, stop: () => end(child, gone) };
  } catch (error) {
    await end(child, gone);
    const why = messageOf(error);
    const sentence = IS_MISSING.test(why)
      ? `${NOT_INSTALLED}.`
      : `The embedded Redis could not be started: ${why}`;
    throw new SubagentError("setup_failed", sentence, {}, error);
  } finally {
    late.abort();
  }
}

/** Collects what the child says on its standard error; the answer is the error in it, else the last line. */
function listen(child: ChildProcess): () => string {
  let said = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-LAST_WORDS_CHARS);
  });
  return () => /^(?:\w*Error|FATAL ERROR)\b.*$/m.exec(said)?.[0] ?? said.trim().split("\n").at(-1) ?? "";
}

/** Answers `url` once a script has shown there that numbers arrive as they should; rejects when they do not. */
async function prove(url: string): Promise<string> {
  const redis = openRedis(url, "worker");
  try {
    const answer = await redis.eval(NUMBER_PROOF.script, 0);
    if (answer === NUMBER_PROOF.answer) return url;
    const sentence = `a number that should read ${NUMBER_PROOF.answer} reached a command as ${String(answer)}`;
    throw new SubagentError("setup_failed", sentence);
  } finally {
    closeRedis(redis);
  }
}

async function end(child: ChildProcess, gone: Promise<void>): Promise<void> {
  child.kill("SIGKILL");
  await gone;
}

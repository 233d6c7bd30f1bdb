/**
 * A Redis written in JavaScript, for a host without Redis: for trying out only, it keeps no data.
 *
 * Owns the server's process, which runs `embedded-redis-child.ts`.
 *
 * 1. The server ends with this process, even after `kill -9`, because the channel to it closes.
 * 2. It runs in its own session: Ctrl-C reaches only this process, which still needs Redis to drain.
 * 3. It is returned only after a script has proved that numbers reach commands exactly.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { extname, join } from "node:path";
import { z } from "zod";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { closeRedis, openRedis } from "../../shared/redis/connection/connection.ts";
import { NUMBER_PROOF } from "./embedded-lua-numbers.ts";
import { whenClosed } from "./private-redis.ts";

/** Warning in the banner while this server is used. */
export const EMBEDDED_WARNING =
  "embedded, in memory, for trying out: everything is lost when it stops; install redis-server or set REDIS_URL to keep it";

/** Matches the error of a missing server: only a clone installs it, as it is large and requires a newer Node. */
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
  /** Resolves when the server has ended, for any reason. */
  readonly gone: Promise<void>;
  /** Kills the server, which loses its data; resolves when the process has ended. Idempotent. */
  stop(): Promise<void>;
}

/** Options of {@link startEmbeddedRedis}. */
export interface EmbeddedRedisOptions {
  clock: Clock;
  /** Node arguments of the child. Default: those of this process, so that a TypeScript loader is kept. */
  nodeArguments?: readonly string[];
}

/**
 * Starts the server and waits until it answers. Throws `setup_failed` if it is not installed, ends at once, does not
 * answer within 10 s, or rounds numbers.
 */
export async function startEmbeddedRedis({
  clock,
  nodeArguments = process.execArgv,
}: EmbeddedRedisOptions): Promise<EmbeddedRedis> {
  const late = new AbortController();
  const failed = (sentence: () => string) => () =>
    Promise.reject(new SubagentError("setup_failed", sentence()));
  let stop = async () => {};
  try {
    const child = launch(nodeArguments);
    const lastWords = listen(child);
    // Without a listener an error would end this process; the start reports its own.
    child.on("error", () => {});
    const gone = whenClosed(child);
    stop = () => end(child, gone);
    const ready = once(child, "message").then(([message]) => prove(Ready.parse(message).url));
    const ended = gone.then(failed(() => lastWords() || "it ended at once"));
    const silent = clock
      .sleep(READY_WITHIN_MS, late.signal)
      .then(failed(() => `it did not answer within ${READY_WITHIN_MS / 1_000} s`));
    const url = await Promise.race([ready, ended, silent]);
    return { url, program: "js-redis-server", pid: child.pid ?? 0, gone, stop };
  } catch (error) {
    await stop();
    const why = messageOf(error);
    const sentence = IS_MISSING.test(why)
      ? `${NOT_INSTALLED}.`
      : `The embedded Redis could not be started: ${why}`;
    throw new SubagentError("setup_failed", sentence, {}, error);
  } finally {
    late.abort();
  }
}

function launch(nodeArguments: readonly string[]): ChildProcess {
  const entry = join(import.meta.dirname, `embedded-redis-child${extname(import.meta.filename)}`);
  return fork(entry, {
    execArgv: nodeArguments.filter((argument) => !argument.startsWith("--inspect")),
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    env: {},
    detached: true,
  });
}

/** Collects the child's standard error. The returned function gives the error line in it, else the last line. */
function listen(child: ChildProcess): () => string {
  let said = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-LAST_WORDS_CHARS);
  });
  return () => /^(?:\w*Error|FATAL ERROR)\b.*$/m.exec(said)?.[0] ?? said.trim().split("\n").at(-1) ?? "";
}

/** Resolves to `url` if a script proves that numbers reach commands exactly; else rejects. */
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

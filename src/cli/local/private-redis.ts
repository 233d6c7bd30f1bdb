/**
 * A private Redis for a host where none runs: `redis-server` or `valkey-server` from the PATH.
 *
 * Owns the server's process, directory and socket. Other modules only get the address.
 *
 * 1. No TCP port: a unix socket in a directory that no other user may enter.
 * 2. AOF every second, no snapshots, `noeviction`: the requirements of production.
 * 3. The server ends with this process, even after `kill -9`: its parent is a small shell that reads from a pipe, and only
 *    this process holds the other end. When the pipe ends, the shell kills the server and removes the directory.
 *
 * The server runs in its own session: Ctrl-C reaches only this process, which still needs Redis to drain.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { type EventEmitter, once } from "node:events";
import { accessSync, constants, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { Readable } from "node:stream";
import { pathToFileURL } from "node:url";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";

/** The supported server programs, best first. */
const SERVERS = ["redis-server", "valkey-server"];
/** A unix socket's path must fit into 108 bytes with its terminating NUL. */
const SOCKET_PATH_MAX_BYTES = 107;
const READY_WITHIN_MS = 10_000;
const POLL_EVERY_MS = 10;

const SUPERVISOR = `
trap "" INT TERM HUP QUIT
directory=$1
shift
"$@" </dev/null >"$directory/server.log" 2>&1 &
server=$!
exec 3>&-
read -r _
kill -KILL "$server"
wait "$server"
rm -rf -- "$directory"
`;

/** A running server that belongs to this process. */
export interface PrivateRedis {
  /** `unix:///…/redis.sock` */
  readonly url: string;
  /** The program, e.g. `redis-server`. */
  readonly program: string;
  /** Directory of its data and log; `stop` removes it. */
  readonly directory: string;
  /** Resolves when the server has ended, for any reason. */
  readonly gone: Promise<void>;
  /** Ends the server and removes its directory; resolves when both are done. Idempotent. */
  stop(): Promise<void>;
}

/** Options of {@link startPrivateRedis}. */
export interface PrivateRedisOptions {
  /** The PATH to search for a server. */
  searchPath: string | undefined;
  clock: Clock;
}

/**
 * Starts a private server and waits until it answers. Throws `setup_failed` if none is installed (the message says
 * what to install or set), if it ends at once, or if it does not answer within 10 s.
 */
export async function startPrivateRedis(options: PrivateRedisOptions): Promise<PrivateRedis> {
  const found = findServer(options.searchPath);
  if (!found) {
    const sentence =
      "No Redis: set REDIS_URL, or install redis-server (apt-get install redis-server, brew install redis) so that a private one can be started.";
    throw new SubagentError("setup_failed", sentence);
  }
  const directory = makeDirectory();
  const socketPath = join(directory, "redis.sock");
  let supervisor: Supervisor | undefined;
  const stop = async () => {
    await supervisor?.end();
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    supervisor = launch(found.path, directory, socketPath);
    const { gone } = supervisor;
    await supervisor.spawned;
    await untilReady(socketPath, gone, options.clock);
    const url = `unix://${pathToFileURL(socketPath).pathname}`;
    return { url, program: found.program, directory, gone, stop };
  } catch (error) {
    const lastWords = lastLine(join(directory, "server.log"));
    await stop();
    const reason = error instanceof SubagentError ? lastWords || error.message : String(error);
    throw new SubagentError("setup_failed", `${found.program} could not be started: ${reason}`, {}, error);
  }
}

/** Returns the first server on `searchPath`; undefined if there is none. */
export function findServer(searchPath: string | undefined): { program: string; path: string } | undefined {
  const directories = (searchPath ?? "").split(delimiter).filter((directory) => directory !== "");
  for (const program of SERVERS) {
    for (const directory of directories) {
      const path = join(directory, program);
      if (isExecutable(path)) return { program, path };
    }
  }
  return undefined;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Creates a directory that only this user may enter, with a path short enough for the socket. */
function makeDirectory(): string {
  const wanted = join(tmpdir(), "subagent-queue-");
  const fits = Buffer.byteLength(wanted) + "XXXXXX/redis.sock".length <= SOCKET_PATH_MAX_BYTES;
  try {
    return mkdtempSync(fits ? wanted : "/tmp/subagent-queue-");
  } catch (error) {
    const sentence = `The private Redis gets no directory (${messageOf(error)}): name one that can be written in TMPDIR, or set REDIS_URL.`;
    throw new SubagentError("setup_failed", sentence, {}, error);
  }
}

/** The shell that holds the server. */
interface Supervisor {
  /** Resolves when the shell runs; rejects if the machine gives no process. */
  readonly spawned: Promise<unknown>;
  /** Resolves when the server has ended; at once if it never began. */
  readonly gone: Promise<void>;
  /** Ends both; resolves when they have ended. Idempotent. */
  end(): Promise<void>;
}

function launch(path: string, directory: string, socketPath: string): Supervisor {
  const door = ["--port", "0", "--unixsocket", socketPath, "--unixsocketperm", "700"];
  const keeping = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""];
  const rest = ["--maxmemory-policy", "noeviction", "--dir", directory, "--daemonize", "no"];
  const command = [path, ...door, ...keeping, ...rest];
  // Only the server keeps the fourth pipe (fd 3) open, so the pipe ends when the server ends.
  const child = spawn("/bin/sh", ["-c", SUPERVISOR, "subagent-queue-redis", directory, ...command], {
    stdio: ["pipe", "ignore", "ignore", "pipe"],
    env: { PATH: "/usr/bin:/bin" },
    cwd: directory,
    detached: true,
  });
  const spawned = once(child, "spawn");
  const closed = whenClosed(child);
  // A process that gets no file descriptor has no pipes.
  const output = (child.stdio as ChildProcess["stdio"] | undefined)?.[3] as Readable | null | undefined;
  // The shell may have ended before this process closes the pipe.
  const emitters: (EventEmitter | null | undefined)[] = [child, child.stdin, output];
  for (const emitter of emitters) emitter?.on("error", () => {});
  output?.resume();
  return {
    spawned,
    gone: output ? whenClosed(output) : closed,
    end() {
      child.stdin?.end();
      return closed;
    },
  };
}

/** Resolves at the event `close`. An error before it does not count, unlike with `once` of `node:events`. */
export function whenClosed(emitter: EventEmitter): Promise<void> {
  return new Promise((resolve) => {
    emitter.once("close", () => resolve());
  });
}

/** Its log lies beside its data: on a disk that is full it can say nothing. */
const ENDED_WITHOUT_A_WORD =
  "it ended at once and could write nothing down; make room where TMPDIR (else /tmp) lies, or set REDIS_URL";

async function untilReady(socketPath: string, gone: Promise<void>, clock: Clock): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  const failed = (sentence: string) => () => Promise.reject(new SubagentError("setup_failed", sentence));
  const ended = gone.then(failed(ENDED_WITHOUT_A_WORD));
  const silent = clock
    .sleep(READY_WITHIN_MS, signal)
    .then(failed(`it did not answer within ${READY_WITHIN_MS / 1_000} s`));
  const answers = async () => {
    while (!signal.aborted && !(await answersPing(socketPath, signal)))
      await clock.sleep(POLL_EVERY_MS, signal);
  };
  try {
    await Promise.race([answers(), ended, silent]);
  } finally {
    over.abort();
  }
}

/** Resolves to true if the server answers PONG; to false if it does not before `signal` aborts, or the socket does not exist yet. */
async function answersPing(socketPath: string, signal: AbortSignal): Promise<boolean> {
  const socket = connect(socketPath);
  try {
    socket.write("PING\r\n");
    const answer: unknown[] = await Promise.race([
      once(socket, "data", { signal }),
      once(socket, "close", { signal }),
    ]);
    return String(answer[0]).startsWith("+PONG");
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

function lastLine(path: string): string {
  try {
    return readFileSync(path, "utf8").trim().split("\n").at(-1) ?? "";
  } catch {
    return "";
  }
}

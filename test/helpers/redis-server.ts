/**
 * Starts the `redis-server` processes of the tests. Does not use vitest, so that the global setup can use it too.
 *
 * Owns: start, kill and removal of one server. `redis.ts` gives servers to tests and stops them.
 *
 * 1. A server has AOF (everysec), no snapshots and `noeviction`, as production requires.
 * 2. A server keeps its directory and port over `kill()` and `start()`, so that a client finds it again.
 * 3. No server outlives the process that started it, not even after SIGKILL.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, readFile, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { constants, setPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { killWhenWeAreGone } from "./reaper.ts";
import { until } from "./until.ts";

const FIRST_PORT = 12_000;
const PORTS = 20_000;
const PORTS_A_PROCESS = 97;
let portsTried = process.pid * PORTS_A_PROCESS;
const HINT =
  "The tests need a real Redis (7.0 or newer): `apt-get install redis-server`, or name a binary in REDIS_SERVER_BIN.";

/**
 * Arguments of a server that loses no acknowledged write after a SIGKILL. With `everysec` it delays writes to its file, even
 * acknowledged ones, while the disk still runs the previous sync.
 */
export const FSYNC_NEVER: readonly string[] = ["--appendfsync", "no"];

/** A running or killed `redis-server` with its own port and directory. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  readonly socketPath: string;
  /** The directory of the append-only file. */
  readonly directory: string;
  /** Process id, or undefined while the server is down. */
  readonly pid: number | undefined;
  /** Starts it again after `kill`, with the same port and data. Idempotent. */
  start(): Promise<void>;
  /** Ends it; resolves when the process is gone. Default SIGKILL (no clean shutdown, no last fsync). Idempotent. */
  kill(signal?: "SIGKILL" | "SIGTERM"): Promise<void>;
  /** Freezes it (SIGSTOP): connections stay open, and it does not answer. */
  freeze(): void;
  /** Ends a freeze. */
  thaw(): void;
  /** Kills it and removes its directory. Idempotent. */
  stop(): Promise<void>;
}

/** Starts a server; the caller must stop it. `extra`: additional `redis-server` arguments. */
export async function startRedisServer(extra: readonly string[] = []): Promise<RedisServer> {
  const directory = await mkdtemp(join(tmpdir(), "redis-"));
  const port = await freePort();
  const socketPath = join(directory, "redis.sock");
  const settings = [...extra, ...(await busOf(extra))];
  let running: RunningServer | undefined;
  const server: RedisServer = {
    url: `redis://127.0.0.1:${port}`,
    port,
    socketPath,
    directory,
    get pid() {
      return running?.child.pid;
    },
    async start() {
      running ??= await launch(directory, port, socketPath, settings);
    },
    async kill(signal = "SIGKILL") {
      const ending = running;
      running = undefined;
      if (ending !== undefined) await end(ending, signal);
    },
    freeze: () => void running?.child.kill("SIGSTOP"),
    thaw: () => void running?.child.kill("SIGCONT"),
    async stop() {
      await server.kill();
      await rm(directory, { recursive: true, force: true });
    },
  };
  try {
    await server.start();
  } catch (failure) {
    await server.stop();
    throw failure;
  }
  return server;
}

/** Returns the bus port of a cluster node as arguments. Redis' default, port + 10,000, may be the port of a connection. */
async function busOf(extra: readonly string[]): Promise<string[]> {
  const isNode = extra.includes("--cluster-enabled") && !extra.includes("--cluster-port");
  return isNode ? ["--cluster-port", String(await freePort())] : [];
}

interface RunningServer {
  child: ChildProcess;
  closed: Promise<unknown>;
  release: () => Promise<void>;
}

async function launch(
  directory: string,
  port: number,
  socketPath: string,
  extra: readonly string[],
): Promise<RunningServer> {
  const binary = process.env.REDIS_SERVER_BIN ?? "redis-server";
  const logPath = join(directory, "redis.log");
  const settings = ["--bind", "127.0.0.1", "--port", String(port), "--unixsocket", socketPath];
  const keeping = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""];
  const rest = ["--maxmemory-policy", "noeviction", "--dir", directory, "--daemonize", "no"];
  // Uses stdout, not --logfile: Redis reports wrong arguments before it opens a log file.
  const log = await open(logPath, "a");
  const child = spawn(binary, [...settings, ...keeping, ...rest, ...extra], {
    stdio: ["ignore", log.fd, log.fd],
  });
  // Listens at once: a server that refuses its arguments may end before anything below has been awaited.
  const closed = once(child, "close");
  closed.catch(() => {});
  // A missing binary emits `error` instead of `spawn`; `once` then rejects.
  const spawned = once(child, "spawn").catch((failure: unknown) => {
    throw new Error(`cannot start "${binary}" (${String(failure)}).\n${HINT}`, { cause: failure });
  });
  await spawned.finally(() => log.close());
  preferOverTests(child);
  const release = killWhenWeAreGone(child.pid ?? 0, directory);
  const running = { child, closed, release };
  try {
    await until(() => hasEnded(child) || answersPing(port), { what: `${binary} to answer PING`, everyMs: 5 });
    if (hasEnded(child)) throw new Error(`${binary} ended at once:\n${await readFile(logPath, "utf8")}`);
  } catch (failure) {
    await end(running, "SIGKILL");
    throw failure;
  }
  return running;
}

async function end({ child, closed, release }: RunningServer, signal: NodeJS.Signals): Promise<void> {
  // A frozen process ignores SIGTERM until it is thawed.
  if (signal !== "SIGKILL") child.kill("SIGCONT");
  child.kill(signal);
  // Redis refuses SIGTERM until its data is in an append-only file.
  await until(() => hasEnded(child), { what: `redis-server to end on ${signal}` });
  await closed;
  await release();
}

/**
 * Gives the server a higher priority than the tests if this user may. In production no other process competes for Redis' cores,
 * and a server without CPU time would look unreachable.
 */
function preferOverTests({ pid = 0 }: ChildProcess): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_HIGH);
  } catch {
    // Only root may raise a priority.
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Returns whether the server answers PONG; it answers LOADING while it reads its append-only file. */
async function answersPing(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    socket.write("PING\r\n");
    const answer: unknown[] = await Promise.race([once(socket, "data"), once(socket, "close")]);
    return String(answer[0]).startsWith("+PONG");
  } finally {
    socket.destroy();
  }
}

/**
 * Returns a port of 127.0.0.1 that is free now; this process gets each port only once per 20,000 calls. It is below the ports of
 * outgoing connections (from 32768 on Linux), because a client could take one of those before the server has started, or
 * while it is down. The process id decides where the search begins, so that two processes begin far apart.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + (portsTried++ % PORTS);
    const probe = createServer();
    try {
      await once(probe.listen(port, "127.0.0.1"), "listening");
    } catch (failure) {
      if ((failure as NodeJS.ErrnoException).code === "EADDRINUSE") continue;
      throw failure;
    }
    probe.close();
    await once(probe, "close");
    return port;
  }
}

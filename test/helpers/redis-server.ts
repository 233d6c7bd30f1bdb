/**
 * The `redis-server` processes of the tests. Knows nothing of vitest, so that the global setup can use it too.
 *
 * Owns: start, kill and removal of one server. Its neighbour `redis.ts` hands servers to tests and ends them.
 *
 * 1. AOF (everysec), no snapshots and `noeviction`, as production demands.
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
 * Arguments of a server that is to have all it has answered for when it comes back from a SIGKILL. With `everysec` it holds
 * writes back, answered though they are, for as long as the disk takes for the sync before.
 */
export const HOLDS_NOTHING_BACK: readonly string[] = ["--appendfsync", "no"];

/** A running or killed `redis-server` with a port and a directory of its own. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  readonly socketPath: string;
  /** Where the append-only file lives. */
  readonly directory: string;
  /** Process id, or undefined while the server is down. */
  readonly pid: number | undefined;
  /** Starts it again after `kill`, on the same port and data. Idempotent. */
  start(): Promise<void>;
  /** Ends it; resolves when the process is gone. Default SIGKILL (no farewell, no last fsync). Idempotent. */
  kill(signal?: "SIGKILL" | "SIGTERM"): Promise<void>;
  /** Freezes it (SIGSTOP): connections stay open, nothing answers. */
  freeze(): void;
  /** Ends a freeze. */
  thaw(): void;
  /** Ends it and removes its directory. Idempotent. */
  stop(): Promise<void>;
}

/** Starts a server and leaves its end to the caller. `extra` are more `redis-server` arguments. */
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

/** The bus of a cluster's node: left alone it takes the port 10,000 higher, where connections have theirs. */
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
  // Its standard output, not --logfile: complaints about the arguments are written before a log file is opened.
  const log = await open(logPath, "a");
  const child = spawn(binary, [...settings, ...keeping, ...rest, ...extra], {
    stdio: ["ignore", log.fd, log.fd],
  });
  // A missing binary reports `error` and never `spawn`; `once` rejects then.
  const spawned = once(child, "spawn").catch((failure: unknown) => {
    throw new Error(`cannot start "${binary}" (${String(failure)}).\n${HINT}`, { cause: failure });
  });
  await spawned.finally(() => log.close());
  preferOverTests(child);
  const closed = once(child, "close");
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
  // SIGTERM is a wish: Redis refuses it while its data stands in no append-only file yet.
  await until(() => hasEnded(child), { what: `redis-server to end on ${signal}` });
  await closed;
  await release();
}

/**
 * In production nothing else fights for the cores of Redis: where this user may, its server goes before tests that do. One that
 * got no time at all would be taken for one that is away.
 */
function preferOverTests({ pid = 0 }: ChildProcess): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_HIGH);
  } catch {
    // Only root may.
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Whether the server answers PONG; it says LOADING while it reads its append-only file. */
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
 * A port of 127.0.0.1 that nothing uses at this moment and that this process gets once, below those that systems give to
 * outgoing connections (from 32768 on Linux): of those any client may take one before the server that was to have it has
 * started, or while it is down. Two processes begin far from each other.
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

/**
 * Opens the stage of a test: its own installation (a prefix on a Redis, the offline model over HTTP), with the workers,
 * parents and faults that the test needs. It closes at the end of the test, or of the file if a hook opened it.
 *
 * 1. The test's own connection bypasses the proxy; workers and parents of a `proxied` stage use it.
 * 2. Only a stage with its own Redis may stop, starve or reconfigure it.
 */
import { Redis } from "ioredis";
import type { Client } from "../../src/producer/client.ts";
import type { ClientOptions } from "../../src/producer/client-resources.ts";
import type { Parent, ParentOptions } from "../../src/producer/parent.ts";
import { TIMING } from "../../src/shared/protocol/limits.ts";
import type { ChannelEntry } from "../../src/shared/protocol/reply.ts";
import { createReplyStream, isReadable } from "../../src/shared/redis/replies.ts";
import type { Readiness } from "../../src/worker/health/readiness.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { testClient, testParent } from "../helpers/parents.ts";
import { type NodeProcess, spawnNode } from "../helpers/processes.ts";
import { type Proxy as FaultyProxy, startProxy } from "../helpers/proxy.ts";
import { redisUrl, startPrivateRedis } from "../helpers/redis.ts";
import { FSYNC_NEVER, type RedisServer } from "../helpers/redis-server.ts";
import { type ScriptedWorker, scriptedWorker } from "../helpers/scripted-worker.ts";
import { type Installation, type InstallationOptions, openInstallation } from "./installation.ts";

/** Startup timeout (ms): the process compiles its imports, and the machine may be busy. */
const STARTS_WITHIN_MS = 60_000;
const LOOKS_AGAIN_MS = 20;
const TENANT = "default";

export {
  type Agent,
  LONG_TIMING,
  SHORT_TIMING,
  type SpawnOptions,
  type WorkerProcess,
  type WorkerProcessOptions,
} from "./installation.ts";

/** A server or cluster that the stage knows only by its address. */
export interface ServerAddress {
  readonly url: string;
}

/** Options of a stage; default: the shared Redis, the offline model, production's timing. */
export interface StageOptions extends Omit<InstallationOptions, "redisUrl"> {
  /** The Redis that all tests share (default), a new server for this test, an existing server, or an address. */
  redis?: "shared" | "own" | RedisServer | ServerAddress;
  /** Arguments of the test's own server; default: it delays no write. */
  redisArguments?: readonly string[];
  /** Whether workers and parents reach the test's own server through a proxy; default false. */
  proxied?: boolean;
}

/** A process of `subagent-queue worker`. */
export interface CommandLineWorker extends NodeProcess {
  /** Reads `/readyz` from its health port. */
  readiness(): Promise<Readiness>;
  /** `http://host:port` of its health port. */
  readonly health: string;
}

/** Options of {@link Stage.commandLineWorker}. */
export interface CommandLineWorkerOptions {
  env?: Record<string, string>;
  /** Whether to wait until it prints that it is ready; default true. */
  waits?: boolean;
}

/** See the module's header. */
export interface Stage extends Installation {
  /** The Redis URL of workers and parents. */
  readonly url: string;
  /** Returns a new client, by default on this stage's Redis and prefix. */
  client(options?: Partial<ClientOptions>): Client;
  /** Returns a parent on the stage's shared client; default `planner-7`. */
  parent(parentId?: string, options?: Partial<ParentOptions>): Parent;
  /** Returns a worker that the test controls, for the agents of one parent. */
  scriptedWorker(parentId?: string): ScriptedWorker;
  /** Starts `subagent-queue worker`; the test's end kills it. */
  commandLineWorker(options?: CommandLineWorkerOptions): Promise<CommandLineWorker>;
}

/** A stage with the test's own Redis server. */
export interface OwnStage extends Stage {
  readonly server: RedisServer;
  /** The proxy in front of the server; null unless the stage is `proxied`. */
  readonly proxy: FaultyProxy | null;
  /** A connection that bypasses the proxy and reconnects by itself. */
  readonly observer: Redis;
  /** Reads the entries of a parent's stream through the observer, oldest first. */
  channel(parentId: string): Promise<ChannelEntry[]>;
}

/** A stage whose workers and parents reach its server through a proxy. */
export type ProxiedStage = OwnStage & { readonly proxy: FaultyProxy };

/** Opens a stage; see the module's header. */
export function openStage(
  options: StageOptions & { redis: "own" | RedisServer; proxied: true },
): Promise<ProxiedStage>;
export function openStage(options: StageOptions & { redis: "own" | RedisServer }): Promise<OwnStage>;
export function openStage(options?: StageOptions): Promise<Stage>;
export async function openStage(options: StageOptions = {}): Promise<Stage> {
  const { redis = "shared", redisArguments = FSYNC_NEVER, proxied = false, ...more } = options;
  if (redis === "shared") return stageOn(await openInstallation(more), redisUrl(), more);
  const server = redis === "own" ? await startPrivateRedis({ arguments: redisArguments }) : redis;
  const installation = await openInstallation({ ...more, redisUrl: server.url });
  if (!isServer(server)) return stageOn(installation, server.url, more);
  const proxy = proxied ? await startProxy(server.port) : null;
  const url = proxy === null ? server.url : `redis://127.0.0.1:${proxy.port}`;
  return Object.assign(
    stageOn(installation, url, more),
    { server, proxy },
    observe(installation, server, more),
  );
}

function isServer(redis: RedisServer | ServerAddress): redis is RedisServer {
  return "socketPath" in redis;
}

function stageOn(installation: Installation, url: string, { timing }: InstallationOptions): Stage {
  const { prefix } = installation;
  const client = (options: Partial<ClientOptions> = {}) =>
    testClient({ redisUrl: url, prefix, ...(timing && { timing }), ...options });
  // Created here, so that it lives as long as the stage, not only as long as the first test that needs a parent.
  const shared = client();
  return {
    ...installation,
    url,
    client,
    startWorker: (options) => installation.startWorker({ redisUrl: url, ...options }),
    spawnWorker: (options) => installation.spawnWorker({ redisUrl: url, ...options }),
    parent: (parentId = "planner-7", options = {}) => testParent(shared, { parentId, ...options }),
    scriptedWorker: (parentId = "planner-7") =>
      scriptedWorker(url, prefix, { tenant: TENANT, parentId }, timing),
    commandLineWorker: (options = {}) => startCommandLineWorker(installation, url, options),
  };
}

async function startCommandLineWorker(
  { prefix, workspaceRoot, offline }: Installation,
  url: string,
  { env = {}, waits = true }: CommandLineWorkerOptions,
): Promise<CommandLineWorker> {
  const child = await spawnNode("src/cli/main.ts", {
    args: ["worker", "--health-port", "0"],
    env: {
      REDIS_URL: url,
      SUBAGENT_PREFIX: prefix,
      SUBAGENT_WORKSPACES: workspaceRoot,
      ANTHROPIC_API_KEY: "offline",
      ANTHROPIC_BASE_URL: offline.url,
      ...env,
    },
  });
  const served = await child.waitForLine("Health checks", { timeoutMs: STARTS_WITHIN_MS });
  const { url: health } = JSON.parse(served) as { url: string };
  if (waits) await child.waitForLine(/^ready: worker/, { timeoutMs: STARTS_WITHIN_MS });
  const readiness = async () => (await (await fetch(`${health}/readyz`)).json()) as Readiness;
  return Object.assign(Object.create(child) as NodeProcess, { readiness, health });
}

/** Connects to the server for the whole test; the connection survives restarts of the server. */
function observe({ keys }: Installation, server: RedisServer, { timing = TIMING }: InstallationOptions) {
  const observer = new Redis(server.port, "127.0.0.1", {
    retryStrategy: () => LOOKS_AGAIN_MS,
    maxRetriesPerRequest: null,
  });
  observer.on("error", () => {});
  closeAtEnd(() => observer.disconnect());
  const replies = createReplyStream(observer, keys, timing);
  return {
    observer,
    channel: async (parentId: string): Promise<ChannelEntry[]> => {
      const found = await replies.read({ tenant: TENANT, parentId }, "0", 1_000);
      return found.filter(isReadable).map(({ entry }) => entry);
    },
  };
}

/**
 * The one stage of the tests: an installation of its own (a prefix on a Redis, the offline model over HTTP), with the
 * workers, parents and faults that a test asks for. Everything ends with the test, or with the file where a hook opened it.
 *
 * 1. The test's own connection goes past the proxy; workers and parents of a `proxied` stage go through it.
 * 2. Only a stage with a Redis of its own may stop, starve or reconfigure it.
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
import { HOLDS_NOTHING_BACK, type RedisServer } from "../helpers/redis-server.ts";
import { type ScriptedWorker, scriptedWorker } from "../helpers/scripted-worker.ts";
import { type Installation, type InstallationOptions, openInstallation } from "./installation.ts";

/** A machine may be busy while a process compiles what it imports. */
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

/** A server, or a cluster, of which the stage knows the address alone. */
export interface ServerAddress {
  readonly url: string;
}

/** What a stage is made of; without any: the shared Redis, the offline model, production's timing. */
export interface StageOptions extends Omit<InstallationOptions, "redisUrl"> {
  /** The Redis that all tests share (default), a server of the test's own, one that is there, or the address of any. */
  redis?: "shared" | "own" | RedisServer | ServerAddress;
  /** Arguments of a server of the test's own; default: it holds no write back. */
  redisArguments?: readonly string[];
  /** Whether workers and parents reach a server of the test's own through a proxy. */
  proxied?: boolean;
}

/** A worker of the command line in a process of its own. */
export interface CommandLineWorker extends NodeProcess {
  /** What it says of itself on its health port. */
  readiness(): Promise<Readiness>;
  /** `http://host:port` of its health port. */
  readonly health: string;
}

/** How a worker of the command line is started. */
export interface CommandLineWorkerOptions {
  env?: Record<string, string>;
  /** Whether to wait until it says that it is ready; default true. */
  waits?: boolean;
}

/** See the module's header. */
export interface Stage extends Installation {
  /** The URL that workers and parents are given. */
  readonly url: string;
  /** Another client, on this stage's Redis and prefix unless told otherwise. */
  client(options?: Partial<ClientOptions>): Client;
  /** A parent of the stage's one client; default `planner-7`. */
  parent(parentId?: string, options?: Partial<ParentOptions>): Parent;
  /** A worker that does what the test tells it, for the agents of one parent. */
  scriptedWorker(parentId?: string): ScriptedWorker;
  /** Starts `subagent-queue worker`; killed with the test. */
  commandLineWorker(options?: CommandLineWorkerOptions): Promise<CommandLineWorker>;
}

/** A stage with a Redis server of the test's own. */
export interface OwnStage extends Stage {
  readonly server: RedisServer;
  /** Between the server and the workers and parents; null unless the stage is `proxied`. */
  readonly proxy: FaultyProxy | null;
  /** Past the proxy, and back by itself when the server is. */
  readonly observer: Redis;
  /** The entries in a parent's stream, oldest first, as the observer sees them. */
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
  const { redis = "shared", redisArguments = HOLDS_NOTHING_BACK, proxied = false, ...more } = options;
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
  // Made here, so that it lives as long as the stage, and not as the first test that asks for a parent.
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

/** Looks at the server for as long as the test goes on, whatever becomes of it. */
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

/**
 * Opens a whole installation for worker tests: a prefix on a real Redis, the offline model over HTTP, workers in this process
 * or in their own, and a parent that spawns and sends through the agent store, as producers do.
 */

import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createOfflineModel, type OfflineModel, type Scenario } from "../../src/offline/server.ts";
import { createLogger } from "../../src/shared/logger.ts";
import type { AgentRecord, AgentSpec } from "../../src/shared/protocol/agent.ts";
import { newUid, slugOf } from "../../src/shared/protocol/ids.ts";
import { type AgentAddress, type Keys, keysUnder } from "../../src/shared/protocol/keys.ts";
import { IDLE_MS, SPAWN_LIMITS, TIMING, type Timing } from "../../src/shared/protocol/limits.ts";
import type { Reply } from "../../src/shared/protocol/reply.ts";
import { needsOf } from "../../src/shared/protocol/worker.ts";
import { type AgentStore, createAgentStore } from "../../src/shared/redis/agent-store.ts";
import { closeRedis, openRedis, type RedisClient } from "../../src/shared/redis/connection/connection.ts";
import { createDeadlineSet, type DeadlineSet } from "../../src/shared/redis/deadlines.ts";
import { renewWatching } from "../../src/shared/redis/events.ts";
import { createReplyStream } from "../../src/shared/redis/replies.ts";
import { createWakeQueue, type WakeQueue } from "../../src/shared/redis/wake-queue.ts";
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import { createWorker, type SubagentWorker } from "../../src/worker/worker.ts";
import type { WorkerOptions } from "../../src/worker/worker-options.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type NodeProcess, spawnNode } from "../helpers/processes.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

/** Timing with leases so short that they expire during a test. */
export const SHORT_TIMING: Timing = {
  ...TIMING,
  leaseMs: 1_500,
  renewMs: 300,
  leaseMarginMs: 300,
  checkMs: 500,
  longestCheckMs: 2_000,
};

/** Timing so long that no sweeper repairs anything during a test: only the path under test can have the effect. */
export const LONG_TIMING: Timing = {
  ...TIMING,
  leaseMs: 900_000,
  renewMs: 300_000,
  checkMs: 900_000,
  longestCheckMs: 900_000,
};

export interface InstallationOptions {
  scenario?: Scenario;
  /** Delay (ms) before the first byte of each model answer, unless the scenario sets another. Default 0. */
  latencyMs?: number;
  /** Default: production's timing. */
  timing?: Timing;
  /** Default: the server that all tests share. */
  redisUrl?: string;
  /** Default: a unique prefix. */
  prefix?: string;
}

export type SpawnOptions = Partial<Omit<AgentSpec, "v">> & { name?: string };

/** A spawned agent. */
export interface Agent extends AgentAddress {
  agentId: string;
}

/** A worker in its own process; `id` is the worker id in records. */
export interface WorkerProcess extends NodeProcess {
  readonly id: string;
}

/** Options of a worker process. */
export interface WorkerProcessOptions {
  /** Default 10. */
  concurrency?: number;
  /** Default: the installation's. */
  workspaceRoot?: string;
  /** Redis of the worker, e.g. a proxy; default: the installation's. */
  redisUrl?: string;
  /** URL of the model, e.g. a proxy; default: the installation's offline model. */
  modelUrl?: string;
  /** How long steps may continue after SIGTERM, ms; default: the worker's own default. */
  drainGraceMs?: number;
  /** Whether suspects run in their own processes; default false. */
  isolation?: boolean;
  /** Whether the watchdog ends the process if its event loop blocks for a lease; default false. */
  watchdog?: boolean;
  /** Names of the fixture's tools that the worker does not offer. */
  lacks?: readonly string[];
  /** File to which the fixture's tools append a line when they begin and end: see `fixtures/worker-process.ts`. */
  journal?: string;
  /** Whether it serves health checks, and prints `health <url>` before it is ready; default false. */
  health?: boolean;
  /** Whether it prints `silent <ms>` for each period in which its event loop was blocked; default false. */
  tellsSilence?: boolean;
}

export interface Installation {
  readonly prefix: string;
  readonly keys: Keys;
  readonly redis: RedisClient;
  readonly store: AgentStore;
  readonly deadlines: DeadlineSet;
  readonly wakes: WakeQueue;
  readonly offline: OfflineModel;
  readonly workspaceRoot: string;
  /** Starts a worker in this process; the test's end stops it. */
  startWorker(options?: Partial<WorkerOptions>): Promise<SubagentWorker>;
  /** Starts a worker in its own process, with the fixture's tools; the test's end kills it. */
  spawnWorker(options?: WorkerProcessOptions): Promise<WorkerProcess>;
  spawn(options?: SpawnOptions): Promise<Agent>;
  /** Sends a message and adds a wake after `delayMs` (default 0), as a producer does. Resolves to the verb's status. */
  send(agent: Agent, text: string, delayMs?: number): Promise<string>;
  /** Calls `spawn` and `send`. */
  task(prompt: string, options?: SpawnOptions): Promise<Agent>;
  /** Turns on publishing of the parent's events, which a subscriber otherwise renews every few seconds. */
  watch(agent: Agent): Promise<void>;
  /** Calls `task` for a parent that is watched, so that the agent's model calls are streamed. */
  watchedTask(prompt: string, options?: SpawnOptions): Promise<Agent>;
  destroy(agent: Agent): Promise<string>;
  record(agent: Agent): Promise<AgentRecord>;
  /** Returns the agent's replies in the parent's channel, oldest first. */
  entries(agent: Agent): Promise<Reply[]>;
  /** Resolves to the agent's `n`th reply (default 1) as soon as it exists. */
  reply(agent: Agent, n?: number, timeoutMs?: number): Promise<Reply>;
  /** Resolves when the agent's record meets the condition. */
  recordWhere(
    agent: Agent,
    condition: (record: AgentRecord) => boolean,
    timeoutMs?: number,
  ): Promise<AgentRecord>;
}

const PARENT_HAS_ROOM_FOR = 10;
/** Startup timeout (ms): the process compiles its imports, and the machine may be busy. */
const STARTS_WITHIN_MS = 60_000;

/** Opens an installation; the test's end closes it and removes its files. */
export async function openInstallation(options: InstallationOptions = {}): Promise<Installation> {
  const { timing = TIMING } = options;
  const url = options.redisUrl ?? redisUrl();
  const { prefix = uniquePrefix() } = options;
  const keys = keysUnder(prefix);
  const workspaceRoot = await mkdtemp(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rm(workspaceRoot, { recursive: true, force: true }));
  const offline = createOfflineModel({
    ...(options.scenario && { scenario: options.scenario }),
    latencyMs: options.latencyMs ?? 0,
  });
  await offline.start();
  closeAtEnd(() => offline.stop());
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: offline.url });
  closeAtEnd(() => model.stop());
  const redis = openRedis(url, "worker");
  const wakes = createWakeQueue(redis, keys);
  closeAtEnd(async () => {
    await wakes.stop();
    closeRedis(redis);
  });
  const store = createAgentStore(redis, keys, timing);
  const deadlines = createDeadlineSet(redis, keys, timing);
  const parent = createTestParent({ redis, keys, store, deadlines, wakes, timing });
  return {
    prefix,
    keys,
    redis,
    store,
    deadlines,
    wakes,
    offline,
    workspaceRoot,
    ...parent,
    async startWorker(more) {
      const defaults = { redisUrl: url, prefix, model, workspaceRoot, timing };
      const worker = createWorker({ ...defaults, logger: createLogger({ level: "silent" }), ...more });
      closeAtEnd(() => worker.stop());
      await worker.start();
      return worker;
    },
    async spawnWorker({ concurrency = 10, ...more } = {}) {
      const settings = {
        redisUrl: url,
        prefix,
        modelUrl: offline.url,
        workspaceRoot,
        timing,
        concurrency,
        ...more,
      };
      const child = await spawnNode("test/helpers/fixtures/worker-process.ts", {
        args: [JSON.stringify(settings)],
      });
      const ready = await child.waitForLine(/^ready /, { timeoutMs: STARTS_WITHIN_MS });
      return Object.defineProperty(child, "id", { value: ready.slice("ready ".length) }) as WorkerProcess;
    },
  };
}

type ParentParts = Pick<Installation, "redis" | "keys" | "store" | "deadlines" | "wakes"> & {
  timing: Timing;
};

function createTestParent({ redis, keys, store, deadlines, wakes, timing }: ParentParts) {
  const replies = createReplyStream(redis, keys, timing);
  let spawned = 0;
  const spawn = async ({ name = "worker", ...spec }: SpawnOptions = {}): Promise<Agent> => {
    const parentId = `parent-${Math.floor(spawned++ / PARENT_HAS_ROOM_FOR)}`;
    const address = { tenant: "default", parentId, uid: newUid() };
    const full: AgentSpec = {
      v: 1,
      model: "offline-1",
      limits: SPAWN_LIMITS,
      keep_alive: false,
      idle_ms: IDLE_MS,
      ...spec,
    };
    await deadlines.hint(address, Math.min(full.idle_ms, timing.checkMs));
    const answer = await store.spawn(address, {
      request_key: address.uid,
      digest: "",
      stem: slugOf(name),
      name,
      spec: JSON.stringify(full),
      needs_tools: needsOf(full),
      idle_ms: full.idle_ms,
    });
    if (answer.status !== "spawned") throw new Error(`spawn answered ${answer.status}`);
    return { ...address, agentId: answer.agent_id };
  };
  const send = async (agent: Agent, text: string, delayMs = 0): Promise<string> => {
    await deadlines.hint(agent, timing.checkMs);
    const message_id = randomBytes(8).toString("hex");
    const payload = JSON.stringify({ v: 1, message_id, text });
    const answer = await store.send(agent, { message_id, payload, digest: "" });
    if (answer.status === "queued") {
      const { tenant, parentId: parent_id, uid, agentId: agent_id } = agent;
      await wakes.add({ tenant, parent_id, uid, agent_id, wake: answer.wake }, delayMs);
    }
    return answer.status;
  };
  const record = async (agent: Agent): Promise<AgentRecord> => {
    const found = await store.record(agent);
    if (!found) throw new Error(`no record of ${agent.uid}`);
    return found;
  };
  const entries = async (agent: Agent): Promise<Reply[]> =>
    (await replies.read(agent, "0", 1_000))
      .filter(({ uid }) => uid === agent.uid)
      .flatMap(({ entry }) => (entry.kind === "reply" || entry.kind === "ended" ? [entry] : []));
  const watch = async (agent: Agent) => {
    await renewWatching(redis, keys, agent);
    await redis.persist(keys.parent(agent).watching);
  };
  return {
    spawn,
    send,
    watch,
    record,
    entries,
    async task(prompt: string, options?: SpawnOptions) {
      const agent = await spawn(options);
      await send(agent, prompt);
      return agent;
    },
    async watchedTask(prompt: string, options?: SpawnOptions) {
      const agent = await spawn(options);
      await watch(agent);
      await send(agent, prompt);
      return agent;
    },
    async destroy(agent: Agent) {
      const how = {
        target: "ended",
        ended_reason: "destroyed",
        status: "cancelled",
        stop_reason: "destroyed",
      } as const;
      return (await store.settle(agent, { authority: "parent", ...how })).status;
    },
    reply: (agent: Agent, n = 1, timeoutMs?: number): Promise<Reply> =>
      until(async () => (await entries(agent))[n - 1], { what: `entry ${n} about ${agent.uid}`, timeoutMs }),
    recordWhere: (agent: Agent, condition: (record: AgentRecord) => boolean, timeoutMs?: number) =>
      until(
        async () => {
          const now = await record(agent);
          return condition(now) && now;
        },
        { what: `a record of ${agent.uid} with ${condition}`, timeoutMs },
      ),
  };
}

/**
 * A worker of the command line in a process of its own, a parent, and a Redis that a test can trouble: everything goes
 * through a proxy, while the test looks past it. Timing is that of production.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Redis } from "ioredis";
import { expect } from "vitest";
import { createOfflineModel, type OfflineModel } from "../../src/offline/server.ts";
import { createClient } from "../../src/producer/client.ts";
import { createParent, type Parent } from "../../src/producer/parent.ts";
import { SubagentError } from "../../src/shared/errors.ts";
import { type Keys, keysUnder } from "../../src/shared/protocol/keys.ts";
import type { ChannelEntry } from "../../src/shared/protocol/reply.ts";
import { TIMING } from "../../src/shared/protocol/timing.ts";
import { createReplyStream, isReadable } from "../../src/shared/redis/reply-stream.ts";
import type { Readiness } from "../../src/worker/readiness.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type NodeProcess, spawnNode } from "../helpers/processes.ts";
import { type Proxy as FaultyProxy, startProxy } from "../helpers/proxy.ts";
import { HOLDS_NOTHING_BACK, startPrivateRedis, uniquePrefix } from "../helpers/redis.ts";
import type { RedisServer } from "../helpers/redis-server.ts";
import { until } from "../helpers/until.ts";

/** Before the first byte of each model answer. */
const LATENCY_MS = 250;
/** Model calls of one run. */
const TURNS = 6;
const AGENTS = 8;
const WORKER_STARTS_WITHIN_MS = 60_000;
const SAMPLE_EVERY_MS = 20;
const DELAY_RESOLUTION_MS = 10;

const glob = (turn: number) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern: `${turn}*` } }],
});
const scenarioOf = (turns: number) => ({
  turns: [
    ...Array.from({ length: turns - 1 }, (_, turn) => glob(turn)),
    { content: [{ type: "text" as const, text: "All looked through." }] },
  ],
});

/** A worker in a process of its own. */
export interface TroubledWorker extends NodeProcess {
  /** What it says of itself. */
  readiness(): Promise<Readiness>;
}

/** See the file's sentence. */
export interface TroubleScene {
  readonly server: RedisServer;
  readonly proxy: FaultyProxy;
  readonly offline: OfflineModel;
  readonly prefix: string;
  readonly keys: Keys;
  /** Past the proxy. */
  readonly redis: Redis;
  /** Starts a worker and waits until it says that it is ready, unless told not to wait. */
  startWorker(options?: { env?: Record<string, string>; waits?: boolean }): Promise<TroubledWorker>;
  /** A parent through the proxy. */
  parent(id: string): Parent;
  /** The entries about its agents in a parent's stream, oldest first. */
  entries(parentId: string): Promise<ChannelEntry[]>;
}

/** Opens the scene; everything ends with the test (or file). `keeping`: how its Redis keeps what it is told. */
export async function openTroubleScene({
  latencyMs = LATENCY_MS,
  turns = TURNS,
  keeping = HOLDS_NOTHING_BACK,
} = {}): Promise<TroubleScene> {
  const server = await startPrivateRedis({ arguments: keeping });
  const proxy = await startProxy(server.port);
  const prefix = uniquePrefix();
  const keys = keysUnder(prefix);
  const redisUrl = `redis://127.0.0.1:${proxy.port}`;
  const workspaces = await mkdtemp(join(tmpdir(), "trouble-"));
  closeAtEnd(() => rm(workspaces, { recursive: true, force: true }));
  const offline = createOfflineModel({ scenario: scenarioOf(turns), latencyMs });
  await offline.start();
  closeAtEnd(() => offline.stop());
  const redis = new Redis(server.port, "127.0.0.1", {
    retryStrategy: () => SAMPLE_EVERY_MS,
    maxRetriesPerRequest: null,
  });
  redis.on("error", () => {});
  closeAtEnd(() => redis.disconnect());
  const client = createClient({ redisUrl, prefix, model: "offline-1" });
  closeAtEnd(() => client.stop());
  const replies = createReplyStream(redis, keys, TIMING);
  return {
    server,
    proxy,
    offline,
    prefix,
    keys,
    redis,
    async startWorker({ env = {}, waits = true } = {}) {
      const child = await spawnNode("src/cli/main.ts", {
        args: ["worker", "--health-port", "0"],
        env: {
          REDIS_URL: redisUrl,
          SUBAGENT_PREFIX: prefix,
          SUBAGENT_WORKSPACES: workspaces,
          ANTHROPIC_API_KEY: "offline",
          ANTHROPIC_BASE_URL: offline.url,
          ...env,
        },
      });
      const served = await child.waitForLine("Health checks", { timeoutMs: WORKER_STARTS_WITHIN_MS });
      const { url } = JSON.parse(served) as { url: string };
      if (waits) await child.waitForLine(/^ready: worker/, { timeoutMs: WORKER_STARTS_WITHIN_MS });
      const readiness = async () => (await (await fetch(`${url}/readyz`)).json()) as Readiness;
      return Object.assign(Object.create(child) as NodeProcess, { readiness });
    },
    parent(parentId) {
      const parent = createParent({ parentId, client });
      closeAtEnd(() => parent.stop());
      return parent;
    },
    entries: async (parentId) =>
      (await replies.read({ tenant: "default", parentId }, "0", 1_000))
        .filter(isReadable)
        .map(({ entry }) => entry),
  };
}

/** Runs going on. */
interface Batch {
  /** Resolves when every run has its reply; checks that each succeeded, once, and that no committed turn was bought again. */
  succeedsOnce(withinMs: number): Promise<{ calls: number }>;
}

/** Starts runs of a parent of their own and waits until `atATime` of them have bought a turn; none is over by then. */
export async function startBatch(scene: TroubleScene, parentId: string, atATime = AGENTS): Promise<Batch> {
  const { offline, redis, keys } = scene;
  const parent = scene.parent(parentId);
  const before = offline.ledger.length;
  const agents = await Promise.all(
    Array.from({ length: AGENTS }, async (_, i) => {
      const name = `a${i}`;
      const { agent_id } = await parent.spawn({ name });
      await parent.send(agent_id, `${parentId} ${name}`);
      const uid = await redis.hget(keys.parent({ tenant: "default", parentId }).registry, agent_id);
      return { agent_id, uid: uid ?? "" };
    }),
  );
  const committedAt = sampleLogs(
    scene,
    parentId,
    agents.map(({ uid }) => uid),
  );
  const uids = new Set(agents.map(({ uid }) => uid));
  const bought = () =>
    offline.ledger
      .slice(before)
      .filter((call) => call.status === "served" && uids.has(call.idempotency_key?.split(".")[0] ?? ""));
  await until(() => new Set(bought().map((call) => call.conversation)).size >= atATime, {
    timeoutMs: 30_000,
    what: "runs to have bought a turn",
  });
  expect(await scene.entries(parentId), "the fault must hit runs in progress").toEqual([]);
  return {
    async succeedsOnce(withinMs) {
      const entries = await until(
        async () => {
          const all = await scene.entries(parentId);
          return all.length >= AGENTS && all;
        },
        { timeoutMs: withinMs, everyMs: 50, what: `${AGENTS} replies for ${parentId}` },
      );
      expect(entries.map((entry) => entry.agent_id).sort()).toEqual(
        agents.map(({ agent_id }) => agent_id).sort(),
      );
      for (const entry of entries) {
        expect(entry).toMatchObject({
          kind: "reply",
          status: "succeeded",
          turns: TURNS,
          summary: "All looked through.",
        });
      }
      const calls = bought();
      const turns = new Set<string>();
      for (const { idempotency_key, began_at } of calls) {
        const [uid = "", message] = (idempotency_key ?? "").split(".");
        const turn = `${uid} ${(Number(message) - 1) / 2}`;
        turns.add(turn);
        const committed = committedAt.get(turn) ?? Number.POSITIVE_INFINITY;
        expect(began_at, `turn ${turn} was committed and is bought again`).toBeLessThanOrEqual(committed);
      }
      expect(turns.size).toBe(AGENTS * TURNS);
      // The log of an agent is gone with its end, and with it the last turns nobody had a look at.
      expect(committedAt.size).toBeGreaterThanOrEqual(AGENTS * (TURNS - 2));
      return { calls: calls.length };
    },
  };
}

/** When each turn was first seen in a log, ms of `Date.now`, by `<uid> <turn>`; looks as long as the test goes on. */
function sampleLogs({ redis, keys }: TroubleScene, parentId: string, uids: string[]): Map<string, number> {
  const committedAt = new Map<string, number>();
  let stopped = false;
  closeAtEnd(() => {
    stopped = true;
    return looking;
  });
  const look = async () => {
    while (!stopped) {
      const logs = await Promise.all(
        uids.map((uid) => redis.hkeys(keys.agent({ tenant: "default", parentId, uid }).log)),
      ).catch(() => []);
      for (const [i, log] of logs.entries()) {
        for (const entry of log) {
          const message = Number(entry);
          const name = `${uids[i]} ${(message - 1) / 2}`;
          if (message % 2 === 1 && !committedAt.has(name)) committedAt.set(name, Date.now());
        }
      }
      await new Promise((resolve) => setTimeout(resolve, SAMPLE_EVERY_MS));
    }
  };
  const looking = look();
  return committedAt;
}

/** What a producer's call came to. */
export interface Attempt {
  key: string;
  /** Less the longest time in which this process was kept from running. */
  tookMs: number;
  /** `done`, or the code of the error. */
  outcome: string;
}

/** Spawns on and on until `stop`, one at a time, each with a key of its own; ended at once where it worked. */
export function keepSpawning(parent: Parent): { stop(): Promise<Attempt[]> } {
  const attempts: Attempt[] = [];
  const delays = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  delays.enable();
  closeAtEnd(() => void delays.disable());
  const keptMs = () => Math.max(0, delays.max / 1e6 - DELAY_RESOLUTION_MS);
  let stopped = false;
  closeAtEnd(() => {
    stopped = true;
    return going.then(() => {});
  });
  const go = async () => {
    for (let n = 0; !stopped; n++) {
      const key = `key-${n}`;
      const startedMs = performance.now();
      delays.reset();
      const outcome = await parent.spawn({ name: "extra", request_key: key }).then(
        () => "done",
        (error: unknown) => (error instanceof SubagentError ? error.code : String(error)),
      );
      attempts.push({ key, tookMs: performance.now() - startedMs - keptMs(), outcome });
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    return attempts;
  };
  const going = go();
  return {
    stop() {
      stopped = true;
      return going;
    },
  };
}

/** A refused spawn left nothing, one that was answered is there, and nobody waited for long. */
export async function holdsForProducers(
  { redis, keys }: TroubleScene,
  parentId: string,
  attempts: readonly Attempt[],
): Promise<void> {
  const of = keys.parent({ tenant: "default", parentId });
  for (const { key, outcome, tookMs } of attempts) {
    expect(outcome).toMatch(/^(done|quota_exceeded|redis_unavailable|outcome_unknown)$/);
    expect(tookMs, `${key}: ${outcome}`).toBeLessThan(1_000);
    if (outcome === "outcome_unknown") continue;
    expect(await redis.exists(of.request(key)), `${key}: ${outcome}`).toBe(outcome === "done" ? 1 : 0);
  }
}

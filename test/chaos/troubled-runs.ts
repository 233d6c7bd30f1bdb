/**
 * Starts runs and producer calls on a stage with a proxied Redis that a test can disturb; the test itself bypasses the proxy.
 * Uses production's timing.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { expect } from "vitest";
import type { Parent } from "../../src/producer/parent.ts";
import { SubagentError } from "../../src/shared/errors.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { reportTime } from "../helpers/figures.ts";
import { FSYNC_NEVER } from "../helpers/redis-server.ts";
import { until } from "../helpers/until.ts";
import { openStage, type ProxiedStage } from "../stage/stage.ts";

/** Delay (ms) before the first byte of each model answer. */
const LATENCY_MS = 250;
/** Number of model calls per run. */
const TURNS = 6;
const AGENTS = 8;
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

/** Opens a stage with its own proxied Redis and runs of `turns` turns. `keeping`: Redis' arguments for persistence. */
export function openTroubledStage({
  latencyMs = LATENCY_MS,
  turns = TURNS,
  keeping = FSYNC_NEVER,
} = {}): Promise<ProxiedStage> {
  const scenario = scenarioOf(turns);
  return openStage({ redis: "own", redisArguments: keeping, proxied: true, scenario, latencyMs });
}

/** Runs in progress. */
interface Batch {
  /** Waits for all replies; checks that each run succeeded once and that no committed turn was bought again. */
  succeedsOnce(withinMs: number): Promise<Bought>;
}

/** The model calls of a batch, and how many of them bought a turn again. */
interface Bought {
  calls: number;
  again: number;
}

/** Starts runs of a new parent, waits until `atATime` of them have bought a turn, and checks that none is over. */
export async function startBatch(stage: ProxiedStage, parentId: string, atATime = AGENTS): Promise<Batch> {
  const { offline, observer, keys } = stage;
  const parent = stage.parent(parentId);
  const before = offline.ledger.length;
  const agents = await Promise.all(
    Array.from({ length: AGENTS }, async (_, i) => {
      const name = `a${i}`;
      const { agent_id } = await parent.spawn({ name });
      await parent.send(agent_id, `${parentId} ${name}`);
      const uid = await observer.hget(keys.parent({ tenant: "default", parentId }).registry, agent_id);
      return { agent_id, uid: uid ?? "" };
    }),
  );
  const committedAt = sampleLogs(
    stage,
    parentId,
    agents.map(({ uid }) => uid),
  );
  const uids = new Set(agents.map(({ uid }) => uid));
  const bought = () =>
    offline.ledger
      .slice(before)
      .filter((call) => call.status === "served" && uids.has(call.idempotency_key?.split(".")[0] ?? ""));
  await until(() => new Set(bought().map((call) => call.conversation)).size >= atATime, {
    what: "runs to have bought a turn",
  });
  expect(await stage.channel(parentId), "the fault must hit runs in progress").toEqual([]);
  return {
    async succeedsOnce(withinMs) {
      const entries = await until(
        async () => {
          const all = await stage.channel(parentId);
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
      // An agent's log is deleted at its end, so its last turns may not have been sampled.
      expect(committedAt.size).toBeGreaterThanOrEqual(AGENTS * (TURNS - 2));
      return { calls: calls.length, again: calls.length - AGENTS * TURNS };
    },
  };
}

/** Samples the logs until the test ends. Returns when each turn was first seen (ms of `Date.now`), by `<uid> <turn>`. */
function sampleLogs({ observer, keys }: ProxiedStage, parentId: string, uids: string[]): Map<string, number> {
  const committedAt = new Map<string, number>();
  let stopped = false;
  closeAtEnd(() => {
    stopped = true;
    return looking;
  });
  const look = async () => {
    while (!stopped) {
      const logs = await Promise.all(
        uids.map((uid) => observer.hkeys(keys.agent({ tenant: "default", parentId, uid }).log)),
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

/** A producer's call and its result. */
export interface Attempt {
  key: string;
  /** Time of `performance.now()`. */
  startedMs: number;
  /** Duration minus the longest block of this process's event loop. */
  tookMs: number;
  /** `done`, or the code of the error. */
  outcome: string;
}

/** Spawns agents one after the other until `stop`, each with its own request key. */
export function keepSpawning(parent: Parent): { attempts: readonly Attempt[]; stop(): Promise<Attempt[]> } {
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
      attempts.push({ key, startedMs, tookMs: performance.now() - startedMs - keptMs(), outcome });
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    return attempts;
  };
  const going = go();
  return {
    attempts,
    stop() {
      stopped = true;
      return going;
    },
  };
}

/** Checks that a refused spawn left nothing, that a successful one exists, and that no call took long. */
export async function holdsForProducers(
  { observer, keys }: ProxiedStage,
  parentId: string,
  attempts: readonly Attempt[],
): Promise<void> {
  const of = keys.parent({ tenant: "default", parentId });
  reportTime("slowest call of a producer", Math.max(...attempts.map(({ tookMs }) => tookMs)), 1_000);
  for (const { key, outcome } of attempts) {
    expect(outcome).toMatch(/^(done|quota_exceeded|redis_unavailable|outcome_unknown)$/);
    if (outcome === "outcome_unknown") continue;
    expect(await observer.exists(of.request(key)), `${key}: ${outcome}`).toBe(outcome === "done" ? 1 : 0);
  }
}

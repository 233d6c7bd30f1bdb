/**
 * Guarantee: `kill -9` of Redis loses no spawn and no message that was answered, as far as Redis has written it.
 * `TROUBLE_KILLS` (default 2, the long form is 5) kills at moments drawn from `TROUBLE_SEED`.
 *
 * While a sync of `everysec` is under way Redis answers writes that are in no file yet, for two seconds at most: a kill at such a
 * moment loses them. So in the long form Redis syncs before each answer, and in the short form, which runs anywhere, never.
 */
import { expect, test } from "vitest";
import type { Parent } from "../../src/producer/parent.ts";
import { SubagentError } from "../../src/shared/errors.ts";
import { newRequestKey } from "../../src/shared/protocol/ids.ts";
import { FSYNC_NEVER } from "../helpers/redis.ts";
import { seeded } from "../helpers/seeded.ts";
import { until } from "../helpers/until.ts";
import type { ProxiedStage } from "../stage/stage.ts";
import { openTroubledStage } from "./troubled-runs.ts";

const IS_LONG = process.env.TROUBLE === "long";
const KILLS = Number(process.env.TROUBLE_KILLS ?? (IS_LONG ? 5 : 2));
const SEED = Number(process.env.TROUBLE_SEED ?? Date.now() % 1_000_000);
const PARENTS = 6;
const WRITERS = 3;
/** Between two kills at least. */
const BETWEEN_KILLS_MS = [800, 2_500] as const;
/** Spawns that are answered between two kills at least, however slow the machine: there is something new to lose. */
const NEW_SPAWNS = 26;
/** Longer than a call may take: those that were under way when Redis died end without an answer. */
const DOWN_MS = 1_200;

/** What was answered to one parent. */
interface Answered {
  parentId: string;
  /** Agent ids of spawns that were answered. */
  spawned: string[];
  /** Those of agents to which a message was sent and answered. */
  sent: string[];
  /** Calls that were not answered. */
  failed: number;
}

/** Makes a call until it is answered, as a caller would. Rejects with a refusal that no waiting cures. */
async function persist<T>(call: () => Promise<T>, told: { failed: number }): Promise<T> {
  const answered = () =>
    call().then(
      (answer) => ({ answer }),
      (error: unknown) => {
        if (!(error instanceof SubagentError && error.retryable)) return { error };
        told.failed += 1;
        return undefined;
      },
    );
  const outcome = await until(answered, { timeoutMs: 60_000, everyMs: 20 });
  if ("error" in outcome) throw outcome.error;
  return outcome.answer;
}

/** Spawns agents and sends to them until `isOver`; a call that failed is made again with its key. */
async function load(parent: Parent, answered: Answered, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const request_key = newRequestKey();
    const { agent_id } = await persist(() => parent.spawn({ name: "worker", request_key }), answered);
    answered.spawned.push(agent_id);
    const message_id = newRequestKey();
    await persist(() => parent.send(agent_id, "go", { message_id }), answered);
    answered.sent.push(agent_id);
  }
}

/** Sends to one agent that stays until `isOver`, a call always under way; resolves to the ids of what was answered. */
async function write(parent: Parent, isOver: () => boolean): Promise<{ ids: string[]; failed: number }> {
  const written = { ids: [] as string[], failed: 0 };
  const { agent_id } = await parent.spawn({ name: "listener", keep_alive: true });
  while (!isOver()) {
    const message_id = newRequestKey();
    await persist(() => parent.send(agent_id, "go", { message_id }), written);
    written.ids.push(message_id);
  }
  return written;
}

async function kills(
  { server }: ProxiedStage,
  moments: ReturnType<typeof seeded>,
  spawns: () => number,
): Promise<void> {
  for (let kill = 0; kill < KILLS; kill++) {
    const waitMs = moments.between(...BETWEEN_KILLS_MS);
    const [sinceMs, before] = [performance.now(), spawns()];
    await until(() => performance.now() - sinceMs >= waitMs && spawns() - before >= NEW_SPAWNS);
    await server.kill();
    const downSinceMs = performance.now();
    await until(() => performance.now() - downSinceMs >= DOWN_MS);
    await server.start();
  }
}

test(`${KILLS} kills of Redis lose nothing that was answered`, {
  timeout: 300_000 + KILLS * 20_000,
}, async () => {
  // First: a test that breaks off has no report.
  process.stdout.write(`${KILLS} kills of Redis, seed ${SEED}\n`);
  const stage = await openTroubledStage({
    latencyMs: 20,
    turns: 1,
    keeping: IS_LONG ? ["--appendfsync", "always"] : FSYNC_NEVER,
  });
  // An agent that stays is asked again and again.
  stage.offline.setScenario({ turns: [{ content: [{ type: "text", text: "Read." }] }], repeat: true });
  const worker = await stage.commandLineWorker();
  let isOver = false;
  const all = Array.from(
    { length: PARENTS },
    (_, i): Answered => ({ parentId: `parent-${i}`, spawned: [], sent: [], failed: 0 }),
  );
  const loads = all.map((answered) => load(stage.parent(answered.parentId), answered, () => isOver));
  const spawns = () => all.reduce((sum, { spawned }) => sum + spawned.length, 0);
  const writers = Array.from({ length: WRITERS }, (_, i) => write(stage.parent(`writer-${i}`), () => isOver));
  const killed = kills(stage, seeded(SEED), spawns).finally(() => {
    isOver = true;
  });
  const [written] = await Promise.all([Promise.all(writers), Promise.all(loads), killed]);

  for (const [i, { ids }] of written.entries()) {
    const unread = async () => {
      const entries = await stage.channel(`writer-${i}`);
      const read = new Set(entries.flatMap((entry) => (entry.kind === "reply" ? entry.message_ids : [])));
      return ids.filter((id) => !read.has(id));
    };
    await until(async () => (await unread()).length === 0, {
      timeoutMs: 60_000,
      everyMs: 100,
      what: `${ids.length} messages of writer ${i} to be read`,
    });
  }
  const missed = written.reduce((sum, { failed: refused }) => sum + refused, 0);
  expect(missed, "kills must hit sends").toBeGreaterThanOrEqual(KILLS);

  for (const { parentId, spawned, sent } of all) {
    const address = { tenant: "default", parentId };
    const registry = await stage.observer.hgetall(stage.keys.parent(address).registry);
    for (const agentId of spawned) {
      const uid = registry[agentId] ?? "";
      expect(
        await stage.observer.exists(stage.keys.agent({ ...address, uid }).record),
        `${parentId} ${agentId}`,
      ).toBe(1);
    }
    const entries = await until(
      async () => {
        const found = await stage.channel(parentId);
        return found.length >= sent.length && found;
      },
      { timeoutMs: 60_000, everyMs: 100, what: `${sent.length} replies for ${parentId}` },
    );
    expect(entries.map((entry) => entry.agent_id).sort()).toEqual([...sent].sort());
    for (const entry of entries) expect(entry).toMatchObject({ kind: "reply", status: "succeeded" });
  }
  const failed = all.reduce((sum, answered) => sum + answered.failed, 0);
  process.stdout.write(
    `${KILLS} kills of Redis, seed ${SEED}: ${spawns()} spawns and sends answered, ${failed} calls failed, 0 lost\n`,
  );
  expect(failed, "kills must hit calls").toBeGreaterThanOrEqual(KILLS);
  expect(spawns()).toBeGreaterThan(50);
  expect(worker.isRunning).toBe(true);
});

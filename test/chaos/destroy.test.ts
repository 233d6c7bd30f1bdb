/**
 * Guarantee: destroy is prompt and final when another process runs the agent. Destroys: `DESTROYS` (default 60, the long
 * form is 500), in model calls and in tools; jitter is drawn from `DESTROY_SEED`.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { LedgerEntry } from "../../src/offline/server.ts";
import type { Parent } from "../../src/producer/parent.ts";
import { TIMING } from "../../src/shared/protocol/limits.ts";
import { createAgentStore } from "../../src/shared/redis/agent-store.ts";
import { durations, percentile, reportTime } from "../helpers/figures.ts";
import { seeded } from "../helpers/seeded.ts";
import { until } from "../helpers/until.ts";
import { type Agent, openStage, type Stage, type WorkerProcess } from "../stage/stage.ts";

const DESTROYS = Number(process.env.DESTROYS ?? 60);
const SEED = Number(process.env.DESTROY_SEED ?? Date.now() % 1_000_000);
const WORKERS = 3;
/** Agents that are destroyed together: what two parents may have. */
const BATCH = 20;
const JITTER_MS = 200;

/** How long the call takes of which the run consists that is destroyed as it ends. */
const BRIEF_MS = 150;

const text = (words: string) => ({ type: "text" as const, text: words });
const done = { content: [text("done")] };
const look = {
  content: [text("Looking."), { type: "tool_use" as const, name: "glob", input: { pattern: "*" } }],
};
const linger = {
  content: [text("Looking."), { type: "tool_use" as const, name: "linger", input: { label: "{{user}}" } }],
};

/** Agents of the first kind are destroyed in a tool, the others while they wait for a first byte or for the next ones. */
const KINDS = ["tool", "silent", "stalled"] as const;
const scenario = [
  { match: { user: "tool-" }, turns: [linger, done] },
  { match: { user: "silent-" }, turns: [look, { ...done, latencyMs: 3_600_000 }] },
  { match: { user: "brief-" }, turns: [{ ...done, latencyMs: BRIEF_MS }] },
  { match: { user: "stalled-" }, turns: [look, { ...done, stream: { stallAfterChunks: 2 } }] },
];

/** How the word of a destroy travels: by the hint; while no worker hears hints; or it is lost on its way. */
type Hint = "heard" | "gap" | "lost";

interface Target {
  parent: Parent;
  agent: Agent;
  kind: (typeof KINDS)[number];
  /** The prompt, and the model's name: finds the agent's calls in the ledger and its lines in the output. */
  label: string;
  /** The record right after the destroy was answered. */
  after?: Record<string, string>;
  answeredAtMs?: number;
}

interface Scene {
  installation: Stage;
  workers: WorkerProcess[];
}

async function openScene(): Promise<Scene> {
  const installation = await openStage({ redis: "own", scenario });
  const workers = await Promise.all(
    Array.from({ length: WORKERS }, () => installation.spawnWorker({ concurrency: BATCH })),
  );
  return { installation, workers };
}

async function begin({ installation }: Scene, label: string, parent: Parent): Promise<Target> {
  const kind = KINDS.find((one) => label.startsWith(one)) ?? "tool";
  const { agent_id } = await parent.spawn({ name: label, model: label });
  await parent.send(agent_id, label);
  const address = { tenant: parent.tenant, parentId: parent.parentId };
  const uid = (await installation.store.uidOf(address, agent_id)) ?? "";
  return { parent, kind, label, agent: { ...address, uid, agentId: agent_id } };
}

const callsOf = ({ offline }: Stage, label: string) => offline.ledger.filter(({ model }) => model === label);

/** When the tool of an agent said a word, epoch ms; undefined as long as it has not. */
function saidAt(
  workers: readonly WorkerProcess[],
  word: "began" | "ended",
  label: string,
): number | undefined {
  const prefix = `${word} ${label} `;
  const line = workers.flatMap(({ stdout }) => stdout.filter((said) => said.startsWith(prefix)))[0];
  return line === undefined ? undefined : Number(line.slice(prefix.length));
}

/** Whether every run is where it stays until it is stopped. */
function allHang({ installation, workers }: Scene, targets: readonly Target[]): boolean {
  const calling = targets.filter(({ kind }) => kind !== "tool");
  return (
    targets.every(({ kind, label }) =>
      kind === "tool" ? saidAt(workers, "began", label) : callsOf(installation, label).length === 1,
    ) && installation.offline.inFlight === calling.length
  );
}

/** When the work of an agent was cut off, epoch ms. */
function cutOffAt({ installation, workers }: Scene, { kind, label }: Target): number | undefined {
  if (kind === "tool") return saidAt(workers, "ended", label);
  return callsOf(installation, label).find(({ status }: LedgerEntry) => status === "aborted")?.at;
}

async function destroy(scene: Scene, target: Target, hint: Hint): Promise<void> {
  const { installation } = scene;
  const { redis, keys, store } = installation;
  if (hint === "lost") {
    // The same script, with a channel that nobody hears.
    const deaf = createAgentStore(redis, { ...keys, hints: `${keys.hints}:lost` }, store.timing);
    const answer = await deaf.settle(target.agent, {
      authority: "parent",
      target: "ended",
      ended_reason: "destroyed",
      status: "cancelled",
      stop_reason: "destroyed",
    });
    expect(answer.status).toBe("settled");
  } else {
    expect(await target.parent.destroy(target.agent.agentId)).toMatchObject({ status: "destroyed" });
  }
  target.answeredAtMs = Date.now();
  target.after = await redis.hgetall(keys.agent(target.agent).record);
}

/** From the answer of each destroy to the end of the work, ms. */
async function latencies(scene: Scene, targets: readonly Target[], withinMs: number): Promise<number[]> {
  return Promise.all(
    targets.map(async (target) => {
      const cutAt = await until(() => cutOffAt(scene, target), {
        what: `${target.label} to be cut off`,
        timeoutMs: withinMs,
      });
      return Math.max(0, cutAt - (target.answeredAtMs ?? 0));
    }),
  );
}

/** Nothing was bought, run or written after the end, and the parent was told once. */
async function expectFinal(scene: Scene, { agent, kind, label, after }: Target): Promise<void> {
  const { installation, workers } = scene;
  const { redis, keys } = installation;
  expect(await installation.entries(agent), label).toMatchObject([
    {
      kind: "ended",
      status: "cancelled",
      stop_reason: "destroyed",
      agent_status: "ended",
      turns: 1,
      summary: "Looking.",
    },
  ]);
  const calls = callsOf(installation, label).map(({ status, turn }) => `${turn} ${status}`);
  expect(calls, label).toEqual(kind === "tool" ? ["0 served"] : ["0 served", "1 aborted"]);
  const began = workers.flatMap(({ stdout }) => stdout.filter((line) => line.startsWith(`began ${label} `)));
  expect(began.length, label).toBe(kind === "tool" ? 1 : 0);
  expect(await redis.hgetall(keys.agent(agent).record), label).toEqual(after);
  const { log, inbox, life } = keys.agent(agent);
  expect(await redis.exists(log, inbox, life), label).toBe(0);
}

const idle = ({ redis, keys }: Stage) =>
  until(async () => (await redis.llen(`${keys.bullPrefix}:${keys.wakeQueue}:active`)) === 0, {
    what: "every worker to have let go",
  });

test(`${DESTROYS} runs of other processes are cut off within a second of their destroy, and nothing comes after`, {
  timeout: 300_000 + DESTROYS * 400,
}, async () => {
  const chance = seeded(SEED);
  const scene = await openScene();
  const { installation } = scene;
  const taken: Record<Hint, number[]> = { heard: [], gap: [], lost: [] };
  const all: Target[] = [];
  const prompt = () => taken.heard.length + taken.gap.length;
  for (let batch = 0; prompt() < DESTROYS || taken.lost.length === 0; batch++) {
    const hint = (["heard", "gap", "lost", "heard"] as const)[batch % 4] ?? "heard";
    const parents = ["a", "b"].map((name) => installation.parent(`parent-${batch}-${name}`));
    const targets = await Promise.all(
      Array.from({ length: BATCH }, (_, i) => {
        const kind = i % 2 === 0 ? "tool" : i % 4 === 1 ? "silent" : "stalled";
        return begin(scene, `${kind}-${batch}-${i}`, parents[i % 2] as Parent);
      }),
    );
    await until(() => allHang(scene, targets), { what: "every run to hang" });
    if (hint === "gap") expect(await installation.redis.client("KILL", "TYPE", "PUBSUB")).toBe(WORKERS);
    await Promise.all(
      targets.map(async (target) => {
        if (hint !== "gap") await sleep(chance.next() * JITTER_MS);
        await destroy(scene, target, hint);
      }),
    );
    taken[hint].push(...(await latencies(scene, targets, TIMING.leaseMs)));
    all.push(...targets);
  }
  await idle(installation);
  for (const target of all) await expectFinal(scene, target);
  expect(installation.offline.inFlight).toBe(0);
  const quick = [...taken.heard, ...taken.gap].sort((a, b) => a - b);
  process.stdout.write(
    `destroy: seed ${SEED}, ${[
      durations("prompt", quick),
      durations("of them heard", taken.heard),
      durations("in a gap", taken.gap),
      durations("hint lost", taken.lost),
    ].join("; ")}\n`,
  );
  expect(quick.length).toBeGreaterThanOrEqual(DESTROYS);
  reportTime("p99 of the prompt", percentile(quick, 0.99), 1_000);
  reportTime("longest without a hint", Math.max(...taken.lost), TIMING.renewMs + 1_000);
});

test("a destroy that races with the end of its run leaves one entry, and its answer says which of the two it is", async () => {
  const chance = seeded(SEED);
  const scene = await openScene();
  const { installation } = scene;
  const ends = { destroyed: 0, completed: 0 };
  for (let round = 0; round < 5 || ends.destroyed === 0 || ends.completed === 0; round++) {
    const parents = ["a", "b"].map((name) => installation.parent(`race-${round}-${name}`));
    const targets = await Promise.all(
      Array.from({ length: BATCH }, (_, i) => begin(scene, `brief-${round}-${i}`, parents[i % 2] as Parent)),
    );
    await Promise.all(
      targets.map(async ({ parent, agent, label }) => {
        // On a busy machine runs end later: later rounds spread wider.
        await sleep(chance.next() * 2 * BRIEF_MS * (1 + round));
        const receipt = await parent.destroy(agent.agentId);
        const destroyed = receipt.status === "destroyed";
        ends[destroyed ? "destroyed" : "completed"] += 1;
        expect(receipt.ended_reason, label).toBe(destroyed ? "destroyed" : "completed");
        expect(await installation.entries(agent), label).toMatchObject([
          destroyed
            ? { kind: "ended", status: "cancelled", stop_reason: "destroyed" }
            : { kind: "reply", status: "succeeded", stop_reason: "end_turn", summary: "done" },
        ]);
      }),
    );
    await idle(installation);
    for (const { agent, label } of targets) {
      expect(await installation.entries(agent), label).toHaveLength(1);
      expect((await installation.record(agent)).status, label).toBe("ended");
    }
  }
  process.stdout.write(
    `destroy against settle: seed ${SEED}, ${ends.destroyed} destroyed, ${ends.completed} completed\n`,
  );
});

test("an agent that waits for a worker never starts once it is destroyed, nor does an idle one ever again", async () => {
  const installation = await openStage({ redis: "own", scenario });
  const workers = [await installation.spawnWorker({ concurrency: 1 })];
  const scene = { installation, workers };
  const parent = installation.parent("planner");
  const busy = await begin(scene, "silent-busy", parent);
  await until(() => allHang(scene, [busy]));
  const queued = await Promise.all(Array.from({ length: 8 }, (_, i) => begin(scene, `brief-${i}`, parent)));
  const { agent_id: idleId } = await parent.spawn({ name: "idle" });
  for (const { agent } of queued) await parent.destroy(agent.agentId);
  await parent.destroy(idleId);
  await expect(parent.send(idleId, "still there?")).rejects.toMatchObject({ code: "agent_ended" });
  await destroy(scene, busy, "heard");
  await latencies(scene, [busy], TIMING.leaseMs);
  // The worker is free again, and every wake has come up when this one has.
  const last = await begin(scene, "brief-last", parent);
  expect(await installation.reply(last.agent)).toMatchObject({ status: "succeeded" });
  await idle(installation);
  expect(installation.offline.ledger.map(({ model }) => model)).toEqual([
    "silent-busy",
    "silent-busy",
    "brief-last",
  ]);
  for (const { agent } of queued) {
    expect(await installation.entries(agent)).toMatchObject([
      { kind: "ended", stop_reason: "destroyed", turns: 0, undelivered: [expect.any(String)] },
    ]);
  }
  const ended = await parent.get(idleId);
  expect(ended).toMatchObject({ status: "ended" });
});

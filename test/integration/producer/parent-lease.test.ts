/** Guarantee: agents follow a parent whose process is gone as it said at their spawn, and no agent follows one that lives. */
import { expect, test } from "vitest";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import type { Reply } from "../../../src/shared/protocol/reply.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { latch } from "../../helpers/latch.ts";
import { refusal } from "../../helpers/parents.ts";
import { spawnNode } from "../../helpers/processes.ts";
import { until } from "../../helpers/until.ts";
import { openStage, SHORT_TIMING, type Stage } from "../../stage/stage.ts";

/** The sweeper looks often, and no run loses its own lease on a busy machine: it would then end without the call that was held. */
const timing = { ...TIMING, checkMs: SHORT_TIMING.checkMs, longestCheckMs: SHORT_TIMING.longestCheckMs };

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const use = (name: string, input: Record<string, string>) => ({
  content: [{ type: "tool_use" as const, name, input }],
});
const scenario = [
  { match: { user: "work" }, turns: [use("glob", { pattern: "*" }), say("done")], hand_back: say("so far") },
  { match: { user: "ask" }, turns: [use("ask_parent", { question: "Which?" })], hand_back: say("so far") },
];
const of = (parentId: string) => ({ tenant: "default", parentId });

async function heldUntil({ redis, keys }: Stage, parentId: string): Promise<number> {
  return Number(await redis.hget(keys.parent(of(parentId)).lease, "held_until"));
}

/** As if a lease of a second had not been renewed for a minute. */
async function minuteLater({ redis, keys }: Stage, parentId: string): Promise<void> {
  await redis.hset(keys.parent(of(parentId)).lease, { held_until: 1, lease_ms: 1_000 });
  await redis.zadd(keys.deadlines, 1, `default/${parentId}`);
}

/** The ends in a parent's channel, by agent, as soon as there are three. */
async function endsOf(stage: Stage, parentId: string): Promise<Record<string, Partial<Reply>>> {
  const parent = stage.parent(parentId);
  const ends = new Map<string, Partial<Reply>>();
  for await (const entry of parent.replies()) {
    if (entry.kind !== "reply" && entry.kind !== "ended") continue;
    const { kind, status, stop_reason, summary } = entry;
    // An agent that handed back and stays is idle: its own end comes behind its reply.
    ends.set(`${entry.agent_id} ${kind}`, { status, stop_reason, summary });
    if ([...ends.keys()].filter((key) => key.endsWith("ended")).length === 3) break;
  }
  return Object.fromEntries(ends);
}

test("the agents of a killed parent follow it, whether they run, wait or idle; those of its other processes go on", async () => {
  const stage = await openStage({ timing, scenario });
  const held = latch();
  const model = heldModel(stage, ({ messages }) => (messages.includes('"work"') ? held.opened : undefined));
  await stage.startWorker({ model });
  const settings = { redisUrl: stage.url, prefix: stage.prefix, timing };
  const child = await spawnNode("test/helpers/fixtures/leased-parent.ts", {
    args: [JSON.stringify(settings)],
  });
  await child.waitForLine("spawned");
  const parents = ["destroying", "finishing"].map((parentId) => stage.parent(parentId));
  for (const parent of parents) {
    await until(
      async () => (await parent.list()).map(({ status }) => status).join() === "idle,running,waiting",
    );
    await parent.spawn({ name: "independent", keep_alive: true });
  }
  await child.kill();
  for (const { parentId } of parents) await minuteLater(stage, parentId);
  const gone = { status: "cancelled", stop_reason: "parent_gone" };
  const finished = { status: "partial", stop_reason: "finished_by_parent", summary: "so far" };
  expect(await endsOf(stage, "destroying")).toEqual({
    "idler ended": expect.objectContaining(gone),
    "work ended": expect.objectContaining(gone),
    "ask ended": expect.objectContaining(gone),
  });
  await until(async () => {
    const working = (await parents[1]?.list())?.find(({ agent_id }) => agent_id === "work");
    const uid = working && (await stage.store.uidOf(of("finishing"), "work"));
    return uid !== undefined && (await stage.store.record({ ...of("finishing"), uid }))?.finish === true;
  });
  held.open();
  expect(await endsOf(stage, "finishing")).toEqual({
    "idler ended": expect.objectContaining(gone),
    "work reply": finished,
    "work ended": expect.objectContaining(gone),
    "ask reply": finished,
    "ask ended": expect.objectContaining(gone),
  });
  for (const parent of parents) expect(await parent.list()).toMatchObject([{ agent_id: "independent" }]);
});

test("a living parent renews its lease, beginning before its first agent is there", async () => {
  const stage = await openStage();
  const parent = stage.parent("alive", { lease: { onParentGone: "destroy", ms: 1_500 } });
  expect(await heldUntil(stage, "alive")).toBe(0);
  await parent.spawn({ name: "a" });
  const first = await heldUntil(stage, "alive");
  expect(first).toBeGreaterThan(0);
  await until(async () => (await heldUntil(stage, "alive")) > first + 1_000);
  expect(await stage.redis.zscore(stage.keys.deadlines, "default/alive")).not.toBeNull();
});

test("without a lease, and with one that keeps, nothing is held and no agent is marked", async () => {
  const stage = await openStage();
  const parents = [stage.parent("plain"), stage.parent("keeping", { lease: { onParentGone: "keep" } })];
  for (const parent of parents) {
    await parent.spawn({ name: "a" });
    expect(await heldUntil(stage, parent.parentId)).toBe(0);
    expect((await stage.store.liveRecords(parent))[0]?.on_parent_gone).toBeUndefined();
  }
});

test("a lease shorter than a second, and an unknown end, are refused", async () => {
  const stage = await openStage();
  const parent = (lease: object) => () => stage.parent("p", { lease: { onParentGone: "finish", ...lease } });
  expect(parent({ ms: 999 })).toThrow(expect.objectContaining(refusal("invalid_input", /lease.ms/)));
  expect(parent({ onParentGone: "forget" })).toThrow(
    expect.objectContaining(refusal("invalid_input", /keep, finish, destroy/)),
  );
});

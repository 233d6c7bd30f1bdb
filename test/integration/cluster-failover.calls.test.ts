/**
 * Guarantee: a call in the middle of which a master of a cluster dies, repeated as its error says, comes to what it would have come to
 * undisturbed: once, and whole.
 */
import { expect, test } from "vitest";
import type { Parent } from "../../src/producer/parent.ts";
import type { ReceivedEntry } from "../../src/producer/replies/parent-channel.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { SubagentError } from "../../src/shared/errors.ts";
import { RESUMES_WITHIN_MS, useCluster } from "../helpers/cluster-scene.ts";
import { testParent } from "../helpers/parents.ts";
import { whileRetryable } from "../helpers/retryable.ts";
import { until } from "../helpers/until.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const scene = useCluster();
const { onCluster, clientOf } = scene;
const EACH = 2;
const PARENTS = 4;
/** The calls begin one after another, in half of this time before the death of the master and in half of it after that. */
const BEGIN_WITHIN_MS = 60;

const text = (words: string) => ({ content: [{ type: "text" as const, text: words }] });
const ask = {
  content: [{ type: "tool_use" as const, name: "ask_parent", input: { question: "Which?" } }],
};
const scenario = [
  { match: { user: "asks" }, turns: [ask, text("told: {{last_tool_result}}")] },
  { turns: [text("done"), text("done again")] },
];

/** A removal, whose repetition says that there is nothing to remove if the first attempt has worked. */
async function removed(failures: SubagentError[], call: () => Promise<unknown>): Promise<void> {
  const before = failures.length;
  await whileRetryable(failures, call).catch((error: unknown) => {
    const isOver = error instanceof SubagentError && error.code === "unknown_schedule";
    if (!isOver || !failures.slice(before).some(({ code }) => code === "outcome_unknown")) throw error;
  });
}

/** Ids of parents whose keys lie on one master, apart from those that all workers share. */
async function parentsApart({ keys }: Stage): Promise<string[]> {
  const { master: shared } = await scene.cluster.holderOf(keys.deadlines);
  const found = new Map<unknown, string[]>();
  for (let i = 0; ; i += 1) {
    const parentId = `planner-${i}`;
    const { master } = await scene.cluster.holderOf(keys.parent({ tenant: "default", parentId }).live);
    const ids = [...(found.get(master) ?? []), parentId];
    found.set(master, ids);
    if (master !== shared && ids.length === PARENTS) return ids;
  }
}

/** A parent with agents in each state in which one of the calls finds them. */
async function prepared(parent: Parent) {
  const seen: ReceivedEntry[] = [];
  void (async () => {
    for await (const entry of parent.replies()) seen.push(entry);
  })();
  const agentsOf = async (name: string, prompt?: string) => {
    const ids: string[] = [];
    for (let i = 0; i < EACH; i += 1) {
      const { agent_id } = await parent.spawn({ name: `${name}${i}`, keep_alive: prompt === undefined });
      if (prompt !== undefined) await parent.send(agent_id, `${prompt}, ${name}${i}`);
      ids.push(agent_id);
    }
    return ids;
  };
  const over = await agentsOf("over", "work");
  const idle = await agentsOf("idle");
  const [answered, finished] = [await agentsOf("answered", "asks"), await agentsOf("finished", "asks")];
  const endsOf = (agentId: string) =>
    seen.filter(({ kind, agent_id }) => agent_id === agentId && (kind === "reply" || kind === "ended"));
  const questionOf = (agentId: string) =>
    seen.find(({ kind, agent_id }) => agent_id === agentId && kind === "question") as { question_id: string };
  await until(
    () => over.every((id) => endsOf(id)[0]) && [...answered, ...finished].every((id) => questionOf(id)),
  );
  await parent.schedule({ schedule_id: "old", prompt: "go", cron: "0 0 1 1 *" });
  return { parent, over, idle, answered, finished, endsOf, questionOf };
}

type Prepared = Awaited<ReturnType<typeof prepared>>;

/** Every call, each with what makes its repetition safe. */
function callsOf(
  { parent, over, idle, answered, finished, endsOf, questionOf }: Prepared,
  f: SubagentError[],
) {
  return [
    ...idle.map((id) => () => whileRetryable(f, () => parent.destroy(id))),
    ...answered.map(
      (id) => () =>
        whileRetryable(f, () => parent.answer(id, "blue", { question_id: questionOf(id).question_id })),
    ),
    ...finished.map((id) => () => whileRetryable(f, () => parent.finish(id))),
    ...over.map(
      (id) => () => whileRetryable(f, () => parent.resume(id, "once more", { request_key: `r-${id}` })),
    ),
    ...idle.map(
      (_, i) => () =>
        whileRetryable(f, () =>
          parent.schedule({ schedule_id: `new-${i}`, prompt: "go", cron: "0 0 1 1 *" }),
        ),
    ),
    () => removed(f, () => parent.unschedule("old")),
    () => whileRetryable(f, () => parent.webhook.set({ url: "https://example.com/hook" })),
    async () => {
      const [entry] = endsOf(over[0] ?? "");
      await whileRetryable(f, async () => entry?.ack());
    },
  ];
}

async function expectUndisturbed(each: Prepared): Promise<void> {
  const { parent, over, idle, answered, finished, endsOf } = each;
  const resumed = over.map((id) => `${id}_2`);
  const all = [...idle, ...answered, ...finished, ...resumed];
  await until(() => all.every((id) => endsOf(id)[0]), { what: "all ends", timeoutMs: RESUMES_WITHIN_MS });
  const ends = (ids: readonly string[]) => ids.map((id) => endsOf(id));
  for (const end of ends(idle)) expect(end).toMatchObject([{ kind: "ended", stop_reason: "destroyed" }]);
  for (const end of ends(answered))
    expect(end).toMatchObject([{ status: "succeeded", summary: "told: blue" }]);
  for (const end of ends(finished)) expect(end).toMatchObject([{ stop_reason: "finished_by_parent" }]);
  for (const end of ends(resumed)) expect(end).toMatchObject([{ status: "succeeded" }]);
  expect(await parent.list()).toEqual([]);
  const schedules = await parent.schedules();
  expect(schedules.map(({ schedule_id, next_at }) => [schedule_id, typeof next_at])).toEqual([
    ["new-0", "string"],
    ["new-1", "string"],
  ]);
  expect(await parent.webhook.get()).toMatchObject({ url: "https://example.com/hook" });
  const left: string[] = [];
  for await (const entry of parent.replies({ follow: false })) left.push(entry.agent_id);
  expect(left).not.toContain(over[0]);
  expect(left).toContain(over[1]);
}

test.for(["the parents", "what all workers share"])("while the master of %s dies", async (victim) => {
  const stage = await openStage({ ...onCluster(), scenario });
  await stage.startWorker();
  const client = await clientOf(stage);
  const ids = await parentsApart(stage);
  const own = { transcript_ms: 600_000 };
  const all = await Promise.all(ids.map((parentId) => prepared(testParent(client, { parentId, ...own }))));
  const { deadlines, parent } = stage.keys;
  const isParents = victim === "the parents";
  const key = isParents ? parent({ tenant: "default", parentId: ids[0] ?? "" }).live : deadlines;
  const { master } = await scene.cluster.holderOf(key);
  const failures: SubagentError[] = [];
  const calls = all.flatMap((each) => callsOf(each, failures));
  const beginAll = (some: typeof calls) =>
    some.map(async (call, i) => {
      await systemClock.sleep((BEGIN_WITHIN_MS / calls.length) * i);
      await call();
    });
  const begun = beginAll(calls.slice(0, calls.length / 2));
  await systemClock.sleep(BEGIN_WITHIN_MS / 2);
  await master.endReplicated();
  begun.push(...beginAll(calls.slice(calls.length / 2)));
  await scene.cluster.takenOver(key, master);
  await Promise.all(begun);
  for (const each of all) await expectUndisturbed(each);
  expect(failures.length, "calls met the failover").toBeGreaterThan(0);
});

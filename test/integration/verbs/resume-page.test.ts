/**
 * Guarantee: a transcript is copied to the log of the agent that continues it in pages of a bounded size, the copy expires unless
 * that agent is spawned, and no page touches the log of an agent that is there.
 */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { handedBack, type Rig, SPEC, verbRig } from "./rig.ts";

const KEPT_MS = 60_000;
const PAGE_BYTES = 524_288;

/** An agent that has ended, with so many entries of so many bytes. */
async function ended(rig: Rig, count: number, bytes: number) {
  const { agent, epoch } = await rig.running();
  const text = "x".repeat(bytes);
  const entries = Array.from({ length: count }, (_, i) => [`${i}`, `{"n":"${text}"}`] as const);
  for (let from = 0; from < count; from += 100) {
    const some = entries.slice(from, from + 100);
    await rig.store.append(agent, { epoch, known: from, running_ms: 1, entries: some });
  }
  await rig.store.settle(agent, { ...handedBack(epoch), known: count });
  return { old: agent, keys: entries.map(([key]) => [key] as const), whole: Object.fromEntries(entries) };
}

const spawnFrom = (rig: Rig, agent: AgentAddress, old: AgentAddress) =>
  rig.store.spawn(agent, {
    ...{ request_key: newRequestKey(), digest: "d", stem: "next", name: "Next", spec: JSON.stringify(SPEC) },
    ...{ idle_ms: 60_000, message: "{}", resumes: old.uid, first_run: 2 },
  });

/** Copies all pages; the answer is the number of entries of each. */
async function copied(rig: Rig, agent: AgentAddress, { old, keys }: Awaited<ReturnType<typeof ended>>) {
  const counts: number[] = [];
  for (let at = 0; at < keys.length; ) {
    const page = await rig.store["resume-page"](agent, { resumes: old.uid, entries: keys.slice(at) });
    if (page.status !== "copied") return expect.unreachable(page.status);
    counts.push(page.count);
    at += page.count;
  }
  return counts;
}

test.for([
  { count: 40, bytes: 50_000, most: 11 },
  { count: 3, bytes: 2 * PAGE_BYTES, most: 1 },
  { count: 500, bytes: 2_000, most: 262 },
])("$count entries of $bytes bytes are copied at most $most at a time", async ({ count, bytes, most }) => {
  const rig = verbRig();
  const from = await ended(rig, count, bytes);
  const next = rig.address();
  const { log } = rig.keys.agent(next);
  const counts = await copied(rig, next, from);
  expect(Math.max(...counts)).toBe(most);
  const left = await rig.redis.pttl(log);
  expect(left).toBeGreaterThan(KEPT_MS - 10_000);
  expect(left).toBeLessThanOrEqual(KEPT_MS);
  expect(await spawnFrom(rig, next, from.old)).toMatchObject({ status: "spawned" });
  expect(await rig.redis.hgetall(log)).toEqual(from.whole);
  expect(await rig.redis.pttl(log)).toBe(-1);
});

test("the spawn copies what no page has copied", async () => {
  const rig = verbRig();
  const from = await ended(rig, 12, 10);
  const next = rig.address();
  await rig.store["resume-page"](next, { resumes: from.old.uid, entries: from.keys.slice(0, 5) });
  expect(await spawnFrom(rig, next, from.old)).toMatchObject({ status: "spawned" });
  expect(await rig.redis.hgetall(rig.keys.agent(next).log)).toEqual(from.whole);
});

test("a page that arrives after the spawn changes nothing: the log stays as long as its agent", async () => {
  const rig = verbRig();
  const from = await ended(rig, 2, 10);
  const next = rig.address();
  await copied(rig, next, from);
  await spawnFrom(rig, next, from.old);
  const late = await rig.store["resume-page"](next, { resumes: from.old.uid, entries: from.keys });
  expect(late).toEqual({ status: "spawned" });
  expect(await rig.redis.pttl(rig.keys.agent(next).log)).toBe(-1);
});

test("of a transcript that is gone there is nothing to copy", async () => {
  const rig = verbRig();
  const from = await ended(rig, 2, 10);
  await rig.redis.del(rig.keys.agent(from.old).transcript);
  const answer = await rig.store["resume-page"](rig.address(), { resumes: from.old.uid, entries: from.keys });
  expect(answer).toEqual({ status: "no_transcript" });
});

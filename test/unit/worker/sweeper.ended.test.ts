/** Guarantee: a run that a sweeper ends is counted and named in its log, once over all sweepers; a great many fill few lines. */
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createSweeper, type SweeperContext } from "../../../src/worker/sweeper.ts";
import { handClock } from "../../helpers/hand-clock.ts";

const PARENT = { tenant: "t", parentId: "p" };

/** A sweeper of agents whose records say `overdue`; the first settle of each agent ends it, its run or (`idle`) none. */
function sweeperOf(uids: readonly string[], overdue: (uid: string) => string, alreadyEnded: Set<string>) {
  const lines: Record<string, unknown>[] = [];
  const counted: string[] = [];
  const found = { needs_tools: ["a"], wake: 1, agent_id: "a", waited_ms: 1 };
  const store = {
    waitingJob: async () => undefined,
    overdue: async ({ uid }: { uid: string }) => ({ status: overdue(uid), ...found }),
    async settle({ uid }: { uid: string }, { stop_reason }: { stop_reason: string }) {
      const status = alreadyEnded.has(uid) ? "same" : "settled";
      alreadyEnded.add(uid);
      return { status, reply_id: `${uid}.${stop_reason === "idle" ? "end" : 2}`, run: 2 };
    },
    orphans: async () => ({ status: "gone", uids, at: 1 }),
    timing: TIMING,
  };
  const due = { seenScore: 1, nowMs: 1, seenGrace: "" };
  const agents = uids.map((uid) => ({ ...due, member: uid, address: { ...PARENT, uid } }));
  const parent = [{ ...due, member: "t/p", parent: PARENT }];
  const write = (line: string) => void lines.push(JSON.parse(line));
  const context = (page: readonly object[]) =>
    createSweeper({
      deadlines: { due: async () => page, move: async () => {} },
      ...{ store, clock: handClock(), workers: { list: async () => [] } },
      logger: createLogger({ level: "info", destination: { write } }),
      metrics: { ended: (...labels: string[]) => counted.push(labels.join(" ")) },
    } as unknown as SweeperContext);
  return { lines, counted, ofAgents: context(agents), ofParent: context(parent) };
}

test("the ended runs of a page are counted each, and named in one line for each reason", async () => {
  const reasons: Record<string, string> = { a: "max_age_over", b: "max_age_over", c: "parent_gone" };
  const { lines, counted, ofAgents } = sweeperOf(["a", "b", "c"], (uid) => reasons[uid] ?? "", new Set());
  await ofAgents.tick();
  expect(counted).toEqual(["failed max_age", "failed max_age", "cancelled parent_gone"]);
  const msg = "Runs ended by a sweeper";
  expect(lines).toMatchObject([
    { level: 40, msg, status: "failed", stop_reason: "max_age", agents: ["t/p/a", "t/p/b"] },
    { level: 30, msg, status: "cancelled", stop_reason: "parent_gone", agents: ["t/p/c"] },
  ]);
  await ofAgents.tick();
  expect([counted.length, lines.length]).toEqual([3, 2]);
});

test("the end of an idle agent is the end of no run", async () => {
  const { lines, counted, ofAgents } = sweeperOf(["a"], () => "idle_over", new Set());
  await ofAgents.tick();
  expect([counted, lines]).toEqual([[], []]);
});

test("a parent that is gone with 120 runs costs three lines, which name each run once", async () => {
  const uids = Array.from({ length: 120 }, (_, n) => `sa-${n}`);
  const { lines, counted, ofParent } = sweeperOf(uids, () => "parent_gone", new Set());
  await ofParent.tick();
  expect(counted).toHaveLength(120);
  const named = lines.map(({ agents }) => agents as string[]);
  expect(named.map(({ length }) => length)).toEqual([50, 50, 20]);
  expect(new Set(named.flat()).size).toBe(120);
});

/**
 * Guarantee: a sweeper looks at everything that is due, whatever one of them does, and again when the record says so. What
 * Redis answers is scripted, for what happens between two of its answers; `sweeping.test.ts` has the real one.
 */
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { AgentRecord } from "../../../src/shared/protocol/agent.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import type { WorkerAnnouncement } from "../../../src/shared/protocol/worker.ts";
import type { WaitingJob } from "../../../src/shared/redis/agent-store.ts";
import type { Due } from "../../../src/shared/redis/deadlines.ts";
import type { VerbAnswer, VerbInput } from "../../../src/shared/redis/scripts.ts";
import { createSweeper, type SweeperContext } from "../../../src/worker/sweeper.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { SPEC } from "../../integration/verbs/rig.ts";

const BATCH = 50;
const PAGE_REST_MS = 15;
const NOW_MS = 1_000_000;
const uidOf = (n: number) => `sa-${String(n).padStart(24, "0")}`;
const FIRST = uidOf(0);
const dueOf = (n: number): Due => ({
  member: `t p ${uidOf(n)}`,
  seenScore: 1,
  nowMs: NOW_MS,
  seenGrace: "",
  address: { tenant: "t", parentId: "p", uid: uidOf(n) },
});
const duesOf = (count: number) => Array.from({ length: count }, (_, n) => dueOf(n));

/** What Redis answers. */
interface Script {
  /** What is due, look by look. Default: the first agent, once. */
  due?: () => Due[] | Promise<Due[]>;
  /** What a plain read tells of a queued agent; default: the script is asked. */
  waitingJob?: WaitingJob;
  overdue?: VerbAnswer<"overdue"> | ((uid: string) => VerbAnswer<"overdue">);
  settle?: VerbAnswer<"settle">;
  /** Ids of the agent's open questions, or why they cannot be read. */
  questions?: readonly string[] | Error;
  finish?: VerbAnswer<"finish">;
  answer?: (questionId: string) => VerbAnswer<"answer">;
  isAlive?: boolean;
  requeue?: VerbAnswer<"requeue">;
  /** The tools of each live worker. */
  offered?: readonly (readonly string[])[];
}

const workerWith = (tools: readonly string[], n: number): WorkerAnnouncement => ({
  v: 1,
  id: `w${n}`,
  host: "h",
  version: "1",
  tools: [...tools],
  concurrency: 1,
});

/** A sweeper whose Redis answers by script; `done`: what it wrote, in order. */
function scene(script: Script) {
  const once = [[dueOf(0)]];
  const done: string[] = [];
  const settled: VerbInput<"settle">[] = [];
  const warnings: string[] = [];
  const listed = { times: 0 };
  const clock = handClock();
  const overdueOf = (uid: string): VerbAnswer<"overdue"> => {
    const { overdue = { status: "ended" } } = script;
    return typeof overdue === "function" ? overdue(uid) : overdue;
  };
  const context: SweeperContext = {
    deadlines: {
      due: async () => (script.due ? script.due() : (once.pop() ?? [])),
      async move(checks) {
        for (const { due, at } of checks) {
          const name = due.address?.uid ?? "nobody";
          done.push(at === undefined ? `forget ${name}` : `move ${name} to ${at}`);
        }
      },
      hint: async ({ uid }) => void done.push(`touch ${uid}`),
    },
    store: {
      waitingJob: async () => script.waitingJob,
      overdue: async ({ uid }) => overdueOf(uid),
      async settle({ uid }, how) {
        done.push(`settle ${uid}`);
        settled.push(how);
        const agent = { agent_status: "ended", run: 1, wake: 1 } as const;
        return script.settle ?? { status: "settled", reply_id: "r", ...agent };
      },
      timing: TIMING,
      orphans: async () => ({ status: "no_agents" }),
      async finish() {
        done.push("finish");
        return script.finish ?? { status: "not_due" };
      },
      async record({ uid }) {
        const { questions = [] } = script;
        if (questions instanceof Error) throw questions;
        return recordOf(uid, questions);
      },
      async answer(_address, { question_id }) {
        done.push(`answer ${question_id}`);
        return script.answer?.(question_id) ?? { status: "waiting", open: 1 };
      },
      requeue: async (_address, { expected_wake }) => {
        done.push(`requeue ${expected_wake}`);
        return script.requeue ?? { status: "not_due" };
      },
    },
    wakes: {
      add: async ({ uid, wake }) => void done.push(`wake ${uid} ${wake}`),
      isAlive: async () => script.isAlive ?? false,
    },
    workers: {
      async list() {
        listed.times += 1;
        return (script.offered ?? []).map(workerWith);
      },
    },
    clock,
    random: () => 0.5,
    logger: createLogger({
      level: "warn",
      destination: { write: (line: string) => void warnings.push(line) },
    }),
  };
  return { sweeper: createSweeper(context), done, settled, warnings, listed, clock };
}

function recordOf(uid: string, questions: readonly string[]): AgentRecord {
  const numbers = { v: 1, created_at: 1, epoch: 1, run: 1, wake: 1, deadline: 1, inbox_read: 0 };
  const names = { uid, tenant: "t", parent_id: "p", agent_id: "a", name: "a", status: "waiting" };
  const open = questions.map((question_id) => ({ question_id, text: "which?" }));
  return AgentRecord.parse({
    ...numbers,
    ...names,
    spec: JSON.stringify(SPEC),
    questions: JSON.stringify(open),
  });
}

/** Resolves when everything that can go on without time has gone on. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("agents that cannot be looked at keep no other from its end, and are said in one line", async () => {
  const { sweeper, done, warnings } = scene({
    due: () => duesOf(4),
    overdue(uid) {
      if (uid === uidOf(1) || uid === uidOf(3)) throw new Error("WRONGTYPE");
      return { status: "idle_over" };
    },
  });
  expect(await sweeper.tick()).toBe(4);
  expect(done.filter((word) => word.startsWith("settle"))).toEqual([
    `settle ${uidOf(0)}`,
    `settle ${uidOf(2)}`,
  ]);
  expect(warnings.map((line) => JSON.parse(line))).toMatchObject([
    { agents: 2, member: expect.stringContaining(uidOf(1)), problem: "WRONGTYPE" },
  ]);
});

test("a single agent that cannot be looked at is said as well", async () => {
  const { sweeper, warnings } = scene({
    overdue() {
      throw new Error("WRONGTYPE");
    },
  });
  await sweeper.tick();
  expect(warnings.map((line) => JSON.parse(line))).toMatchObject([{ agents: 1, problem: "WRONGTYPE" }]);
});

test("a tick looks at everything that is due, page by page", async () => {
  const pages = [duesOf(BATCH), duesOf(BATCH), duesOf(1)];
  const { sweeper, clock, done } = scene({ due: () => pages.shift() ?? [] });
  const ticking = sweeper.tick();
  while (pages.length > 0) {
    await settled();
    clock.advance(PAGE_REST_MS);
  }
  expect(await ticking).toBe(2 * BATCH + 1);
  expect(done).toHaveLength(2 * BATCH + 1);
});

test("a sweep that failed is followed by the next one, a second later; the same failure is told once", async () => {
  let looks = 0;
  const { sweeper, clock, warnings } = scene({
    due() {
      looks += 1;
      throw new Error("Redis is away");
    },
  });
  sweeper.start();
  await settled();
  for (const ticks of [1, 2, 3]) {
    expect([looks, warnings.length]).toEqual([ticks, 1]);
    clock.advance(1_000);
    await settled();
  }
  await sweeper.stop();
});

test("a sweeper that is started twice ticks once, about every second", async () => {
  let looks = 0;
  const { sweeper, clock } = scene({
    due() {
      looks += 1;
      return [];
    },
  });
  sweeper.start();
  sweeper.start();
  await settled();
  expect(looks).toBe(1);
  clock.advance(999);
  await settled();
  expect(looks).toBe(1);
  clock.advance(1);
  await settled();
  expect([looks, clock.pending]).toEqual([2, 1]);
  await sweeper.stop();
});

test("after stop no tick is going on, no further page is taken, and no timer is left", async () => {
  let looks = 0;
  const { sweeper, clock, done } = scene({
    // Always more to do: only a stop ends the tick.
    due() {
      looks += 1;
      if (looks === 3) void sweeper.stop();
      return looks < 10 ? duesOf(BATCH) : [];
    },
  });
  sweeper.start();
  for (let page = 0; page < 3; page += 1) {
    await settled();
    clock.advance(PAGE_REST_MS);
  }
  await sweeper.stop();
  expect([looks, done.length, clock.pending]).toEqual([3, 3 * BATCH, 0]);
  clock.advance(10_000);
  await settled();
  expect(looks).toBe(3);
});

test("stop waits for the look that is going on", async () => {
  let finish = () => {};
  const { sweeper } = scene({
    due: () =>
      new Promise<Due[]>((resolve) => {
        finish = () => resolve([]);
      }),
  });
  sweeper.start();
  await settled();
  let isOver = false;
  const stopping = sweeper.stop().then(() => {
    isOver = true;
  });
  await settled();
  expect(isOver).toBe(false);
  finish();
  await stopping;
});

test("a member that names no agent, one of an unknown agent and one of an ended agent are forgotten", async () => {
  const nobody = { ...dueOf(0), address: undefined };
  const { sweeper, done } = scene({
    due: () => [nobody, dueOf(1), dueOf(2)],
    overdue: (uid) => ({ status: uid === uidOf(1) ? "unknown" : "ended" }),
  });
  await sweeper.tick();
  expect(done.sort()).toEqual(["forget nobody", `forget ${uidOf(1)}`, `forget ${uidOf(2)}`]);
});

test("an agent that is not due is looked at again at its deadline", async () => {
  const { sweeper, done } = scene({ overdue: { status: "not_due", deadline: 77 } });
  await sweeper.tick();
  expect(done).toEqual([`move ${FIRST} to 77`]);
});

const WITHOUT_TOOLS = { needs_tools: ["a", "b"], wake: 3, agent_id: "a", waited_ms: 10_000 };

test.for([
  ["idle_over", "idle"],
  ["max_age_over", "max_age"],
  ["tools_missing", "tools_missing"],
] as const)("%s ends an agent with %s, and it is looked at no more", async ([status, stop_reason]) => {
  const overdue = status === "tools_missing" ? { status, ...WITHOUT_TOOLS } : { status };
  // Each tool is offered, and no worker has both.
  const { sweeper, done, settled: ends } = scene({ overdue, offered: [["a"], ["b"]] });
  await sweeper.tick();
  expect(ends).toMatchObject([{ authority: "sweeper", target: "ended", stop_reason }]);
  expect(done).toEqual([`settle ${FIRST}`, `forget ${FIRST}`]);
});

test("a run that a live worker has the tools for waits on for it, and a lost job of it is replaced", async () => {
  const overdue = { status: "tools_missing", ...WITHOUT_TOOLS } as const;
  const waiting = scene({ overdue, offered: [["a"], ["b", "c", "a"]], isAlive: true });
  await waiting.sweeper.tick();
  expect(waiting.done).toEqual([`move ${FIRST} to ${NOW_MS + 30_000}`]);
  const lost = scene({ overdue, offered: [["a", "b"]] });
  await lost.sweeper.tick();
  expect(lost.done).toEqual([`touch ${FIRST}`, "requeue 3"]);
});

test("the live workers are read once for a page of agents that wait for tools, anew for the next page, and else never", async () => {
  const overdue = { status: "tools_missing", ...WITHOUT_TOOLS } as const;
  const pages = [duesOf(BATCH - 1), duesOf(BATCH - 1)];
  const { sweeper, done, listed } = scene({
    overdue,
    offered: [["a", "b"]],
    isAlive: true,
    due: () => pages.pop() ?? [],
  });
  await sweeper.tick();
  expect([done.length, listed.times]).toEqual([BATCH - 1, 1]);
  await sweeper.tick();
  expect([done.length, listed.times]).toEqual([2 * (BATCH - 1), 2]);
  await sweeper.tick();
  expect(listed.times).toBe(2);
});

test("an agent that a message revived between look and end is looked at again at its new deadline", async () => {
  const { sweeper, done } = scene({
    overdue: { status: "idle_over" },
    settle: { status: "not_due", deadline: 99 },
  });
  await sweeper.tick();
  expect(done).toEqual([`settle ${FIRST}`, `move ${FIRST} to 99`]);
});

test("every open question gets its default in one tick, and the last one wakes the agent", async () => {
  const { sweeper, done } = scene({
    overdue: { status: "answer_due" },
    questions: ["1/a", "1/b"],
    answer: (id) =>
      id === "1/b" ? { status: "queued", run: 1, wake: 5, deadline: 40 } : { status: "waiting", open: 1 },
  });
  await sweeper.tick();
  expect(done).toEqual(["answer 1/a", "answer 1/b", `wake ${FIRST} 5`, `move ${FIRST} to 40`]);
});

test("a default that is not due after all is looked at again at its deadline, and answers nothing", async () => {
  const { sweeper, done } = scene({
    overdue: { status: "answer_due" },
    questions: ["1/a", "1/b"],
    answer: () => ({ status: "not_due", deadline: 55 }),
  });
  await sweeper.tick();
  expect(done).toEqual(["answer 1/a", `move ${FIRST} to 55`]);
});

test.for([
  ["that cannot be read", new SyntaxError("Unexpected end of JSON input")],
  ["without a question", []],
] as const)(
  "a record of a waiting agent %s wakes it to hand back: nobody could answer it",
  async ([, questions]) => {
    const finish = { status: "finishing", run: 1, wake: 7 } as const;
    const { sweeper, done } = scene({ overdue: { status: "answer_due" }, questions, finish });
    await sweeper.tick();
    expect(done).toEqual([`touch ${FIRST}`, "finish", `wake ${FIRST} 7`]);
  },
);

test("a waiting agent whose record does not come, for Redis is away, is only looked at again", async () => {
  const away = new Error("Connection is closed.");
  const { sweeper, done } = scene({ overdue: { status: "answer_due" }, questions: away });
  await sweeper.tick();
  expect(done).toEqual([]);
});

const job: WaitingJob = { wake: 4, agent_id: "a", waited_ms: 20_000 };
const queued: VerbAnswer<"overdue"> = { status: "queued", ...job };
const leaseOver: VerbAnswer<"overdue"> = { status: "lease_over", wake: 4, agent_id: "a" };

test.for([
  ["whose wake was lost", { overdue: queued, isAlive: false }],
  ["whose wake was lost, as a plain read tells,", { waitingJob: job, isAlive: false }],
  ["whose lease is over, whatever its job does,", { overdue: leaseOver, isAlive: true }],
] as const)("an agent %s gets a new wake, and a check should that be lost, too", async ([, seen]) => {
  const { sweeper, done } = scene({ ...seen, requeue: { status: "wake", wake: 5 } });
  await sweeper.tick();
  expect(done).toEqual([`touch ${FIRST}`, "requeue 4", `wake ${FIRST} 5`]);
});

test.for([
  ["a plain read", { waitingJob: job }],
  ["the script", { overdue: queued }],
] as const)(
  "a wake that still waits its turn, as %s tells, is not doubled, and only the time of its next check is written",
  async ([, seen]) => {
    const { sweeper, done } = scene({ ...seen, isAlive: true });
    await sweeper.tick();
    expect(done).toEqual([`move ${FIRST} to ${NOW_MS + 40_000}`]);
  },
);

test("after a full page a tick rests for 15 ms, and after the last one not at all", async () => {
  const pages = [duesOf(BATCH), duesOf(BATCH), duesOf(1)];
  const { sweeper, clock } = scene({ due: () => pages.shift() ?? [] });
  const ticking = sweeper.tick();
  for (const left of [2, 1]) {
    await settled();
    expect([pages.length, clock.pending]).toEqual([left, 1]);
    clock.advance(14);
    await settled();
    expect(pages).toHaveLength(left);
    clock.advance(1);
  }
  expect(await ticking).toBe(2 * BATCH + 1);
});

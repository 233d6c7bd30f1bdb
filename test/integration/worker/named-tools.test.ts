/** Guarantee: a run whose parent named a custom tool runs where the tool is, and nowhere else. */
import { expect, test } from "vitest";
import { z } from "zod";
import { viewOf } from "../../../src/shared/protocol/agent.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { defineTool, type Tool } from "../../../src/worker/tools/tool.ts";
import type { SubagentWorker } from "../../../src/worker/worker.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { beginning, latch } from "../../helpers/latch.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage } from "../../stage/stage.ts";

const tool = (name: string) =>
  defineTool({ name, description: "Looks up.", input: z.object({}), run: async () => `${name} found it` });

const scenario = [
  {
    match: { user: "look it up" },
    turns: [
      { content: [{ type: "tool_use" as const, name: "look_up", input: {} }] },
      { content: [{ type: "text" as const, text: "{{last_tool_result}}" }] },
    ],
  },
  { match: { user: "do without" }, turns: [{ content: [{ type: "text" as const, text: "did without" }] }] },
];

/** Until everybody can see the worker. */
async function announced({ redis, keys }: Stage, worker: SubagentWorker): Promise<void> {
  const directory = createWorkerDirectory(redis, keys);
  await until(async () => (await directory.list()).some(({ id }) => id === worker.id));
}

/** How often a worker has taken the agent's first wake. */
async function timesTaken({ redis, keys }: Stage, { uid }: Agent): Promise<number> {
  return Number(await redis.hget(`${keys.bullPrefix}:${keys.wakeQueue}:${uid}.1`, "ats"));
}

test("while a worker with the named tool lives, no other one runs the agent", async () => {
  const installation = await openStage({ scenario });
  const able = await installation.startWorker({ tools: [tool("look_up")], concurrency: 2 });
  await announced(installation, able);
  await installation.startWorker();
  await installation.startWorker({ tools: [tool("other")] });
  const agents = await Promise.all(
    Array.from({ length: 6 }, () => installation.task("look it up", { tools: ["look_up", "glob"] })),
  );
  for (const agent of agents) {
    expect(await installation.reply(agent)).toMatchObject({
      status: "succeeded",
      summary: "look_up found it",
    });
    expect((await installation.record(agent)).worker).toBe(able.id);
  }
});

test("of idle workers the one with the tool is found in about one round through them all", async () => {
  const installation = await openStage({ scenario });
  const workers = [await installation.startWorker({ tools: [tool("look_up")] })];
  while (workers.length < 5) workers.push(await installation.startWorker());
  for (const worker of workers) await announced(installation, worker);
  const taken: number[] = [];
  for (let i = 0; i < 10; i++) {
    const agent = await installation.task("look it up", { tools: ["look_up"] });
    await installation.reply(agent);
    taken.push(await timesTaken(installation, agent));
  }
  const [, , , , , median] = taken.sort((a, b) => a - b);
  expect(median).toBeLessThanOrEqual(2 * workers.length);
});

// A lease that ended on a busy machine would make room at the only worker that has the tools.
const TOOL_TIMING = {
  ...SHORT_TIMING,
  leaseMs: 30_000,
  renewMs: 5_000,
  leaseMarginMs: 5_000,
  toolsMs: 1_500,
};

test("without one, and with tools that are spread over two workers, the run waits, is seen waiting, and ends tools_missing", async () => {
  const installation = await openStage({ scenario, timing: TOOL_TIMING });
  const workers = [
    await installation.startWorker({ tools: [tool("one")] }),
    await installation.startWorker({ tools: [tool("two")] }),
  ];
  for (const worker of workers) await announced(installation, worker);
  for (const tools of [["look_up"], ["one", "two"]]) {
    const agent = await installation.task("do without", { tools });
    const waiting = await installation.recordWhere(agent, ({ tools_since }) => tools_since !== undefined);
    expect(viewOf(waiting).status).toBe("waiting_for_tools");
    const reply = await installation.reply(agent);
    expect(reply).toMatchObject({ kind: "ended", status: "failed", stop_reason: "tools_missing", turns: 0 });
  }
  expect(installation.offline.ledger).toEqual([]);
});

test("while the only worker with the tools is busy, a run that it will come to waits on", async () => {
  const installation = await openStage({ scenario, timing: TOOL_TIMING });
  const [started, mayEnd] = [latch(), latch()];
  const slow = defineTool({
    name: "look_up",
    description: "Looks up.",
    input: z.object({}),
    async run() {
      started.open();
      await mayEnd.opened;
      return "look_up found it";
    },
  });
  const able = await installation.startWorker({ tools: [slow], concurrency: 1 });
  await announced(installation, able);
  const first = await installation.task("look it up", { tools: ["look_up"] });
  await started.opened;
  await installation.startWorker();
  const second = await installation.task("look it up", { tools: ["look_up"] });
  const { tools_since = 0 } = await installation.recordWhere(
    second,
    (record) => record.tools_since !== undefined,
  );
  // A sweeper has come to it after its time was over.
  await until(async () => {
    const [seconds] = await installation.redis.time();
    return Number(seconds) * 1_000 > tools_since + TOOL_TIMING.toolsMs + 2 * TOOL_TIMING.longestCheckMs;
  });
  expect(await installation.record(second)).toMatchObject({ status: "queued", tools_since });
  mayEnd.open();
  expect(await installation.reply(first)).toMatchObject({ status: "succeeded" });
});

test("a run whose tool no worker has buys nothing, and is carried out by the next worker that has it", async () => {
  const installation = await openStage({ scenario, timing: SHORT_TIMING });
  await installation.startWorker();
  const agent = await installation.task("look it up", { tools: ["look_up"] });
  await installation.recordWhere(agent, ({ tools_since }) => tools_since !== undefined);
  expect(installation.offline.ledger).toEqual([]);
  const able = await installation.startWorker({ tools: [tool("look_up")] });
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "look_up found it" });
  const record = await installation.record(agent);
  expect(record).toMatchObject({ worker: able.id });
  expect(record.tools_since).toBeUndefined();
});

const RUNS = 8;
const STEPS = [1, 2, 3];
/** It would outlast the test. */
const drainGraceMs = 600_000;

/** A tool whose effects are counted, by run and step. */
function counted() {
  const effects: string[] = [];
  const act = defineTool({
    name: "act",
    description: "Has an effect.",
    input: z.object({ step: z.number() }),
    async run({ step }, { uid }) {
      effects.push(`${uid} ${step}`);
      return `step ${step} is done`;
    },
  });
  return { act, effects };
}

/** Runs of a worker that has the tool and stops in the second call of each; a worker without it stays. */
async function stoppedInTheMiddle(installation: Stage, act: Tool, send: () => Promise<Agent[]>) {
  const [arrived, drains] = [latch(), latch()];
  let held = 0;
  const model = heldModel(installation, ({ messages }) => {
    if (JSON.parse(`[${messages}]`).length === 1) return undefined;
    held += 1;
    if (held === RUNS) arrived.open();
    return drains.opened;
  });
  const clock = beginning(drainGraceMs, drains);
  const able = await installation.startWorker({
    tools: [act],
    concurrency: RUNS,
    model,
    clock,
    drainGraceMs,
  });
  await announced(installation, able);
  const agents = await send();
  await arrived.opened;
  await installation.startWorker();
  await able.stop();
  return agents;
}

test(`${RUNS} runs whose only capable worker stops in the middle of them wait, visibly, and have each effect once when another one comes`, async () => {
  const steps = STEPS.map((step) => ({
    content: [{ type: "tool_use" as const, name: "act", input: { step } }],
  }));
  const done = { content: [{ type: "text" as const, text: "all steps are done" }] };
  const installation = await openStage({ scenario: { turns: [...steps, done] }, timing: SHORT_TIMING });
  const { act, effects } = counted();
  const send = () =>
    Promise.all(Array.from({ length: RUNS }, () => installation.task("act", { tools: ["act"] })));
  const agents = await stoppedInTheMiddle(installation, act, send);

  // The worker without the tool has met every run, or ended it.
  await Promise.all(
    agents.map((agent) =>
      installation.recordWhere(
        agent,
        ({ status, tools_since }) => status === "ended" || tools_since !== undefined,
      ),
    ),
  );
  const views = await installation.parent(agents[0]?.parentId).list();
  expect(views.map(({ status }) => status)).toEqual(agents.map(() => "waiting_for_tools"));
  for (const agent of agents) expect(await installation.entries(agent)).toEqual([]);
  expect(effects.sort()).toEqual(agents.map(({ uid }) => `${uid} 1`).sort());

  const heir = await installation.startWorker({ tools: [act], concurrency: RUNS });
  for (const agent of agents) {
    expect(await installation.reply(agent)).toMatchObject({
      status: "succeeded",
      turns: STEPS.length + 1,
      tools_called: { act: STEPS.length },
    });
    expect(await installation.entries(agent)).toHaveLength(1);
    expect((await installation.record(agent)).worker).toBe(heir.id);
  }
  const wanted = agents.flatMap(({ uid }) => STEPS.map((step) => `${uid} ${step}`));
  expect(effects.sort()).toEqual(wanted.sort());
});

test("a worker that stops stays announced, with its tools, until its runs are off its hands", async () => {
  const [begun, goesOn] = [latch(), latch()];
  const slow = defineTool({
    name: "look_up",
    description: "Looks up.",
    input: z.object({}),
    async run() {
      begun.open();
      await goesOn.opened;
      return "found";
    },
  });
  const installation = await openStage({ scenario });
  const worker = await installation.startWorker({ tools: [slow] });
  await announced(installation, worker);
  await installation.task("look it up", { tools: ["look_up"] });
  await begun.opened;
  const stopped = worker.stop();
  await until(async () => !(await worker.readiness()).ready);
  const directory = createWorkerDirectory(installation.redis, installation.keys);
  expect((await directory.list()).map(({ id }) => id)).toEqual([worker.id]);
  goesOn.open();
  await stopped;
  expect(await directory.list()).toEqual([]);
});

test("the reply names the tools of the allowlist that its worker did not have", async () => {
  const installation = await openStage({ scenario });
  const worker = await installation.startWorker();
  await announced(installation, worker);
  const parent = testParent(testClient({ prefix: installation.prefix }));
  const reply = await parent.task({ prompt: "do without", tools: ["glob", "unheard_of"] });
  expect(reply).toMatchObject({ status: "succeeded", unknown_tools: ["unheard_of"] });
  expect(await parent.task("do without")).not.toHaveProperty("unknown_tools");
});

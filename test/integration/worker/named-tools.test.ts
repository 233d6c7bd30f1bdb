/** Guarantee: a run whose parent named a custom tool runs where the tool is, as long as somebody who has it lives. */
import { expect, test } from "vitest";
import { z } from "zod";
import { createWorkerDirectory } from "../../../src/shared/redis/worker-directory.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import type { SubagentWorker } from "../../../src/worker/worker.ts";
import { type Agent, type Installation, openInstallation } from "../../helpers/installation.ts";
import { until } from "../../helpers/until.ts";

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
async function announced({ redis, keys }: Installation, worker: SubagentWorker): Promise<void> {
  const directory = createWorkerDirectory(redis, keys);
  await until(async () => (await directory.list()).some(({ id }) => id === worker.id));
}

/** How often a worker has taken the agent's first wake. */
async function timesTaken({ redis, keys }: Installation, { uid }: Agent): Promise<number> {
  return Number(await redis.hget(`${keys.bullPrefix}:${keys.wakeQueue}:${uid}.1`, "ats"));
}

test("while a worker with the named tool lives, no other one runs the agent", async () => {
  const installation = await openInstallation({ scenario });
  const able = await installation.startWorker({ tools: [tool("look_up")], concurrency: 2 });
  await announced(installation, able);
  await installation.startWorker();
  await installation.startWorker({ tools: [tool("other")] });
  const agents = await Promise.all(
    Array.from({ length: 6 }, () =>
      installation.task("look it up", { tools: ["look_up", "glob", "nobody_has_it"] }),
    ),
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
  const installation = await openInstallation({ scenario });
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

test("without one, and with tools that are spread over two workers, the run does without", async () => {
  const installation = await openInstallation({ scenario });
  const workers = [
    await installation.startWorker({ tools: [tool("one")] }),
    await installation.startWorker({ tools: [tool("two")] }),
  ];
  for (const worker of workers) await announced(installation, worker);
  for (const tools of [["look_up"], ["one", "two"]]) {
    const reply = await installation.reply(await installation.task("do without", { tools }));
    expect(reply).toMatchObject({ status: "succeeded", summary: "did without" });
  }
});

test("a run that waits for the tool is run without it once the worker that has it is gone", async () => {
  const installation = await openInstallation({ scenario });
  const directory = createWorkerDirectory(installation.redis, installation.keys);
  const worker = await installation.startWorker();
  await announced(installation, worker);
  const [announcement] = await directory.list();
  if (!announcement) throw new Error("nobody is announced");
  const { v: _, ...able } = announcement;
  await directory.announce({ ...able, id: "able", tools: [...able.tools, "look_up"] });
  const agent = await installation.task("do without", { tools: ["look_up"] });
  await until(async () => (await timesTaken(installation, agent)) >= 2);
  expect(await installation.record(agent)).toMatchObject({ status: "queued", epoch: 0 });
  await directory.withdraw("able");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
});

/** Guarantee: a message becomes a run, the run a reply, and the queue never sees more than ids. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { keysLike } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const PROMPT = "gather the secret-prompt-marker";

function write(name: string, content: string) {
  return { type: "tool_use" as const, name: "write_file", input: { file_path: name, content } };
}

function jobsOf({ redis, keys }: Stage): Queue {
  const queue = new Queue(keys.wakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  return queue;
}

test("a run calls its tools in parallel, hands their results back and replies with what the model said", async () => {
  const both = latch();
  let waiting = 0;
  const meet = defineTool({
    name: "meet",
    description: "Waits until two calls are under way.",
    input: z.object({}),
    async run() {
      waiting += 1;
      if (waiting === 2) both.open();
      await both.opened;
      return "met";
    },
  });
  const call = { type: "tool_use" as const, name: "meet", input: {} };
  const installation = await openStage({
    scenario: {
      turns: [
        { content: [{ type: "text", text: "Meeting." }, call, { ...call, input: { again: true } }] },
        { content: [write("met.txt", "here")] },
        { content: [{ type: "text", text: "They met: {{last_tool_result}}" }] },
      ],
    },
  });
  await installation.startWorker({ tools: [meet] });
  const agent = await installation.task(PROMPT);
  const reply = await installation.reply(agent);
  expect(reply).toMatchObject({
    kind: "reply",
    status: "succeeded",
    stop_reason: "end_turn",
    agent_status: "ended",
    turns: 3,
    tools_called: { meet: 2, write_file: 1 },
    model: "offline-1",
  });
  expect(reply.summary).toMatch(/^They met: /);
  const file = join(
    installation.workspaceRoot,
    "default/parent-0/agents",
    agent.agentId,
    "workspace/met.txt",
  );
  expect(await readFile(file, "utf8")).toBe("here");
  const { ledger } = installation.offline;
  expect(ledger.map(({ status, turn }) => [status, turn])).toEqual([
    ["served", 0],
    ["served", 1],
    ["served", 2],
  ]);
  const sum = (pick: (usage: NonNullable<(typeof ledger)[number]["usage"]>) => number) =>
    ledger.reduce((total, { usage }) => total + (usage ? pick(usage) : 0), 0);
  expect(reply.usage.output_tokens).toBe(sum((usage) => usage.output_tokens));
  expect(reply.usage.cache_read_input_tokens).toBe(sum((usage) => usage.cache_read_input_tokens));
});

test("forty parallel calls of one turn cause no warning", async () => {
  const warnings: string[] = [];
  const onWarning = (warning: Error) => void warnings.push(String(warning));
  process.on("warning", onWarning);
  const calls = Array.from({ length: 40 }, (_, i) => ({
    type: "tool_use" as const,
    name: "glob",
    input: { pattern: `${i}` },
  }));
  const done = { content: [{ type: "text" as const, text: "done" }] };
  const installation = await openStage({ scenario: { turns: [{ content: calls }, done] } });
  await installation.startWorker();
  const reply = await installation.reply(await installation.task("work"));
  process.off("warning", onWarning);
  expect(reply).toMatchObject({ status: "succeeded", tools_called: { glob: 40 } });
  expect(warnings).toEqual([]);
});

test("a finished wake job returns status, stop reason and turns", async () => {
  const installation = await openStage({
    scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] },
  });
  await installation.startWorker();
  const agent = await installation.task(PROMPT);
  await installation.reply(agent);
  const queue = jobsOf(installation);
  const job = await until(async () => (await queue.getCompleted())[0]);
  expect(job.name).toBe(agent.agentId);
  expect(job.id).toBe(`${agent.uid}.1`);
  expect(job.returnvalue).toEqual({ status: "succeeded", stop_reason: "end_turn", turns: 1 });
});

test("a run that settled as failed stands as failed in the queue", async () => {
  const installation = await openStage({
    scenario: { turns: [{ content: [{ type: "text", text: "no" }], stop_reason: "refusal" }] },
  });
  await installation.startWorker();
  const agent = await installation.task(PROMPT);
  expect(await installation.reply(agent)).toMatchObject({ status: "failed", stop_reason: "refusal" });
  const queue = jobsOf(installation);
  const job = await until(async () => (await queue.getFailed())[0]);
  expect(job.id).toBe(`${agent.uid}.1`);
  expect(job.failedReason).toContain("refusal");
  expect(await queue.getCompletedCount()).toBe(0);
});

test("no key of the queue holds a word of prompt, answer or result", async () => {
  const installation = await openStage({
    scenario: [
      {
        match: { user: "succeed" },
        turns: [
          { content: [write("a.txt", "secret-file-marker")] },
          { content: [{ type: "text", text: "secret-answer" }] },
        ],
      },
      { match: { user: "fail" }, turns: [{ error: { status: 400, message: "secret-error-marker" } }] },
    ],
  });
  await installation.startWorker();
  const agents = [
    await installation.task("secret-prompt: succeed", { description: "secret-description" }),
    await installation.task("secret-prompt: fail", { system: "secret-system" }),
  ];
  for (const agent of agents) await installation.reply(agent);
  const { redis, keys } = installation;
  const finished = async () => (await keysLike(redis, `${keys.bullPrefix}:wakes:sa-*`)).length === 2;
  await until(finished);
  const names = await keysLike(redis, `${keys.bullPrefix}:*`);
  expect(names.length).toBeGreaterThan(4);
  for (const name of names) expect(`${name} ${await dumpOf(installation, name)}`).not.toContain("secret");
});

async function dumpOf({ redis }: Stage, key: string): Promise<string> {
  const type = await redis.type(key);
  if (type === "hash") return JSON.stringify(await redis.hgetall(key));
  if (type === "string") return String(await redis.get(key));
  if (type === "list") return JSON.stringify(await redis.lrange(key, 0, -1));
  if (type === "zset") return JSON.stringify(await redis.zrange(key, 0, -1));
  if (type === "set") return JSON.stringify(await redis.smembers(key));
  if (type === "stream") return JSON.stringify(await redis.xrange(key, "-", "+"));
  // The queue's marks of a few seconds may have run out since the keys were listed.
  if (type === "none") return "";
  throw new Error(`${key} is a ${type}`);
}

test("the queue keeps the hundred newest jobs of wakes that were taken, and none says so again", async () => {
  const installation = await openStage({
    scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] },
  });
  const { redis, keys } = installation;
  const queue = `${keys.bullPrefix}:${keys.wakeQueue}`;
  const taken = Array.from({ length: 200 }, (_, i) => [Date.now() - 10_000 + i, `old.${i}`]);
  await redis.zadd(`${queue}:completed`, ...taken.flat());
  await installation.startWorker();
  const agent = await installation.task("go");
  await installation.reply(agent);
  await until(async () => (await redis.zcard(`${queue}:completed`)) === 100, { what: "a hundred jobs" });
  expect(await redis.zscore(`${queue}:completed`, `${agent.uid}.1`)).not.toBeNull();
  expect(await redis.hget(`${queue}:${agent.uid}.1`, "opts")).not.toContain("remove");
});

/** Guarantee: what this process was given to keep reaches neither the model nor the parent, however it is spelled. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { parseMessage } from "../../../src/shared/redis/events.ts";
import { keepSecret } from "../../../src/shared/secrets.ts";
import type { Hook } from "../../../src/worker/hooks/hooks.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const KEY = "sk-test-a1b2c3d4e5f6g7h8";

test("a tool that prints a secret shows its model a mask, and a reply that repeats it is masked as well", async () => {
  keepSecret(KEY);
  const told: string[] = [];
  let logged = "";
  const tell = defineTool({
    name: "tell",
    description: "Takes what the model read.",
    input: z.object({ text: z.string() }),
    async run({ text }, { uid }) {
      told.push(text);
      const { log } = stage.keys.agent({ tenant: "default", parentId: "planner-7", uid });
      logged = JSON.stringify(await stage.redis.hgetall(log));
    },
  });
  const leak = defineTool({
    name: "leak",
    description: "Prints what it should not.",
    input: z.object({}),
    run: async () => `KEY=${KEY} ${Buffer.from(`user:${KEY}`).toString("base64")}`,
  });
  const stage = await openStage({
    scenario: {
      turns: [
        { content: [{ type: "tool_use", name: "leak", input: {} }] },
        { content: [{ type: "tool_use", name: "tell", input: { text: "{{last_tool_result}}" } }] },
        { content: [{ type: "text", text: `I know ${KEY}.` }] },
      ],
    },
  });
  await stage.startWorker({ tools: [leak, tell] });
  const { summary } = await stage.parent().task({ prompt: "work" });
  expect(told).toEqual([expect.stringMatching(/^KEY=\[redacted\] .*\[redacted\].*$/)]);
  // The conversation as it is kept, before anything that the model says is masked once more.
  expect(logged).toContain("KEY=[redacted]");
  expect(logged).not.toContain(KEY);
  expect(summary).toBe("I know [redacted].");
});

test("a question shows a mask to the parent, in the channel and in the events", async () => {
  keepSecret(KEY);
  const stage = await openStage({
    scenario: {
      turns: [
        {
          content: [
            {
              type: "tool_use",
              name: "ask_parent",
              input: { question: `Is ${KEY} right?`, default_answer: KEY },
            },
          ],
        },
        { content: [{ type: "text", text: "Done." }] },
      ],
    },
  });
  await stage.startWorker();
  const parent = stage.parent();
  const { agent_id } = await parent.spawn({ name: "asker" });
  await parent.send(agent_id, "work");
  for await (const entry of parent.replies()) {
    await entry.ack();
    if (entry.kind !== "question") continue;
    expect(entry).toMatchObject({ text: "Is [redacted] right?", default_answer: "[redacted]" });
    break;
  }
  expect(JSON.stringify(await parent.timeline(agent_id))).toContain("Is [redacted] right?");
  expect(JSON.stringify(await parent.get(agent_id))).not.toContain(KEY);
});

test("a question into which a hook of the worker wrote a secret shows a mask to the parent", async () => {
  keepSecret(KEY);
  const ask = { type: "tool_use" as const, name: "ask_parent", input: { question: "Right?" } };
  const done = { content: [{ type: "text" as const, text: "Done." }] };
  const stage = await openStage({ scenario: { turns: [{ content: [ask] }, done] } });
  const hook: Hook = { name: "edit", preToolUse: () => ({ input: { question: `Is ${KEY} right?` } }) };
  await stage.startWorker({ hooks: [hook] });
  const heard: string[] = [];
  await stage.parent().task({
    prompt: "work",
    onQuestion({ text }) {
      heard.push(text);
      return "yes";
    },
  });
  expect(heard).toEqual(["Is [redacted] right?"]);
});

test("text that streams to those who watch, and the trace beside the workspace, show a mask", async () => {
  keepSecret(KEY);
  const text = `I know ${KEY}, and that ${KEY} is one.`;
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text }] }] } });
  await stage.startWorker({ trace: "full" });
  const { watching, events } = stage.keys.parent({ tenant: "default", parentId: "planner-7" });
  const listener = stage.redis.duplicate();
  closeAtEnd(() => listener.disconnect());
  const seen: string[] = [];
  listener.on("message", (_, message: string) => {
    for (const event of parseMessage(message).events) if (event.type === "text_delta") seen.push(event.text);
  });
  await listener.subscribe(events);
  await stage.redis.set(watching, "1");
  const { agent_id } = await stage.parent().task({ prompt: "work" });
  await until(() => seen.join("").endsWith("is one."));
  expect(seen.join("")).toBe("I know [redacted], and that [redacted] is one.");
  const beside = join(stage.workspaceRoot, "default", "planner-7", "agents", agent_id, "trace.jsonl");
  const trace = await until(async () => {
    const lines = await readFile(beside, "utf8");
    return lines.includes('"entry":"1"') && lines;
  });
  expect(trace).toContain("I know [redacted]");
  expect(trace).not.toContain(KEY);
});

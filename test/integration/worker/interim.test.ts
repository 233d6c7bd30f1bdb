/** Guarantee: a sub-agent can write to its parent while it works, to nobody else, and not without end. */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { ToolFailure } from "../../../src/shared/errors.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { packageVersion } from "../../../src/shared/package.ts";
import { createReplyStream } from "../../../src/shared/redis/replies.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { keepSecret } from "../../../src/shared/secrets.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const tell = (message: string, target = "parent") => ({
  type: "tool_use" as const,
  name: "send_agent_message",
  input: { target_agent_id: target, message },
});

test("an interim message reaches the parent before the reply, in the same channel", async () => {
  const installation = await openStage({
    scenario: { turns: [{ content: [tell("Half done.")] }, { content: [{ type: "text", text: "Done." }] }] },
  });
  await installation.startWorker();
  const agent = await installation.task("work");
  await installation.reply(agent);
  const stream = createReplyStream(installation.redis, installation.keys, installation.store.timing);
  const entries = (await stream.read(agent, "0", 10)).map(({ entry }) => entry);
  expect(entries).toMatchObject([
    { kind: "message", text: "Half done.", agent_id: agent.agentId, run: 1, agent_status: "running" },
    { kind: "reply", summary: "Done.", tools_called: { send_agent_message: 1 } },
  ]);
});

test("messages of two turns whose calls have one id are two, each with an id of its own", async () => {
  const say = (message: string) => ({ content: [{ ...tell(message), id: "call_0" }] });
  const installation = await openStage({
    scenario: { turns: [say("Half done."), say("Nearly."), { content: [{ type: "text", text: "Done." }] }] },
  });
  await installation.startWorker();
  const agent = await installation.task("work");
  await installation.reply(agent);
  const stream = createReplyStream(installation.redis, installation.keys, installation.store.timing);
  const entries = (await stream.read(agent, "0", 10)).map(({ entry }) => entry);
  expect(entries.map(({ reply_id }) => reply_id)).toEqual([
    `${agent.uid}.1.1/call_0`,
    `${agent.uid}.1.3/call_0`,
    `${agent.uid}.1`,
  ]);
});

test("another target, an empty text and a twenty-first message are refused to the model's face", async () => {
  const many = Array.from({ length: 21 }, (_, i) => tell(`word ${i}`));
  const installation = await openStage({
    scenario: {
      turns: [
        { content: [tell("hello", "sibling"), tell("   "), tell("x".repeat(5_001))] },
        { content: many },
        { content: [{ type: "text", text: "{{last_tool_result}}" }] },
      ],
    },
  });
  await installation.startWorker();
  const agent = await installation.task("chat");
  const reply = await installation.reply(agent);
  expect(reply.summary).toContain("You have sent your parent 20 messages in this run");
  const stream = createReplyStream(installation.redis, installation.keys, installation.store.timing);
  const texts = (await stream.read(agent, "0", 100)).flatMap(({ entry }) =>
    entry.kind === "message" ? entry.text : [],
  );
  expect(texts.toSorted()).toEqual(Array.from({ length: 20 }, (_, i) => `word ${i}`).toSorted());
});

test("a message of a call that failed is not sent: the next try would say it again", async () => {
  const half = defineTool({
    name: "half",
    description: "Tells its parent, and fails.",
    input: z.object({}),
    async run(_input, { tellParent }) {
      tellParent("Half done.");
      throw new Error("disk full");
    },
  });
  const call = { type: "tool_use" as const, name: "half", input: {} };
  const installation = await openStage({
    scenario: { turns: [{ content: [call] }, { content: [{ type: "text", text: "{{last_tool_result}}" }] }] },
  });
  await installation.startWorker({ tools: [half] });
  const agent = await installation.task("work");
  expect((await installation.reply(agent)).summary).toContain("disk full");
  const stream = createReplyStream(installation.redis, installation.keys, installation.store.timing);
  const kinds = (await stream.read(agent, "0", 10)).map(({ entry }) => entry.kind);
  expect(kinds).toEqual(["reply"]);
});

/** What the parent's channel holds, and the result that the model read last, after a call of a tool with this `run`. */
async function tellWith(run: (tellParent: (text: string) => void) => unknown) {
  const speaker = defineTool({
    name: "speaker",
    description: "Speaks to its parent.",
    input: z.object({}),
    run: async (_input, { tellParent }) => run(tellParent),
  });
  const call = { type: "tool_use" as const, name: "speaker", input: {} };
  const installation = await openStage({
    scenario: { turns: [{ content: [call] }, { content: [{ type: "text", text: "{{last_tool_result}}" }] }] },
  });
  const log: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void log.push(line) } });
  await installation.startWorker({ tools: [speaker], logger });
  const agent = await installation.task("work");
  const { summary } = await installation.reply(agent);
  const stream = createReplyStream(installation.redis, installation.keys, installation.store.timing);
  const told = (await stream.read(agent, "0", 10)).flatMap(({ entry }) =>
    entry.kind === "message" ? entry.text : [],
  );
  return {
    summary,
    told,
    late: () => log.filter((line) => line.includes("after its call had ended")).length,
  };
}

test("what one call tells the parent several times arrives whole, as one message", async () => {
  const { told } = await tellWith((tellParent) => {
    for (const text of ["One third.", "Two thirds.", "All."]) tellParent(text);
  });
  expect(told).toEqual(["One third.\n\nTwo thirds.\n\nAll."]);
});

test("a secret in what a tool tells the parent is hidden", async () => {
  const key = "interim-key-7f3a9c2e1d";
  keepSecret(key);
  const { told } = await tellWith((tellParent) => tellParent(`Done with ${key}.`));
  expect(told).toEqual(["Done with [redacted]."]);
});

test("a tool that tells the parent what is no message gets an error that its model reads, and its run goes on", async () => {
  const words: unknown[] = [5, undefined, { done: true }, " ", "x".repeat(5_001)];
  const refused: string[] = [];
  const { summary, told } = await tellWith((tellParent) => {
    for (const word of words) {
      try {
        Reflect.apply(tellParent, undefined, [word]);
      } catch (error) {
        refused.push(error instanceof ToolFailure ? error.message : "no failure");
      }
    }
    tellParent("y".repeat(4_990));
    tellParent("and nine more");
  });
  expect(refused.map((message) => message.split(":")[0])).toEqual([
    "A message to the parent must be text.",
    "A message to the parent must be text.",
    "A message to the parent must be text.",
    "The message is empty",
    "The message is longer than 5000 characters",
  ]);
  expect(summary).toBe("The message is longer than 5000 characters: shorten it.");
  expect(told).toEqual([]);
});

test("a call that is over tells the parent nothing more; the log says so once, and a tool that speaks in a timer ends no worker", async () => {
  let speak = (_text: string): void => {};
  const { told, late } = await tellWith((tellParent) => {
    speak = tellParent;
  });
  for (let i = 0; i < 3; i++) speak("Late.");
  expect(told).toEqual([]);
  expect(late()).toBe(1);
});

test("the full trace holds every entry of the conversation, for the owner only", async () => {
  const installation = await openStage({
    scenario: {
      turns: [
        { content: [{ type: "tool_use", name: "glob", input: { pattern: "*" } }] },
        { content: [{ type: "text", text: "Nothing here." }] },
      ],
    },
  });
  await installation.startWorker({ trace: "full" });
  const agent = await installation.task("look around");
  await installation.reply(agent);
  const home = join(installation.workspaceRoot, agent.tenant, agent.parentId, "agents", agent.agentId);
  const path = join(home, "trace.jsonl");
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  const lines = (await readFile(path, "utf8"))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.map(({ entry }) => entry.replace(/toolu_\w+/, "CALL"))).toEqual([
    "0",
    "1",
    "1/CALL/started",
    "1/CALL/result",
    "3",
  ]);
  expect(lines.at(0)).toMatchObject({ run: 1, value: { messages: [{ text: "look around" }] } });
  expect(lines.at(-1)).toMatchObject({ value: { content: [{ text: "Nothing here." }] } });
});

test("a worker stands in the directory with its tools while it runs, and not after", async () => {
  const installation = await openStage();
  const directory = createWorkerDirectory(installation.redis, installation.keys);
  const worker = await installation.startWorker({ concurrency: 3 });
  const [announced] = await until(async () => {
    const list = await directory.list();
    return list.length > 0 && list;
  });
  expect(announced).toMatchObject({ id: worker.id, concurrency: 3, version: packageVersion() });
  expect(announced?.tools).toContain("send_agent_message");
  await worker.stop();
  expect(await directory.list()).toEqual([]);
});

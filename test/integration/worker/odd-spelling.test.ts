/** Guarantee: nothing that a model, its provider or a parent spells oddly makes a conversation impossible to go on with. */
import { expect, test } from "vitest";
import { wakeOf } from "../../../src/shared/protocol/keys.ts";
import { attachedText, attachmentKey } from "../../../src/shared/protocol/message.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { openStage } from "../../stage/stage.ts";

const done = { content: [{ type: "text" as const, text: "done" }] };
const glob = { type: "tool_use" as const, name: "glob", input: { pattern: "*" } };

test.each([
  ["a tool name with a dot", { ...glob, name: "functions.glob" }],
  ["no tool name", { ...glob, name: "" }],
  ["an id with a colon", { ...glob, id: "call:1" }],
  ["half a character in a tool's input", { ...glob, input: { pattern: "\ud83d*", "\ud83d": 1 } }],
  ["half a character in its words", { type: "text" as const, text: "cut \ud83d" }],
])("a model that answers with %s goes on", async (_, block) => {
  const installation = await openStage({ scenario: { turns: [{ content: [block, glob] }, done] } });
  await installation.startWorker();
  const agent = await installation.task("work");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 2, summary: "done" });
  expect(installation.offline.ledger.map((call) => call.http_status)).toEqual([200, 200]);
});

test("a prompt that was cut in the middle of a character is answered", async () => {
  const installation = await openStage({ scenario: { turns: [done] } });
  await installation.startWorker();
  const agent = await installation.task("work \ud83d");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "done" });
});

test("a count of tokens that cannot be does not keep the run from its end", async () => {
  const output_tokens = Number.MAX_SAFE_INTEGER;
  const installation = await openStage({
    scenario: { turns: [{ content: [glob], usage: { output_tokens } }, done] },
  });
  await installation.startWorker();
  const agent = await installation.task("work");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "done" });
});

test.each([
  ["nothing", ""],
  ["blanks", " \n\t\u00a0"],
])(
  "a message of %s from a foreign producer fails its run, and the reply names the field; no call is bought",
  async (_, text) => {
    const installation = await openStage({ scenario: { turns: [done] } });
    const { store, deadlines, wakes } = installation;
    await installation.startWorker();
    const agent = await installation.spawn({ keep_alive: true });
    await deadlines.hint(agent, store.timing.checkMs);
    const payload = JSON.stringify({ v: 1, message_id: "m-1", text });
    const answer = await store.send(agent, { message_id: "m-1", payload, digest: "" });
    if (answer.status === "queued") await wakes.add(wakeOf(agent, agent.agentId, answer.wake));
    const reply = await installation.reply(agent);
    expect(reply).toMatchObject({ status: "failed", stop_reason: "model_error", message_ids: ["m-1"] });
    expect(reply.error).toMatch(/text of message m-1 is blank/);
    expect(installation.offline.ledger).toEqual([]);
  },
);

test("a message of blanks from a foreign producer that brings a file is delivered: the file says what to do", async () => {
  const installation = await openStage({ scenario: { turns: [done] } });
  const { store, deadlines, wakes } = installation;
  await installation.startWorker();
  const agent = await installation.spawn();
  await deadlines.hint(agent, store.timing.checkMs);
  const answer = await store.send(agent, {
    message_id: "m-1",
    payload: JSON.stringify({ v: 1, message_id: "m-1", text: " ", attached: true }),
    digest: "",
    attached: attachedText({ files: [{ path: "job.md", content: "work" }] }) ?? "",
    attached_to: attachmentKey("m-1"),
  });
  if (answer.status === "queued") await wakes.add(wakeOf(agent, agent.agentId, answer.wake));
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "done" });
});

test("a message of blanks from a foreign producer that comes while a run goes on does not end it", async () => {
  const installation = await openStage({ scenario: { turns: [{ content: [glob] }, done] } });
  const { store } = installation;
  const agent = await installation.spawn();
  let calls = 0;
  const payload = JSON.stringify({ v: 1, message_id: "m-1", text: " " });
  const model = heldModel(installation, () =>
    calls++ === 0 ? store.send(agent, { message_id: "m-1", payload, digest: "" }) : undefined,
  );
  await installation.startWorker({ model });
  await installation.send(agent, "work");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "done" });
});

/** Guarantee: nothing that a model, its provider or a parent spells oddly makes a conversation impossible to go on with. */
import { expect, test } from "vitest";
import { openInstallation } from "../../helpers/installation.ts";

const done = { content: [{ type: "text" as const, text: "done" }] };
const glob = { type: "tool_use" as const, name: "glob", input: { pattern: "*" } };

test.each([
  ["a tool name with a dot", { ...glob, name: "functions.glob" }],
  ["no tool name", { ...glob, name: "" }],
  ["an id with a colon", { ...glob, id: "call:1" }],
  ["half a character in a tool's input", { ...glob, input: { pattern: "\ud83d*", "\ud83d": 1 } }],
  ["half a character in its words", { type: "text" as const, text: "cut \ud83d" }],
])("a model that answers with %s goes on", async (_, block) => {
  const installation = await openInstallation({ scenario: { turns: [{ content: [block, glob] }, done] } });
  await installation.startWorker();
  const agent = await installation.task("work");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 2, summary: "done" });
  expect(installation.offline.ledger.map((call) => call.http_status)).toEqual([200, 200]);
});

test("a prompt that was cut in the middle of a character is answered", async () => {
  const installation = await openInstallation({ scenario: { turns: [done] } });
  await installation.startWorker();
  const agent = await installation.task("work \ud83d");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "done" });
});

test("a count of tokens that cannot be does not keep the run from its end", async () => {
  const output_tokens = Number.MAX_SAFE_INTEGER;
  const installation = await openInstallation({
    scenario: { turns: [{ content: [glob], usage: { output_tokens } }, done] },
  });
  await installation.startWorker();
  const agent = await installation.task("work");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "done" });
});

/** Guarantee: all agents of one kind share one cached prefix, whatever they are called and asked. */
import { expect, test } from "vitest";
import { openStage } from "../../stage/stage.ts";

const done = { turns: [{ content: [{ type: "text" as const, text: "done" }] }], repeat: true };

test("the first call of the second agent of a kind reads what the first one wrote", async () => {
  const installation = await openStage({ scenario: done });
  await installation.startWorker();
  const first = await installation.reply(await installation.task("count the files", { name: "counter" }));
  const second = await installation.reply(await installation.task("read the licence", { name: "reader" }));
  expect(first.usage.cache_read_input_tokens).toBe(0);
  expect(first.usage.cache_creation_input_tokens).toBeGreaterThan(100);
  expect(second.usage.cache_read_input_tokens).toBeGreaterThan(100);
  expect(second.usage.cache_creation_input_tokens).toBeLessThan(first.usage.cache_creation_input_tokens);
  expect(installation.offline.ledger[1]?.usage?.cache_read_input_tokens).toBe(
    second.usage.cache_read_input_tokens,
  );
});

test("an agent of another kind, with tools of its own, does not read it", async () => {
  const installation = await openStage({ scenario: done });
  await installation.startWorker();
  await installation.reply(await installation.task("count the files"));
  const other = await installation.reply(await installation.task("count the files", { tools: ["glob"] }));
  expect(other.usage.cache_read_input_tokens).toBe(0);
});

test("each turn reads the whole conversation of the turn before, also after many calls at once", async () => {
  const list = (...patterns: string[]) => ({
    content: patterns.map((pattern) => ({ type: "tool_use" as const, name: "glob", input: { pattern } })),
  });
  const many = list(...Array.from({ length: 15 }, (_, i) => `${i}`));
  const installation = await openStage({
    scenario: { turns: [list("a"), many, list("b"), ...done.turns] },
  });
  await installation.startWorker();
  await installation.reply(await installation.task("work"));
  const prompts = installation.offline.ledger.map(({ usage }) => ({
    read: usage?.cache_read_input_tokens ?? 0,
    whole:
      (usage?.cache_read_input_tokens ?? 0) +
      (usage?.cache_creation_input_tokens ?? 0) +
      (usage?.input_tokens ?? 0),
  }));
  expect(prompts.map(({ read }) => read)).toEqual([0, ...prompts.slice(0, -1).map(({ whole }) => whole)]);
  expect(prompts).toHaveLength(4);
});

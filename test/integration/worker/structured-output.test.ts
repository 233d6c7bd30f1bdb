/** Guarantee: a reply that succeeded carries output that fits its schema; all that was paid for is in the reply otherwise. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Scenario } from "../../../src/offline/server.ts";
import type { TaskInput } from "../../../src/producer/spawn-input.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { openStage } from "../../stage/stage.ts";

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const look = {
  content: [
    { type: "text" as const, text: "Looking." },
    { type: "tool_use" as const, name: "glob", input: { pattern: "*" } },
  ],
};
const Person = z.object({ name: z.string().min(2), age: z.int() });

async function open(scenario?: Scenario) {
  const stage = await openStage(scenario ? { scenario } : {});
  await stage.startWorker();
  const parent = stage.parent();
  const calls = () =>
    stage.offline.ledger.map(({ tool_choice, output_format = false }) => [tool_choice, output_format]);
  const ask = (wish: Partial<TaskInput> = {}) =>
    parent.task({ prompt: "Who is it?", output_schema: z.toJSONSchema(Person), ...wish } as TaskInput);
  return { stage, parent, calls, ask };
}

test("an answer that fits costs no further call, and its type reaches the caller", async () => {
  const { parent, calls } = await open({ turns: [look, say('```json\n{"name":"Ada","age":36}\n```')] });
  const reply = await parent.task({ prompt: "Who is it?", output_schema: Person });
  if (reply.status !== "succeeded") throw reply;
  const { name, age }: { name: string; age: number } = reply.output;
  expect({ name, age }).toEqual({ name: "Ada", age: 36 });
  expect(calls()).toEqual([
    ["auto", false],
    ["auto", false],
  ]);
});

test("prose is asked for once more with the schema enforced and no tools; then the output is there", async () => {
  const { ask, calls, stage } = await open({
    turns: [say("It is Ada, 36."), say('{"name":"Ada","age":36}')],
  });
  const reply = await ask();
  expect(reply).toMatchObject({ status: "succeeded", stop_reason: "end_turn", turns: 2 });
  expect(reply.output).toEqual({ name: "Ada", age: 36 });
  expect(calls()).toEqual([
    ["auto", false],
    ["none", true],
  ]);
  expect(stage.offline.ledger[1]?.messages).toBe(3);
});

test("a refused call that did not ask for the output is not made again", async () => {
  const { ask, calls } = await open({ turns: [{ error: { status: 400 } }] });
  expect(await ask()).toMatchObject({ status: "failed", stop_reason: "model_error" });
  expect(calls()).toHaveLength(1);
});

test("two repairs are made, each told what is wrong; then the raw text comes back as partial, invalid_output", async () => {
  const wrong = '{"name":"A","age":"old"}';
  const { ask, calls } = await open({
    turns: [say("Ada"), say(wrong), say(wrong), say(wrong), say("never")],
  });
  const reply = await ask();
  expect(reply).toMatchObject({ status: "partial", stop_reason: "invalid_output", summary: wrong, turns: 4 });
  expect(reply.output).toBeUndefined();
  expect(calls().map(([, format]) => format)).toEqual([false, true, true, true]);
});

test("at a cap the last call is held to the schema, and what it brings is the partial reply's output", async () => {
  const { ask, calls } = await open({ turns: [look], hand_back: say('{"name":"Ada","age":1}') });
  const reply = await ask({ limits: { max_turns: 2 } });
  expect(reply).toMatchObject({
    status: "partial",
    stop_reason: "max_turns",
    output: { name: "Ada", age: 1 },
  });
  expect(calls().at(-1)).toEqual(["none", true]);
});

test("a repair has the rest of the time, also what an ordinary call leaves to the final one", async () => {
  const stage = await openStage({ scenario: { turns: [say("Ada"), say('{"name":"Ada","age":36}')] } });
  const { model, deadlinesMs } = recordingModel(stage.offline.url);
  await stage.startWorker({ model });
  const wish = { prompt: "Who is it?", output_schema: Person, limits: { max_duration_ms: 60_000 } };
  expect(await stage.parent().task(wish)).toMatchObject({ status: "succeeded", turns: 2 });
  const [ordinary = 0, repair = 0] = deadlinesMs;
  expect(deadlinesMs).toHaveLength(2);
  expect(repair - ordinary).toBeGreaterThan(5_000);
});

test("a provider that refuses the format is asked without it, under another idempotency key", async () => {
  const { ask, calls, stage } = await open({
    turns: [say("Ada"), { ...say('{"name":"Ada","age":36}'), failures: [{ status: 400 }] }],
  });
  expect((await ask()).output).toEqual({ name: "Ada", age: 36 });
  expect(calls().map(([, format]) => format)).toEqual([false, true, false]);
  const [, refused, plain] = stage.offline.ledger.map(({ idempotency_key }) => idempotency_key);
  expect(plain).toMatch(new RegExp(`^${refused}-[0-9a-f]{8}$`));
});

test("a schema whose pattern never ends neither stops the worker nor is paid for again", async () => {
  const { ask, calls, parent } = await open({
    turns: [say(JSON.stringify(`${"a".repeat(60)}!`))],
    repeat: true,
  });
  const evil = { type: "string", pattern: "^(a+)+$" };
  const [reply, other] = await Promise.all([
    ask({ output_schema: evil }),
    parent.task({ prompt: "Hello", name: "beside" }),
  ]);
  expect(reply).toMatchObject({ status: "partial", stop_reason: "invalid_output" });
  expect(reply.error).toContain("takes too long");
  expect(other.status).toBe("succeeded");
  expect(calls()).toHaveLength(2);
});

test("refinements that JSON Schema cannot say hold as well: what they refuse is partial, with the raw text", async () => {
  const { parent } = await open({ turns: [say('{"name":"Ada","age":36}')] });
  const Even = Person.refine(({ age }) => age % 2 === 1, "an odd age");
  const reply = await parent.task({ prompt: "Who is it?", output_schema: Even });
  expect(reply).toMatchObject({ status: "partial", stop_reason: "invalid_output" });
  expect(reply.summary).toContain("Ada");
});

test("functions of a zod schema may be async, and one that throws costs no reply", async () => {
  const { parent } = await open({ turns: [say('{"name":"Ada","age":36}')], repeat: true });
  const prompt = "Who is it?";
  const asked = Person.refine(async ({ age }) => age > 30, "an age above 30");
  const loud = Person.transform(async ({ name }) => name.toUpperCase());
  const broken = Person.transform((): string => {
    throw new TypeError("no such table");
  });
  const replies = await parent.taskAll([
    { prompt, output_schema: asked },
    { prompt, output_schema: Person.refine(async () => false, "never") },
    { prompt, output_schema: broken },
    { prompt },
  ]);
  expect(replies).toMatchObject([
    { status: "succeeded", output: { name: "Ada", age: 36 } },
    { status: "partial", stop_reason: "invalid_output", error: expect.stringMatching(/does not fit.*never/) },
    { status: "partial", stop_reason: "invalid_output", error: expect.stringMatching(/no such table/) },
    { status: "succeeded" },
  ]);
  expect(replies[2]?.summary).toContain("Ada");
  const heard = await parent.task({ prompt, output_schema: loud });
  expect(heard).toMatchObject({ status: "succeeded", output: "ADA" });
});

test.each([
  ["a reference out of it", { $ref: "https://example.org/person.json" }, /\$defs/],
  ["more than 32 KB", { type: "string", description: "x".repeat(33_000) }, /32 KB/],
  ["too many levels", nested(25), /deeper|flatter/],
  [
    "no type that there is",
    { type: "object", properties: { a: { type: "nonsense" } } },
    /"#\/properties\/a\/type"/,
  ],
  ["a reference to nothing", { $ref: "#/$defs/none" }, /"#\/\$defs\/none"/],
  ["a very long pattern", { type: "string", pattern: "a".repeat(1_001) }, /1000 characters/],
])("a schema with %s is refused before anything is done", async (_, output_schema, sentence) => {
  const { parent } = await open();
  await expect(parent.task({ prompt: "work", output_schema })).rejects.toMatchObject({
    code: "invalid_input",
    message: expect.stringMatching(sentence),
  });
  expect(await parent.list()).toEqual([]);
});

test("a zod schema that JSON cannot hold is refused", async () => {
  const { parent } = await open();
  const dates = parent.task({ prompt: "work", output_schema: z.object({ on: z.date() }) });
  await expect(dates).rejects.toMatchObject({ code: "invalid_input" });
});

test("the offline model fills any shape with what it found", async () => {
  const { parent } = await open();
  const Found = z.object({
    answer: z.string(),
    confidence: z.number().min(0.5).max(1),
    kind: z.enum(["fact", "guess"]),
    sources: z.array(z.object({ path: z.string() })).min(1),
  });
  const reply = await parent.task({ prompt: "Write something", output_schema: Found });
  if (reply.status !== "succeeded") throw reply;
  expect(Found.parse(reply.output).answer).toContain("no language model");
});

function nested(levels: number): Record<string, unknown> {
  return levels === 0 ? { type: "null" } : { type: "array", items: nested(levels - 1) };
}

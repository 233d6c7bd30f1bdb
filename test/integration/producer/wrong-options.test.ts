/** Guarantee: an option that a call does not know, or whose value has a wrong form, is refused in words, never ignored. */
import { describe, expect, test } from "vitest";
import { createParent, type Parent } from "../../../src/producer/parent.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";

type Calls = Record<string, (parent: Parent, options: never) => Promise<unknown>>;

const CALLS: Calls = {
  waitAny: (parent, options) => parent.waitAny(["a"], options),
  waitAll: (parent, options) => parent.waitAll(["a"], options),
  newReplies: (parent, options) => parent.newReplies(options),
  replies: (parent, options) => parent.replies(options).next(),
  events: (parent, options) => parent.events(options).next(),
  task: (parent, options) => parent.task("go", options),
  taskAll: (parent, options) => parent.taskAll(["go"], options),
  send: (parent, options) => parent.send("a", "go", options),
  answer: (parent, options) => parent.answer("a", "yes", options),
  resume: (parent, options) => parent.resume("a", "on", options),
  transcript: (parent, options) => parent.transcript("a", options),
  usage: (parent, options) => parent.usage(options),
  createParent: async (_, options) => createParent(options),
};
const WITH_SIGNAL = ["task", "taskAll", "waitAny", "waitAll", "newReplies", "replies", "events"];

/** Returns the error with which a call rejects. */
function refused(name: string, options: unknown): Promise<unknown> {
  const call = CALLS[name] ?? (() => Promise.resolve());
  return call(testParent(testClient()), options as never).then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe.for(Object.keys(CALLS))("%s", (name) => {
  test("refuses an option that it does not know", async () => {
    expect(await refused(name, { timeout: 100 })).toMatchObject(
      refusal("invalid_input", /refused, nothing was done: .*does not know "timeout"/),
    );
  });

  test("refuses options that are no object", async () => {
    for (const options of [null, 5, "text", ["timeout"]])
      expect(await refused(name, options)).toMatchObject({
        ...refusal("invalid_input", /refused, nothing was done: options: must be an object\.$/),
        details: { issues: [{ field: "options" }] },
      });
  });
});

test.for(WITH_SIGNAL)("%s refuses a signal that is none", async (name) => {
  for (const signal of [5, {}])
    expect(await refused(name, { signal })).toMatchObject(
      refusal("invalid_input", /signal: must be an AbortSignal\.$/),
    );
});

test("replies() refuses a follow that is no flag", async () => {
  expect(await refused("replies", { follow: "no" })).toMatchObject(
    refusal("invalid_input", /follow: must be true or false/),
  );
});

test("an option beside the prompt that no task knows is refused, and so is a date that is none", async () => {
  const parent = testParent(testClient());
  const input = { prompt: "go", waitForWorker: 5 };
  await expect(parent.task(input)).rejects.toMatchObject(
    refusal("invalid_input", /does not know "waitForWorker"/),
  );
  await expect(parent.usage({ since: "soon" })).rejects.toMatchObject(
    refusal("invalid_input", /since: must be a date, such as 2026-05-31\.$/),
  );
});

test("a call without the id of a sub-agent says so", async () => {
  const parent = testParent(testClient());
  const none = undefined as unknown as string;
  await expect(parent.destroy(none)).rejects.toMatchObject(
    refusal("unknown_agent", /^No sub-agent is named: use an agent_id/),
  );
});

test("a profile that disallows every tool that it names is not registered", async () => {
  const parent = testParent(testClient());
  const profile = { tools: ["Read"], disallowed_tools: ["Read"] };
  await expect(parent.register(profile)).rejects.toMatchObject(
    refusal("invalid_input", /^register refused, nothing was done: disallowed_tools has every one of tools/),
  );
});

/** What a hook after a call is told, and what it leaves behind. */
import { expect, test } from "vitest";
import { keepSecret } from "../../../../src/shared/secrets.ts";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { type Hook, hooksOf } from "../../../../src/worker/hooks/hooks.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const agent = { tenant: "default", parentId: "p", agentId: "a", uid: "sa-0", name: "A", run: 1 };

/** Makes a call between these hooks; its tool answers `content`. */
function calling(hooks: readonly Hook[], { content = "made", isError = false } = {}) {
  const clock = handClock();
  const stop = new StopSignal();
  const applied = hooksOf(hooks, { agent, named: [], permissions: [], clock });
  const call = { id: "1", name: "note", input: { line: "a" } };
  const outcome = applied?.around(call, async () => ({ content, isError, durationMs: 1 }), stop);
  return { clock, stop, outcome };
}

test("a hook after a call reads the input with which the call was made, and changes it for no hook after it", async () => {
  const read: unknown[] = [];
  const change: Hook = { name: "change", preToolUse: () => ({ input: { line: "b" } }) };
  const audit = (name: string): Hook => ({
    name,
    postToolUse({ input }) {
      read.push({ ...Object(input) });
      Object.assign(Object(input), { line: "hidden" });
      return undefined;
    },
  });
  await calling([change, audit("one"), audit("two")]).outcome;
  expect(read).toEqual([{ line: "b" }, { line: "b" }]);
});

test("a word to a call that failed keeps it a failure, and a long one is cut like any result", async () => {
  const word: Hook = { name: "word", postToolUse: () => ({ context: "seen" }) };
  expect(await calling([word], { content: "no", isError: true }).outcome).toEqual({
    content: "no\n\n[word: seen]",
    isError: true,
    durationMs: 1,
  });
  const long: Hook = { name: "long", postToolUse: () => ({ content: "x".repeat(60_000) }) };
  const cut = await calling([long]).outcome;
  expect([...(cut?.content ?? "")].length).toBeLessThanOrEqual(50_000);
});

test("what a hook says to the model names no secret, be it a word or a reason", async () => {
  keepSecret("hunter2-hunter2-hunter2");
  const said = { context: "it is hunter2-hunter2-hunter2" };
  const word = await calling([{ name: "word", postToolUse: () => said }]).outcome;
  const block = { block: "it is hunter2-hunter2-hunter2" };
  const reason = await calling([{ name: "no", postToolUse: () => block }]).outcome;
  expect([word?.content, reason?.content].join()).not.toContain("hunter2");
  expect(reason).toMatchObject({ isError: true, content: expect.stringContaining("withheld") });
});

test("a hook that is late is told so by its signal; one that answers leaves neither timer nor listener", async () => {
  let signal: AbortSignal | undefined;
  const late: Hook = {
    name: "late",
    postToolUse(_, given) {
      signal = given;
      return new Promise(() => {});
    },
  };
  const { clock, outcome } = calling([late]);
  for (let turns = 0; !signal && turns < 10; turns += 1) await Promise.resolve();
  clock.advance(10_000);
  expect(await outcome).toMatchObject({ isError: true });
  expect([signal?.aborted, clock.pending]).toEqual([true, 0]);
  let other: AbortSignal | undefined;
  const prompt: Hook = {
    name: "prompt",
    postToolUse(_, given) {
      other = given;
      return {};
    },
  };
  const answered = calling([prompt]);
  await answered.outcome;
  answered.stop.stop();
  expect([other?.aborted, answered.clock.pending]).toEqual([false, 0]);
});

test("a run that was stopped calls no hook any more", async () => {
  let calls = 0;
  const count: Hook = { name: "count", postToolUse: () => ({ context: `${++calls}` }) };
  const applied = hooksOf([count], { agent, named: [], permissions: [], clock: handClock() });
  const stop = new StopSignal();
  const perform = async () => {
    stop.stop();
    return { content: "made", isError: false, durationMs: 1 };
  };
  const outcome = await applied?.around({ id: "1", name: "note", input: {} }, perform, stop);
  expect([outcome?.isError, calls]).toEqual([true, 0]);
});

/** Hooks get copies, and whatever they answer that is no verdict blocks. */
import { expect, test } from "vitest";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { type Hook, hooksOf } from "../../../../src/worker/hooks/hooks.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const call = { id: "1", name: "note", input: { line: "a" } };

/** These hooks of one agent, and the inputs with which its tool is called. */
function hooked(hooks: readonly Hook[]) {
  const agent = { tenant: "default", parentId: "p", agentId: "a", uid: "sa-0", name: "A", run: 1 };
  const applied = hooksOf(hooks, { agent, named: [], permissions: [], clock: handClock() });
  if (!applied) throw new Error("no hook applies");
  const inputs: unknown[] = [];
  const perform = async (input: unknown) => {
    inputs.push(input);
    return { content: "secret", isError: false, durationMs: 1 };
  };
  return { applied, inputs, outcome: () => applied.around(call, perform, new StopSignal()) };
}

test("a content that is no text withholds the result, because it was meant to replace it", async () => {
  for (const content of [null, 5, { text: "redacted" }, ["redacted"]]) {
    const redact: Hook = { name: "redact", postToolUse: () => JSON.parse(JSON.stringify({ content })) };
    const { content: shown, isError } = await hooked([redact]).outcome();
    expect([shown, isError]).toEqual([expect.stringContaining("no verdict"), true]);
    expect(shown).not.toContain("secret");
  }
});

test("an input that is no object blocks the call, and so does one that cannot be copied", async () => {
  const answers: unknown[] = [null, "b", ["b"], new Map(), { line: () => "b" }, new Proxy({ line: "b" }, {})];
  answers.push(Object.defineProperty({}, "line", { enumerable: true, get: () => JSON.parse("{") }));
  for (const input of answers) {
    const change: Hook = { name: "change", preToolUse: () => Object({ input }) };
    const { outcome, inputs } = hooked([change]);
    expect(await outcome()).toMatchObject({ isError: true, isDenied: true });
    expect(inputs).toEqual([]);
  }
});

test("an input that a hook changes after it has answered is the one that it answered", async () => {
  const kept = { line: "b" };
  const change: Hook = { name: "change", preToolUse: () => ({ input: kept }) };
  const later: Hook = {
    name: "later",
    preToolUse() {
      kept.line = "hidden";
      return undefined;
    },
  };
  const { outcome, inputs } = hooked([change, later]);
  await outcome();
  expect(inputs).toEqual([{ line: "b" }]);
});

test("a hook changes neither the agent nor the messages that others are told", async () => {
  const seen: unknown[] = [];
  const look: Hook = {
    name: "look",
    preToolUse({ agent }) {
      seen.push(agent.tenant);
      agent.tenant = "other";
      return undefined;
    },
    postToolUse({ agent }) {
      seen.push(agent.tenant);
      agent.tenant = "other";
      return undefined;
    },
    subagentStart({ messages }) {
      seen.push([...messages]);
      Object.assign(messages, ["hidden"]);
      return undefined;
    },
  };
  const { applied, outcome } = hooked([look, { ...look, name: "again" }]);
  await outcome();
  const messages = ["one"];
  await applied.start(messages, new StopSignal());
  expect(seen).toEqual(["default", "default", "default", "default", ["one"], ["one"]]);
  expect(messages).toEqual(["one"]);
});

test("a verdict with a member that means nothing where its hook is called blocks: what it says would be lost", async () => {
  const refused = /no member of a verdict/;
  const before = hooked([{ name: "before", preToolUse: () => Object({ content: "redacted" }) }]);
  expect(await before.outcome()).toMatchObject({ isDenied: true, content: expect.stringMatching(refused) });
  const after = hooked([{ name: "after", postToolUse: () => Object({ input: {} }) }]);
  expect(await after.outcome()).toMatchObject({ isError: true, content: expect.stringMatching(refused) });
  const start = hooked([{ name: "start", subagentStart: () => Object({ input: {} }) }]);
  expect(await start.applied.start([], new StopSignal())).toEqual({ block: expect.stringMatching(refused) });
  const end = { status: "completed", stopReason: "end_turn", summary: "Done." };
  const stop = hooked([{ name: "stop", subagentStop: () => Object({ content: "redacted" }) }]);
  expect(await stop.applied.stop(end, new StopSignal())).toMatch(refused);
  const silent = hooked([{ name: "silent", preToolUse: () => Object({ content: undefined }) }]);
  expect(await silent.outcome()).toMatchObject({ content: "secret" });
});

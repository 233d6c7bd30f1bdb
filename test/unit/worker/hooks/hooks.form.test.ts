/** What a hook, and the answer of a hook, must look like. */
import { expect, test } from "vitest";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { type Hook, hookProblems, hooksOf } from "../../../../src/worker/hooks/hooks.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const agent = { tenant: "default", parentId: "p", agentId: "a", uid: "sa-0", name: "A", run: 1 };

test("two hooks of one name are a problem, told once", () => {
  const hook = (name: string): Hook => ({ name, preToolUse: () => undefined });
  expect(hookProblems([hook("log"), hook("audit"), hook("log")])).toEqual(["two hooks are named log"]);
});

test.for([{ context: 5 }, { block: 5 }])("a verdict whose words are no text blocks: %o", async (said) => {
  const hook = { name: "odd", preToolUse: () => said } as unknown as Hook;
  const hooks = hooksOf([hook], { agent, named: [], permissions: [], clock: handClock() });
  const before = await hooks?.before({ id: "1", name: "note", input: {} }, new StopSignal());
  expect(before?.block).toBe("Blocked by odd: it answered with something that is no verdict");
});

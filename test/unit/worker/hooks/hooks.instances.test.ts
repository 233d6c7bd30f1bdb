/** Guarantee: an answer of a hook whose reason could not be read blocks, and lets nothing go on. */
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { type Hook, hooksOf } from "../../../../src/worker/hooks/hooks.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const agent = { tenant: "default", parentId: "p", agentId: "a", uid: "sa-0", name: "A", run: 1 };

async function blockedBy(said: unknown): Promise<string | undefined> {
  const hook = { name: "odd", preToolUse: () => said } as unknown as Hook;
  const hooks = hooksOf([hook], { agent, named: [], permissions: [], clock: handClock() });
  return (await hooks?.before({ id: "1", name: "note", input: {} }, new StopSignal()))?.block;
}

class Denied {
  get block() {
    return "denied";
  }
}

test.for([
  ["an error that is returned, not thrown", new Error("denied")],
  ["a map", new Map([["block", "denied"]])],
  ["an instance with a getter", new Denied()],
] as const)("%s is no verdict", async ([, said]) => {
  expect(await blockedBy(said)).toBe("Blocked by odd: it answered with something that is no verdict");
});

test("plain objects of other realms and without a prototype are verdicts", async () => {
  expect(await blockedBy(runInNewContext('({ block: "denied" })'))).toBe("Blocked by odd: denied");
  expect(await blockedBy(Object.assign(Object.create(null), { context: "seen" }))).toBeUndefined();
});

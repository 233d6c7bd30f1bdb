/** Guarantee: a hook whose answer is no verdict blocks; it is never taken for one that lets the call proceed. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { StopSignal } from "../../../src/shared/stop-signal.ts";
import { type Hook, hooksOf } from "../../../src/worker/hooks/hooks.ts";

const agent = { tenant: "default", parentId: "p", agentId: "a", uid: "sa-0", name: "A", run: 1 };

/** Makes a call behind a hook that answers `said`. */
async function callBehind(said: unknown) {
  const hook = { name: "guard", preToolUse: () => said } as Hook;
  const hooks = hooksOf([hook], { agent, named: [], permissions: [], clock: systemClock });
  let performed = 0;
  const outcome = await hooks?.around(
    { id: "1", name: "bash", input: {} },
    async () => {
      performed += 1;
      return { content: "done", isError: false, durationMs: 0 };
    },
    new StopSignal(),
  );
  return { performed, content: outcome?.content };
}

test.for<[string, unknown, RegExp]>([
  ["in the words of another product", { decision: "block", reason: "no" }, /answered with "decision"/],
  ["misspelt", { Block: "no" }, /answered with "Block"/],
  ["beside a member that a verdict has", { context: "so", deny: true }, /answered with "deny"/],
  ["a list", ["block"], /no verdict/],
  ["a text", "block", /no verdict/],
  ["a truth", false, /no verdict/],
  ["with a block that is no text", { block: true }, /no verdict/],
])("an answer %s blocks", async ([, said, why]) => {
  expect(await callBehind(said)).toEqual({ performed: 0, content: expect.stringMatching(why) });
});

test.for([undefined, null, {}, { context: undefined }, { block: undefined }])(
  "%j lets the call proceed",
  async (said) => {
    expect(await callBehind(said)).toEqual({ performed: 1, content: "done" });
  },
);

/** Guarantee: what a provider has signed goes back whole or not at all, whatever its kind. */
import { expect, test } from "vitest";
import { ZERO_USAGE } from "../../../../src/shared/protocol/content.ts";
import { keepSecret } from "../../../../src/shared/secrets.ts";
import { redactedAnswer } from "../../../../src/worker/run/call-model.ts";

const KEY = "sk-live-5b1c9f2e7a3d";
keepSecret(KEY);

test("a signed block of an unknown kind that holds a secret is left out", () => {
  const said = { type: "text", text: "Done." };
  const content = [{ type: "plan", plan: `Use ${KEY}.`, signature: "of the plan" }, said];
  const answer = { content, contentJson: JSON.stringify(content), stopReason: "end_turn", model: "claude" };
  const shown = redactedAnswer({ ...answer, refusedCalls: new Map(), usage: ZERO_USAGE });
  expect(shown.content).toEqual([said]);
  expect(shown.contentJson).toBe(JSON.stringify([said]));
});

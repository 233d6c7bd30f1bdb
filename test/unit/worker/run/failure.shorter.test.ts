/** Guarantee: a conversation is made shorter because it is too long, and not because a call failed otherwise. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import type { ModelFailure } from "../../../../src/worker/model/model.ts";
import type { RunContext } from "../../../../src/worker/run/context.ts";
import { afterModelFailure } from "../../../../src/worker/run/failure.ts";
import type { Session } from "../../../../src/worker/run/session.ts";
import { asked, call, rules, text } from "../loop/story.ts";

const LONG = "a long word ".repeat(50);

/** What follows on a call that failed so, in a conversation with results that could be left out. */
async function stepAfter(kind: ModelFailure["kind"]) {
  const state = asked().asks(text("I look."), call("c1", "page")).result("c1", LONG).log();
  const failed = next(state, rules());
  if (failed.do !== "call_model") throw new Error(failed.do);
  const context = {
    random: () => 0,
    logger: createLogger({ level: "silent" }),
    store: { timing: TIMING },
  } as unknown as RunContext;
  const session = {
    ...{ state, rules: rules(), attempts: 0, address: { uid: "sa-1" }, model: "m", tell: () => {} },
    ...{ equipment: { models: ["m"], outputFormat: "" }, lease: { rest: async () => {} } },
  } as unknown as Session;
  await afterModelFailure(context, session, failed, { kind, retryable: true, message: "no" }, "own");
  return next(state, rules()).do;
}

test("a call that was too long is followed by a shorter one", async () => {
  expect(await stepAfter("context_window")).toBe("clear");
});

test.each(["server_error", "overloaded", "network"] as const)(
  "a call that failed by %s is made again as it was",
  async (kind) => {
    expect(await stepAfter(kind)).toBe("call_model");
  },
);

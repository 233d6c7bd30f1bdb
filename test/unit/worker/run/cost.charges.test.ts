/** Guarantee: each call that a run has paid for is charged under a name of its own, also several tries of one call. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { ZERO_USAGE } from "../../../../src/shared/protocol/content.ts";
import type { AgentStore } from "../../../../src/shared/redis/agent-store.ts";
import { newPurchase } from "../../../../src/worker/loop/log.ts";
import { chargeUnbooked } from "../../../../src/worker/run/cost.ts";
import { NextPurchase } from "../../../../src/worker/run/purchase.ts";
import type { Session } from "../../../../src/worker/run/session.ts";

const tried = (nth: number) =>
  newPurchase(1, 7, nth, { v: 1, usage: { ...ZERO_USAGE, input_tokens: nth + 1 }, cost_usd: nth + 1 });

test("a try that no commit has and an earlier one that Redis has forgotten are charged beside each other", async () => {
  const purchase = new NextPurchase("sa-1", "claim", 7);
  purchase.committed([tried(0)]);
  const charged: Record<string, number> = {};
  const charge: AgentStore["charge"] = async (_agent, { purchase_id, bought }) => {
    charged[purchase_id] ??= bought.cost_usd;
    return { status: "charged" };
  };
  const context = { store: { charge } as AgentStore, logger: createLogger({ level: "silent" }) };
  const session = { address: { uid: "sa-1" }, unbooked: [tried(1)], purchase } as unknown as Session;
  await chargeUnbooked(context, session, false);
  expect(charged).toEqual({ "sa-1.claim": 2, [`sa-1.claim/${tried(0).key}`]: 1 });
});

/** Guarantee: however many spawn at once, and whatever answers get lost, a parent has ten agents at most, and one a key. */
import { expect, test } from "vitest";
import type { SpawnReceipt } from "../../src/producer/spawn.ts";
import { SubagentError } from "../../src/shared/errors.ts";
import { started, testParent } from "../helpers/parents.ts";
import { openStage } from "../stage/stage.ts";
import { insist } from "./insist.ts";

const CONNECTIONS = 50;
const CALLS = 1_000;
/** Of the reads from Redis; one may bring the answers of many calls. */
const SWALLOW_EVERY = 10;
const FEWEST_SWALLOWED = 10;

/** One parent at fifty connections, all through a proxy that loses replies once `storm` begins. */
async function openScene() {
  const stage = await openStage({ redis: "own", redisArguments: [], proxied: true });
  const { proxy, server } = stage;
  const clients = Array.from({ length: CONNECTIONS }, () => stage.client());
  const parents = clients.map((client) => testParent(client));
  await Promise.all(clients.map(started));
  const onlooker = testParent(stage.client({ redisUrl: server.url }));
  let repeated = 0;
  /** All calls at once; each insists on an outcome. */
  const storm = async (keyOf: (call: number) => string) => {
    proxy.swallowEveryNthReply(SWALLOW_EVERY);
    const calls = Array.from({ length: CALLS }, (_, call) => {
      const parent = parents[call % CONNECTIONS] ?? onlooker;
      const spawn = () => parent.spawn({ name: "racer", request_key: keyOf(call) });
      return insist(spawn, () => {
        repeated += 1;
      });
    });
    const outcomes = await Promise.allSettled(calls);
    proxy.swallowEveryNthReply(undefined);
    process.stdout.write(
      `${CALLS} spawns, ${proxy.counts.swallowed} replies swallowed, ${repeated} repeated\n`,
    );
    expect(proxy.counts.swallowed).toBeGreaterThanOrEqual(FEWEST_SWALLOWED);
    return outcomes;
  };
  return { onlooker, storm };
}

const receiptsOf = (outcomes: readonly PromiseSettledResult<SpawnReceipt>[]) =>
  outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
const refusalsOf = (outcomes: readonly PromiseSettledResult<SpawnReceipt>[]) =>
  outcomes.flatMap(({ status, ...outcome }) => {
    if (status === "fulfilled" || !("reason" in outcome)) return [];
    return [outcome.reason instanceof SubagentError ? outcome.reason.code : String(outcome.reason)];
  });

test("of 1,000 spawns at once over fifty connections that lose answers exactly ten are admitted", async () => {
  const { onlooker, storm } = await openScene();
  const outcomes = await storm((call) => `key-${call}`);
  const receipts = receiptsOf(outcomes);
  expect(new Set(receipts.map(({ agent_id }) => agent_id)).size).toBe(10);
  expect(receipts).toHaveLength(10);
  const refusals = refusalsOf(outcomes);
  expect(new Set(refusals)).toEqual(new Set(["quota_exceeded"]));
  expect(refusals).toHaveLength(CALLS - 10);
  const live = await onlooker.list();
  expect(live.map(({ agent_id }) => agent_id).sort()).toEqual(receipts.map((r) => r.agent_id).sort());
  for (const { agent_id } of live) await onlooker.destroy(agent_id);
  expect((await onlooker.spawn({ name: "next" })).agent_id).toBe("next");
});

test("1,000 spawns with one request key make one agent and get one answer", async () => {
  const { onlooker, storm } = await openScene();
  const outcomes = await storm(() => "the-only-key");
  expect(refusalsOf(outcomes)).toEqual([]);
  const receipts = receiptsOf(outcomes);
  expect(receipts).toHaveLength(CALLS);
  // One call spawned it, and all others knew of it; that one as well, if its answer was swallowed and it asked again.
  expect(receipts.filter(({ known }) => !known).length).toBeLessThanOrEqual(1);
  const answers = receipts.map((receipt) => JSON.stringify({ ...receipt, known: true }));
  expect(new Set(answers).size).toBe(1);
  expect(await onlooker.list()).toHaveLength(1);
});

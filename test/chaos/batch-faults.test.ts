/** Guarantee: a batch of tasks that Redis refuses in its midst says what was begun, so that nothing needs to be bought twice. */
import { expect, test } from "vitest";
import { agentOf } from "../../src/shared/protocol/keys.ts";
import { openFaultLine } from "../helpers/fault-line.ts";
import { refusal, testClient, testParent } from "../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { scriptedWorker } from "../helpers/scripted-worker.ts";
import { until } from "../helpers/until.ts";

const address = { tenant: "default", parentId: "planner-7" };
const MAX_LIVE = 10;

/** A parent for whose spawn after the first ten Redis has no memory left. */
async function scene() {
  const prefix = uniquePrefix();
  const worker = scriptedWorker(redisUrl(), prefix, address);
  const { record } = worker.store.keys.agent(agentOf(address, ""));
  const agents = new Set<string>();
  const line = await openFaultLine(Number(new URL(redisUrl()).port), ([name = "", , , key = ""]) => {
    const isSpawn = /^eval/i.test(name) && key.startsWith(record) && !agents.has(key);
    if (isSpawn) agents.add(key);
    return isSpawn && agents.size === MAX_LIVE + 1 ? "refused" : "passes";
  });
  const unacked = () => worker.redis.xlen(worker.store.keys.parent(address).replies);
  return { parent: testParent(testClient({ prefix, redisUrl: line })), worker, unacked };
}

test("a batch that Redis refuses in its midst says which task did not begin, which did, and that those are not to be repeated", async () => {
  const { parent, worker, unacked } = await scene();
  const all = parent.taskAll([...Array.from({ length: MAX_LIVE }, (_, i) => `prompt ${i}`), "refused"]);
  all.catch(() => {});
  await until(async () => (await worker.queued()).length === MAX_LIVE);
  for (const agent of (await worker.queued()).slice(0, 1)) await worker.run(agent);
  const error: unknown = await all.catch((reason: unknown) => reason);
  expect(error).toMatchObject({
    ...refusal("redis_unavailable", /^inputs\[10\]: Redis has no memory left .* nothing was done; /),
    message: expect.stringMatching(
      / 1 have replies \(details.replies\), and 9 go on, .*: leave both out of another call\.$/,
    ),
    details: { index: 10, replies: [{ status: "succeeded" }] },
  });
  for (const agent of await worker.queued()) await worker.run(agent);
  expect(await unacked()).toBe(9);
});

/** Guarantee: a part of Redis that refuses writes keeps a sweeper from no agent of another part. */
import { expect, test } from "vitest";
import { openFaultLine } from "../../helpers/fault-line.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { isCallOf } from "../../helpers/redis-commands.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const isSettle = isCallOf("settle");

test("an end that Redis refuses comes again, and other agents end meanwhile", async () => {
  const installation = await openStage();
  const stuck = await installation.spawn({ idle_ms: 1 });
  let refused = 0;
  let isOver = false;
  // As from a master of a cluster whose disk is full, or whose replica restarts: the others take writes.
  const url = await openFaultLine(Number(new URL(redisUrl()).port), (words) => {
    if (isOver || !isSettle(words) || !words.includes(installation.keys.agent(stuck).record)) return "passes";
    refused += 1;
    return "refused";
  });
  await installation.startWorker({ redisUrl: url });
  await until(() => refused > 0);
  const other = await installation.spawn({ idle_ms: 1 });
  await installation.recordWhere(other, ({ status }) => status === "ended");
  expect(await installation.record(stuck)).toMatchObject({ status: "idle" });
  isOver = true;
  await installation.recordWhere(stuck, ({ status }) => status === "ended");
});

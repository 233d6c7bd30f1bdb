/** What the ack of one entry says if Redis carries it out and its answer is lost. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { type CommandFault, openFaultLine } from "../../helpers/fault-line.ts";
import { started } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("it names that entry, and does not speak of several", async () => {
  const stage = await openStage({ redis: "own" });
  await stage.startWorker();
  let isLost = false;
  const decide = (words: readonly string[]): CommandFault =>
    isLost && words.some((word) => word.includes(":ack:")) && !/^exists$/i.test(words[0] ?? "")
      ? "cut after"
      : "passes";
  const redisUrl = await openFaultLine(Number(new URL(stage.server.url).port), decide);
  const api = await startApi({ client: await started(stage.client({ redisUrl })) });
  await api.ask("POST", "/v1/parents/planner-7/tasks", { body: { prompt: "one" } });
  const [entry] = await until(async () => {
    const entries = await stage.channel("planner-7");
    return entries.length === 1 && entries;
  });
  isLost = true;
  const reply_ids = [entry?.reply_id];
  const refused = await api.ask("POST", "/v1/parents/planner-7/replies/ack", { body: { reply_ids } });
  expect(refused).toMatchObject({
    status: 503,
    body: { code: "outcome_unknown", details: expect.anything() },
  });
  expect(JSON.stringify(refused.body.details)).toContain(entry?.reply_id);
});

/** What an ack of several entries says when Redis carries out only some of it. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { type CommandFault, openFaultLine } from "../../helpers/fault-line.ts";
import { started } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const PARENT = "planner-7";

test.each([
  ["the first", "refused", 0],
  ["the second", "refused", 1],
] as const)(
  "an ack of which Redis refuses %s entry alone does not say that nothing was done",
  async (_, fault, at) => {
    const stage = await openStage({ redis: "own" });
    await stage.startWorker();
    let acks: number | undefined;
    const decide = (words: readonly string[]): CommandFault => {
      if (acks === undefined || !words.some((word) => word.includes(":ack:"))) return "passes";
      return acks++ === at ? fault : "passes";
    };
    const redisUrl = await openFaultLine(Number(new URL(stage.server.url).port), decide);
    const api = await startApi({ client: await started(stage.client({ redisUrl })) });
    for (const prompt of ["one", "two"])
      expect((await api.ask("POST", `/v1/parents/${PARENT}/tasks`, { body: { prompt } })).status).toBe(202);
    const unacked = async () => (await stage.channel(PARENT)).map(({ reply_id }) => reply_id);
    const reply_ids = await until(async () => {
      const ids = await unacked();
      return ids.length === 2 && ids;
    });
    const ack = () => api.ask("POST", `/v1/parents/${PARENT}/replies/ack`, { body: { reply_ids } });
    acks = 0;
    const refused = await ack();
    acks = undefined;
    expect(refused).toMatchObject({ status: 503, body: { code: "outcome_unknown", retryable: true } });
    expect(refused.body.detail).not.toMatch(/nothing was done/);
    const left = await unacked();
    expect(left).toHaveLength(1);
    expect((await ack()).body).toEqual({
      acked: left,
      already: reply_ids.filter((id) => !left.includes(id)),
    });
    expect(await unacked()).toEqual([]);
  },
);

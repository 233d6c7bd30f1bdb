/** Guarantee: a threshold that was crossed before a run was handed back is not told once more by the next holder. */
import { expect, test } from "vitest";
import type { ProgressEvent } from "../../../src/shared/protocol/reply.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { parseMessage } from "../../../src/shared/redis/events.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("an alert that was told before a question is not told again after its answer", async () => {
  const ask = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which colour?" } };
  const say = { type: "text" as const, text: "done" };
  const stage = await openStage({ scenario: { turns: [{ content: [ask] }, { content: [say] }] } });
  const agent = await stage.spawn({ alerts: { turns: 1 }, answer_ms: 3_600_000 });
  const subscriber = openRedis(redisUrl(), "subscriber");
  closeAtEnd(() => closeRedis(subscriber));
  const events: ProgressEvent[] = [];
  subscriber.on("message", (_channel, message: string) => {
    events.push(...parseMessage(message).events);
  });
  await subscriber.subscribe(stage.keys.parent(agent).events);
  await stage.watch(agent);
  await stage.startWorker();
  await stage.send(agent, "work");
  await stage.recordWhere(agent, ({ status }) => status === "waiting");
  const parent = testParent(testClient({ prefix: stage.prefix }), { parentId: agent.parentId });
  await parent.answer(agent.agentId, "green");
  await until(() => events.some(({ type }) => type === "ended"));
  const alerts = events.flatMap((event) => (event.type === "alert" ? [[event.turn, event.alert.kind]] : []));
  expect(alerts).toEqual([[1, "turns"]]);
});

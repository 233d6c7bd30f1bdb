/** Guarantee: a threshold that is crossed is told once, when it is crossed, and stands in the reply. */
import { expect, test } from "vitest";
import type { ProgressEvent } from "../../../src/shared/protocol/reply.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { parseMessage } from "../../../src/shared/redis/events.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("thresholds on turns and tool calls send one alert each, in the turn that crosses them", async () => {
  const call = (pattern: string) => ({ type: "tool_use" as const, name: "glob", input: { pattern } });
  const installation = await openStage({
    scenario: {
      turns: [
        { content: [call("a"), call("b")] },
        { content: [call("c"), call("d")] },
        { content: [call("e")] },
        { content: [{ type: "text", text: "done" }] },
      ],
    },
  });
  const agent = await installation.spawn({ alerts: { turns: 2, tool_calls: 3 } });
  const subscriber = openRedis(redisUrl(), "subscriber");
  closeAtEnd(() => closeRedis(subscriber));
  const events: ProgressEvent[] = [];
  subscriber.on("message", (_channel, message: string) => {
    events.push(...parseMessage(message).events);
  });
  await subscriber.subscribe(installation.keys.parent(agent).events);
  await installation.watch(agent);
  await installation.startWorker();
  await installation.send(agent, "work");
  const reply = await installation.reply(agent);
  await until(() => events.some(({ type }) => type === "ended"));
  const alerts = events.flatMap((event) => (event.type === "alert" ? [[event.turn, event.alert.kind]] : []));
  expect(alerts).toEqual([
    [2, "turns"],
    [2, "tool_calls"],
  ]);
  expect(reply.alerts).toMatchObject([
    { kind: "turns", threshold: 2, value: 4 },
    { kind: "tool_calls", threshold: 3, value: 5 },
  ]);
  const told = events.map(({ type }) => type).filter((type) => type !== "text_delta" && type !== "alert");
  expect(told.slice(0, 6)).toEqual([
    "run_started",
    "turn_started",
    "turn_finished",
    "tool_started",
    "tool_started",
    "tool_finished",
  ]);
});

import { expect, test } from "vitest";
import type { ProgressEvent } from "../../../src/shared/protocol/event.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection.ts";
import { eventPublisher, parseEvent } from "../../../src/shared/redis/event-channel.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { verbRig } from "./rig.ts";

test("what one worker publishes of a run arrives in its order", async () => {
  const rig = verbRig();
  const subscriber = openRedis(redisUrl(), "subscriber");
  closeAtEnd(() => closeRedis(subscriber));
  const turns: number[] = [];
  subscriber.on("message", (_channel, message: string) => turns.push(parseEvent(message)?.turn ?? 0));
  await subscriber.subscribe(rig.keys.parent(rig.parent).events);
  const publish = eventPublisher(rig.redis, rig.keys);
  const published = Array.from({ length: 2_000 }, (_, i) => i + 1);
  const event = { v: 1, type: "text_delta", agent_id: "a", name: "A", run: 1, text: "half" } as const;
  await rig.redis.ping();
  for (const turn of published) publish(rig.parent, { ...event, turn } satisfies ProgressEvent);
  await until(() => turns.length === published.length, { what: "all events" });
  expect(turns).toEqual(published);
});

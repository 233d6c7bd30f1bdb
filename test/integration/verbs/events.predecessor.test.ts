/** Guarantee: a told line names the number right before it, so a reader that has that one has missed nothing. */
import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { renewWatching } from "../../../src/shared/redis/events.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { verbRig } from "./rig.ts";

test("each of several lines is told with the number of the line before it, whatever is older", async () => {
  const rig = verbRig();
  const subscriber = openRedis(redisUrl(), "subscriber");
  closeAtEnd(() => closeRedis(subscriber));
  const told: { n: string; p: string }[] = [];
  subscriber.on("message", (_channel, message: string) => told.push(JSON.parse(message)));
  await subscriber.subscribe(rig.keys.parent(rig.parent).events);
  const { agent, epoch } = await rig.running();
  await renewWatching(rig.redis, rig.keys, rig.parent);
  for (const n of [1, 2, 3]) {
    const line = { entries: [[`${n}`, "{}"]] as const, events: `{"type":"turn_started","turn":${n}}` };
    await rig.store.append(agent, { epoch, known: 0, running_ms: 1, ...line });
  }
  await until(() => told.length === 3, { what: "the lines" });
  expect(told.map(({ p }) => p)).toEqual(["0", told[0]?.n, told[1]?.n]);
});

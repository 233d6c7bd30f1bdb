/** Guarantee: an idle worker finds its work by itself, and does not storm a Redis that refuses it something. */
import { expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const scenario = { turns: [{ content: [{ type: "text" as const, text: "done" }] }] };

test("an idle worker looks for wakes every second without being told", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({ redis: server, scenario });
  const waits: string[] = [];
  const monitor = await openMonitor(server.url, (_at, [command = "", , seconds = ""]) => {
    if (/^bzpopmin$/i.test(command)) waits.push(seconds);
  });
  closeAtEnd(monitor.stop);
  await installation.startWorker();
  await until(() => waits.length > 0);
  expect(Number(waits[0])).toBeGreaterThan(0);
  expect(Number(waits[0])).toBeLessThanOrEqual(1);
});

test("a worker that Redis refuses the next wake says so, rests, and goes on when it may again", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({ redis: server, scenario });
  const { redis } = installation;
  await redis.acl("SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all");
  const worker = await installation.startWorker({ redisUrl: server.url.replace("//", "//worker:secret@") });
  await redis.acl("SETUSER", "worker", "-bzpopmin");
  const refused = "no wakes are taken: Redis has refused something";
  await until(async () => (await worker.readiness()).reasons.includes(refused));
  await redis.acl("SETUSER", "worker", "+bzpopmin");
  const agent = await installation.task("work");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
});

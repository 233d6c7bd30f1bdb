import { expect, test } from "vitest";
import type { ProgressEvent } from "../../../src/shared/protocol/reply.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import {
  eventPublisher,
  parseMessage,
  readEvents,
  readTimeline,
  watchEvents,
} from "../../../src/shared/redis/events.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { DESTROY, handedBack, questionsOf, type Rig, verbRig } from "./rig.ts";

test("what one worker publishes of a run arrives in its order", async () => {
  const rig = verbRig();
  const subscriber = openRedis(redisUrl(), "subscriber");
  closeAtEnd(() => closeRedis(subscriber));
  const turns: number[] = [];
  subscriber.on("message", (_channel, message: string) =>
    turns.push(parseMessage(message).events[0]?.turn ?? 0),
  );
  await subscriber.subscribe(rig.keys.parent(rig.parent).events);
  const publish = eventPublisher(rig.redis, rig.keys);
  const published = Array.from({ length: 2_000 }, (_, i) => i + 1);
  const event = { v: 1, type: "text_delta", agent_id: "a", name: "A", run: 1, text: "half" } as const;
  await rig.redis.ping();
  for (const turn of published) publish(rig.parent, { ...event, turn } satisfies ProgressEvent);
  await until(() => turns.length === published.length, { what: "all events" });
  expect(turns).toEqual(published);
});

const turn = (n: number) => `{"type":"turn_started","turn":${n}}`;
const typesIn = (lines: Awaited<ReturnType<typeof readTimeline>>) =>
  lines.flatMap(({ events }) => events.map(({ type, run }) => `${run} ${type}`));

/** A run that is claimed, takes two turns, is handed back, claimed again, asks, and ends. */
async function runWithEvents(rig: Rig) {
  const agent = await rig.queued();
  const claim = (claim_id: string) =>
    rig.store.claim(agent, {
      claim_id,
      worker: "w",
      events: '{"type":"run_started","turn":0,"max_turns":3,"worker":"w"}',
    });
  const first = await claim("c-1");
  const epoch = first.status === "claimed" ? first.epoch : 0;
  await rig.readFirst(agent, epoch, { events: `${turn(1)},${turn(2)}` });
  await rig.store.release(agent, {
    epoch,
    delay_ms: 0,
    running_ms: 1,
    attempts: 0,
    events: '{"type":"released","turn":0,"reason":"drain"}',
  });
  const second = await claim("c-2");
  const again = second.status === "claimed" ? second.epoch : 0;
  const asked = { ...questionsOf(again), events: '{"type":"waiting","turn":2,"question":"a?"}' };
  await rig.store.ask(agent, asked);
  await rig.store.settle(agent, DESTROY);
  return agent;
}

test("each verb of a run leaves its line in the timeline and its number in the parent's history", async () => {
  const rig = verbRig();
  const agent = await runWithEvents(rig);
  const lines = await readTimeline(rig.redis, rig.keys, agent);
  const types = [
    "run_started",
    "turn_started",
    "turn_started",
    "released",
    "run_started",
    "waiting",
    "ended",
  ];
  expect(typesIn(lines)).toEqual(types.map((type) => `1 ${type}`));
  expect(lines.at(-1)?.events).toEqual([
    {
      v: 1,
      agent_id: "researcher",
      name: "Researcher",
      run: 1,
      turn: 0,
      type: "ended",
      status: "cancelled",
      stop_reason: "destroyed",
    },
  ]);
  expect(await readEvents(rig.redis, rig.keys, rig.parent, "0", 100)).toEqual(lines);
  const [, second, third] = lines;
  expect(await readEvents(rig.redis, rig.keys, rig.parent, second?.number ?? "", 1)).toEqual([third]);
  expect(new Set(lines.map(({ number }) => number)).size).toBe(lines.length);
});

test("the lines of several agents of a parent are numbered together, and a call sent again adds none", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const other = await rig.running();
  const write = () => rig.readFirst(agent, epoch, { events: turn(1) });
  await write();
  await rig.readFirst(other.agent, other.epoch, { events: turn(1) });
  expect((await write()).status).toBe("same");
  await rig.store.settle(agent, handedBack(epoch));
  await rig.store.settle(agent, handedBack(epoch));
  const lines = await readEvents(rig.redis, rig.keys, rig.parent, "0", 100);
  expect(lines.map(({ uid }) => uid)).toEqual([agent.uid, other.agent.uid, agent.uid]);
});

test("lines are published only while a subscriber says that it listens, and every answer says so", async () => {
  const rig = verbRig();
  const subscriber = openRedis(redisUrl(), "subscriber");
  closeAtEnd(() => closeRedis(subscriber));
  const heard: ProgressEvent[] = [];
  subscriber.on("message", (_channel, message: string) => heard.push(...parseMessage(message).events));
  await subscriber.subscribe(rig.keys.parent(rig.parent).events);
  const { agent, epoch } = await rig.running();
  const append = (n: number) =>
    rig.store.append(agent, {
      epoch,
      known: 0,
      running_ms: 1,
      entries: [[`${n}`, "{}"]],
      events: `${turn(n)},${turn(n + 1)}`,
    });
  expect(await append(1)).toMatchObject({ watched: false });
  await watchEvents(rig.redis, rig.keys, rig.parent);
  expect(await append(3)).toMatchObject({ watched: true });
  expect(await rig.store.renew(agent, { epoch, running_ms: 1 })).toMatchObject({ watched: true });
  expect(await rig.redis.pttl(rig.keys.parent(rig.parent).watching)).toBeLessThanOrEqual(10_000);
  await until(() => heard.length >= 2, { what: "the events" });
  expect(heard.map(({ turn }) => turn)).toEqual([3, 4]);
});

import { describe, expect, test, vi } from "vitest";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { agentOf } from "../../../src/shared/protocol/keys.ts";
import type { ProgressEvent } from "../../../src/shared/protocol/reply.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import {
  eventPublisher,
  parseMessage,
  readEvents,
  readTimeline,
  renewWatching,
  type TimelineOffsets,
} from "../../../src/shared/redis/events.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { writeLines } from "../../helpers/event-lines.ts";
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

/** Lines and numbers of events as many runs have left them: `<ms>-<n>` with n from 1 to `count`. */
const FILL =
  "for n = 1, tonumber(ARGV[3]) do redis.call(ARGV[1], KEYS[1], unpack(ARGV[1] == 'RPUSH' and { tostring(n) } or { ARGV[2] .. '-' .. n, 'u', 'x' })) end";

test("of many lines the newest stay: 2,000 of an agent, some 10,000 numbers of its parent, none that is too old", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const { timeline } = rig.keys.agent(agent);
  const { history } = rig.keys.parent(agent);
  await rig.redis.eval(FILL, 1, timeline, "RPUSH", "", 2_100);
  await rig.redis.eval(FILL, 1, history, "XADD", 1, 500);
  const epoch = await rig.claim(agent);
  expect(await rig.redis.xlen(history)).toBeLessThan(200);
  expect([await rig.redis.llen(timeline), await rig.redis.lindex(timeline, -1)]).toEqual([2_000, "2100"]);
  await rig.redis.eval(FILL, 1, history, "XADD", await rig.redisNow(), 10_500);
  await rig.store.settle(agent, handedBack(epoch));
  expect(await rig.redis.xlen(history)).toBeLessThan(10_300);
  expect(await rig.redis.xlen(history)).toBeGreaterThanOrEqual(10_000);
});

const turn = (n: number) => `{"type":"turn_started","turn":${n}}`;
const typesIn = (lines: Awaited<ReturnType<typeof readTimeline>>) =>
  lines.flatMap(({ events }) => events.map(({ type, run }) => `${run} ${type}`));

const pageOf = (rig: Rig, after: string, count: number, offsets?: TimelineOffsets) =>
  readEvents(rig.redis, rig.keys, rig.parent, { after, count, ...(offsets && { offsets }) });

/** A run that is claimed, takes two turns, is handed back, claimed again, asks, and ends. */
async function runWithEvents(rig: Rig) {
  const agent = await rig.queued();
  const started = '{"type":"run_started","turn":0,"max_turns":3,"worker":"w"}';
  const epoch = await rig.claim(agent);
  await rig.readFirst(agent, epoch, { events: `${started},${turn(1)},${turn(2)}` });
  await rig.store.release(agent, {
    epoch,
    delay_ms: 0,
    running_ms: 1,
    attempts: 0,
    events: '{"type":"released","turn":0,"reason":"drain"}',
  });
  const waiting = '{"type":"waiting","turn":2,"question":"a?"}';
  const asked = { ...questionsOf(await rig.claim(agent)), events: `${started},${waiting}` };
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
  expect(await pageOf(rig, "0", 100)).toEqual({ lines, last: lines.at(-1)?.number, isFull: false });
  const [, second, third] = lines;
  expect(await pageOf(rig, second?.number ?? "", 1)).toEqual({
    lines: [third],
    last: third?.number,
    isFull: true,
  });
  expect(new Set(lines.map(({ number }) => number)).size).toBe(lines.length);
});

test("a line that cannot be written leaves no number in the parent's history", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const { history } = rig.keys.parent(agent);
  const before = await rig.redis.xlen(history);
  await rig.redis.set(rig.keys.agent(agent).timeline, "of somebody else");
  const commit = () => rig.readFirst(agent, epoch, { events: turn(1) });
  for (const tries of [commit, commit]) await expect(tries()).rejects.toThrow(/WRONGTYPE/);
  expect(await rig.redis.xlen(history)).toBe(before);
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
  const { lines } = await pageOf(rig, "0", 100);
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
  await renewWatching(rig.redis, rig.keys, rig.parent);
  expect(await append(3)).toMatchObject({ watched: true });
  expect(await rig.store.renew(agent, { epoch, running_ms: 1 })).toMatchObject({ watched: true });
  expect(await rig.redis.pttl(rig.keys.parent(rig.parent).watching)).toBeLessThanOrEqual(10_000);
  await until(() => heard.length >= 2, { what: "the events" });
  expect(heard.map(({ turn }) => turn)).toEqual([3, 4]);
});

describe("pages of a history", () => {
  const numbersIn = ({ lines }: Awaited<ReturnType<typeof pageOf>>) => lines.map(({ number }) => number);
  const timelineOf = (rig: Rig, uid: string) => rig.keys.agent(agentOf(rig.parent, uid)).timeline;
  const write = (rig: Rig, uids: readonly string[], each: number, behind = 0) =>
    writeLines(rig.redis, rig.keys, rig.parent, { uids, each, behind });

  test("go on behind numbers whose lines are gone", async () => {
    const rig = verbRig();
    const [gone, here] = [newUid(), newUid()];
    const dead = await write(rig, [gone], 150);
    await rig.redis.del(timelineOf(rig, gone));
    const kept = await write(rig, [here], 3, dead.length);
    const first = await pageOf(rig, "0", 100);
    expect(first).toEqual({ lines: [], last: dead[99], isFull: true });
    const second = await pageOf(rig, first.last ?? "", 100);
    expect(numbersIn(second)).toEqual(kept);
    expect(second).toMatchObject({ last: kept.at(-1), isFull: false });
    expect(await pageOf(rig, second.last ?? "", 100)).toEqual({ lines: [], last: undefined, isFull: false });
  });

  test("of agents that work side by side read each line once, and one more a page and agent", async () => {
    const rig = verbRig();
    const uids = Array.from({ length: 10 }, () => newUid());
    const numbers = await write(rig, uids, 100);
    const asked = vi.spyOn(rig.redis, "lrange");
    const offsets: TimelineOffsets = new Map();
    const found: string[] = [];
    for (let after = "0"; after !== ""; ) {
      const page = await pageOf(rig, after, 100, offsets);
      found.push(...numbersIn(page));
      after = page.last ?? "";
    }
    expect(found).toEqual(numbers);
    const read = asked.mock.settledResults.reduce(
      (sum, { value }) => sum + (Array.isArray(value) ? value.length : 0),
      0,
    );
    expect(read).toBeLessThanOrEqual(numbers.length + 10 * uids.length);
  });

  test("miss nothing of a timeline that is cut between two of them, nor where the history is", async () => {
    const rig = verbRig();
    const uid = newUid();
    const numbers = await write(rig, [uid], 60);
    const offsets: TimelineOffsets = new Map();
    const page = (after: string | undefined) => pageOf(rig, after ?? "", 10, offsets);
    expect(numbersIn(await page("0"))).toEqual(numbers.slice(0, 10));
    // Of what was read.
    await rig.redis.ltrim(timelineOf(rig, uid), 5, -1);
    expect(numbersIn(await page(numbers[9]))).toEqual(numbers.slice(10, 20));
    // And of what was not.
    await rig.redis.ltrim(timelineOf(rig, uid), 20, -1);
    expect(numbersIn(await page(numbers[19]))).toEqual(numbers.slice(25, 30));
    // Lines stay of which the history knows nothing any more.
    await rig.redis.xtrim(rig.keys.parent(rig.parent).history, "MINID", numbers[40] ?? "");
    expect(numbersIn(await page(numbers[29]))).toEqual(numbers.slice(40, 50));
    expect(numbersIn(await page(numbers[49]))).toEqual(numbers.slice(50, 60));
  });

  test("that begin in the middle find their lines there", async () => {
    const rig = verbRig();
    const numbers = await write(rig, [newUid(), newUid()], 20);
    expect(numbersIn(await pageOf(rig, numbers[24] ?? "", 10))).toEqual(numbers.slice(25, 35));
  });
});

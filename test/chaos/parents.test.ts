/**
 * Guarantee: what was meant for a parent reaches it, whatever becomes of its process: away, frozen, killed, doubled.
 * Neighbours: `integration/verbs/ack.test.ts` and `settle.test.ts` (how long things stay), `destroy.test.ts` (an end that
 * comes too late), `integration/worker/sweeping.test.ts` (messages that are never answered).
 */
import { expect, test } from "vitest";
import type { ReceivedEntry } from "../../src/producer/replies/parent-channel.ts";
import { deadlineMember } from "../../src/shared/protocol/keys.ts";
import { TIMING } from "../../src/shared/protocol/limits.ts";
import { type NodeProcess, spawnNode } from "../helpers/processes.ts";
import { until } from "../helpers/until.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const REPLIES = 60;
const PARENT = "planner-7";
const LONG_TEXT = "0123456789".repeat(1_000);
const scenario = { turns: [{ content: [{ type: "text" as const, text: LONG_TEXT }] }], repeat: true };

/** A parent's agents at work, with a server of their own. Answers the reply ids in the order in which they came. */
async function openScene() {
  const installation = await openStage({ redis: "own", scenario });
  const { prefix, url } = installation;
  const parent = installation.parent(PARENT);
  await installation.startWorker();
  /** Has `count` more runs done while nobody of this process reads. */
  const work = async (count: number) => {
    const before = await entriesInChannel(installation);
    for (let i = 0; i < count; i += 10) {
      const agents = await Promise.all(Array.from({ length: 10 }, () => parent.spawn({ name: "worker" })));
      for (const { agent_id } of agents) await parent.send(agent_id, "work");
      await until(async () => (await entriesInChannel(installation)) === before + i + 10);
    }
  };
  const startReader = async (ack = 0): Promise<NodeProcess> => {
    const settings = JSON.stringify({ redisUrl: url, prefix, parentId: PARENT, ack });
    const reader = await spawnNode("test/helpers/fixtures/parent-process.ts", { args: [settings] });
    await reader.waitForLine("ready", { timeoutMs: 60_000 });
    return reader;
  };
  return { installation, parent, work, startReader };
}

const channelOf = ({ keys }: Stage) => keys.parent({ tenant: "default", parentId: PARENT }).replies;
const entriesInChannel = (installation: Stage) => installation.redis.xlen(channelOf(installation));

/** What a parent process said after a word, in order. */
function said({ stdout }: NodeProcess, word: "read" | "acked"): string[] {
  return stdout.flatMap((line) => (line.startsWith(`${word} `) ? [line.slice(word.length + 1)] : []));
}

async function take(entries: AsyncIterator<ReceivedEntry>, count: number): Promise<ReceivedEntry[]> {
  const taken: ReceivedEntry[] = [];
  while (taken.length < count) taken.push((await entries.next()).value);
  return taken;
}

/** Remaining time of every key that will go by itself, ms, without the queue's own ones. */
async function timesLeft({ redis, keys, prefix }: Stage): Promise<Map<string, number>> {
  const names = (await redis.keys(`*${prefix}*`)).filter(
    (key) => !key.startsWith(`${keys.bullPrefix}:wakes:`),
  );
  const left = await Promise.all(names.map(async (key) => [key, await redis.pttl(key)] as const));
  return new Map(left.filter(([, ms]) => ms >= 0));
}

test("nothing that a parent could miss is gone after an hour away, nor after six days; what is, is none of it", async () => {
  const { installation, parent, work } = await openScene();
  await installation.spawn({ name: "idle" });
  await work(REPLIES);
  const left = await timesLeft(installation);
  for (const key of left.keys()) if (key.includes(":fair")) left.delete(key);
  const kinds = (limitMs: number) => {
    const going = [...left].filter(([, ms]) => ms < limitMs).map(([key]) => key);
    return new Set(
      going.map((key) => /:(life|message|request|history|workers|worker)(:|$)/.exec(key)?.[1] ?? key),
    );
  };
  // The life key of an idle agent is its idle time; workers announce themselves anew; the rest is memory of requests, and
  // events: numbered for a day. Whose turn it is in the line is remembered for a while, which may be over by now.
  expect(kinds(HOUR_MS)).toEqual(new Set(["life", "worker", "workers"]));
  expect(kinds(6.9 * DAY_MS)).toEqual(
    new Set(["life", "worker", "workers", "message", "request", "history"]),
  );
  const entries = await take(parent.replies(), REPLIES);
  for (const { reply_id } of entries)
    expect(await parent.fullText(reply_id), reply_id).toBe(LONG_TEXT.trim());

  // From here on the time counts that begins with the ack, for what was acked.
  const { redis, keys } = installation;
  const [first, second] = entries as [ReceivedEntry, ReceivedEntry];
  expect(await first.ack()).toBe(true);
  const daysLeft = async ({ reply_id }: ReceivedEntry) => {
    const address = { tenant: "default", parentId: PARENT, uid: reply_id.split(".")[0] ?? "" };
    const { record, timeline } = keys.agent(address);
    const ofText = keys.parent(address).text(reply_id);
    return Promise.all(
      [record, timeline, ofText].map(async (key) => Math.ceil((await redis.pttl(key)) / DAY_MS)),
    );
  };
  expect(await daysLeft(first)).toEqual([1, 1, 1]);
  expect(await daysLeft(second)).toEqual([7, 7, 7]);
});

test("a parent process that is frozen while its replies come reads each of them once when it goes on", async () => {
  const { installation, work, startReader } = await openScene();
  const reader = await startReader();
  await work(10);
  await until(() => said(reader, "read").length === 10);
  reader.freeze();
  await work(30);
  // Its connections do not outlive a long freeze either.
  await installation.redis.client("KILL", "TYPE", "PUBSUB");
  await work(20);
  expect(said(reader, "read")).toHaveLength(10);
  reader.thaw();
  await until(() => said(reader, "read").length === 60);
  process.kill(reader.pid, "SIGUSR2");
  await until(() => said(reader, "acked").length === 60);
  expect(new Set(said(reader, "acked").map((line) => line.split(" ")[1]))).toEqual(new Set(["first"]));
  expect(new Set(said(reader, "read")).size).toBe(60);
  expect(await entriesInChannel(installation)).toBe(0);
});

test("what a killed parent process had read and not acked is delivered again to its successor, and nothing else", async () => {
  const { installation, work, startReader } = await openScene();
  await work(REPLIES);
  const first = await startReader(20);
  await until(() => said(first, "read").length === REPLIES);
  expect(await first.kill()).toEqual({ code: null, signal: "SIGKILL" });
  const acked = said(first, "acked").map((line) => line.split(" ")[0]);
  expect(acked).toHaveLength(20);
  const second = await startReader(REPLIES);
  await until(() => said(second, "acked").length === REPLIES - 20);
  expect(said(second, "read")).toEqual(said(first, "read").filter((id) => !acked.includes(id)));
  expect(said(second, "acked").every((line) => line.endsWith(" first"))).toBe(true);
  expect(await entriesInChannel(installation)).toBe(0);
});

test("two processes of one parent both see every entry until it is acked, and of their acks exactly one is the first", async () => {
  const { installation, work, startReader } = await openScene();
  const readers = await Promise.all([startReader(), startReader()]);
  await work(REPLIES);
  await until(() => readers.every((reader) => said(reader, "read").length === REPLIES));
  expect(said(readers[0] as NodeProcess, "read")).toEqual(said(readers[1] as NodeProcess, "read"));
  for (const { pid } of readers) process.kill(pid, "SIGUSR2");
  await until(() => readers.every((reader) => said(reader, "acked").length === REPLIES));
  const firsts = readers.map((reader) => said(reader, "acked").filter((line) => line.endsWith(" first")));
  expect(new Set(firsts.flat()).size).toBe(REPLIES);
  expect(firsts.flat()).toHaveLength(REPLIES);
  expect(await entriesInChannel(installation)).toBe(0);
});

test("an agent whose parent process dies between recording the message and the wake runs all the same, seconds later", async () => {
  const { installation } = await openScene();
  const agent = await installation.spawn();
  const { prefix, redis, keys } = installation;
  const sender = await spawnNode("test/helpers/fixtures/half-sender.ts", {
    args: [installation.url, prefix, deadlineMember(agent)],
  });
  expect(await sender.closed).toEqual({ code: null, signal: "SIGKILL" });
  const [, status, sentAtMs] = (sender.stdout[0] ?? "").split(" ");
  expect(status).toBe("queued");
  expect(await redis.exists(`${keys.bullPrefix}:${keys.wakeQueue}:${agent.uid}.1`)).toBe(0);
  const reply = await installation.parent(agent.parentId).waitAny([agent.agentId]);
  const waitedMs = Date.parse(reply.created_at) - Number(sentAtMs);
  process.stdout.write(`lost wake: the reply came ${waitedMs} ms after the message\n`);
  expect(reply).toMatchObject({ status: "succeeded", run: 1 });
  // The first look has found it: the next would come after as long again.
  expect(waitedMs).toBeLessThan(2 * TIMING.checkMs);
});

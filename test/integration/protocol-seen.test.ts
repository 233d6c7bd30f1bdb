/** Guarantee: what Redis really does under an installation's prefix is what the keys' table of `docs/protocol.md` says. */
import { createServer } from "node:http";
import { expect, test } from "vitest";
import { z } from "zod";
import { internalsOf } from "../../src/producer/client.ts";
import { AGENT_PROTOCOL_PATH, agentProtocol } from "../../src/service/agent-protocol/router.ts";
import { createIntake } from "../../src/service/intake/intake.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { newUid } from "../../src/shared/protocol/ids.ts";
import {
  IDLE_MS,
  RESERVATION_MS,
  TIMING,
  type Timing,
  WAKE_DONE_KEPT_MS,
  WAKE_FAILED_KEPT_MS,
} from "../../src/shared/protocol/limits.ts";
import { WORKER_TTL_MS } from "../../src/shared/protocol/worker.ts";
import { createApiKeys } from "../../src/shared/redis/api-keys.ts";
import { createCallbacks } from "../../src/shared/redis/callbacks.ts";
import { createPause } from "../../src/shared/redis/pause.ts";
import { VERBS } from "../../src/shared/redis/verbs.ts";
import { defineTool } from "../../src/worker/tools/tool.ts";
import { startApi } from "../helpers/api.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type Latch, latch } from "../helpers/latch.ts";
import { listenUntilEnd } from "../helpers/listen.ts";
import { codeIn, type ProtocolRow, protocolRows } from "../helpers/protocol-rows.ts";
import { type SeenKey, type SeenKeys, watchKeys } from "../helpers/seen-keys.ts";
import { until } from "../helpers/until.ts";
import { type OwnStage, openStage } from "../stage/stage.ts";

/** No two durations alike, so that a key which is given another one than its row says is told. */
const DISTINCT = Object.fromEntries(
  Object.entries(TIMING).map(([name, ms], n) => [
    name,
    /Ttl|Age|kept|Quiet/.test(name) ? ms + n * 1_000 : ms,
  ]),
) as unknown as Timing;
const TRANSCRIPT_MS = 61_000;

const say = (words: string) => ({ content: [{ type: "text" as const, text: words }] });
const use = (name: string, input: Record<string, unknown>) => ({
  content: [{ type: "tool_use" as const, name, input }],
});

const scenario = [
  { match: { user: "ask" }, turns: [use("ask_parent", { question: "Which?" }), say("thanks")] },
  // A script is chosen by the first message of a conversation; the second one comes to `linger`.
  { match: { user: "stay" }, turns: [say("here"), use("linger", {}), say("over")] },
  { match: { user: "long" }, turns: [say("x".repeat(20_000))] },
  { match: { user: "refused" }, turns: [{ ...say("at last"), failures: [{ status: 529 }] }] },
  { match: { user: "" }, turns: [use("glob", { pattern: "*" }), say("done")], repeat: true },
];

const lingering = (called: Latch<void>) =>
  defineTool({
    name: "linger",
    description: "Waits until it is told to stop.",
    input: z.object({}),
    run: (_input, { signal }) => {
      called.open();
      return new Promise<string>((resolve) => signal.addEventListener("abort", () => resolve("stopped")));
    },
  });

/** Whose connections are watched, and how the table calls them; what another program or an operator does comes from the test. */
const CALLED: Readonly<Record<string, RegExp>> = {
  parent: /parent/,
  worker: /worker|sweeper|pool|readiness/,
  intake: /intake|worker|parent/,
  api: /API|parent/,
  operator: /operator|any program|command line|parent/,
};

/** A little of everything that parents, workers, operators and other programs do. */
async function livesThrough(stage: OwnStage, seen: SeenKeys): Promise<void> {
  await stage.redis.ping();
  await seen.name("operator");
  const receiver = await startReceiver();
  const parent = stage.parent("planner", { lease: { onParentGone: "destroy", ms: 5_000 } });
  await parent.register({ transcript_ms: TRANSCRIPT_MS });
  await parent.webhook.set({ url: receiver.url });
  await parent.schedule({ schedule_id: "daily", cron: "0 4 * * *", prompt: "work" });
  // Wakes that wait have places in the line.
  const early = [1, 2, 3].map(() => parent.task("plain"));
  await Promise.all(early.map(({ started }) => started));
  await seen.name("parent");
  const lingers = latch();
  await stage.startWorker({ tools: [lingering(lingers)] });
  await Promise.all(early);
  const events = parent.events();
  const watching = events.next();
  await parent.task({ prompt: "plain", files: [{ path: "a.txt", content: "a" }] });
  await parent.task({ prompt: "ask", tools: ["ask_parent"] }, { onQuestion: () => "this" });
  await parent.task("long");
  await parent.task({ prompt: "refused", request_key: "named" });
  await watching;
  await events.return?.();
  await parent.spawn({ name: "keeper", keep_alive: true });
  await parent.send("keeper", "stay", { message_id: "first" });
  await parent.waitAny(["keeper"]);
  await parent.send("keeper", "linger");
  await lingers.opened;
  await parent.finish("keeper");
  await parent.destroy("keeper");
  await (await parent.newReplies()).ack();
  const poor = stage.parent("poor", { budgets: { parent: { max_total_tokens: 1_000_000 } } });
  await poor.task("plain");
  await seen.name("worker");
  await operate(stage);
  await takeIn(stage, seen);
  await parent.waitAny(["of_the_intake"]);
  await answerRequests(stage, seen);
  await parent.spawn({ name: "pushed" });
  await parent.destroy("pushed");
  await receiver.pushed.opened;
  await until(async () => (await parent.newReplies()).entries.length === 0);
}

/** Takes what is pushed. */
async function startReceiver(): Promise<{ url: string; pushed: Latch<void> }> {
  const pushed = latch();
  const server = createServer((_request, response) => {
    response.writeHead(200).end();
    pushed.open();
  });
  return { url: await listenUntilEnd(server), pushed };
}

/** What an operator does. */
async function operate({ redis, keys }: OwnStage): Promise<void> {
  const pause = createPause(redis, keys);
  await pause.pause("a look");
  await pause.resume();
}

/** Takes in what another program adds to the stream. */
async function takeIn(stage: OwnStage, seen: SeenKeys): Promise<void> {
  const { url: redisUrl, prefix } = stage;
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl, prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const wish = ["parent_id", "planner", "prompt", "work", "name", "of the intake"];
  await stage.redis.xadd(stage.keys.intake, "*", "v", "1", ...wish);
  await stage.redis.xadd(stage.keys.intake, "*", "v", "1", "prompt", "of nobody");
  await until(async () => (await stage.redis.xlen(stage.keys.intake)) === 0);
  await seen.name("intake");
}

/** Has the API answer requests with a key, and tells the end of an agent that another server waits for. */
async function answerRequests(stage: OwnStage, seen: SeenKeys): Promise<void> {
  const maker = createApiKeys(stage.redis, stage.keys);
  const { token } = await maker.create({ tenant: "default", name: "seen", scope: "spawn" });
  const client = stage.client();
  const api = await startApi({ client, webhookReach: "any", mounts: [agentProtocol()] });
  const answer = await api.ask("GET", "/v1/parents", { token });
  expect(answer.status).toBe(200);
  const threads = `${AGENT_PROTOCOL_PATH}/threads`;
  const thread = `${threads}/${(await api.ask("POST", threads, { token, body: {} })).body.thread_id}`;
  expect((await api.ask("DELETE", thread, { token })).status).toBe(204);
  expect((await api.ask("GET", thread, { token })).status).toBe(404);
  const { redis, keys } = await internalsOf(client).open();
  const callbacks = createCallbacks(redis, keys);
  const agent = { tenant: "default", parentId: "planner", uid: newUid() };
  await callbacks.set(agent, "thread", "another");
  await callbacks.note(agent, 0);
  await callbacks.due("token", (await callbacks.nowMs()) + 1);
  await callbacks.get(agent, "thread");
  await callbacks.forget([agent]);
  await callbacks.giveUp("token");
  await seen.name("api");
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, h: 3_600_000, d: 86_400_000 };

/** The durations that a row names, ms. */
function durationsIn(stays: string): number[] {
  const named: Readonly<Record<string, number>> = {
    ...DISTINCT,
    ...{
      WORKER_TTL_MS,
      RESERVATION_MS,
      WAKE_DONE_KEPT_MS,
      WAKE_FAILED_KEPT_MS,
      transcript_ms: TRANSCRIPT_MS,
    },
  };
  const found = codeIn(stays).flatMap((name) => named[name] ?? []);
  for (const [, n, unit = ""] of stays.matchAll(/\b(\d+) ([shd])\b/g))
    found.push(Number(n) * (UNITS[unit] ?? 0));
  if (stays.includes("a minute")) found.push(60_000);
  if (stays.includes("its idle time")) found.push(IDLE_MS);
  if (stays.includes("like the record")) found.push(...durationsIn(rowCalled("agent.record").stays));
  if (stays.includes("no longer than the record")) found.push(DISTINCT.keptAfterAckMs);
  // "`requestTtlMs`; …, and `maxAgeMs` and `replyTtlMs` more"
  const more = codeIn(/(`\w+`( and )?)+(?= more)/.exec(stays)?.[0] ?? "");
  return more.length === 0
    ? found
    : [...found, more.reduce((sum, each) => sum + (named[each] ?? 0), found[0] ?? 0)];
}

const rowCalled = (name: string): ProtocolRow => {
  const row = protocolRows("").find((each) => each.name === name);
  if (!row) throw new Error(`no row ${name}`);
  return row;
};

/** Rows whose time begins later than it is set: at the end of a lease, or when a limiter opens. */
const BEGINS_LATER = new Set(["parent.lease", "limiter", "limiterWaiting", "limiterResuming"]);
const WITHOUT_TTL = /without limit|until|while|BullMQ|–|TTL_MS/;

/** What is wrong with the times to live that a key of a row was given, and with the one that it has at last. */
function wrongStay({ name, stays }: ProtocolRow, { ttlsMs }: SeenKey, leftMs: number): string[] {
  const allowed = durationsIn(stays);
  const isAllowed = (ms: number) =>
    BEGINS_LATER.has(name) ? ms >= Math.min(...allowed) : allowed.includes(ms);
  const wrong = [...ttlsMs].filter((ms) => !isAllowed(ms)).map((ms) => `${name} is given ${ms} ms`);
  if (leftMs === -1 && !WITHOUT_TTL.test(stays)) wrong.push(`${name} has no TTL`);
  if (leftMs > Math.max(0, ...ttlsMs)) wrong.push(`${name} stays longer than it was told to`);
  return wrong;
}

/** What is wrong with who has written and read a key of a row. A script that writes may read as well. */
function wrongUsers({ name, writtenBy, readBy }: ProtocolRow, { writers, readers }: SeenKey): string[] {
  const isUsedBy = (who: string, cell: string) => CALLED[who]?.test(cell.replaceAll(/`[^`]*`/g, ""));
  const both = `${writtenBy} ${readBy}`;
  return [
    ...[...writers.verbs].filter((verb) => !codeIn(writtenBy).includes(verb)).map((verb) => `${verb} writes`),
    ...[...readers.verbs].filter((verb) => !codeIn(both).includes(verb)).map((verb) => `${verb} reads`),
    ...[...writers.others].filter((who) => !isUsedBy(who, writtenBy)).map((who) => `${who} writes`),
    // The test itself looks at what it waits for.
    ...[...readers.others]
      .filter((who) => who !== "operator" && !isUsedBy(who, both))
      .map((who) => `${who} reads`),
  ].map((what) => `${what} ${name}`);
}

/** Names in the table that are no keys, but parts of them. */
const NO_KEYS = ["wakeQueue", "intakeQueue", "bullPrefix"];

/** Scripts that a row names and that run in this life, but not along the way on which they use its key; tests of their own do. */
const OTHER_WAYS: Readonly<Record<string, readonly string[]>> = {
  // An interim message.
  "parent.replies": ["append"],
  "parent.doorbell": ["append"],
  "parent.webhook": ["append"],
  webhookDoorbell: ["append"],
  // An agent that goes on from a transcript, and a message with files.
  "agent.log": ["spawn"],
  "agent.transcript": ["spawn"],
  "agent.attachments": ["send"],
  // A parent whose lease has lapsed.
  "parent.lease": ["finish", "settle"],
  // A claim that has found a crash, a timeline too many, an end by authority in the middle of a step.
  "parent.events": ["claim"],
  "parent.history": ["ack"],
  hints: ["settle"],
  // A credential that is refused, and is not any more.
  limiters: ["limiter-release"],
  limiterWaiting: ["limiter-release"],
  limiterResuming: ["limiter-release"],
};
/** What these find depends on when they come: a sweeper's, a lease's, and a push's that waits for its time. */
const BY_TIME = new Set(
  "overdue requeue orphans deadline-due deadline-move renew release webhook-due".split(" "),
);

/** The scripts that a row says use its key, of those that ran, and that were seen at none of its keys. */
function idleScripts({ name, writtenBy, readBy }: ProtocolRow, ran: ReadonlySet<string>, keys: SeenKey[]) {
  const at = new Set(keys.flatMap(({ writers, readers }) => [...writers.verbs, ...readers.verbs]));
  const named = new Set(codeIn(`${writtenBy} ${readBy}`).filter((verb) => verb in VERBS && ran.has(verb)));
  return [...named].filter(
    (verb) => !at.has(verb) && !BY_TIME.has(verb) && !OTHER_WAYS[name]?.includes(verb),
  );
}

test("each key that is used is of a row, by its type, its writers, its readers and its stay; each row is met", async () => {
  const stage = await openStage({ redis: "own", scenario, timing: DISTINCT });
  const seen = await watchKeys(stage.url, stage.prefix, stage.observer);
  await livesThrough(stage, seen);
  await seen.caughtUp();
  const rows = protocolRows(stage.prefix);
  const own = new RegExp(`^\\{${stage.prefix}\\}:(wakes|intake):`);
  const met = new Map<string, SeenKey[]>();
  const wrong = new Set<string>();
  for (const [key, at] of seen.keys) {
    const row = rows.find(({ spelling }) => spelling.test(key));
    if (row) met.set(row.name, [...(met.get(row.name) ?? []), at]);
    // BullMQ's keys are its own affair, unless a verb of ours uses them. It takes its jobs out by their age.
    const isOwn = own.test(key);
    if (isOwn && at.writers.verbs.size + at.readers.verbs.size === 0) continue;
    // A script that is given no name for a key looks at one that is never there.
    if (key.endsWith(":") && at.types.size === 0) continue;
    if (!row) {
      wrong.add(`${key} stands in no row`);
      continue;
    }
    for (const type of at.types) if (!row.type.startsWith(type)) wrong.add(`${row.name} is a ${type}`);
    if (isOwn) continue;
    for (const what of wrongUsers(row, at)) wrong.add(what);
    for (const what of wrongStay(row, at, await stage.redis.pttl(key))) wrong.add(what);
  }
  expect([...wrong].sort()).toEqual([]);
  expect(rows.map(({ name }) => name).filter((name) => !met.has(name) && !NO_KEYS.includes(name))).toEqual(
    [],
  );
  const idle = rows.flatMap((row) =>
    idleScripts(row, seen.ran, met.get(row.name) ?? []).map((verb) => `${verb} does not use ${row.name}`),
  );
  expect(idle).toEqual([]);
});

/** Webhooks: every reply reaches its receiver and is acked once, whatever dies in between; no private address is reached. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { beforeAll, describe, expect, test } from "vitest";
import { beginTask, waitForTask } from "../../../src/producer/detached-task.ts";
import { createApi } from "../../../src/service/api/api.ts";
import { BOARD_PATH } from "../../../src/service/board/app.ts";
import { createWebhookPush, type WebhookPushOptions } from "../../../src/service/webhooks/push.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { FIRST_RUN, replyIdOf } from "../../../src/shared/protocol/keys.ts";
import { type CommandLineApi, startCommandLineApi } from "../../doors/command-line-api.ts";
import { ask, startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { keysLike } from "../../helpers/redis.ts";
import { seeded } from "../../helpers/seeded.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

/** The long form, of `npm run test:doors -- webhooks`, has 10,000, and API processes that push and are killed. */
const REPLIES = Number(process.env.SUBAGENT_TEST_WEBHOOKS ?? 60);
const IS_LONG = REPLIES > 1_000;
const SEED = Number(process.env.SEED ?? 12);
/** For machines that are busy. */
const PER_REPLY_MS = 100;
/** As many as may live at a time. */
const AGENTS = 10;
/** Then it lives: a receiver that is killed at every request takes nothing. */
const MOST_KILLS = 6 + REPLIES / 200;
/** The slot of a process that was killed is free after ten seconds: most of the long form would be that wait. */
const MOST_API_KILLS = 5;
const JOURNAL_LINE_BYTES = 33;
const RECEIVER = join(import.meta.dirname, "../../helpers/fixtures/webhook-receiver.mjs");

let stage: Stage;

beforeAll(async () => {
  stage = await openStage();
  await stage.startWorker();
});

function startPush(options: Partial<WebhookPushOptions> = {}) {
  const push = createWebhookPush({ client: stage.client(), reach: "any", backoffMs: 20, ...options });
  closeAtEnd(() => push.stop());
  push.start();
  return push;
}

/** A receiver in this process; `answer` says how. */
async function startReceiver(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const seen: { headers: IncomingMessage["headers"]; body: string }[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      seen.push({ headers: request.headers, body });
      answer(request, response);
    });
  });
  return { seen, url: `${await listenUntilEnd(server)}/hook?a=b` };
}

const unacked = async (parentId: string) => (await stage.parent(parentId).newReplies()).entries;

test("a reply is pushed, signed after Standard Webhooks, and acked by the 2xx answer", async () => {
  const { seen, url } = await startReceiver((_request, response) => response.writeHead(200).end("thanks"));
  const parent = stage.parent("pushed");
  const { secret } = await parent.webhook.set({ url });
  startPush();
  const agent = await parent.spawn({ name: "helper" });
  await parent.send(agent.agent_id, "Say hello");
  const [request] = await until(() => seen.length > 0 && seen);
  if (!request) throw new Error("no request");
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
  );
  const payload = new Webhook(secret).verify(request.body, headers);
  expect(payload).toMatchObject({
    type: "sub_agent.reply",
    data: { kind: "reply", agent_id: "helper", reply_id: headers["webhook-id"], parent_id: "pushed" },
  });
  await until(async () => (await unacked("pushed")).length === 0);
  expect(await parent.webhook.get()).toEqual({ url, status: "active", created_at: expect.any(String) });
});

test("a request has Redis' time: a receiver that checks its age takes it from a host whose clock is wrong", async () => {
  const { seen, url } = await startReceiver((_request, response) => response.writeHead(200).end());
  const parent = stage.parent("early");
  const { secret } = await parent.webhook.set({ url });
  const clock = { ...systemClock, now: () => systemClock.now() + 3_600_000 };
  startPush({ clock, client: stage.client({ clock }) });
  await parent.spawn({ name: "helper" });
  await parent.send("helper", "Say hello");
  await until(() => seen.length > 0);
  const { headers = {}, body = "" } = seen[0] ?? {};
  const named = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  expect(new Webhook(secret).verify(body, Object.fromEntries(named))).toMatchObject({
    type: "sub_agent.reply",
  });
});

test("an API that was stopped and started again has its port, its board and its pushes", async () => {
  const { seen, url } = await startReceiver((_request, response) => response.writeHead(200).end());
  const parent = stage.parent("again");
  await parent.webhook.set({ url });
  const api = createApi({ client: stage.client(), webhookReach: "any" });
  closeAtEnd(() => api.stop());
  const queues = () => ask(`${api.url}${BOARD_PATH}/api/queues`, "GET");
  await api.start();
  const first = api.url;
  expect((await queues()).status).toBe(200);
  await api.stop();
  await api.start();
  expect(api.url).toBe(first);
  expect((await queues()).status).toBe(200);
  const agent = await parent.spawn({ name: "helper" });
  await parent.send(agent.agent_id, "Say hello");
  await until(() => seen.length > 0);
});

test("an entry that its receiver refuses holds up none that come later, however long its own pause is", async () => {
  const names = (bodies: readonly { body: string }[]) =>
    bodies.map(({ body }) => String(JSON.parse(body).data.agent_id));
  const { seen, url } = await startReceiver((_request, response) => {
    const [agentId = ""] = names(seen.slice(-1));
    response.writeHead(/bad/.test(agentId) ? 500 : 200).end();
  });
  const parent = stage.parent("refused");
  await parent.webhook.set({ url });
  startPush({ backoffMs: 3_600_000 });
  const retries: number[] = [];
  for (const name of ["bad", "good", "bad too", "good too"]) {
    const { agent_id } = await parent.spawn({ name });
    await parent.send(agent_id, "Say hello");
    await until(() => names(seen).includes(agent_id));
    retries.push(await until(() => retryOf("refused")));
  }
  // What is refused meanwhile waits for the same time: it puts no other off.
  for (const at of retries) expect(Math.abs(at - (retries[0] ?? 0))).toBeLessThan(60_000);
  expect(names(seen)).toEqual(["bad", "good", "bad_too", "good_too"]);
  await until(async () => (await unacked("refused")).length === 2);
  expect(await parent.webhook.get()).toMatchObject({ status: "failing" });
});

test("a receiver that does not answer once is asked again soon, however often it has refused another entry", async () => {
  const named: string[] = [];
  const { seen, url } = await startReceiver((_request, response) => {
    named.push(String(JSON.parse(seen.at(-1)?.body ?? "").data.agent_id));
    if (named.at(-1) === "bad") response.writeHead(500).end();
    else if (named.filter((name) => name === "lost").length === 1) response.destroy();
    else response.writeHead(200).end();
  });
  const parent = stage.parent("silent-once");
  await parent.webhook.set({ url });
  startPush({ backoffMs: 1_000 });
  const isIdle = async () =>
    (await stage.redis.zscore(stage.keys.webhooksDue, "default/silent-once")) === null;
  await until(isIdle, { what: "the empty channel to be looked through" });
  const { webhook } = stage.keys.parent({ tenant: "default", parentId: "silent-once" });
  await stage.redis.hset(webhook, { failures: 12 });
  for (const name of ["bad", "lost"]) {
    const { agent_id } = await parent.spawn({ name });
    await parent.send(agent_id, "Say hello");
    await until(() => named.includes(agent_id));
    if (name === "bad") await until(() => retryOf("silent-once"));
  }
  await until(() => named.filter((name) => name === "lost").length === 2);
});

test("a receiver that does not answer is not asked for every entry: its third failure ends the round", async () => {
  const parent = stage.parent("mute");
  const { seen, url } = await startReceiver((_request, response) => response.destroy());
  await makeReplies("mute", 40);
  await parent.webhook.set({ url });
  startPush({ backoffMs: 3_600_000 });
  await until(() => retryOf("mute"));
  // Sixteen are asked for at a time.
  expect(seen.length).toBeLessThan(16 + 3);
});

test("a receiver that takes other entries is asked again soon, and is sound again when it has taken all", async () => {
  const parent = stage.parent("recovers");
  let refusals = 0;
  const { seen, url } = await startReceiver(({ headers }, response) => {
    const isRefused = headers["webhook-id"] === seen[0]?.headers["webhook-id"] && refusals === 0;
    if (isRefused) refusals += 1;
    response.writeHead(isRefused ? 500 : 204).end();
  });
  await makeReplies("recovers", 3);
  await parent.webhook.set({ url });
  const { webhook } = stage.keys.parent({ tenant: "default", parentId: "recovers" });
  // Its next pause would be of an hour.
  await stage.redis.hset(webhook, { failures: 20 });
  startPush({ backoffMs: 200 });
  await until(async () => (await unacked("recovers")).length === 0);
  await until(async () => (await parent.webhook.get()).status !== "failing");
  expect(refusals).toBe(1);
});

test("a request that a stopping process cuts off is no failure of its receiver", async () => {
  const parent = stage.parent("cut-off");
  const { seen, url } = await startReceiver(() => {});
  await makeReplies("cut-off", 1);
  await parent.webhook.set({ url });
  const push = startPush();
  await until(() => seen.length === 1);
  const before = await parent.webhook.get();
  await push.stop();
  expect(await parent.webhook.get()).toEqual(before);
});

/** When the next round of a parent's retries begins, epoch ms; undefined while it is pushed for. */
async function retryOf(parentId: string): Promise<number | undefined> {
  const member = `default/${parentId}`;
  const [at, holder] = await Promise.all([
    stage.redis.zscore(stage.keys.webhooksDue, member),
    stage.redis.hget(stage.keys.webhookHolders, member),
  ]);
  return at === null || holder !== null ? undefined : Number(at);
}

/** What pushes: `lose` ends it as abruptly as it can be ended here, and begins another. */
interface Pushers {
  kills: number;
  lose(): Promise<void>;
}

function pushersHere(): Pushers {
  let push = startPush();
  return {
    kills: 0,
    async lose() {
      await push.stop();
      push = startPush();
    },
  };
}

/** Two API processes; each time the next one is killed, for it may be the one that pushes. */
async function pushingApis(): Promise<Pushers> {
  const start = () => startCommandLineApi(stage, { args: ["--webhooks-anywhere"] });
  const apis: CommandLineApi[] = await Promise.all([start(), start()]);
  const pushers: Pushers = {
    kills: 0,
    async lose() {
      if (pushers.kills === MOST_API_KILLS) return;
      pushers.kills += 1;
      await apis.shift()?.kill();
      apis.push(await start());
    },
  };
  return pushers;
}

test(
  "0 replies are lost and each is acked once while the receiver is killed at random, and what pushes is lost",
  async () => {
    const parentId = "stormy";
    const parent = stage.parent(parentId);
    const directory = await mkdtemp(join(tmpdir(), "webhooks-"));
    closeAtEnd(() => rm(directory, { recursive: true }));
    const journal = join(directory, "journal");
    await writeFile(journal, "");
    const port = await freePort();
    const { secret } = await parent.webhook.set({ url: `http://127.0.0.1:${port}/` });
    const random = seeded(SEED);
    const pushers = IS_LONG ? await pushingApis() : pushersHere();
    let receiver = await spawnReceiver(port, journal, secret);
    let kills = 0;
    let isOver = false;
    const killing = (async () => {
      while (!isOver && kills < MOST_KILLS) {
        const more = random.between(0, (JOURNAL_LINE_BYTES * REPLIES) / MOST_KILLS);
        const written = readFileSync(journal, "utf8").length + more;
        await until(() => isOver || readFileSync(journal, "utf8").length > written, { timeoutMs: 60_000 });
        if (isOver) return;
        receiver.kill("SIGKILL");
        await once(receiver, "exit");
        kills += 1;
        if (random.next() < 0.3) await pushers.lose();
        receiver = await spawnReceiver(port, journal, secret);
      }
    })();
    const begunMs = performance.now();
    const made = await Promise.all(
      Array.from({ length: AGENTS }, () => makeReplies(parentId, REPLIES / AGENTS)),
    );
    const madeMs = performance.now() - begunMs;
    const ids = made.flat();
    const { replies } = stage.keys.parent({ tenant: "default", parentId });
    await until(async () => (await stage.redis.xlen(replies)) === 0, {
      timeoutMs: 120_000 + REPLIES * PER_REPLY_MS,
    });
    const pushedMs = performance.now() - begunMs;
    isOver = true;
    await killing;
    const lines = readFileSync(journal, "utf8").trim().split("\n");
    expect(lines.filter((line) => !line.startsWith("ok "))).toEqual([]);
    expect([...new Set(lines.map((line) => line.slice(3)))].sort()).toEqual(ids.sort());
    expect(kills).toBeGreaterThan(2);
    const { record } = stage.keys.agent({ tenant: "default", parentId, uid: `sa-${"?".repeat(24)}` });
    const records = await keysLike(stage.redis, record.replaceAll(/[{}]/g, "?"));
    const acked = await Promise.all(records.map((key) => stage.redis.hexists(key, "acked_by")));
    expect(acked.filter((isAcked) => isAcked === 1)).toHaveLength(REPLIES);
    if (IS_LONG)
      console.info(
        `seed ${SEED}: ${REPLIES} replies made in ${Math.round(madeMs)} ms and all acked once after ${Math.round(pushedMs)} ms, ` +
          `${kills} kills of the receiver and ${pushers.kills} of an API process, ${lines.length - REPLIES} sent again`,
      );
  },
  180_000 + REPLIES * PER_REPLY_MS,
);

describe("an entry that its receiver refuses", () => {
  test("comes again, and holds up none behind it", async () => {
    const parent = stage.parent("picky");
    let refusals = 0;
    const { seen, url } = await startReceiver((request, response) => {
      const isFirst = request.headers["webhook-id"] === seen[0]?.headers["webhook-id"];
      const isRefused = isFirst && refusals < 3;
      if (isRefused) refusals += 1;
      response.writeHead(isRefused ? 500 : 204).end();
    });
    const ids = await makeReplies("picky", 4);
    await parent.webhook.set({ url });
    startPush();
    await until(async () => (await unacked("picky")).length === 0);
    expect(refusals).toBe(3);
    expect(new Set(seen.map(({ headers }) => headers["webhook-id"]))).toEqual(new Set(ids));
  });

  test("holds up none behind it, also when a whole round of them is refused", async () => {
    const parent = stage.parent("choosy");
    const ids = await makeReplies("choosy", 40);
    const refused = new Set(ids.slice(0, 35));
    const { url } = await startReceiver(({ headers }, response) =>
      response.writeHead(refused.has(String(headers["webhook-id"])) ? 422 : 204).end(),
    );
    await parent.webhook.set({ url });
    startPush();
    const { replies } = stage.keys.parent({ tenant: "default", parentId: "choosy" });
    await until(async () => (await stage.redis.xlen(replies)) === refused.size);
    refused.clear();
    await until(async () => (await stage.redis.xlen(replies)) === 0);
  });

  test("with 410 ends the pushing until the webhook is set again", async () => {
    const parent = stage.parent("moved");
    const { seen, url } = await startReceiver((_request, response) => response.writeHead(410).end());
    await makeReplies("moved", 1);
    await parent.webhook.set({ url });
    startPush();
    await until(async () => (await parent.webhook.get()).status === "disabled");
    expect(await unacked("moved")).toHaveLength(1);
    const before = seen.length;
    await makeReplies("moved", 1);
    const other = await startReceiver((_request, response) => response.writeHead(200).end());
    await parent.webhook.set({ url: other.url });
    await until(async () => (await unacked("moved")).length === 0);
    expect(seen.length).toBe(before);
  });
});

test("a request that is not answered for long holds up none, and its process keeps the slot to push", async () => {
  const parent = stage.parent("slow");
  const { webhooksDue, webhookHolders } = stage.keys;
  const heldUntil = async () => Number(await stage.redis.zscore(webhooksDue, "default/slow"));
  const held: ServerResponse[] = [];
  const { seen, url } = await startReceiver((request, response) => {
    if (request.headers["webhook-id"] === seen[0]?.headers["webhook-id"]) held.push(response);
    else response.writeHead(204).end();
  });
  await makeReplies("slow", 40);
  await parent.webhook.set({ url });
  startPush();
  await until(async () => (await unacked("slow")).length === 1);
  // No slot that is kept ends so late: whoever keeps it brings that forward, who takes it when it is due does not.
  const never = 1e15;
  await stage.redis.zadd(webhooksDue, never, "default/slow");
  await until(async () => (await heldUntil()) < never);
  for (const response of held) response.writeHead(204).end();
  await until(async () => (await unacked("slow")).length === 0);
  // A look that was asked for meanwhile may take the slot once more, and finds nothing.
  await until(async () => {
    const holder = await stage.redis.hexists(webhookHolders, "default/slow");
    return holder === 0 && (await stage.redis.zscore(webhooksDue, "default/slow")) === null;
  });
  expect(held).toHaveLength(1);
});

describe("a private address", () => {
  test("is refused when it is set, and when a name leads to it", async () => {
    const api = await startApi({ client: stage.client() });
    for (const url of [
      "https://127.0.0.1/x",
      "https://10.0.0.8/",
      "https://169.254.169.254/latest/meta-data",
      "https://[::1]/",
      "https://[::ffff:10.0.0.1]/",
      "https://2130706433/",
      "http://example.com/",
      "https://user:secret@example.com/",
      "https://:secret@example.com/",
      "ftp://example.com/",
      "/hook",
    ]) {
      const { status, body } = await api.ask("PUT", "/v1/parents/guarded/webhook", { body: { url } });
      expect({ url, status, code: body.code }).toEqual({ url, status: 400, code: "invalid_input" });
    }
    expect((await api.ask("GET", "/v1/parents/guarded/webhook")).body.code).toBe("unknown_webhook");
  });

  test("is not dialled: the request fails, the reply stays, and the parent can read why", async () => {
    const { seen, url } = await startReceiver((_request, response) => response.writeHead(200).end());
    const parent = stage.parent("rebound");
    await makeReplies("rebound", 1);
    await parent.webhook.set({ url: url.replace("http://127.0.0.1", "https://localhost") });
    startPush({ reach: "public" });
    const view = await until(async () => {
      const found = await parent.webhook.get();
      return found.status === "failing" && found;
    });
    expect(view.last_problem).toMatch(/public addresses only/);
    expect(seen).toEqual([]);
    expect(await unacked("rebound")).toHaveLength(1);
  });
});

/**
 * Has agents of a parent end, each after one run: a conversation that grows would cost more with every reply. Resolves to the
 * ids of the replies.
 */
async function makeReplies(parentId: string, count: number): Promise<string[]> {
  const parent = stage.parent(parentId);
  const ids: string[] = [];
  for (let made = 0; made < count; made++) {
    const begun = await beginTask(parent, { prompt: "Say hello" });
    await waitForTask(parent, begun, new AbortController().signal);
    ids.push(replyIdOf(begun.address.uid, FIRST_RUN));
  }
  return ids;
}

async function spawnReceiver(port: number, journal: string, secret: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [RECEIVER, String(port), journal, secret], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  closeAtEnd(() => void child.kill("SIGKILL"));
  if (child.stdout) await once(child.stdout, "data");
  return child;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** Callbacks of the Agent Protocol whose server misbehaves, or whose process dies in between. */
import { createServer, type ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createCallbackSender } from "../../../src/service/agent-protocol/callback.ts";
import { AGENT_PROTOCOL_PATH, agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const DAY_MS = 86_400_000;

/** A server that only `answer` answers; `keys`: the keys that its requests showed. */
async function startServer(answer: (response: ServerResponse) => void) {
  const keys: unknown[] = [];
  const server = createServer((request, response) => {
    keys.push(request.headers["x-api-key"]);
    answer(response);
  });
  return { url: await listenUntilEnd(server), keys };
}

/** A thread whose run ended `minutesAgo`, noted to be told to the thread `callbackThreadId`. */
async function endedThread(
  { client, store, redis, keys }: Stage,
  { callbackThreadId = "main", minutesAgo = 0 } = {},
): Promise<void> {
  const threadId = newThreadId();
  const thread = openThread(client(), "default", "planner-7", threadId);
  await thread.begin({ assistantId: "researcher", text: "go", callbackThreadId });
  const how = { target: "ended", ended_reason: "failed", status: "failed", stop_reason: "worker_lost" };
  const agent = { tenant: "default", parentId: "planner-7", uid: threadId };
  await store.settle(agent, { authority: "parent", ...how } as Parameters<typeof store.settle>[1]);
  await redis.hincrby(keys.agent(agent).record, "ended_at", -minutesAgo * 60_000);
}

test("a redirection is not followed: the key goes to the operator's server only", async () => {
  const stage = await openStage();
  const other = await startServer((response) => response.writeHead(200).end());
  const named = await startServer((response) => response.writeHead(307, { location: other.url }).end());
  await endedThread(stage);
  const sender = createCallbackSender({
    client: stage.client(),
    url: named.url,
    apiKey: "lg-abc",
    retryMs: 10,
  });
  closeAtEnd(() => sender.stop());
  sender.start();
  await until(() => named.keys.length === 2);
  expect([named.keys, other.keys]).toEqual([["lg-abc", "lg-abc"], []]);
});

test("a run is begun for the thread of any name but those of a directory", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client(), mounts: [agentProtocol({ callsBack: true })] });
  const statuses = ["..", ".", "...", "..a", "a..", "main"].map(async (callbackThreadId) => {
    const input = { messages: [{ role: "user", content: "go" }], callbackThreadId };
    const path = `${AGENT_PROTOCOL_PATH}/threads/${newThreadId()}/runs`;
    return (await api.ask("POST", path, { body: { assistant_id: "researcher", input } })).status;
  });
  expect(await Promise.all(statuses)).toEqual([400, 400, 200, 200, 200, 200]);
});

test("a noted thread whose id would lead out of the threads gets no request", async () => {
  const stage = await openStage();
  const { url, keys } = await startServer((response) => response.writeHead(200).end());
  for (const callbackThreadId of ["..", "."])
    await endedThread(stage, { callbackThreadId, minutesAgo: 24 * 60 + 1 });
  const sender = createCallbackSender({ client: stage.client(), url, apiKey: "lg-abc" });
  closeAtEnd(() => sender.stop());
  sender.start();
  await until(async () => (await stage.redis.zcard(stage.keys.callbacks)) === 0);
  expect(keys).toEqual([]);
});

test.for([
  ["a day is given up", 24 * 60 + 1, true],
  ["23 hours is kept", 23 * 60, false],
] as const)("a callback that a server has not taken for %s", async ([, minutes, isGivenUp]) => {
  const stage = await openStage();
  const { url } = await startServer((response) => response.writeHead(503).end());
  await endedThread(stage, { minutesAgo: minutes });
  // The end is stamped by Redis' clock, so that of this host says nothing of its age.
  const clock = { ...systemClock, now: () => systemClock.now() + (isGivenUp ? -1 : 1) * 2 * DAY_MS };
  const given: unknown[] = [];
  const logger = createLogger({
    level: "warn",
    destination: { write: (line) => void given.push(JSON.parse(line).given_up) },
  });
  const sender = createCallbackSender({ client: stage.client(), url, clock, logger });
  closeAtEnd(() => sender.stop());
  sender.start();
  await until(() => given.length > 0);
  // The request that is under way at a stop is ended with what it brought.
  await sender.stop();
  const kept = await stage.redis.zcard(stage.keys.callbacks);
  expect({ given, kept }).toEqual({ given: [isGivenUp], kept: isGivenUp ? 0 : 1 });
});

test("a run that was cancelled is called back to nobody: its client knows", async () => {
  const stage = await openStage();
  const { url, keys } = await startServer((response) => response.writeHead(200).end());
  const thread = openThread(stage.client(), "default", "planner-7", newThreadId());
  await thread.begin({ assistantId: "researcher", text: "go", callbackThreadId: "main" });
  await thread.cancel();
  const sender = createCallbackSender({ client: stage.client(), url, apiKey: "lg-abc" });
  closeAtEnd(() => sender.stop());
  sender.start();
  await until(async () => (await stage.redis.zcard(stage.keys.callbacks)) === 0);
  expect(keys).toEqual([]);
});

test("an API that calls nobody back keeps no note of the thread that a run names", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client(), mounts: [agentProtocol()] });
  const threadId = newThreadId();
  const input = { messages: [{ role: "user", content: "go" }], callbackThreadId: "main" };
  const body = { assistant_id: "researcher", input };
  const path = `${AGENT_PROTOCOL_PATH}/threads/${threadId}/runs`;
  expect((await api.ask("POST", path, { body })).status).toBe(200);
  const { callback } = stage.keys.parent({ tenant: "default", parentId: "agent-protocol" });
  expect(await stage.redis.exists(stage.keys.callbacks)).toBe(0);
  expect(await stage.redis.exists(callback(threadId))).toBe(0);
});

test("a server that answers nothing gets 64 requests at most, however many threads have ended", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  const { url } = await startServer(() => {});
  for (let thread = 0; thread < 66; thread += 1) await endedThread(stage);
  let passes = 0;
  const clock: Clock = {
    ...systemClock,
    async sleep() {
      passes += 1;
      await new Promise(setImmediate);
    },
  };
  const sender = createCallbackSender({ client: stage.client(), url, clock });
  closeAtEnd(() => sender.stop());
  sender.start();
  // A note that is being sent is put off for a minute, one that has to wait for a second.
  const notes = (inMs: number) => redis.zcount(keys.callbacks, Date.now() + inMs, "+inf");
  await until(async () => (await notes(30_000)) >= 64);
  for (const member of await redis.zrangebyscore(keys.callbacks, "-inf", Date.now() + 30_000))
    await redis.zadd(keys.callbacks, 1, member);
  const before = passes;
  await until(() => passes >= before + 2);
  expect([await notes(30_000), await redis.zcard(keys.callbacks)]).toEqual([64, 66]);
});

test("a callback is noted before its agent exists: a process that dies in between leaves none untold", async () => {
  const stage = await openStage({ redis: "own" });
  const { keys, server } = stage;
  const noted: boolean[] = [];
  let isSpawned = false;
  const monitor = await openMonitor(server.url, (_at, [command = "", key = ""], source) => {
    if (source === "lua" && key.includes("planner-7") && /^hset$/i.test(command)) isSpawned = true;
    if (/^zadd$/i.test(command) && key === keys.callbacks) noted.push(isSpawned);
  });
  closeAtEnd(() => monitor.stop());
  const thread = openThread(stage.client(), "default", "planner-7", newThreadId());
  await thread.begin({ assistantId: "researcher", text: "go", callbackThreadId: "main" });
  await monitor.caughtUp();
  expect(noted).toEqual([false, true]);
});

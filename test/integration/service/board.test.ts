/** The board over a real queue: what it shows, what it refuses, and that it changes nothing. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, request } from "node:http";
import { appRoutes } from "@bull-board/api/dist/routes.js";
import { beforeAll, describe, expect, test } from "vitest";
import { type BoardOptions, createBoard } from "../../../src/service/board/board.ts";
import { createBullBoardRouter } from "../../../src/service/board/bull-board.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis, type RedisClient } from "../../../src/shared/redis/connection/connection.ts";
import { createWakeQueue, openWakeQueueForReading } from "../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { keysLike, redisUrl, startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { SECRET, stageWakes, type WakeScene } from "../../helpers/wake-scene.ts";

const MUTATING = appRoutes.api.flatMap(({ method, route }) =>
  [method]
    .flat()
    .filter((name) => name !== "get")
    .map((name) => [name.toUpperCase(), String(route)] as const),
);
const READING = appRoutes.api.filter(({ method }) => method === "get").map(({ route }) => String(route));

const prefix = uniquePrefix();
let scene: WakeScene;
let board: string;
let redis: RedisClient;

beforeAll(async () => {
  board = await startBoard({ redisUrl: redisUrl(), prefix });
  redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  scene = await stageWakes(prefix);
});

describe("what it shows", () => {
  test("every job in its state", async () => {
    const { counts } = await queueAt("latest");
    expect(counts).toMatchObject({ completed: 3, failed: 1, active: 1, waiting: 1, delayed: 1 });
    const idsOf = async (state: string) => (await queueAt(state)).jobs.map(({ id }) => id).sort();
    expect(await idsOf("completed")).toEqual([...scene.completed].sort());
    expect(await idsOf("failed")).toEqual([scene.failed]);
    expect(await idsOf("active")).toEqual([scene.active]);
    expect(await idsOf("waiting")).toEqual([scene.waiting]);
    expect(await idsOf("delayed")).toEqual([scene.delayed]);
  });

  test.each(["jobsPerPage=1000", "jobsPerPage=-1", "jobsPerPage=none", "jobsPerPage=1000&page=-3", ""])(
    "at most 100 jobs of a state at once, whatever an address asks for: %s",
    async (query) => {
      const crowded = uniquePrefix();
      const wakes = createWakeQueue(redis, keysUnder(crowded));
      closeAtEnd(() => wakes.stop());
      const ids = Array.from({ length: 120 }, (_, n) => `sa-${String(n).padStart(24, "0")}`);
      await Promise.all(
        ids.map((uid) =>
          wakes.add({ tenant: "acme", parent_id: "planner", uid, agent_id: "waiter", wake: 1 }, 60_000),
        ),
      );
      const address = await startBoard({ redisUrl: redisUrl(), prefix: crowded });
      await until(async () => (await ask(`${address}/api/queues`)).status === 200);
      const { status, body } = await ask(`${address}/api/queues?activeQueue=wakes&status=delayed&${query}`);
      if (status !== 200) return expect(status).toBe(400);
      const [{ jobs, counts }] = JSON.parse(body).queues;
      expect(counts.delayed).toBe(120);
      expect(jobs.length).toBeGreaterThan(0);
      expect(jobs.length).toBeLessThanOrEqual(100);
    },
  );

  test("a run's outcome as status, stop reason and turns under the agent's id", async () => {
    const { jobs } = await queueAt("completed");
    expect(jobs.map(({ name }) => name).sort()).toEqual([
      "code_reviewer",
      "data_collector",
      "data_collector_2",
    ]);
    for (const { returnValue } of jobs) {
      expect(returnValue).toEqual({ status: "succeeded", stop_reason: "end_turn", turns: 1 });
    }
  });

  test("a run that settled failed stands there as failed, with its stop reason", async () => {
    const [job] = (await queueAt("failed")).jobs;
    expect(job).toMatchObject({ isFailed: true, failedReason: "The run ended as failed: refusal." });
  });

  test("that a worker is there", async () => {
    expect(await queueAt("latest")).toMatchObject({ hasWorkers: true, readOnlyMode: true });
  });

  test("no prompt, reply, log or stack on any route, whatever stands in the queue", async () => {
    const foreignPrefix = uniquePrefix();
    const foreign = await startBoard({ redisUrl: redisUrl(), prefix: foreignPrefix });
    await putTalkativeJob(foreignPrefix);
    for (const [address, jobId] of [
      [board, scene.failed],
      [foreign, "talkative"],
    ] as const) {
      for (const route of [...READING, "/api/queues?activeQueue=wakes&status=failed"]) {
        const answer = await ask(address + pathOf(route, jobId));
        expect(answer.status, route).toBe(200);
        expect(answer.body, route).not.toContain(SECRET);
        expect(answer.body, route).not.toContain("node_modules");
      }
    }
    expect((await ask(`${foreign}/api/queues/wakes/talkative`)).body).toContain("(hidden)");
  });
});

describe("what it refuses", () => {
  test("Bull Board has the mutating routes that this file is about", () => {
    expect(MUTATING.length).toBeGreaterThan(20);
  });

  test.for(MUTATING)("%s %s is refused and changes nothing", async ([method, route]) => {
    const before = await snapshot();
    for (const state of ["delayed", "failed"] as const) {
      const answer = await ask(board + pathOf(route, scene[state], state), { method, body: "{}" });
      expect(answer.status).toBe(405);
      expect(answer.headers.allow).toBe("GET, HEAD");
    }
    expect(await snapshot()).toEqual(before);
  });

  test("what would change a queue does not even exist behind that refusal", async () => {
    const queue = await openWakeQueueForReading(redis, keysUnder(prefix));
    const server = createServer(createBullBoardRouter(queue, ""));
    closeAtEnd(async () => {
      server.close();
      await queue.close();
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const before = await snapshot();
    for (const [method, route] of MUTATING) {
      const url = `http://127.0.0.1:${address.port}${pathOf(route, scene.delayed)}`;
      expect((await ask(url, { method, body: "{}" })).status, `${method} ${route}`).toBe(404);
    }
    expect(await snapshot()).toEqual(before);
  });

  test("a request that came under a name of somebody else", async () => {
    const { status, body } = await ask(`${board}/api/queues`, { headers: { host: "evil.example" } });
    expect(status).toBe(403);
    expect(body).toContain("--host-name");
  });

  test("a request that another site makes, also for the pages and their files", async () => {
    for (const path of ["", "/api/queues", "/static/favicon.ico"]) {
      const { status } = await ask(board + path, { headers: { "sec-fetch-site": "cross-site" } });
      expect(status, path).toBe(403);
    }
  });

  test("an unknown path, with a problem document", async () => {
    const { status, headers, body } = await ask(new URL("/nothing", board).href);
    expect(status).toBe(404);
    expect(headers["content-type"]).toMatch(/^application\/problem\+json/);
    expect(JSON.parse(body)).toMatchObject({ status: 404, title: "Not Found" });
  });

  test("to be framed, to load from elsewhere, and to name its framework", async () => {
    for (const path of ["", "/queue/wakes", "/static/favicon.ico", "/api/queues"]) {
      const { headers, body } = await ask(board + path);
      const policy = String(headers["content-security-policy"]);
      expect(policy, path).toContain("frame-ancestors 'none'");
      expect(policy, path).toContain("script-src 'self'");
      expect(policy, path).not.toMatch(/https?:|unsafe-eval|script-src[^;]*unsafe/);
      expect(headers["x-powered-by"], path).toBeUndefined();
      if (String(headers["content-type"]).startsWith("text/html"))
        expect(body).not.toMatch(/(href|src)="https?:/);
    }
  });
});

describe("its life", () => {
  test("the root leads to the board, and health tells about Redis", async () => {
    const root = await ask(new URL("/", board).href);
    expect(root).toMatchObject({ status: 302, headers: { location: "/admin/queues" } });
    const health = await ask(new URL("/healthz", board).href);
    expect(JSON.parse(health.body)).toEqual({ status: "ok", redis: "ready" });
    const ready = await ask(new URL("/readyz", board).href);
    expect(ready.status).toBe(200);
    expect(JSON.parse(ready.body)).toEqual({ ready: true, redis: "ready", reasons: [] });
  });

  test("it writes nothing, not even on an installation that has no queue yet", async () => {
    const empty = uniquePrefix();
    const address = await startBoard({ redisUrl: redisUrl(), prefix: empty });
    await until(async () => (await ask(`${address}/api/queues`)).status === 200);
    await ask(`${address}/api/redis/stats`);
    expect(await keysLike(redis, `*${empty}*`)).toEqual([]);
  });

  test("start and stop may be called again, and a stopped board may be started again", async () => {
    const again = createBoard({ redisUrl: redisUrl(), prefix });
    closeAtEnd(() => again.stop());
    await Promise.all([again.start(), again.start()]);
    const first = again.url;
    expect((await ask(first)).status).toBe(200);
    await Promise.all([again.stop(), again.stop()]);
    await expect(ask(first)).rejects.toThrow("ECONNREFUSED");
    await again.start();
    expect(again.url).toBe(first);
    expect((await ask(first)).status).toBe(200);
  });

  test("an address that is taken is named, and leaves nothing open", async () => {
    const port = Number(new URL(board).port);
    const second = createBoard({ redisUrl: redisUrl(), prefix, port });
    const refusal = await second.start().catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: "setup_failed", details: { host: "127.0.0.1", port } });
  });

  test.each([
    ["0.0.0.0", 1],
    ["127.0.0.1", 0],
  ])("on %s its log says so %d times: the board has no login", async (host, times) => {
    const lines: string[] = [];
    const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
    await startBoard({ redisUrl: redisUrl(), prefix, host, logger });
    expect(lines.filter((line) => line.includes("has no login and is open to the network"))).toHaveLength(
      times,
    );
  });

  test("a Redis address or a host name that is none is refused before anything starts", () => {
    expect(() => createBoard({ redisUrl: "localhost" })).toThrow(/redisUrl/);
    expect(() => createBoard({ redisUrl: redisUrl(), hostNames: ["board:80"] })).toThrow(/"board:80" is no/);
  });

  test("it starts without Redis, says so at once, and shows the queue when Redis is there", async () => {
    const server = await startPrivateRedis();
    await server.kill("SIGKILL");
    const address = await startBoard({ redisUrl: server.url });
    const away = await ask(`${address}/api/queues`);
    expect(away.status).toBe(503);
    expect(JSON.parse(away.body)).toMatchObject({ detail: expect.stringContaining("Redis") });
    expect((await ask(address)).status).toBe(200);
    expect((await ask(new URL("/healthz", address).href)).body).toContain('"away"');
    expect((await ask(new URL("/readyz", address).href)).status).toBe(503);
    await server.start();
    await until(async () => (await ask(`${address}/api/queues`)).status === 200);
  });

  test("a Redis that asks for another password later is not said to be silent", async () => {
    const server = await startPrivateRedis();
    const address = await startBoard({ redisUrl: server.url });
    await until(async () => (await ask(`${address}/api/queues`)).status === 200);
    const admin = openRedis(server.url, "worker");
    closeAtEnd(() => closeRedis(admin));
    await admin.config("SET", "requirepass", "canary");
    await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    const refused = await until(async () => {
      const { body } = await ask(new URL("/readyz", address).href);
      return body.includes("NOAUTH") && JSON.parse(body);
    });
    expect(refused.reasons).toEqual([
      expect.stringMatching(/^Redis refuses this connection .*correct its address\.$/),
    ]);
    expect(JSON.parse((await ask(`${address}/api/queues`)).body).detail).toBe(refused.reasons[0]);
    await admin.config("SET", "requirepass", "");
    await until(async () => (await ask(`${address}/api/queues`)).status === 200);
  });

  test("a Redis that swallows everything is answered for in time, and late answers do no harm", async () => {
    const proxy = await startProxy((await startPrivateRedis()).port);
    const hasty = {
      ...systemClock,
      timeout: (_ms: number, late: () => void) => systemClock.timeout(50, late),
    };
    const address = await startBoard({ redisUrl: `redis://127.0.0.1:${proxy.port}`, prefix, clock: hasty });
    await until(async () => (await ask(`${address}/api/queues`)).status === 200);
    proxy.pause();
    expect((await ask(`${address}/api/queues`)).status).toBe(503);
    await until(async () => (await ask(new URL("/readyz", address).href)).status === 503);
    proxy.resume();
    await until(async () => (await ask(`${address}/api/queues`)).status === 200);
  });
});

/** Starts a board and resolves with its address. */
async function startBoard(options: BoardOptions): Promise<string> {
  const started = createBoard(options);
  closeAtEnd(() => started.stop());
  await started.start();
  return started.url;
}

interface ShownJob {
  id: string;
  name: string;
  returnValue: unknown;
}

async function queueAt(status: string): Promise<{ jobs: ShownJob[]; counts: Record<string, number> }> {
  const { body } = await ask(`${board}/api/queues?activeQueue=wakes&jobsPerPage=20&status=${status}`);
  return JSON.parse(body).queues[0];
}

/** A route with its parameters filled in. */
function pathOf(route: string, jobId: string, queueStatus = "failed"): string {
  return route
    .replace(":queueName", "wakes")
    .replace(":jobId", jobId)
    .replace(":queueStatus", queueStatus)
    .replace(":schedulerId", "any");
}

/** Everything BullMQ keeps under this prefix, the lock and marker of the running job apart. */
async function snapshot(): Promise<unknown> {
  const queue = await openWakeQueueForReading(redis, keysUnder(prefix));
  try {
    const jobs = await queue.getJobs();
    return {
      counts: await queue.getJobCounts(),
      paused: await queue.isPaused(),
      meta: await redis.hgetall(`{${prefix}}:wakes:meta`),
      jobs: jobs.map((job) => JSON.stringify(job.toJSON())).sort(),
    };
  } finally {
    await queue.close();
  }
}

/** A failed job whose every field talks, as no worker of ours would leave it. */
async function putTalkativeJob(under: string): Promise<void> {
  const queue = await openWakeQueueForReading(redis, keysUnder(under));
  try {
    const job = await queue.add(SECRET, { prompt: SECRET }, { jobId: "talkative" });
    await job.log(SECRET);
    await job.updateProgress({ text: SECRET });
    const key = `{${under}}:wakes`;
    await redis.hset(`${key}:talkative`, {
      failedReason: `The model said ${SECRET}`,
      stacktrace: JSON.stringify([`Error: ${SECRET}\n    at /srv/node_modules/x.js:1:1`]),
      returnvalue: JSON.stringify({ summary: SECRET }),
      finishedOn: "1",
    });
    await redis.multi().lrem(`${key}:wait`, 0, "talkative").zadd(`${key}:failed`, 1, "talkative").exec();
    await queue.upsertJobScheduler(
      "nightly",
      { every: 3_600_000 },
      { name: SECRET, data: { prompt: SECRET } },
    );
  } finally {
    await queue.close();
  }
}

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

/** One request, with headers that fetch would not let through. */
function ask(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  const { method = "GET", headers = {}, body } = options;
  return new Promise((resolve, reject) => {
    const content = body === undefined ? {} : { "content-type": "application/json" };
    const sent = request(url, { method, headers: { ...content, ...headers }, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      );
      response.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

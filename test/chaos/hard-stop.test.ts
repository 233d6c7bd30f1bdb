/** Guarantee: a worker that is not let finish its stopping, or has no Redis to tell about it, costs time and nothing else. */
import { expect, test } from "vitest";
import { DRAIN_GRACE_MS } from "../../src/worker/pool.ts";
import { type Installation, openInstallation, SHORT_TIMING } from "../helpers/installation.ts";
import { type NodeProcess, spawnNode } from "../helpers/processes.ts";
import { HOLDS_NOTHING_BACK, startPrivateRedis } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

const RUNS = 4;
const done = { content: [{ type: "text" as const, text: "done" }] };
/** The first call hangs, the second one is answered. */
const scenario = { turns: [{ ...done, failures: [{ stream: { stallAfterChunks: 2 } }] }] };

/** The worker as the command line runs it, with the durations of production. */
async function startCommand(
  { prefix, offline, workspaceRoot }: Installation,
  redisUrl: string,
): Promise<NodeProcess> {
  const env = {
    REDIS_URL: redisUrl,
    SUBAGENT_PREFIX: prefix,
    SUBAGENT_WORKSPACES: workspaceRoot,
    SUBAGENT_MODEL: "offline-1",
    ANTHROPIC_API_KEY: "offline",
    ANTHROPIC_BASE_URL: offline.url,
  };
  const command = await spawnNode("src/cli/main.ts", { args: ["worker"], env });
  await command.waitForLine(/^ready: worker /, { timeoutMs: 60_000 });
  return command;
}

const beginRuns = async (installation: Installation) => {
  const agents = await Promise.all(Array.from({ length: RUNS }, (_, i) => installation.task(`work ${i}`)));
  await until(() => installation.offline.inFlight === RUNS && installation.offline.ledger.length === 0);
  return agents;
};

test("a second signal ends a stopping worker at once, and its runs go on elsewhere when their leases are over", {
  timeout: 60_000,
}, async () => {
  const server = await startPrivateRedis();
  const installation = await openInstallation({ redisUrl: server.url, scenario });
  const command = await startCommand(installation, server.url);
  const agents = await beginRuns(installation);
  const { redis, keys } = installation;
  process.kill(command.pid, "SIGTERM");
  // It stops: it takes nothing more, and waits for the steps at hand.
  await until(async () => (await redis.exists(keys.workers)) === 0, {
    what: "the worker to have said goodbye",
  });
  expect(command.isRunning).toBe(true);
  const startedMs = performance.now();
  const ending = await command.kill("SIGTERM");
  expect(ending).toEqual({ code: 130, signal: null });
  // The steps at hand hang: the first signal alone would have waited for them.
  expect(performance.now() - startedMs).toBeLessThan(DRAIN_GRACE_MS / 2);
  await until(() => installation.offline.inFlight === 0);
  await installation.startWorker();
  for (const agent of agents) {
    expect(await installation.reply(agent, 1, 30_000)).toMatchObject({
      status: "succeeded",
      summary: "done",
    });
    expect(await installation.entries(agent)).toHaveLength(1);
  }
  const ends = installation.offline.ledger.map(({ status }) => status);
  expect(ends.sort()).toEqual([...agents.map(() => "aborted"), ...agents.map(() => "served")]);
});

test.for(["killed", "frozen"] as const)(
  "a worker process that is stopped while its Redis is %s ends with 0 in 25 s, and its runs go on when Redis is back",
  { timeout: 60_000 },
  async (fate) => {
    const server = await startPrivateRedis({ arguments: HOLDS_NOTHING_BACK });
    const installation = await openInstallation({ redisUrl: server.url, scenario, timing: SHORT_TIMING });
    const worker = await installation.spawnWorker({ drainGraceMs: 2_000 });
    const agents = await beginRuns(installation);
    if (fate === "killed") await server.kill();
    else server.freeze();
    const startedMs = performance.now();
    const ending = await worker.kill("SIGTERM");
    const tookMs = performance.now() - startedMs;
    expect(ending, worker.stderr.join("\n")).toEqual({ code: 0, signal: null });
    expect(tookMs).toBeLessThan(25_000 - 8_000);
    process.stdout.write(
      `stop with Redis ${fate}: exit ${Math.round(tookMs)} ms after a grace of 2,000 ms\n`,
    );
    if (fate === "killed") await server.start();
    else server.thaw();
    await installation.startWorker();
    for (const agent of agents) {
      expect(await installation.reply(agent, 1, 30_000)).toMatchObject({
        status: "succeeded",
        summary: "done",
      });
      expect(await installation.entries(agent)).toHaveLength(1);
    }
  },
);

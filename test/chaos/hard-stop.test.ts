/** Guarantee: a worker that is not let finish its stopping, or has no Redis to tell about it, costs time and nothing else. */
import { expect, test } from "vitest";
import { reportTime } from "../helpers/figures.ts";
import { until } from "../helpers/until.ts";
import { openStage, SHORT_TIMING, type Stage } from "../stage/stage.ts";

const RUNS = 4;
const done = { content: [{ type: "text" as const, text: "done" }] };
/** The first call hangs, the second one is answered. */
const scenario = { turns: [{ ...done, failures: [{ stream: { stallAfterChunks: 2 } }] }] };

const beginRuns = async (stage: Stage) => {
  const agents = await Promise.all(Array.from({ length: RUNS }, (_, i) => stage.task(`work ${i}`)));
  await until(() => stage.offline.inFlight === RUNS && stage.offline.ledger.length === 0);
  return agents;
};

test("a second signal ends a stopping worker at once, and its runs go on elsewhere when their leases are over", async () => {
  const stage = await openStage({ redis: "own", scenario });
  const command = await stage.commandLineWorker();
  const agents = await beginRuns(stage);
  process.kill(command.pid, "SIGTERM");
  // It stops: it takes nothing more, and waits for the steps at hand.
  await until(async () => !(await command.readiness()).ready, { what: "a worker that takes nothing more" });
  expect(command.isRunning).toBe(true);
  const ending = await command.kill("SIGINT");
  // The steps at hand hang: the first signal alone would have waited for them, and then ended with 0.
  expect(ending).toEqual({ code: 130, signal: null });
  await until(() => stage.offline.inFlight === 0);
  await stage.startWorker();
  for (const agent of agents) {
    expect(await stage.reply(agent)).toMatchObject({
      status: "succeeded",
      summary: "done",
    });
    expect(await stage.entries(agent)).toHaveLength(1);
  }
  const ends = stage.offline.ledger.map(({ status }) => status);
  expect(ends.sort()).toEqual([...agents.map(() => "aborted"), ...agents.map(() => "served")]);
});

test.for(["killed", "frozen"] as const)(
  "a worker process that is stopped while its Redis is %s ends with 0 in 25 s, and its runs go on when Redis is back",
  async (fate) => {
    const stage = await openStage({ redis: "own", scenario, timing: SHORT_TIMING });
    const { server } = stage;
    const worker = await stage.spawnWorker({ drainGraceMs: 2_000 });
    const agents = await beginRuns(stage);
    if (fate === "killed") await server.kill();
    else server.freeze();
    const startedMs = performance.now();
    const ending = await worker.kill("SIGTERM");
    const tookMs = performance.now() - startedMs;
    expect(ending, worker.stderr.join("\n")).toEqual({ code: 0, signal: null });
    // Eight seconds less than with the grace of production.
    reportTime(`stop with Redis ${fate} and a grace of 2 s`, tookMs, 25_000 - 8_000);
    if (fate === "killed") await server.start();
    else server.thaw();
    await stage.startWorker();
    for (const agent of agents) {
      expect(await stage.reply(agent)).toMatchObject({
        status: "succeeded",
        summary: "done",
      });
      expect(await stage.entries(agent)).toHaveLength(1);
    }
  },
);

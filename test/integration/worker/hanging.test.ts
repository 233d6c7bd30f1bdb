/**
 * Guarantee: a tool that never returns cannot freeze a worker. Its process is ended from outside of its event loop, and no
 * other run is lost. That the hang counts as a crash of the run that hung is held by `quarantine.test.ts`.
 */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { type Agent, openStage, SHORT_TIMING } from "../../stage/stage.ts";

const NEIGHBOURS = 100;
const timing = { ...SHORT_TIMING, leaseMs: 2_000, renewMs: 400, leaseMarginMs: 400 };
const done = { content: [{ type: "text" as const, text: "done" }] };

test(`a worker whose event loop stands still for a lease is ended, with a line on stderr; ${NEIGHBOURS} neighbours succeed, each once`, async () => {
  const installation = await openStage({
    timing,
    latencyMs: 1_000,
    scenario: [
      {
        match: { user: "hang" },
        turns: [{ content: [{ type: "tool_use", name: "hang", input: {} }], latencyMs: 50 }, done],
      },
      { match: { user: "good" }, turns: [done] },
    ],
  });
  const worker = await installation.spawnWorker({ concurrency: NEIGHBOURS + 1, watchdog: true });
  const neighbours: Agent[] = [];
  for (let i = 0; i < NEIGHBOURS; i += 1) neighbours.push(await installation.spawn());
  const hanging = await installation.spawn();
  await Promise.all(neighbours.map((agent) => installation.send(agent, "good")));
  await installation.send(hanging, "hang");

  expect(await worker.closed).toEqual({ code: null, signal: "SIGKILL" });
  expect(worker.stderr.join("\n")).toContain(
    `worker ${worker.id} (pid ${worker.pid}) is ended: its event loop stood still for 2000 ms`,
  );
  await installation.startWorker({ concurrency: NEIGHBOURS + 1 });
  for (const agent of neighbours)
    expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  for (const agent of neighbours) expect(await installation.entries(agent)).toHaveLength(1);
});

test("a worker of the command line is ended when its event loop stands still", async () => {
  const stage = await openStage();
  const hangs = new URL("../../helpers/fixtures/hang-on-signal.mjs", import.meta.url);
  const worker = await stage.commandLineWorker({ env: { NODE_OPTIONS: `--import=${hangs}` } });
  process.kill(worker.pid, "SIGUSR2");
  expect(await worker.closed).toEqual({ code: null, signal: "SIGKILL" });
  expect(worker.stderr.at(-1)).toMatch(/^subagent-queue: worker .* is ended: its event loop stood still/);
});

test("a process that was stopped for longer than a lease goes on", async () => {
  const installation = await openStage({ timing, scenario: { turns: [done] } });
  const worker = await installation.spawnWorker({ watchdog: true });
  worker.freeze();
  await systemClock.sleep(timing.leaseMs * 1.5);
  worker.thaw();
  const agent = await installation.task("go");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  expect(worker.isRunning).toBe(true);
});

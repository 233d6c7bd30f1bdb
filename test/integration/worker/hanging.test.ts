/**
 * Guarantee: a tool that never returns cannot freeze a worker. Its process is ended from outside of its event loop, no other run
 * is lost, and the hang counts as a crash of the run that hung: it is a suspect from then on.
 */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage } from "../../stage/stage.ts";

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

/** A claim as a worker makes it that has a process for suspects. */
function claimOf({ store }: Stage, agent: Agent) {
  const terms = { worker: "heir", can_isolate: true, offered_tools: ["hang"] };
  return store.claim(agent, { claim_id: newRequestKey(), ...terms });
}

test("the hang counts as a crash of the run that hung, and its neighbour in a model call is no suspect", async () => {
  const installation = await openStage({
    timing,
    scenario: [
      { match: { user: "hang" }, turns: [{ content: [{ type: "tool_use", name: "hang", input: {} }] }] },
      { match: { user: "good" }, turns: [{ ...done, latencyMs: 600_000 }] },
    ],
  });
  const worker = await installation.spawnWorker({ watchdog: true });
  const neighbour = await installation.task("good");
  await until(() => installation.offline.inFlight === 1, { what: "the neighbour's call" });
  const hanging = await installation.task("hang");
  expect(await worker.closed).toEqual({ code: null, signal: "SIGKILL" });
  const claimed = (agent: Agent) =>
    until(async () => {
      const answer = await claimOf(installation, agent);
      return answer.status !== "held" && answer;
    });
  expect(await claimed(hanging)).toMatchObject({ status: "suspect" });
  expect(await claimed(neighbour)).toMatchObject({ status: "claimed" });
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

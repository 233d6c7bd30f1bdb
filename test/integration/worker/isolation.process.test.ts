/** Guarantee: a run in a process of suspects is seen, stopped and given back like any other run of its worker. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Scenario } from "../../../src/offline/server.ts";
import { TIMING, type Timing } from "../../../src/shared/protocol/limits.ts";
import { bundled } from "../../helpers/bundle.ts";
import { noteAndLook } from "../../helpers/fixtures/journaling-tools.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { readJournal } from "../../helpers/tool-journal.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage } from "../../stage/stage.ts";

/** No lease is renewed or over while a test lasts. */
const STILL: Timing = { ...TIMING, leaseMs: 3_600_000, renewMs: 1_200_000 };
const call = (name: string, input: Record<string, unknown>) => ({
  content: [{ type: "tool_use" as const, name, input }],
});
const done = { content: [{ type: "text" as const, text: "done" }] };
const BEHIND_GATE: Scenario = {
  turns: [call("note", { line: "a", gate: "gate" }), call("note", { line: "b" }), done],
};

/** A worker in this process, with one place for suspects, and a run in which two workers seem to have crashed. */
async function suspectOf(scenario: Scenario, timing: Timing) {
  const stage = await openStage({ timing, scenario });
  const { prefix, workspaceRoot, offline, redis, keys, store, wakes } = stage;
  const journal = join(workspaceRoot, "journal");
  const settings = { redisUrl: redisUrl(), prefix, modelUrl: offline.url, workspaceRoot, timing };
  const process = JSON.stringify({ ...settings, concurrency: 4, watchdog: true, journal });
  const file = await bundled("test/helpers/fixtures/worker-process.ts");
  const { model, heads } = recordingModel(offline.url);
  const worker = await stage.startWorker({
    concurrency: 4,
    model,
    tools: noteAndLook(journal),
    isolation: { file, args: [process, "isolated"] },
  });
  const agent = await stage.spawn();
  const payload = JSON.stringify({ v: 1, message_id: agent.uid, text: "work" });
  await store.send(agent, { message_id: agent.uid, payload, digest: "" });
  const held = { status: "running", epoch: "4", lease_until: "1", committed: "0" };
  await redis.hset(keys.agent(agent).record, { ...held, crashes_without_progress: "1" });
  const { tenant, parentId: parent_id, uid, agentId: agent_id } = agent;
  await wakes.add({ tenant, parent_id, uid, agent_id, wake: 1 });
  const journaled = (what: string) =>
    until(async () => (await readJournal(journal)).find((line) => line.what === what));
  return { stage, worker, agent, journaled, requestsHere: () => heads.length };
}

function fileOf({ workspaceRoot }: Stage, { tenant, parentId, agentId }: Agent, name: string): string {
  return join(workspaceRoot, tenant, parentId, "agents", agentId, "workspace", name);
}

test("a suspect is among the active runs of its worker, which goes on with it once it has advanced", async () => {
  const { stage, worker, agent, journaled, requestsHere } = await suspectOf(BEHIND_GATE, STILL);
  const { pid } = await journaled("began");
  expect([pid === process.pid, worker.active(), requestsHere()]).toEqual([false, [agent.uid], 0]);
  await writeFile(fileOf(stage, agent, "gate"), "");
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", turns: 3 });
  expect(requestsHere()).toBe(2);
});

test("a destroyed suspect is stopped at once, and not when its lease is renewed", async () => {
  const { stage, worker, agent, journaled } = await suspectOf(BEHIND_GATE, STILL);
  await journaled("began");
  await stage.destroy(agent);
  await journaled("cut off");
  await until(() => worker.active().length === 0);
});

test("a process of suspects that stands still is ended, so that another suspect may have its place", async () => {
  const timing = { ...SHORT_TIMING, leaseMs: 2_500, renewMs: 500, leaseMarginMs: 500 };
  const content = [...call("note", { line: "a" }).content, ...call("hang", {}).content];
  const { stage, worker, agent, journaled } = await suspectOf({ turns: [{ content }] }, timing);
  await journaled("began");
  await stage.destroy(agent);
  await until(() => worker.active().length === 0);
});

/**
 * A wake queue with jobs of every state, made by the real thing: agents spawned and sent to, a worker with the
 * offline model. The prompts carry {@link SECRET}, so that a test can look for it where no prompt may stand.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createOfflineModel } from "../../src/offline/server.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { createLogger } from "../../src/shared/logger.ts";
import type { AgentSpec } from "../../src/shared/protocol/agent.ts";
import { newRequestKey, newUid, slugOf } from "../../src/shared/protocol/ids.ts";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import { SPAWN_LIMITS } from "../../src/shared/protocol/limits.ts";
import { createAgentStore } from "../../src/shared/redis/agent-store.ts";
import { closeRedis, openRedis } from "../../src/shared/redis/connection.ts";
import { createWakeQueue, openWakeQueueForReading } from "../../src/shared/redis/wake-queue.ts";
import { createAnthropicModel } from "../../src/worker/model/anthropic.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { closeAtEnd } from "./cleanup.ts";
import { until } from "./until.ts";

/** Stands in every prompt, name apart, and in every reply of the scene. */
export const SECRET = "canary-9f2c41d7";
const PARENT = { tenant: "default", parentId: "planner-7" };
const LONG_MS = 3_600_000;

/** Job ids by state; one job of each state except `completed`, which has three. */
export interface WakeScene {
  completed: string[];
  failed: string;
  active: string;
  waiting: string;
  delayed: string;
}

/** Puts the jobs there and keeps the active one going until the end of the test (or file). */
export async function stageWakes(redisUrl: string, prefix: string): Promise<WakeScene> {
  const keys = keysUnder(prefix);
  const redis = openRedis(redisUrl, "worker");
  closeAtEnd(() => closeRedis(redis));
  const store = createAgentStore(redis, keys);
  const wakes = createWakeQueue(redis, keys);
  const reading = openWakeQueueForReading(redis, keys);
  closeAtEnd(async () => {
    await wakes.stop();
    await reading.close();
  });

  const ask = async (name: string, prompt: string, delayMs = 0): Promise<string> => {
    const address = { ...PARENT, uid: newUid() };
    const spec: AgentSpec = {
      v: 1,
      model: "offline-1",
      limits: SPAWN_LIMITS,
      keep_alive: false,
      idle_ms: LONG_MS,
    };
    const spawned = await store.spawn(address, {
      requestKey: newRequestKey(),
      digest: "d",
      stem: slugOf(name),
      name,
      spec: JSON.stringify(spec),
      idleMs: LONG_MS,
    });
    if (spawned.status !== "spawned") throw new Error(`spawn answered ${spawned.status}`);
    const message = { v: 1 as const, message_id: newRequestKey(), text: `${prompt} ${SECRET}` };
    const sent = await store.send(address, message, "d");
    if (sent.status !== "queued") throw new Error(`send answered ${sent.status}`);
    const wake = Number(sent.wake);
    await wakes.add(
      {
        tenant: PARENT.tenant,
        parent_id: PARENT.parentId,
        uid: address.uid,
        agent_id: spawned.agent_id,
        wake,
      },
      delayMs,
    );
    return `${address.uid}.${wake}`;
  };
  const reaches = (id: string, state: string) =>
    until(async () => (await reading.getJobState(id)) === state, { what: `job ${id} is ${state}` });

  await startWorker(redisUrl, prefix);
  const completed = [
    await ask("Data Collector", "Say hello."),
    await ask("Code Reviewer", "Say hello."),
    await ask("Data Collector", "Say hello."),
  ];
  const failed = await ask("Web Researcher", "refuse this");
  for (const id of completed) await reaches(id, "completed");
  await reaches(failed, "failed");
  const active = await ask("Report Writer", "stall on this");
  await reaches(active, "active");
  const waiting = await ask("Translator", "Say hello.");
  const delayed = await ask("Night Watch", "Say hello.", LONG_MS);
  await reaches(waiting, "waiting");
  await reaches(delayed, "delayed");
  return { completed, failed, active, waiting, delayed };
}

/** One run at a time, so that the stalled one keeps the next waiting. */
async function startWorker(redisUrl: string, prefix: string): Promise<void> {
  const offline = createOfflineModel({
    scenario: [
      {
        match: { user: "refuse this" },
        turns: [{ content: [{ type: "text", text: SECRET }], stop_reason: "refusal" }],
      },
      { match: { user: "stall on this" }, turns: [{ latencyMs: LONG_MS }] },
    ],
  });
  closeAtEnd(() => offline.stop());
  await offline.start();
  const workspaceRoot = await mkdtemp(join(tmpdir(), "wake-scene-"));
  closeAtEnd(() => rm(workspaceRoot, { recursive: true, force: true }));
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: offline.url, clock: systemClock });
  closeAtEnd(() => model.stop());
  const worker = createWorker({
    redisUrl,
    prefix,
    model,
    workspaceRoot,
    concurrency: 1,
    logger: createLogger({ level: "silent" }),
  });
  closeAtEnd(async () => {
    await offline.stop();
    await worker.stop();
  });
  await worker.start();
}

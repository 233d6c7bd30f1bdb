/**
 * Fills a wake queue with jobs of every state through real agents and a worker with the offline model. The prompts contain
 * {@link SECRET}, so that a test can search for it where no prompt may appear.
 */
import { TIMING } from "../../src/shared/protocol/limits.ts";
import { openWakeQueueForReading } from "../../src/shared/redis/wake-queue.ts";
import { openStage } from "../stage/stage.ts";
import { closeAtEnd } from "./cleanup.ts";
import { until } from "./until.ts";

/** Text in every prompt and every reply of the scene, but in no agent's name. */
export const SECRET = "canary-9f2c41d7";
const LONG_MS = 3_600_000;
const scenario = [
  {
    match: { user: "refuse this" },
    turns: [{ content: [{ type: "text" as const, text: SECRET }], stop_reason: "refusal" as const }],
  },
  { match: { user: "stall on this" }, turns: [{ latencyMs: LONG_MS }] },
];

/** Job ids by state; one job of each state except `completed`, which has three. */
export interface WakeScene {
  completed: string[];
  failed: string;
  active: string;
  waiting: string;
  delayed: string;
}

/** Creates the jobs under this prefix. The active job runs until the end of the test (or file). */
export async function stageWakes(prefix: string): Promise<WakeScene> {
  // No check before the test is over: it would give the delayed agent another wake.
  const stage = await openStage({ prefix, scenario, timing: { ...TIMING, checkMs: LONG_MS } });
  const reading = await openWakeQueueForReading(stage.redis, stage.keys);
  closeAtEnd(() => reading.close());
  const ask = async (name: string, prompt: string, delayMs = 0): Promise<string> => {
    const agent = await stage.spawn({ name, idle_ms: LONG_MS });
    await stage.send(agent, `${prompt} ${SECRET}`, delayMs);
    return `${agent.uid}.1`;
  };
  const reaches = (id: string, state: string) =>
    until(async () => (await reading.getJobState(id)) === state, { what: `job ${id} is ${state}` });

  // One run at a time, so that the stalled run makes the next one wait.
  await stage.startWorker({ concurrency: 1 });
  closeAtEnd(() => stage.offline.stop());
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

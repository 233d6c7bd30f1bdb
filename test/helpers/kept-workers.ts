/** Restarts worker processes whenever they die, as a supervisor does. */

import type { Agent, Stage, WorkerProcess, WorkerProcessOptions } from "../stage/stage.ts";
import { type Latch, latch } from "./latch.ts";

/** The death of a worker process. */
export interface Death {
  worker: string;
  /** Uids of the agents whose run it held. */
  held: string[];
  /** Its exit code or signal. */
  how: unknown;
  /** Its last eight lines. */
  said: string[];
}

/** See the module's header. */
export interface KeptWorkers {
  readonly deaths: readonly Death[];
  /** Resolves when all of them have started to take wakes for the first time. */
  readonly up: Promise<void>;
  /** Drains the live workers. */
  stop(): Promise<void>;
}

/** Keeps `count` worker processes alive, and records which of `agents` each held when it died. */
export function keepWorkers(
  installation: Stage,
  count: number,
  agents: readonly Agent[],
  options: WorkerProcessOptions,
): KeptWorkers {
  const deaths: Death[] = [];
  const running = new Set<WorkerProcess>();
  const first = Array.from({ length: count }, () => latch());
  let stopped = false;
  const keep = async (started: Latch<void>): Promise<void> => {
    while (!stopped) {
      const worker = await installation.spawnWorker(options);
      running.add(worker);
      started.open();
      if (stopped) void worker.kill("SIGTERM");
      const how = await worker.closed;
      running.delete(worker);
      if (stopped) return;
      const records = await Promise.all(agents.map((agent) => installation.store.record(agent)));
      const held = records.flatMap((record) =>
        record?.status === "running" && record.worker === worker.id ? [record.uid] : [],
      );
      deaths.push({ worker: worker.id, held, how, said: [...worker.stdout, ...worker.stderr].slice(-8) });
    }
  };
  const keepers = first.map(keep);
  return {
    deaths,
    up: Promise.all(first.map(({ opened }) => opened)).then(() => {}),
    async stop() {
      stopped = true;
      await Promise.all([...running].map((worker) => worker.kill("SIGTERM")));
      await Promise.all(keepers);
    },
  };
}

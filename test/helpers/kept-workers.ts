/** Worker processes that are kept alive, whatever they die of, as a supervisor does. */

import type { Agent, Stage, WorkerProcess, WorkerProcessOptions } from "../stage/stage.ts";
import { type Latch, latch } from "./latch.ts";

/** Which runs a process held when it died. */
export interface Death {
  worker: string;
  held: string[];
  /** How it ended, and its last lines. */
  how: unknown;
  said: string[];
}

/** See the module's sentence. */
export interface KeptWorkers {
  readonly deaths: readonly Death[];
  /** Resolves when every one of them takes wakes for the first time. */
  readonly up: Promise<void>;
  /** Drains the workers that live. */
  stop(): Promise<void>;
}

/** Keeps `count` worker processes alive, and notes down which of `agents` they died with. */
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

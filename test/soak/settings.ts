/** Settings of the processes of a soak. Types only. */
import type { Timing } from "../../src/shared/protocol/limits.ts";

interface Common {
  redisUrl: string;
  prefix: string;
  timing: Timing;
  sampleEveryMs: number;
}

/** Settings of `fixtures/soak-worker.ts`. */
export interface WorkerSettings extends Common {
  modelUrl: string;
  workspaceRoot: string;
  concurrency: number;
  leakBytesPerS: number;
}

/** Settings of `fixtures/soak-parent.ts`. `paceMs`: average pause between two scenes of a loop; `idleMs`: of its agents. */
export interface ParentSettings extends Common {
  seed: number;
  paceMs: number;
  idleMs: number;
}

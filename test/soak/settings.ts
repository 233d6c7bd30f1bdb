/** What the processes of a soak are told. Types only. */
import type { Timing } from "../../src/shared/protocol/limits.ts";

interface Common {
  redisUrl: string;
  prefix: string;
  timing: Timing;
  sampleEveryMs: number;
}

/** For `fixtures/soak-worker.ts`. */
export interface WorkerSettings extends Common {
  modelUrl: string;
  workspaceRoot: string;
  concurrency: number;
  leakBytesPerS: number;
}

/** For `fixtures/soak-parent.ts`. `paceMs`: pause between two scenes of one of its loops, on average; `idleMs`: of its agents. */
export interface ParentSettings extends Common {
  seed: number;
  paceMs: number;
  idleMs: number;
}

/**
 * Runs the processes of a soak: one worker that no fault ends, others that faults may end, the parents, and an idle process.
 *
 * Owns: those processes. `faults.ts` decides the faults of the mortal ones.
 *
 * 1. The steady worker lives from the beginning to the end, so that its memory and descriptors can be judged.
 * 2. A killed worker is replaced before the next fault.
 */
import { readdirSync } from "node:fs";
import { type NodeProcess, spawnNode } from "../helpers/processes.ts";
import { OwnSample } from "./meter.ts";
import type { ParentSettings, WorkerSettings } from "./settings.ts";

/** A process under observation. */
export class Watched {
  readonly name: string;
  process: NodeProcess;
  #read = 0;
  #newest: OwnSample | undefined;

  constructor(name: string, running: NodeProcess) {
    this.name = name;
    this.process = running;
  }

  /** Its last sample; undefined before the first one. */
  get newest(): OwnSample | undefined {
    const { stdout } = this.process;
    for (; this.#read < stdout.length; this.#read++) {
      const line = stdout[this.#read] ?? "";
      if (line.startsWith("sample "))
        this.#newest = OwnSample.parse(JSON.parse(line.slice("sample ".length)));
    }
    return this.#newest;
  }

  /** Number of open descriptors; undefined when the process is gone. */
  get descriptors(): number | undefined {
    try {
      return readdirSync(`/proc/${this.process.pid}/fd`).length;
    } catch {
      return undefined;
    }
  }

  /** Replaces the process and forgets its samples. */
  replace(running: NodeProcess): void {
    this.process = running;
    this.#read = 0;
    this.#newest = undefined;
  }
}

/** See the module's header. */
export interface Fleet {
  readonly steady: Watched;
  readonly mortals: readonly Watched[];
  /** A worker that leaks memory on purpose, to test the soak itself. */
  readonly leaking: Watched | undefined;
  readonly parents: Watched;
  readonly idle: Watched;
  /** Starts a worker to replace one that is gone. */
  refill(place: Watched): Promise<void>;
  /** All workers: steady, mortal and leaking. */
  readonly workers: readonly Watched[];
  /** Kills all processes. */
  stop(): Promise<void>;
}

/** Settings of the processes, and the number of mortal workers. */
export interface FleetOptions {
  worker: WorkerSettings;
  parents: ParentSettings;
  mortals: number;
  leakBytesPerS: number;
}

const STARTS_WITHIN_MS = 120_000;

async function start(entry: string, argument: unknown): Promise<NodeProcess> {
  const child = await spawnNode(`test/soak/fixtures/${entry}.ts`, {
    args: [typeof argument === "string" ? argument : JSON.stringify(argument)],
  });
  await child.waitForLine(/^ready/, { timeoutMs: STARTS_WITHIN_MS });
  return child;
}

/** Starts all processes, the parents last. */
export async function startFleet({ worker, parents, mortals, leakBytesPerS }: FleetOptions): Promise<Fleet> {
  const startWorker = (more: Partial<WorkerSettings> = {}) => start("soak-worker", { ...worker, ...more });
  const watch = async (name: string, starting: Promise<NodeProcess>) => new Watched(name, await starting);
  const [idle, steady, leaking, ...others] = await Promise.all([
    watch("idle process", start("probe", String(worker.sampleEveryMs))),
    watch("steady worker", startWorker()),
    leakBytesPerS > 0 ? watch("leaking worker", startWorker({ leakBytesPerS })) : undefined,
    ...Array.from({ length: mortals }, (_, i) => watch(`worker ${i}`, startWorker())),
  ]);
  const fleet: Fleet = {
    idle,
    steady,
    leaking,
    mortals: others,
    parents: new Watched("parents", await start("soak-parent", parents)),
    workers: [steady, ...others, ...(leaking ? [leaking] : [])],
    refill: async (place) => place.replace(await startWorker()),
    async stop() {
      await Promise.all([...fleet.workers, fleet.parents, idle].map((one) => one.process.kill()));
    },
  };
  return fleet;
}

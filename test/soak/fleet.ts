/**
 * The processes of a soak: one worker that is never harmed, others that are, the parents, and one that does nothing.
 *
 * Owns: those processes. Its neighbour `faults.ts` decides what becomes of the mortal ones.
 *
 * 1. The steady worker lives from the beginning to the end: memory and descriptors are judged by it.
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

  /** What it said of itself last; undefined before the first time. */
  get newest(): OwnSample | undefined {
    const { stdout } = this.process;
    for (; this.#read < stdout.length; this.#read++) {
      const line = stdout[this.#read] ?? "";
      if (line.startsWith("sample "))
        this.#newest = OwnSample.parse(JSON.parse(line.slice("sample ".length)));
    }
    return this.#newest;
  }

  /** Open descriptors; undefined once it is gone. */
  get descriptors(): number | undefined {
    try {
      return readdirSync(`/proc/${this.process.pid}/fd`).length;
    } catch {
      return undefined;
    }
  }

  /** Puts another process into its place. */
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
  /** Loses memory on purpose; only for the test of the test. */
  readonly leaking: Watched | undefined;
  readonly parents: Watched;
  readonly idle: Watched;
  /** Starts a worker in the place of one that is gone. */
  refill(place: Watched): Promise<void>;
  /** All workers, harmed or not. */
  readonly workers: readonly Watched[];
  /** Kills whatever runs still. */
  stop(): Promise<void>;
}

/** What the processes are told, and how many mortal workers there are. */
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

/** Starts everything, the parents last. */
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

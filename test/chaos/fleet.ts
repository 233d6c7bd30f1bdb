/**
 * Runs the workers of a chaos run: real processes, each in a seat with its own proxy to Redis. A killed process is replaced.
 *
 * Owns: the seats and their processes. `fault-schedule.ts` decides which seat is hit, when and by what fault.
 *
 * 1. A seat is `up` if its process takes wakes and no fault acts on it.
 * 2. Only the fleet ends a process; one that ends by itself is recorded with its last lines.
 */
import { startProxy, type Proxy as TcpProxy } from "../helpers/proxy.ts";
import type { Stage, WorkerProcess } from "../stage/stage.ts";

/** A position in the fleet, whose worker process can be replaced. */
export interface Seat {
  readonly number: number;
  readonly proxy: TcpProxy;
  /** The seat's current process; it may be ending or frozen. */
  worker: WorkerProcess;
  up: boolean;
}

/** See the module's header. */
export interface Fleet {
  readonly seats: readonly Seat[];
  /** Descriptions of processes that ended without a SIGKILL. */
  readonly collapses: readonly string[];
  /** Kills the process of a seat and starts another. Resolves when the killed one is gone. */
  replace(seat: Seat): Promise<void>;
  /** Resolves when every seat has a process that takes wakes. */
  settled(): Promise<void>;
  /** Ends all processes. */
  stop(): Promise<void>;
}

/** Whether all workers have the same tools. */
export type FleetKind = "alike" | "mixed";

/** Options of a fleet. */
export interface FleetOptions {
  installation: Stage;
  /** Port of Redis. */
  redisPort: number;
  workers: number;
  concurrency: number;
  /** See `WorkerProcessOptions`. */
  journal: string;
  /** `mixed`: every second worker lacks the tool `note`. */
  kind: FleetKind;
  /** See `WorkerProcessOptions`. */
  isolation: boolean;
}

/** Starts `workers` processes; the test's end kills them. */
export async function startFleet({ installation, redisPort, ...options }: FleetOptions): Promise<Fleet> {
  const collapses: string[] = [];
  const coming = new Map<Seat, Promise<void>>();

  const board = async (proxy: TcpProxy, seat: number): Promise<WorkerProcess> => {
    const worker = await installation.spawnWorker({
      redisUrl: `redis://127.0.0.1:${proxy.port}`,
      journal: options.journal,
      concurrency: options.concurrency,
      isolation: options.isolation,
      lacks: options.kind === "mixed" && seat % 2 === 1 ? ["note"] : [],
    });
    void worker.closed.then(({ code, signal }) => {
      if (signal === "SIGKILL") return;
      const lastWords = [...worker.stdout, ...worker.stderr].slice(-5).join("\n");
      collapses.push(`${worker.id} ended by itself (code ${code}, signal ${signal}): ${lastWords}`);
    });
    return worker;
  };
  const takeSeat = async (_: unknown, number: number): Promise<Seat> => {
    const proxy = await startProxy(redisPort);
    return { number, proxy, worker: await board(proxy, number), up: true };
  };
  const seats = await Promise.all(Array.from({ length: options.workers }, takeSeat));
  const refill = async (seat: Seat) => {
    seat.worker = await board(seat.proxy, seat.number);
    seat.up = true;
  };
  return {
    seats,
    collapses,
    async replace(seat) {
      seat.up = false;
      await seat.worker.kill();
      const refilling = refill(seat).finally(() => coming.delete(seat));
      // A failed start is reported as a collapse.
      refilling.catch((error: unknown) =>
        collapses.push(`seat ${seat.number} stays empty: ${String(error)}`),
      );
      coming.set(seat, refilling);
    },
    async settled() {
      await Promise.allSettled([...coming.values()]);
    },
    async stop() {
      await Promise.allSettled([...coming.values()]);
      await Promise.all(seats.map((seat) => seat.worker.kill()));
    },
  };
}

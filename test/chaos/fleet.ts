/**
 * The workers of a chaos run: real processes, each in a seat behind a proxy of its own to Redis. A killed one is replaced.
 *
 * Owns: the seats and their processes. Its neighbour `fault-schedule.ts` decides who is hit, when and by what.
 *
 * 1. A seat is `up` when its process takes wakes and nothing is being done to it.
 * 2. A process ends only when the fleet ends it; one that ends by itself is remembered with its last words.
 */
import { startProxy, type Proxy as TcpProxy } from "../helpers/proxy.ts";
import type { Stage, WorkerProcess } from "../stage/stage.ts";

/** A place for a worker. */
export interface Seat {
  readonly number: number;
  readonly proxy: TcpProxy;
  /** The process that sits here; it may be on its way out or frozen. */
  worker: WorkerProcess;
  up: boolean;
}

/** See the module's header. */
export interface Fleet {
  readonly seats: readonly Seat[];
  /** Processes that ended although nobody killed them. */
  readonly collapses: readonly string[];
  /** Kills the process of a seat; resolves when it is gone. Another one is on its way then. */
  replace(seat: Seat): Promise<void>;
  /** Resolves when every seat has a process that takes wakes. */
  settled(): Promise<void>;
  /** Ends all processes. */
  stop(): Promise<void>;
}

/** Whether all workers have the same tools. */
export type FleetKind = "alike" | "mixed";

/** What a fleet needs. */
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

/** Starts `workers` processes; they end with the test. */
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
      // Whoever waits for the fleet to settle is told of a failure.
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

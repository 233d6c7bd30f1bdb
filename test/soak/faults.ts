/** Performs the faults of a soak on workers, connections and Redis, one at a time, drawn from a seed. */
import { setTimeout as sleep } from "node:timers/promises";
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";
import type { RedisServer } from "../helpers/redis-server.ts";
import type { Seeded } from "../helpers/seeded.ts";
import { until } from "../helpers/until.ts";
import type { Fleet, Watched } from "./fleet.ts";

/** Names of the faults. */
export const FAULTS = ["kill", "stop", "drain", "clients", "redis"] as const;
/** See {@link FAULTS}. */
export type Fault = (typeof FAULTS)[number];

/** A fault that has struck. */
export interface Strike {
  fault: Fault;
  /** Epoch ms. */
  at: number;
  /** Number of runs in progress at the struck workers. */
  hit: number;
}

/** Options of the faults. */
export interface FaultsOptions {
  fleet: Fleet;
  server: RedisServer;
  redis: RedisClient;
  chance: Seeded;
  leaseMs: number;
}

const LONGEST_OUTAGE_MS = 3_000;

/** Returns a function that performs the next fault where a run is in progress, and resolves after the repair. Random order. */
export function createFaults({ fleet, server, redis, chance, leaseMs }: FaultsOptions): {
  strike(): Promise<Strike>;
} {
  let coming: Fault[] = [];
  const activeOf = (places: readonly Watched[]) =>
    places.reduce((sum, { newest }) => sum + (newest?.active ?? 0), 0);
  const perform: Record<Fault, (victim: Watched) => Promise<void>> = {
    async kill(victim) {
      await victim.process.kill();
      await fleet.refill(victim);
    },
    async drain(victim) {
      await victim.process.kill("SIGTERM");
      await fleet.refill(victim);
    },
    async stop(victim) {
      victim.process.freeze();
      await sleep(leaseMs * (1 + chance.next() / 2));
      victim.process.thaw();
    },
    async clients() {
      await redis.client("KILL", "TYPE", "PUBSUB");
      await redis.client("KILL", "TYPE", "NORMAL", "SKIPME", "YES");
    },
    async redis() {
      await server.kill();
      await sleep(chance.next() * LONGEST_OUTAGE_MS);
      await server.start();
    },
  };
  return {
    async strike() {
      if (coming.length === 0) coming = chance.shuffled(FAULTS);
      const fault = coming.pop() ?? "kill";
      const victim = chance.pick(fleet.mortals);
      const places = fault === "clients" || fault === "redis" ? fleet.workers : [victim];
      // A fault without active runs shows nothing, so it waits for one; the work continues until it has struck.
      const hit = await until(() => activeOf(places), { what: `a run where ${fault} strikes` });
      const strike = { fault, at: Date.now(), hit };
      await perform[fault](victim);
      return strike;
    },
  };
}

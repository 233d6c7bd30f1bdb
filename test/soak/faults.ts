/** The faults of a soak: what can happen to workers, connections and Redis, one at a time, drawn from a seed. */
import { setTimeout as sleep } from "node:timers/promises";
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";
import type { RedisServer } from "../helpers/redis-server.ts";
import type { Seeded } from "../helpers/seeded.ts";
import { until } from "../helpers/until.ts";
import type { Fleet, Watched } from "./fleet.ts";

/** What can happen. */
export const FAULTS = ["kill", "stop", "drain", "clients", "redis"] as const;
/** See {@link FAULTS}. */
export type Fault = (typeof FAULTS)[number];

/** A fault that has struck. */
export interface Strike {
  fault: Fault;
  /** Epoch ms. */
  at: number;
  /** Runs that were going on where it struck. */
  hit: number;
}

/** What faults need. */
export interface FaultsOptions {
  fleet: Fleet;
  server: RedisServer;
  redis: RedisClient;
  chance: Seeded;
  leaseMs: number;
}

const LONGEST_OUTAGE_MS = 3_000;

/** Brings the faults, in an order of their own round by round, each where a run goes on; resolves when its harm is repaired. */
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
      // Where nothing goes on a fault shows nothing; the work goes on until it has struck.
      const hit = await until(() => activeOf(places), { what: `a run where ${fault} strikes` });
      const strike = { fault, at: Date.now(), hit };
      await perform[fault](victim);
      return strike;
    },
  };
}

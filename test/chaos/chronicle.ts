/**
 * Records all writes of Redis about the agents of one installation, with Redis' own times. It listens to MONITOR over its own
 * connection, which bypasses every proxy, so that only the death of Redis can hide a write.
 *
 * Owns: the list of happenings and, derived from it, the current holder of each agent. Other files inject faults and judge.
 *
 * 1. The list has the happenings in the order in which Redis performed them.
 * 2. After `caughtUp` resolves, the list has everything that Redis did before the call.
 * 3. Writes that Redis could not report because it died are read from its restored data in `resume`, with the time of its
 *    death. No other process may reach Redis before `resume` has resolved.
 */
import { Redis } from "ioredis";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type OnCommand, openMonitor } from "../helpers/monitor.ts";
import { changesOf, isStep } from "./happening.ts";
import { missedHappenings } from "./missed.ts";
import { type StaleAsk, watchStaleAsks } from "./stale-asks.ts";

/** One change of an agent. */
export type RecordedChange = { at: number; uid: string } & (
  | { what: "spawned"; agentId: string; parentId: string }
  /** A worker took one of its wakes; the claim may still fail. */
  | { what: "taken"; wake: number }
  | { what: "claimed"; epoch: number; worker: string; crashesWithoutProgress: number }
  | { what: "status"; status: string; epoch: number | undefined }
  | { what: "committed"; entry: string; interrupted: boolean }
  | { what: "entry"; replyId: string; kind: string; status: string }
);

/** The state and holder of an agent according to Redis. */
export interface Holding {
  status: string;
  epoch: number;
  worker: string;
  /** Steps committed since the claim: turns and results. */
  steps: number;
  /** Number of successive holders before this one that died without committing a step. */
  crashesWithoutProgress: number;
}

/** See the module's header. */
export interface Chronicle {
  readonly happenings: readonly RecordedChange[];
  /** uid → state and holder of the agent. */
  readonly agents: ReadonlyMap<string, Readonly<Holding>>;
  /** Verbs sent with an epoch that was no longer the agent's. */
  readonly staleAsks: readonly StaleAsk[];
  /** Returns the uids of the agents that `worker` runs. */
  heldBy(worker: string): string[];
  caughtUp(): Promise<void>;
  /** Call after Redis has died. Resolves when all its reports are recorded. */
  pause(): Promise<void>;
  /** Call after Redis has restarted. Reads the writes it could not report, and listens again. */
  resume(): Promise<void>;
}

/** Starts to record the installation under `prefix` on the server `url`; stops at the end of the test. */
export async function openChronicle(url: string, prefix: string): Promise<Chronicle> {
  const happenings: RecordedChange[] = [];
  const agents = new Map<string, Holding>();
  const note = (happening: RecordedChange) => {
    happenings.push(happening);
    follow(agents, happening);
  };
  const stale = watchStaleAsks(prefix, (uid) => agents.get(uid)?.epoch);
  const onCommand: OnCommand = (seconds, command, source) => {
    const at = Number(seconds) * 1_000;
    stale.see(at, command, source);
    for (const happening of changesOf(prefix, at, command)) note(happening);
  };
  let monitor = await openMonitor(url, onCommand);
  closeAtEnd(() => monitor.stop());
  let diedAt = 0;
  return {
    happenings,
    agents,
    staleAsks: stale.asks,
    heldBy: (worker) =>
      [...agents].flatMap(([uid, held]) =>
        held.status === "running" && held.worker === worker ? [uid] : [],
      ),
    caughtUp: () => monitor.caughtUp(),
    async pause() {
      await monitor.ended;
      diedAt = Date.now();
    },
    async resume() {
      monitor = await openMonitor(url, onCommand);
      const redis = new Redis(url);
      redis.on("error", () => {});
      try {
        for (const missed of await missedHappenings(redis, keysUnder(prefix), happenings, diedAt))
          note(missed);
      } finally {
        redis.disconnect();
      }
    },
  };
}

function follow(agents: Map<string, Holding>, happening: RecordedChange): void {
  const { uid } = happening;
  const held = agents.get(uid) ?? {
    status: "idle",
    epoch: 0,
    worker: "",
    steps: 0,
    crashesWithoutProgress: 0,
  };
  if (happening.what === "claimed") {
    const { epoch, worker, crashesWithoutProgress } = happening;
    agents.set(uid, { status: "running", epoch, worker, crashesWithoutProgress, steps: 0 });
  } else if (happening.what === "status") {
    agents.set(uid, { ...held, status: happening.status, epoch: happening.epoch ?? held.epoch });
  } else if (happening.what === "committed" && isStep(happening.entry)) {
    agents.set(uid, { ...held, steps: held.steps + 1 });
  } else {
    agents.set(uid, held);
  }
}

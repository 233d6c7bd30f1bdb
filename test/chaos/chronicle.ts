/**
 * The chronicle: everything that Redis was told to write about the agents of one installation, with Redis' own time of
 * it. It listens to MONITOR over a connection of its own, around every proxy, so that no fault but the death of Redis
 * itself can keep anything from it.
 *
 * Owns: the list of happenings and, made of it, who holds which agent now. Its neighbours inject faults and judge.
 *
 * 1. Happenings stand in the order in which Redis performed them.
 * 2. After `caughtUp` resolves, everything Redis did before the call stands in the list.
 * 3. What Redis did in the instant of its death and could not say any more is read from what it has kept, in `resume`,
 *    and dated at its death: nobody may reach Redis before that has resolved.
 */
import { Redis } from "ioredis";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type OnCommand, openMonitor } from "../helpers/monitor.ts";
import { happeningsOf, isStep } from "./happening.ts";
import { missedHappenings } from "./missed.ts";
import { type StaleAsk, watchStaleAsks } from "./stale-asks.ts";

/** What happened to one agent. */
export type Happening = { at: number; uid: string } & (
  | { what: "spawned"; agentId: string; parentId: string }
  /** A worker took a wake of it, whatever it then did with it. */
  | { what: "taken"; wake: number }
  | { what: "claimed"; epoch: number; worker: string; barrenDeaths: number }
  | { what: "status"; status: string; epoch: number | undefined }
  | { what: "committed"; entry: string; interrupted: boolean }
  | { what: "entry"; replyId: string; kind: string; status: string }
);

/** Who holds an agent, as far as Redis knows. */
export interface Holding {
  status: string;
  epoch: number;
  worker: string;
  /** Steps committed since the claim: turns and results. */
  steps: number;
  /** Holders before this one that died without a step, one after the other. */
  barrenDeaths: number;
}

/** See the module's header. */
export interface Chronicle {
  readonly happenings: readonly Happening[];
  /** uid → how the agent stands. */
  readonly agents: ReadonlyMap<string, Readonly<Holding>>;
  /** Verbs that came under an epoch that was another's by then. */
  readonly staleAsks: readonly StaleAsk[];
  /** The uids that `worker` is running. */
  heldBy(worker: string): string[];
  caughtUp(): Promise<void>;
  /** Redis is dead: resolves when everything it has said was heard. */
  pause(): Promise<void>;
  /** Redis is back. */
  resume(): Promise<void>;
}

/** Begins to listen on `url` to the installation under `prefix`; ends with the test. */
export async function openChronicle(url: string, prefix: string): Promise<Chronicle> {
  const happenings: Happening[] = [];
  const agents = new Map<string, Holding>();
  const note = (happening: Happening) => {
    happenings.push(happening);
    follow(agents, happening);
  };
  const stale = watchStaleAsks(prefix, (uid) => agents.get(uid)?.epoch);
  const onCommand: OnCommand = (seconds, command, source) => {
    const at = Number(seconds) * 1_000;
    stale.see(at, command, source);
    for (const happening of happeningsOf(prefix, at, command)) note(happening);
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

function follow(agents: Map<string, Holding>, happening: Happening): void {
  const { uid } = happening;
  const held = agents.get(uid) ?? { status: "idle", epoch: 0, worker: "", steps: 0, barrenDeaths: 0 };
  if (happening.what === "claimed") {
    const { epoch, worker, barrenDeaths } = happening;
    agents.set(uid, { status: "running", epoch, worker, barrenDeaths, steps: 0 });
  } else if (happening.what === "status") {
    agents.set(uid, { ...held, status: happening.status, epoch: happening.epoch ?? held.epoch });
  } else if (happening.what === "committed" && isStep(happening.entry)) {
    agents.set(uid, { ...held, steps: held.steps + 1 });
  } else {
    agents.set(uid, held);
  }
}

/**
 * Performs the planned faults on busy workers and on Redis, and records the runs that each hit.
 *
 * Owns: the list of faults that struck. `fault-schedule.ts` decides which faults come and when.
 *
 * 1. A worker is struck only while another worker is up and can take over.
 * 2. A stop or a partition lasts until every run it hit has been taken over by another worker or is over.
 * 3. The runs that a worker's fault hit are read from Redis after it struck: the runs that the victim then holds.
 * 4. A worker is spared if it holds a run whose two previous holders died without progress: by design such a run is given up
 *    after the third death, which another test covers.
 * 5. Redis dies in the middle of its work, and alone: every lasting fault is over by then.
 * 6. Redis' clock jumps for all stored times at once, even while other faults last.
 * 7. A fault that hit no run strikes again, {@link ATTEMPTS} times in all, because the plan may have no other of its kind.
 */

import type { Proxy as TcpProxy } from "../helpers/proxy.ts";
import type { RedisServer } from "../helpers/redis-server.ts";
import { until } from "../helpers/until.ts";
import type { Chronicle, Holding } from "./chronicle.ts";
import { isOfRedis, type Pace, type PlannedStrike, type StrikeKind } from "./fault-schedule.ts";
import type { Fleet, Seat } from "./fleet.ts";

/** A fault that struck. */
export interface Fault {
  kind: StrikeKind;
  /** Epoch ms. */
  at: number;
  /** Epoch ms of its end; for a kill, when the process was gone. */
  endedAt: number;
  /** Jump of Redis' clock, ms: forward, or back if negative. */
  jumpMs?: number;
  /** The struck worker; absent for a fault of Redis. */
  victim?: { seat: number; worker: string; pid: number };
  /** The active runs it hit: uid and the epoch of the claim. */
  hit: { uid: string; epoch: number }[];
  /** True if it hit no run and another fault has replaced it. */
  isRepeated?: boolean;
}

/** The parts on which faults act. */
export interface Scene {
  fleet: Fleet;
  /** The proxy of all parents. */
  parentsProxy: TcpProxy;
  server: RedisServer;
  /** Moves Redis' clock forward by `byMs` ms, or back if negative. */
  setClockForth(byMs: number): Promise<void>;
  chronicle: Chronicle;
  pace: Pace;
  leaseMs: number;
  /** Returns true if no work is left to disturb. */
  isOver(): boolean;
}

/** Time (ms) beyond the lease within which others must take over the runs of a stopped or cut-off worker. */
const TAKEOVER_MS = 60_000;

/** Strikes as planned; resolves to the faults that struck, in order, when the last one is over. */
export async function strikeAll(scene: Scene, plan: readonly PlannedStrike[]): Promise<Fault[]> {
  const faults: Fault[] = [];
  const lasting = new Set<Promise<unknown>>();
  for (const planned of plan) {
    await scene.pace.reached(planned.dueAt);
    if (planned.kind === "redis") await Promise.all(lasting);
    await new Promise((resolve) => setTimeout(resolve, planned.delayMs));
    const struck = await strikeBusy(scene, planned, faults);
    if (!struck) break;
    const { over } = struck;
    lasting.add(over);
    // A failed one stays in the set, so that `Promise.all` rejects.
    over.then(
      () => lasting.delete(over),
      () => {},
    );
    scene.pace.struck();
  }
  await Promise.all(lasting);
  return faults;
}

/** Maximum number of strikes until a fault hits a run: a worker that was busy when chosen may be idle when struck. */
const ATTEMPTS = 3;

/** Strikes a busy worker, or Redis; undefined if the work is over. */
async function strikeBusy(
  scene: Scene,
  planned: PlannedStrike,
  faults: Fault[],
): Promise<Strike | undefined> {
  let struck: Strike | undefined;
  for (let attempt = 0; attempt < ATTEMPTS && !struck?.fault.hit.length; attempt++) {
    await struck?.over;
    const seat = await chooseBusy(scene, planned);
    if (!seat) break;
    if (struck) struck.fault.isRepeated = true;
    struck = await strike(scene, planned, seat, faults);
  }
  return struck;
}

/**
 * Waits until enough seats are up and returns a busy one; undefined if the work is over. A worker is busy if it has committed a
 * step of a run. To strike workers right after a claim would be a different fault: a run that no worker survives to begin.
 */
async function chooseBusy(
  { fleet, chronicle, pace, isOver }: Scene,
  { kind, aim }: PlannedStrike,
): Promise<Seat | undefined> {
  const holdsSome = (seat: Seat, condition: (run: Holding) => boolean) =>
    chronicle.heldBy(seat.worker.id).some((uid) => {
      const run = chronicle.agents.get(uid);
      return run !== undefined && condition(run);
    });
  const choose = () => {
    if (isOver()) return "over";
    const up = fleet.seats.filter((seat) => seat.up);
    const [spared, struck] = [up.filter((seat) => holdsSome(seat, isSpared)), isOfRedis(kind) ? up : []];
    if (up.length < 2 || struck.some((seat) => spared.includes(seat))) return undefined;
    const busy = up.filter((seat) => !spared.includes(seat) && holdsSome(seat, ({ steps }) => steps > 0));
    if (busy.length === 0) {
      pace.starved();
      const holding = up.map((seat) => `${seat.worker.id} holds ${chronicle.heldBy(seat.worker.id).length}`);
      throw new Error(`${pace.runsOver} runs are over; of those who are up, ${holding.join(", ")}`);
    }
    return busy[Math.floor(aim * busy.length)];
  };
  const chosen = await until(choose, { what: "a busy worker", timeoutMs: 300_000 });
  return chosen === "over" ? undefined : chosen;
}

const DEATHS_TO_SPARE = 2;
const isSpared = ({ steps, crashesWithoutProgress }: Holding) =>
  steps === 0 && crashesWithoutProgress >= DEATHS_TO_SPARE;

/** A fault whose hits are known; `over` resolves when it has ended. */
interface Strike {
  fault: Fault;
  over: Promise<void>;
}

async function strike(scene: Scene, planned: PlannedStrike, seat: Seat, faults: Fault[]): Promise<Strike> {
  const fault: Fault = { kind: planned.kind, at: Date.now(), endedAt: 0, hit: [] };
  faults.push(fault);
  let healed = Promise.resolve();
  if (planned.kind === "redis") await restartRedis(scene, fault, planned.outage * scene.leaseMs);
  else if (planned.kind === "clock") await jump(scene, fault, Math.round(planned.jump * scene.leaseMs));
  else {
    fault.victim = { seat: seat.number, worker: seat.worker.id, pid: seat.worker.pid };
    seat.up = false;
    if (planned.kind === "kill") await kill(scene, seat, fault);
    else {
      await disturb(scene, seat, fault);
      healed = heal(scene, seat, fault);
    }
  }
  const over = healed.then(() => {
    fault.endedAt = Date.now();
  });
  return { fault, over };
}

async function kill({ fleet, chronicle }: Scene, seat: Seat, fault: Fault): Promise<void> {
  await fleet.replace(seat);
  await chronicle.caughtUp();
  fault.hit = held(chronicle, fault.victim?.worker ?? "");
}

async function disturb({ chronicle }: Scene, { worker, proxy }: Seat, fault: Fault): Promise<void> {
  if (fault.kind === "stop") worker.freeze();
  else if (fault.kind === "refuse") proxy.refuse();
  else proxy.blackhole();
  await chronicle.caughtUp();
  fault.hit = held(chronicle, worker.id);
}

/** Ends a stop or a partition when others have taken over the runs it hit. */
async function heal({ chronicle, leaseMs }: Scene, seat: Seat, fault: Fault): Promise<void> {
  const { worker, proxy } = seat;
  const overAtMs = performance.now() + leaseMs;
  const isTaken = ({ uid, epoch }: { uid: string; epoch: number }) => {
    const now = chronicle.agents.get(uid);
    return now?.status !== "running" || now.epoch !== epoch || now.worker !== worker.id;
  };
  await until(() => performance.now() > overAtMs && fault.hit.every(isTaken), {
    what: `others to take over the runs of ${worker.id}`,
    timeoutMs: leaseMs + TAKEOVER_MS,
  }).finally(() => {
    if (fault.kind === "stop") worker.thaw();
    else proxy.heal();
    seat.up = true;
  });
}

async function restartRedis(scene: Scene, fault: Fault, outageMs: number): Promise<void> {
  const { fleet, parentsProxy, server, chronicle } = scene;
  const proxies = [parentsProxy, ...fleet.seats.map((seat) => seat.proxy)];
  fault.hit = await heldByAll(scene);
  await server.kill();
  for (const proxy of proxies) proxy.refuse();
  await chronicle.pause();
  await new Promise((resolve) => setTimeout(resolve, outageMs));
  await server.start();
  await chronicle.resume();
  for (const proxy of proxies) proxy.heal();
}

async function jump(scene: Scene, fault: Fault, byMs: number): Promise<void> {
  fault.jumpMs = byMs;
  fault.hit = await heldByAll(scene);
  await scene.setClockForth(byMs);
}

async function heldByAll({ fleet, chronicle }: Scene): Promise<Fault["hit"]> {
  await chronicle.caughtUp();
  return fleet.seats.flatMap((seat) => held(chronicle, seat.worker.id));
}

function held(chronicle: Chronicle, worker: string): Fault["hit"] {
  return chronicle.heldBy(worker).map((uid) => ({ uid, epoch: chronicle.agents.get(uid)?.epoch ?? 0 }));
}

/**
 * Random sequences of verbs by two producers, three workers and two sweepers on a real Redis. Leases, idle times and
 * looks last milliseconds, so they really run out; every call may be executed twice; every process may stop for good
 * between any two of its calls, or be left standing while its lease ends and go on as a zombie; wakes get lost.
 * `FC_RUNS` is the number of sequences; number and seed (`FC_SEED`) are logged, and a failure names both again.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { keysLike } from "../../helpers/redis.ts";
import type { Call, Program } from "./interleaving/call.ts";
import {
  answerOne,
  type Pick,
  producer,
  sendOne,
  spawnOne,
  sweeper,
  tick,
  worker,
} from "./interleaving/processes.ts";
import { settle } from "./interleaving/verbs.ts";
import { hiddenMs, World } from "./interleaving/world.ts";
import { connected, DESTROY, type Rig, verbRig } from "./rig.ts";

const RUNS = Number(process.env.FC_RUNS ?? 15);
const SEED = fc.readConfigureGlobal().seed;
const PROCESSES = [
  "producer 1",
  "producer 2",
  "worker 1",
  "worker 2",
  "worker 3",
  "sweeper 1",
  "sweeper 2",
] as const;

type Op =
  | { kind: "step"; who: number; times: number; twice: boolean; random: number }
  | { kind: "crash"; who: number }
  | { kind: "freeze"; who: number }
  | { kind: "duel"; who: number; other: number; rounds: number; twice: boolean; random: number }
  | { kind: "wait"; ms: number }
  | { kind: "lose wakes" }
  | { kind: "deaths"; who: number; rounds: number; random: number };

type Deaths = Extract<Op, { kind: "deaths" }>;

const who = fc.nat(PROCESSES.length - 1);
const frozen = fc.integer({ min: 2, max: 4 });
const op: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 16,
    arbitrary: fc.record({
      kind: fc.constant("step" as const),
      who: fc.oneof(who, frozen),
      times: fc.integer({ min: 1, max: 10 }),
      twice: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
      random: fc.nat(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("duel" as const),
      who,
      other: fc.integer({ min: 5, max: 6 }),
      rounds: fc.integer({ min: 3, max: 12 }),
      twice: fc.boolean(),
      random: fc.nat(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("crash" as const), who }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("freeze" as const), who: frozen }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 20 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "lose wakes" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("deaths" as const),
      who: frozen,
      rounds: fc.integer({ min: 3, max: 7 }),
      random: fc.nat(),
    }),
  },
);
const sequence = fc.record({
  ops: fc.array(op, { minLength: 40, maxLength: 120, size: "max" }),
  /** Agents that are there from the start, so that the quota is within reach. */
  crowd: fc.constantFrom(0, 3, 10),
  maxAgeLeases: fc.constantFrom(5, 10_000),
});

type Sequence = typeof sequence extends fc.Arbitrary<infer T> ? T : never;

/** Steps one program after another through a world. */
class Scheduler {
  readonly #world: World;
  readonly #running = new Map<string, { program: Program; answer: unknown }>();
  #random = 1;
  readonly #pick: Pick = (n) => {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0;
    return n < 1 ? 0 : (this.#random >>> 8) % n;
  };

  constructor(world: World) {
    this.#world = world;
  }

  async step(name: string, twice: boolean, random?: number): Promise<void> {
    if (random !== undefined) this.#random = random;
    const standing = this.#running.get(name) ?? { program: this.#start(name), answer: undefined };
    this.#running.set(name, standing);
    const { value } = standing.program.next(standing.answer);
    if (value) standing.answer = await this.#world.perform(value, twice ? 2 : 1, name);
  }

  /** Runs a program to its end. */
  async complete(program: Program<unknown>, name: string): Promise<void> {
    let answer: unknown;
    for (let next = program.next(); !next.done; next = program.next(answer))
      answer = await this.#world.perform(next.value as Call<unknown>, 1, name);
  }

  crash(name: string): void {
    this.#world.trace.push(`${name} crashed`);
    this.#running.delete(name);
  }

  #start(name: string): Program {
    if (name.startsWith("producer")) return producer(this.#world, this.#pick);
    return name.startsWith("worker") ? worker(this.#world, this.#pick) : sweeper(this.#world);
  }
}

/** A worker stands still until its lease is over and others have gone on; it knows nothing of that. */
async function freeze(rig: Rig, world: World, scheduler: Scheduler, frozen: string): Promise<void> {
  await rig.redisReaches((await rig.redisNow()) + rig.store.timing.leaseMs + 1);
  await world.look();
  await scheduler.complete(tick(world), "sweeper");
  for (const name of PROCESSES.filter((each) => each.startsWith("worker") && each !== frozen))
    for (let i = 0; i < 8; i += 1) await scheduler.step(name, false);
}

/** One agent's workers die soon after their claim, one after the other. */
async function deaths(rig: Rig, world: World, scheduler: Scheduler, { who, rounds, random }: Deaths) {
  const name = PROCESSES[who] ?? "";
  const victim = world.jobs.find(({ state }) => state === "waiting")?.uid;
  for (let i = 0; i < rounds; i += 1) {
    scheduler.crash(name);
    world.jobs.splice(0, world.jobs.length, ...world.jobs.filter(({ uid }) => uid === victim));
    for (let k = 0; k < 5 + i; k += 1) await scheduler.step(name, false, k === 0 ? random + i : undefined);
    scheduler.crash(name);
    await rig.redisReaches((await rig.redisNow()) + rig.store.timing.leaseMs + 1);
    await world.look();
    await scheduler.complete(tick(world), "sweeper");
  }
}

async function perform(rig: Rig, world: World, scheduler: Scheduler, ops: readonly Op[]): Promise<void> {
  for (const each of ops) {
    if (each.kind === "step") {
      for (let i = 0; i < each.times; i += 1)
        await scheduler.step(PROCESSES[each.who] ?? "", each.twice, i === 0 ? each.random : undefined);
    } else if (each.kind === "duel") {
      for (let i = 0; i < each.rounds; i += 1) {
        await scheduler.step(PROCESSES[each.who] ?? "", each.twice, i === 0 ? each.random : undefined);
        await scheduler.step(PROCESSES[each.other] ?? "", false);
      }
    } else if (each.kind === "crash") scheduler.crash(PROCESSES[each.who] ?? "");
    else if (each.kind === "freeze") await freeze(rig, world, scheduler, PROCESSES[each.who] ?? "");
    else if (each.kind === "deaths") await deaths(rig, world, scheduler, each);
    else if (each.kind === "wait") {
      await rig.redisReaches((await rig.redisNow()) + each.ms);
      await world.look();
    } else world.jobs.length = 0;
  }
}

/**
 * Everybody is gone and all wakes with them: sweepers alone wake every queued and every orphaned agent in time, and give
 * those that wait their default answers.
 */
async function allAreWokenAgain(rig: Rig, world: World, scheduler: Scheduler): Promise<void> {
  for (const name of PROCESSES) scheduler.crash(name);
  world.jobs.length = 0;
  const waiting = world.living().filter((uid) => world.shot.agents.get(uid)?.record.status !== "idle");
  const latest = Math.max(
    0,
    ...waiting.map((uid) => Number(world.shot.agents.get(uid)?.record.not_before ?? 0)),
  );
  const { checkMs, longestCheckMs } = rig.store.timing;
  const longest = longestCheckMs + hiddenMs(rig.store);
  const until = Math.max(await rig.redisNow(), latest + checkMs) + longest;
  while ((await rig.redisNow()) <= until) await scheduler.complete(tick(world), "sweeper");
  await scheduler.complete(tick(world), "sweeper");
  await world.look();
  for (const uid of waiting) {
    const { status = "", wake, deadline } = world.shot.agents.get(uid)?.record ?? {};
    if (status === "waiting" && Number(deadline) > until) continue;
    const woken = world.jobs.some((job) => job.uid === uid && `${job.wake}` === wake);
    expect(status === "ended" || woken, `${uid} is ${status} and nobody wakes it`).toBe(true);
  }
}

/** Everybody goes on until every agent has ended, then sweepers until nothing is left to look at. */
async function endAll(rig: Rig, world: World, scheduler: Scheduler): Promise<void> {
  for (let round = 0; world.living().length > 0; round += 1) {
    for (const uid of world.living()) {
      const agent = world.agents.get(uid);
      const isPatient = (world.shot.agents.get(uid)?.lifeMs ?? 0) > 1_000 || round > 300;
      if (agent && isPatient) await scheduler.complete(settle(world, agent, DESTROY), "producer");
    }
    await scheduler.complete(
      answerOne(world, (n) => n - 1),
      "producer",
    );
    for (let i = 0; i < 12; i += 1) await scheduler.step(`worker ${1 + (i % 3)}`, false);
    await scheduler.complete(tick(world), "sweeper");
    await world.look();
  }
  for (let left = 1; left > 0; left = await rig.redis.zcard(rig.keys.deadlines)) {
    const members = await rig.redis.zrange(rig.keys.deadlines, 0, -1);
    await Promise.all(members.map((member) => rig.redis.zadd(rig.keys.deadlines, "XX", 1, member)));
    await scheduler.complete(tick(world), "sweeper");
  }
  await world.look();
  world.checkEnd();
}

/** Words that a run of this length must have heard: otherwise it has proved nothing. */
const HEARD = [
  ...["spawned", "same", "conflict", "quota"].map((word) => `spawn: ${word}`),
  ...["queued", "delivered", "same", "conflict", "ended"].map((word) => `send: ${word}`),
  ...["claimed", "held", "nothing", "suspect"].map((word) => `claim: ${word}`),
  ...["ok", "stale"].map((word) => `renew: ${word}`),
  ...["appended", "same", "conflict", "stale"].map((word) => `append: ${word}`),
  ...["released"].map((word) => `release: ${word}`),
  ...["settled", "same", "more", "stale"].map((word) => `settle by worker: ${word}`),
  ...["settled", "same"].map((word) => `settle by parent: ${word}`),
  ...["settled", "same"].map((word) => `settle by sweeper: ${word}`),
  ...["asked", "stale"].map((word) => `ask: ${word}`),
  ...["queued", "waiting", "same", "answered", "ended"].map((word) => `answer by parent: ${word}`),
  ...["queued", "waiting"].map((word) => `answer by sweeper: ${word}`),
  ...["finishing", "idle", "ended"].map((word) => `finish: ${word}`),
  ...["wake", "not_due"].map((word) => `requeue: ${word}`),
  ...["first", "already"].map((word) => `ack: ${word}`),
];

/**
 * Leases so short that they run out all the time, and so long that a process on this machine gets a few calls done; a machine
 * that stood still for the measurement is not taken for a slow one.
 */
async function timingOfThisMachine() {
  const rig = verbRig();
  const world = new World(rig, new Map());
  const scheduler = new Scheduler(world);
  const before = await rig.redisNow();
  for (let i = 0; i < 10; i += 1)
    await scheduler.complete(
      spawnOne(world, () => 1, []),
      "producer",
    );
  const callMs = ((await rig.redisNow()) - before) / 20;
  const leaseMs = Math.min(100, Math.max(8, Math.ceil(callMs * 7)));
  return { leaseMs, checkMs: leaseMs * 2, longestCheckMs: leaseMs * 4 };
}

test("whatever the order of their calls, the processes keep every promise to every agent", {
  // Leases are as long as this machine is slow: the bound only ends what hangs.
  timeout: RUNS * 30_000,
}, async () => {
  const redis = connected();
  const tally = new Map<string, number>();
  const timing = await timingOfThisMachine();
  let sequences = 0;
  const play = async ({ ops, crowd, maxAgeLeases }: Sequence) => {
    const rig = verbRig({ redis, timing: { ...timing, maxAgeMs: maxAgeLeases * timing.leaseMs } });
    const world = new World(rig, tally);
    const scheduler = new Scheduler(world);
    try {
      for (let i = 0; i < crowd; i += 1)
        await scheduler.complete(
          spawnOne(world, () => 1, []),
          "producer",
        );
      for (const agent of [...world.agents.values()].slice(crowd / 3))
        await scheduler.complete(
          sendOne(world, () => 1, agent, []),
          "producer",
        );
      await perform(rig, world, scheduler, ops);
      await allAreWokenAgain(rig, world, scheduler);
      await endAll(rig, world, scheduler);
      sequences += 1;
    } catch (failure) {
      if (failure instanceof Error)
        failure.message += `\nlast calls:\n  ${world.traceOf(failure.message).slice(-60).join("\n  ")}`;
      throw failure;
    } finally {
      const left = await keysLike(redis, `*${rig.prefix}*`);
      await Promise.all(left.map((key) => redis.unlink(key)));
    }
  };
  await fc.assert(fc.asyncProperty(sequence, play), { numRuns: RUNS, seed: SEED, endOnFailure: true });
  const calls = [...tally.values()].reduce((sum, n) => sum + n, 0);
  process.stdout.write(
    `interleaving: ${sequences} sequences, ${calls} calls, lease ${timing.leaseMs} ms, seed ${SEED}\n`,
  );
  const lines = [...tally].sort().map(([word, n]) => `  ${word}: ${n}\n`);
  if (process.env.FC_RUNS) process.stdout.write(lines.join(""));
  expect(sequences).toBe(RUNS);
  if (sequences >= 80) expect(HEARD.filter((word) => !tally.has(word))).toEqual([]);
});

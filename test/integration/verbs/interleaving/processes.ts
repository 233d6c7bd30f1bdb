/**
 * The processes of a sequence: producers, workers and sweepers as they must behave, one call at a time. Whoever steps
 * them may stop one for good between any two calls (a crash) or for long (a zombie, which goes on with what it knew).
 */

import { newRequestKey, newUid } from "../../../../src/shared/protocol/ids.ts";
import type { AgentAddress } from "../../../../src/shared/protocol/keys.ts";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import type { InboxMessage } from "../../../../src/shared/protocol/message.ts";
import { partsOf } from "../../../../src/shared/protocol/reply.ts";
import { type Due, nextCheckDelayMs } from "../../../../src/shared/redis/deadlines.ts";
import type { StreamItem } from "../../../../src/shared/redis/replies.ts";
import type { VerbInput } from "../../../../src/shared/redis/scripts.ts";
import {
  bodyOf,
  DESTROY,
  handedBack,
  IDLE_END,
  MAX_AGE_END,
  questionsOf,
  SPEC,
  wellDone,
  workerLost,
} from "../rig.ts";
import { make, must, type Program } from "./call.ts";
import { answer, ask, chooseQuestion } from "./questions.ts";
import * as verbs from "./verbs.ts";
import { hiddenMs, type Job, type World } from "./world.ts";

/** What a write is held against. */
type Fence = { epoch: number; known: number };
/** A choice between 0 and n - 1, drawn from the sequence's own randomness. */
export type Pick = (n: number) => number;
/** An idle time that does not run out within a sequence. */
const PATIENT_MS = 60_000;

/** Idle times in use: one that runs out within the sequence, one that does not. */
function idleTimeMs(world: World, pick: Pick): number {
  return pick(2) === 0 ? Math.ceil(world.rig.store.timing.leaseMs * 1.5) : PATIENT_MS;
}

/** First the hint, then the verb; a hint whose grace is over by the time of the verb is given again. */
function* hinted<T>(world: World, agent: AgentAddress, inMs: number, verb: () => Program<T>): Program<T> {
  const { leaseMs, checkMs } = world.rig.store.timing;
  for (;;) {
    const answer = yield* make({
      name: "touch",
      agent,
      make: async () => {
        const atMs = await world.rig.redisNow();
        await world.rig.deadlines.hint(agent, inMs);
        return { status: "hinted", atMs };
      },
    });
    if (world.shot.nowMs - answer.atMs < Math.min(inMs, leaseMs, checkMs)) return yield* verb();
  }
}

function* addJob(world: World, uid: string, wake: number): Program {
  yield* make({
    name: "add job",
    isLocal: true,
    make: async () => {
      if (!world.jobs.some((job) => job.uid === uid && job.wake === wake))
        world.jobs.push({ uid, wake, state: "waiting" });
    },
  });
}

/** A parent: spawns, sends, destroys, finishes, acks; sometimes the same again. */
export function* producer(world: World, pick: Pick): Program {
  const keys: string[] = [];
  const seen: StreamItem[] = [];
  const sent: [agent: AgentAddress, id: string][] = [];
  for (;;) {
    const uids = pick(6) === 0 ? [...world.agents.keys()] : world.living();
    const agents = uids.flatMap((uid) => world.agents.get(uid) ?? []);
    const agent = agents[pick(Math.max(1, agents.length))];
    const what = pick(19);
    if (!agent || what < 5) yield* spawnOne(world, pick, keys);
    else if (what < 12) yield* sendOne(world, pick, agent, sent);
    else if (what === 12) yield* verbs.settle(world, agent, DESTROY);
    else if (what === 13) yield* finishOne(world, agent);
    else if (what < 17) yield* answerOne(world, pick);
    else yield* ackOne(world, pick, seen);
  }
}

/** One agent more, room permitting. */
export function* spawnOne(world: World, pick: Pick, keys: string[]): Program {
  const requestKey = (pick(4) === 0 && keys[pick(keys.length)]) || newRequestKey();
  keys.push(requestKey);
  const agent = { ...world.rig.parent, uid: newUid() };
  const idleMs = idleTimeMs(world, pick);
  const digest = pick(8) === 0 ? "other" : "d";
  const input = {
    request_key: requestKey,
    digest,
    stem: "a",
    name: "A",
    spec: JSON.stringify(SPEC),
    idle_ms: idleMs,
  };
  const attempt = () => hinted(world, agent, idleMs, () => verbs.spawn(world, agent, input));
  const answer = yield* attempt();
  if (answer.status !== "quota" || answer.overdue.length === 0) return;
  for (const uid of answer.overdue) yield* verbs.settle(world, { ...world.rig.parent, uid }, IDLE_END);
  yield* attempt();
}

/** One message more, to `to` or again to whom one was sent. */
export function* sendOne(
  world: World,
  pick: Pick,
  to: AgentAddress,
  sent: [AgentAddress, string][],
): Program {
  const known = pick(5) === 0 ? sent[pick(sent.length)] : undefined;
  const [agent, id] = known ?? [to, newRequestKey()];
  const text = known && pick(3) === 0 ? `not ${id}` : id;
  if (!known) sent.push([agent, id]);
  const { checkMs } = world.rig.store.timing;
  const answer = yield* hinted(world, agent, checkMs, () => verbs.send(world, agent, id, text));
  const isQueued =
    answer.status === "queued" || (answer.status === "same" && answer.agent_status === "queued");
  if (isQueued) yield* addJob(world, agent.uid, answer.wake);
}

function* finishOne(world: World, agent: AgentAddress): Program {
  const { checkMs } = world.rig.store.timing;
  const answered = yield* hinted(world, agent, checkMs, () => verbs.finish(world, agent));
  if (answered.status === "finishing" && answered.wake !== undefined)
    yield* addJob(world, agent.uid, answered.wake);
}

/** The parent answers some question. */
export function* answerOne(world: World, pick: Pick): Program {
  const chosen = chooseQuestion(world, pick);
  if (!chosen) return;
  const { agent, questionId } = chosen;
  const { checkMs } = world.rig.store.timing;
  const text = `answer ${pick(3)}`;
  const answered = yield* hinted(world, agent, checkMs, () =>
    answer(world, agent, "parent", questionId, text),
  );
  const isQueued =
    answered.status === "queued" || (answered.status === "same" && answered.agent_status === "queued");
  if (isQueued) yield* addJob(world, agent.uid, answered.wake);
}

function* ackOne(world: World, pick: Pick, seen: StreamItem[]): Program {
  const entries = yield* make({
    name: "read replies",
    make: () => world.rig.replies.read(world.rig.parent, "0", 20),
  });
  seen.push(...entries);
  const entry = seen[pick(Math.max(1, seen.length))];
  if (!entry) return;
  const token = newRequestKey();
  yield* make({
    name: "ack",
    make: async () => ({
      status: (await world.rig.replies.ack(world.rig.parent, entry, token)) ? "first" : "already",
    }),
    judge({ status }) {
      const first = world.acks.get(entry.id);
      if (status === "first") world.acks.set(entry.id, token);
      must(
        (status === "first") === (first === undefined || first === token),
        "not exactly one first ack",
        entry,
      );
    },
  });
}

/** A worker: takes wakes, runs agents a step at a time, ends or hands back. */
export function* worker(world: World, pick: Pick): Program {
  for (;;) {
    const job = yield* make({ name: "take job", isLocal: true, make: async () => take(world, pick) });
    const agent = job && world.agents.get(job.uid);
    if (!job || !agent) continue;
    const { leaseMs } = world.rig.store.timing;
    const claim = (alone: boolean) => {
      const claimId = newRequestKey();
      return hinted(world, agent, leaseMs, () =>
        verbs.claim(world, agent, claimId, alone ? "own_worker" : undefined),
      );
    };
    let claimed = yield* claim(pick(8) === 0);
    if (claimed.status === "suspect") claimed = yield* claim(pick(4) > 0);
    if (claimed.status === "crashed") {
      const { run = "" } = world.shot.agents.get(agent.uid)?.record ?? {};
      yield* verbs.settle(world, agent, workerLost(claimed.epoch, Number(run)));
    }
    if (claimed.status === "claimed") {
      const epoch = claimed.epoch;
      yield* run(world, pick, agent, epoch);
      // A tool and a timer that come back late, after their run has been given up.
      if (pick(3) === 0) yield* step(world, pick, agent, epoch, new Map(), pick(3));
      if (pick(6) === 0) yield* verbs.renew(world, agent, epoch);
      if (pick(6) === 0) yield* askSome(world, pick, agent, { epoch, known: 0 }, pick(3));
    }
    yield* make({ name: "job done", isLocal: true, make: async () => forgetJob(world, job) });
  }
}

function take(world: World, pick: Pick): Job | undefined {
  const waiting = world.jobs.filter(({ state }) => state === "waiting");
  const job = waiting[pick(Math.max(1, waiting.length))];
  if (job) job.state = "taken";
  return job;
}

function forgetJob(world: World, job: Job): void {
  const at = world.jobs.indexOf(job);
  if (at >= 0) world.jobs.splice(at, 1);
}

function* run(world: World, pick: Pick, agent: AgentAddress, epoch: number): Program {
  const state = yield* make({ name: "load", agent, make: () => world.rig.store.load(agent) });
  if (!state) return;
  const log = new Map(state.log);
  let { inbox } = state;
  let read = state.record.inbox_read;
  for (;;) {
    const n = [...log.keys()].filter((key) => !key.includes("/")).length;
    const what = pick(15);
    let answer: { status: string; inbox?: number };
    if (inbox.length > 0 && what < 9) {
      const messages: InboxMessage[] = inbox;
      const entry: [string, string] = [
        entryKey.message(n),
        JSON.stringify({ v: 1, role: "user", run: state.record.run, messages }),
      ];
      const to = read + inbox.length;
      const consume = { consume_to: to, consume_last: messages.at(-1)?.message_id };
      const input = { epoch, known: log.size, running_ms: 1, entries: [entry], ...consume };
      answer = yield* verbs.append(world, agent, input);
      if (answer.status === "appended" || answer.status === "same") {
        log.set(...entry);
        read = to;
        inbox = [];
      }
    } else if (what < 3) answer = yield* verbs.renew(world, agent, epoch);
    else if (what < 7) answer = yield* step(world, pick, agent, epoch, log, n);
    else if (what === 7) {
      const released = yield* verbs.release(
        world,
        agent,
        epoch,
        (pick(3) * world.rig.store.timing.leaseMs) / 2,
      );
      if (released.status === "released") yield* addJob(world, agent.uid, released.wake);
      return;
    } else if (what > 11) answer = yield* askSome(world, pick, agent, { epoch, known: log.size }, n);
    else answer = yield* end(world, pick, agent, { epoch, known: log.size }, state.record.run);
    if (["stale", "asked", "settled", "same of an end", "unknown"].includes(answer.status)) return;
    if (answer.status === "more" || (answer.inbox ?? 0) > 0)
      inbox = yield* make({ name: "inbox", agent, make: () => world.rig.store.inbox(agent) });
  }
}

function* step(
  world: World,
  pick: Pick,
  agent: AgentAddress,
  epoch: number,
  log: Map<string, string>,
  n: number,
) {
  const again = pick(6) === 0;
  const key = again
    ? entryKey.result(n - 1, "t")
    : pick(2) === 0
      ? entryKey.message(n)
      : entryKey.result(n, `t${pick(3)}`);
  const entry: [string, string] = [
    key,
    JSON.stringify({ by: epoch, nonce: again ? pick(2) : newRequestKey() }),
  ];
  const answer = yield* verbs.append(world, agent, {
    epoch,
    known: log.size,
    running_ms: 1,
    entries: [entry],
    ...partsOf(bodyOf(`step ${n}`)),
    advances: true,
    ...(pick(4) === 0 && { interim_id: newRequestKey(), interim: "a word" }),
  });
  // On a conflict other content stands there: the holder goes on from the log as it is.
  if (answer.status !== "stale") log.set(...entry);
  return answer;
}

/** Questions that wait for as long as nobody answers, or not for long. */
function* askSome(world: World, pick: Pick, agent: AgentAddress, fence: Fence, n: number) {
  const { epoch } = fence;
  const names = ["p", "q"].slice(pick(2)).map((name) => `${name}${epoch}`);
  const answerMs = idleTimeMs(world, pick);
  const { questions, ...input } = questionsOf(epoch, names, answerMs);
  const numbered = (questions ?? []).map(
    ([id, started, text, none]) => [id.replace(/^1/, `${n}`), started, text, none] as const,
  );
  return yield* hinted(world, agent, answerMs, () =>
    ask(world, agent, { ...input, ...fence, questions: numbered }),
  );
}

function* end(world: World, pick: Pick, agent: AgentAddress, fence: Fence, run: number) {
  const ending = pick(3) === 0 ? handedBack(fence.epoch) : wellDone(fence.epoch);
  const how: VerbInput<"settle"> = { ...ending, ...fence, run };
  const idleMs = idleTimeMs(world, pick);
  const input: VerbInput<"settle"> = pick(2) === 0 ? how : { ...how, target: "idle", idle_ms: idleMs };
  // The agent may be idle after it, or queued again.
  const inMs = Math.min(idleMs, world.rig.store.timing.checkMs);
  const answer = yield* hinted(world, agent, inMs, () => verbs.settle(world, agent, input));
  const toWake =
    (answer.status === "settled" || answer.status === "same") && answer.agent_status === "queued";
  if (toWake) yield* addJob(world, agent.uid, answer.wake);
  return answer.status === "same" ? { ...answer, status: "same of an end" } : answer;
}

/** A sweeper: looks at what is due, ends or wakes it, and sets the time of the next look. */
export function* sweeper(world: World): Program {
  for (;;) yield* tick(world);
}

/** One round of a sweeper. */
export function* tick(world: World): Program {
  const due = yield* make({ name: "due", make: () => world.rig.deadlines.due(4, hiddenMs(world.rig.store)) });
  for (const one of due) yield* lookAt(world, one);
}

function* lookAt(world: World, due: Due): Program {
  const agent = due.address;
  const move = (at: number | undefined) =>
    make({ name: "move", ...(agent && { agent }), make: () => world.rig.deadlines.move([{ due, at }]) });
  if (!agent) return yield* move(undefined);
  const job = yield* make({
    name: "waiting job",
    agent,
    make: () => world.rig.store.waitingJob(agent, due.nowMs),
  });
  const seen = job ? ({ status: "queued", ...job } as const) : yield* verbs.overdue(world, agent);
  if (seen.status === "not_due") return yield* move(seen.deadline);
  if (seen.status === "ended" || seen.status === "unknown") return yield* move(undefined);
  if (seen.status === "answer_due") return yield* answerInstead(world, agent, move);
  if (seen.status === "queued" || seen.status === "lease_over") {
    const { wake } = seen;
    const isAlive = world.jobs.some((job) => job.uid === agent.uid && job.wake === wake);
    if (seen.status === "queued" && isAlive)
      return yield* move(due.nowMs + nextCheckDelayMs(seen.waited_ms, world.rig.store.timing));
    const { checkMs } = world.rig.store.timing;
    const answer = yield* hinted(world, agent, checkMs, () => verbs.requeue(world, agent, wake));
    if (answer.status === "wake") yield* addJob(world, agent.uid, answer.wake);
    return;
  }
  const answer = yield* verbs.settle(world, agent, seen.status === "idle_over" ? IDLE_END : MAX_AGE_END);
  if (answer.status === "not_due") return yield* move(answer.deadline);
  if (answer.status === "settled" || answer.status === "same") yield* move(undefined);
}

/** The defaults of an agent whose parent did not answer in time. */
function* answerInstead(world: World, agent: AgentAddress, move: (at: number) => Program): Program {
  const record = yield* make({ name: "record", agent, make: () => world.rig.store.record(agent) });
  for (const { question_id } of record?.questions ?? []) {
    const answered = yield* answer(world, agent, "sweeper", question_id, "default");
    if (answered.status === "not_due") return yield* move(answered.deadline);
    if (answered.status !== "queued") continue;
    yield* move(answered.deadline);
    yield* addJob(world, agent.uid, answered.wake);
  }
}

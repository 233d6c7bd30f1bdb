/**
 * What the checker knows of one sequence: everything that was ever accepted, written or said, kept beside Redis.
 *
 * 1. Every live agent is registered as live and no other is; never more than ten.
 * 2. Every accepted message is in exactly one place: unread, in one user entry of the log, or listed as undelivered.
 * 3. A log entry never changes once written.
 * 4. The epoch of an agent never goes back.
 * 5. One entry a run; one terminal entry an agent, there exactly when the agent is ended, and nothing behind it.
 * 6. An idle agent's life key has a time limit, that of a queued or running one has none, an ended one has none left.
 * 7. An agent waits exactly while a question of it is open; each question gets one answer in the log, or none where the
 *    parent wanted an end.
 * 8. Every live agent stands in the deadline set, not later than its state needs (or is in the hands of a sweeper).
 */
import { z } from "zod";
import type { AgentAddress } from "../../../../src/shared/protocol/keys.ts";
import { MAX_LIVE_AGENTS, type Timing } from "../../../../src/shared/protocol/limits.ts";
import { UserEntry } from "../../../../src/shared/protocol/log.ts";
import { InboxMessage } from "../../../../src/shared/protocol/message.ts";
import type { AgentStore } from "../../../../src/shared/redis/agent-store.ts";
import type { Rig } from "../rig.ts";
import { type Call, must, numberIn } from "./call.ts";
import { checkQuestions } from "./questions.ts";
import { type AgentShot, type EntryShot, NOTHING, type Shot, takeShot } from "./shot.ts";

/** A wake's job, in a queue that loses and repeats jobs as it likes. */
export interface Job {
  uid: string;
  wake: number;
  state: "waiting" | "taken";
}
/** How long a sweeper keeps what it took from the others: a part of the lease. */
export function hiddenMs({ timing }: AgentStore): number {
  return Math.ceil(timing.leaseMs / 2);
}
const FULL_LOOK_EVERY = 16;
/** Scripts and pictures read the clock at different moments of a call. */
const CLOCK_MS = 2;
const Ids = z.array(z.string());

/** Fields that only the holder of a run sets. */
const OF_HOLDERS = ["lease_until", "released_epoch", "asked_epoch"] as const;

function isNew(field: string, was: AgentShot, is: AgentShot): boolean {
  return is.record[field] !== undefined && is.record[field] !== was.record[field];
}

/** See the file's header. */
export class World {
  readonly rig: Rig;
  /** How often each answer was given, over all worlds. */
  readonly tally: Map<string, number>;
  readonly agents = new Map<string, AgentAddress>();
  readonly requests = new Map<string, { uid: string; digest: string }>();
  readonly texts = new Map<string, string>();
  /** Accepted messages and their agents. */
  readonly accepted = new Map<string, string>();
  /** Questions that were asked, by `<uid> <question_id>`. */
  readonly asked = new Map<string, AgentAddress>();
  /** Those of them that a finish left without an answer. */
  readonly leftOpen = new Set<string>();
  readonly acks = new Map<string, string>();
  /** `<uid> <epoch>` of every claim with nothing beside it. */
  readonly claimedAlone = new Set<string>();
  readonly jobs: Job[] = [];
  readonly trace: string[] = [];
  shot: Shot = NOTHING;
  readonly #read = new Map<string, string>();
  readonly #undelivered = new Map<string, string>();
  readonly #said = new Set<string>();
  readonly #terminal = new Map<string, EntryShot>();
  /**
   * Agents whose run was given up, and whose holder has renewed it, handed it back or asked all the same: until another claims
   * them their next check may be that of a waiting job.
   */
  readonly #revived = new Set<string>();
  #calls = 0;

  constructor(rig: Rig, tally: Map<string, number>) {
    this.rig = rig;
    this.tally = tally;
  }

  /** Makes a call once or twice, judging each answer and the whole world behind it; the last answer counts. */
  async perform(call: Call<unknown>, times: 1 | 2, who: string): Promise<unknown> {
    let answer: unknown;
    for (let time = 1; time <= times; time += 1) {
      const before = this.shot;
      answer = await call.make();
      if (call.isLocal) continue;
      const word = `${call.name}: ${statusOf(answer)}`;
      this.tally.set(word, (this.tally.get(word) ?? 0) + 1);
      this.#calls += 1;
      const looked =
        call.agent && this.#calls % FULL_LOOK_EVERY !== 0 ? [call.agent] : this.#everybody(call.agent);
      this.shot = await takeShot(this.rig, before, looked);
      const at = this.shot.nowMs % 1_000_000;
      this.trace.push(`${at} ${who}: ${call.name} ${call.agent?.uid ?? ""} ${JSON.stringify(answer)}`);
      call.judge?.(answer, before, this.shot);
      for (const { uid } of looked) this.#check(uid, before);
      this.#hear(this.shot.fresh);
      for (const { uid } of looked) this.#place(uid);
      this.#count();
    }
    return answer;
  }

  /** Looks at everything again; for when only time has passed. */
  async look(): Promise<void> {
    this.shot = await takeShot(this.rig, this.shot, this.#everybody());
    must(this.shot.fresh.length === 0, "an entry that no call wrote", this.shot.fresh);
  }

  /** The calls of the agent that a violation names first; all calls when it names none. */
  traceOf(violation: string): string[] {
    const uid = /sa-[0-9a-f]{24}/.exec(violation)?.[0] ?? "";
    return this.trace.filter((line) => line.includes(uid));
  }

  /** Uids of agents that have not ended. */
  living(): string[] {
    return [...this.agents.keys()].filter((uid) => this.shot.agents.get(uid)?.record.status !== "ended");
  }

  /** What must be true when every agent has ended and every sweeper has nothing left to do. */
  checkEnd(): void {
    must(Object.keys(this.shot.live).length === 0, "agents leaked from the quota", this.shot.live);
    for (const uid of this.agents.keys()) {
      must(this.#terminal.has(uid), "an agent without terminal entry", uid);
      must(this.shot.agents.get(uid)?.score === undefined, "an ended agent is still looked at", uid);
    }
    for (const id of this.accepted.keys())
      must(this.#read.has(id) !== this.#undelivered.has(id), "a message is lost or told twice", id);
  }

  #everybody(also?: AgentAddress): AgentAddress[] {
    return [...new Map([...this.agents, ...(also ? [[also.uid, also] as const] : [])]).values()];
  }

  #check(uid: string, before: Shot): void {
    const [was, is] = [before.agents.get(uid), this.shot.agents.get(uid)];
    if (!is?.record.status) return;
    const { status } = is.record;
    if (was?.record.status) {
      const { acked_by } = is.record;
      must(
        acked_by !== undefined || numberIn(is, "epoch") >= numberIn(was, "epoch"),
        "an epoch went back",
        was,
        is,
      );
      must(
        was.record.acked_by === undefined || JSON.stringify(was.record) === JSON.stringify(is.record),
        "what is kept of an agent changed",
        was,
        is,
      );
      for (const [key, json] of Object.entries(was.log))
        must(status === "ended" || is.log[key] === json, "a log entry changed", key, json, is.log[key]);
    }
    checkQuestions(this, uid, is);
    const limited = is.lifeMs !== -1;
    must(limited === (status === "idle" || status === "ended"), "a life key that does not fit the state", is);
    if (status === "ended") {
      must(is.lifeMs === -2, "an ended agent with a life key", is);
      return;
    }
    this.#lookInTime(uid, was, is);
    this.#readNew(uid, was, is);
  }

  #lookInTime(uid: string, was: AgentShot | undefined, is: AgentShot): void {
    const { nowMs } = this.shot;
    const { timing } = this.rig.store;
    const isOneHolder = was !== undefined && was.record.epoch === is.record.epoch;
    if (!isOneHolder) this.#revived.delete(uid);
    else if (was.record.lease_until === undefined && OF_HOLDERS.some((field) => isNew(field, was, is)))
      this.#revived.add(uid);
    const revivedMs = this.#revived.has(uid) ? nowMs + timing.longestCheckMs : 0;
    const score = is.score ?? Number.POSITIVE_INFINITY;
    const latestMs = Math.max(
      neededBy(is, nowMs, timing) + CLOCK_MS,
      revivedMs + CLOCK_MS,
      nowMs + hiddenMs(this.rig.store),
    );
    must(score <= latestMs, "nobody looks in time", is, nowMs);
  }

  #readNew(uid: string, was: AgentShot | undefined, is: AgentShot): void {
    for (const [key, json] of Object.entries(is.log)) {
      if (was?.log[key] !== undefined || !json.includes('"role":"user"')) continue;
      for (const { message_id } of UserEntry.parse(JSON.parse(json)).messages) {
        must(
          this.accepted.get(message_id) === uid,
          "a message was read that this agent never got",
          message_id,
        );
        must(!this.#read.has(message_id), "a message was read twice", message_id);
        this.#read.set(message_id, key);
      }
    }
  }

  #hear(fresh: readonly EntryShot[]): void {
    for (const entry of fresh) {
      const { reply_id = "", uid = "", kind, agent_status, undelivered } = entry.fields;
      must(!this.#said.has(reply_id), "one run, two entries", entry);
      must(!this.#terminal.has(uid), "an entry behind the terminal one", entry);
      this.#said.add(reply_id);
      if (kind === "message" || kind === "question") continue;
      if (agent_status === "ended") this.#terminal.set(uid, entry);
      for (const message_id of Ids.parse(JSON.parse(undelivered ?? "[]"))) {
        must(this.accepted.get(message_id) === uid, "undelivered, but never accepted", message_id);
        must(!this.#undelivered.has(message_id), "undelivered twice", message_id);
        this.#undelivered.set(message_id, reply_id);
      }
    }
  }

  #place(uid: string): void {
    const is = this.shot.agents.get(uid);
    if (!is?.record.status) return;
    must((is.record.status === "ended") === this.#terminal.has(uid), "ended and its entry do not agree", is);
    const unread = new Set(is.inbox.map((json) => InboxMessage.parse(JSON.parse(json)).message_id));
    must(unread.size === is.inbox.length, "a message waits twice", is.inbox);
    for (const [id, owner] of this.accepted) {
      if (owner !== uid) continue;
      const places = [unread.has(id), this.#read.has(id), this.#undelivered.has(id)].filter(Boolean).length;
      must(places === 1, `a message is in ${places} places`, id, is);
    }
  }

  #count(): void {
    const live = Object.keys(this.shot.live).sort();
    must(live.length <= MAX_LIVE_AGENTS, "more than ten live agents", live);
    const living = this.living().sort();
    must(live.join() === living.join(), "registered live agents are not those that live", live, living);
  }
}

function neededBy(is: AgentShot, nowMs: number, { checkMs, longestCheckMs }: Timing): number {
  if (is.record.status === "idle") return nowMs + Math.max(0, is.lifeMs);
  const deadline = numberIn(is, "deadline");
  const lateMs = nowMs - deadline;
  if (is.record.status === "waiting" || lateMs < 0 || "lease_until" in is.record)
    return Math.max(deadline, numberIn(is, "lease_until"));
  // Its job waits: the next check comes after as long again as it had waited at the last one.
  return nowMs + Math.min(lateMs + 2 * checkMs, longestCheckMs);
}

function statusOf(answer: unknown): string {
  return typeof answer === "object" && answer !== null && "status" in answer ? String(answer.status) : "done";
}

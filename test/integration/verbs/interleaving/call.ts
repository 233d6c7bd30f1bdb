/**
 * One call of a process, and what justifies each of its answers: a judgement over the pictures before and after it.
 * The script ran somewhere between the two, so every comparison with the time uses the picture that is kinder to it.
 */
import { isDeepStrictEqual } from "node:util";
import type { AgentAddress } from "../../../../src/shared/protocol/keys.ts";
import type { AgentShot, Shot } from "./shot.ts";

/** A call that is about to be made, possibly twice. */
export interface Call<T> {
  name: string;
  /** Whose keys it may change. */
  agent?: AgentAddress;
  make(): Promise<T>;
  /** It asks nobody: a step within the process, or at the queue of wakes. */
  isLocal?: boolean;
  /** Throws a {@link Violation} when the answer does not follow from what was there. */
  judge?(answer: T, before: Shot, after: Shot): void;
}
/** A process: a program that makes one call after another, and may be stopped between any two. */
export type Program<T = void> = Generator<Call<unknown>, T, unknown>;

/** Makes one call and gives its answer to the program. */
export function* make<T>(call: Call<T>): Program<T> {
  return (yield call as Call<unknown>) as T;
}

/** Something that must never happen. */
class Violation extends Error {
  override readonly name = "Violation";
}

/** Throws unless `holds`. */
export function must(holds: boolean, sentence: string, ...facts: unknown[]): asserts holds {
  if (!holds)
    throw new Violation(`${sentence}${facts.map((fact) => `\n  ${JSON.stringify(fact)}`).join("")}`);
}

const ABSENT: AgentShot = {
  record: {},
  log: {},
  transcript: {},
  inbox: [],
  lifeMs: -2,
  lifeEndMs: 0,
  score: undefined,
};

/** The agent in a picture. */
export function agentIn(shot: Shot, agent: AgentAddress): AgentShot {
  return shot.agents.get(agent.uid) ?? ABSENT;
}

/** Whether the caller with `epoch` holds the agent. */
export function isHolder({ record }: AgentShot, epoch: number): boolean {
  return record.status === "running" && record.epoch === `${epoch}`;
}

/** Number in a record's field; 0 when it is missing. */
export function numberIn({ record }: AgentShot, field: string): number {
  return Number(record[field] ?? 0);
}

/** Records, logs, inboxes, live agents and stream are as before; time may have taken life keys. */
export function unchanged(before: Shot, after: Shot): void {
  must(after.fresh.length === 0, "an answer that changes nothing wrote to the stream", after.fresh);
  must(isDeepStrictEqual(before.live, after.live), "an answer that changes nothing changed the live agents");
  for (const [uid, { record, log, inbox }] of after.agents) {
    const was = before.agents.get(uid) ?? ABSENT;
    const same = isDeepStrictEqual([record, log, inbox], [was.record, was.log, was.inbox]);
    must(same, `an answer that changes nothing changed ${uid}`, was, { record, log, inbox });
  }
}

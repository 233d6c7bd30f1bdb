/**
 * What the parents of a soak do over and over: each scene asks for work and accounts for every answer it must get.
 *
 * Owns: the account. Its neighbours: the product, through the calls of a parent and nothing else.
 *
 * 1. A call that Redis' absence spoilt is repeated with its key until it is answered; nothing else is forgiven.
 * 2. A scene is over when each of its runs, and the end of each of its agents, was told exactly once.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Parent } from "../../src/producer/parent.ts";
import { type ErrorCode, SubagentError } from "../../src/shared/errors.ts";
import { newRequestKey } from "../../src/shared/protocol/ids.ts";
import type { Reply } from "../../src/shared/protocol/reply.ts";
import type { Seeded } from "../helpers/seeded.ts";

/** What was asked for and what came. */
export interface Account {
  /** Scenes begun and not over, by what they wait for. */
  readonly open: Map<string, string>;
  /** Reply ids of the entries whose ack may not have happened: each may show once more. */
  readonly unacked: Set<string>;
  /** Entries that came to hand. */
  entries: number;
  scenes: number;
  runs: number;
  destroyed: number;
  idled: number;
  refused: number;
  /** Calls that were repeated because Redis was away. */
  repeated: number;
  /** What may not be. */
  readonly wrong: string[];
}

/** An account of nothing. */
export function newAccount(): Account {
  const counts = { entries: 0, scenes: 0, runs: 0, destroyed: 0, idled: 0, refused: 0, repeated: 0 };
  return { open: new Map(), unacked: new Set(), ...counts, wrong: [] };
}

/** One scene at work. */
export interface Stage {
  parent: Parent;
  chance: Seeded;
  account: Account;
  /**
   * Reply ids of the scene's own entries: nobody asks for its agents after it, and a copy that came later is left in the
   * channel. So a soak's books do not grow with its length.
   */
  readonly inHand: Set<string>;
  /** Says what the scene waits for now. */
  waitsFor(what: string): void;
}

const AGAIN_MS = 200;
const SPOILT: readonly ErrorCode[] = ["redis_unavailable", "outcome_unknown"];
/** Idle time of agents that are left to end by themselves. */
const IDLE_MS = 2_000;
const PARENT_HAS_ROOM_FOR = 10;

/** Repeats a call that Redis' absence spoilt. */
async function surely<T>({ account }: Stage, call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof SubagentError) || !SPOILT.includes(error.code)) throw error;
      account.repeated += 1;
      await sleep(AGAIN_MS);
    }
  }
}

function takeInHand({ account, inHand }: Stage, reply: Reply, wanted: Partial<Reply>): void {
  inHand.add(reply.reply_id);
  account.entries += 1;
  for (const [field, value] of Object.entries(wanted)) {
    const is = reply[field as keyof Reply];
    if (is === value) continue;
    const shown = `${reply.agent_id} run ${reply.run}: ${reply.kind} ${reply.status} ${reply.stop_reason}`;
    account.wrong.push(`${shown}: ${field} is ${String(is)}, not ${String(value)}`);
  }
}

const wellDone = { kind: "reply", status: "succeeded", summary: "All noted." } as const;

async function spawn(stage: Stage, name: string, more: { keep_alive?: boolean; idle_ms?: number } = {}) {
  stage.waitsFor(`the spawn of ${name}`);
  const request_key = newRequestKey();
  const { agent_id } = await surely(stage, () => stage.parent.spawn({ name, request_key, ...more }));
  return agent_id;
}

async function send(stage: Stage, agentId: string, text: string): Promise<void> {
  const message_id = newRequestKey();
  await surely(stage, () => stage.parent.send(agentId, text, { message_id }));
  stage.waitsFor(`the answer of ${agentId} to "${text}"`);
}

/** The next entry about an agent that was not in hand before. */
async function nextEntry(stage: Stage, agentId: string): Promise<Reply> {
  const { account, inHand, parent } = stage;
  for (;;) {
    const reply = await surely(stage, () => parent.waitAny([agentId]));
    if (!inHand.has(reply.reply_id)) return reply;
    if (!account.unacked.delete(reply.reply_id)) account.wrong.push(`told twice: ${reply.reply_id}`);
  }
}

/** Ends an agent at once, and hears how it ended. */
async function destroy(stage: Stage, agentId: string): Promise<void> {
  stage.waitsFor(`the end of ${agentId}`);
  const { ended_reason } = await surely(stage, () => stage.parent.destroy(agentId));
  const destroyed = ended_reason === "destroyed";
  const wanted = destroyed ? ({ kind: "ended", stop_reason: "destroyed" } as const) : wellDone;
  takeInHand(stage, await nextEntry(stage, agentId), wanted);
  stage.account[destroyed ? "destroyed" : "runs"] += 1;
}

async function task(stage: Stage): Promise<void> {
  const request_key = newRequestKey();
  stage.waitsFor(`task ${request_key}`);
  const prompt = `note things (${request_key})`;
  takeInHand(stage, await surely(stage, () => stage.parent.task({ prompt, request_key })), wellDone);
  stage.account.runs += 1;
}

async function conversation(stage: Stage): Promise<void> {
  const agentId = await spawn(stage, "talker", { keep_alive: true });
  for (let run = 1; run <= 3; run++) {
    await send(stage, agentId, `note things, part ${run}`);
    takeInHand(stage, await nextEntry(stage, agentId), { ...wellDone, run });
    stage.account.runs += 1;
  }
  await destroy(stage, agentId);
}

/** False when the agent's idle time was over before the message came, as may be on a machine that is overloaded. */
async function reached(sending: Promise<void>): Promise<boolean> {
  try {
    await sending;
    return true;
  } catch (error) {
    if (error instanceof SubagentError && error.code === "agent_ended") return false;
    throw error;
  }
}

async function leftAlone(stage: Stage): Promise<void> {
  const { parent } = stage;
  const agentId = await spawn(stage, "loner", { keep_alive: true, idle_ms: IDLE_MS });
  if (await reached(send(stage, agentId, "note things and wait"))) {
    takeInHand(stage, await nextEntry(stage, agentId), wellDone);
    stage.account.runs += 1;
  }
  stage.waitsFor(`the idle end of ${agentId}`);
  while ((await surely(stage, () => parent.get(agentId))).status !== "ended") await sleep(AGAIN_MS);
  takeInHand(stage, await nextEntry(stage, agentId), { kind: "ended", stop_reason: "idle" });
  stage.account.idled += 1;
}

async function cutShort(stage: Stage): Promise<void> {
  const agentId = await spawn(stage, "victim");
  await send(stage, agentId, "take your time");
  await sleep(stage.chance.between(0, 2_000));
  await destroy(stage, agentId);
}

/** Needs a parent of its own: fills it to the brim. */
async function greed(stage: Stage): Promise<void> {
  const agents: string[] = [];
  for (let i = 0; i < PARENT_HAS_ROOM_FOR; i++) agents.push(await spawn(stage, "crowd"));
  stage.waitsFor("the refusal of an eleventh agent");
  const request_key = newRequestKey();
  const refusal = await surely(stage, () => stage.parent.spawn({ name: "crowd", request_key })).catch(
    (error: unknown) => error,
  );
  if (refusal instanceof SubagentError && refusal.code === "quota_exceeded") stage.account.refused += 1;
  else stage.account.wrong.push(`an eleventh agent was not refused: ${JSON.stringify(refusal)}`);
  await Promise.all(agents.map((agentId) => destroy(stage, agentId)));
}

/** The scenes; `greed` is played by a parent of its own. */
export const SCENES = { task, conversation, leftAlone, cutShort, greed } as const;

/**
 * The scenes that the parents of a soak repeat: each requests work and checks every reply it must get.
 *
 * Owns: the account. It uses the product only through the calls of a parent.
 *
 * 1. A call that fails because Redis is unavailable is repeated with its key until it is answered; any other error counts.
 * 2. A scene is over when the parent has received each run's reply and each agent's end exactly once.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Parent } from "../../src/producer/parent.ts";
import { type ErrorCode, SubagentError } from "../../src/shared/errors.ts";
import { newRequestKey } from "../../src/shared/protocol/ids.ts";
import type { Reply } from "../../src/shared/protocol/reply.ts";
import type { Seeded } from "../helpers/seeded.ts";

/** Counts and errors of all scenes. */
export interface Account {
  /** Scenes in progress → the event they wait for. */
  readonly open: Map<string, string>;
  /** Reply ids of entries whose ack may have failed: each may be delivered once more. */
  readonly unacked: Set<string>;
  /** Number of entries received. */
  entries: number;
  scenes: number;
  runs: number;
  destroyed: number;
  idled: number;
  refused: number;
  /** Number of calls repeated because Redis was unavailable. */
  repeated: number;
  /** Descriptions of broken guarantees. */
  readonly wrong: string[];
}

/** Returns an empty account. */
export function newAccount(): Account {
  const counts = { entries: 0, scenes: 0, runs: 0, destroyed: 0, idled: 0, refused: 0, repeated: 0 };
  return { open: new Map(), unacked: new Set(), ...counts, wrong: [] };
}

/** The context of one scene. */
export interface Stage {
  parent: Parent;
  chance: Seeded;
  account: Account;
  /**
   * Reply ids that this scene has received. Each scene has its own set, so that memory does not grow with the soak's length: no
   * later scene waits for its agents, and a copy that arrives later stays in the channel.
   */
  readonly inHand: Set<string>;
  /** Sets the event that the scene waits for now. */
  waitsFor(what: string): void;
}

const AGAIN_MS = 200;
const SPOILT: readonly ErrorCode[] = ["redis_unavailable", "outcome_unknown"];
/** Idle time (ms) of agents that are left alone until they end. */
const IDLE_MS = 2_000;
const PARENT_HAS_ROOM_FOR = 10;

/** Repeats a call while it fails because Redis is unavailable. */
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

/** Waits for the next entry about an agent that the scene has not received before. */
async function nextEntry(stage: Stage, agentId: string): Promise<Reply> {
  const { account, inHand, parent } = stage;
  for (;;) {
    const reply = await surely(stage, () => parent.waitAny([agentId]));
    if (!inHand.has(reply.reply_id)) return reply;
    if (!account.unacked.delete(reply.reply_id)) account.wrong.push(`told twice: ${reply.reply_id}`);
  }
}

/** Destroys an agent and waits for the entry about its end. */
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

/** Returns false if the agent's idle time was over before the message arrived, which can happen on an overloaded machine. */
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

/** Fills a parent's quota; needs its own parent. */
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

/** The scenes by name; a separate parent plays `greed`. */
export const SCENES = { task, conversation, leftAlone, cutShort, greed } as const;

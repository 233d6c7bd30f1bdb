/**
 * The verbs as calls of their scripts: which keys and which arguments each is handed. A pure translation: no state, no
 * decision; `agent-store.ts` is what the others use.
 */
import type { EndedReason } from "../protocol/agent.ts";
import { PAYLOAD_VERSION } from "../protocol/agent.ts";
import { type AgentAddress, type Keys, replyIdOf } from "../protocol/keys.ts";
import { INBOX_MAX_BYTES, INBOX_MAX_MESSAGES, type InboxMessage } from "../protocol/message.ts";
import { bodyJson, type ReplyBody, type ReplyStatus, type StopReason } from "../protocol/reply.ts";
import { IDLE_MS, MAX_LIVE_AGENTS, type Timing } from "../protocol/timing.ts";
import type { Answer } from "./script-table.ts";
import type { Scripts } from "./scripts.ts";

/** What `spawn` writes. `digest` covers the caller's arguments, so that one key with other arguments is a conflict. */
export interface SpawnInput {
  requestKey: string;
  digest: string;
  stem: string;
  name: string;
  /** The agent's specification, as JSON. */
  spec: string;
  idleMs: number;
}

/** By what a holder's write is held against the agent. */
export interface Fence {
  epoch: number;
  /** How many entries the caller knows the log to have: of one that has lost some it is `stale`. */
  known: number;
}

/** Messages that go from the inbox into the log: up to the absolute cursor `to`, before which stands the one with id `last`. */
export interface Consumed {
  to: number;
  last: string;
}

/** What `append` commits; `entries` are [entry key, JSON] pairs, at least one, written all or none. */
export interface AppendInput extends Fence {
  runningMs: number;
  entries: readonly (readonly [key: string, json: string])[];
  /** The messages that this append consumes. */
  consume?: Consumed;
  progress?: ReplyBody;
  /** The run's last text, whole, where the summary of `progress` had to be cut, else ""; absent: as it was. */
  text?: { run: number; whole: string };
  /** One line of the content-free step list, JSON. */
  step?: string;
  /** An interim message for the parent. */
  interim?: { id: string; body: string };
}

/** Who ends what, and how. `worker` needs its fence; the others act by authority and bump the epoch. */
export interface SettleInput {
  by: ({ authority: "worker"; run: number } & Fence) | { authority: "parent" } | { authority: "sweeper" };
  target: "idle" | "ended";
  /** Why the agent ends; default `failed` for a failed run, else `completed`. */
  endedReason?: EndedReason;
  status: ReplyStatus;
  stopReason: StopReason;
  /** A natural end: an unread message keeps the run going (`more`). */
  natural?: boolean;
  body?: ReplyBody;
  /** Idle time of the agent that stays; default 600 s. */
  idleMs?: number;
}

/** The end of an agent whose idle time is over, by whoever finds it. */
export const IDLE_DEATH: SettleInput = {
  by: { authority: "sweeper" },
  target: "ended",
  endedReason: "idle",
  status: "cancelled",
  stopReason: "idle",
};

/** The verbs of the parent's side. */
export interface ProducerVerbs {
  spawn(address: AgentAddress, input: SpawnInput): Promise<Answer<"spawn">>;
  send(address: AgentAddress, message: InboxMessage, digest: string): Promise<Answer<"send">>;
  finish(address: AgentAddress): Promise<Answer<"finish">>;
}

/** The verbs of a run. */
export interface WorkerVerbs {
  /** `alone`: nothing else is active in this process, and nothing will be before the run commits a step. */
  claim(address: AgentAddress, claimId: string, worker: string, alone?: boolean): Promise<Answer<"claim">>;
  renew(address: AgentAddress, epoch: number, runningMs: number): Promise<Answer<"renew">>;
  append(address: AgentAddress, input: AppendInput): Promise<Answer<"append">>;
  release(
    address: AgentAddress,
    input: { epoch: number; delayMs: number; runningMs: number; retries: number },
  ): Promise<Answer<"release">>;
}

/** `spawn`, `send` and `finish`: what a parent may do besides settling. */
export function producerVerbs(scripts: Scripts, keys: Keys, timing: Timing): ProducerVerbs {
  return {
    spawn(address, input) {
      const { record, life } = keys.agent(address);
      const { request, registry, live } = keys.parent(address);
      return scripts.run(
        "spawn",
        { record, request: request(input.requestKey), registry, live, life },
        {
          uid: address.uid,
          stem: input.stem,
          name: input.name,
          spec: input.spec,
          tenant: address.tenant,
          parent_id: address.parentId,
          digest: input.digest,
          request_ttl_ms: timing.requestTtlMs,
          max_live: MAX_LIVE_AGENTS,
          idle_ms: input.idleMs,
          registry_ttl_ms: timing.registryTtlMs,
          version: PAYLOAD_VERSION,
        },
      );
    },
    send(address, message, digest) {
      const { record, inbox, life, message: messageKey } = keys.agent(address);
      const { registry } = keys.parent(address);
      return scripts.run(
        "send",
        { record, inbox, life, message: messageKey(message.message_id), registry },
        {
          payload: JSON.stringify(message),
          digest,
          message_ttl_ms: timing.requestTtlMs,
          max_messages: INBOX_MAX_MESSAGES,
          max_bytes: INBOX_MAX_BYTES,
          look_ms: timing.lookMs,
          max_age_ms: timing.maxAgeMs,
          registry_ttl_ms: timing.registryTtlMs,
        },
      );
    },
    finish: (address) =>
      scripts.run("finish", { record: keys.agent(address).record }, { look_ms: timing.lookMs }),
  };
}

/** `claim`, `renew`, `append` and `release`: what a run does besides settling. */
export function workerVerbs(scripts: Scripts, keys: Keys, timing: Timing): WorkerVerbs {
  const lease_ms = timing.leaseMs;
  return {
    claim: (address, claimId, worker, alone = false) =>
      scripts.run(
        "claim",
        { record: keys.agent(address).record },
        { claim_id: claimId, worker, lease_ms, version: PAYLOAD_VERSION, alone: alone ? "1" : "0" },
      ),
    renew(address, epoch, runningMs) {
      const { record, inbox } = keys.agent(address);
      return scripts.run("renew", { record, inbox }, { epoch, lease_ms, running_ms: Math.round(runningMs) });
    },
    append: (address, input) => append(scripts, keys, timing, address, input),
    release: (address, { epoch, delayMs, runningMs, retries }) =>
      scripts.run(
        "release",
        { record: keys.agent(address).record },
        {
          epoch,
          delay_ms: Math.ceil(delayMs),
          look_ms: timing.lookMs,
          running_ms: Math.round(runningMs),
          retries,
        },
      ),
  };
}

function append(
  scripts: Scripts,
  keys: Keys,
  timing: Timing,
  address: AgentAddress,
  input: AppendInput,
): Promise<Answer<"append">> {
  const { record, log, inbox, steps } = keys.agent(address);
  const { replies, doorbell, text } = keys.parent(address);
  return scripts.run(
    "append",
    { record, log, inbox, steps, replies, text: text(replyIdOf(address.uid, input.text?.run ?? 0)) },
    {
      epoch: input.epoch,
      known: input.known,
      running_ms: Math.round(input.runningMs),
      consume_to: input.consume?.to ?? "",
      consume_last: input.consume ? `"message_id":${JSON.stringify(input.consume.last)}` : "",
      progress: input.progress ? bodyJson(input.progress) : "",
      text_changed: input.text ? "1" : "",
      whole_text: input.text?.whole ?? "",
      step: input.step ?? "",
      interim_id: input.interim?.id ?? "",
      interim: input.interim?.body ?? "",
      doorbell,
      reply_ttl_ms: timing.replyTtlMs,
    },
    input.entries.flat(),
  );
}

/** `settle`, by whoever may. */
export function settle(
  scripts: Scripts,
  keys: Keys,
  timing: Timing,
  address: AgentAddress,
  input: SettleInput,
): Promise<Answer<"settle">> {
  const { record, log, inbox, life, steps } = keys.agent(address);
  const { live, replies, doorbell, text, registry, usage } = keys.parent(address);
  const { by } = input;
  const replyId = by.authority === "worker" ? replyIdOf(address.uid, by.run) : `${address.uid}.end`;
  return scripts.run(
    "settle",
    { record, log, inbox, life, live, replies, text: text(replyId), steps, registry, usage },
    {
      authority: by.authority,
      epoch: by.authority === "worker" ? by.epoch : 0,
      known: by.authority === "worker" ? by.known : 0,
      uid: address.uid,
      target: input.target,
      ended_reason: input.endedReason ?? (input.status === "failed" ? "failed" : "completed"),
      status: input.status,
      stop_reason: input.stopReason,
      natural: input.natural ? "1" : "",
      body: input.body ? bodyJson(input.body) : "",
      idle_ms: input.idleMs ?? IDLE_MS,
      look_ms: timing.lookMs,
      reply_ttl_ms: timing.replyTtlMs,
      registry_ttl_ms: timing.registryTtlMs,
      usage_ttl_ms: timing.usageTtlMs,
      doorbell,
      hints: keys.hints,
    },
  );
}

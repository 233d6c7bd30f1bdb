/**
 * Turns a request into a running agent, or into a refusal in its parent's channel. Both may be repeated with the same outcome:
 * the request key makes the spawn safe, the verb makes the refusal safe.
 */
import { createHash } from "node:crypto";
import type { Client } from "../../producer/client.ts";
import { internalsOf } from "../../producer/client.ts";
import { beginTask, checkTask } from "../../producer/detached-task.ts";
import { type Parent, parentOf } from "../../producer/parent.ts";
import type { Spawned } from "../../producer/spawn.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { agentOf, replyIdOf } from "../../shared/protocol/keys.ts";
import { NOTHING_DONE } from "../../shared/protocol/reply.ts";
import { clip } from "../../shared/protocol/text.ts";
import type { IntakeRequest, Sender } from "./input.ts";
import type { IntakeQuota } from "./quota.ts";

const SENTENCE_MAX_CHARS = 1_000;

/** A handed-over request; `task` is set if a caller can wait for its reply. */
export interface Handed {
  receipt: { agent_id: string; run: number; request_key: string };
  parent: Parent;
  task?: Spawned;
}

/**
 * Hands a request over, if `quota` has room; `id`: id of its entry or job. Rejects like `Parent.spawn` and `Parent.send`: after
 * a `retryable` error the caller may try again later. `requireRoom` throws if this process may not begin another request.
 */
export async function handOver(
  client: Client,
  request: IntakeRequest,
  id: string,
  quota: IntakeQuota,
  requireRoom: () => void = () => {},
): Promise<Handed> {
  const {
    tenant,
    parent_id: parentId,
    prompt,
    request_key = jobIdOf(id),
    agent_id,
    keep_alive,
    profile,
    default_model,
    ...more
  } = request;
  const { v: _, reply: __, ...agent } = more;
  const parent = parentOf({ client, parentId, tenant, ...profile }, "intake profile", default_model);
  const sendTo = async (target: string): Promise<Handed> => {
    const { run } = await parent.send(target, prompt, { message_id: request_key });
    return { receipt: { agent_id: target, run, request_key }, parent };
  };
  const within = <T>(kind: "spawn" | "task", input: object, spawn: () => Promise<T>) => {
    const check = () => {
      checkTask(parent, input, kind);
      requireRoom();
    };
    return quota.spawnWithin({ tenant, parentId }, request_key, { check, spawn });
  };
  if (agent_id !== undefined) return sendTo(agent_id);
  if (keep_alive) {
    const { name = "agent", ...rest } = agent;
    const input = { name, ...rest, keep_alive };
    const made = await within("spawn", input, () => parent.spawn({ ...input, request_key }));
    return sendTo(made.agent_id);
  }
  const input = { ...agent, prompt };
  const task = await within("task", input, () => beginTask(parent, { ...input, request_key }));
  return { receipt: { agent_id: task.receipt.agent_id, run: 1, request_key }, parent, task };
}

/** Writes a refusal into the parent's channel as a failed reply, once. Rejects if Redis is unavailable. */
export async function tellRefusal(
  client: Client,
  { parent, requestKey }: Sender,
  id: string,
  error: unknown,
): Promise<void> {
  const { store, call } = await internalsOf(client).open();
  const uid = `sa-${digestOf(`${parent.tenant}/${parent.parentId} ${id}`).slice(0, 24)}`;
  const code = error instanceof SubagentError ? error.code : "protocol_violation";
  const sentence = clip(`${code}: ${messageOf(error)}`, SENTENCE_MAX_CHARS);
  const { summary, ...nothing } = NOTHING_DONE;
  // A caller's request key never contains a blank, so this one cannot collide.
  const request_key = `refused ${uid}`;
  await call(({ write }) =>
    write({ what: "the refusal", key: { request_key } }, () =>
      store.refuse(agentOf(parent, uid), {
        request_key,
        reply_id: replyIdOf(uid, undefined),
        agent_id: "refused",
        name: "refused",
        message_id: requestKey,
        summary,
        progress: { ...nothing, error: sentence },
      }),
    ),
  );
}

/** Returns the default request key of a request, which is also the job id of an entry without room. */
export function jobIdOf(id: string): string {
  return `intake-${digestOf(id).slice(0, 32)}`;
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

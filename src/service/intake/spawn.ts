/**
 * Turns a wish into an agent at work, or into a refusal that its parent is told. Both may happen twice with the same
 * outcome: the request key makes the one, the verb the other safe.
 */
import { createHash } from "node:crypto";
import type { Client } from "../../producer/client.ts";
import { internalsOf } from "../../producer/client.ts";
import { beginTask, checkTask } from "../../producer/detached-task.ts";
import { createParent, type Parent } from "../../producer/parent.ts";
import type { Spawned } from "../../producer/spawn.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { agentOf, replyIdOf } from "../../shared/protocol/keys.ts";
import { NOTHING_DONE } from "../../shared/protocol/reply.ts";
import { clip } from "../../shared/protocol/text.ts";
import type { JobInput, Sender } from "./input.ts";
import type { IntakeQuota } from "./quota.ts";

const SENTENCE_MAX_CHARS = 1_000;

/** What became of a wish: `task` is there where a reply can be waited for. */
export interface Handed {
  receipt: { agent_id: string; run: number; request_key: string };
  parent: Parent;
  task?: Spawned;
}

/**
 * Hands a wish over, where `quota` knows of room; `id` names the entry or job it came as. Rejects like `Parent.spawn` and
 * `Parent.send`: what is `retryable` may be handed over later. `requirePlace` throws where this process may not begin one that is new.
 */
export async function handOver(
  client: Client,
  wish: JobInput,
  id: string,
  quota: IntakeQuota,
  requirePlace: () => void = () => {},
): Promise<Handed> {
  const {
    tenant,
    parent_id: parentId,
    prompt,
    request_key = jobIdOf(id),
    agent_id,
    keep_alive,
    profile,
    ...more
  } = wish;
  const { v: _, reply: __, ...agent } = more;
  const parent = createParent({ client, parentId, tenant, ...profile });
  const sendTo = async (target: string): Promise<Handed> => {
    const { run } = await parent.send(target, prompt, { message_id: request_key });
    return { receipt: { agent_id: target, run, request_key }, parent };
  };
  const within = <T>(kind: "spawn" | "task", input: object, spawn: () => Promise<T>) => {
    const check = () => {
      checkTask(parent, input, kind);
      requirePlace();
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

/** Tells a parent that a wish was refused: a failed reply in its channel, once. Rejects when Redis is away. */
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
  // No caller's request key has a blank in it.
  const request_key = `refused ${uid}`;
  await call(({ write }) =>
    write({ what: "the refusal", key: { request_key } }, () =>
      store.refuse(agentOf(parent, uid), {
        request_key,
        reply_id: replyIdOf(uid, undefined),
        agent_id: "refused",
        name: "refused",
        wish: requestKey,
        summary,
        progress: { ...nothing, error: sentence },
      }),
    ),
  );
}

/** The request key of a wish that names none, and the job that an entry without room becomes. */
export function jobIdOf(id: string): string {
  return `intake-${digestOf(id).slice(0, 32)}`;
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

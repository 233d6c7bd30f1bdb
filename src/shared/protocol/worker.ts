/** How a worker announces itself, and the names of the tools that every worker has. */
import { z } from "zod";
import { PAYLOAD_VERSION } from "./agent.ts";
import { ParentId, TenantId, Uid } from "./ids.ts";

/** The tools every worker offers; all others are known only where a live worker announces them. */
export const BASE_TOOLS = [
  "read_file",
  "write_file",
  "edit_file",
  "glob",
  "grep",
  "send_agent_message",
  "ask_parent",
] as const;

const BASE: ReadonlySet<string> = new Set(BASE_TOOLS);

/** The names of `tools` that no worker has by itself: of an allowlist, those that a worker must be given to claim it. */
function customTools(tools: readonly string[] = []): string[] {
  return tools.filter((name) => !BASE.has(name));
}

/** What a worker must have to run an agent as its specification says: tools, skills and hooks, by names that differ. */
export function needsOf({
  tools,
  skills,
  hooks,
}: {
  tools?: readonly string[] | undefined;
  skills?: readonly string[] | undefined;
  hooks?: readonly string[] | undefined;
}): string[] {
  const named = (kind: string, names: readonly string[] = []) => names.map((name) => `${kind}:${name}`);
  return [...customTools(tools), ...named("skill", skills), ...named("hook", hooks)];
}

/** An announcement is forgotten this long after it was last made. */
export const WORKER_TTL_MS = 30_000;

/**
 * What a worker says about itself. `tools`: every tool it can run; `model`: what a parent without a model of its own may
 * ask it for; `concurrency`: runs at a time; `now`: its host's clock when it announced, epoch ms.
 */
export const WorkerAnnouncement = z.object({
  v: z.literal(1),
  id: z.string().min(1).max(128),
  host: z.string(),
  version: z.string(),
  tools: z.array(z.string()),
  model: z.string().min(1).max(128).optional(),
  concurrency: z.int().min(1),
  now: z.int().optional(),
});
/** See {@link WorkerAnnouncement}. */
export type WorkerAnnouncement = z.infer<typeof WorkerAnnouncement>;

// A wake: the BullMQ job that says "look at this agent". It carries ids only, never state or text.

/** The data of a wake job; its id is `<uid>.<wake>`, its name the agent_id. */
export const Wake = z.object({
  v: z.literal(1),
  tenant: TenantId,
  parent_id: ParentId,
  uid: Uid,
  agent_id: z.string(),
  wake: z.int().min(1),
});
/** See {@link Wake}. */
export type Wake = z.infer<typeof Wake>;

const Versioned = z.looseObject({ v: z.number() });

/** Whether `data` is a wake of a newer version than this one, which only newer workers can follow. */
export function isNewerWake(data: unknown): boolean {
  const { success, data: payload } = Versioned.safeParse(data);
  return success && payload.v > PAYLOAD_VERSION;
}

/** The announcement of a worker, the names of the tools that every worker has, and the data of a wake. */
import { z } from "zod";
import { PAYLOAD_VERSION } from "./agent.ts";
import { ParentId, TenantId, Uid } from "./ids.ts";

/** Tools that every worker offers. All others are known only while a live worker announces them. */
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

/** Returns the names of an allowlist that are no base tools: a worker must be given them to claim the agent. */
function customTools(tools: readonly string[] = []): string[] {
  return tools.filter((name) => !BASE.has(name));
}

/** Returns what a worker must have to run an agent: tools, skills and hooks, with prefixes that keep their names apart. */
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

/** Lifetime of an announcement after its last renewal. */
export const WORKER_TTL_MS = 30_000;

/**
 * Announcement of a worker. `tools`: every tool it can run; `model`: model that parents without their own may ask it for;
 * `concurrency`: runs at a time; `now`: its host's clock at the announcement, epoch ms; `returned`: its one before had expired,
 * so those of other workers that live may be missing.
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
  returned: z.literal(true).optional(),
});
/** See {@link WorkerAnnouncement}. */
export type WorkerAnnouncement = z.infer<typeof WorkerAnnouncement>;

// A wake: the BullMQ job that says "this agent has work". It carries ids only, never state or text.

/** Data of a wake job. The job's id is `<uid>.<wake>`, its name the agent_id. */
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

/** Returns true if `data` is a wake of a newer version, which only newer workers can follow. */
export function isNewerWake(data: unknown): boolean {
  const { success, data: payload } = Versioned.safeParse(data);
  return success && payload.v > PAYLOAD_VERSION;
}

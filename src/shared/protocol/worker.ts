/** How a worker announces itself, and the names of the tools that every worker has. */
import { z } from "zod";

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

/** An announcement is forgotten this long after it was last made. */
export const WORKER_TTL_MS = 30_000;

/**
 * What a worker says about itself. `tools`: every tool it can run; `model`: what a parent without a model of its own may
 * ask it for; `concurrency`: runs at a time; `started_at`: ISO 8601; `now`: its host's clock when it announced, epoch ms.
 */
export const WorkerAnnouncement = z.object({
  v: z.literal(1),
  id: z.string().min(1).max(128),
  host: z.string(),
  pid: z.int().min(0),
  version: z.string(),
  tools: z.array(z.string()),
  model: z.string().min(1).max(128).optional(),
  concurrency: z.int().min(1),
  started_at: z.string(),
  now: z.int().optional(),
});
/** See {@link WorkerAnnouncement}. */
export type WorkerAnnouncement = z.infer<typeof WorkerAnnouncement>;

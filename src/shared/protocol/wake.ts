/** A wake: the BullMQ job that says "look at this agent". It carries ids only, never state or text. */
import { z } from "zod";
import { PAYLOAD_VERSION } from "./agent.ts";
import { ParentId, TenantId, Uid } from "./ids.ts";

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

/** Whether `data` is a wake of a newer version than this one, which only newer workers can follow. */
export function isNewerWake(data: unknown): boolean {
  const { success, data: payload } = z.looseObject({ v: z.number() }).safeParse(data);
  return success && payload.v > PAYLOAD_VERSION;
}

/** Progress events: live hints for people and dashboards. They may be lost; replies and reads are the truth. */
import { z } from "zod";
import { Alert, ReplyStatus, StopReason } from "./reply.ts";

const base = {
  v: z.literal(1),
  agent_id: z.string(),
  name: z.string(),
  run: z.int().min(0),
  turn: z.int().min(0),
};

/** One progress event; `turn` counts the model calls of the run from 1. */
export const ProgressEvent = z.discriminatedUnion("type", [
  z.object({ ...base, type: z.literal("run_started"), max_turns: z.int(), worker: z.string() }),
  z.object({ ...base, type: z.literal("turn_started") }),
  z.object({ ...base, type: z.literal("text_delta"), text: z.string() }),
  z.object({ ...base, type: z.literal("turn_finished"), tokens: z.int(), cost_usd: z.number() }),
  z.object({ ...base, type: z.literal("tool_started"), tool_use_id: z.string(), tool: z.string() }),
  z.object({
    ...base,
    type: z.literal("tool_finished"),
    tool_use_id: z.string(),
    tool: z.string(),
    is_error: z.boolean(),
    duration_ms: z.int(),
  }),
  z.object({ ...base, type: z.literal("alert"), alert: Alert }),
  z.object({ ...base, type: z.literal("model_retry"), kind: z.string(), delay_ms: z.int() }),
  z.object({ ...base, type: z.literal("released"), reason: z.string() }),
  z.object({ ...base, type: z.literal("waiting"), question: z.string() }),
  z.object({ ...base, type: z.literal("ended"), status: ReplyStatus, stop_reason: StopReason }),
]);
/** See {@link ProgressEvent}. */
export type ProgressEvent = z.infer<typeof ProgressEvent>;

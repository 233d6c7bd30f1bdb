/**
 * Messages between a worker and its processes of suspects. A process of suspects runs tools, so its messages are validated.
 * If the channel closes because the worker is gone, the process hands its runs back.
 */
import { z } from "zod";
import { Usage } from "../shared/protocol/content.ts";
import { ReplyStatus, StopReason } from "../shared/protocol/reply.ts";

/** Message of a worker: carry out this run, or hand all runs back. */
export const ToProcess = z.union([
  z.object({
    run: z.object({
      id: z.string(),
      address: z.object({ tenant: z.string(), parentId: z.string(), uid: z.string() }),
      wake: z.number(),
      timesTaken: z.number(),
      isolation: z.enum(["group", "own_process"]),
    }),
  }),
  z.object({ drain: z.literal(true) }),
]);
/** See the schema. */
export type ToProcess = z.infer<typeof ToProcess>;

const End = z.discriminatedUnion("status", [
  z.object({
    status: z.literal("settled"),
    reply: z.object({ status: ReplyStatus, stop_reason: StopReason, turns: z.number() }),
  }),
  z.object({ status: z.literal("released"), reason: z.string() }),
  z.object({ status: z.literal("passed"), reason: z.string() }),
  z.object({ status: z.literal("returned"), reason: z.string(), delayMs: z.number() }),
  z.object({ status: z.literal("lost") }),
]);

const Held = z.object({ epoch: z.number() });

/** Proof that a run is held; its worker needs it to release the run after a crash. The record has the rest. */
export type Held = z.infer<typeof Held>;

const amount = z.number().nonnegative();

/** Calls of the methods of `RunMetrics`, by their arguments. */
const Count = z.object({
  takenOver: z.tuple([]).optional(),
  settled: z.tuple([ReplyStatus, StopReason, amount]).optional(),
  answered: z.tuple([z.string(), amount]).optional(),
  bought: z.tuple([z.string(), Usage, amount]).optional(),
  refused: z.tuple([z.string()]).optional(),
  toolCalled: z.tuple([z.string(), z.boolean(), amount]).optional(),
});
/** See the schema. */
export type Count = z.infer<typeof Count>;

/** Message of a process of suspects: it takes runs, it holds a run, it counts something, or its part in a run is over. */
export const FromProcess = z.union([
  z.object({ count: Count }),
  z.object({ ready: z.literal(true) }),
  z.object({ uid: z.string(), held: Held }),
  z.object({ id: z.string(), end: End }),
]);
/** See the schema. */
export type FromProcess = z.infer<typeof FromProcess>;

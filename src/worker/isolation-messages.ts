/**
 * What a worker and its processes of suspects tell one another. Tools run in such a process: what it says is checked.
 * A channel that closes is a message, too: a worker that is gone wants its runs handed back.
 */
import { z } from "zod";
import { ReplyStatus, StopReason } from "../shared/protocol/reply.ts";

/** What a worker says: carry this run out; hand all of them back. */
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
  z.object({ status: z.literal("passed"), because: z.string() }),
  z.object({ status: z.literal("returned"), because: z.string(), delayMs: z.number() }),
  z.object({ status: z.literal("lost") }),
]);

const Held = z.object({ epoch: z.number() });

/** With what a run is held: what its worker needs to hand it back when the process has crashed. The record has the rest. */
export type Held = z.infer<typeof Held>;

/** What a process of suspects says: it takes runs; it holds one; its part in one is over. */
export const FromProcess = z.union([
  z.object({ ready: z.literal(true) }),
  z.object({ uid: z.string(), held: Held }),
  z.object({ id: z.string(), end: End }),
]);
/** See the schema. */
export type FromProcess = z.infer<typeof FromProcess>;

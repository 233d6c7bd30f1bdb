/** A parent's profile: what its sub-agents inherit unless a spawn narrows it. Pure. */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import { ParentId, TenantId, Uid } from "../shared/protocol/ids.ts";
import type { ParentAddress } from "../shared/protocol/keys.ts";
import {
  AlertThresholds,
  type Limits,
  LimitsWish,
  narrowLimits,
  TASK_LIMITS,
} from "../shared/protocol/limits.ts";
import { MESSAGE_MAX_BYTES } from "../shared/protocol/message.ts";
import { ANSWER_MS, IDLE_MS } from "../shared/protocol/timing.ts";
import { readInput } from "./input.ts";

/** Longest idle time that may be asked for: 24 hours. */
const MAX_IDLE_MS = 24 * 3_600_000;
const MAX_TOOLS = 256;

/** A text that may be long, at most 256 KB of UTF-8. */
export const LongText = z
  .string()
  .refine((text) => Buffer.byteLength(text) <= MESSAGE_MAX_BYTES, `at most ${MESSAGE_MAX_BYTES / 1024} KB`);
/** Instructions that replace the standard ones. */
export const SystemText = LongText.refine(
  (text) => text.trim() !== "",
  "it is blank: leave it out for the standard instructions",
);
/** A model's id as its provider spells it. */
export const ModelId = z.string().trim().min(1, "name a model").max(128);
/** An allowlist of tools: exactly these; duplicates are dropped. */
export const ToolNames = z
  .array(z.string().trim().min(1, "a tool's name is empty").max(128))
  .max(MAX_TOOLS)
  .transform((names) => [...new Set(names)]);
/** Idle time after which an idle agent is destroyed, ms. */
export const IdleMs = z.int().min(1).max(MAX_IDLE_MS);

/** Longest time for which a question may wait: 24 hours. */
const MAX_ANSWER_MS = 24 * 3_600_000;
/** How long a sub-agent's question waits for its answer, ms. */
export const AnswerMs = z.int().min(1).max(MAX_ANSWER_MS);

/** What a parent hands down; see `ParentOptions`. */
export const ProfileInput = z.strictObject({
  parentId: ParentId,
  tenant: TenantId.default("default"),
  model: ModelId.optional(),
  system: SystemText.optional(),
  tools: ToolNames.optional(),
  limits: LimitsWish.default({}),
  alerts: AlertThresholds.default({}),
  keepAlive: z.boolean().default(false),
  idleMs: IdleMs.default(IDLE_MS),
  answerWithinMs: AnswerMs.default(ANSWER_MS),
});

/** What a client's operator sets for all parents: replaces the defaults and is never exceeded. */
export interface OperatorDefaults {
  model?: string | undefined;
  limits: LimitsWish;
}

/** A checked profile. */
export interface Profile extends Omit<z.output<typeof ProfileInput>, "parentId" | "tenant"> {
  parent: ParentAddress;
}

/**
 * A parent's checked profile. Throws `nested_spawn` for the identity of a sub-agent, `invalid_input` for anything
 * malformed and for a limit above what the operator allows a task, the largest kind of run.
 */
export function profileOf(input: z.input<typeof ProfileInput>, operator: OperatorDefaults): Profile {
  if (typeof input.parentId === "string" && Uid.safeParse(input.parentId.trim().toLowerCase()).success) {
    throw new SubagentError(
      "nested_spawn",
      "A sub-agent cannot be a parent: let it finish, and have its parent spawn what else is needed.",
    );
  }
  const {
    parentId,
    tenant,
    model = operator.model,
    ...rest
  } = readInput(ProfileInput, input, "createParent");
  narrowed(baseLimits(TASK_LIMITS, operator, {}), rest.limits, "createParent");
  return { ...rest, ...(model !== undefined && { model }), parent: { tenant, parentId } };
}

/** The most a spawn of this profile may use: the defaults of its kind, as set by the operator and capped by the profile. */
export function baseLimits(defaults: Limits, operator: OperatorDefaults, profile: LimitsWish): Limits {
  const base: Limits = { ...defaults, ...operator.limits };
  const capped: LimitsWish = {};
  for (const [field, cap] of Object.entries(profile) as [keyof Limits, number | undefined][]) {
    if (cap !== undefined) capped[field] = Math.min(cap, base[field] ?? cap);
  }
  return { ...base, ...capped };
}

/** `base` narrowed by a wish, or `invalid_input` naming field, wish and what is allowed. */
export function narrowed(base: Limits, wish: LimitsWish, what: string): Limits {
  const answer = narrowLimits(base, wish);
  if (answer.status === "narrowed") return answer.limits;
  throw wider(what, `limits.${answer.field}`, answer.wished, answer.allowed);
}

/** The refusal of a wish that asks for more than is allowed. */
export function wider(what: string, field: string, wished: unknown, allowed: unknown): SubagentError {
  const show = (value: unknown) => (Array.isArray(value) ? value.join(", ") : String(value));
  return new SubagentError(
    "invalid_input",
    `${what} refused, nothing was done: ${field} ${show(wished)} is more than is allowed here (${show(allowed)}).`,
    { field, wished, allowed },
  );
}

/** From what a caller asks for to what `spawn` writes: checked, narrowed, priced, digested. Pure. */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import { type AgentSpec, PAYLOAD_VERSION } from "../shared/protocol/agent.ts";
import { AgentName, newRequestKey, RequestKey, slugOf } from "../shared/protocol/ids.ts";
import {
  AlertThresholds,
  type Limits,
  LimitsWish,
  SPAWN_LIMITS,
  TASK_LIMITS,
} from "../shared/protocol/limits.ts";
import { MessageText } from "../shared/protocol/message.ts";
import { type PriceOverrides, priceOf } from "../shared/protocol/pricing.ts";
import { digestOf, readInput } from "./input.ts";
import {
  AnswerMs,
  baseLimits,
  IdleMs,
  LongText,
  ModelId,
  narrowed,
  type OperatorDefaults,
  type Profile,
  SystemText,
  ToolNames,
  wider,
} from "./profile.ts";

const agent = {
  name: AgentName,
  description: LongText.optional(),
  model: ModelId.optional(),
  system: SystemText.optional(),
  tools: ToolNames.optional(),
  limits: LimitsWish.optional(),
  alerts: AlertThresholds.optional(),
  request_key: RequestKey.optional(),
};

/**
 * What a spawn may ask for. Everything but `name` is optional and inherited from the parent; limits, tools, `idle_ms` and
 * `answer_within_ms` (how long a question of it waits) may only be narrowed. `request_key` makes the call repeatable for
 * 24 hours.
 */
export const SpawnInput = z.strictObject({
  ...agent,
  keep_alive: z.boolean().optional(),
  idle_ms: IdleMs.optional(),
  answer_within_ms: AnswerMs.optional(),
});
/** See {@link SpawnInput}. */
export type SpawnInput = z.input<typeof SpawnInput>;

/** What a task may ask for: a prompt, and the agent that gets it. `name` is `task` unless given. */
export const TaskInput = z.strictObject({ ...agent, name: AgentName.default("task"), prompt: MessageText });
/** See {@link TaskInput}. */
export type TaskInput = z.input<typeof TaskInput>;

/** What makes a spawn of one kind: the schema of its arguments and the limits it starts from. */
export const KINDS = {
  spawn: { schema: SpawnInput, limits: SPAWN_LIMITS },
  task: { schema: TaskInput, limits: TASK_LIMITS },
  agent: { schema: TaskInput, limits: SPAWN_LIMITS },
} as const;

/** A spawn that is ready to be written, but for its tools: whether they are known is asked of the workers. */
export interface PreparedSpawn {
  name: string;
  stem: string;
  requestKey: string;
  digest: string;
  /** The tools asked for; absent = the parent's. */
  wishedTools: string[] | undefined;
  spec: AgentSpec;
  /** The first message, for a task. */
  prompt: string | undefined;
}

/** Whose spawn it is, and what holds for it. */
export interface SpawnContext {
  profile: Profile;
  operator: OperatorDefaults;
  prices: PriceOverrides;
  /** Whether somebody answers what a task asks; a managed agent may always ask. */
  answersTask?: boolean;
}

/**
 * A checked spawn. Throws `invalid_input` (malformed, or wider than allowed), or `unknown_price` for a cost cap on a
 * model whose price nobody knows.
 */
export function prepareSpawn(
  kind: keyof typeof KINDS,
  input: unknown,
  { profile, operator, prices, answersTask = false }: SpawnContext,
): PreparedSpawn {
  const read = readInput(KINDS[kind].schema, input, kind);
  const { request_key, ...args } = read;
  const {
    keep_alive = kind === "spawn" && profile.keepAlive,
    idle_ms = profile.idleMs,
    answer_within_ms = profile.answerWithinMs,
  }: Partial<z.output<typeof SpawnInput>> = "prompt" in args ? {} : args;
  if (idle_ms > profile.idleMs) throw wider(kind, "idle_ms", idle_ms, profile.idleMs);
  if (answer_within_ms > profile.answerWithinMs)
    throw wider(kind, "answer_within_ms", answer_within_ms, profile.answerWithinMs);
  const model = args.model ?? profile.model;
  if (model === undefined) {
    throw new SubagentError(
      "invalid_input",
      `${kind} refused: name a model, here or in the parent's profile.`,
      {
        issues: [{ field: "model", problem: "no model is named anywhere" }],
      },
    );
  }
  const base = baseLimits(KINDS[kind].limits, operator, profile.limits);
  const limits = narrowed(base, args.limits ?? {}, kind);
  requirePrice(model, limits, prices);
  const system = args.system ?? profile.system;
  const alerts = { ...profile.alerts, ...args.alerts };
  return {
    name: args.name,
    stem: slugOf(args.name),
    requestKey: request_key ?? newRequestKey(),
    digest: digestOf({ kind, ...args }),
    wishedTools: args.tools,
    prompt: "prompt" in args ? args.prompt : undefined,
    spec: {
      v: PAYLOAD_VERSION,
      model,
      ...(system !== undefined && { system }),
      ...(args.description !== undefined && { description: args.description }),
      limits,
      ...(Object.keys(alerts).length > 0 && { alerts }),
      keep_alive,
      idle_ms,
      ...((kind === "spawn" || answersTask) && { answer_ms: answer_within_ms }),
    },
  };
}

function requirePrice(model: string, limits: Limits, prices: PriceOverrides): void {
  if (limits.max_cost_usd === undefined || priceOf(model, prices)) return;
  throw new SubagentError(
    "unknown_price",
    `The price of model "${model}" is not known, so max_cost_usd cannot be kept: add its price, or cap tokens instead.`,
    { model },
  );
}

/** The tools of a new agent, and those asked for that no worker has. */
export interface ResolvedTools {
  tools: string[] | undefined;
  unknown: string[];
}

/**
 * The allowlist to store. Known tools outside the parent's list are refused (`invalid_input`); unknown ones are
 * reported, and kept only where the parent's own list has them or it has none.
 */
export function resolveTools(
  profileTools: readonly string[] | undefined,
  wished: readonly string[] | undefined,
  known: ReadonlySet<string>,
): ResolvedTools {
  const asked = wished ?? profileTools;
  if (!asked) return { tools: undefined, unknown: [] };
  const allowed = (tool: string) => !profileTools || profileTools.includes(tool);
  const refused = asked.filter((tool) => known.has(tool) && !allowed(tool));
  if (refused.length > 0) throw wider("spawn", "tools", refused, profileTools);
  return { tools: asked.filter(allowed), unknown: asked.filter((tool) => !known.has(tool)) };
}

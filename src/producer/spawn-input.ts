/**
 * The input of a spawn: checks, narrows, prices and digests it under the profile of its parent. A zod schema for the output
 * becomes the JSON Schema that the worker checks; it also checks the reply once more, for its refinements and types. A task
 * also takes options: in a second argument, or in the same object as the prompt. Pure.
 */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import { type AgentSpec, PAYLOAD_VERSION } from "../shared/protocol/agent.ts";
import { isJsonObject, type JsonObject } from "../shared/protocol/content.ts";
import { AgentName, newRequestKey, RequestKey, slugOf, Traceparent } from "../shared/protocol/ids.ts";
import {
  AlertThresholds,
  type Budgets,
  isCappedInUsd,
  LimitsInput,
  narrowedBudgets,
  SPAWN_LIMITS,
  TASK_LIMITS,
} from "../shared/protocol/limits.ts";
import {
  attachedText,
  FilesInput,
  fitTogether,
  ImagesInput,
  MessageText,
  TOO_MUCH_ATTACHED,
} from "../shared/protocol/message.ts";
import { OutputSchema } from "../shared/protocol/output.ts";
import type { Question, Reply } from "../shared/protocol/reply.ts";
import { priceOf } from "../shared/protocol/usage.ts";
import { inherit, tooWideError } from "./inheritance.ts";
import {
  AnswerMs,
  DefinitionName,
  digestOf,
  IdleMs,
  INHERITABLE,
  LongText,
  MAX_WAIT_MS,
  nullsLeftOut,
  type OperatorDefaults,
  parseOutput,
  type RegisteredProfile,
  readInput,
  readOptions,
  Signal,
} from "./input.ts";
import type { ParentContext } from "./parent-context.ts";
import type { OnWait } from "./task-wait-reasons.ts";

const agent = {
  name: AgentName,
  description: LongText.optional(),
  ...INHERITABLE,
  agent: DefinitionName.optional(),
  limits: LimitsInput.optional(),
  alerts: AlertThresholds.optional(),
  output_schema: OutputSchema.optional(),
  files: FilesInput.optional(),
  request_key: RequestKey.optional(),
  traceparent: Traceparent.optional(),
};

/**
 * The options of a spawn. Everything but `name` is optional and inherited from the parent. Limits, tools, `idle_ms` and
 * `answer_within_ms` (how long its questions wait) may only be narrowed. `request_key` makes the call repeatable for
 * 24 hours, a task until a day after its ack. `traceparent` (W3C) is the span of the agent's runs; default: the caller's
 * active span, if OpenTelemetry is in use. The worker writes `files` (text or base64, 4 MB together, or copied `from` an open
 * directory) into the workspace before the first turn.
 */
export const SpawnInput = z
  .strictObject({
    ...agent,
    keep_alive: z.boolean().optional(),
    idle_ms: IdleMs.optional(),
    answer_within_ms: AnswerMs.optional(),
  })
  .refine(fitTogether, TOO_MUCH_ATTACHED);
/** See {@link SpawnInput}. */
export type SpawnInput = WithZod<z.input<typeof SpawnInput>>;

/** The options of a task: a prompt, `images` that the model sees with it, and its agent's options. Default `name`: `task`. */
export const TaskInput = z
  .strictObject({
    ...agent,
    name: AgentName.default("task"),
    prompt: MessageText,
    images: ImagesInput.optional(),
  })
  .refine(fitTogether, TOO_MUCH_ATTACHED);
/** See {@link TaskInput}. */
export type TaskInput = WithZod<z.input<typeof TaskInput>>;

/** An input whose `output_schema` may also be a zod schema. The final answer of each run must fit the schema. */
export type WithZod<Input> = Input | (Omit<Input, "output_schema"> & { output_schema: z.ZodType });

/** The kinds of spawn: the schema of the arguments, and the default limits. */
export const KINDS = {
  spawn: { schema: nullsLeftOut(SpawnInput), limits: SPAWN_LIMITS },
  task: { schema: nullsLeftOut(TaskInput), limits: TASK_LIMITS },
  agent: { schema: nullsLeftOut(TaskInput), limits: SPAWN_LIMITS },
} as const;

/** A spawn that is ready to be written, except for its tools: the caller must still check which of them the workers have. */
export interface PreparedSpawn {
  /** Name of the call, for its refusals. */
  what: string;
  name: string;
  stem: string;
  requestKey: string;
  /** Whether the caller named the request key: a repeated call then finds the agent and its reply. */
  promised: boolean;
  digest: string;
  /** The requested tools; undefined: the parent's. */
  requestedTools: string[] | undefined;
  /** The tools of the parent; undefined: all. */
  profileTools: string[] | undefined;
  spec: AgentSpec;
  /** The first message, for a task. */
  prompt: string | undefined;
  /** The files and images of the first message, in stored form. */
  attached: string | undefined;
  /** The ended agent whose conversation the new agent continues, its length, and the number of the new agent's first run. */
  resumes?: { uid: string; agentId: string; logBytes: number; run: number };
  /** The sweepers' action on the agent when the parent's lease has expired; undefined: none. */
  onParentGone: "finish" | "destroy" | undefined;
}

interface PrepareOptions {
  answersTask?: boolean;
  budgets?: Budgets | undefined;
  what?: string;
}

/**
 * Prepares a spawn whose arguments have been read, now or before. Throws `invalid_input` (wider than allowed), or
 * `unknown_price` for a cost cap on a model without a known price; `what` names the refused call (default: its kind).
 * `answersTask`: the caller answers a task's questions; an agent of `spawn` may always ask. `budgets` bind the agent in
 * addition to those of the profile and the operator.
 */
export function prepare(
  kind: keyof typeof KINDS,
  { request_key, traceparent, args, digest }: ReturnType<typeof readCall>,
  { profile, operator }: Pick<ParentContext, "profile" | "operator">,
  { answersTask = false, budgets: others, what = kind }: PrepareOptions = {},
): PreparedSpawn {
  const {
    keep_alive = kind === "spawn" && profile.keep_alive,
    idle_ms = profile.idle_ms,
    answer_within_ms = profile.answer_within_ms,
  }: Partial<z.output<typeof SpawnInput>> = args;
  if (idle_ms > profile.idle_ms) throw tooWideError(what, "idle_ms", idle_ms, profile.idle_ms);
  if (answer_within_ms > profile.answer_within_ms)
    throw tooWideError(what, "answer_within_ms", answer_within_ms, profile.answer_within_ms);
  const { model, limits, tools, rest } = inherit(what, KINDS[kind].limits, args, { profile, operator });
  if (model === undefined) throw noModel(what, operator);
  const budgets = narrowedBudgets(narrowedBudgets(operator.budgets, profile.budgets), others);
  if (isCappedInUsd(limits, budgets))
    for (const each of [model, ...(rest.fallback_models ?? [])]) requirePrice(each, operator);
  const alerts = { ...profile.alerts, ...args.alerts };
  const attached = attachedText(args);
  return {
    what,
    name: args.name,
    stem: slugOf(args.name),
    requestKey: request_key ?? newRequestKey(),
    promised: request_key !== undefined,
    digest,
    requestedTools: tools,
    profileTools: profile.tools,
    prompt: "prompt" in args ? args.prompt : undefined,
    attached,
    onParentGone: profile.lease?.onParentGone === "keep" ? undefined : profile.lease?.onParentGone,
    spec: {
      v: PAYLOAD_VERSION,
      model,
      ...rest,
      ...(args.description !== undefined && { description: args.description }),
      limits,
      ...(Object.keys(alerts).length > 0 && { alerts }),
      ...(Object.keys(budgets).length > 0 && { budgets }),
      keep_alive,
      idle_ms,
      ...(attached !== undefined && { attached: true }),
      ...(args.output_schema && { output_schema: args.output_schema }),
      ...(traceparent !== undefined && { traceparent }),
      ...((kind === "spawn" || answersTask) && { answer_ms: answer_within_ms }),
    },
  };
}

/** The identity of a repeated call: the caller's request key, and a digest of the arguments. */
export interface RepeatableCall {
  requestKey: string;
  digest: string;
}

/** A spawn that is checked against everything but the parent's registered profile. */
export interface CheckedSpawn {
  /** Undefined if the caller named no request key. */
  readonly repeatable?: RepeatableCall | undefined;
  /** Returns the spawn under a registered profile. Throws as {@link prepare} does. */
  withProfile(registered: RegisteredProfile): PreparedSpawn;
}

/**
 * Makes all checks of a spawn that need no Redis. A registered profile can only narrow the spawn, or give it the missing
 * model. Throws `invalid_input` for malformed input, and as {@link prepare} does, except for a missing model. With a request
 * key it throws only for malformed input: an earlier call may have spawned the agent, and only Redis knows that.
 */
export function checkSpawn(
  kind: keyof typeof KINDS,
  input: unknown,
  { profile, operator }: Pick<ParentContext, "profile" | "operator">,
  options: { answersTask?: boolean } = {},
): CheckedSpawn {
  // Read once: the caller may change its object while the call is under way.
  const call = readCall(kind, input);
  const { request_key: requestKey, digest } = call;
  const repeatable = requestKey === undefined ? undefined : { requestKey, digest };
  const withProfile = (registered: RegisteredProfile) =>
    prepare(kind, call, { profile: profile.withProfile(registered), operator }, options);
  try {
    const unregistered = prepare(kind, call, { profile, operator }, options);
    return {
      repeatable,
      withProfile: (registered) => (registered.version === 0 ? unregistered : withProfile(registered)),
    };
  } catch (error) {
    if (!repeatable && !isAboutModel(error)) throw error;
    return { repeatable, withProfile };
  }
}

/** Reads the arguments of a call, split into those in the digest (`args`) and those that a repetition may change. */
function readCall(kind: keyof typeof KINDS, input: unknown) {
  const { request_key, traceparent, ...args } = readInput(KINDS[kind].schema, input, kind);
  return { request_key, traceparent, args, digest: digestOf({ kind, ...args }) };
}

function noModel(what: string, { isModelLookedUp = false }: OperatorDefaults): SubagentError {
  const elsewhere = isModelLookedUp
    ? "; or set SUBAGENT_MODEL, or start a worker: no live one has said its model"
    : "";
  return new SubagentError(
    "invalid_input",
    `${what} refused: name a model, here or in the parent's profile${elsewhere}.`,
    {
      field: "model",
      issues: [{ field: "model", problem: "no model is named anywhere" }],
    },
  );
}

/** Returns whether the spawn might be accepted with another model. */
function isAboutModel(error: unknown): boolean {
  if (!(error instanceof SubagentError)) return false;
  return error.code === "unknown_price" || error.details.field === "model";
}

function requirePrice(model: string, { prices }: OperatorDefaults): void {
  if (priceOf(model, prices)) return;
  throw new SubagentError(
    "unknown_price",
    `The price of model "${model}" is not known, so max_cost_usd cannot be kept: add its price (SUBAGENT_PRICES, or prices in code), or cap tokens instead.`,
    { model },
  );
}

/** A reply whose `output` is parsed by a zod schema. One that succeeded has an output; one that reached a cap may have one. */
export type TypedReply<T> =
  | (Omit<Reply, "status" | "output"> & { status: "succeeded"; output: T })
  | (Omit<Reply, "status" | "output"> & {
      status: Exclude<Reply["status"], "succeeded">;
      output?: T | undefined;
    });

/** An input with its output schema as JSON Schema, and the function that parses a reply's output. */
interface ReadableInput {
  input: unknown;
  /** Must not reject: the reply is bought, and its ack follows. */
  typed(reply: Reply): Promise<Reply>;
}

/** Replaces a zod schema in a caller's input by its JSON Schema. Throws `invalid_input` if it has no JSON Schema form. */
export function withJsonSchema(input: unknown, what: string): ReadableInput {
  if (typeof input !== "object" || input === null || !("output_schema" in input)) return asItIs(input);
  const { output_schema: schema } = input;
  if (!isZod(schema)) return asItIs(input);
  return {
    input: { ...input, output_schema: jsonSchemaOf(schema, what) },
    typed: (reply) => read(schema, reply),
  };
}

function asItIs(input: unknown): ReadableInput {
  return { input, typed: async (reply) => reply };
}

function isZod(schema: unknown): schema is z.ZodType {
  return schema instanceof z.ZodType || (typeof schema === "object" && schema !== null && "_zod" in schema);
}

function jsonSchemaOf(schema: z.ZodType, what: string): JsonObject {
  try {
    const { $schema: _, "~standard": __, ...json } = z.toJSONSchema(schema, { io: "input" });
    return json;
  } catch {
    throw new SubagentError(
      "invalid_input",
      `${what} refused, nothing was done: output_schema has no JSON Schema form; use what JSON can hold (no dates, no bigints).`,
      { issues: [{ field: "output_schema", problem: "has no JSON Schema form" }] },
    );
  }
}

/**
 * Resolves to the reply with its output parsed by the schema; without it, and no longer `succeeded`, if the schema rejects it,
 * or throws.
 */
async function read(schema: z.ZodType, reply: Reply): Promise<Reply> {
  const { output, ...rest } = reply;
  const isWanted = reply.status === "succeeded";
  if (output === undefined && !isWanted) return reply;
  const parsed = await parseOutput(schema, output);
  if ("value" in parsed) return { ...rest, output: parsed.value };
  const error = [reply.error, parsed.problem].filter(Boolean).join(" ");
  return { ...rest, ...(isWanted && { status: "partial", stop_reason: "invalid_output" }), error };
}

const callback = <F>() =>
  z.custom<F>((value) => typeof value === "function", "must be a function").optional();
const TaskOptionsInput = z.strictObject({
  signal: Signal,
  wait_for_worker_ms: z.int().min(0).max(MAX_WAIT_MS).optional(),
  onWait: callback<OnWait>(),
  onQuestion: callback<AnswerQuestions>(),
});
/** Options and input in one object; the schema of the input refuses what is neither. */
const TaskCall = z.looseObject(TaskOptionsInput.shape);
const TASK_OPTIONS = Object.keys(TaskCall.shape);

/** Answers the questions of a task. */
export type AnswerQuestions = (question: Question) => Promise<string> | string;

/** Options of a task besides its input. */
export interface TaskOptions {
  /** Aborting it destroys the sub-agent, and the task rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /**
   * Answers the sub-agent's `ask_parent` questions (an allowlist of tools must name `ask_parent`); without this callback the
   * sub-agent cannot ask. If it throws, the task rejects with that error (`invalid_input` if the answer is no text). The
   * sub-agent then goes on, because its work is paid for. Question and reply stay in the channel: the parent answers, or a
   * task with the same `request_key` asks again. `destroy` with the question's `agent_id` frees the slot at once; otherwise
   * the agent goes on with the default answer after `answer_within_ms`.
   */
  onQuestion?: AnswerQuestions | undefined;
  /**
   * Maximum time in a row without a live worker, ms, 0 or more; then the task rejects with `no_worker` and its sub-agent is
   * destroyed, unless a worker holds its run. The client checks every 2 s and counts from the check that finds no worker.
   * Default: no limit.
   */
  wait_for_worker_ms?: number | undefined;
  /** Called within 5 s with the reason for which the task waits (worker, pause, tools, provider), and at each change. */
  onWait?: OnWait | undefined;
}

/** Returns whether `value` is an object with none of the options of a task. Most calls have none, and need no check of them. */
function hasNoTaskOptions(value: unknown): boolean {
  if (!isJsonObject(value)) return false;
  return TASK_OPTIONS.every((name) => !(name in value));
}

/** Splits the input of a task from the options that may be in the same object. */
export function splitTaskInput(input: unknown): TaskOptions & { input: unknown } {
  if (typeof input === "string") return { input: { prompt: input } };
  if (hasNoTaskOptions(input)) return { input };
  const { signal, onQuestion, wait_for_worker_ms, onWait, ...rest } = readInput(TaskCall, input, "task");
  return { signal, onQuestion, wait_for_worker_ms, onWait, input: rest };
}

/** Merges the options of a call with those beside the prompt; the call's own options win. Throws `invalid_input`. */
export function mergeTaskOptions(beside: TaskOptions, options: TaskOptions, call = "task"): TaskOptions {
  if (hasNoTaskOptions(options) && Object.keys(options).length === 0) return beside;
  return { ...beside, ...readOptions(TaskOptionsInput, options, call) };
}

/**
 * What a spawn asks for: checked, narrowed, priced and digested, under the profile of its parent. A zod schema for the output
 * becomes the JSON Schema that the worker checks, and checks the reply once more, for its refinements and types. A task takes
 * options besides: in a second argument, or in the same object as the prompt. Pure.
 */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import { type AgentSpec, PAYLOAD_VERSION } from "../shared/protocol/agent.ts";
import type { JsonObject } from "../shared/protocol/content.ts";
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
import { inherit, widerError } from "./inheritance.ts";
import {
  AnswerMs,
  DefinitionName,
  digestOf,
  IdleMs,
  INHERITABLE,
  LongText,
  nullsLeftOut,
  type OperatorDefaults,
  type RegisteredProfile,
  readAsWritten,
  readInput,
} from "./input.ts";
import type { ParentContext } from "./parent-context.ts";
import type { OnWait } from "./task-wait-reasons.ts";
import { MAX_WAIT_MS } from "./wait.ts";

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
 * What a spawn may ask for. Everything but `name` is optional and inherited from the parent; limits, tools, `idle_ms` and
 * `answer_within_ms` (how long a question of it waits) may only be narrowed. `request_key` makes the call repeatable for
 * 24 hours. `traceparent` (W3C) is the span that the agent's runs belong to; default: the one that is active in the caller,
 * where OpenTelemetry is in use. `files` (text or base64, 4 MB together) stand in its workspace before its first turn.
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

/** What a task may ask for: a prompt, `images` that its model sees with it, and the agent that gets them. `name` is `task` unless given. */
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

/** `output_schema`, what the final answer of each run must fit, may also be a zod schema. */
export type WithZod<Input> = Input | (Omit<Input, "output_schema"> & { output_schema: z.ZodType });

/** What makes a spawn of one kind: the schema of its arguments and the limits it starts from. */
export const KINDS = {
  spawn: { schema: nullsLeftOut(SpawnInput), limits: SPAWN_LIMITS },
  task: { schema: nullsLeftOut(TaskInput), limits: TASK_LIMITS },
  agent: { schema: nullsLeftOut(TaskInput), limits: SPAWN_LIMITS },
} as const;

/** A spawn that is ready to be written, but for its tools: whether they are known is asked of the workers. */
export interface PreparedSpawn {
  name: string;
  stem: string;
  requestKey: string;
  /** The caller named the request key: a repeated call finds the agent and its reply. */
  promised: boolean;
  digest: string;
  /** The tools asked for; absent = the parent's. */
  requestedTools: string[] | undefined;
  /** The tools of the parent; absent = all. */
  profileTools: string[] | undefined;
  spec: AgentSpec;
  /** The first message, for a task. */
  prompt: string | undefined;
  /** Its files and images, as they are stored. */
  attached: string | undefined;
  /** The ended agent with whose conversation it begins, and the number of its own first run. */
  resumes?: { uid: string; agentId: string; run: number };
  /** What becomes of it when the parent's lease has lapsed; absent: nothing. */
  onParentGone: "finish" | "destroy" | undefined;
}

/**
 * A checked spawn. Throws `invalid_input` (malformed, or wider than allowed), or `unknown_price` for a cost cap on a
 * model whose price is not known. `answersTask`: the caller answers what a task asks; a managed agent may always ask.
 * `budgets` bind the agent beside those of the profile and the operator.
 */
export function prepareSpawn(
  kind: keyof typeof KINDS,
  input: unknown,
  { profile, operator }: Pick<ParentContext, "profile" | "operator">,
  { answersTask = false, budgets: others }: { answersTask?: boolean; budgets?: Budgets | undefined } = {},
): PreparedSpawn {
  const { request_key, traceparent, args, digest } = readCall(kind, input);
  const {
    keep_alive = kind === "spawn" && profile.keep_alive,
    idle_ms = profile.idle_ms,
    answer_within_ms = profile.answer_within_ms,
  }: Partial<z.output<typeof SpawnInput>> = "prompt" in args ? {} : args;
  if (idle_ms > profile.idle_ms) throw widerError(kind, "idle_ms", idle_ms, profile.idle_ms);
  if (answer_within_ms > profile.answer_within_ms)
    throw widerError(kind, "answer_within_ms", answer_within_ms, profile.answer_within_ms);
  const { model, limits, tools, rest } = inherit(kind, KINDS[kind].limits, args, { profile, operator });
  if (model === undefined) throw noModel(kind, operator);
  const budgets = narrowedBudgets(narrowedBudgets(operator.budgets, profile.budgets), others);
  if (isCappedInUsd(limits, budgets))
    for (const each of [model, ...(rest.fallback_models ?? [])]) requirePrice(each, operator);
  const alerts = { ...profile.alerts, ...args.alerts };
  const attached = attachedText(args);
  return {
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

/** What identifies a repeated call: the request key that its caller named, and a digest of what it asks for. */
export interface RepeatableCall {
  requestKey: string;
  digest: string;
}

/** A spawn that is checked against everything but the parent's registered profile. */
export interface CheckedSpawn {
  /** Absent where the caller named no request key. */
  readonly repeatable?: RepeatableCall | undefined;
  /** The spawn under a registered profile. Throws as {@link prepareSpawn} does. */
  withProfile(registered: RegisteredProfile): PreparedSpawn;
}

/**
 * Checks a spawn as far as possible without asking Redis. A registered profile can only narrow it, or give it the model that
 * it lacks. Throws as {@link prepareSpawn} does, except for a missing model. With a request key it throws for malformed input
 * only: the agent may have been spawned before, and only Redis knows that.
 */
export function checkSpawn(
  kind: keyof typeof KINDS,
  input: unknown,
  { profile, operator }: Pick<ParentContext, "profile" | "operator">,
  options: { answersTask?: boolean } = {},
): CheckedSpawn {
  const withProfile = (registered: RegisteredProfile) =>
    prepareSpawn(kind, input, { profile: profile.withProfile(registered), operator }, options);
  try {
    const unregistered = prepareSpawn(kind, input, { profile, operator }, options);
    const { promised, requestKey, digest } = unregistered;
    return {
      repeatable: promised ? { requestKey, digest } : undefined,
      withProfile: (registered) => (registered.version === 0 ? unregistered : withProfile(registered)),
    };
  } catch (error) {
    const repeatable = repeatableCall(kind, input);
    if (!repeatable && !isAboutModel(error)) throw error;
    return { repeatable, withProfile };
  }
}

/** What identifies a repetition of the call; undefined without a request key. Throws `invalid_input` for malformed input. */
function repeatableCall(kind: keyof typeof KINDS, input: unknown): RepeatableCall | undefined {
  const { request_key: requestKey, digest } = readCall(kind, input);
  return requestKey === undefined ? undefined : { requestKey, digest };
}

/** The arguments of a call, split into those in the digest (`args`) and those that a repetition may change. */
function readCall(kind: keyof typeof KINDS, input: unknown) {
  const { request_key, traceparent, ...args } = readInput(KINDS[kind].schema, input, kind);
  return { request_key, traceparent, args, digest: digestOf({ kind, ...args }) };
}

function noModel(kind: string, { isModelLookedUp = false }: OperatorDefaults): SubagentError {
  const elsewhere = isModelLookedUp
    ? "; or set SUBAGENT_MODEL, or start a worker: no live one has said its model"
    : "";
  return new SubagentError(
    "invalid_input",
    `${kind} refused: name a model, here or in the parent's profile${elsewhere}.`,
    {
      field: "model",
      issues: [{ field: "model", problem: "no model is named anywhere" }],
    },
  );
}

/** Whether another model would have been accepted. */
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

/** A reply whose output a zod schema has read: there if, and only if, the run succeeded. */
export type TypedReply<T> =
  | (Omit<Reply, "status" | "output"> & { status: "succeeded"; output: T })
  | (Omit<Reply, "status" | "output"> & {
      status: Exclude<Reply["status"], "succeeded">;
      output?: undefined;
    });

/** An input with its output schema as JSON Schema, and what reads a reply's output. */
interface ReadableInput {
  input: unknown;
  typed(reply: Reply): Reply;
}

/** Takes a zod schema out of a caller's input. Throws `invalid_input` for one that has no JSON Schema form. */
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
  return { input, typed: (reply) => reply };
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

/** The reply with its output as the schema reads it; one that only the schema's own refinements refuse is partial. */
function read(schema: z.ZodType, reply: Reply): Reply {
  if (reply.status !== "succeeded" || reply.kind !== "reply") return reply;
  try {
    return { ...reply, output: readAsWritten(schema, reply.output, "output") };
  } catch (error) {
    if (!(error instanceof SubagentError)) throw error;
    const { output: _, ...rest } = reply;
    return { ...rest, status: "partial", stop_reason: "invalid_output", error: error.message };
  }
}

const WaitForWorkerMs = z.int().min(0).max(MAX_WAIT_MS).optional();
const TaskCall = z.looseObject({
  signal: z.instanceof(AbortSignal).optional(),
  wait_for_worker_ms: WaitForWorkerMs,
  onWait: z.custom<OnWait>((value) => typeof value === "function", "must be a function").optional(),
  onQuestion: z
    .custom<AnswerQuestions>((value) => typeof value === "function", "must be a function")
    .optional(),
});
/** Answers the questions of a task. */
export type AnswerQuestions = (question: Question) => Promise<string> | string;

/** What a task may be given besides its input. */
export interface TaskOptions {
  /** Aborting it destroys the sub-agent, and the task rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /**
   * Answers what the sub-agent asks with `ask_parent` (an allowlist of tools must name it); without it, it cannot ask. What
   * it throws, the task rejects with (`invalid_input` for no text); the sub-agent then goes on, for what it did is paid for:
   * the question is in the channel, to be answered or to be put again by a task of the same `request_key`, and so is the
   * reply. `destroy` with the question's `agent_id` frees its place at once, else the default does (`answer_within_ms`).
   */
  onQuestion?: AnswerQuestions | undefined;
  /**
   * Most time in a row without a live worker, 0 or more; then the task rejects with `no_worker` and its sub-agent is destroyed.
   * Counted from the look that finds none, of which there is one every 2 s. Default: it waits.
   */
  wait_for_worker_ms?: number | undefined;
  /** Told within 5 s what the task waits for beside its own work, and each time that changes. */
  onWait?: OnWait | undefined;
}

/** What a task asks for, apart from the options that may stand beside its prompt. */
export function splitTaskInput(input: unknown): TaskOptions & { input: unknown } {
  if (typeof input === "string") return { input: { prompt: input } };
  const { signal, onQuestion, wait_for_worker_ms, onWait, ...rest } = readInput(TaskCall, input, "task");
  return { signal, onQuestion, wait_for_worker_ms, onWait, input: rest };
}

/** The options of a call, each before the one that stands beside the prompt. Throws `invalid_input`. */
export function mergeTaskOptions(beside: TaskOptions, options: TaskOptions, call = "task"): TaskOptions {
  const { signal, onQuestion, wait_for_worker_ms, onWait } = readInput(TaskCall, options, call);
  return {
    signal: signal ?? beside.signal,
    onQuestion: onQuestion ?? beside.onQuestion,
    wait_for_worker_ms: wait_for_worker_ms ?? beside.wait_for_worker_ms,
    onWait: onWait ?? beside.onWait,
  };
}

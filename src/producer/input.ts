/**
 * Reads the input of callers and refuses malformed, over-long or too deeply nested input. `inheritance.ts` refuses input that
 * is wider than the operator and the parent's profile allow. Pure.
 */
import { createHash } from "node:crypto";
import { z } from "zod";
import { type ErrorCode, messageOf, SubagentError } from "../shared/errors.ts";
import { wordingOf } from "../shared/problem-text.ts";
import { withoutNulls } from "../shared/protocol/content.ts";
import type { DefinitionSource } from "../shared/protocol/definition.ts";
import { ParentId, RequestKey, TenantId } from "../shared/protocol/ids.ts";
import { AlertThresholds, Budgets, Effort, LimitsInput, TaskBudget } from "../shared/protocol/limits.ts";
import {
  FilesInput,
  fitTogether,
  ImagesInput,
  MESSAGE_MAX_BYTES,
  MessageText,
  TOO_MUCH_ATTACHED,
} from "../shared/protocol/message.ts";
import { PermissionRules, ToolNames } from "../shared/protocol/permissions.ts";
import { clip, depthOf, JSON_MAX_DEPTH } from "../shared/protocol/text.ts";
import { DAY_MS, type PriceOverrides } from "../shared/protocol/usage.ts";

/**
 * Returns `schema` with a step before it that treats a `null` field as absent, because models and foreign callers write
 * `null`. A required field that is null counts as missing.
 */
export function nullsLeftOut<S extends z.ZodType>(schema: S) {
  return z.preprocess(withoutNulls, schema);
}

/** Maximum number of fields of an input: to read tens of thousands would block the event loop for a tenth of a second. */
const MOST_FIELDS = 1_000;
/** Maximum number of wrong fields in a refusal. */
const MOST_ISSUES = 20;
/** Maximum characters of a shown field. */
const MOST_NAME_CHARS = 100;

/**
 * Returns `value` as parsed by `schema`. Throws `invalid_input` with the wrong fields; `what` names the refused call. Removes
 * undefined fields at every depth, because spreading them over a setting would unset it.
 */
export function readInput<S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> {
  if (depthOf(value) > JSON_MAX_DEPTH) {
    const sentence = `${what} refused: the input nests deeper than ${JSON_MAX_DEPTH} levels; make it flatter.`;
    throw new SubagentError("invalid_input", sentence, { max_depth: JSON_MAX_DEPTH });
  }
  requireFewFields(value, what);
  const parsed = schema.safeParse(value, { error: wordingOf });
  if (parsed.success) return withoutUndefined(parsed.data);
  const issues = issuesOf(parsed.error);
  throw new SubagentError("invalid_input", `${what} refused, nothing was done: ${listOf(issues)}.`, {
    issues,
  });
}

/** Throws `invalid_input` for an object with more than {@link MOST_FIELDS} fields; `what` names the refused call. */
export function requireFewFields(value: unknown, what: string): void {
  if (!isPlainObject(value) || Object.keys(value).length <= MOST_FIELDS) return;
  const sentence = `${what} refused, nothing was done: an object has more than ${MOST_FIELDS} fields; leave out those that are not meant.`;
  throw new SubagentError("invalid_input", sentence, { max_fields: MOST_FIELDS });
}

/** A wrong field of an input, by its path, and what is wrong with it. */
interface InputIssue {
  field: string;
  problem: string;
}

function issuesOf(error: z.ZodError): InputIssue[] {
  return error.issues.slice(0, MOST_ISSUES).map((issue) => ({
    field: clip(issue.path.map(String).join("."), MOST_NAME_CHARS) || "input",
    problem: issue.message,
  }));
}

function listOf(issues: readonly InputIssue[]): string {
  return issues.map(({ field, problem }) => `${field}: ${problem}`).join("; ");
}

/**
 * Parses the output of a run by the caller's schema, whose functions may be async or throw, and leaves the parsed value
 * unchanged. Resolves to the problem if the schema does not accept the output. Must not reject.
 */
export async function parseOutput(
  schema: z.ZodType,
  output: unknown,
): Promise<{ value: unknown } | { problem: string }> {
  try {
    const parsed = await z.safeParseAsync(schema, output, { error: wordingOf });
    if (parsed.success) return { value: parsed.data };
    return { problem: `The output does not fit output_schema: ${listOf(issuesOf(parsed.error))}.` };
  } catch (error) {
    return { problem: `A function of output_schema failed: ${messageOf(error)}` };
  }
}

/** Like {@link readInput}, for the options of a call: the error for a value that is no object calls it `options`. */
export function readOptions<S extends z.ZodType>(schema: S, options: unknown, what: string): z.output<S> {
  return readInput(schema, objectOf(options, what), what);
}

/** Returns the options of a call, if it has any. Throws `invalid_input` for a value that is no object. */
export function objectOf<T>(options: T, what: string): T {
  if (options === undefined) return options;
  if (typeof options === "object" && options !== null && !Array.isArray(options)) return options;
  const issues = [{ field: "options", problem: "must be an object" }];
  throw new SubagentError("invalid_input", `${what} refused, nothing was done: options: must be an object.`, {
    issues,
  });
}

/** Codes of the refusals that are about one of many inputs: it is their reason, or the one that did not begin. */
const ABOUT_AN_INPUT: readonly ErrorCode[] = [
  "invalid_input",
  "unknown_price",
  "unknown_definition",
  "conflict",
  "redis_unavailable",
  "outcome_unknown",
];
const Issues = z.array(z.object({ field: z.string(), problem: z.string() }));

/**
 * Returns the refusal of the input at `index` of the list `inputs`, which the sentence, `details.index` and every field name
 * (`36.limits.max_turns`). Returns an error unchanged that is about no input.
 */
export function refusalAt(index: number, error: unknown): unknown {
  if (!(error instanceof SubagentError && ABOUT_AN_INPUT.includes(error.code))) return error;
  const { field, issues } = error.details;
  const placed = (name: string) => (name === "input" ? `${index}` : `${index}.${name}`);
  const named = Issues.safeParse(issues).data?.map((issue) => ({ ...issue, field: placed(issue.field) }));
  const details = {
    ...error.details,
    index,
    ...(typeof field === "string" && { field: placed(field) }),
    ...(named && { issues: named }),
  };
  return new SubagentError(error.code, `inputs[${index}]: ${error.message}`, details, error.cause);
}

/** Returns what `read` makes of each input. A refusal names the input. */
export function eachInput<T>(inputs: readonly unknown[], read: (input: unknown) => T): T[] {
  return inputs.map((input, at) => {
    try {
      return read(input);
    } catch (error) {
      throw refusalAt(at, error);
    }
  });
}

/** Returns the value without undefined fields. Leaves instances of classes (a signal, a logger) unchanged. */
function withoutUndefined<T>(value: T): T;
function withoutUndefined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each: unknown) => withoutUndefined(each));
  if (!isPlainObject(value)) return value;
  const fields: [name: string, field: unknown][] = Object.entries(value);
  const given = fields.filter(([, field]) => field !== undefined);
  return Object.fromEntries(given.map(([name, field]) => [name, withoutUndefined(field)]));
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Returns a digest of a JSON value that does not depend on the order of keys; undefined fields count as absent. */
export function digestOf(value: unknown): string {
  return createHash("sha256").update(canonical(value)).digest("hex");
}

/** Returns a JSON value as canonical text, independent of the order of keys; omits undefined fields. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`);
  return `{${fields.join(",")}}`;
}

/** Maximum idle time: 24 hours. */
const MAX_IDLE_MS = DAY_MS;
const MAX_NAMES = 256;
const MAX_FALLBACKS = 8;

/** Maximum time for a wait, ms. */
export const MAX_WAIT_MS = 2 ** 31 - 1;
/** The signal that ends a call's wait. */
export const Signal = z.instanceof(AbortSignal).optional();
/** A text that may be long, at most 256 KB of UTF-8. */
export const LongText = z
  .string()
  .refine((text) => Buffer.byteLength(text) <= MESSAGE_MAX_BYTES, `at most ${MESSAGE_MAX_BYTES / 1024} KB`);
/** Instructions that replace the standard ones. */
const SystemText = LongText.refine(
  (text) => text.trim() !== "",
  "it is blank: leave it out for the standard instructions",
);
/** A model's id as its provider spells it. */
export const ModelId = z
  .string()
  .trim()
  .min(1, "name a model")
  .max(128)
  .regex(/^[\x21-\x7e]*$/, "a model's id has no spaces and is ASCII, such as claude-sonnet-5-5");
const Name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "1 to 64 characters of A-Za-z0-9._-");
/** Names of skills or of a worker's hooks; duplicates are dropped. */
export const Names = z
  .array(Name)
  .max(MAX_NAMES)
  .transform((names) => [...new Set(names)]);
/** Fallback models, called in this order while the models before them cannot answer. */
export const ModelChain = z.array(ModelId).max(MAX_FALLBACKS);
/** The name of an agent definition. */
export const DefinitionName = z.string().trim().min(1).max(64);
/** Idle time after which an idle agent ends (`idle`), ms. */
export const IdleMs = z.int().min(1).max(MAX_IDLE_MS);

/** Text and attachments of a message. */
export const MessageInput = z
  .strictObject({
    text: MessageText,
    message_id: RequestKey.optional(),
    files: FilesInput.optional(),
    images: ImagesInput.optional(),
  })
  .refine(fitTogether, TOO_MUCH_ATTACHED);
/** Options of `send` besides the text: a `message_id` makes it repeatable; `files` and `images`: 4 MB together. */
export type MessageOptions = Omit<z.input<typeof MessageInput>, "text">;

/** Maximum time for which a question may wait: 24 hours. */
const MAX_ANSWER_MS = DAY_MS;
/** How long a sub-agent's question waits for its answer, ms. */
export const AnswerMs = z.int().min(1).max(MAX_ANSWER_MS);

/** How long the conversation of an ended agent stays readable after the ack of its end, ms; at most 7 days. */
const TranscriptMs = z
  .int()
  .min(1)
  .max(7 * DAY_MS);

const LEASE_MS = 60_000;
const SHORTEST_LEASE_MS = 1_000;
const LONGEST_LEASE_MS = DAY_MS;
const LeaseInput = z.strictObject({
  onParentGone: z.enum(["keep", "finish", "destroy"]),
  ms: z.int().min(SHORTEST_LEASE_MS).max(LONGEST_LEASE_MS).default(LEASE_MS),
});

/** Options of a parent that its agents inherit and a spawn may narrow. */
export const INHERITABLE = {
  model: ModelId.optional(),
  fallback_models: ModelChain.optional(),
  system: SystemText.optional(),
  tools: ToolNames.optional(),
  disallowed_tools: ToolNames.optional(),
  skills: Names.optional(),
  hooks: Names.optional(),
  permissions: PermissionRules.optional(),
  transcript_ms: TranscriptMs.optional(),
  effort: Effort.optional(),
  task_budget: TaskBudget.optional(),
} as const;
/** See {@link INHERITABLE}. */
export type Inheritable = z.output<z.ZodObject<typeof INHERITABLE>>;

/** The profile that a parent's agents inherit, as it is registered; every field is optional. See `ParentOptions`. */
export const ProfileInput = z.strictObject({
  ...INHERITABLE,
  limits: LimitsInput.optional(),
  alerts: AlertThresholds.optional(),
  budgets: Budgets.omit({ tenant: true }).optional(),
  keep_alive: z.boolean().optional(),
  idle_ms: IdleMs.optional(),
  answer_within_ms: AnswerMs.optional(),
});
/** See {@link ProfileInput}. */
export type ProfileInput = z.input<typeof ProfileInput>;

/** Options of a parent: its identity, its profile and its lease. See `ParentOptions`. */
export const OptionsInput = ProfileInput.extend({
  parentId: ParentId,
  tenant: TenantId.default("default"),
  lease: LeaseInput.optional(),
});

/** A profile that is registered for a parent; version 0: none was registered. */
export interface RegisteredProfile {
  readonly version: number;
  readonly profile: z.output<typeof ProfileInput>;
}

/** The profile of a parent without a registered one. */
export const UNREGISTERED: RegisteredProfile = { version: 0, profile: {} };

/** The operator's settings for all parents of a client: they replace the defaults, and no parent can exceed them. */
export interface OperatorDefaults {
  readonly model?: string | undefined;
  /** Whether `model` is looked up at each access; it is then undefined while no model is known. */
  isModelLookedUp?: boolean;
  limits: LimitsInput;
  budgets?: Budgets;
  /** Prices by model id; they override the built-in table. */
  prices?: PriceOverrides;
  /** Ids by the common names of models (`haiku`, `sonnet`, `opus`); they override the built-in ones. */
  models?: Readonly<Record<string, string>>;
  /** The agent definitions that a spawn may name. */
  definitions?: DefinitionSource;
}

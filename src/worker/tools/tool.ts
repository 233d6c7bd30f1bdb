/**
 * The tool port: the types of a tool, and its definition. The loop sees only these types; `registry.ts` chooses tools and
 * performs calls.
 */
import { z } from "zod";
import { SubagentError } from "../../shared/errors.ts";
import { isJsonObject, withoutNulls } from "../../shared/protocol/content.ts";
import { mcpServerOf } from "../../shared/protocol/permissions.ts";
import { quoted } from "../../shared/protocol/text.ts";
import type { Workspace } from "./workspace.ts";

/** A JSON Schema (draft 2020-12) whose top level is an object, as the Messages API expects it. */
export interface JsonSchemaObject {
  readonly type: "object";
  readonly [keyword: string]: unknown;
}

/** One block of a tool's result. */
export interface ToolContent {
  readonly type: "text";
  readonly text: string;
}

/** The caller of a tool, and the workspace that the call may touch. */
export interface ToolContext {
  readonly agentId: string;
  readonly uid: string;
  /** Number of the agent's run, counted from 1. */
  readonly run: number;
  readonly toolUseId: string;
  readonly workspace: Workspace;
  /**
   * Sends the parent an interim message, committed with this call's result; a failed call sends none. Several texts of one
   * call form one message, with blank lines between. Throws {@link ToolFailure} if the text is empty or no string, beyond
   * 5,000 characters a call or 20 messages a run. After the call nothing is sent, and the worker logs that.
   */
  readonly tellParent: (text: string) => void;
  /** Aborts when the call times out or the run is stopped; then the tool stops without another effect. Copies lack it. */
  readonly signal: AbortSignal;
}

/** Result of the check of a model's input; `problem` is one sentence that names the field. */
export type InputCheck =
  | { readonly ok: true; readonly input: unknown }
  | { readonly ok: false; readonly problem: string };

/** A capability offered to the model. */
export interface Tool {
  readonly name: string;
  /** `mcp__<server>` if the tool belongs to an MCP server. */
  readonly server?: string | undefined;
  readonly description: string;
  readonly inputSchema: JsonSchemaObject;
  /** True if an interrupted call may simply be repeated. */
  readonly idempotent: boolean;
  readonly timeoutMs: number;
  /** False: no call touches `ctx.workspace`, so none has to be created for it. */
  readonly usesWorkspace?: boolean;
  /** Checks the model's input; never rejects for bad input. */
  check(input: unknown): Promise<InputCheck>;
  /**
   * Performs a call whose input came from `check`. The model reads the return value as text: strings and {@link ToolContent}
   * blocks unchanged, bytes as UTF-8, every other value as JSON. Throw {@link ToolFailure} for an error message that the
   * model sees unchanged.
   */
  run(input: unknown, ctx: ToolContext): Promise<unknown>;
}

/** Checks whether a call of the tool may touch the workspace; true if the tool does not say. */
export function mayUseWorkspace(tool: Tool | undefined): boolean {
  return tool !== undefined && tool.usesWorkspace !== false;
}

/** Argument of `defineTool`: `input` is a zod object; defaults are `idempotent: false` and `timeoutMs: 120_000`. */
export interface ToolDefinition<Input extends z.ZodObject> {
  /** `^[a-z][a-z0-9_]{0,63}$` */
  readonly name: string;
  /** Purpose of the tool and when to use it, written for the model; not empty. */
  readonly description: string;
  readonly input: Input;
  readonly idempotent?: boolean;
  readonly timeoutMs?: number;
  /** False: `run` never touches `ctx.workspace`. Default: whether `run` takes a context. */
  readonly usesWorkspace?: boolean;
  /** Returns a string, {@link ToolContent} blocks, bytes of UTF-8, or any other value, which the model reads as JSON. */
  run(input: z.output<Input>, ctx: ToolContext): Promise<unknown>;
}

const TOOL_NAME = /^[a-z][a-z0-9_]{0,63}$/;
const DEFAULT_TIMEOUT_MS = 120_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Creates a tool from its definition.
 *
 * @throws {SubagentError} `invalid_tool` for a definition without `run`, a bad name, an empty description, an input that is
 * no object schema or has no JSON Schema form, a timeout that is not a whole number of milliseconds above 0, or a part that
 * it does not know.
 */
export function defineTool<Input extends z.ZodObject>(definition: ToolDefinition<Input>): Tool {
  if (typeof definition?.run !== "function")
    throw new SubagentError("invalid_tool", "A tool needs a function run.");
  const { name, description, input: schema, idempotent = false, timeoutMs = DEFAULT_TIMEOUT_MS } = definition;
  if (typeof name !== "string" || !TOOL_NAME.test(name)) {
    throw new SubagentError(
      "invalid_tool",
      `Tool name ${JSON.stringify(name)} must match ${TOOL_NAME.source}.`,
    );
  }
  if (typeof description !== "string" || description.trim() === "") {
    throw new SubagentError("invalid_tool", `Tool ${name} needs a description: the model chooses by it.`);
  }
  if (!Number.isInteger(timeoutMs) || timeoutMs <= 0 || timeoutMs > LONGEST_TIMER_MS) {
    throw new SubagentError(
      "invalid_tool",
      `Tool ${name}: timeoutMs must be a whole number from 1 to ${LONGEST_TIMER_MS}.`,
    );
  }
  refuseUnknownParts(definition);
  const parse = parserOf(schema);
  return Object.freeze<Tool>({
    name,
    server: mcpServerOf(name),
    description,
    inputSchema: jsonSchemaOf(name, schema),
    idempotent,
    timeoutMs,
    usesWorkspace: definition.usesWorkspace ?? takesContext(definition.run),
    async check(input) {
      const parsed = await parse(input);
      if (parsed.success) return { ok: true, input: parsed.data };
      // Models send `null` for an optional field that they omit.
      const again = await parse(withoutNulls(input));
      return again.success
        ? { ok: true, input: again.data }
        : { ok: false, problem: sentenceOf(parsed.error) };
    },
    run: (input, ctx) => definition.run(input as z.output<Input>, ctx),
  });
}

const PARTS: ReadonlySet<string> = new Set<keyof ToolDefinition<z.ZodObject>>([
  "name",
  "description",
  "input",
  "idempotent",
  "timeoutMs",
  "usesWorkspace",
  "run",
]);

/** Refuses a misspelt part. An instance of a class may have fields of its own: its `run` has them as `this`. */
function refuseUnknownParts(definition: ToolDefinition<z.ZodObject>): void {
  const prototype: unknown = Object.getPrototypeOf(definition);
  if (prototype !== Object.prototype) return;
  const unknown = Object.keys(definition).filter((part) => !PARTS.has(part));
  if (unknown.length === 0) return;
  const named = unknown.map((part) => quoted(part)).join(", ");
  throw new SubagentError(
    "invalid_tool",
    `Tool ${definition.name}: defineTool does not know ${named}; it takes ${[...PARTS].join(", ")}.`,
  );
}

/** Returns a parser: synchronous if the schema can be, otherwise asynchronous after its first failure. */
function parserOf<Input extends z.ZodObject>(schema: Input) {
  let isAsync = false;
  return (input: unknown) => {
    if (!isAsync) {
      try {
        return schema.safeParse(input);
      } catch (error) {
        if (!(error instanceof z.core.$ZodAsyncError)) throw error;
        isAsync = true;
      }
    }
    return schema.safeParseAsync(input);
  };
}

/** Checks whether `run` can access its second argument. */
function takesContext(run: (...args: never[]) => unknown): boolean {
  return run.length > 1 || /\.\.\.|\barguments\b|\[native code\]/.test(run.toString());
}

function jsonSchemaOf(name: string, schema: z.ZodObject): JsonSchemaObject {
  if (!(schema instanceof z.ZodObject)) {
    throw new SubagentError("invalid_tool", `Tool ${name}: input must be a zod object schema.`);
  }
  try {
    const { $schema: _dialect, ...json } = z.toJSONSchema(schema, { io: "input" });
    return Object.freeze({ ...json, type: "object" });
  } catch (cause) {
    throw new SubagentError("invalid_tool", `Tool ${name}: input has no JSON Schema form.`, {}, cause);
  }
}

/** Property names that the Messages API accepts; it checks the top level only. */
const PROPERTY_NAME = /^[a-zA-Z0-9_.-]{1,64}$/;

/** Returns why the Messages API rejects every request with this input schema; undefined if it accepts them. */
export function schemaProblem(schema: Readonly<Record<string, unknown>>): string | undefined {
  const combined = ["anyOf", "oneOf", "allOf"].find((keyword) => schema[keyword] !== undefined);
  if (combined !== undefined)
    return `its input schema has ${combined} at the top level, where the Messages API takes none`;
  const { properties = {}, required = [] } = schema;
  if (!isJsonObject(properties) || !Object.values(properties).every(isSchema))
    return "the properties of its input schema are no schemas";
  if (!Array.isArray(required) || !required.every((name) => typeof name === "string"))
    return "what its input schema requires is no list of names";
  const odd = Object.keys(properties).find((name) => !PROPERTY_NAME.test(name));
  return odd === undefined
    ? undefined
    : `its input has a property ${quoted(odd)}, whose name does not match ${PROPERTY_NAME.source}`;
}

function isSchema(value: unknown): boolean {
  return typeof value === "boolean" || isJsonObject(value);
}

function sentenceOf(error: z.ZodError): string {
  const issue = error.issues[0];
  if (issue === undefined) return "the input is not valid";
  const field = issue.path.map(String).join(".");
  const why = issue.message.replace(/^Invalid input: /, "");
  return field === "" ? why : `field \`${field}\`: ${why}`;
}

/**
 * Permissions of an agent's tool calls: the names of tools, and the verdict of permission rules on a call. Pure. The loop
 * asks before a call begins, and again when a hook has changed its input.
 *
 * 1. `deny` wins over `ask`, `ask` over `allow`. `default` decides a call that no rule names, except one of {@link FIND_TOOLS}: it
 *    only reads out what the agent has, and without it an `allow` of an MCP server would permit tools that no model can find.
 * 2. Every layer (operator, profile, definition, spawn) must permit a call. The strictest verdict counts, so that a layer
 *    can only narrow those before it.
 * 3. Some inputs cannot be matched: a command line that is not plain, a missing field that the tool uses, a text that is too
 *    long. No `allow` matches them; every `deny` and `ask` with a pattern for the tool does.
 * 4. An `allow` with a pattern matches only if it was compared with all that the tool can use; a `deny` matches if anything
 *    in the input matches that the tool might use.
 */
import { z } from "zod";
import { readCommandLine } from "./command-line.ts";
import type { JsonObject } from "./content.ts";
import {
  globbedPattern,
  type Matches,
  normalised,
  PATTERN_MAX_CHARS,
  pathPattern,
  refusedPathPattern,
  type Work,
  wordsPattern,
} from "./pattern.ts";

const RULE = /^([A-Za-z*][\w*-]{0,127})(?:\((.*)\))?$/s;
const MAX_RULES = 64;

/** `tool`, or `tool(pattern)`: `bash(git *)`, `write_file(docs/**)`, `mcp__github__*`. */
const Rule = z
  .string()
  .trim()
  .max(PATTERN_MAX_CHARS + 130)
  .regex(RULE, "a tool's name, or a name and a pattern such as bash(git *)");
const Rules = z.array(Rule).max(MAX_RULES);

/**
 * One layer of rules. `ask`: the call waits for its parent's answer. `default` is for calls that no rule names: `deny` if
 * `allow` is given, else `allow`.
 */
export const PermissionRules = z.strictObject({
  allow: Rules.optional(),
  deny: Rules.optional(),
  ask: Rules.optional(),
  default: z.enum(["allow", "ask", "deny"]).optional(),
});
/** See {@link PermissionRules}. */
export type PermissionRules = z.infer<typeof PermissionRules>;

/** Verdict on a call. `rule`: the rule that decided, for people and models. */
export interface Permission {
  verdict: "allow" | "ask" | "deny";
  rule: string;
}

const ALLOWED: Permission = { verdict: "allow", rule: "default" };
const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;

/** Returns the work that the calls of one answer share. */
export function workOfAnswer(): Work {
  return { left: ANSWER_WORK_MAX };
}

/**
 * Returns the verdict of all layers on a call. `shared`: work that all calls judged together use up. If none is left, no
 * `allow` that costs work matches, and every `deny` and `ask` that does.
 */
export function permissionFor(
  layers: readonly PermissionRules[],
  tool: string,
  input: unknown,
  shared: Work = workOfAnswer(),
): Permission {
  const most = Math.min(WORK_MAX, Math.max(0, shared.left));
  const call = new Call(tool, input, most);
  const permission = strictestIn(layers, call);
  shared.left -= most - call.work.left;
  return permission;
}

function strictestIn(layers: readonly PermissionRules[], call: Call): Permission {
  let strictest = ALLOWED;
  for (const layer of layers) {
    const found = permissionIn(layer, call);
    if (STRICTNESS[found.verdict] > STRICTNESS[strictest.verdict]) strictest = found;
  }
  return strictest;
}

function permissionIn(layer: PermissionRules, call: Call): Permission {
  for (const verdict of ["deny", "ask", "allow"] as const) {
    const rule = layer[verdict]?.find((each) => isMatch(each, call, verdict === "allow"));
    if (rule !== undefined) return { verdict, rule: `${verdict} ${rule}` };
  }
  if (call.tool === FIND_TOOLS) return ALLOWED;
  return { verdict: layer.default ?? (layer.allow ? "deny" : "allow"), rule: "default" };
}

/** Returns true if a rule matches. If work ran out or the input is unreadable, `deny` and `ask` match and `allow` does not. */
function isMatch(rule: string, call: Call, permits: boolean): boolean {
  const [, name = "", pattern] = RULE.exec(rule) ?? [];
  const isNamed = namesTool(toolNameOf(name), call, permits);
  if (call.work.left < 0) return !permits;
  if (!isNamed) return false;
  if (pattern === undefined || pattern === "*") return true;
  const { subject } = call;
  if (subject === undefined || pattern.length > PATTERN_MAX_CHARS) return !permits;
  call.work.left -= pattern.length;
  const matches = matcherOf(pattern, call.work, permits);
  const isFound = permits
    ? subject.whole.length > 0 && subject.whole.every(matches)
    : subject.parts.some(matches);
  return call.work.left < 0 ? !permits : isFound;
}

/** Returns true if a rule names the tool. A rule for an MCP server covers all its tools; an `allow` must name it without a star. */
function namesTool(name: string, { tool, work }: Call, permits: boolean): boolean {
  const server = mcpServerOf(tool);
  if (name === tool || name === server) return true;
  if (!name.includes("*")) return false;
  const matches = wordsPattern(name);
  return matches(tool, work) || (!permits && server !== undefined && matches(server, work));
}

function matcherOf(pattern: string, work: Work, permits: boolean): (part: Part) => boolean {
  const known = new Map<Part["kind"], Matches>();
  return ({ kind, text }) => {
    const matches = known.get(kind) ?? patternOf(pattern, kind, permits);
    known.set(kind, matches);
    return matches(text, work);
  };
}

function patternOf(pattern: string, kind: Part["kind"], permits: boolean): Matches {
  if (kind === "words") return wordsPattern(pattern);
  if (kind === "globbed") return globbedPattern(pattern);
  return permits ? pathPattern(pattern) : refusedPathPattern(pattern, kind === "search");
}

/**
 * A text of an input, and its kind. `search`: a path and everything below it; `globbed`: a program whose file names only the
 * shell knows.
 */
interface Part {
  kind: "words" | "path" | "search" | "globbed";
  text: string;
}

/** Texts with which the patterns of a tool's rules are compared. */
interface Subject {
  /** All that the tool can use: an `allow` must match each. Empty if that is unknown. */
  whole: readonly Part[];
  /** A `deny` or an `ask` must match one of these. */
  parts: readonly Part[];
}

/** Maximum characters of an input that is matched. */
const SUBJECT_MAX_CHARS = 4_096;
/** Work for one call and all its rules, some 20 ms of CPU at most: 64 rules and the longest command take less. */
const WORK_MAX = 2 ** 20;

/** Work for all calls of one answer, four times that: no other run of the worker goes on meanwhile. */
const ANSWER_WORK_MAX = 4 * WORK_MAX;

/** A call to judge. Its input is parsed once, and only if a rule needs it. */
class Call {
  readonly tool: string;
  readonly work: Work;
  readonly #input: unknown;
  #read: { subject: Subject | undefined } | undefined;

  constructor(tool: string, input: unknown, work: number) {
    this.tool = tool;
    this.work = { left: work };
    this.#input = input;
  }

  /** Undefined if the input cannot be read. */
  get subject(): Subject | undefined {
    this.#read ??= { subject: subjectOf(this.tool, this.#input) };
    return this.#read.subject;
  }
}

/** Field of a built-in tool that determines what it does. Other fields have no effect, because tools drop unknown fields. */
const FIELDS: ReadonlyMap<string, { name: string; kind: Part["kind"] | "command" }> = new Map([
  ["bash", { name: "command", kind: "command" }],
  ["read_file", { name: "file_path", kind: "path" }],
  ["write_file", { name: "file_path", kind: "path" }],
  ["edit_file", { name: "file_path", kind: "path" }],
  ["glob", { name: "path", kind: "search" }],
  ["grep", { name: "path", kind: "search" }],
  ["skill", { name: "name", kind: "words" }],
  ["send_agent_message", { name: "message", kind: "words" }],
]);
/** Fields that other tools use for a path. */
const PATHS: ReadonlySet<string> = new Set(["file_path", "path"]);

function subjectOf(tool: string, input: unknown): Subject | undefined {
  const fields: JsonObject = typeof input === "object" && input !== null ? { ...input } : {};
  const field = FIELDS.get(tool);
  if (!field) return foreignSubject(fields, input);
  const { name, kind } = field;
  const value = fields[name] ?? (kind === "search" ? "." : undefined);
  if (typeof value !== "string" || value.length > SUBJECT_MAX_CHARS) return undefined;
  if (kind === "command") return commandSubject(value);
  if (kind === "words") return { whole: [{ kind, text: value }], parts: [{ kind, text: value }] };
  // A glob with an absolute pattern searches there, whatever its path.
  const isElsewhere = tool === "glob" && typeof fields.pattern === "string" && fields.pattern.startsWith("/");
  return pathSubject(isElsewhere ? "/" : value, kind);
}

function commandSubject(line: string): Subject | undefined {
  const { commands, programs, globbed, isPlain } = readCommandLine(line);
  if (!isPlain) return undefined;
  const words = (text: string): Part => ({ kind: "words", text });
  return {
    whole: commands.map(words),
    parts: [
      ...[...new Set([line.trim(), ...commands, ...programs])].map(words),
      ...globbed.map((text): Part => ({ kind: "globbed", text })),
    ],
  };
}

function pathSubject(path: string, kind: Part["kind"]): Subject {
  const part = { kind, text: normalised(path) };
  // A tool may take a backslash as a part of a name.
  return { whole: path.includes("\\") ? [] : [part], parts: [part] };
}

/**
 * Returns the subject of an unknown tool. If it has path fields, each of them decides. Otherwise it may use any field, so an
 * `allow` must match each, and all must be texts. A `deny` need only match one text, however deep, or the JSON.
 */
function foreignSubject(fields: JsonObject, input: unknown): Subject | undefined {
  const json = jsonOf(input);
  if (json === undefined || json.length > SUBJECT_MAX_CHARS) return undefined;
  const paths = Object.keys(fields).filter((name) => PATHS.has(name));
  const deciding = paths.length > 0 ? paths : Object.keys(fields);
  const members = deciding.map((name): Subject | undefined => {
    const value = fields[name];
    if (typeof value !== "string") return undefined;
    const part: Part = { kind: "words", text: value };
    return PATHS.has(name) ? pathSubject(value, "path") : { whole: [part], parts: [part] };
  });
  const isAllText = members.every((member) => member && member.whole.length > 0);
  return {
    whole: isAllText ? members.flatMap((member) => member?.whole ?? []) : [],
    parts: [
      ...members.flatMap((member) => member?.parts ?? []),
      ...[json, ...textsIn(fields)].map((text): Part => ({ kind: "words", text })),
    ],
  };
}

function jsonOf(input: unknown): string | undefined {
  try {
    return JSON.stringify(input ?? {});
  } catch {
    return undefined;
  }
}

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** Common tool names and ours. No tool can have a common name, because tool names begin with a small letter. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["Read", "read_file"],
  ["Write", "write_file"],
  ["Edit", "edit_file"],
  ["MultiEdit", "edit_file"],
  ["Glob", "glob"],
  ["LS", "glob"],
  ["Grep", "grep"],
  ["Bash", "bash"],
  ["Skill", "skill"],
  ["AskUserQuestion", "ask_parent"],
  ["Task", "task"],
  ["Agent", "agent"],
  ["AgentTool", "agent"],
]);

/** The name of the tool that loads skills. */
export const SKILL_TOOL = "skill";

/** Tools that a sub-agent never gets, because sub-agents cannot spawn. */
export const SPAWNING_TOOLS: readonly string[] = [
  "agent",
  "destroy_sub_agent",
  "list_sub_agents",
  "spawn_sub_agent",
  "task",
];

/** Tool that finds tools which are too many to be listed. */
export const FIND_TOOLS = "find_tools";
/** Tool that calls a tool found by {@link FIND_TOOLS}. */
export const USE_TOOL = "use_tool";

/** Returns the tool and input of a model's call; for {@link USE_TOOL} the MCP tool and input that the call names. */
export function calledTool(name: string, input: unknown): { name: string; input: unknown } {
  if (name !== USE_TOOL || typeof input !== "object" || input === null) return { name, input };
  if (!("name" in input) || typeof input.name !== "string" || !input.name.startsWith(MCP))
    return { name, input };
  return { name: input.name, input: "input" in input ? input.input : {} };
}

const MCP = "mcp__";
/** Common notation for all tools of an MCP server; `mcp__<server>` alone means the same. */
const WHOLE_SERVER = /(?<=^mcp__.*)__\*$/;

/** Returns the name for every tool of the MCP server to which the tool `name` belongs; undefined for other tools. */
export function mcpServerOf(name: string): string | undefined {
  const end = name.startsWith(MCP) ? name.indexOf("__", MCP.length) : -1;
  return end < 0 ? undefined : name.slice(0, end);
}

/** Returns whether a list of tools has the tool `name`, by itself or by its MCP server. Undefined is the list of all tools. */
export function listsTool(list: readonly string[] | undefined, name: string): boolean {
  return !list || list.includes(name) || list.includes(mcpServerOf(name) ?? name);
}

/** Returns the tools that both lists have. If one names an MCP server and the other single tools of it, these. */
export function toolsInBoth(list: readonly string[], other: readonly string[] | undefined): string[] {
  const both = list.filter((name) => listsTool(other, name));
  return [...new Set([...both, ...(other ?? []).filter((name) => listsTool(list, name))])];
}

/** Returns the name by which workers know the tool `name`. */
export function toolNameOf(name: string): string {
  return ALIASES.get(name) ?? name;
}

/** Returns the tools that rules name without a star, by the names that workers use; no tools of an MCP server. */
export function toolsNamedByRules(layers: readonly PermissionRules[]): string[] {
  const rules = layers.flatMap(({ allow = [], deny = [], ask = [] }) => [...allow, ...deny, ...ask]);
  const names = rules.map((rule) => toolNameOf(RULE.exec(rule)?.[1] ?? "*"));
  return [...new Set(names)].filter((name) => !name.includes("*") && !name.startsWith(MCP));
}

const MAX_TOOLS = 256;

/** A list of tools, at most 256, by our names or the common ones; duplicates are dropped. */
export const ToolNames = z
  .array(
    z
      .string()
      .trim()
      .min(1, "a tool's name is empty")
      .max(128)
      .transform((name) => toolNameOf(name).replace(WHOLE_SERVER, "")),
  )
  .max(MAX_TOOLS)
  .transform((names) => [...new Set(names)]);

/**
 * Which tools an agent may call: the names under which tools are asked for, and what permission rules say of a call. Pure: the
 * loop asks before a call begins, and again when a hook has changed its input.
 *
 * 1. `deny` wins over `ask`, `ask` over `allow`. A call that no rule names falls to `default`.
 * 2. Every layer (operator, profile, definition, spawn) must permit a call: the strictest verdict counts, so that a layer
 *    can only narrow those before it.
 * 3. What cannot be read as one plain command, or is too long to be matched, is matched by no `allow` and by every `deny`
 *    with a pattern for its tool.
 */
import { z } from "zod";
import type { JsonObject } from "./content.ts";

/** Longest pattern. */
const PATTERN_MAX_CHARS = 256;

/**
 * Whether `pattern` matches all of `text`. `*` stands for any characters but `separator`, `**` for any at all; without a
 * separator both are the same. A pattern over {@link PATTERN_MAX_CHARS} matches nothing.
 */
function matchesPattern(pattern: string, text: string, separator = ""): boolean {
  if (pattern.length > PATTERN_MAX_CHARS) return false;
  if (!pattern.includes("*")) return pattern === text;
  const tokens = pattern.match(/\*+|[^*]/gs) ?? [];
  // reached[i]: the first i tokens match what has been read.
  let reached = withEmptyStars(tokens, [true]);
  for (const char of text.split("")) {
    const after: boolean[] = [];
    for (const [i, token] of tokens.entries()) {
      if (token.startsWith("*")) {
        const stays = token.length > 1 || char !== separator;
        if (stays && reached[i + 1]) after[i + 1] = true;
      } else if (reached[i] && token === char) after[i + 1] = true;
    }
    reached = withEmptyStars(tokens, after);
    if (!reached.includes(true)) return false;
  }
  return reached[tokens.length] === true;
}

/** Where a star has been reached, what follows it has been, too. */
function withEmptyStars(tokens: readonly string[], reached: boolean[]): boolean[] {
  for (const [i, token] of tokens.entries()) if (reached[i] && token.startsWith("*")) reached[i + 1] = true;
  return reached;
}

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
 * One layer of rules. `ask`: the call waits for its parent's word. `default` is for calls that no rule names: `deny` where
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

/** Whether a call may begin. `rule`: what decided, for people and models. */
export interface Permission {
  verdict: "allow" | "ask" | "deny";
  rule: string;
}

const ALLOWED: Permission = { verdict: "allow", rule: "default" };
const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;

/** What the layers together say of a call. */
export function permissionFor(layers: readonly PermissionRules[], tool: string, input: unknown): Permission {
  let strictest = ALLOWED;
  if (layers.length === 0) return strictest;
  const subject = subjectOf(tool, input);
  for (const layer of layers) {
    const found = permissionIn(layer, tool, subject);
    if (STRICTNESS[found.verdict] > STRICTNESS[strictest.verdict]) strictest = found;
  }
  return strictest;
}

function permissionIn(layer: PermissionRules, tool: string, subject: Subject): Permission {
  for (const verdict of ["deny", "ask", "allow"] as const) {
    const rule = layer[verdict]?.find((each) => isMatch(each, tool, subject, verdict === "allow"));
    if (rule !== undefined) return { verdict, rule: `${verdict} ${rule}` };
  }
  return { verdict: layer.default ?? (layer.allow ? "deny" : "allow"), rule: "default" };
}

function isMatch(rule: string, tool: string, subject: Subject, permits: boolean): boolean {
  const [, name = "", pattern] = RULE.exec(rule) ?? [];
  if (!matchesPattern(toolNameOf(name), tool)) return false;
  if (pattern === undefined || pattern === "*") return true;
  if (subject.whole.length > SUBJECT_MAX_CHARS || !subject.isPlain) return !permits;
  if (subject.kind === "path")
    return permits ? permitsPath(pattern, subject.whole) : refusesPath(pattern, subject);
  const matches = (text: string) => matchesWords(pattern, text);
  return permits
    ? subject.parts.every(matches)
    : [subject.whole, ...subject.parts, ...subject.names].some(matches);
}

/** What the patterns of a tool's rules are held against. */
interface Subject {
  kind: "words" | "path";
  whole: string;
  /** The commands of a line, as they stand; of any other text itself alone. */
  parts: readonly string[];
  /** The parts by the name of their program alone: no path before it, no variables set for it. */
  names: readonly string[];
  /** Whether the parts are all that happens. */
  isPlain: boolean;
  /** Whether everything below the path is meant. */
  isSearched: boolean;
}

/** Longer ones are not matched at all. */
const SUBJECT_MAX_CHARS = 4_096;
const SEARCHES: ReadonlySet<string> = new Set(["glob", "grep"]);
const WHOLE = { names: [], isPlain: true, isSearched: false };

function subjectOf(tool: string, input: unknown): Subject {
  const fields: JsonObject = typeof input === "object" && input !== null ? { ...input } : {};
  if (tool === "bash" && typeof fields.command === "string") return commandSubject(fields.command);
  const isSearched = SEARCHES.has(tool);
  const path = fields.file_path ?? fields.path ?? (isSearched ? "." : undefined);
  if (typeof path === "string") {
    const whole = normalised(path);
    return { ...WHOLE, kind: "path", whole, parts: [whole], isSearched };
  }
  const only = Object.values(fields);
  const whole = only.length === 1 && typeof only[0] === "string" ? only[0] : JSON.stringify(input ?? {});
  return { ...WHOLE, kind: "words", whole, parts: [whole] };
}

/** What a shell reads as more than words, wherever it stands outside of single quotes. */
const EXPANDS = /[$`]/;
/** What it reads so outside of quotes. */
const OPERATES = /[<>(){}]/;
const SEPARATES = /[;&|\n]/;

/**
 * The commands of a line, split where the shell splits them, quotes taken off. A line with substitutions, variables,
 * redirections or groups is not plain: what it does stands in no word of it.
 */
function commandSubject(line: string): Subject {
  const parts: string[] = [];
  let [part, quote, isPlain] = ["", "", true];
  const end = () => {
    if (part.trim() !== "") parts.push(part.trim().replace(/\s+/g, " "));
    part = "";
  };
  for (let at = 0; at < Math.min(line.length, SUBJECT_MAX_CHARS + 1); at += 1) {
    const char = line.charAt(at);
    if (quote !== "'" && EXPANDS.test(char)) isPlain = false;
    if (quote !== "") {
      if (char === quote) quote = "";
      else if (char === "\\" && quote === '"') part += line.charAt(++at);
      else part += char;
    } else if (char === "'" || char === '"') quote = char;
    else if (char === "\\") part += line.charAt(++at);
    else if (SEPARATES.test(char)) end();
    else {
      if (OPERATES.test(char)) isPlain = false;
      part += char;
    }
  }
  end();
  const names = parts.map((each) => each.replace(/^(?:\w+=\S* )*(?:\S*\/)?/, ""));
  return {
    kind: "words",
    whole: line.trim(),
    parts,
    names,
    isPlain: isPlain && quote === "",
    isSearched: false,
  };
}

/** `git:*`, as the ecosystem writes it, is `git` alone and `git *`. `git *` matches `git`, too. */
function matchesWords(pattern: string, text: string): boolean {
  const glob = pattern.replace(/:\*$/, " *");
  if (glob.endsWith(" *") && matchesPattern(glob.slice(0, -2), text)) return true;
  return matchesPattern(glob, text);
}

/** A pattern without a slash is held against the last name, as in a .gitignore. */
function permitsPath(pattern: string, path: string): boolean {
  const glob = normalised(pattern);
  if (!glob.includes("/")) return matchesPattern(glob, path.slice(path.lastIndexOf("/") + 1), "/");
  if (glob.startsWith("**/") && matchesPattern(glob.slice(3), path, "/")) return true;
  return matchesPattern(glob, path, "/");
}

/** Also by an absolute spelling of the path, and by a search that begins above what the pattern names. */
function refusesPath(pattern: string, { whole: path, isSearched }: Subject): boolean {
  const names = path.split("/");
  if (names.some((_, at) => permitsPath(pattern, names.slice(at).join("/")))) return true;
  if (permitsPath(pattern, path)) return true;
  if (!isSearched) return false;
  const literal = normalised(pattern.split("*", 1)[0] ?? "");
  return path === "" || path === "/" || !pattern.includes("/") || `${literal}/`.startsWith(`${path}/`);
}

/** Without `.` and with `..` taken back: two spellings of one path are one. */
function normalised(path: string): string {
  const names: string[] = [];
  for (const name of path.replaceAll("\\", "/").split("/")) {
    if (name === "" || name === ".") continue;
    if (name === ".." && names.length > 0 && names.at(-1) !== "..") names.pop();
    else names.push(name);
  }
  return (path.startsWith("/") ? "/" : "") + names.join("/");
}

/** The common names and ours. No tool can have a common name: those of tools begin with a small letter. */
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

/** The names a sub-agent never gets: there is no nesting. */
export const SPAWNING_TOOLS: readonly string[] = [
  "agent",
  "destroy_sub_agent",
  "list_sub_agents",
  "spawn_sub_agent",
  "task",
];

/** Finds tools that are too many to be listed. */
export const FIND_TOOLS = "find_tools";
/** Calls a tool that {@link FIND_TOOLS} found. */
export const USE_TOOL = "use_tool";

/** The tool and input that a model's call means: of {@link USE_TOOL} those that it names. */
export function calledTool(name: string, input: unknown): { name: string; input: unknown } {
  if (name !== USE_TOOL || typeof input !== "object" || input === null) return { name, input };
  if (!("name" in input) || typeof input.name !== "string" || !input.name.startsWith(MCP))
    return { name, input };
  return { name: input.name, input: "input" in input ? input.input : {} };
}

const MCP = "mcp__";
/** How the ecosystem writes all tools of an MCP server; `mcp__<server>` alone means the same. */
const WHOLE_SERVER = /(?<=^mcp__.*)__\*$/;

/** The name that stands for every tool of the MCP server which the tool `name` is of; undefined for other tools. */
export function mcpServerOf(name: string): string | undefined {
  const end = name.startsWith(MCP) ? name.indexOf("__", MCP.length) : -1;
  return end < 0 ? undefined : name.slice(0, end);
}

/** The name by which workers know the tool `name`. */
export function toolNameOf(name: string): string {
  return ALIASES.get(name) ?? name;
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

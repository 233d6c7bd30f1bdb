/**
 * An agent definition: a markdown file with the settings of sub-agents of this name. Keys of the front matter may be in camel
 * case or snake case (`disallowedTools`, `disallowed_tools`); the body is the system prompt.
 */
import { z } from "zod";
import { wordingOf } from "../../shared/problem-text.ts";
import type { AgentDefinition } from "../../shared/protocol/definition.ts";
import { Effort, TaskBudget } from "../../shared/protocol/limits.ts";
import { OutputSchema } from "../../shared/protocol/output.ts";
import { PermissionRules, SPAWNING_TOOLS, ToolNames, toolNameOf } from "../../shared/protocol/permissions.ts";
import { ModelChain, Names } from "../input.ts";
import { type LineProblem, readFrontMatter } from "./front-matter.ts";

/** A file as a definition, or its first problem; `tokens`: number of parsed tokens of its front matter. */
export type ReadDefinition = { tokens: number } & (
  | { ok: true; definition: AgentDefinition }
  | { ok: false; problem: LineProblem }
);

const commaSeparated = z.preprocess(
  (value) =>
    typeof value === "string"
      ? entriesOf(value)
          .map((entry) => entry.trim())
          .filter(Boolean)
      : value,
  z.array(z.string().trim().min(1)).max(256),
);
/**
 * The tools of an agent. If one has a pattern, the entries are also permission rules, and must have their form: else a spawn would
 * store rules that no worker can read. A blank before a pattern is no part of a rule.
 */
const ToolEntries = commaSeparated
  .transform((entries) => entries.map(withoutBlankBeforePattern))
  .superRefine((entries, context) => {
    if (!entries.some(hasPattern)) return;
    const read = PermissionRules.safeParse({ allow: entries }, { error: wordingOf });
    for (const { path, message } of read.error?.issues ?? [])
      context.addIssue({ code: "custom", path: path.slice(1), message });
  });
const namesIn = <S extends z.ZodType<string[], string[]>>(schema: S) => commaSeparated.pipe(schema);

const MODES = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "auto", "manual"] as const;
const WRITING = ["bash", "edit_file", "write_file"];

const Fields = z.looseObject({
  name: z
    .string()
    .trim()
    .regex(
      /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/,
      "1 to 64 characters of A-Z a-z 0-9 _ -, starting with a letter or digit",
    ),
  description: z.string().trim().min(1).max(8_192),
  tools: ToolEntries.optional(),
  disallowed_tools: namesIn(ToolNames).optional(),
  model: z.string().trim().min(1).max(128).optional(),
  fallback_models: namesIn(ModelChain).optional(),
  max_turns: z.int().min(1).optional(),
  effort: Effort.optional(),
  task_budget: TaskBudget.optional(),
  permission_mode: z.enum(MODES).optional(),
  permissions: PermissionRules.optional(),
  skills: namesIn(Names).optional(),
  hooks: namesIn(Names).optional(),
  output_schema: OutputSchema.optional(),
});
/** Beginning of the problem of a file with commands as hooks; it is refused, because a guard would be missing without them. */
const NO_COMMANDS = "hooks that are commands do not run here, name hooks of the worker instead; ";
const KNOWN: ReadonlySet<string> = new Set(Object.keys(Fields.shape));

/** Reads the text of a file. `stem`: the file's name without its extension, the default name of the definition. */
export function readDefinition(text: string, stem: string): ReadDefinition {
  const matter = readFrontMatter(text);
  if (!matter.ok) return matter;
  const { tokens } = matter;
  const spelled = new Map(Object.keys(matter.fields).map((key) => [snakeCase(key), key]));
  // Two spellings of one key are refused: taking one would drop a restriction of the other.
  const twice = Object.keys(matter.fields).find((key) => spelled.get(snakeCase(key)) !== key);
  if (twice !== undefined) {
    const other = spelled.get(snakeCase(twice)) ?? "";
    return {
      ok: false,
      tokens,
      problem: { line: matter.lineOf(other), message: `${other}: stands here as ${twice}, too` },
    };
  }
  const given = Object.entries(matter.fields).filter(([, value]) => value !== null);
  const fields = { name: stem, ...Object.fromEntries(given.map(([key, value]) => [snakeCase(key), value])) };
  const read = Fields.safeParse(fields, { error: wordingOf });
  if (!read.success) {
    const issue = read.error.issues[0];
    const key = String(issue?.path[0] ?? "");
    const line = matter.lineOf(spelled.get(key) ?? key);
    const field = [spelled.get(key) ?? key, ...(issue?.path.slice(1) ?? [])].map(String).join(".");
    return {
      ok: false,
      tokens,
      problem: { line, message: `${field}: ${key === "hooks" ? NO_COMMANDS : ""}${issue?.message}` },
    };
  }
  return { ok: true, tokens, definition: definitionOf(read.data, matter.body) };
}

function definitionOf(fields: z.output<typeof Fields>, body: string): AgentDefinition {
  const { tools, permission_mode, permissions, model, ...rest } = fields;
  const named = tools?.map((entry) => toolNameOf(entry.replace(/\(.*$/s, "")));
  const layers: PermissionRules[] = [
    ...(tools?.some(hasPattern) ? [{ allow: tools }] : []),
    ...(permissions ? [permissions] : []),
    ...(permission_mode === "plan" ? [{ deny: WRITING }] : []),
  ];
  const offered = named?.includes("*")
    ? undefined
    : named && [...new Set(named)].filter((name) => !SPAWNING_TOOLS.includes(name));
  const { name, description, disallowed_tools, fallback_models, max_turns, effort, task_budget } = rest;
  const { skills, hooks, output_schema } = rest;
  return {
    name,
    description,
    system: body,
    tools: offered,
    disallowed_tools,
    model: model === "inherit" ? undefined : model,
    fallback_models,
    max_turns,
    effort,
    task_budget,
    skills,
    hooks,
    permissions: layers,
    output_schema,
    ignored: Object.keys(rest)
      .filter((key) => !KNOWN.has(key))
      .slice(0, 32),
  };
}

/** Splits `a, b(c, d)` at commas outside of parentheses, and at a parenthesis that is never closed. */
function entriesOf(text: string): string[] {
  const lastClosing = text.lastIndexOf(")");
  const entries: string[] = [];
  let begin = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "(" && at < lastClosing) at = text.indexOf(")", at);
    else if (text[at] === "," || text[at] === "(") {
      entries.push(text.slice(begin, at));
      begin = at + 1;
    }
  }
  return [...entries, text.slice(begin)];
}

function withoutBlankBeforePattern(entry: string): string {
  const at = entry.indexOf("(");
  return at < 0 ? entry : `${entry.slice(0, at).trimEnd()}${entry.slice(at)}`;
}

function hasPattern(entry: string): boolean {
  return entry.includes("(");
}

function snakeCase(key: string): string {
  return key
    .replace(/-/g, "_")
    .replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    .replace(/^_/, "");
}

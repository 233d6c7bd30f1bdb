/**
 * The settings of a new agent, merged from four layers: the operator's settings, the parent's profile (its options over its
 * registered profile), an agent definition, and the spawn itself. Each layer may only narrow those before it. Pure.
 *
 * A definition is a file that was not written for this parent: if it asks for more than the profile has (tools, skills,
 * turns), it gets what the profile has. A spawn that asks for more is refused.
 */
import type { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { AgentSpec } from "../shared/protocol/agent.ts";
import type { AgentDefinition } from "../shared/protocol/definition.ts";
import { Uid } from "../shared/protocol/ids.ts";
import type { ParentAddress } from "../shared/protocol/keys.ts";
import {
  type AlertThresholds,
  ANSWER_MS,
  type Effort,
  IDLE_MS,
  type Limits,
  type LimitsInput,
  leastEffort,
  narrowedBudgets,
  narrowLimits,
  paceFor,
  TASK_LIMITS,
} from "../shared/protocol/limits.ts";
import { listsTool, type PermissionRules, SKILL_TOOL, toolsInBoth } from "../shared/protocol/permissions.ts";
import { modelIdOf } from "../shared/protocol/usage.ts";
import {
  type Inheritable,
  type OperatorDefaults,
  OptionsInput,
  type ProfileInput,
  type RegisteredProfile,
  readInput,
  UNREGISTERED,
} from "./input.ts";

/** A checked profile. */
export interface Profile extends Omit<z.output<typeof ProfileInput>, "permissions"> {
  parent: ParentAddress;
  limits: LimitsInput;
  alerts: AlertThresholds;
  keep_alive: boolean;
  idle_ms: number;
  answer_within_ms: number;
  /** Layers of rules; every one must permit a call. */
  permissions: PermissionRules[];
  /** The lease of this parent object; it is never registered. */
  lease?: NonNullable<z.output<typeof OptionsInput>["lease"]>;
  /** Version of the registered profile that this one narrows. */
  version?: number;
  /** The parent's options as given: without defaults, operator settings and registered profile. */
  own: z.output<typeof ProfileInput>;
  /** Returns the same options under another registered profile. Throws `invalid_input` if they are wider than it. */
  withProfile(registered: RegisteredProfile): Profile;
}

/**
 * Checks the options of a parent and returns its profile. Throws `nested_spawn` if `parentId` is the uid of a sub-agent.
 * Throws `invalid_input` for malformed options, and for a limit above the operator's limit for a task, the largest kind of
 * run; `what` names the options. Its `withProfile` throws for options wider than the registered profile.
 */
export function profileOf(
  input: z.input<typeof OptionsInput>,
  operator: OperatorDefaults,
  what = "createParent",
): Profile {
  if (typeof input.parentId === "string" && Uid.safeParse(input.parentId.trim().toLowerCase()).success) {
    throw new SubagentError(
      "nested_spawn",
      "A sub-agent cannot be a parent: let it finish, and have its parent spawn what else is needed.",
    );
  }
  const { parentId, tenant, lease, ...own } = readInput(OptionsInput, input, what);
  const withProfile = (registered: RegisteredProfile): Profile => ({
    ...profileUnder(own, registered, operator, what),
    ...(lease && { lease }),
    parent: { tenant, parentId },
    own,
    withProfile,
  });
  return withProfile(UNREGISTERED);
}

/** Merges options into a registered profile: they may only narrow names, limits and times; prohibitions add up. */
function profileUnder(
  own: z.output<typeof ProfileInput>,
  { version, profile: base }: RegisteredProfile,
  operator: OperatorDefaults,
  whose: string,
): Omit<Profile, "parent" | "own" | "withProfile" | "lease"> {
  const what = version === 0 ? whose : `${whose} (under version ${version} of the registered profile)`;
  const atMost = (field: "idle_ms" | "answer_within_ms", most: number) => {
    if ((own[field] ?? 0) > most) throw tooWideError(what, field, own[field], most);
    return own[field] ?? most;
  };
  const allowed = baseLimits(TASK_LIMITS, operator, base.limits ?? {});
  narrowed(allowed, own.limits ?? {}, what);
  const budgets = narrowedBudgets(base.budgets, own.budgets);
  const optional = {
    model: own.model ?? base.model,
    fallback_models: own.fallback_models ?? base.fallback_models,
    system: own.system ?? base.system,
    tools: narrowedTools(what, base.tools, own.tools),
    disallowed_tools: union(base.disallowed_tools, own.disallowed_tools),
    skills: narrowedNames(what, "skills", base.skills, undefined, own.skills),
    hooks: union(base.hooks, own.hooks),
    budgets: Object.keys(budgets).length > 0 ? budgets : undefined,
    version: version > 0 ? version : undefined,
    transcript_ms: boundedBy(what, "transcript_ms", base.transcript_ms, own.transcript_ms),
    effort: effortUnder(what, base.effort, own.effort),
    task_budget: boundedBy(what, "task_budget", base.task_budget, own.task_budget),
  };
  requireTools(what, optional);
  return {
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
    limits: { ...base.limits, ...own.limits },
    alerts: { ...base.alerts, ...own.alerts },
    keep_alive: own.keep_alive ?? base.keep_alive ?? false,
    idle_ms: atMost("idle_ms", base.idle_ms ?? own.idle_ms ?? IDLE_MS),
    answer_within_ms: atMost("answer_within_ms", base.answer_within_ms ?? own.answer_within_ms ?? ANSWER_MS),
    permissions: [base.permissions, own.permissions].filter((layer) => layer !== undefined),
  };
}

/** Throws `invalid_input` if every tool that is named is disallowed: an agent without tools could only guess. */
export function requireTools(
  what: string,
  {
    tools = [],
    disallowed_tools = [],
    skills = [],
  }: Pick<Inheritable, "tools" | "disallowed_tools" | "skills">,
): void {
  const isLeft = (tool: string) => !listsTool(disallowed_tools, tool);
  // Named skills come with the tool that loads them.
  if (tools.length === 0 || (skills.length > 0 && isLeft(SKILL_TOOL)) || tools.some(isLeft)) return;
  const names = tools.join(", ");
  throw new SubagentError(
    "invalid_input",
    `${what} refused, nothing was done: disallowed_tools has every one of tools (${names}), so none is left: take one out of it.`,
    { field: "disallowed_tools", tools, disallowed_tools },
  );
}

/** The inheritable options of a spawn, its definition and its limits. */
export interface InheritanceInput extends Inheritable {
  agent?: string | undefined;
  limits?: LimitsInput | undefined;
}

/** The merged settings of an agent. The caller must still compare `tools` with the workers' tools; undefined: the profile's. */
export interface Inherited {
  model: string | undefined;
  limits: Limits;
  tools: string[] | undefined;
  rest: Pick<
    AgentSpec,
    | "system"
    | "output_schema"
    | "definition"
    | "profile_version"
    | "disallowed_tools"
    | "skills"
    | "hooks"
    | "permissions"
    | "fallback_models"
    | "transcript_ms"
    | "effort"
    | "task_budget"
  >;
}

/** Merges the layers. Throws `invalid_input` for a value wider than allowed, and `unknown_definition`. */
export function inherit(
  what: string,
  defaults: Limits,
  input: InheritanceInput,
  { profile, operator }: { profile: Profile; operator: OperatorDefaults },
): Inherited {
  const definition = input.agent === undefined ? undefined : named(input.agent, operator);
  const idOf = (name: string | undefined) => modelIdOf(name, operator.models);
  const chain = input.fallback_models ?? definition?.fallback_models ?? profile.fallback_models;
  const model = idOf(input.model) ?? idOf(definition?.model) ?? idOf(profile.model) ?? idOf(operator.model);
  const disallowed = union(profile.disallowed_tools, definition?.disallowed_tools, input.disallowed_tools);
  const skills = narrowedNames(what, "skills", profile.skills, definition?.skills, input.skills);
  const rest = {
    system: input.system ?? systemOf(definition) ?? profile.system,
    output_schema: definition?.output_schema,
    definition: definition?.name,
    profile_version: profile.version,
    disallowed_tools: disallowed,
    skills: loadableSkills(what, skills, disallowed, input.skills),
    hooks: union(profile.hooks, definition?.hooks, input.hooks),
    permissions: nonEmpty([
      ...profile.permissions,
      ...(definition?.permissions ?? []),
      ...(input.permissions ? [input.permissions] : []),
    ]),
    transcript_ms: boundedBy(what, "transcript_ms", profile.transcript_ms, input.transcript_ms),
    ...paceOf(what, model, definition, input, profile),
    fallback_models: nonEmpty(
      union(chain?.flatMap((name) => idOf(name) ?? []))?.filter((id) => id !== model),
    ),
  };
  const tools = toolsOf(what, definition, input.tools, profile.tools);
  requireTools(what, { tools: tools ?? profile.tools, ...rest });
  return {
    model,
    limits: limitsOf(what, defaults, definition, input.limits, { profile, operator }),
    tools,
    rest: Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
  };
}

/**
 * Returns effort and task budget. Throws `invalid_input` if the spawn itself names a value that the model does not support;
 * reduces an inherited value to what the model supports.
 */
function paceOf(
  what: string,
  model: string | undefined,
  definition: AgentDefinition | undefined,
  input: InheritanceInput,
  profile: Profile,
) {
  const budgets = [profile.task_budget, definition?.task_budget].filter((most) => most !== undefined);
  const most = budgets.length > 0 ? Math.min(...budgets) : undefined;
  const effort = effortUnder(what, leastEffort(profile.effort, definition?.effort), input.effort);
  const task_budget = boundedBy(what, "task_budget", most, input.task_budget);
  if (model === undefined) return { effort, task_budget };
  const taken = paceFor(model, { effort, task_budget });
  for (const field of ["effort", "task_budget"] as const) {
    if (input[field] === undefined || taken[field] === input[field]) continue;
    throw new SubagentError(
      "invalid_input",
      `${what} refused, nothing was done: the model ${model} does not take ${field} ${input[field]}; omit it, or name another model.`,
      { field: "model", model, [field]: input[field] },
    );
  }
  return taken;
}

function named(name: string, { definitions }: OperatorDefaults): AgentDefinition {
  if (definitions) return definitions.find(name);
  throw new SubagentError(
    "unknown_definition",
    `There are no agent definitions here: omit agent ${JSON.stringify(name)}.`,
  );
}

function systemOf(definition: AgentDefinition | undefined): string | undefined {
  return definition?.system === "" ? undefined : definition?.system;
}

function limitsOf(
  what: string,
  defaults: Limits,
  definition: AgentDefinition | undefined,
  asked: LimitsInput = {},
  { profile, operator }: { profile: Profile; operator: OperatorDefaults },
): Limits {
  const base = baseLimits(defaults, operator, profile.limits);
  const max_turns = Math.min(base.max_turns, definition?.max_turns ?? base.max_turns);
  return narrowed({ ...base, max_turns }, asked, what);
}

/**
 * Returns the requested tools. A definition offers those of its tools that the profile also has; a spawn may name some of
 * them. Throws `invalid_input` if none of the definition's tools is left: an agent without tools could only guess.
 */
function toolsOf(
  what: string,
  definition: AgentDefinition | undefined,
  asked: string[] | undefined,
  profileTools: readonly string[] | undefined,
): string[] | undefined {
  if (!definition?.tools) return asked;
  const offered = toolsInBoth(definition.tools, profileTools);
  narrowedTools(what, offered, asked);
  if (offered.length === 0 && definition.tools.length > 0 && !asked)
    throw tooWideError(what, `tools of the definition ${definition.name}`, definition.tools, profileTools);
  return asked ?? offered;
}

/** Returns the requested number, by default the allowed one. Throws `invalid_input` if it exceeds the allowed one. */
function boundedBy(
  what: string,
  field: "transcript_ms" | "task_budget",
  allowed: number | undefined,
  asked: number | undefined,
): number | undefined {
  if (allowed !== undefined && (asked ?? 0) > allowed) throw tooWideError(what, field, asked, allowed);
  return asked ?? allowed;
}

/** Returns the requested effort, by default the allowed one. Throws `invalid_input` if it exceeds the allowed one. */
function effortUnder(
  what: string,
  allowed: Effort | undefined,
  asked: Effort | undefined,
): Effort | undefined {
  if (asked && leastEffort(allowed, asked) !== asked) throw tooWideError(what, "effort", asked, allowed);
  return asked ?? allowed;
}

/**
 * Returns the requested names, by default the allowed ones. Throws `invalid_input` for a name that the profile's or the
 * definition's list lacks; an undefined list allows all names.
 */
function narrowedNames(
  what: string,
  field: string,
  profileNames: readonly string[] | undefined,
  definitionNames: readonly string[] | undefined,
  asked: string[] | undefined,
): string[] | undefined {
  const has = (names: readonly string[] | undefined) => (name: string) => !names || names.includes(name);
  const allowed = definitionNames?.filter(has(profileNames)) ?? profileNames;
  const refused = asked?.filter((name) => !has(allowed)(name)) ?? [];
  if (refused.length > 0) throw tooWideError(what, field, refused, allowed);
  return asked ?? (allowed && [...allowed]);
}

/**
 * Returns those skills that an agent can load: none if the tool that loads them is disallowed, so that no run waits for a
 * worker that has them. Throws `invalid_input` if the spawn itself named some of them (`asked`).
 */
export function loadableSkills(
  what: string,
  skills: string[] | undefined,
  disallowed_tools: readonly string[] = [],
  asked: readonly string[] = [],
): string[] | undefined {
  if (!skills || !listsTool(disallowed_tools, SKILL_TOOL)) return skills;
  if (asked.length === 0) return [];
  throw new SubagentError(
    "invalid_input",
    `${what} refused, nothing was done: disallowed_tools has ${SKILL_TOOL}, the tool that loads skills (${asked.join(", ")}): leave out the skills, or take it out of disallowed_tools.`,
    { field: "skills", skills: asked, disallowed_tools },
  );
}

/** Returns the requested tools, by default the allowed ones. Throws `invalid_input` for a tool that the allowed list lacks. */
function narrowedTools(
  what: string,
  allowed: string[] | undefined,
  asked: string[] | undefined,
): string[] | undefined {
  const refused = asked?.filter((tool) => !listsTool(allowed, tool)) ?? [];
  if (refused.length > 0) throw tooWideError(what, "tools", refused, allowed);
  return asked ?? (allowed && [...allowed]);
}

/** Returns all names of all lists, each once; undefined if there are none. */
export function union(...lists: (readonly string[] | undefined)[]): string[] | undefined {
  return nonEmpty([...new Set(lists.flatMap((names) => names ?? []))]);
}

/** Returns the list; undefined if it is undefined or empty. */
export function nonEmpty<T>(list: T[] | undefined): T[] | undefined {
  return list && list.length > 0 ? list : undefined;
}

/** Returns the maximum limits of a spawn: the defaults of its kind, replaced by the operator's and capped by the profile's. */
export function baseLimits(defaults: Limits, operator: OperatorDefaults, profile: LimitsInput): Limits {
  const base: Limits = { ...defaults, ...operator.limits };
  const capped: LimitsInput = {};
  for (const [field, cap] of Object.entries(profile) as [keyof Limits, number | undefined][]) {
    if (cap !== undefined) capped[field] = Math.min(cap, base[field] ?? cap);
  }
  return { ...base, ...capped };
}

/** Returns `base` narrowed by `requested`. Throws `invalid_input` with the field, the requested and the allowed value. */
export function narrowed(base: Limits, requested: LimitsInput, what: string): Limits {
  const answer = narrowLimits(base, requested);
  if (answer.status === "narrowed") return answer.limits;
  throw tooWideError(what, `limits.${answer.field}`, answer.requested, answer.allowed);
}

/** Returns the error for a value that is more than allowed. */
export function tooWideError(
  what: string,
  field: string,
  requested: unknown,
  allowed: unknown,
): SubagentError {
  const show = (value: unknown) => (Array.isArray(value) ? value.join(", ") : String(value));
  return new SubagentError(
    "invalid_input",
    `${what} refused, nothing was done: ${field} ${show(requested)} is more than is allowed here (${show(allowed)}): ask for less, or allow more in the profile, the client or the environment.`,
    { field, requested, allowed },
  );
}

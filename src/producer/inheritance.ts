/**
 * What a new agent is made of, from four layers: the operator's settings, the parent's profile, an agent definition, and the
 * spawn itself. Each may only narrow those before it. Pure.
 *
 * A definition is a file that was not written for this parent: where it asks for more than the profile has (tools, skills,
 * turns), it gets what there is. A spawn that asks for more is refused.
 */
import { SubagentError } from "../shared/errors.ts";
import type { AgentSpec } from "../shared/protocol/agent.ts";
import type { AgentDefinition } from "../shared/protocol/definition.ts";
import {
  type Effort,
  type Limits,
  type LimitsInput,
  leastEffort,
  paceFor,
} from "../shared/protocol/limits.ts";
import type { PermissionRules } from "../shared/protocol/permissions.ts";
import { modelIdOf } from "../shared/protocol/usage.ts";
import {
  atMostOf,
  baseLimits,
  effortUnder,
  narrowed,
  narrowedNames,
  nonEmpty,
  type OperatorDefaults,
  type Profile,
  union,
  wider,
} from "./input.ts";

/** What a spawn may say about what it inherits. */
export interface InheritanceInput {
  agent?: string | undefined;
  model?: string | undefined;
  fallback_models?: string[] | undefined;
  system?: string | undefined;
  tools?: string[] | undefined;
  disallowed_tools?: string[] | undefined;
  skills?: string[] | undefined;
  hooks?: string[] | undefined;
  permissions?: PermissionRules | undefined;
  limits?: LimitsInput | undefined;
  transcript_ms?: number | undefined;
  effort?: Effort | undefined;
  task_budget?: number | undefined;
}

/** What holds for the agent. `tools` are still to be held against those that workers have; absent: the profile's. */
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

/** The layers together. Throws `invalid_input` for what is wider than allowed, `unknown_definition`. */
export function inherit(
  what: string,
  defaults: Limits,
  input: InheritanceInput,
  { profile, operator }: { profile: Profile; operator: OperatorDefaults },
): Inherited {
  const definition = input.agent === undefined ? undefined : named(input.agent, operator);
  const idOf = (name: string | undefined) => modelIdOf(name, operator.models);
  const chain = input.fallback_models ?? definition?.fallback_models ?? profile.fallback_models;
  const model = idOf(input.model) ?? idOf(definition?.model) ?? idOf(profile.model);
  const rest = {
    system: input.system ?? systemOf(definition) ?? profile.system,
    output_schema: definition?.output_schema,
    definition: definition?.name,
    profile_version: profile.version,
    disallowed_tools: union(profile.disallowed_tools, definition?.disallowed_tools, input.disallowed_tools),
    skills: narrowedNames(what, "skills", profile.skills, definition?.skills, input.skills),
    hooks: union(profile.hooks, definition?.hooks, input.hooks),
    permissions: nonEmpty([
      ...profile.permissions,
      ...(definition?.permissions ?? []),
      ...(input.permissions ? [input.permissions] : []),
    ]),
    transcript_ms: atMostOf(what, "transcript_ms", profile.transcript_ms, input.transcript_ms),
    ...paceOf(what, model, definition, input, profile),
    fallback_models: nonEmpty(
      union(chain?.flatMap((name) => idOf(name) ?? []))?.filter((id) => id !== model),
    ),
  };
  return {
    model,
    limits: limitsOf(what, defaults, definition, input.limits, { profile, operator }),
    tools: toolsOf(what, definition, input.tools, profile.tools),
    rest: Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
  };
}

/** What a spawn itself asks of a model that does not take it is refused; what is inherited is taken as far as it goes. */
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
  const task_budget = atMostOf(what, "task_budget", most, input.task_budget);
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

/** A definition's tools are those that the profile has, too; a spawn may name some of them. */
function toolsOf(
  what: string,
  definition: AgentDefinition | undefined,
  asked: string[] | undefined,
  profileTools: readonly string[] | undefined,
): string[] | undefined {
  if (!definition?.tools) return asked;
  const offered = definition.tools.filter((tool) => !profileTools || profileTools.includes(tool));
  const refused = asked?.filter((tool) => !offered.includes(tool)) ?? [];
  if (refused.length > 0) throw wider(what, "tools", refused, offered);
  return asked ?? offered;
}

/**
 * The parts that all agents of one specification share in this worker: their tools, their rules, the constant part of
 * requests. Made when the first of them is claimed, and never changed. `open-session.ts` gives each run its own parts.
 */
import type { Logger } from "../../shared/logger.ts";
import type { AgentSpec } from "../../shared/protocol/agent.ts";
import { isCappedInUsd, type Pace } from "../../shared/protocol/limits.ts";
import { ASK_TOOL } from "../../shared/protocol/message.ts";
import {
  FIND_TOOLS,
  type PermissionRules,
  SKILL_TOOL,
  SPAWNING_TOOLS,
  toolsNamedByRules,
  USE_TOOL,
} from "../../shared/protocol/permissions.ts";
import { type PriceOverrides, priceOf, promptTokenUsd } from "../../shared/protocol/usage.ts";
import { BASE_TOOLS } from "../../shared/protocol/worker.ts";
import type { RunRules } from "../loop/rules.ts";
import { systemPrompt } from "../loop/system-prompt.ts";
import { outputFormat } from "../model/output-format.ts";
import { requestHead } from "../model/request.ts";
import type { SkillLibrary } from "../skills/library.ts";
import { skillsFor, skillToolFor } from "../skills/skill-tool.ts";
import type { Toolbox } from "../tools/registry.ts";
import type { OpenRoot } from "../tools/roots.ts";
import type { Tool } from "../tools/tool.ts";
import { listedOf, withFinding } from "../tools/tool-search.ts";

/** The worker's own parts, for all its agents. */
export interface SpecSources {
  toolbox: Toolbox;
  roots: readonly OpenRoot[];
  /** Permissions of every agent's tools, applied before those of its specification. */
  permissions: readonly PermissionRules[];
  skills: SkillLibrary | undefined;
  prices: PriceOverrides;
  logger: Logger;
}

/** See the module's header. */
export interface PreparedSpec {
  rules: RunRules;
  /** The tools offered to the model, by name, sorted. */
  tools: ReadonlyMap<string, Tool>;
  toolNames: readonly string[];
  /** The chain of models, the requested one first. */
  models: readonly string[];
  /** A model of the chain without a known price, if a cap in USD binds the agent and could not be kept. */
  unpriced: string | undefined;
  /** The part that is the same in every request of the run. */
  requestHead: string;
  /** Effort and task budget for its models; each takes the parts that it supports. */
  pace: Pace;
  /** The member of `output_config` that makes the provider keep to the output schema, or "". */
  outputFormat: string;
}

/** The prepared specifications of claimed agents; an entry is forgotten with its specification. */
export class SpecCache {
  readonly #sources: SpecSources;
  readonly #known = new WeakMap<AgentSpec, { prepared: PreparedSpec; madeOf: readonly Tool[] }>();

  constructor(sources: SpecSources) {
    this.#sources = sources;
  }

  /** Returns the prepared `spec`; prepares it again if the worker's tools have changed since. */
  of(spec: AgentSpec): PreparedSpec {
    const { tools: madeOf } = this.#sources.toolbox.resolve(undefined);
    const known = this.#known.get(spec);
    if (known?.madeOf === madeOf) return known.prepared;
    const prepared = prepareSpec(spec, this.#sources);
    this.#known.set(spec, { prepared, madeOf });
    warnOfStrayRules(prepared, this.#sources);
    return prepared;
  }
}

/** Names that a rule may have even if the worker has no such tool. */
const ORDINARY: ReadonlySet<string> = new Set([
  ...BASE_TOOLS,
  ...SPAWNING_TOOLS,
  "bash",
  SKILL_TOOL,
  FIND_TOOLS,
  USE_TOOL,
]);

/** Warns about rules with a misspelt tool, which would silently forbid nothing. */
function warnOfStrayRules(
  { rules: { permissions = [] } }: PreparedSpec,
  { toolbox, logger }: SpecSources,
): void {
  const named = toolsNamedByRules(permissions).filter((name) => !ORDINARY.has(name));
  const { unknown: tools } = toolbox.resolve(named);
  if (tools.length > 0) logger.warn({ tools }, "Permission rules name tools that this worker does not have");
}

function prepareSpec(spec: AgentSpec, sources: SpecSources): PreparedSpec {
  const { toolbox, roots, skills, prices } = sources;
  const models = [spec.model, ...(spec.fallback_models ?? [])];
  const tools = toolsOf(spec, sources);
  const offered = [...tools.values()];
  const { unknown } = toolbox.resolve(spec.tools);
  const canAsk = tools.has(ASK_TOOL);
  return {
    rules: {
      limits: spec.limits,
      promptUsd: Math.max(...models.map((model) => promptTokenUsd(priceOf(model, prices)))),
      ...(spec.alerts && { alerts: spec.alerts }),
      model: spec.model,
      unknownTools: [...(spec.unknown_tools ?? []), ...unknown],
      ...(tools.size === 0 && unknown.length > 0 && { lacksTools: true }),
      idempotentTools: new Set(offered.filter((tool) => tool.idempotent).map((tool) => tool.name)),
      canAsk,
      permissions: [...sources.permissions, ...(spec.permissions ?? [])],
      canBePermitted: spec.answer_ms !== undefined,
      outputSchema: spec.output_schema,
    },
    tools,
    toolNames: [...tools.keys()],
    pace: { effort: spec.effort, task_budget: spec.task_budget },
    outputFormat: spec.output_schema ? outputFormat(spec.output_schema) : "",
    models,
    unpriced: isCappedInUsd(spec.limits, spec.budgets)
      ? models.find((model) => !priceOf(model, prices))
      : undefined,
    requestHead: requestHead({
      maxTokens: spec.limits.max_tokens,
      system: systemPrompt(
        spec.system,
        roots.map(({ path, mode }) => ({ path, readOnly: mode === "ro" })),
        canAsk,
        spec.output_schema,
        tools.has(SKILL_TOOL) ? skillsFor(skills, spec.skills) : [],
      ),
      tools: listedOf(offered).map(({ name, description, inputSchema }) => ({
        name,
        description,
        input_schema: inputSchema,
      })),
    }),
  };
}

function toolsOf(spec: AgentSpec, { toolbox, skills }: SpecSources): ReadonlyMap<string, Tool> {
  // Named skills come with the tool that loads them.
  const allowlist = spec.tools && spec.skills?.length ? [...spec.tools, SKILL_TOOL] : spec.tools;
  const withheld = new Set(spec.disallowed_tools);
  const offered = toolbox
    .resolve(allowlist)
    .tools.filter(
      ({ name, server = name }) =>
        (name !== ASK_TOOL || spec.answer_ms !== undefined) && !withheld.has(name) && !withheld.has(server),
    );
  const narrowed = offered.flatMap((tool) =>
    tool.name === SKILL_TOOL ? skillToolFor(skills, spec.skills) : tool,
  );
  return new Map(withFinding(narrowed).map((tool) => [tool.name, tool]));
}

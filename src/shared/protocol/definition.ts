/** Types of agent definitions for the producer: the definition, its file, and the problems of a file. */
import type { Effort } from "./limits.ts";
import type { OutputSchema } from "./output.ts";
import type { PermissionRules } from "./permissions.ts";

/** An agent definition. Absent fields are inherited from the parent. Tools have the names of this package. */
export interface AgentDefinition {
  name: string;
  /** Situation in which to use the agent; models choose by it. */
  description: string;
  /** The body of the file; replaces the standard instructions. */
  system: string;
  tools?: string[] | undefined;
  disallowed_tools?: string[] | undefined;
  /** `haiku`, `sonnet` or `opus`, or a model's id. */
  model?: string | undefined;
  fallback_models?: string[] | undefined;
  max_turns?: number | undefined;
  effort?: Effort | undefined;
  task_budget?: number | undefined;
  skills?: string[] | undefined;
  hooks?: string[] | undefined;
  /** Layers of rules; every one must permit a call. */
  permissions: PermissionRules[];
  /** JSON Schema of an answer. */
  output_schema?: OutputSchema | undefined;
  /** Keys of the front matter without a meaning here. */
  ignored: string[];
}

/** A definition and its file; none for a definition that the package ships. */
export interface FoundDefinition extends AgentDefinition {
  file?: string;
}

/** A file that cannot be used. `line`: from 1. */
export interface DefinitionProblem {
  file: string;
  line: number;
  message: string;
}

/** Current content of the folders. */
export interface Definitions {
  /** By name, sorted. */
  definitions: FoundDefinition[];
  problems: DefinitionProblem[];
}

/** Source of definitions. */
export interface DefinitionSource {
  /** Returns the current definitions. */
  list(): Definitions;
  /** Returns the definition with this name. Throws `unknown_definition`, with the file's line if the file cannot be used. */
  find(name: string): FoundDefinition;
}

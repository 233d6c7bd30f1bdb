/** Agent definitions as the producer hands them around: what one says, where it was found, what is wrong with a file. Types only. */
import type { Effort } from "./limits.ts";
import type { OutputSchema } from "./output.ts";
import type { PermissionRules } from "./permissions.ts";

/** What a definition hands down; absent fields are inherited from the parent. Tools by the names of this package. */
export interface AgentDefinition {
  name: string;
  /** When to use it; models choose by it. */
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
  /** JSON Schema that an answer must have. */
  output_schema?: OutputSchema | undefined;
  /** Keys of the front matter that mean nothing here. */
  ignored: string[];
}

/** A definition and the file in which it stands; none for one that the package ships. */
export interface FoundDefinition extends AgentDefinition {
  file?: string;
}

/** A file that cannot be used. `line`: from 1. */
export interface DefinitionProblem {
  file: string;
  line: number;
  message: string;
}

/** What the folders hold now. */
export interface Definitions {
  /** By name, sorted. */
  definitions: FoundDefinition[];
  problems: DefinitionProblem[];
}

/** Where definitions come from. */
export interface DefinitionSource {
  /** What there is now. */
  list(): Definitions;
  /** The definition of this name. Throws `unknown_definition`, for a file that cannot be used with its line. */
  find(name: string): FoundDefinition;
}

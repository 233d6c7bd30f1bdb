/** The `skill` tool: loads one of the skills that an agent may use, or one of its files. */
import { z } from "zod";
import { ToolFailure } from "../../shared/errors.ts";
import { SKILL_TOOL } from "../../shared/protocol/permissions.ts";
import { defineTool, type Tool } from "../tools/tool.ts";
import type { Skill, SkillLibrary } from "./library.ts";

const SKILL_FILE = "SKILL.md";
const MOST_LISTED = 100;

const INPUT = z.object({
  name: z.string().describe("Name of the skill, as it is listed"),
  file: z.string().max(1_000).optional().describe("A file of the skill; omit for its instructions"),
});

/** Returns the skills that an agent may use: all, or those of `names`. Sorted by name. */
export function skillsFor(library: SkillLibrary | undefined, names: readonly string[] | undefined): Skill[] {
  return (library?.skills ?? []).filter(({ name }) => !names || names.includes(name));
}

/** Returns the tool for these skills; an empty list if there are none. */
export function skillToolFor(
  library: SkillLibrary | undefined,
  names: readonly string[] | undefined,
): Tool[] {
  const skills = skillsFor(library, names);
  return library && skills.length > 0 ? [skillTool(library, skills)] : [];
}

function skillTool(library: SkillLibrary, skills: readonly Skill[]): Tool {
  return defineTool({
    name: SKILL_TOOL,
    description: "Loads a skill: instructions for a kind of task, and the files that belong to them.",
    input: INPUT,
    idempotent: true,
    usesWorkspace: false,
    async run({ name, file = SKILL_FILE }) {
      const skill = skills.find((each) => each.name === name);
      if (!skill)
        throw new ToolFailure(
          `There is no skill of this name. Use one of: ${skills.map((each) => each.name).join(", ")}.`,
        );
      const text = await library.read(name, file);
      if (text === undefined)
        throw new ToolFailure(`The skill ${name} has no such text file. ${filesOf(skill)}`);
      return file === SKILL_FILE
        ? `${text.replace(/^---\n[\s\S]*?\n---\n*/, "")}\n\n${filesOf(skill)}`
        : text;
    },
  });
}

function filesOf({ files }: Skill): string {
  if (files.length === 0) return "It has no other files.";
  const more = files.length > MOST_LISTED ? ` and ${files.length - MOST_LISTED} more` : "";
  return `Its files, to be loaded by this tool with \`file\`: ${files.slice(0, MOST_LISTED).join(", ")}${more}.`;
}

/**
 * The skills of a worker: folders with a `SKILL.md` (name and description in its front matter) and further files. Folders
 * are read once, when the library is opened; the files of a skill at each request.
 *
 * 1. An unusable skill is a problem with its path, and does not affect the others.
 * 2. Reads are bounded and stay within the skill's folder: no `..`, no links, no special files, no keys.
 */
import { constants } from "node:fs";
import { type FileHandle, open, opendir, stat } from "node:fs/promises";
import { join, posix } from "node:path";
import type { SkillFiles } from "@modelcontextprotocol/server/ext/skills";
import { messageOf, ToolFailure } from "../../shared/errors.ts";
import { isSecret } from "../tools/files/policy.ts";

/** A skill of the library. */
export interface Skill {
  /** At most 64 characters. */
  name: string;
  /** When to use it, on one line; models choose by it. */
  description: string;
  /** Paths of its files within its folder, without `SKILL.md`. */
  files: readonly string[];
}

/** Reason why a skill is not usable. */
export interface SkillProblem {
  path: string;
  message: string;
}

/** See the module's header. */
export interface SkillLibrary {
  /** Sorted by name. */
  readonly skills: readonly Skill[];
  readonly problems: readonly SkillProblem[];
  /** Returns the text of a skill's file, at most 256 KB; undefined if there is none, or it is no text. */
  read(name: string, file: string): Promise<string | undefined>;
}

const SKILL_FILE = "SKILL.md";
const MOST_SKILLS = 128;
const MOST_FILES = 512;
const MOST_BYTES = 256 * 1024;
const MOST_BYTES_PER_SKILL = 16 * 1024 * 1024;
const PLAIN_DESCRIPTION = /^(description:[ \t]+)(?=[^\s"'[{|>&*!])(.*)$/m;
/** Matches what YAML reads as a key or a comment. */
const NEEDS_QUOTES = /: | #|:$/;

/** Opens the skills under `folders`; if two have the same name, the earlier folder wins. Never rejects for a bad skill. */
export async function openSkills(folders: readonly string[]): Promise<SkillLibrary> {
  const { SkillsExtension } = await import("@modelcontextprotocol/server/ext/skills");
  const { nodeSkillFiles } = await import("@modelcontextprotocol/server/ext/skills/node");
  const problems: SkillProblem[] = [];
  const found = new Map<string, { skill: Skill; files: SkillFiles; path: string }>();
  for (const folder of folders) {
    const unusable = new Map<string, string>();
    const files = bounded(folder, nodeSkillFiles(folder), unusable);
    const onWarning = ({ path, message }: SkillProblem) =>
      problems.push({ path: join(folder, path), message: unusable.get(path) ?? message });
    const limits = { files: MOST_FILES, bytes: MOST_BYTES_PER_SKILL };
    try {
      const { entries } = await SkillsExtension.load(files, { onWarning, limits });
      for (const { uri, frontmatter, resources } of entries) {
        const { name, description } = frontmatter;
        const path = within(uri).replace(/\/?SKILL\.md$/, "");
        if (found.has(name))
          problems.push({ path: join(folder, path), message: `there is a skill ${name} already` });
        else if (found.size >= MOST_SKILLS)
          problems.push({ path: join(folder, path), message: `only ${MOST_SKILLS} skills are used` });
        else {
          const paths = (Array.isArray(resources) ? resources : []).map((resource: { uri: string }) =>
            posix.relative(path, within(resource.uri)),
          );
          const skill = {
            name,
            description: description.replace(/\s+/g, " "),
            files: paths.filter((file: string) => file !== SKILL_FILE && !isSecret(file.split("/"))).sort(),
          };
          found.set(name, { skill, files, path });
        }
      }
    } catch (error) {
      problems.push({ path: folder, message: messageOf(error) });
    }
  }
  const skills = [...found.values()].map(({ skill }) => skill).sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    skills,
    problems,
    async read(name, file) {
      const held = found.get(name);
      const isIts = held && (file === SKILL_FILE || held.skill.files.includes(file));
      return isIts ? readText(held.files, posix.join(held.path, file)) : undefined;
    },
  };
}

async function readText(files: SkillFiles, path: string): Promise<string | undefined> {
  try {
    const bytes = await files.read(path);
    return bytes.length > MOST_BYTES ? undefined : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Returns the path that a skill's URI names within its folder. */
function within(uri: string): string {
  return decodeURIComponent(uri.replace(/^skill:\/\//, ""));
}

/**
 * Wraps `files`: entries that are too large, or that this process may not read, count as unsupported, with a message in
 * `unusable`; else one of them would be the end of all skills of the folder. A description with a colon, which is no valid YAML,
 * is put in quotes.
 */
function bounded(folder: string, files: SkillFiles, unusable: Map<string, string>): SkillFiles {
  return {
    async list(path) {
      const entries = await files.list(path);
      const listed: typeof entries = [];
      for (const entry of entries) {
        const problem = await problemOf(join(folder, path, entry.name), entry);
        if (problem !== undefined) unusable.set(posix.join(path, entry.name), `${problem} (skipped)`);
        listed.push(problem === undefined ? entry : { ...entry, kind: "unsupported" });
      }
      return listed;
    },
    async read(path) {
      const handle = await openFile(join(folder, path));
      const bytes = await handle.readFile().finally(() => handle.close());
      if (posix.basename(path) !== SKILL_FILE) return bytes;
      return Buffer.from(withQuotedDescription(bytes.toString("utf8")));
    },
  };
}

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Returns why a file or directory cannot be used; undefined if it can, or if it is of another kind. */
async function problemOf(path: string, { kind }: { kind: string }): Promise<string | undefined> {
  try {
    if (kind === "directory") {
      // Fails if the directory may not be entered.
      await stat(`${path}/.`);
      await (await opendir(path)).close();
    }
    if (kind === "file") await (await openFile(path)).close();
    return undefined;
  } catch (error) {
    return error instanceof ToolFailure ? error.message : `it cannot be read (${messageOf(error)})`;
  }
}

/**
 * Opens a file of a skill; does not wait for the writer of a pipe, which a file may have become since it was listed.
 *
 * @throws {ToolFailure} if it is no regular file, or has too many bytes.
 */
async function openFile(path: string): Promise<FileHandle> {
  const most = posix.basename(path) === SKILL_FILE ? MOST_BYTES : MOST_BYTES_PER_SKILL;
  const handle = await open(path, READ);
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) throw new ToolFailure("it is no regular file");
    if (stat.size <= most) return handle;
    throw new ToolFailure(`${stat.size} bytes are more than the ${most} that it may have`);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function withQuotedDescription(text: string): string {
  const end = text.indexOf("\n---", 3);
  if (end < 0) return text;
  const matter = text
    .slice(0, end)
    .replace(PLAIN_DESCRIPTION, (line, key: string, words: string) =>
      NEEDS_QUOTES.test(words) ? key + JSON.stringify(words.trim()) : line,
    );
  return matter + text.slice(end);
}

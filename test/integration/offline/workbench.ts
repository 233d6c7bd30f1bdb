/** A workspace of real files with the five tools, and the loop that a sub-agent runs: the smallest honest client. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import type Anthropic from "@anthropic-ai/sdk";
import picomatch from "picomatch";

export type Files = Record<string, string>;
type Params = Anthropic.MessageCreateParamsNonStreaming;

export interface Workbench {
  directory: string;
  write(files: Files): Promise<void>;
  read(path: string): Promise<string>;
  run(name: string, input: unknown): Promise<{ content: string; is_error: boolean }>;
  remove(): Promise<void>;
}

export interface Finished {
  text: string;
  turns: Anthropic.Message[];
  messages: Anthropic.MessageParam[];
}

const TOOL_NAMES = ["read_file", "write_file", "edit_file", "glob", "grep"];

export function toolsNamed(names: string[] = TOOL_NAMES): Anthropic.Tool[] {
  return names.map((name) => ({ name, description: `The ${name} tool.`, input_schema: { type: "object" } }));
}

export async function createWorkbench(files: Files = {}): Promise<Workbench> {
  const directory = await mkdtemp(join(tmpdir(), "offline-workbench-"));
  const resolve = (path: string): string => (path.startsWith("/") ? path : join(directory, path));
  const bench: Workbench = {
    directory,
    async write(more) {
      for (const [path, text] of Object.entries(more)) {
        await mkdir(dirname(resolve(path)), { recursive: true });
        await writeFile(resolve(path), text);
      }
    },
    read: (path) => readFile(resolve(path), "utf8"),
    async run(name, input) {
      try {
        return { content: await execute(name, Object(input), resolve, bench), is_error: false };
      } catch (error) {
        return {
          content: `${name}: ${error instanceof Error ? error.message : String(error)}`,
          is_error: true,
        };
      }
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  };
  await bench.write(files);
  return bench;
}

async function execute(
  name: string,
  input: Record<string, string | undefined>,
  resolve: (path: string) => string,
  bench: Workbench,
): Promise<string> {
  const base = resolve(input.path ?? ".");
  const shown = (path: string): string =>
    input.path?.startsWith("/") ? path : relative(bench.directory, path);
  if (name === "read_file") return readFile(resolve(input.file_path ?? ""), "utf8");
  if (name === "write_file") {
    await bench.write({ [input.file_path ?? ""]: input.content ?? "" });
    return `wrote ${input.file_path}`;
  }
  const paths = await allFiles(base);
  if (name === "glob") {
    const matches = picomatch(input.pattern ?? "**/*", { dot: true });
    return (
      paths
        .filter((path) => matches(relative(base, path)))
        .map(shown)
        .join("\n") || "no matches"
    );
  }
  const pattern = new RegExp(input.pattern ?? "");
  const hits: string[] = [];
  for (const path of paths) {
    (await readFile(path, "utf8")).split("\n").forEach((line, index) => {
      if (pattern.test(line)) hits.push(`${shown(path)}:${index + 1}:${line}`);
    });
  }
  return hits.join("\n") || "no matches";
}

async function allFiles(base: string): Promise<string[]> {
  const entries = await readdir(base, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

/** Runs the loop until the model stops asking for tools. `choice` may force the final call on a given turn. */
export async function converse(
  client: Anthropic,
  bench: Workbench,
  start: string | Anthropic.MessageParam[],
  options: {
    system?: string;
    tools?: Anthropic.Tool[];
    finalCallAtTurn?: number;
    extra?: Partial<Params>;
  } = {},
): Promise<Finished> {
  const messages: Anthropic.MessageParam[] =
    typeof start === "string" ? [{ role: "user", content: start }] : [...start];
  const turns: Anthropic.Message[] = [];
  const tools = options.tools ?? toolsNamed();
  for (let turn = 1; turn <= 30; turn += 1) {
    const message = await client.messages.create({
      model: "offline-1",
      max_tokens: 8000,
      messages,
      ...(tools.length > 0 ? { tools } : {}),
      ...(options.system === undefined ? {} : { system: options.system }),
      ...(options.finalCallAtTurn === turn ? { tool_choice: { type: "none" } } : {}),
      ...options.extra,
    });
    turns.push(message);
    messages.push({ role: "assistant", content: message.content });
    const calls = message.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) {
      const text = message.content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("");
      return { text, turns, messages };
    }
    const results = await Promise.all(
      calls.map(async (call) => ({
        type: "tool_result" as const,
        tool_use_id: call.id,
        ...(await bench.run(call.name, call.input)),
      })),
    );
    messages.push({ role: "user", content: results });
  }
  throw new Error("The conversation did not end within 30 turns.");
}

/** Names of the tools that were called, turn by turn. */
export function callsByTurn(finished: Finished): string[][] {
  return finished.turns.map((turn) =>
    turn.content.flatMap((block) => (block.type === "tool_use" ? [block.name] : [])),
  );
}

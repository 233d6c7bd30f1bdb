/** Every recipe does what it says: each runs as it stands, against a Redis, a worker and an API of its own. */
import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { createApi } from "../src/service/api/api.ts";
import { createIntake } from "../src/service/intake/intake.ts";
import { mcpMount } from "../src/service/mcp/mount.ts";
import { createLogger } from "../src/shared/logger.ts";
import { createApiKeys } from "../src/shared/redis/api-keys.ts";
import { bundled } from "./helpers/bundle.ts";
import { closeAtEnd } from "./helpers/cleanup.ts";
import { openStage, type Stage } from "./stage/stage.ts";

const RECIPES = join(import.meta.dirname, "..", "examples", "recipes");
const MAX_LINES = 10;
const ROOT = join(import.meta.dirname, "..");
const read = (name: string) => readFileSync(join(RECIPES, name), "utf8");
const recipes = readdirSync(RECIPES).filter((name) => name !== "README.md");

let stage: Stage;
let env: Record<string, string>;
/** Holds a `subagent-queue` that runs this source. */
const bin = mkdtempSync(join(tmpdir(), "recipes-"));
afterAll(() => rmSync(bin, { recursive: true, force: true }));

beforeAll(async () => {
  stage = await openStage({
    redis: "own",
    prefix: "saq",
    scenario: [
      {
        match: { user: "Ask a sub-agent" },
        turns: [
          { content: [{ type: "tool_use", name: "task", input: { prompt: "say hello" } }] },
          { content: [{ type: "text", text: "It said: {{last_tool_result}}" }] },
        ],
      },
      { turns: [{ content: [{ type: "text", text: "hello from a sub-agent" }] }] },
    ],
  });
  const logger = createLogger({ level: "silent" });
  await stage.startWorker();
  const client = stage.client();
  const intake = createIntake({ redisUrl: stage.url, prefix: "saq", client, logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const { token } = await createApiKeys(stage.redis, stage.keys).create({
    tenant: "default",
    name: "recipes",
    scope: "spawn",
  });
  const api = createApi({ client, mounts: [mcpMount()], logger });
  closeAtEnd(() => api.stop());
  await api.start();
  const cli = join(bin, "subagent-queue");
  writeFileSync(
    cli,
    `#!/bin/sh\ncd '${ROOT}' && exec '${process.execPath}' '${await bundled("src/cli/main.ts")}' "$@"\n`,
  );
  chmodSync(cli, 0o755);
  env = {
    PATH: `${bin}:${process.env.PATH}`,
    API: api.url,
    KEY: token,
    REDIS: stage.url.replace("redis://", ""),
    REDIS_URL: stage.url,
    ANTHROPIC_BASE_URL: stage.offline.url,
    ANTHROPIC_API_KEY: "offline",
  };
});

async function run(command: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd: ROOT, env, timeout: 60_000 });
  return stdout;
}

const runProgram = async (name: string) => run(process.execPath, await bundled(join(RECIPES, name)));

test("each has at most ten lines, and each is run by a test below", () => {
  const tested = readFileSync(import.meta.filename, "utf8");
  for (const name of recipes) {
    expect(read(name).trimEnd().split("\n").length, name).toBeLessThanOrEqual(MAX_LINES);
    expect(tested, name).toContain(`"${name}"`);
  }
});

test("the shell's prints the reply as JSON", async () => {
  const reply = JSON.parse(await run("sh", join(RECIPES, "curl.sh")));
  expect(reply).toMatchObject({ status: "succeeded", summary: "hello from a sub-agent" });
});

test.for(["xadd.py", "task.py"])(
  "%s prints the summary, with nothing but the standard library",
  async (name) => {
    expect(await run("python3", join(RECIPES, name))).toBe(
      name === "xadd.py" ? "hello from a sub-agent\r\n\n" : "hello from a sub-agent\n",
    );
  },
);

test("Perl's prints the summary, with nothing but its own modules", async () => {
  expect(await run("perl", join(RECIPES, "http.pl"))).toBe("hello from a sub-agent\n");
});

test("an agent of the AI SDK gets its sub-agents with one line", async () => {
  expect(await runProgram("ai-sdk.ts")).toContain("It said: hello from a sub-agent");
});

test("an agent of LangChain gets its sub-agents with one line", async () => {
  expect(await runProgram("langchain.ts")).toBe("hello from a sub-agent\n");
});

test("both entries of an MCP client's configuration connect and list the tools", async () => {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const Entry = z.object({ command: z.string(), args: z.array(z.string()) });
  const Configuration = z.object({
    mcpServers: z.object({ subagents: Entry, "subagents-over-http": z.object({ url: z.url() }) }),
  });
  const { mcpServers } = Configuration.parse(JSON.parse(read("mcp.json")));
  const { pathname, search } = new URL(mcpServers["subagents-over-http"].url);
  const headers = { Authorization: `Bearer ${env.KEY}` };
  const transports = [
    new StdioClientTransport({ ...mcpServers.subagents, env }),
    new StreamableHTTPClientTransport(new URL(`${pathname}${search}`, env.API), { requestInit: { headers } }),
  ];
  for (const transport of transports) {
    const client = new Client({ name: "recipes", version: "1" });
    await client.connect(transport);
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain("task");
    await client.close();
  }
});

test("the line of crontab leaves a reply in its parent's channel", async () => {
  const line =
    read("crontab")
      .split("\n")
      .find((each) => /^\d/.test(each)) ?? "";
  const command = line.split(/\s+/).slice(5).join(" ");
  expect(await run("sh", "-c", command)).toBe("morning_report\n");
  expect(await stage.parent("cron").waitAny(["morning_report"])).toMatchObject({ status: "succeeded" });
});

test("the step of the workflow prints the reply", async () => {
  const Workflow = z.object({
    jobs: z.object({ review: z.object({ steps: z.array(z.object({ run: z.string() })) }) }),
  });
  const [step] = Workflow.parse(parse(read("workflow.yml"))).jobs.review.steps;
  expect(JSON.parse(await run("sh", "-c", step?.run ?? ""))).toMatchObject({ status: "succeeded" });
});

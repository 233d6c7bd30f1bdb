import { expect, test } from "vitest";
import { renderBanner } from "../../../../src/cli/terminal/banner.ts";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { cells } from "../../../../src/cli/terminal/text.ts";
import { loadConfig } from "../../../../src/shared/config.ts";

const style = createStyle(false);
const facts = (env: Record<string, string> = {}) => ({
  version: "1.2.3",
  config: loadConfig(env, { cwd: "/srv" }),
  redis: "redis://127.0.0.1:6379 (7.0.15)",
  roots: [{ path: "/srv/repo", realPath: "/srv/repo", mode: "ro" as const }],
});

test("the banner says plainly that the offline model is not an LLM", () => {
  expect(renderBanner(facts(), 200, style)).toEqual([
    "subagent-queue 1.2.3",
    "  Redis        redis://127.0.0.1:6379 (7.0.15)",
    "  Model        offline model: answers by rule, NOT an LLM; set ANTHROPIC_API_KEY for a real one",
    "  Workspaces   /srv/.subagent-queue/workspaces",
    "  Directories  /srv/repo (read-only)",
    "",
  ]);
});

test("how commands run stands below the directories", () => {
  const bash = "bash runs in bubblewrap, without network.";
  expect(renderBanner({ ...facts(), bash }, 200, style)).toContain(`  Commands     ${bash}`);
});

test("a provider is named by its model and address, never by its secrets", () => {
  const text = renderBanner(
    facts({ ANTHROPIC_API_KEY: "sk-canary", ANTHROPIC_BASE_URL: "https://me:canary@models.example.org" }),
    200,
    style,
  ).join("\n");
  expect(text).toContain("claude-sonnet-5-5 at https://***@models.example.org");
  expect(text).not.toContain("canary");
});

test.each([
  ["offline-1", "offline-1", "the workers have the offline model: it answers by rule, NOT an LLM"],
  ["claude-opus-5-5", "claude-opus-5-5", "claude-opus-5-5, answered by the workers' provider"],
  [undefined, "offline-1", "offline-1: no model is set here or by the workers; set SUBAGENT_MODEL"],
])(
  "workers of others that announce %s are named instead of what this command has",
  (announced, model, text) => {
    const worker = { v: 1 as const, id: "w", host: "h", version: "1", tools: [], concurrency: 1 };
    const one = { ...worker, ...(announced && { model: announced }) };
    const others = { workers: [one, one], on: "redis://***@host", model };
    expect(renderBanner({ ...facts(), others }, 200, style)).toEqual([
      "subagent-queue 1.2.3",
      "  Redis        redis://127.0.0.1:6379 (7.0.15)",
      "  Workers      2 workers on redis://***@host, none started here",
      `  Model        ${text}`,
      "  Directories  those of the workers, not this one",
      "",
    ]);
  },
);

test("no line is wider than the terminal", () => {
  for (const line of renderBanner(facts(), 60, style)) expect(cells(line)).toBeLessThan(60);
});

test("what a sub-agent may do to this machine stands out: a directory to write to, and commands without a sandbox", () => {
  const roots = [{ path: "/srv/data", realPath: "/srv/data", mode: "rw" as const }];
  expect(renderBanner({ ...facts(), roots }, 200, style)).toContain(
    "  Directories  /srv/data (read and write)",
  );
  const bold = createStyle(true);
  const commands = (mode: string) =>
    renderBanner({ ...facts({ SUBAGENT_BASH: mode }), bash: "bash runs." }, 200, bold).find((line) =>
      line.includes("bash runs."),
    );
  expect(commands("unsandboxed")).toContain(bold("bold", "bash runs."));
  expect(commands("bubblewrap")).not.toContain(bold("bold", "bash runs."));
});

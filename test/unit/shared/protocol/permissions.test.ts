import { describe, expect, test } from "vitest";
import { PermissionRules, permissionFor } from "../../../../src/shared/protocol/permissions.ts";

const verdict = (rules: PermissionRules | PermissionRules[], tool: string, input: unknown) =>
  permissionFor([rules].flat(), tool, input).verdict;
const bash = (command: string) => ["bash", { command }] as const;

describe("rules", () => {
  test("deny wins over ask, ask over allow, wherever they stand", () => {
    const rules = { allow: ["bash"], ask: ["bash(git push*)"], deny: ["bash(git push --force*)"] };
    expect(verdict(rules, ...bash("git status"))).toBe("allow");
    expect(verdict(rules, ...bash("git push origin"))).toBe("ask");
    expect(verdict(rules, ...bash("git push --force"))).toBe("deny");
  });

  test("a list of what is allowed is all that is allowed; without one everything else is", () => {
    expect(verdict({ allow: ["read_file"] }, "write_file", { file_path: "a" })).toBe("deny");
    expect(verdict({ deny: ["bash"] }, "write_file", { file_path: "a" })).toBe("allow");
    expect(verdict({ allow: ["read_file"], default: "ask" }, "write_file", {})).toBe("ask");
  });

  test("a later layer narrows and never widens", () => {
    expect(verdict([{ deny: ["bash"] }, { allow: ["bash"] }], ...bash("ls"))).toBe("deny");
    expect(verdict([{ allow: ["bash"] }, { ask: ["bash"] }], ...bash("ls"))).toBe("ask");
  });

  test("common names and patterns of names are understood", () => {
    expect(verdict({ deny: ["Bash(git:*)"] }, ...bash("git log"))).toBe("deny");
    expect(verdict({ deny: ["Read"] }, "read_file", { file_path: "a" })).toBe("deny");
    expect(verdict({ deny: ["mcp__github__*"] }, "mcp__github__merge", {})).toBe("deny");
    expect(verdict({ deny: ["mcp__github__*"] }, "mcp__gitlab__merge", {})).toBe("allow");
  });

  test("a rule that is none is refused when it is read", () => {
    for (const rule of ["", "bash(", "(git *)", "bash git", "x".repeat(400)])
      expect(PermissionRules.safeParse({ deny: [rule] }).success, rule).toBe(false);
  });
});

describe("commands", () => {
  const git = { allow: ["bash(git *)"] };

  test.for([
    "git status",
    "git",
    "git log --oneline",
    'git commit -m "a; b"',
    "git add . && git commit",
    "git diff 'a b'",
  ])("%s is git alone", (command) => expect(verdict(git, ...bash(command))).toBe("allow"));

  test.for([
    "git status; rm -rf .",
    "git status && rm x",
    "git status | sh",
    "git status & rm x",
    "git status\nrm x",
    "git $(rm x)",
    "git `rm x`",
    'git "$(rm x)"',
    "git $X",
    "git > .bashrc",
    "git < x",
    "(git status)",
    "{ git status; }",
    "gitx status",
    "git 'unclosed",
    "PAGER=sh git log",
    "./git status",
    "git <(rm x)",
    `git ${"x".repeat(5_000)}`,
  ])("%s is more than git", (command) => expect(verdict(git, ...bash(command))).toBe("deny"));

  test.for([
    "rm x",
    "/bin/rm x",
    "ls; rm x",
    "ls && rm x",
    "r'm' x",
    "r\\m x",
    '"rm" x',
    "X=1 rm x",
    "ls | rm x",
    "echo $(rm x)",
    "echo `rm x`",
    "(rm x)",
    "rm   x",
    "rm",
    `rm ${"x".repeat(5_000)}`,
  ])("%s is refused where rm is", (command) =>
    expect(verdict({ deny: ["bash(rm *)"] }, ...bash(command))).toBe("deny"),
  );

  test("what is refused by name leaves the rest alone", () => {
    expect(verdict({ deny: ["bash(rm *)"] }, ...bash("ls -l rm.txt"))).toBe("allow");
  });
});

describe("paths", () => {
  const secrets = { deny: ["read_file(secrets/**)", "read_file(.env*)"] };

  test.for([
    "secrets/key",
    "./secrets/key",
    "a/../secrets/key",
    "secrets//key",
    "/srv/repo/secrets/key",
    ".env",
    "app/.env.local",
  ])("%s is refused", (file_path) => expect(verdict(secrets, "read_file", { file_path })).toBe("deny"));

  test.for(["src/secrets.ts", "secretsx/key", "env", "docs/a.env"])("%s is not", (file_path) =>
    expect(verdict(secrets, "read_file", { file_path })).toBe("allow"),
  );

  test("one star stays within a directory, two go on", () => {
    const docs = (pattern: string) => (file_path: string) =>
      verdict({ allow: [`write_file(${pattern})`] }, "write_file", { file_path });
    expect(docs("docs/*")("docs/a.md")).toBe("allow");
    expect(docs("docs/*")("docs/a/b.md")).toBe("deny");
    expect(docs("docs/**")("docs/a/b.md")).toBe("allow");
    expect(docs("docs/**")("docs/../src/a.ts")).toBe("deny");
    expect(docs("**/*.md")("a.md")).toBe("allow");
    expect(docs("*.md")("deep/down/a.md")).toBe("allow");
  });

  test("a search that begins above what is refused is refused, too", () => {
    const rules = { deny: ["grep(secrets/**)"] };
    expect(verdict(rules, "grep", { pattern: "key" })).toBe("deny");
    expect(verdict(rules, "grep", { pattern: "key", path: "secrets/a" })).toBe("deny");
    expect(verdict(rules, "grep", { pattern: "key", path: "src" })).toBe("allow");
  });
});

test("what a tool of one's own gets is matched as its only text, or as JSON", () => {
  expect(verdict({ deny: ["fetch(https://internal*)"] }, "fetch", { url: "https://internal/x" })).toBe(
    "deny",
  );
  expect(verdict({ deny: ['pay(*"amount":1000*)'] }, "pay", { amount: 1000, to: "x" })).toBe("deny");
  expect(verdict({ deny: ["pay(*)"] }, "pay", null)).toBe("deny");
});

test("the worst pattern against the longest text is done at once", () => {
  const rules = { deny: [`bash(${"*a".repeat(127)}b)`] };
  const before = process.cpuUsage();
  expect(verdict(rules, ...bash("a".repeat(4_000)))).toBe("allow");
  expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
});
